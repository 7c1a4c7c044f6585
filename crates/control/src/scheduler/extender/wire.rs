//! What is said to an extender, and how its answers are read.
//!
//! Field names are written as kube-scheduler writes them and found in any case, as its readers
//! do: extenders in the field rely on both.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use sched::scheduler::{PodRef, RoomOffer};
use serde_json::{Map, Value, json};

/// A question about nodes: whole ones, or their names.
pub(super) fn nodes(pod: &Pod, names: &[String], whole: Option<&[Arc<Node>]>) -> Value {
    match whole {
        Some(nodes) => {
            let items: Vec<&Node> = nodes.iter().map(AsRef::as_ref).collect();
            json!({"Pod": pod, "Nodes": {"metadata": {}, "items": items}, "NodeNames": null})
        }
        None => json!({"Pod": pod, "Nodes": null, "NodeNames": names}),
    }
}

/// Finds a pod by its uid.
pub(super) type Finder<'a> = &'a dyn Fn(&str) -> Option<Arc<Pod>>;

/// A question about nodes to be cleared; `whole` finds the victims where uids do not suffice.
pub(super) fn rooms(pod: &Pod, rooms: &[RoomOffer], whole: Option<Finder<'_>>) -> Value {
    let mut by_node = Map::new();
    for room in rooms {
        let violations = room.victims.iter().filter(|victim| victim.violates_pdb).count();
        let pods: Vec<Value> = match whole {
            Some(find) => {
                room.victims.iter().filter_map(|one| Some(json!(*find(&one.uid)?))).collect()
            }
            None => room.victims.iter().map(|one| json!({"UID": &*one.uid})).collect(),
        };
        let victims = json!({"Pods": pods, "NumPDBViolations": violations});
        by_node.insert(room.node.clone(), victims);
    }
    match whole {
        Some(_) => json!({"Pod": pod, "NodeNameToVictims": by_node, "NodeNameToMetaVictims": null}),
        None => json!({"Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": by_node}),
    }
}

pub(super) fn binding(pod: &PodRef, node: &str) -> Value {
    json!({"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": &*pod.uid, "Node": node})
}

/// Which nodes an extender accepts, and why not the others.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Filtered {
    pub(super) nodes: Vec<String>,
    pub(super) failed: BTreeMap<String, String>,
    pub(super) unresolvable: BTreeMap<String, String>,
}

/// The member of that name, whatever its case; `null` is none.
fn member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let members = value.as_object()?;
    let (_, found) = members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
    Some(found).filter(|found| !found.is_null())
}

fn read(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| format!("its answer is not JSON: {error}"))
}

fn object(body: &[u8]) -> Result<Value, String> {
    let value = read(body)?;
    if !value.is_object() {
        return Err("its answer is not an object".to_owned());
    }
    match member(&value, "Error").and_then(Value::as_str).filter(|error| !error.is_empty()) {
        Some(error) => Err(format!("it says: {error}")),
        None => Ok(value),
    }
}

fn texts(value: Option<&Value>, what: &str) -> Result<BTreeMap<String, String>, String> {
    let Some(value) = value else { return Ok(BTreeMap::new()) };
    let members = value.as_object().ok_or_else(|| format!("{what} is not a map"))?;
    let text = |(key, value): (&String, &Value)| {
        let text = value.as_str().ok_or_else(|| format!("{what} of {key} is not a text"))?;
        Ok((key.clone(), text.to_owned()))
    };
    members.iter().map(text).collect()
}

pub(super) fn filtered(body: &[u8]) -> Result<Filtered, String> {
    let value = object(body)?;
    let nodes: Vec<String> = match (member(&value, "NodeNames"), member(&value, "Nodes")) {
        (Some(names), _) => {
            let names = names.as_array().ok_or("NodeNames is not a list")?;
            let name = |name: &Value| name.as_str().map(str::to_owned);
            names
                .iter()
                .map(|one| name(one).ok_or("a name is not a text"))
                .collect::<Result<_, _>>()?
        }
        (None, Some(nodes)) => {
            let items = member(nodes, "items").map_or(Ok(&[][..]), |items| {
                items.as_array().map(Vec::as_slice).ok_or("the items of Nodes are not a list")
            })?;
            let name = |node: &Value| {
                let name = node.pointer("/metadata/name").and_then(Value::as_str);
                name.map(str::to_owned).ok_or("a node has no name")
            };
            items.iter().map(name).collect::<Result<_, _>>()?
        }
        (None, None) => Vec::new(),
    };
    Ok(Filtered {
        nodes,
        failed: texts(member(&value, "FailedNodes"), "FailedNodes")?,
        unresolvable: texts(
            member(&value, "FailedAndUnresolvableNodes"),
            "FailedAndUnresolvableNodes",
        )?,
    })
}

