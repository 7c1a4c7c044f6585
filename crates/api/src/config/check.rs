//! What is wrong with the text under a key?
//!
//! Reading comes first: syntax, types and text forms. Only a text that can be
//! read is judged further: limits of single values as written, ordered pairs on
//! the merged result (so that one bound may lean on the default of the other),
//! node entries, and network shares. Each key is judged by itself; nothing in
//! one key hides a finding in another.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value as Json;

use super::defaults::{agent_qos, built_in};
use super::limits::{Limit, Pair, Rule, limits, pairs};
use super::overlap::{Overlap, overlaps};
use super::selector::{Selector, SelectorError};
use super::{Key, Layer, Source, network};
use crate::finding::{Code, Finding, Severity};
use crate::json::{self, Node, Step, path_text};
use crate::protocol::name::config_map;
use crate::shape::nearest;

/// What a caller may demand beyond the built-in rules.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Node entries need names, each one once (`--node-strategy-name-need-check`).
    pub names_required: bool,
}

/// Every finding in the ConfigMap's data.
pub fn check(data: &BTreeMap<String, String>, object: &str, options: Options) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, text) in data {
        match Key::from_name(name) {
            Some(key) => {
                let system = data.get(Key::System.name()).map(String::as_str);
                findings.extend(check_key(key, text, system, object, options));
            }
            None => findings.push(unknown_key(name).on(object, Some(name))),
        }
    }
    findings
}

/// Every finding in a ConfigMap as an API server would hold it.
pub fn check_config_map(config_map: &Json, object: &str, options: Options) -> Vec<Finding> {
    let (data, mut findings) = data_of(config_map, object);
    findings.extend(check(&data, object, options));
    findings
}

/// The texts of a ConfigMap. A value that is no text is left out and reported.
pub fn data_of(config_map: &Json, object: &str) -> (BTreeMap<String, String>, Vec<Finding>) {
    let mut data = BTreeMap::new();
    let mut findings = Vec::new();
    let members = config_map["data"].as_object().into_iter().flatten();
    for (key, value) in members {
        if let Some(text) = value.as_str() {
            data.insert(key.clone(), text.to_owned());
            continue;
        }
        let rule = "a ConfigMap holds texts; the API server refuses anything else";
        let fix = format!("write `{key}: |` and the JSON indented below it");
        findings.push(Finding::error(Code::WrongType, rule, fix).on(object, Some(key)));
    }
    (data, findings)
}

/// Every finding in the text of one key. Network shares are measured against
/// the bandwidth in `system`, the text of `system-config`, if it can be read.
pub fn check_key(
    key: Key,
    text: &str,
    system: Option<&str>,
    object: &str,
    options: Options,
) -> Vec<Finding> {
    let Examined { findings, .. } = examine(key, text, system, options);
    findings.into_iter().map(|finding| finding.on(object, Some(key.name()))).collect()
}

fn unknown_key(name: &str) -> Finding {
    let known = Key::ALL.map(Key::name);
    let fix = match nearest(name, known.into_iter()) {
        Some(key) => format!("did you mean {key}?"),
        None => "remove it, unless an extension of yours reads it".to_owned(),
    };
    let rule = format!("unknown key, ignored; known keys are {}", known.join(", "));
    if name.starts_with(config_map::OWN_PREFIX) {
        return Finding::error(Code::UnknownKey, rule, fix);
    }
    Finding::warning(Code::UnknownKey, rule, fix)
}

/// A text after reading and judging it.
#[derive(Debug, Default)]
pub(super) struct Examined {
    /// `None` when the text cannot be read.
    pub(super) document: Option<Document>,
    pub(super) findings: Vec<Finding>,
    pub(super) cluster_is_bad: bool,
    pub(super) bad_entries: BTreeSet<usize>,
}

/// A text that could be read: the cluster's strategy and the node entries.
#[derive(Debug)]
pub(super) struct Document {
    root: Node,
    pub(super) cluster: Part,
    pub(super) entries: Vec<Entry>,
}

