//! Findings of validation, worded as kube-apiserver words them.
//!
//! [`Path`] is a chain of borrowed steps on the stack, so that walking a valid object allocates nothing;
//! text is made only when there is something to report.

use std::fmt;

use serde_json::Value;

/// One entry of `status.details.causes` in a 422 answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Path as kube-apiserver prints it: `spec.containers[0].name`, `metadata.labels`.
    pub field: String,
    pub reason: Reason,
    /// Without the field: `Required value`, `Invalid value: "x": must be ...`.
    pub message: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.field, self.message)
    }
}

/// The machine-readable reason of a [`Cause`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
    Internal,
}

impl Reason {
    /// The value on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    /// How messages with this reason begin.
    fn title(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

/// Where in an object a check is.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl Path<'static> {
    pub(super) const ROOT: Self = Self { parent: None, step: Step::Root };
}

impl<'a> Path<'a> {
    pub(super) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(name) }
    }

    /// An entry of a map, printed as `[name]`.
    pub(super) fn key(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(name) }
    }

    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// Number of steps from the root.
    pub(super) fn depth(&self) -> usize {
        self.parent.map_or(0, |parent| parent.depth() + 1)
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(out)?;
            if matches!(self.step, Step::Field(_)) && !parent.is_root() {
                out.write_str(".")?;
            }
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) => out.write_str(name),
            Step::Key(name) => write!(out, "[{name}]"),
            Step::Index(index) => write!(out, "[{index}]"),
        }
    }
}

/// Collects causes in the order they are found.
#[derive(Debug, Default)]
pub(super) struct Causes {
    found: Vec<Cause>,
}

impl Causes {
    pub(super) fn into_vec(self) -> Vec<Cause> {
        self.found
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Cause> {
        self.found.iter()
    }

    pub(super) fn append(&mut self, mut other: Causes) {
        self.found.append(&mut other.found);
    }

    /// Orders findings by their text, where the reference does so too.
    pub(super) fn sort(&mut self) {
        self.found.sort_by_cached_key(ToString::to_string);
    }

    /// Adds findings whose paths start at `path`.
    pub(super) fn append_below(&mut self, path: &Path<'_>, other: Causes) {
        for mut cause in other.found {
            let dot = if cause.field.starts_with('[') { "" } else { "." };
            cause.field = match cause.field.as_str() {
                "<nil>" => path.to_string(),
                below => format!("{path}{dot}{below}"),
            };
            self.found.push(cause);
        }
    }

    pub(super) fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.push(path, Reason::Required, None, detail);
    }

