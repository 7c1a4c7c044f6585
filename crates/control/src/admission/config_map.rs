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

use api::config::selector::{Labels, Selector, SelectorIndex};
use api::config::{Key, Options, check_key, first_overlap, is_readable};
use api::finding::{Code, Finding};
use api::protocol::webhook::{CONFIG_MAP_MARK, config_map_reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
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
        refuse(&findings, key, text)?;
        let entries = Entries::read(key, text);
        if let Some(strategies) = first_overlap(&entries.selectors) {
            let strategies: Vec<&str> = strategies.iter().map(|at| entries.name(*at)).collect();
            let message = json!({ "config": key.name(), "strategies": strategies });
            return Err(answer(config_map_reason::OVERLAP, &message.to_string()));
        }
        entries.check(key, nodes)?;
        notes.extend(warnings(&findings));
    }
    Ok(Admitted::with_warnings(notes))
}

/// Refuses a configuration that one of these nodes would match twice.
pub(super) fn check_nodes(data: &Data, nodes: &Nodes) -> Result<(), Denied> {
    for key in Key::ALL {
        let text = data.get(key.name()).map(String::as_str).unwrap_or_default();
        Entries::read(key, text).check(key, nodes)?;
    }
    Ok(())
}

/// Refuses a text with errors, overlaps apart, which have a form of their own. A text that cannot be read
/// is another failure than one with a value that is not allowed.
fn refuse(findings: &[Finding], key: Key, text: &str) -> Result<(), Denied> {
    let errors = findings.iter().filter(|f| f.is_error() && f.code != Code::Overlap);
    let errors: Vec<String> = errors.map(sentence).collect();
    if errors.is_empty() {
        return Ok(());
    }
    let reason = match is_readable(key, text) {
        true => config_map_reason::INVALID,
        false => config_map_reason::PARSE,
    };
    Err(answer(reason, &errors.join("; ")))
}

fn answer(reason: &str, message: &str) -> Denied {
    let body = json!({ "reason": reason, "message": message });
    Denied::rule(format!("{CONFIG_MAP_MARK}{body}{CONFIG_MAP_MARK}"))
}

/// Node entries of a key, those that can be read.
struct Entries {
    names: Vec<String>,
    selectors: Vec<Selector>,
}

impl Entries {
    fn read(key: Key, text: &str) -> Self {
        let document: Value = serde_json::from_str(text).unwrap_or_default();
        let list = document[key.entries_field()].as_array().map(Vec::as_slice).unwrap_or_default();
        let (mut names, mut selectors) = (Vec::new(), Vec::new());
        for (index, entry) in list.iter().enumerate() {
            let selector = LabelSelector::deserialize(&entry["nodeSelector"]).ok();
            let Some(selector) = selector.and_then(|one| Selector::compile(&one).ok()) else {
                continue;
            };
            let name = entry["name"].as_str().filter(|name| !name.is_empty());
            names.push(name.map_or_else(|| format!("#{index}"), str::to_owned));
            selectors.push(selector);
        }
        Self { names, selectors }
    }

    fn name(&self, at: usize) -> &str {
        self.names.get(at).map(String::as_str).unwrap_or_default()
    }

    /// Refuses when one of these nodes matches two entries.
    fn check(&self, key: Key, nodes: &Nodes) -> Result<(), Denied> {
        if self.selectors.len() < 2 {
            return Ok(());
        }
        let index = SelectorIndex::new(self.selectors.iter().enumerate());
        let mut conflicts: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
        for (node, labels) in nodes {
            let matches = |at: &usize| self.selectors.get(*at).is_some_and(|s| s.matches(labels));
            let matching = index.candidates(labels).into_iter().filter(matches);
            let names: Vec<&str> = matching.map(|at| self.name(at)).collect();
            if names.len() > 1 {
                conflicts.entry(names).or_default().push(node);
            }
        }
        let Some((strategies, mut nodes)) = conflicts.pop_first() else { return Ok(()) };
        nodes.truncate(EXAMPLES);
        let message =
            json!({ "config": key.name(), "strategies": strategies, "exampleNodes": nodes });
        Err(answer(config_map_reason::CONFLICT, &message.to_string()))
    }
}
