//! A file as people keep them: YAML or JSON, one object or many, or bare JSON.
//!
//! Objects come out as plain values, lists taken apart. [`check`] finds out
//! what a text is and returns every finding about it, with the line of the
//! text itself where it can be told.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::check;
use crate::config::{self, Key, Options};
use crate::finding::{Code, Finding};
use crate::json::{self, SyntaxError};
use crate::kind::ClusterColocationProfile;
use crate::priority::PriorityClass;
use crate::protocol::name::config_map;
use crate::scheduler;

/// A text that is nothing we can read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("not JSON")]
    Json(#[source] SyntaxError),
    #[error("not YAML: {0}")]
    Yaml(String),
    #[error("holds no object")]
    Empty,
    #[error("{0} is nothing that can be checked")]
    Unknown(String),
    #[error("{0} does not have the shape of its kind: {1}")]
    Shape(String, String),
    #[error("cannot tell which key of slo-controller-config this is; name it with --key")]
    UnclearKey,
}

/// A finding and the line of the whole text it points at, where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    pub line: Option<usize>,
    pub finding: Finding,
}

/// Every object in a text, lists taken apart.
pub fn objects(text: &str) -> Result<Vec<Value>, DocumentError> {
    let documents: Vec<Value> = if starts_as_json(text) {
        vec![json::parse(text).map_err(DocumentError::Json)?.to_value()]
    } else {
        serde_saphyr::from_multiple(text)
            .map_err(|error| DocumentError::Yaml(error.without_snippet().to_string()))?
    };
    let mut objects = Vec::new();
    for document in documents {
        let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match document.get("items").and_then(Value::as_array) {
            Some(items) if is_list => objects.extend(items.iter().cloned()),
            _ if document.is_null() => {}
            _ => objects.push(document),
        }
    }
    Ok(objects)
}

