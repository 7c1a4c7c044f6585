//! JSON that remembers where everything stood.
//!
//! People write ConfigMap values and annotations by hand, so an error has to
//! say line and column and guess what was meant. This reader keeps the position
//! of every name and value, keeps numbers as they were written, keeps repeated
//! names, and stops at the first syntax error with a hint. It accepts exactly
//! RFC 8259: no comments, no trailing commas, no byte order mark.

mod parse;
mod yaml;

use std::fmt;

pub use self::parse::parse;
pub use self::yaml::from_yaml;
use crate::finding::{Code, Finding, Position};

/// A value and the position of its first character.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub at: Position,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// As written, so that `60`, `60.0` and `6e1` stay apart.
    Number(String),
    String(String),
    Array(Vec<Node>),
    /// In order of appearance, repeated names included.
    Object(Vec<Member>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub at: Position,
    pub name: String,
    pub node: Node,
}

/// One step from a value into one of its parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    Name(String),
    Index(usize),
}

impl From<&str> for Step {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

/// Steps as a person writes them: `nodeStrategies[0].beClass`.
pub fn path_text(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Name(name) if text.is_empty() => text.push_str(name),
            Step::Name(name) => text.extend([".", name]),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// Where and why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: found {found}: {rule}")]
pub struct SyntaxError {
    pub at: Position,
    /// The offending characters, shortened.
    pub found: String,
    pub rule: String,
    pub fix: String,
}

impl From<SyntaxError> for Finding {
    fn from(error: SyntaxError) -> Self {
        Self::error(Code::Syntax, error.rule, error.fix).at(error.at).value(error.found)
    }
}

impl Node {
    /// What a person would call this value's type.
    pub fn type_name(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        }
    }

    /// The part that `steps` lead to. Names match as they do when read: exactly,
    /// or else without regard to case; the last of repeated names.
    pub fn find(&self, steps: &[Step]) -> Option<&Self> {
        let Some((step, rest)) = steps.split_first() else { return Some(self) };
        let part = match (step, &self.value) {
            (Step::Index(index), Value::Array(items)) => items.get(*index)?,
            (Step::Name(name), Value::Object(members)) => {
                let last = |same: &dyn Fn(&str) -> bool| {
                    members.iter().rev().find(|member| same(&member.name))
                };
                let member = last(&|other| other == name)
                    .or_else(|| last(&|other| other.eq_ignore_ascii_case(name)))?;
                &member.node
            }
            _ => return None,
        };
        part.find(rest)
    }

    /// The plain value. Of repeated names the last one counts.
    pub fn to_value(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Number(text) => number(text),
            Value::String(text) => text.as_str().into(),
            Value::Array(items) => items.iter().map(Self::to_value).collect(),
            Value::Object(members) => members
                .iter()
                .map(|member| (member.name.clone(), member.node.to_value()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}

/// A number too large for 64 bits becomes the nearest float, as in any JSON reader.
fn number(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or(serde_json::Value::Null)
}

/// Prints the value compactly and shortens it to one readable line.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Number(text) => f.write_str(&shorten(text)),
            _ => f.write_str(&shorten(&self.to_value().to_string())),
        }
    }
}

fn shorten(text: &str) -> String {
    const LIMIT: usize = 60;
    if text.chars().count() <= LIMIT {
        return text.to_owned();
    }
    text.chars().take(LIMIT - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::parse::MAX_DEPTH;
    use super::*;

    #[test]
    fn errors_say_where_and_what_was_meant() {
        let seed = "{\n  \"clusterStrategy\": {\n    \"minFreeKbytesFactor\": 100,\n    \
                    \"watermarkScaleFactor\": 150,\n    \"memcgReapBackGround\": 0\n  }\n  \
                    \"nodeStrategies\": []\n}";
        let cases = [
            (
                "the seed's missing comma",
                seed,
                (7, 3),
                "expected , or }; missing comma after line 6",
            ),
            (
                "missing comma on one line",
                r#"{"a": 1 "b": 2}"#,
                (1, 9),
                "a comma is missing before",
            ),
            ("trailing comma in an object", "{\"a\": 1,\n}", (2, 1), "no comma may stand before }"),
            ("trailing comma in a list", "[1, 2,]", (1, 7), "no comma may stand before ]"),
            ("line comment", "{\n  // on\n  \"a\": 1}", (2, 3), "JSON has no comments"),
            ("hash comment", "{\"a\": 1 # on\n}", (1, 9), "JSON has no comments"),
            ("byte order mark", "\u{feff}{}", (1, 1), "byte order mark"),
            ("unquoted name", "{a: 1}", (1, 2), "a name in double quotes"),
            ("single quotes", "{'a': 1}", (1, 2), "a name in double quotes"),
            ("single-quoted value", "{\"a\": 'x'}", (1, 7), "expected a value"),
            ("text after the value", "{} x", (1, 4), "must end after the value"),
            ("unclosed object", "{\"a\": 1", (1, 8), "the { of line 1 column 1 is never closed"),
            ("unclosed list", "[1, [2]", (1, 8), "the [ of line 1 column 1 is never closed"),
            ("unclosed string", "{\"a\": \"x\n\"}", (1, 7), "closed by \""),
            ("no text", "", (1, 1), "a value is missing"),
            ("Python's True", "{\"a\": True}", (1, 7), "expected a value"),
            ("not a number", "[01]", (1, 2), "a number has the form"),
            ("plus sign", "[+1]", (1, 2), "expected a value"),
            ("missing colon", "{\"a\" 1}", (1, 6), "expected `:`"),
            ("missing value", "{\"a\": }", (1, 7), "a value is missing"),
            ("bad escape", r#"["\x"]"#, (1, 3), "unknown escape"),
            ("column counts characters", "{\"é\": x}", (1, 7), "expected a value"),
        ];
        for (name, text, (line, column), rule) in cases {
            let error = parse(text).expect_err(name);
            assert_eq!(error.at, Position { line, column }, "{name}");
            assert!(error.rule.contains(rule), "{name}: {}", error.rule);
        }
    }

    #[test]
    fn nesting_has_a_limit_and_no_stack_overflow() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(parse(&deep(MAX_DEPTH)).is_ok());
        assert!(parse(&deep(MAX_DEPTH + 1)).is_err());
        assert!(parse(&"[{\"a\":".repeat(100_000)).is_err());
    }

    #[test]
    fn escapes_read_as_in_any_json_reader() {
        let text = r#""a\"\\\/\b\f\n\r\té😀""#;
        assert_eq!(parse(text).unwrap().to_value(), serde_json::json!("a\"\\/\u{8}\u{c}\n\r\té😀"));
        assert_eq!(parse(r#""\ud83dx""#).unwrap().to_value(), serde_json::json!("\u{fffd}x"));
    }

    #[test]
    fn the_last_of_repeated_names_counts() {
        let node = parse(r#"{"a": 1, "a": 2}"#).unwrap();
        assert_eq!(node.to_value(), serde_json::json!({"a": 2}));
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn valid_json_reads_as_serde_reads_it(value in any_json(), pretty in any::<bool>()) {
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            prop_assert_eq!(parse(&text).unwrap().to_value(), value);
        }

        /// Whatever one reader takes the other takes too.
        #[test]
        fn accepts_what_serde_accepts(text in r#"[\[\]{}",:0-9a-f\\.eE+\- ntrul]{0,12}"#) {
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            let ours = parse(&text);
            // serde_json refuses lone surrogates and numbers beyond a double; the wire takes both.
            if let Ok(theirs) = theirs {
                prop_assert_eq!(ours.unwrap().to_value(), theirs);
            } else if let Ok(node) = ours {
                prop_assert!(text.contains("\\u") || text.contains(['e', 'E']), "{:?}", node);
            }
        }
    }
}