    pub(super) fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.push(path, Reason::Forbidden, None, detail);
    }

    pub(super) fn invalid(&mut self, path: &Path<'_>, value: &Value, detail: &str) {
        self.push(path, Reason::Invalid, Some(&rendered(value)), detail);
    }

    pub(super) fn invalid_text(&mut self, path: &Path<'_>, value: &str, detail: &str) {
        self.push(path, Reason::Invalid, Some(&quoted(value)), detail);
    }

    /// Invalid, without showing the value.
    pub(super) fn invalid_hidden(&mut self, path: &Path<'_>, reason: Reason, detail: &str) {
        self.push(path, reason, None, detail);
    }

    pub(super) fn invalid_type(&mut self, path: &Path<'_>, value: &Value, detail: &str) {
        self.push(path, Reason::TypeInvalid, Some(&rendered(value)), detail);
    }

    pub(super) fn duplicate(&mut self, path: &Path<'_>, value: &Value) {
        self.push(path, Reason::Duplicate, Some(&rendered(value)), "");
    }

    pub(super) fn not_found(&mut self, path: &Path<'_>, value: &Value) {
        self.push(path, Reason::NotFound, Some(&rendered(value)), "");
    }

    pub(super) fn not_supported(&mut self, path: &Path<'_>, value: &Value, supported: &[&str]) {
        let mut detail = String::new();
        for (position, value) in supported.iter().enumerate() {
            detail.push_str(if position == 0 { "supported values: " } else { ", " });
            detail.push_str(&quoted(value));
        }
        self.push(path, Reason::NotSupported, Some(&rendered(value)), &detail);
    }

    pub(super) fn too_long(&mut self, path: &Path<'_>, limit: u64) {
        self.push(path, Reason::TooLong, None, &format!("may not be more than {limit} bytes"));
    }

    pub(super) fn too_many(&mut self, path: &Path<'_>, actual: usize, limit: u64) {
        let detail = format!("must have at most {limit} items");
        self.push(path, Reason::TooMany, Some(&actual.to_string()), &detail);
    }

    /// A cause with a reason chosen by the caller, with the value shown.
    pub(super) fn with_reason(
        &mut self,
        path: &Path<'_>,
        reason: Reason,
        value: &Value,
        detail: &str,
    ) {
        let shown = rendered(value);
        let hides_value = matches!(
            reason,
            Reason::Required | Reason::Forbidden | Reason::TooLong | Reason::Internal
        );
        self.push(path, reason, (!hides_value).then_some(shown.as_str()), detail);
    }

    fn push(&mut self, path: &Path<'_>, reason: Reason, value: Option<&str>, detail: &str) {
        let mut message = reason.title().to_owned();
        if let Some(value) = value {
            message.push_str(": ");
            message.push_str(value);
        }
        if !detail.is_empty() {
            message.push_str(": ");
            message.push_str(detail);
        }
        // A finding about the whole object has no field; the reference prints Go's nil for it.
        let field = if path.is_root() { "<nil>".to_owned() } else { path.to_string() };
        self.found.push(Cause { field, reason, message });
    }
}

/// A value as messages show it: numbers and composite values as JSON, strings quoted.
fn rendered(value: &Value) -> String {
    match value {
        Value::Null => "\"null\"".to_owned(),
        Value::String(text) => quoted(text),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A string as Go's `%q` prints it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{7f}' => out.push_str(&format!("\\x{:02x}", character as u32)),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

/// A float as Go's `%v` prints it: shortest form, exponent from 1e21 and below 1e-4 on.
pub(super) fn go_float(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_print_as_users_know_them() {
        let root = Path::ROOT;
        let (spec, metadata) = (root.field("spec"), root.field("metadata"));
        let containers = spec.field("containers");
        let first = containers.index(0);
        assert_eq!(first.field("name").to_string(), "spec.containers[0].name");
        let labels = metadata.field("labels");
        assert_eq!(labels.key("a/b").to_string(), "metadata.labels[a/b]");
    }

    #[test]
    fn values_print_as_go_prints_them() {
        let cases = [
            (json!("a\"b\n"), r#""a\"b\n""#),
            (json!(7), "7"),
            (json!(1.5), "1.5"),
            (json!(10.0), "10"),
            (json!(1e21), "1e+21"),
            (json!(0.00001), "1e-05"),
            (json!(null), "\"null\""),
            (json!({"app": "x"}), r#"{"app":"x"}"#),
            (json!(true), "true"),
        ];
        for (value, want) in cases {
            assert_eq!(rendered(&value), want);
        }
    }

    #[test]
    fn messages_name_the_reason_the_value_and_the_rule() {
        let mut causes = Causes::default();
        let field = Path::ROOT.field("x");
        causes.required(&field, "");
        causes.invalid_text(&field, "a b", "must be one word");
        causes.not_supported(&field, &json!("c"), &["a", "b"]);
        causes.too_many(&field, 3, 2);
        causes.too_long(&field, 63);
        causes.invalid_text(&Path::ROOT, "", "whole");
        let messages: Vec<String> = causes.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "x: Required value",
                r#"x: Invalid value: "a b": must be one word"#,
                r#"x: Unsupported value: "c": supported values: "a", "b""#,
                "x: Too many: 3: must have at most 2 items",
                "x: Too long: may not be more than 63 bytes",
                r#"<nil>: Invalid value: "": whole"#,
            ]
        );
    }
}
