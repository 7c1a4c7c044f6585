//! One step of a field path, and its two spellings.
//!
//! | step into | in `fieldsV1` | in messages |
//! |---|---|---|
//! | a field or map entry | `f:replicas` | `.replicas` |
//! | a list element, by key fields | `k:{"name":"web"}` | `[name="web"]` |
//! | a list element, by value | `v:"a"` | `[="a"]` |
//! | a list element, by position | `i:0` | `[0]` |

use std::fmt;

use serde_json::Value;

use super::literal::Literal;

/// How to get from a value to one inside it. The order of the variants is the order Kubernetes prints in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Field(String),
    /// Key fields of a list element, sorted by name.
    Key(Vec<(String, Literal)>),
    Value(Literal),
    Index(i64),
}

/// Why a key inside `fieldsV1` is not a path step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    #[error("key must be 2 characters long: {0:?}")]
    TooShort(String),
    #[error("missing colon: {0}")]
    NoColon(String),
    #[error("{0:?} does not hold JSON of the right kind")]
    Content(String),
}

impl Step {
    /// A step into the named field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// A step to the element with these key fields.
    pub fn key(mut fields: Vec<(String, Literal)>) -> Self {
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self::Key(fields)
    }

    /// Reads a key of `fieldsV1`; `None` for kinds of steps that only newer servers know.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, StepError> {
        if text.len() < 2 {
            return Err(StepError::TooShort(text.to_owned()));
        }
        let (Some(kind), Some(content)) = (text.get(..1), text.get(2..)) else {
            return Err(StepError::NoColon(text.to_owned()));
        };
        if text.get(1..2) != Some(":") {
            return Err(StepError::NoColon(text.to_owned()));
        }
        let bad = || StepError::Content(text.to_owned());
        Ok(Some(match kind {
            "f" => Self::field(content),
            "v" => Self::Value(Literal(serde_json::from_str(content).map_err(|_| bad())?)),
            "i" => Self::Index(content.parse().map_err(|_| bad())?),
            "k" => match serde_json::from_str(content).map_err(|_| bad())? {
                Value::Object(fields) => Self::key(
                    fields.into_iter().map(|(name, value)| (name, Literal(value))).collect(),
                ),
                _ => return Err(bad()),
            },
            _ => return Ok(None),
        }))
    }

    /// The key in `fieldsV1`.
    pub(super) fn print(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| {
                        let name = Literal(Value::String(name.clone())).to_json();
                        format!("{name}:{}", value.to_json())
                    })
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Self::Value(value) => format!("v:{}", value.to_json()),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(fields) => {
                write!(out, "[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(out, "{comma}{name}={value}")?;
                }
                write!(out, "]")
            }
            Self::Value(value) => write!(out, "[={value}]"),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

/// The way from the root of an object to one of its fields, printed as `.spec.ports[port=80].name`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// A path along named fields only.
    pub fn fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| Step::field(name)).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| step.fmt(out))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_step_reads_back() {
        let cases = [
            ("f:replicas", ".replicas"),
            ("f:", "."),
            ("f:a.b/c", ".a.b/c"),
            (r#"k:{"name":"web"}"#, r#"[name="web"]"#),
            (r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#),
            ("k:{}", "[]"),
            (r#"v:"example.com/finalizer""#, r#"[="example.com/finalizer"]"#),
            ("v:3.1415", "[=3.1415]"),
            ("v:false", "[=false]"),
            ("i:5", "[5]"),
            ("i:-1", "[-1]"),
        ];
        for (text, shown) in cases {
            let step = Step::parse(text).unwrap().unwrap();
            assert_eq!(step.print(), text);
            assert_eq!(step.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn key_fields_are_sorted() {
        let step = Step::parse(r#"k:{"protocol":"TCP","port":80}"#).unwrap().unwrap();
        assert_eq!(step.print(), r#"k:{"port":80,"protocol":"TCP"}"#);
    }

    #[test]
    fn steps_of_the_future_are_skipped_and_nonsense_is_refused() {
        assert_eq!(Step::parse("x:anything"), Ok(None));
        for nonsense in ["", "f", "fx", "i:one", "k:[1]", "k:{", "v:", "é", "aé"] {
            assert!(Step::parse(nonsense).is_err(), "{nonsense:?}");
        }
    }

    #[test]
    fn fields_come_before_keys_values_and_positions() {
        let mut steps = [
            Step::Index(0),
            Step::Value(Literal(json!("a"))),
            Step::key(vec![("port".to_owned(), Literal(json!(443)))]),
            Step::key(vec![("port".to_owned(), Literal(json!(80)))]),
            Step::field("b"),
            Step::field("a"),
        ];
        steps.sort();
        let shown: Vec<String> = steps.iter().map(Step::print).collect();
        assert_eq!(
            shown,
            ["f:a", "f:b", r#"k:{"port":80}"#, r#"k:{"port":443}"#, r#"v:"a""#, "i:0"]
        );
    }

    #[test]
    fn a_path_reads_like_kubernetes_prints_it() {
        let path = Path(vec![
            Step::field("spec"),
            Step::field("containers"),
            Step::key(vec![("name".to_owned(), Literal(json!("web")))]),
            Step::field("image"),
        ]);
        assert_eq!(path.to_string(), r#".spec.containers[name="web"].image"#);
    }
}
