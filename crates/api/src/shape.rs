//! Checks a hand-written JSON text against the Rust type that will read it.
//!
//! A serde error stops at the first problem and does not know columns. Here the
//! type's own JSON schema is turned into a [`Shape`], the text is walked once,
//! and every wrong type, unknown name, repeated name and malformed text becomes
//! a finding with its place. What survives is handed to serde.
//!
//! Leniency is the wire's: names match without regard to case (the exact one
//! first), `null` means absent, unknown names are kept out and reported, the
//! last of repeated names counts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use units::{CpuSet, GoDuration, Quantity};

use crate::finding::{Code, Finding, Position};
use crate::json::{self, Member, Node, Value};

/// The outline of a type: what may stand where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    Any,
    Bool,
    Int {
        bits: u32,
    },
    Float,
    Text,
    IntOrText,
    Duration,
    Quantity,
    CpuSet,
    /// One of these words; another is reported and counts as absent.
    Word(Vec<String>),
    List(Box<Shape>),
    Map(Box<Shape>),
    Object(BTreeMap<String, Shape>),
}

/// Reads `text` as a `T`. The value is there unless a finding is an error.
pub fn read<T: DeserializeOwned + JsonSchema>(text: &str) -> (Option<T>, Vec<Finding>) {
    Shape::of::<T>().read(text)
}

/// The JSON schema of `T` in one piece, without references.
pub(crate) fn schema_of<T: JsonSchema>() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

impl Shape {
    /// The outline of `T`, from its JSON schema.
    pub fn of<T: JsonSchema>() -> Self {
        Self::from_schema(&schema_of::<T>())
    }

    /// As [`read`], for whoever keeps the outline of `T`. A lone `null` is
    /// absent and no finding.
    pub(crate) fn read<T: DeserializeOwned>(&self, text: &str) -> (Option<T>, Vec<Finding>) {
        let node = match json::parse(text) {
            Ok(node) => node,
            Err(error) => return (None, vec![self.bare_word(text).unwrap_or(error.into())]),
        };
        let mut findings = Vec::new();
        let value = self.fit(&node, &mut findings);
        if findings.iter().any(Finding::is_error) {
            return (None, findings);
        }
        let is_null = value.is_null();
        match serde_json::from_value(value) {
            Ok(value) => (Some(value), findings),
            Err(_) if is_null => (None, findings),
            Err(error) => {
                let rule = format!("cannot be read: {error}");
                let fix = "compare with the example in the documentation";
                findings.push(Finding::error(Code::WrongType, rule, fix).at(node.at));
                (None, findings)
            }
        }
    }

    /// A text that was never meant as JSON: say what is expected instead of why it is none.
    fn bare_word(&self, text: &str) -> Option<Finding> {
        let is_nested = matches!(self, Self::List(_) | Self::Map(_) | Self::Object(_));
        let starts_bare = text.starts_with(|c: char| c.is_alphanumeric());
        let at = Position { line: 1, column: 1 };
        let node = Node { at, value: Value::String(text.to_owned()) };
        let finding = || self.wrong_type(&node).at(at).value(node.to_string());
        (is_nested && starts_bare).then(finding)
    }

    pub(crate) fn from_schema(schema: &Json) -> Self {
        let Some(schema) = schema.as_object() else { return Self::Any };
        match schema.get("x-tidepool-kind").and_then(Json::as_str) {
            Some("word") => {
                let words = schema.get("enum").and_then(Json::as_array).into_iter().flatten();
                return Self::Word(words.filter_map(Json::as_str).map(str::to_owned).collect());
            }
            Some("duration") => return Self::Duration,
            Some("quantity") => return Self::Quantity,
            Some("cpuset") => return Self::CpuSet,
            _ => {}
        }
        if schema.get("x-kubernetes-int-or-string") == Some(&Json::Bool(true)) {
            return Self::IntOrText;
        }
        if let Some(some) = optional(schema) {
            return Self::from_schema(some);
        }
        match type_of(schema) {
            Some("boolean") => Self::Bool,
            Some("integer") => {
                let narrow = schema.get("format").and_then(Json::as_str) == Some("int32");
                Self::Int { bits: if narrow { 32 } else { 64 } }
            }
            Some("number") => Self::Float,
            Some("string") => Self::Text,
            Some("array") => {
                Self::List(Box::new(schema.get("items").map_or(Self::Any, Self::from_schema)))
            }
            Some("object") => Self::from_object(schema),
            _ => Self::Any,
        }
    }

    fn from_object(schema: &Map<String, Json>) -> Self {
        if let Some(properties) = schema.get("properties").and_then(Json::as_object) {
            let fields = properties.iter().map(|(n, s)| (n.clone(), Self::from_schema(s)));
            return Self::Object(fields.collect());
        }
        match schema.get("additionalProperties") {
            Some(inner) => Self::Map(Box::new(Self::from_schema(inner))),
            None => Self::Any,
        }
    }