/// One strategy and the way to it from the root of the text.
#[derive(Debug)]
pub(super) struct Part {
    steps: Vec<Step>,
    pub(super) strategy: Json,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Option<String>,
    /// `None` when there is no selector at all.
    pub(super) selector: Option<Result<Selector, SelectorError>>,
    pub(super) raw_selector: Option<LabelSelector>,
    pub(super) part: Part,
}

impl Entry {
    pub(super) fn source(&self, index: usize) -> Source {
        Source::Entry { index, name: self.name.clone() }
    }
}

impl Document {
    fn new(key: Key, root: Node, value: &Json) -> Self {
        let (steps, cluster) = match key.cluster_field() {
            Some(field) => (vec![Step::from(field)], &value[field]),
            None => (Vec::new(), value),
        };
        let entries = value[key.entries_field()].as_array().into_iter().flatten();
        let entries = entries
            .enumerate()
            .map(|(index, entry)| {
                let raw_selector: Option<LabelSelector> =
                    serde_json::from_value(entry["nodeSelector"].clone()).ok().flatten();
                Entry {
                    name: entry["name"].as_str().filter(|n| !n.is_empty()).map(str::to_owned),
                    selector: raw_selector.as_ref().map(Selector::compile),
                    raw_selector,
                    part: Part {
                        steps: vec![Step::from(key.entries_field()), Step::Index(index)],
                        strategy: entry.clone(),
                    },
                }
            })
            .collect();
        Self { root, cluster: Part { steps, strategy: cluster.clone() }, entries }
    }

    /// Fills in place, path and value of a finding about `steps` inside `part`.
    pub(super) fn locate(&self, part: &Part, steps: &[Step], finding: Finding) -> Finding {
        let steps: Vec<Step> = part.steps.iter().chain(steps).cloned().collect();
        let finding = finding.path(path_text(&steps));
        let closest = (0..=steps.len()).rev().find_map(|n| Some((n, self.root.find(&steps[..n])?)));
        match closest {
            Some((n, node)) if n == steps.len() => finding.at(node.at).value(node.to_string()),
            Some((_, node)) => finding.at(node.at),
            None => finding,
        }
    }
}

/// A strategy that stands alone, as an object carries it; every error when one is found.
pub(crate) fn read_section(key: Key, section: &Json) -> Result<Layer, Vec<Finding>> {
    let field = key.cluster_field().unwrap_or_default();
    let text = serde_json::json!({ field: section }).to_string();
    let Examined { document, findings, .. } = examine(key, &text, None, Options::default());
    let inner = |path: Option<String>| {
        path?.strip_prefix(field).map(|path| path.trim_start_matches('.').to_owned())
    };
    let mut errors = findings.into_iter().filter(Finding::is_error).peekable();
    match document {
        Some(document) if errors.peek().is_none() => {
            Ok(Layer::new(key, &document.cluster.strategy, &Source::Cluster))
        }
        _ => Err(errors
            .map(|finding| Finding {
                path: inner(finding.path).filter(|p| !p.is_empty()),
                ..finding
            })
            .collect()),
    }
}

/// Reads and judges the text of one key.
pub(super) fn examine(key: Key, text: &str, system: Option<&str>, options: Options) -> Examined {
    // The reference treats an empty colocation-config as an absent one.
    if key == Key::Colocation && text.is_empty() {
        return Examined::default();
    }
    let mut findings = Vec::new();
    let document = match json::parse(text) {
        Ok(root) => read(key, root, &mut findings),
        Err(error) => {
            findings.push(error.into());
            None
        }
    };
    let mut examined = Examined { document: None, findings, ..Examined::default() };
    if let Some(document) = document {
        judge(key, &document, &mut examined);
        check_entries(&document, options, &mut examined.findings);
        check_effects(key, &document, &mut examined.findings);
        if key == Key::Qos {
            let system = system.and_then(|text| readable(Key::System, text));
            let found = network::check(&document, system.as_ref());
            examined.cluster_is_bad |= found.iter().any(Finding::is_error);
            examined.findings.extend(found);
        }
        examined.document = Some(document);
    }
    examined
}