/// Kind, namespace and name, as a person would say it.
pub fn object_name(object: &Value) -> String {
    let metadata = &object["metadata"];
    let kind = object["kind"].as_str().unwrap_or("object");
    let name = metadata["name"].as_str().unwrap_or("(unnamed)");
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Every finding in a text called `name`: objects, or the bare JSON of a
/// ConfigMap key, which is `key` or else guessed from the fields.
pub fn check(
    name: &str,
    text: &str,
    key: Option<Key>,
    options: Options,
) -> Result<Vec<Located>, DocumentError> {
    if let Some(key) = key {
        return Ok(check_bare(key, name, text, options));
    }
    if let Some(found) = check_unnamed(name, text, options)? {
        return Ok(found);
    }
    let objects = objects(text)?;
    if let [object] = objects.as_slice()
        && object["kind"] == scheduler::KIND
    {
        let (_, findings) = scheduler::load(name, text);
        return Ok(findings.into_iter().map(located).collect());
    }
    if objects.is_empty() {
        return Err(DocumentError::Empty);
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for object in objects {
        let findings = check_object(&object, options)?;
        let mut blocks = Blocks { lines: &lines, object: &object, known: BTreeMap::new() };
        found.extend(findings.into_iter().map(|finding| {
            let line = blocks.line_of(&finding);
            Located { line, finding }
        }));
    }
    Ok(found)
}

fn starts_as_json(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
}

fn check_bare(key: Key, name: &str, text: &str, options: Options) -> Vec<Located> {
    let findings = config::check_key(key, text, None, name, options);
    findings.into_iter().map(located).collect()
}

/// A finding whose position is one in the whole text.
fn located(finding: Finding) -> Located {
    Located { line: finding.at.map(|at| at.line), finding }
}

/// The ConfigMap that holds the scheduler's file.
fn check_scheduler_config_map(object: &Value, name: &str) -> Vec<Finding> {
    let key = config_map::SCHEDULER;
    match object["data"][key].as_str() {
        Some(text) => {
            let (_, findings) = scheduler::load(name, text);
            findings.into_iter().map(|finding| finding.on(name, Some(key))).collect()
        }
        None => {
            let fix = format!("write {key}: | and indent the file below it");
            vec![Finding::error(Code::WrongType, "must be a string", fix).on(name, Some(key))]
        }
    }
}

/// Bare JSON that does not say which key it belongs to; `None` for anything else.
fn check_unnamed(
    name: &str,
    text: &str,
    options: Options,
) -> Result<Option<Vec<Located>>, DocumentError> {
    if !starts_as_json(text) {
        return Ok(None);
    }
    match json::parse(text) {
        Ok(node) if node.find(&["kind".into()]).is_some() => Ok(None),
        Ok(node) => match Key::guess(&node) {
            Some(key) => Ok(Some(check_bare(key, name, text, options))),
            None => Err(DocumentError::UnclearKey),
        },
        // An object that cannot be read, not the text of a key.
        Err(_) if text.contains("\"apiVersion\"") => Ok(None),
        // The finding is the same whatever the key.
        Err(error) => {
            let line = Some(error.at.line);
            Ok(Some(vec![Located { line, finding: Finding::from(error).on(name, None) }]))
        }
    }
}

/// Findings of one object; an error when there is nothing to check about its kind.
fn check_object(object: &Value, options: Options) -> Result<Vec<Finding>, DocumentError> {
    let name = object_name(object);
    Ok(match object["kind"].as_str().unwrap_or_default() {
        "ConfigMap" if object["data"].get(config_map::SCHEDULER).is_some() => {
            check_scheduler_config_map(object, &name)
        }
        "ConfigMap" => config::check_config_map(object, &name, options),
        "Node" => check::check_node(&typed(object)?),
        "Pod" => check_pod(typed(object)?),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" => {
            check_template(object, &object["spec"]["template"])?
        }
        "CronJob" => check_template(object, &object["spec"]["jobTemplate"]["spec"]["template"])?,
        "Reservation" => check::check_reservation(&typed(object)?),
        "PodMigrationJob" => check::check_migration_job(&typed(object)?),
        "ElasticQuotaProfile" => check::check_quota_profile(&typed(object)?),
        "ClusterColocationProfile" => {
            let profile: ClusterColocationProfile = typed(object)?;
            // Which PriorityClass objects exist is the cluster's to say.
            let existing = profile.spec.priority_class_name.iter().cloned().collect();
            check::check_profile(&profile, &existing)
        }
        _ => return Err(DocumentError::Unknown(name)),
    })
}

fn typed<T: DeserializeOwned>(object: &Value) -> Result<T, DocumentError> {
    serde_path_to_error::deserialize(object)
        .map_err(|error| DocumentError::Shape(object_name(object), error.to_string()))
}

/// The pod of a workload, under the workload's name.
fn check_template(object: &Value, template: &Value) -> Result<Vec<Finding>, DocumentError> {
    let mut pod: Pod = typed(template).map_err(|error| match error {
        DocumentError::Shape(_, error) => DocumentError::Shape(object_name(object), error),
        other => other,
    })?;
    pod.metadata.name = Some("(template)".to_owned());
    let findings = check_pod(pod);
    Ok(findings.into_iter().map(|f| Finding { object: object_name(object), ..f }).collect())
}

/// A file says `priorityClassName` where a stored pod has a number.
fn check_pod(mut pod: Pod) -> Vec<Finding> {
    let spec = pod.spec.get_or_insert_default();
    let class = spec.priority_class_name.as_deref().map(PriorityClass::from_word);
    if let (None, Some(Some(class))) = (spec.priority, class) {
        spec.priority = Some(class.object_value());
    }
    let is_unknown = spec.priority.is_none() && class == Some(None);
    let mut findings = check::check_pod(&pod);
    if is_unknown {
        findings.retain(|finding| finding.code != Code::ForbiddenCombination);
    }
    findings
}

/// The blocks of a text below the data keys of one object.
///
/// The YAML reader hands out values without places, so a block is looked up by its key, once, and
/// believed only if the line there is the line of the value.
struct Blocks<'t> {
    lines: &'t [&'t str],
    object: &'t Value,
    /// By key: the place of the block's first line, and the lines of the value.
    known: BTreeMap<String, Option<(usize, Vec<&'t str>)>>,
}

impl Blocks<'_> {
    /// The line of the text behind a position in a block.
    fn line_of(&mut self, finding: &Finding) -> Option<usize> {
        let (key, at) = (finding.key.as_deref()?, finding.at?);
        if !self.known.contains_key(key) {
            let block = self.find(key);
            self.known.insert(key.to_owned(), block);
        }
        let (start, value) = self.known.get(key)?.as_ref()?;
        let inside = at.line.checked_sub(1)?;
        let line = self.lines.get(start + inside)?;
        (line.trim() == value.get(inside)?.trim()).then_some(start + at.line)
    }
}

