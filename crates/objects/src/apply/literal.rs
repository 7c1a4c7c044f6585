//! JSON values as keys.
//!
//! List elements are identified by values inside them (`k:{"port":80}`, `v:"a"`), so field sets need JSON
//! values that are ordered and equal the way Kubernetes orders them: numbers by amount (`1` is `1.0`),
//! then strings, booleans, lists, maps and null.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

/// A JSON value that can be compared and sorted.
#[derive(Clone)]
pub struct Literal(pub Value);

impl Literal {
    /// JSON text as Go prints it: angle brackets, ampersands and line separators are escaped.
    pub fn to_json(&self) -> String {
        let text = self.0.to_string();
        if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            return text;
        }
        let mut escaped = String::with_capacity(text.len() + 16);
        for character in text.chars() {
            match character {
                '<' => escaped.push_str("\\u003c"),
                '>' => escaped.push_str("\\u003e"),
                '&' => escaped.push_str("\\u0026"),
                '\u{2028}' => escaped.push_str("\\u2028"),
                '\u{2029}' => escaped.push_str("\\u2029"),
                other => escaped.push(other),
            }
        }
        escaped
    }
}

impl fmt::Debug for Literal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// The form inside a field path: `"a"`, `80`, `true`.
impl fmt::Display for Literal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Literal {}

impl PartialOrd for Literal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Literal {
    fn cmp(&self, other: &Self) -> Ordering {
        order(&self.0, &other.0)
    }
}

/// True when two values mean the same: key order does not count and `1` equals `1.0`.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    order(a, b) == Ordering::Equal
}

#[cfg(test)]
thread_local! {
    static COMPARISONS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many values this thread has compared: the measure of work in tests.
#[cfg(test)]
pub(super) fn comparisons() -> u64 {
    COMPARISONS.get()
}

fn order(a: &Value, b: &Value) -> Ordering {
    #[cfg(test)]
    COMPARISONS.set(COMPARISONS.get() + 1);
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let unequal = a.iter().zip(b).map(|(a, b)| order(a, b)).find(|order| order.is_ne());
            unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            // Maps may keep insertion order, so both sides are sorted before they are compared.
            let (mut a, mut b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
            a.sort_unstable_by_key(|(name, _)| *name);
            b.sort_unstable_by_key(|(name, _)| *name);
            let pairs = a.iter().zip(&b);
            let unequal = pairs
                .map(|((name_a, a), (name_b, b))| name_a.cmp(name_b).then_with(|| order(a, b)))
                .find(|order| order.is_ne());
            unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn order_numbers(a: &Number, b: &Number) -> Ordering {
    let integer = |number: &Number| {
        number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
    };
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => {
            let (a, b) = (a.as_f64().unwrap_or_default(), b.as_f64().unwrap_or_default());
            a.partial_cmp(&b).unwrap_or(Ordering::Equal)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_sort_by_kind_and_then_by_amount() {
        let sorted = [
            json!(-1),
            json!(1),
            json!(1.5),
            json!(9),
            json!(80),
            json!(u64::MAX),
            json!("10"),
            json!("9"),
            json!(false),
            json!(true),
            json!([1]),
            json!([1, 2]),
            json!({"a": 1}),
            json!({"a": 2}),
            json!({"b": 1}),
            json!(null),
        ];
        for (at, a) in sorted.iter().enumerate() {
            for (beside, b) in sorted.iter().enumerate() {
                assert_eq!(order(a, b), at.cmp(&beside), "{a} against {b}");
            }
        }
    }

    #[test]
    fn equal_amounts_are_the_same_value() {
        assert!(same(&json!(1), &json!(1.0)));
        assert!(same(&json!({"a": 1, "b": [2]}), &json!({"b": [2.0], "a": 1})));
        assert!(!same(&json!(1), &json!("1")));
        assert!(!same(&json!({"a": 1}), &json!({"a": 1, "b": null})));
    }

    #[test]
    fn text_is_escaped_as_go_escapes_it() {
        let literal = Literal(json!("a<b>&\"c\""));
        assert_eq!(literal.to_json(), r#""a\u003cb\u003e\u0026\"c\"""#);
    }
}
