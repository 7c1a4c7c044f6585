//! Which pods does the kubelet run? `GET /pods/`.
//!
//! | answer | treated as |
//! |---|---|
//! | a list with pods of this node | the truth |
//! | an empty list | a failure: a kubelet that recovers from a crash says so for a while |
//! | pods bound to another node, without a uid, or said twice | not there |
//! | one pod that cannot be read | not there this time; its neighbours are |
//! | anything else | a failure |

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::Value;

use super::{Kubelet, KubeletError};

/// The path that serves it.
const PATH: &str = "/pods/";

/// Pods of this node, and how many entries of the list were left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listed {
    pub pods: Vec<Pod>,
    pub foreign: usize,
    pub unreadable: usize,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum PodsError {
    #[error(transparent)]
    Kubelet(#[from] KubeletError),
    #[error("the kubelet's list of pods is no PodList in JSON")]
    Json(#[from] serde_json::Error),
    #[error("the kubelet lists no pods of this node ({foreign} foreign, {unreadable} unreadable)")]
    Empty { foreign: usize, unreadable: usize },
}

impl Kubelet {
    /// Asks the kubelet for its pods.
    pub async fn pods(&self, node: &str) -> Result<Listed, PodsError> {
        parse(&self.get(PATH).await?, node)
    }
}

#[derive(Deserialize)]
struct Typed {
    #[serde(deserialize_with = "null_is_empty")]
    items: Vec<Pod>,
}

#[derive(Deserialize)]
struct Loose {
    items: Vec<Value>,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Pod>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Reads the answer of the kubelet of `node`.
pub fn parse(answer: &[u8], node: &str) -> Result<Listed, PodsError> {
    let (items, unreadable) = match serde_json::from_slice::<Typed>(answer) {
        Ok(list) => (list.items, 0),
        // One pod may be of a newer shape than we know; the others still count.
        Err(_) => {
            let list: Loose = serde_json::from_slice(answer)?;
            let all = list.items.len();
            let read = list.items.into_iter().filter_map(|pod| serde_json::from_value(pod).ok());
            let read: Vec<Pod> = read.collect();
            let unreadable = all.saturating_sub(read.len());
            (read, unreadable)
        }
    };
    let mut seen = BTreeSet::new();
    let mut listed = Listed { unreadable, ..Listed::default() };
    for pod in items {
        let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if bound.is_some_and(|bound| bound != node) || uid.is_empty() {
            listed.foreign += 1;
        } else if seen.insert(uid.to_owned()) {
            listed.pods.push(pod);
        }
    }
    if listed.pods.is_empty() {
        let Listed { foreign, unreadable, .. } = listed;
        return Err(PodsError::Empty { foreign, unreadable });
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, uid: &str, node: Option<&str>) -> Value {
        json!({ "metadata": { "name": name, "uid": uid }, "spec": { "nodeName": node, "containers": [] } })
    }

    fn list(items: &[Value]) -> Vec<u8> {
        json!({ "kind": "PodList", "apiVersion": "v1", "items": items }).to_string().into_bytes()
    }

    fn names(listed: &Listed) -> Vec<&str> {
        listed.pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect()
    }

    #[test]
    fn pods_of_other_nodes_are_left_out() {
        let answer = list(&[
            pod("mine", "1", Some("n1")),
            pod("static", "2", None),
            pod("other", "3", Some("n2")),
            pod("nameless", "", Some("n1")),
            pod("twice", "1", Some("n1")),
        ]);
        let listed = parse(&answer, "n1").unwrap();
        assert_eq!(names(&listed), ["mine", "static"]);
        assert_eq!((listed.foreign, listed.unreadable), (2, 0));
    }

    #[test]
    fn one_unreadable_pod_does_not_hide_the_others() {
        let answer = list(&[json!({ "metadata": 7 }), pod("mine", "1", Some("n1"))]);
        let listed = parse(&answer, "n1").unwrap();
        assert_eq!(names(&listed), ["mine"]);
        assert_eq!(listed.unreadable, 1);
    }

    #[test]
    fn a_list_that_names_no_pod_of_ours_is_a_failure() {
        let foreign = list(&[pod("other", "3", Some("n2"))]);
        let answers = [list(&[]), br#"{"items":null}"#.to_vec(), foreign];
        for answer in answers {
            let error = parse(&answer, "n1").unwrap_err();
            assert!(matches!(error, PodsError::Empty { .. }), "{error}");
        }
    }

    #[test]
    fn anything_else_is_a_failure() {
        let whole = list(&[pod("mine", "1", Some("n1"))]);
        let truncated = &whole[..whole.len() / 2];
        for answer in [truncated, b"", b"[]", b"{}", b"Unauthorized", b"\xff\xfe"] {
            assert!(matches!(parse(answer, "n1"), Err(PodsError::Json(_))), "{answer:?}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(answer in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&answer, "n1");
        }
    }
}