fn read(key: Key, root: Node, findings: &mut Vec<Finding>) -> Option<Document> {
    let value = key.document().fit(&root, findings);
    if key.is_own() {
        findings.iter_mut().for_each(refuse_unknown);
    }
    let readable = !findings.iter().any(Finding::is_error);
    readable.then(|| Document::new(key, root, &value))
}

/// In a key of ours a name that is not known is refused instead of ignored.
fn refuse_unknown(finding: &mut Finding) {
    if finding.code == Code::UnknownField {
        finding.severity = Severity::Error;
        "unknown field".clone_into(&mut finding.rule);
    }
}

/// Whether a text can be read, so that whatever is wrong with it is a value.
pub fn is_readable(key: Key, text: &str) -> bool {
    readable(key, text).is_some()
}

fn readable(key: Key, text: &str) -> Option<Document> {
    read(key, json::parse(text).ok()?, &mut Vec::new())
}

/// Limits of the cluster's strategy and of each entry.
fn judge(key: Key, document: &Document, examined: &mut Examined) {
    let base = if key == Key::Qos { agent_qos() } else { built_in(key) };
    let cluster = Layer::new(key, &document.cluster.strategy, &Source::Cluster);

    let mut found = check_limits(key, document, &document.cluster);
    found.extend(check_pairs(key, document, &document.cluster, &cluster, &base));
    examined.cluster_is_bad = found.iter().any(Finding::is_error);
    examined.findings.extend(found);

    let cluster = cluster.over(&base);
    for (index, entry) in document.entries.iter().enumerate() {
        let own = Layer::new(key, &entry.part.strategy, &entry.source(index));
        let mut found = check_limits(key, document, &entry.part);
        found.extend(check_pairs(key, document, &entry.part, &own, &cluster));
        if found.iter().any(Finding::is_error) {
            examined.bad_entries.insert(index);
        }
        examined.findings.extend(found);
    }
}

fn check_limits(key: Key, document: &Document, part: &Part) -> Vec<Finding> {
    let mut findings = Vec::new();
    for limit in limits(key) {
        let pattern: Vec<&str> = limit.pattern.split('.').collect();
        visit(&part.strategy, &pattern, &mut Vec::new(), &mut |steps, value| {
            if let Some(finding) = limit_finding(key, *limit, steps, value) {
                findings.push(document.locate(part, steps, finding));
            }
        });
    }
    findings
}

/// Calls `found` for every value that the pattern reaches.
fn visit(
    value: &Json,
    pattern: &[&str],
    steps: &mut Vec<Step>,
    found: &mut impl FnMut(&[Step], &Json),
) {
    let Some((first, rest)) = pattern.split_first() else { return found(steps, value) };
    let parts: Vec<(Step, &Json)> = match (*first, value) {
        ("[]", Json::Array(items)) => {
            items.iter().enumerate().map(|(index, item)| (Step::Index(index), item)).collect()
        }
        ("*", Json::Object(members)) => {
            members.iter().map(|(name, member)| (Step::Name(name.clone()), member)).collect()
        }
        (name, Json::Object(members)) => {
            members.get(name).map(|member| (Step::from(name), member)).into_iter().collect()
        }
        _ => Vec::new(),
    };
    for (step, part) in parts {
        steps.push(step);
        visit(part, rest, steps, found);
        steps.pop();
    }
}