/// What an extender thinks of nodes.
pub(super) fn scores(body: &[u8]) -> Result<Vec<(String, i64)>, String> {
    let value = read(body)?;
    if value.is_null() {
        return Ok(Vec::new());
    }
    let list = value.as_array().ok_or("its answer is not a list")?;
    let score = |one: &Value| {
        let host = member(one, "Host").and_then(Value::as_str).ok_or("a score has no Host")?;
        let score = member(one, "Score").map_or(Some(0), Value::as_i64);
        Ok((host.to_owned(), score.ok_or("a Score is not a whole number")?))
    };
    list.iter().map(score).collect::<Result<_, &str>>().map_err(str::to_owned)
}

/// Which nodes an extender agrees to clear, and of whom.
pub(super) fn kept(body: &[u8]) -> Result<BTreeMap<String, Vec<String>>, String> {
    let value = object(body)?;
    let Some(nodes) = member(&value, "NodeNameToMetaVictims") else { return Ok(BTreeMap::new()) };
    let nodes = nodes.as_object().ok_or("NodeNameToMetaVictims is not a map")?;
    let uid = |pod: &Value| {
        let uid = member(pod, "UID").and_then(Value::as_str);
        uid.map(str::to_owned).ok_or("a victim has no UID")
    };
    let victims = |(node, victims): (&String, &Value)| {
        let pods = member(victims, "Pods").map_or(Ok(&[][..]), |pods| {
            pods.as_array().map(Vec::as_slice).ok_or("Pods is not a list")
        })?;
        Ok((node.clone(), pods.iter().map(uid).collect::<Result<_, _>>()?))
    };
    nodes.iter().map(victims).collect::<Result<_, &str>>().map_err(str::to_owned)
}

/// Whether an extender has bound a pod.
pub(super) fn bound(body: &[u8]) -> Result<(), String> {
    object(body).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_in_any_case_or_refused() {
        let filtered = |text: &str| super::filtered(text.as_bytes());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        type Read<'a> = Result<Vec<String>, &'a str>;
        let cases: [(&str, &str, Read<'_>); 11] = [
            ("names", r#"{"NodeNames": ["a", "b"]}"#, Ok(names(&["a", "b"]))),
            ("names in lower case", r#"{"nodenames": ["a"]}"#, Ok(names(&["a"]))),
            (
                "whole nodes",
                r#"{"Nodes": {"items": [{"metadata": {"name": "a"}}]}}"#,
                Ok(names(&["a"])),
            ),
            ("nobody", r#"{"NodeNames": null, "Nodes": null}"#, Ok(Vec::new())),
            ("an error", r#"{"NodeNames": ["a"], "Error": "no licence"}"#, Err("no licence")),
            ("no JSON", "<html>", Err("not JSON")),
            ("a list", "[]", Err("not an object")),
            ("names that are none", r#"{"NodeNames": "a"}"#, Err("not a list")),
            ("a name that is none", r#"{"NodeNames": [1]}"#, Err("not a text")),
            ("a node without a name", r#"{"Nodes": {"items": [{}]}}"#, Err("no name")),
            ("reasons that are none", r#"{"FailedNodes": {"a": 1}}"#, Err("not a text")),
        ];
        for (name, text, want) in cases {
            match (filtered(text).map(|found| found.nodes), want) {
                (Ok(found), Ok(want)) => assert_eq!(found, want, "{name}"),
                (Err(found), Err(want)) => assert!(found.contains(want), "{name}: {found}"),
                (found, want) => panic!("{name}: {found:?}, not {want:?}"),
            }
        }
        let text = r#"{"nodeNames": [], "failedNodes": {"a": "full"},
            "failedAndUnresolvableNodes": {"b": "never"}}"#;
        let found = filtered(text).unwrap();
        assert_eq!(
            (found.failed["a"].as_str(), found.unresolvable["b"].as_str()),
            ("full", "never")
        );
    }

    #[test]
    fn scores_and_victims_are_read_or_refused() {
        let good = br#"[{"Host": "a", "Score": 10}, {"host": "b"}]"#;
        assert_eq!(scores(good).unwrap(), [("a".to_owned(), 10), ("b".to_owned(), 0)]);
        assert_eq!(scores(b"null").unwrap(), []);
        for bad in [r#"{"Host": "a"}"#, r#"[{"Score": 1}]"#, r#"[{"Host": "a", "Score": 1.5}]"#, ""]
        {
            assert!(scores(bad.as_bytes()).is_err(), "{bad}");
        }
        let good =
            br#"{"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}]}, "m": {"pods": null}}}"#;
        let found = kept(good).unwrap();
        assert_eq!((found["n"].as_slice(), found["m"].len()), (&["u".to_owned()][..], 0));
        assert!(kept(br#"{"NodeNameToMetaVictims": {"n": {"Pods": [{}]}}}"#).is_err());
        assert_eq!(bound(b"{}"), Ok(()));
        assert!(bound(br#"{"Error": "busy"}"#).unwrap_err().contains("busy"));
    }
}