impl<'t> Blocks<'t> {
    fn find(&self, key: &str) -> Option<(usize, Vec<&'t str>)> {
        let value = self.object["data"][key].as_str()?;
        let opens_block = |line: &&str| {
            line.trim_start()
                .strip_prefix(key)
                .and_then(|rest| rest.trim_start().strip_prefix(':'))
                .is_some_and(|rest| rest.trim_start().starts_with(['|', '>']))
        };
        let start = self.lines.iter().position(opens_block)? + 1;
        Some((start, value.lines().collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn codes(text: &str) -> Result<Vec<String>, String> {
        match check("file", text, None, Options::default()) {
            Ok(found) => Ok(found.iter().map(|l| l.finding.code.to_string()).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn pod(qos: &str, spec: &str) -> String {
        format!(
            "kind: Deployment\nspec:\n  template:\n    metadata: {{labels: {{koordinator.sh/qosClass: {qos}}}}}\n    spec: {spec}\n"
        )
    }

    const CONFIG_MAP: &str = "kind: ConfigMap\ndata:\n  system-config: |\n    {\n    ]\n";

    #[test]
    fn a_text_is_recognised_by_what_it_holds() {
        let cases = [
            ("YAML ConfigMap", CONFIG_MAP, Ok(vec!["TP1001"])),
            ("JSON ConfigMap", r#"{"kind": "ConfigMap", "data": {"x": "{}"}}"#, Ok(vec!["TP1008"])),
            ("list", r#"{"kind": "List", "items": [{"kind": "ConfigMap"}]}"#, Ok(vec![])),
            ("two documents", "kind: ConfigMap\n---\nkind: ConfigMap\n", Ok(vec![])),
            ("nested YAML under a key", "kind: ConfigMap\ndata: {a: {b: 1}}", Ok(vec!["TP1002"])),
            ("bare threshold key", r#"{"clusterStrategy": {"enable": 1}}"#, Ok(vec!["TP1002"])),
            (
                "bare burst key",
                r#"{"clusterStrategy": {"cpuBurstPercent": 0}}"#,
                Ok(vec!["TP1004"]),
            ),
            ("broken bare key", r#"{"clusterStrategy": }"#, Ok(vec!["TP1001"])),
            ("unclear key", r#"{"enable": true}"#, Err("cannot tell which key")),
            ("broken object", r#"{"apiVersion": "v1", }"#, Err("not JSON")),
            ("another kind", "kind: Banana\nmetadata: {name: b}", Err("Banana b is nothing")),
            ("nothing", "", Err("no object")),
            ("only a comment", "# hm\n", Err("no object")),
            ("bad YAML", "a: [", Err("not YAML")),
            ("a scalar", "hello", Err("nothing that can be checked")),
            (
                "a scheduler configuration",
                "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nx: 1\n",
                Ok(vec!["TP1007"]),
            ),
            (
                "a scheduler configuration in its ConfigMap",
                "kind: ConfigMap\ndata:\n  koord-scheduler-config: |\n    kind: X\n",
                Ok(vec!["TP1401"]),
            ),
            ("a node", "kind: Node\nmetadata: {name: n1}", Ok(vec![])),
            ("a node of another shape", "kind: Node\nmetadata: 5", Err("metadata: invalid type")),
            (
                "a pod",
                "kind: Pod\nmetadata: {labels: {koordinator.sh/qosClass: be}}",
                Ok(vec!["TP1201"]),
            ),
            ("BE without priority", &pod("BE", "{}"), Ok(vec!["TP1203"])),
            ("BE with its class", &pod("BE", "{priorityClassName: koord-batch}"), Ok(vec![])),
            ("BE with a class of the user's", &pod("BE", "{priorityClassName: low}"), Ok(vec![])),
            (
                "BE with another class",
                &pod("BE", "{priorityClassName: koord-prod}"),
                Ok(vec!["TP1203"]),
            ),
            ("no template", "kind: Deployment\nmetadata: {name: d}", Err("Deployment d does not")),
            (
                "a profile",
                "kind: ClusterColocationProfile\nmetadata: {name: p}\nspec: {priorityClassName: x}",
                Ok(vec![]),
            ),
        ];
        for (name, text, want) in cases {
            match (codes(text), want) {
                (Ok(found), Ok(want)) => assert_eq!(found, want, "{name}"),
                (Err(error), Err(want)) => assert!(error.contains(want), "{name}: {error}"),
                (found, want) => panic!("{name}: {found:?} is not {want:?}"),
            }
        }
    }

    #[test]
    fn lines_of_the_file_are_told_for_blocks() {
        let found = check("file", CONFIG_MAP, None, Options::default()).unwrap();
        assert_eq!(found[0].finding.at.unwrap().line, 2);
        assert_eq!(found[0].line, Some(5));
    }

    #[test]
    fn aliases_cannot_blow_up_memory() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for i in 1..12 {
            let row = vec![format!("*a{}", i - 1); 10].join(",");
            bomb += &format!("a{i}: &a{i} [{row}]\n");
        }
        assert!(codes(&bomb).is_err());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in ".{0,200}") {
            let _ = codes(&text);
        }

        #[test]
        fn near_misses_do_not_either(at in 0usize..60, with in ".{0,3}") {
            let mut text: Vec<char> = CONFIG_MAP.chars().collect();
            let at = at.min(text.len());
            text.splice(at..at, with.chars());
            let _ = codes(&text.into_iter().collect::<String>());
        }
    }
}