    /// The part of `node` that has this shape, with names in their exact case
    /// and absent instead of null. What does not fit is left out and reported.
    pub fn fit(&self, node: &Node, findings: &mut Vec<Finding>) -> Json {
        self.fit_at(node, "", findings).unwrap_or(Json::Null)
    }

    /// `None` when there is nothing usable at this place.
    pub(crate) fn fit_at(
        &self,
        node: &Node,
        path: &str,
        findings: &mut Vec<Finding>,
    ) -> Option<Json> {
        match (self, &node.value) {
            (_, Value::Null) => None,
            (Self::Any, _) | (Self::Bool, Value::Bool(_)) | (Self::Text, Value::String(_)) => {
                Some(node.to_value())
            }
            (Self::Int { bits }, Value::Number(text)) if fits(text, *bits) => Some(node.to_value()),
            (Self::Float, Value::Number(text)) if text.parse().is_ok_and(f64::is_finite) => {
                Some(node.to_value())
            }
            (Self::Word(words), Value::String(text)) => {
                let is_known = words.contains(text);
                if !is_known && !text.is_empty() {
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    findings.push(unknown_word(text, &words).at(node.at).path(path));
                }
                is_known.then(|| node.to_value())
            }
            (Self::IntOrText, Value::String(_)) => Some(node.to_value()),
            (Self::IntOrText, Value::Number(text)) if fits(text, 32) => Some(node.to_value()),
            (Self::Quantity, Value::Number(_) | Value::String(_))
            | (Self::Duration | Self::CpuSet, Value::String(_)) => {
                match self.bad_text(&plain_text(node)) {
                    None => Some(node.to_value()),
                    Some(finding) => {
                        findings.push(finding.at(node.at).path(path).value(node.to_string()));
                        None
                    }
                }
            }
            (Self::List(item), Value::Array(nodes)) => Some(
                nodes
                    .iter()
                    .enumerate()
                    .filter_map(|(i, node)| item.fit_item(node, &format!("{path}[{i}]"), findings))
                    .collect(),
            ),
            (Self::Map(inner), Value::Object(members)) => {
                let mut map = Map::new();
                for member in members {
                    report_repeated(members, member, path, findings);
                    let inner = inner.fit_at(&member.node, &join(path, &member.name), findings);
                    map.extend(inner.map(|value| (member.name.clone(), value)));
                }
                Some(map.into())
            }
            (Self::Object(fields), Value::Object(members)) => {
                Some(fit_object(fields, members, path, findings).into())
            }
            _ => {
                findings.push(self.wrong_type(node).at(node.at).path(path).value(node.to_string()));
                None
            }
        }
    }

