//! Which nodes does a node entry mean?
//!
//! The usual label selector: all of `matchLabels` and all of `matchExpressions`
//! must hold; `NotIn` and `DoesNotExist` also hold for a node without the label.
//! An absent selector means no node, an empty one means every node.

mod index;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

pub use self::index::SelectorIndex;

pub type Labels = BTreeMap<String, String>;

/// A label selector that is known to be well formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In { key: String, values: BTreeSet<String> },
    NotIn { key: String, values: BTreeSet<String> },
    Exists { key: String },
    DoesNotExist { key: String },
}

/// Why a selector cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("{0:?} is not an operator; use In, NotIn, Exists or DoesNotExist")]
    Operator(String),
    #[error("{operator} on {key:?} needs at least one value")]
    NoValues { key: String, operator: String },
    #[error("{operator} on {key:?} takes no values")]
    Values { key: String, operator: String },
    #[error(
        "{0:?} is not a label key: an optional DNS prefix and /, then up to 63 of A-Za-z0-9-_."
    )]
    Key(String),
    #[error(
        "{0:?} is not a label value: up to 63 of A-Za-z0-9-_. that start and end with a letter or digit"
    )]
    Value(String),
}

impl Selector {
    pub fn compile(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let labels = selector.match_labels.iter().flatten().map(|(key, value)| {
            check_key(key)?;
            check_value(value)?;
            let values = BTreeSet::from([value.clone()]);
            Ok(Requirement::In { key: key.clone(), values })
        });
        let expressions = selector.match_expressions.iter().flatten().map(requirement);
        Ok(Self { requirements: labels.chain(expressions).collect::<Result<_, _>>()? })
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| match requirement {
            Requirement::In { key, values } => {
                labels.get(key).is_some_and(|value| values.contains(value))
            }
            Requirement::NotIn { key, values } => {
                labels.get(key).is_none_or(|value| !values.contains(value))
            }
            Requirement::Exists { key } => labels.contains_key(key),
            Requirement::DoesNotExist { key } => !labels.contains_key(key),
        })
    }

    /// True when every node matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Labels of made-up nodes that carry the values this selector lists, those
    /// of `NotIn` included. Two entries overlap when such a node satisfies both.
    pub fn examples(&self) -> Vec<Labels> {
        let listed: Vec<(&String, Vec<&String>)> = self
            .requirements
            .iter()
            .filter_map(|requirement| match requirement {
                Requirement::In { key, values } | Requirement::NotIn { key, values } => {
                    Some((key, values.iter().collect()))
                }
                Requirement::Exists { .. } | Requirement::DoesNotExist { .. } => None,
            })
            .collect();
        let rounds = listed.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
        (0..rounds)
            .map(|round| {
                listed
                    .iter()
                    .filter_map(|(key, values)| {
                        let value = values.get(round).or(values.last())?;
                        Some(((*key).clone(), (*value).clone()))
                    })
                    .collect()
            })
            .collect()
    }
}

fn requirement(expression: &LabelSelectorRequirement) -> Result<Requirement, SelectorError> {
    let LabelSelectorRequirement { key, operator, values } = expression;
    check_key(key)?;
    let values: BTreeSet<String> = values.iter().flatten().cloned().collect();
    values.iter().try_for_each(|value| check_value(value))?;
    let (key, named) = (key.clone(), operator.clone());
    match (operator.as_str(), values.is_empty()) {
        ("In", false) => Ok(Requirement::In { key, values }),
        ("NotIn", false) => Ok(Requirement::NotIn { key, values }),
        ("Exists", true) => Ok(Requirement::Exists { key }),
        ("DoesNotExist", true) => Ok(Requirement::DoesNotExist { key }),
        ("In" | "NotIn", true) => Err(SelectorError::NoValues { key, operator: named }),
        ("Exists" | "DoesNotExist", false) => Err(SelectorError::Values { key, operator: named }),
        _ => Err(SelectorError::Operator(named)),
    }
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let dns = |prefix: &str| {
        let label = |label: &str| {
            label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && is_enclosed(label)
        };
        prefix.len() <= 253 && prefix.split('.').all(label)
    };
    if is_word(name) && prefix.is_none_or(dns) {
        return Ok(());
    }
    Err(SelectorError::Key(key.to_owned()))
}

fn check_value(value: &str) -> Result<(), SelectorError> {
    if value.is_empty() || is_word(value) {
        return Ok(());
    }
    Err(SelectorError::Value(value.to_owned()))
}

fn is_word(text: &str) -> bool {
    text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && is_enclosed(text)
}

fn is_enclosed(text: &str) -> bool {
    let alphanumeric = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    alphanumeric(text.as_bytes().first()) && alphanumeric(text.as_bytes().last())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(value: serde_json::Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> serde_json::Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn operators_follow_kubernetes() {
        let gold = labels(&[("tier", "gold"), ("zone", "a")]);
        let bare = labels(&[]);
        let cases = [
            ("empty selects all", json!({}), true, true),
            ("matchLabels", json!({"matchLabels": {"tier": "gold"}}), true, false),
            ("In", expression("tier", "In", &["gold", "silver"]), true, false),
            ("In with another value", expression("tier", "In", &["silver"]), false, false),
            ("NotIn holds without the label", expression("tier", "NotIn", &["gold"]), false, true),
            ("Exists", expression("tier", "Exists", &[]), true, false),
            ("DoesNotExist", expression("tier", "DoesNotExist", &[]), false, true),
        ];
        for (name, value, on_gold, on_bare) in cases {
            let compiled = Selector::compile(&selector(value)).unwrap();
            assert_eq!(compiled.matches(&gold), on_gold, "{name}, gold");
            assert_eq!(compiled.matches(&bare), on_bare, "{name}, bare");
        }
    }

    #[test]
    fn malformed_selectors_are_refused_with_the_reason() {
        let cases = [
            ("unknown operator", expression("tier", "in", &["gold"]), "is not an operator"),
            ("In without values", expression("tier", "In", &[]), "at least one value"),
            ("Exists with values", expression("tier", "Exists", &["x"]), "takes no values"),
            ("bad key", json!({"matchLabels": {"a b": "x"}}), "not a label key"),
            ("bad prefix", json!({"matchLabels": {"A_b/x": "x"}}), "not a label key"),
            ("bad value", json!({"matchLabels": {"a": "-x"}}), "not a label value"),
            ("long value", json!({"matchLabels": {"a": "x".repeat(64)}}), "not a label value"),
        ];
        for (name, value, message) in cases {
            let error = Selector::compile(&selector(value)).expect_err(name).to_string();
            assert!(error.contains(message), "{name}: {error}");
        }
    }

    #[test]
    fn made_up_nodes_carry_every_listed_value() {
        let value = json!({
            "matchLabels": {"pool": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["gold", "silver"]},
                {"key": "old", "operator": "NotIn", "values": ["yes"]},
                {"key": "gpu", "operator": "Exists"},
            ],
        });
        let examples = Selector::compile(&selector(value)).unwrap().examples();
        assert_eq!(
            examples,
            [
                labels(&[("pool", "web"), ("tier", "gold"), ("old", "yes")]),
                labels(&[("pool", "web"), ("tier", "silver"), ("old", "yes")]),
            ]
        );
    }
}
