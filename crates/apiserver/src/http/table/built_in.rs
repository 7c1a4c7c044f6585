//! Columns of the built-in kinds, in the order and wording of kubectl.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use crate::http::meta;

/// One column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// Above zero only `-o wide` shows it.
    pub(super) priority: i64,
}

/// How a kind is shown.
#[derive(Clone, Copy)]
pub(super) struct Sheet {
    pub(super) columns: &'static [Head],
    pub(super) cells: fn(&Value, Timestamp) -> Vec<Value>,
}

const fn text(name: &'static str) -> Head {
    Head { name, kind: "string", priority: 0 }
}

const PLAIN: Sheet = Sheet {
    columns: &[text("Name"), text("Age")],
    cells: |object, now| vec![json!(meta::name(object)), json!(created(object, now))],
};

pub(super) fn of(_group: &str, _plural: &str) -> Sheet {
    PLAIN
}

fn created(object: &Value, now: Timestamp) -> String {
    let text = meta::metadata(object).get("creationTimestamp").and_then(Value::as_str);
    text.map_or_else(|| "<unknown>".to_owned(), |text| age::since(text, now))
}

pub(super) fn completed(_pod: &Value) -> Option<Value> {
    None
}