    /// In a list `null` stands for nothing that could be left out.
    fn fit_item(&self, node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Json> {
        if node.value == Value::Null && *self != Self::Any {
            findings.push(self.wrong_type(node).at(node.at).path(path).value("null"));
            return None;
        }
        self.fit_at(node, path, findings)
    }

    fn bad_text(&self, text: &str) -> Option<Finding> {
        let (rule, fix) = match self {
            Self::Duration => {
                let error = text.parse::<GoDuration>().err()?;
                (
                    format!("not a {error}"),
                    "use numbers with units ns, us, ms, s, m, h, for example 5m or 1h30m",
                )
            }
            Self::Quantity => {
                let error = text.parse::<Quantity>().err()?;
                (format!("not a {error}"), "use a Kubernetes quantity, for example 500m, 2 or 10Gi")
            }
            _ => {
                let error = text.parse::<CpuSet>().err()?;
                (format!("not a {error}"), "use numbers and ranges, for example 0-3,8,10-11")
            }
        };
        Some(Finding::error(Code::BadText, rule, fix))
    }

    fn wrong_type(&self, node: &Node) -> Finding {
        let found = node.type_name();
        if let (Self::Duration, Value::Number(_)) = (self, &node.value) {
            return Finding::error(
                Code::BadText,
                "not a duration: must be a string, not a number",
                "use numbers with units ns, us, ms, s, m, h, for example \"5m\" or \"1h30m\"",
            );
        }
        let (expected, fix) = match self {
            Self::Bool => ("true or false", "write true or false without quotes".to_owned()),
            Self::Int { bits } => return wrong_int(node, *bits),
            Self::Float => ("a number", "write the number without quotes".to_owned()),
            Self::Text | Self::Word(_) => ("a string", "put the value in double quotes".to_owned()),
            Self::IntOrText | Self::Quantity => {
                ("a whole number or a string", "write it as 30 or \"30%\"".to_owned())
            }
            Self::Duration => ("a duration such as \"5m\"", "write it as \"5m\"".to_owned()),
            Self::CpuSet => ("a CPU list such as \"0-3,8\"", "write it as \"0-3,8\"".to_owned()),
            Self::List(_) => ("a list", "put the value in [ ]".to_owned()),
            Self::Map(_) => ("an object of names and values", "put it in { }".to_owned()),
            Self::Object(fields) => {
                let names = fields.keys().take(3).cloned().collect::<Vec<_>>().join(", ");
                ("an object", format!("write an object with fields such as {names}"))
            }
            Self::Any => ("any value", "remove it".to_owned()),
        };
        Finding::error(Code::WrongType, format!("must be {expected}, not {found}"), fix)
    }
}

fn wrong_int(node: &Node, bits: u32) -> Finding {
    let (rule, text) = match &node.value {
        Value::Number(text) if text.contains(['.', 'e', 'E']) => {
            ("must be a whole number without fraction or exponent".to_owned(), text.as_str())
        }
        Value::Number(text) => (format!("must fit into {bits} bits"), text.as_str()),
        Value::String(text) => ("must be a whole number, not a string".to_owned(), text.trim()),
        _ => (format!("must be a whole number, not {}", node.type_name()), ""),
    };
    let whole = text.split('.').next().unwrap_or_default();
    let fix = match whole.parse::<i64>() {
        Ok(number) => format!("write {number}"),
        Err(_) => "write a whole number, or remove the field".to_owned(),
    };
    Finding::error(Code::WrongType, rule, fix)
}

fn fit_object(
    fields: &BTreeMap<String, Shape>,
    members: &[Member],
    path: &str,
    findings: &mut Vec<Finding>,
) -> Map<String, Json> {
    let mut object = Map::new();
    for member in members {
        let Some((name, shape)) = field(fields, &member.name) else {
            let known = nearest(&member.name, fields.keys().map(String::as_str));
            findings.push(unknown_field(member, path, known));
            continue;
        };
        report_repeated(members, member, path, findings);
        if *name != member.name {
            let rule = format!("the field is called {name}; read all the same");
            findings.push(
                Finding::warning(Code::FieldCase, rule, format!("write {name}"))
                    .at(member.at)
                    .path(join(path, &member.name)),
            );
        }
        match shape.fit_at(&member.node, &join(path, name), findings) {
            Some(value) => {
                object.insert(name.clone(), value);
            }
            None => {
                object.remove(name);
            }
        }
    }
    object
}

fn field<'a>(fields: &'a BTreeMap<String, Shape>, name: &str) -> Option<(&'a String, &'a Shape)> {
    fields
        .get_key_value(name)
        .or_else(|| fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)))
}

fn unknown_field(member: &Member, path: &str, nearest: Option<&str>) -> Finding {
    let fix = match nearest {
        Some(known) => format!("did you mean {known}?"),
        None => "remove it, or look the name up in the configuration reference".to_owned(),
    };
    Finding::warning(Code::UnknownField, "unknown field, ignored", fix)
        .at(member.at)
        .path(join(path, &member.name))
}

/// A word that is not one of the known ones.
pub(crate) fn unknown_word(word: &str, known: &[&str]) -> Finding {
    let rule = format!("must be one of {}; ignored", known.join(", "));
    let fix = match nearest(word, known.iter().copied()) {
        Some(known) => format!("did you mean {known}?"),
        None => "use one of these words, in this spelling".to_owned(),
    };
    Finding::warning(Code::UnknownPolicy, rule, fix).value(format!("{word:?}"))
}

/// Warns once for each name that stands again later in the same object.
fn report_repeated(members: &[Member], member: &Member, path: &str, findings: &mut Vec<Finding>) {
    let later = members.iter().rev().find(|other| other.name == member.name);
    if let Some(last) = later
        && last.at != member.at
    {
        let rule = format!("given again at {}, and the last one counts", last.at);
        findings.push(
            Finding::warning(Code::DuplicateField, rule, "keep one of the two")
                .at(member.at)
                .path(join(path, &member.name)),
        );
    }
}

/// `null` next to another schema, as `Option` produces it.
pub(crate) fn optional(schema: &Map<String, Json>) -> Option<&Json> {
    let variants = schema.get("anyOf")?.as_array()?;
    let mut some = variants.iter().filter(|variant| variant["type"] != "null");
    some.next().filter(|_| some.next().is_none())
}

pub(crate) fn type_of(schema: &Map<String, Json>) -> Option<&str> {
    match schema.get("type")? {
        Json::String(name) => Some(name),
        Json::Array(names) => names.iter().filter_map(Json::as_str).find(|name| *name != "null"),
        _ => None,
    }
}

