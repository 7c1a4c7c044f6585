//! What is wrong with something a person wrote, where, and what to do about it.
//!
//! A finding is data: the admission webhook, `tidepool config check`, events on
//! objects and the node daemon all show the same one. Functions that check
//! something return every finding, not only the first, and a finding in one key
//! says nothing about the others.
//!
//! ```text
//! error TP1004: ConfigMap koordinator-system/slo-controller-config, key resource-threshold-config, line 3 column 36
//!   clusterStrategy.cpuSuppressThresholdPercent = 650: must be between 0 and 100
//!   fix: use 65, the default, or remove the field
//! ```

use std::fmt;

use serde::{Serialize, Serializer};

/// Does the value stop something from taking effect, or is it only suspicious?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// A place in a text. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

/// One thing that is wrong or suspicious.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub code: Code,
    pub severity: Severity,
    /// Kind and name, as a person would say it: `Node n1`, `Pod default/web`.
    pub object: String,
    /// The data key, annotation or label that holds the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where inside the text under `key`.
    #[serde(flatten)]
    pub at: Option<Position>,
    /// The field, as a path from the root of that text or of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What was found there, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What would have been right.
    pub rule: String,
    /// The way out.
    pub fix: String,
}

impl Finding {
    pub fn error(code: Code, rule: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, rule.into(), fix.into())
    }

    pub fn warning(code: Code, rule: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, rule.into(), fix.into())
    }

    fn new(code: Code, severity: Severity, rule: String, fix: String) -> Self {
        Self {
            code,
            severity,
            object: String::new(),
            key: None,
            at: None,
            path: None,
            value: None,
            rule,
            fix,
        }
    }

    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.at = Some(position);
        self
    }

    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into()).filter(|path| !path.is_empty());
        self
    }

    #[must_use]
    pub fn value(mut self, value: impl Into<String>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// Names the object, and the key inside it when there is one.
    #[must_use]
    pub fn on(mut self, object: &str, key: Option<&str>) -> Self {
        object.clone_into(&mut self.object);
        self.key = key.map(str::to_owned);
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.code, self.object)?;
        if let Some(key) = &self.key {
            write!(f, ", key {key}")?;
        }
        if let Some(at) = self.at {
            write!(f, ", {at}")?;
        }
        f.write_str("\n  ")?;
        match (&self.path, &self.value) {
            (Some(path), Some(value)) => write!(f, "{path} = {value}: ")?,
            (Some(path), None) => write!(f, "{path}: ")?,
            (None, Some(value)) => write!(f, "found {value}: ")?,
            (None, None) => {}
        }
        write!(f, "{}\n  fix: {}", self.rule, self.fix)
    }
}

/// The stable name of a kind of finding. Codes are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    Syntax,
    WrongType,
    BadText,
    OutOfRange,
    OutOfOrder,
    UnknownPolicy,
    UnknownField,
    UnknownKey,
    EmptySelector,
    BadSelector,
    Overlap,
    EntryName,
    NetworkBudget,
    NoEffect,
    AgentRefuses,
    DuplicateField,
    FieldCase,
    HostApplicationPriority,
}

impl Code {
    /// Every code in order of number, for the reference page.
    pub const ALL: &[Self] = &[
        Self::Syntax,
        Self::WrongType,
        Self::BadText,
        Self::OutOfRange,
        Self::OutOfOrder,
        Self::UnknownPolicy,
        Self::UnknownField,
        Self::UnknownKey,
        Self::EmptySelector,
        Self::BadSelector,
        Self::Overlap,
        Self::EntryName,
        Self::NetworkBudget,
        Self::NoEffect,
        Self::AgentRefuses,
        Self::DuplicateField,
        Self::FieldCase,
        Self::HostApplicationPriority,
    ];

    /// The number and one sentence on what it means.
    pub fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Syntax => ("TP1001", "The text is not valid JSON."),
            Self::WrongType => ("TP1002", "A field holds a value of another type."),
            Self::BadText => ("TP1003", "A text does not have the form its field needs."),
            Self::OutOfRange => ("TP1004", "A number lies outside its limits."),
            Self::OutOfOrder => ("TP1005", "Two bounds are the wrong way round."),
            Self::UnknownPolicy => ("TP1006", "A policy name is not known; its default applies."),
            Self::UnknownField => ("TP1007", "A field is not known and has no effect."),
            Self::UnknownKey => ("TP1008", "A data key is not known and has no effect."),
            Self::EmptySelector => ("TP1009", "A node entry selects no node, or every node."),
            Self::BadSelector => ("TP1010", "A label selector cannot be evaluated."),
            Self::Overlap => ("TP1011", "Two node entries select the same node."),
            Self::EntryName => ("TP1012", "A node entry's name is missing or taken."),
            Self::NetworkBudget => ("TP1013", "Network shares add up to more than there is."),
            Self::NoEffect => ("TP1014", "A setting cannot take effect where it stands."),
            Self::AgentRefuses => ("TP1015", "The node agent does not act on this value."),
            Self::DuplicateField => ("TP1016", "A field is given twice; the last one counts."),
            Self::FieldCase => ("TP1017", "A field's name differs in case from the real one."),
            Self::HostApplicationPriority => {
                ("TP1018", "A host application has no priority; its QoS class decides.")
            }
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe().0)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.describe().0)
    }
}

/// The reference page that lists every code.
pub fn reference_page() -> String {
    let mut page = String::from(
        "# Findings\n\n\
         What `tidepool config check`, the admission webhooks and events on objects report. A code\n\
         keeps its meaning for ever.\n\n\
         | code | meaning |\n|---|---|\n",
    );
    for code in Code::ALL {
        let (number, meaning) = code.describe();
        page += &format!("| {number} | {meaning} |\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_listed_once_and_in_order() {
        let numbers: Vec<&str> = Code::ALL.iter().map(|code| code.describe().0).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
}
