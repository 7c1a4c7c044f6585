//! Is the configuration usable?
//!
//! The same findings as `tidepool config check`, for the keys whose text is
//! changed. Consoles read the answer, so its form is the reference's:
//! `___{"reason": R, "message": M}___`. Each key is judged in this order, and
//! the first reason of the first bad key is the answer:
//!
//! | reason | what |
//! |---|---|
//! | ParseConfigFail | the text cannot be read |
//! | ConfigParamInvalid | a value, selector or name is not allowed |
//! | NodeStrategiesOverlap | a made-up node matches two entries |
//! | ExistNodeConfict | a real node matches two entries |

use std::collections::BTreeMap;

use api::config::selector::{Labels, Selector};
use api::config::{Key, Options, check_key};
use api::finding::{Code, Finding};
use api::protocol::webhook::{CONFIG_MAP_MARK, config_map_reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::{Admitted, Denied, Verdict, sentence, warnings};

pub type Data = BTreeMap<String, String>;
/// Labels of nodes by name.
pub type Nodes = BTreeMap<String, Labels>;

/// How many nodes an answer names.
const EXAMPLES: usize = 3;

/// `old` is the data before the change.
pub fn validate(
    old: Option<&Data>,
    new: &Data,
    object: &str,
    options: Options,
    nodes: &Nodes,
) -> Verdict {
    let mut notes = Vec::new();
    for key in Key::ALL {
        let Some(text) = new.get(key.name()).filter(|text| !text.is_empty()) else { continue };
        if old.and_then(|old| old.get(key.name())) == Some(text) {
            continue;
        }
        let system = new.get(Key::System.name()).map(String::as_str);
        let findings = check_key(key, text, system, object, options);
        refuse(&findings, is_unreadable, config_map_reason::PARSE)?;
        refuse(&findings, |code| code != Code::Overlap, config_map_reason::INVALID)?;
        let entries = entries(key, text);
        if let Some(strategies) = made_up_overlap(&entries) {
            let message = json!({ "config": key.name(), "strategies": strategies });
            return Err(answer(config_map_reason::OVERLAP, &message.to_string()));
        }
        check_entries(key, &entries, nodes)?;
        notes.extend(warnings(&findings));
    }
    Ok(Admitted::with_warnings(notes))
}

/// Refuses a configuration that one of these nodes would match twice.
pub(super) fn check_nodes(data: &Data, nodes: &Nodes) -> Result<(), Denied> {
    for key in Key::ALL {
        let text = data.get(key.name()).map(String::as_str).unwrap_or_default();
        check_entries(key, &entries(key, text), nodes)?;
    }
    Ok(())
}

fn is_unreadable(code: Code) -> bool {
    matches!(code, Code::Syntax | Code::WrongType | Code::BadText)
}

fn refuse(findings: &[Finding], of: impl Fn(Code) -> bool, reason: &str) -> Result<(), Denied> {
    let errors = findings.iter().filter(|finding| finding.is_error() && of(finding.code));
    let errors: Vec<String> = errors.map(sentence).collect();
    if errors.is_empty() { Ok(()) } else { Err(answer(reason, &errors.join("; "))) }
}

fn answer(reason: &str, message: &str) -> Denied {
    let body = json!({ "reason": reason, "message": message });
    Denied::rule(format!("{CONFIG_MAP_MARK}{body}{CONFIG_MAP_MARK}"))
}

/// Names and selectors of a key's node entries, those that can be read.
fn entries(key: Key, text: &str) -> Vec<(String, Selector)> {
    let document: Value = serde_json::from_str(text).unwrap_or_default();
    let list = document[key.entries_field()].as_array().cloned().unwrap_or_default();
    let entries = list.iter().enumerate().filter_map(|(index, entry)| {
        let selector: LabelSelector = serde_json::from_value(entry["nodeSelector"].clone()).ok()?;
        let selector = Selector::compile(&selector).ok()?;
        let name = entry["name"].as_str().filter(|name| !name.is_empty());
        let name = name.map_or_else(|| format!("#{index}"), str::to_owned);
        Some((name, selector))
    });
    entries.collect()
}

fn matching<'e>(entries: &'e [(String, Selector)], labels: &Labels) -> Vec<&'e str> {
    let matching = entries.iter().filter(|(_, selector)| selector.matches(labels));
    matching.map(|(name, _)| name.as_str()).collect()
}

/// Entries that a node made of one entry's own values would match together.
fn made_up_overlap(entries: &[(String, Selector)]) -> Option<Vec<&str>> {
    let examples = entries.iter().flat_map(|(_, selector)| selector.examples());
    examples.map(|labels| matching(entries, &labels)).find(|names| names.len() > 1)
}

fn check_entries(key: Key, entries: &[(String, Selector)], nodes: &Nodes) -> Result<(), Denied> {
    if entries.len() < 2 {
        return Ok(());
    }
    let mut conflicts: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for (node, labels) in nodes {
        let names = matching(entries, labels);
        if names.len() > 1 {
            conflicts.entry(names).or_default().push(node);
        }
    }
    let Some((strategies, mut nodes)) = conflicts.pop_first() else { return Ok(()) };
    nodes.truncate(EXAMPLES);
    let message = json!({ "config": key.name(), "strategies": strategies, "exampleNodes": nodes });
    Err(answer(config_map_reason::CONFLICT, &message.to_string()))
}