fn fits(text: &str, bits: u32) -> bool {
    match bits {
        32 => text.parse::<i32>().is_ok(),
        _ => text.parse::<i64>().is_ok(),
    }
}

fn plain_text(node: &Node) -> String {
    match &node.value {
        Value::String(text) | Value::Number(text) => text.clone(),
        _ => node.to_string(),
    }
}

pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The known name that was probably meant: at most a third of its letters differ.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > 100 {
        return None;
    }
    known
        .map(|candidate| (distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| distance * 3 <= candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (y, cell) in b.bytes().zip(row.iter_mut().skip(1)) {
            let cost = diagonal + usize::from(x != y);
            diagonal = *cell;
            left = cost.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(default, rename_all = "camelCase")]
    struct Sample {
        enable: Option<bool>,
        whole_number: Option<i64>,
        narrow: Option<i32>,
        ratio: Option<f64>,
        text: Option<String>,
        inner: Option<Inner>,
        windows: Vec<GoDuration>,
        size: Option<Quantity>,
        cpus: Option<CpuSet>,
        free: BTreeMap<String, bool>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Inner {
        x: Option<i64>,
    }

    #[test]
    fn a_type_becomes_its_outline() {
        let Shape::Object(fields) = Shape::of::<Sample>() else { panic!("not an object") };
        let want = [
            ("cpus", Shape::CpuSet),
            ("enable", Shape::Bool),
            ("free", Shape::Map(Box::new(Shape::Bool))),
            ("inner", Shape::Object([("x".to_owned(), Shape::Int { bits: 64 })].into())),
            ("narrow", Shape::Int { bits: 32 }),
            ("ratio", Shape::Float),
            ("size", Shape::Quantity),
            ("text", Shape::Text),
            ("wholeNumber", Shape::Int { bits: 64 }),
            ("windows", Shape::List(Box::new(Shape::Duration))),
        ];
        assert_eq!(fields, want.map(|(name, shape)| (name.to_owned(), shape)).into());
    }

    #[test]
    fn everything_wrong_is_reported_at_once() {
        let text = r#"{
            "enable": "true",
            "wholeNumber": 60.5,
            "narrow": 3000000000,
            "ratio": 1e999,
            "text": 5,
            "inner": {"x": "7", "y": 1},
            "windows": ["5min", 300, null],
            "size": "10 Gi",
            "cpus": "3-1",
            "free": {"a": 1}
        }"#;
        let (value, findings) = read::<Sample>(text);
        assert_eq!(value, None);
        let found: Vec<String> = findings
            .iter()
            .map(|f| format!("{} {} {}", f.code, f.path.clone().unwrap_or_default(), f.at.unwrap()))
            .collect();
        assert_eq!(
            found,
            [
                "TP1002 enable line 2 column 23",
                "TP1002 wholeNumber line 3 column 28",
                "TP1002 narrow line 4 column 23",
                "TP1002 ratio line 5 column 22",
                "TP1002 text line 6 column 21",
                "TP1002 inner.x line 7 column 28",
                "TP1007 inner.y line 7 column 33",
                "TP1003 windows[0] line 8 column 25",
                "TP1003 windows[1] line 8 column 33",
                "TP1002 windows[2] line 8 column 38",
                "TP1003 size line 9 column 21",
                "TP1003 cpus line 10 column 21",
                "TP1002 free.a line 11 column 27",
            ]
        );
    }

    #[test]
    fn what_the_wire_forgives_is_read_and_mentioned() {
        let cases = [
            ("null is absent", r#"{"enable": null}"#, None, &[][..]),
            ("case of names", r#"{"ENABLE": true}"#, Some(true), &["TP1017"]),
            ("last one counts", r#"{"enable": true, "enable": false}"#, Some(false), &["TP1016"]),
            ("unknown names", r#"{"enabel": true}"#, None, &["TP1007"]),
        ];
        for (name, text, enable, codes) in cases {
            let (value, findings) = read::<Sample>(text);
            assert_eq!(value.unwrap().enable, enable, "{name}");
            let found: Vec<String> = findings.iter().map(|f| f.code.to_string()).collect();
            assert_eq!(found, codes, "{name}");
        }
    }

    #[test]
    fn a_typo_is_answered_with_the_nearest_name() {
        let fix = |text: &str| read::<Sample>(text).1.remove(0).fix;
        assert_eq!(fix(r#"{"wholeNumbers": 1}"#), "did you mean wholeNumber?");
        assert!(fix(r#"{"zzzzz": 1}"#).starts_with("remove it"));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in ".{0,60}") {
            let (value, findings) = read::<Sample>(&text);
            prop_assert_eq!(value.is_none(), findings.iter().any(Finding::is_error));
        }
    }
}