fn limit_finding(key: Key, limit: Limit, steps: &[Step], value: &Json) -> Option<Finding> {
    let rule = limit.rule;
    let number = value.as_f64();
    let holds = match rule {
        Rule::Between(min, max) => value.as_i64().is_none_or(|n| (min..=max).contains(&n)),
        Rule::AtLeast(min) => value.as_i64().is_none_or(|n| n >= min),
        Rule::AboveUpTo(min, max) => number.is_none_or(|n| n > min && n <= max),
        Rule::Ratio(min, max) => number.is_none_or(|n| n >= min && n <= max),
        Rule::NotEmpty => value.as_str() != Some(""),
        Rule::OneOf(known) => {
            let text = value.as_str()?;
            if known.iter().any(|word| word.eq_ignore_ascii_case(text)) {
                return None;
            }
            let fix = match nearest(text, known.iter().copied()) {
                Some(word) => format!("did you mean {word}?"),
                None => way_out(key, steps),
            };
            return Some(Finding::error(Code::UnknownPolicy, rule.to_string(), fix));
        }
        Rule::Policy { known, .. } => {
            let text = value.as_str().filter(|text| !text.is_empty())?;
            if known.contains(&text) {
                return None;
            }
            let fix = match nearest(text, known.iter().copied()) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("use one of {}", known.join(", ")),
            };
            return Some(Finding::warning(Code::UnknownPolicy, rule.to_string(), fix));
        }
    };
    (!holds).then(|| Finding::error(Code::OutOfRange, rule.to_string(), way_out(key, steps)))
}

fn way_out(key: Key, steps: &[Step]) -> String {
    let names: Vec<&str> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Name(name) => Some(name.as_str()),
            Step::Index(_) => None,
        })
        .collect();
    let defaults = if key == Key::Qos { agent_qos() } else { built_in(key) };
    match defaults.get(&names) {
        Some(leaf) => format!("use {}, the default, or remove the field", leaf.value),
        None => "use a value within these limits, or remove the field".to_owned(),
    }
}

/// Ordered pairs after merging, reported where one of the two was written.
fn check_pairs(
    key: Key,
    document: &Document,
    part: &Part,
    own: &Layer,
    lower: &Layer,
) -> Vec<Finding> {
    let merged = own.over(lower);
    let classes: &[&str] = if key == Key::Qos {
        &["lsrClass", "lsClass", "beClass", "systemClass", "cgroupRoot"]
    } else {
        &[""]
    };
    let mut findings = Vec::new();
    for Pair { lower, upper } in pairs(key) {
        for class in classes {
            let at = |pattern: &str| -> Vec<String> {
                pattern.split('.').map(|n| if n == "*" { *class } else { n }.to_owned()).collect()
            };
            let (low_path, high_path) = (at(lower), at(upper));
            let get = |layer: &Layer, path: &[String]| {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                layer.get(&path).and_then(|leaf| leaf.value.as_i64())
            };
            let written = [&low_path, &high_path].into_iter().find(|p| get(own, p).is_some());
            let (Some(written), Some(low), Some(high)) =
                (written, get(&merged, &low_path), get(&merged, &high_path))
            else {
                continue;
            };
            if low < high {
                continue;
            }
            let (low_name, high_name) = (low_path.join("."), high_path.join("."));
            let rule = format!("{low_name} ({low}) must be below {high_name} ({high})");
            let fix = format!("lower {low_name} or raise {high_name}");
            let steps: Vec<Step> = written.iter().map(|name| Step::Name(name.clone())).collect();
            let finding = Finding::error(Code::OutOfOrder, rule, fix);
            findings.push(document.locate(part, &steps, finding));
        }
    }
    findings
}

fn check_entries(document: &Document, options: Options, findings: &mut Vec<Finding>) {
    let mut names = BTreeSet::new();
    for entry in &document.entries {
        let selector = [Step::from("nodeSelector")];
        let finding = match &entry.selector {
            None => Some(Finding::error(
                Code::EmptySelector,
                "a node entry needs a nodeSelector; without one it matches no node",
                "add matchLabels, or move the values to the cluster's strategy",
            )),
            Some(Ok(selector)) if selector.is_empty() => Some(Finding::error(
                Code::EmptySelector,
                "an empty nodeSelector matches every node",
                "add matchLabels, or move the values to the cluster's strategy",
            )),
            Some(Err(error)) => Some(Finding::error(
                Code::BadSelector,
                error.to_string(),
                "correct the selector; until then the entry is skipped",
            )),
            Some(Ok(_)) => None,
        };
        findings.extend(finding.map(|finding| document.locate(&entry.part, &selector, finding)));

        if options.names_required {
            let rule = match &entry.name {
                None => Some("a node entry needs a name".to_owned()),
                Some(name) if !names.insert(name) => Some("the name is taken".to_owned()),
                Some(_) => None,
            };
            findings.extend(rule.map(|rule| {
                let finding = Finding::error(Code::EntryName, rule, "give each entry its own name");
                document.locate(&entry.part, &[Step::from("name")], finding)
            }));
        }
    }
    findings.extend(check_overlap(document));
}

