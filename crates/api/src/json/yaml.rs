//! YAML as the same located tree, so that a finding in a file can name its line.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::{Member, Node, Value};
use crate::finding::Position;

/// Reads the only document of a YAML text. The error is a text without the source around it.
pub fn from_yaml(text: &str) -> Result<Node, String> {
    let placed: Placed = serde_saphyr::from_str(text)
        .map_err(|error| error.without_snippet().to_string().trim_end().to_owned())?;
    Ok(placed.0)
}

struct Placed(Node);

impl<'de> Deserialize<'de> for Placed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Self(Node { at: position(spanned.referenced), value: spanned.value.0 }))
    }
}

/// A position that is not known is the beginning of the text.
fn position(location: serde_saphyr::Location) -> Position {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
    Position { line: count(location.line()), column: count(location.column()) }
}

struct Content(Value);

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor).map(Self)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(match serde_json::Number::from_f64(value) {
            Some(number) => Value::Number(number.to_string()),
            None => Value::String(value.to_string()),
        })
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(Placed(node)) = items.next_element()? {
            nodes.push(node);
        }
        Ok(Value::Array(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let Placed(node) = entries.next_value()?;
            members.push(Member { at: position(key.referenced), name: key.value, node });
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_keep_their_types_and_places() {
        let node = from_yaml("a: 1\nb:\n- {c: \"x\", d: 1.5}\n- ~\ne: 5m\nf: true\n").unwrap();
        let want =
            serde_json::json!({"a": 1, "b": [{"c": "x", "d": 1.5}, null], "e": "5m", "f": true});
        assert_eq!(node.to_value(), want);
        let d = node.find(&["b".into(), super::super::Step::Index(0), "d".into()]).unwrap();
        assert_eq!(d.at, Position { line: 3, column: 15 });
        let Value::Object(members) = &node.value else { panic!("an object") };
        assert_eq!(members[2].at, Position { line: 5, column: 1 });
    }

    #[test]
    fn what_is_no_yaml_is_refused() {
        for text in ["a: [", "a: 1\na: 2\n", "a: 1\n---\nb: 2\n", "? [1]\n: 2\n"] {
            assert!(from_yaml(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in ".{0,80}") {
            let _ = from_yaml(&text);
        }
    }
}
