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

/// Defines the codes, one line each.
macro_rules! codes {
    ($($name:ident = $number:literal, $meaning:literal;)*) => {
        /// The stable name of a kind of finding. Codes are never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// Every code in order of number, for the reference page.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The number and one sentence on what it means.
            pub fn describe(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$name => ($number, $meaning),)*
                }
            }
        }
    };
}

codes! {
    Syntax = "TP1001", "The text is not valid JSON.";
    WrongType = "TP1002", "A field holds a value of another type.";
    BadText = "TP1003", "A text does not have the form its field needs.";
    OutOfRange = "TP1004", "A number lies outside its limits.";
    OutOfOrder = "TP1005", "Two bounds are the wrong way round.";
    UnknownPolicy = "TP1006", "A policy name is not known; its default applies.";
    UnknownField = "TP1007", "A field is not known and has no effect.";
    UnknownKey = "TP1008", "A data key is not known and has no effect.";
    EmptySelector = "TP1009", "A node entry selects no node, or every node.";
    BadSelector = "TP1010", "A label selector cannot be evaluated.";
    Overlap = "TP1011", "Two node entries select the same node.";
    EntryName = "TP1012", "A node entry's name is missing or taken.";
    NetworkBudget = "TP1013", "Network shares add up to more than there is.";
    NoEffect = "TP1014", "A setting cannot take effect where it stands.";
    AgentRefuses = "TP1015", "The node agent does not act on this value.";
    DuplicateField = "TP1016", "A field is given twice; the last one counts.";
    FieldCase = "TP1017", "A field's name differs in case from the real one.";
    HostApplicationPriority = "TP1018", "A host application has no priority; its QoS class decides.";
    NodeStrategy = "TP1101", "A node's colocation-strategy annotation is not used.";
    NodeRatio = "TP1102", "A node's ratio label is not used.";
    LabelAsAnnotation = "TP1103", "A label's key stands among the annotations, where nobody reads it.";
    ThirdParty = "TP1104", "A node's thirdPartyAllocations cannot be read; the node lends no more than it did.";
    NodeReservation = "TP1105", "A node's reservation is not used.";
    NodeBandwidth = "TP1106", "A node's network-bandwidth is not a quantity.";
    NormalizationSwitch = "TP1107", "A node's cpu-normalization-enabled is not a boolean.";
    UsageThresholds = "TP1108", "A node's usage-thresholds are not used.";
    NodeWord = "TP1109", "A node's label holds an unknown word and counts as absent.";
    SystemQos = "TP1110", "A node's system-qos-resource is not used.";
    UnknownQos = "TP1201", "A pod's QoS label is not a QoS class and counts as absent.";
    UnknownPriorityClass = "TP1202", "A pod's priority-class label is not a class; the pod has none.";
    ForbiddenCombination = "TP1203", "QoS class and priority class of a pod exclude each other.";
    PointlessCombination = "TP1204", "QoS class and priority class of a pod work against each other.";
    BatchNeedsBestEffort = "TP1205", "A pod asks for batch resources without QoS class BE.";
    WholeCpus = "TP1206", "An LSE or LSR pod does not ask for whole CPUs.";
    RequestIsNotLimit = "TP1207", "Requests and limits of an LSE or LSR pod differ.";
    Immutable = "TP1208", "A pod's class or priority was changed after its creation.";
    ProfilePriorityClass = "TP1209", "A profile names a PriorityClass that does not exist.";
    ProfileProbability = "TP1210", "A profile's probability is not a percentage.";
    ProfilePatch = "TP1211", "A profile's patch does not fit a pod.";
    SchedulingAnnotation = "TP1212", "A pod's scheduling annotation cannot be read; the pod stays pending.";
    AgentAnnotation = "TP1213", "A pod's annotation for the node agent is not used.";
    GroupIdentity = "TP1214", "A pod's CPU group identity is not one of -1 to 2.";
    EvictionPolicy = "TP1215", "A pod's eviction-policy cannot be read; no node feature evicts it.";
    PodNumber = "TP1216", "A number on a pod cannot be read; its default counts.";
    GangSize = "TP1217", "A gang has no readable minimum; its pods stay pending.";
    DeviceRequest = "TP1218", "A pod's device requests do not go together.";
    ReservePod = "TP1219", "A pod carries the mark of the scheduler's own stand-ins.";
    ParentQuota = "TP1220", "A pod counts against a quota that is a parent of others.";
    ReservationShape = "TP1301", "A reservation lacks owners or a template.";
    OwnerSelector = "TP1302", "A reservation's owner can never match.";
    QuotaBounds = "TP1303", "Bounds of a quota contradict each other.";
    QuotaParent = "TP1304", "A quota's parent does not exist or is not a parent.";
    QuotaKeys = "TP1305", "Resources of a quota and of its relatives differ.";
    QuotaSum = "TP1306", "Minimums of quotas add up to more than their parent's.";
    QuotaTree = "TP1307", "A quota's tree cannot be changed, nor differ from its relatives'.";
    QuotaNamespace = "TP1308", "A namespace belongs to two quotas.";
    QuotaBuiltIn = "TP1309", "A built-in quota cannot be changed or deleted.";
    QuotaInUse = "TP1310", "A quota is in use by pods or other quotas.";
    QuotaUsed = "TP1311", "A quota's maximum is below what is used.";
    QuotaName = "TP1312", "A quota's name is taken.";
    QuotaGuarantee = "TP1313", "No ancestor of a quota has room for its guarantee.";
    PodRef = "TP1314", "A migration job does not say which pod to move.";
    ResourceRatio = "TP1315", "A quota profile's ratio is not above 0 and at most 1.";
    QuotaUnknown = "TP1316", "A quota that is changed or deleted is not known.";
    ConfigVersion = "TP1401", "A file is not of a kind and version that can be read.";
    UnknownPlugin = "TP1402", "A scheduler plugin is not known.";
    NotImplemented = "TP1403", "Something is not implemented yet and is ignored.";
    PluginPlace = "TP1404", "A scheduler plugin cannot stand where it is named.";
    ProfileShape = "TP1405", "Scheduler profiles contradict each other or themselves.";
    LostBenefit = "TP1501", "What the console had counted cannot be read; it counts anew.";
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