/// Entries that one made-up node would satisfy together.
fn check_overlap(document: &Document) -> Vec<Finding> {
    let selectors: Vec<(usize, &Selector)> = document
        .entries
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| Some((index, entry.selector.as_ref()?.as_ref().ok()?)))
        .filter(|(_, selector)| !selector.is_empty())
        .collect();
    let overlaps = overlaps(&selectors);
    let fix = "make the two selectors exclude each other";
    let mut findings = Vec::new();
    for Overlap { first, other, labels } in overlaps.found {
        let (Some(a), Some(b)) = (document.entries.get(first), document.entries.get(other)) else {
            continue;
        };
        let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let rule = format!(
            "overlaps with {}: a node labelled {} matches both, and the first in the list wins",
            a.source(first),
            labels.join(",")
        );
        let finding = Finding::error(Code::Overlap, rule, fix);
        findings.push(document.locate(&b.part, &[Step::from("nodeSelector")], finding));
    }
    if overlaps.is_cut {
        let rule = format!("{} overlaps were found, and more were not looked for", findings.len());
        findings.push(Finding::error(Code::Overlap, rule, fix));
    }
    findings
}

/// Settings that are fine as values and do nothing, or not what one expects.
fn check_effects(key: Key, document: &Document, findings: &mut Vec<Finding>) {
    match key {
        Key::Colocation if document.cluster.strategy["enable"] != true => {
            for entry in document.entries.iter().filter(|e| e.part.strategy["enable"] == true) {
                let finding = Finding::warning(
                    Code::NoEffect,
                    "a node entry can switch co-location off but not on: the cluster says false",
                    "set enable to true at the top and to false where it is not wanted",
                );
                findings.push(document.locate(&entry.part, &[Step::from("enable")], finding));
            }
        }
        Key::Threshold => {
            let entries = document.entries.iter().map(|entry| &entry.part);
            for part in [&document.cluster].into_iter().chain(entries) {
                findings.extend(agent_refusals(document, part));
            }
        }
        Key::HostApplication => {
            let entries = document.entries.iter().map(|entry| &entry.part);
            for part in [&document.cluster].into_iter().chain(entries) {
                findings.extend(missing_priorities(document, part));
            }
        }
        _ => {}
    }
}

/// The agent evicts by satisfaction only while both bounds are in these ranges.
fn agent_refusals(document: &Document, part: &Part) -> Vec<Finding> {
    let ranges =
        [("cpuEvictBESatisfactionLowerPercent", 60), ("cpuEvictBESatisfactionUpperPercent", 99)];
    ranges
        .into_iter()
        .filter(|(field, most)| {
            part.strategy[field].as_i64().is_some_and(|n| !(1..=*most).contains(&n))
        })
        .map(|(field, most)| {
            let rule = format!("the agent acts only on values from 1 to {most}");
            let finding = Finding::warning(Code::AgentRefuses, rule, format!("use at most {most}"));
            document.locate(part, &[Step::from(field)], finding)
        })
        .collect()
}

fn missing_priorities(document: &Document, part: &Part) -> Vec<Finding> {
    let applications = part.strategy["applications"].as_array().into_iter().flatten();
    applications
        .enumerate()
        .filter(|(_, app)| app["priority"].as_str().is_none_or(str::is_empty))
        .map(|(index, app)| {
            let class = if app["qos"] == "BE" { "koord-batch" } else { "koord-prod" };
            let name = app["name"].as_str().unwrap_or_default();
            let rule = format!("host application {name:?} has no priority; taken as {class}");
            let fix = format!("add \"priority\": \"{class}\"");
            let finding = Finding::warning(Code::HostApplicationPriority, rule, fix);
            document.locate(part, &[Step::from("applications"), Step::Index(index)], finding)
        })
        .collect()
}
