//! Which CPUs did the kubelet give to which container?
//!
//! The kubelet's CPU manager keeps its decisions in `cpu_manager_state`. The checksum is the
//! kubelet's own affair and is not looked at.

use std::collections::BTreeMap;

use serde::Deserialize;
use units::CpuSet;

/// The file's name below the kubelet's directory.
pub const FILE: &str = "cpu_manager_state";

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuState {
    /// `static` or `none`; empty when the file is.
    pub policy: String,
    /// CPUs of each pod, by uid: those of its containers together.
    pub pods: BTreeMap<String, CpuSet>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CpuStateError {
    #[error("cpu_manager_state is no JSON object of the expected shape")]
    Shape(#[from] serde_json::Error),
    #[error("cpu_manager_state: pod {pod}, container {container}: {value:?} is no CPU list")]
    Cpus { pod: String, container: String, value: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    policy_name: String,
    #[serde(default)]
    entries: Option<BTreeMap<String, BTreeMap<String, String>>>,
}

/// Reads the file's text; an empty text holds no decisions.
pub fn parse(text: &str) -> Result<CpuState, CpuStateError> {
    if text.trim().is_empty() {
        return Ok(CpuState::default());
    }
    let file: File = serde_json::from_str(text)?;
    let mut pods: BTreeMap<String, CpuSet> = BTreeMap::new();
    for (pod, containers) in file.entries.unwrap_or_default() {
        let mut all = CpuSet::default();
        for (container, value) in containers {
            let Ok(cpus) = value.parse::<CpuSet>() else {
                return Err(CpuStateError::Cpus { pod, container, value });
            };
            all = all.union(&cpus);
        }
        pods.insert(pod, all);
    }
    Ok(CpuState { policy: file.policy_name, pods })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn containers_of_a_pod_are_taken_together() {
        let text = r#"{"policyName":"static","defaultCpuSet":"0-1,6-7","entries":{
            "uid-1":{"app":"2-3","sidecar":"4"},"uid-2":{"app":"5"}},"checksum":2136}"#;
        let state = parse(text).unwrap();
        assert_eq!(state.policy, "static");
        let pods: Vec<_> = state.pods.iter().map(|(uid, cpus)| format!("{uid} {cpus}")).collect();
        assert_eq!(pods, ["uid-1 2-4", "uid-2 5"]);
    }

    #[test]
    fn no_decisions_are_an_empty_state() {
        for text in ["", " \n", "{}", r#"{"policyName":"none","entries":null}"#] {
            assert!(parse(text).unwrap().pods.is_empty(), "{text:?}");
        }
    }

    #[test]
    fn what_is_broken_is_refused() {
        let cut = r#"{"policyName":"static","entries":{"uid"#;
        let wrong = r#"{"entries":{"u":{"c":"2-x"}}}"#;
        assert!(parse(cut).is_err());
        assert_eq!(
            parse(wrong).unwrap_err().to_string(),
            "cpu_manager_state: pod u, container c: \"2-x\" is no CPU list"
        );
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in ".{0,200}") {
            let _ = parse(&text);
        }
    }
}
