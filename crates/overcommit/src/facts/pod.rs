//! A pod, as far as lending goes.

use std::cmp::Ordering;
use std::sync::Arc;

use api::metadata::ResourceList;
use api::priority::{self, PriorityClass};
use api::protocol::pod::RESOURCE_STATUS;
use api::protocol::resource::{CPU, MEMORY, MID_CPU, MID_MEMORY};
use api::qos::{self, QosClass};
use api::resources::pod_requests;
use k8s_openapi::api::core::v1::Pod;

use crate::Amounts;

/// A pod that occupies its node: it is bound, and neither done nor failed.
#[derive(Debug, Clone, PartialEq)]
pub struct PodFacts {
    pub key: PodKey,
    pub class: PriorityClass,
    /// Its CPUs are its own whether it uses them or not.
    pub is_exclusive: bool,
    pub request: Amounts,
    /// NUMA nodes it was placed on.
    pub numa_nodes: Box<[i32]>,
}

/// Namespace and name as one word.
///
/// A pod and its line in the node's report share one text where they can: then they are equal
/// without a look at it, which is most of what matching them would cost.
#[derive(Debug, Clone)]
pub struct PodKey(Arc<str>);

impl PodKey {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Ord for PodKey {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for PodKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PodKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PodKey {}

impl PodFacts {
    /// `None` for a pod that takes nothing of a node any more.
    ///
    /// Mid pods ask for `mid-cpu` and `mid-memory`, so their native request is zero;
    /// `count_mid_requests` counts those instead.
    pub fn read(pod: &Pod, count_mid_requests: bool) -> Option<Self> {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if !matches!(phase, None | Some("Pending" | "Running")) {
            return None;
        }
        let class = priority::effective(pod);
        let requests = pod.spec.as_ref().map(pod_requests).unwrap_or_default();
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        Some(Self {
            key: PodKey::new(
                namespace.as_deref().unwrap_or_default(),
                name.as_deref().unwrap_or_default(),
            ),
            class,
            is_exclusive: qos::effective(pod) == QosClass::Lse,
            request: request(&requests, class, count_mid_requests),
            numa_nodes: numa_nodes(pod),
        })
    }

    /// Does online work come before this pod?
    pub fn is_lent_to(&self) -> bool {
        is_lent_to(Some(self.class))
    }
}

/// Batch and free work lives on what is lent; everything else is charged for.
pub(crate) fn is_lent_to(class: Option<PriorityClass>) -> bool {
    matches!(class, Some(PriorityClass::Batch | PriorityClass::Free))
}

fn request(requests: &ResourceList, class: PriorityClass, count_mid_requests: bool) -> Amounts {
    let names = if count_mid_requests && class == PriorityClass::Mid {
        (MID_CPU, MID_MEMORY)
    } else {
        (CPU, MEMORY)
    };
    let amount = |name| requests.get(name).copied().unwrap_or_default();
    let (cpu, memory) = (amount(names.0), amount(names.1));
    // A lent CPU is counted in milli-cores.
    let cpu = match names.0 {
        MID_CPU => units::MilliCpu(cpu.value()).to_quantity(),
        _ => cpu,
    };
    Amounts::new(cpu, memory)
}

fn numa_nodes(pod: &Pod) -> Box<[i32]> {
    let status = RESOURCE_STATUS.get(&pod.metadata).unwrap_or_default();
    status.numa_node_resources.iter().map(|placed| placed.node).collect()
}

/// The pods of one node, in order of key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pods(Vec<PodFacts>);

impl Pods {
    /// Adds a pod, or replaces what was known of it.
    pub fn insert(&mut self, pod: PodFacts) {
        match self.place(&pod.key) {
            Ok(at) => {
                if let Some(slot) = self.0.get_mut(at) {
                    *slot = pod;
                }
            }
            Err(at) => self.0.insert(at, pod),
        }
    }

    pub fn remove(&mut self, key: &PodKey) -> bool {
        let found = self.place(key);
        if let Ok(at) = found {
            self.0.remove(at);
        }
        found.is_ok()
    }

    pub fn get(&self, key: &PodKey) -> Option<&PodFacts> {
        self.place(key).ok().and_then(|at| self.0.get(at))
    }

    pub fn iter(&self) -> std::slice::Iter<'_, PodFacts> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn place(&self, key: &PodKey) -> Result<usize, usize> {
        self.0.binary_search_by(|pod| pod.key.cmp(key))
    }
}

impl FromIterator<PodFacts> for Pods {
    fn from_iter<I: IntoIterator<Item = PodFacts>>(pods: I) -> Self {
        let mut all = Self::default();
        for pod in pods {
            all.insert(pod);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Pair;

    fn pod(spec: serde_json::Value, phase: Option<&str>) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n"}, "spec": spec, "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn only_pods_that_occupy_their_node_count() {
        let cases = [
            (None, true),
            (Some("Pending"), true),
            (Some("Running"), true),
            (Some("Failed"), false),
        ];
        for (phase, want) in cases {
            let found = PodFacts::read(&pod(json!({"containers": []}), phase), false);
            assert_eq!(found.is_some(), want, "{phase:?}");
        }
    }

    #[test]
    fn mid_requests_count_only_when_asked_for() {
        let spec = json!({"priority": 7500, "containers": [{"name": "c", "resources": {
            "requests": {"kubernetes.io/mid-cpu": "1500", "kubernetes.io/mid-memory": "1Gi"}}}]});
        let pod = pod(spec, Some("Running"));
        let read = |count| PodFacts::read(&pod, count).unwrap().request.counts();
        assert_eq!(read(false), Pair::new(0, 0));
        assert_eq!(read(true), Pair::new(1_500, 1 << 30));
    }

    #[test]
    fn placement_comes_from_the_schedulers_annotation() {
        let mut pod = pod(json!({"containers": []}), None);
        let text = r#"{"numaNodeResources":[{"node":1},{"node":0}]}"#;
        pod.metadata.annotations =
            Some([(RESOURCE_STATUS.name.to_owned(), text.to_owned())].into());
        assert_eq!(*PodFacts::read(&pod, false).unwrap().numa_nodes, [1, 0]);
    }

    #[test]
    fn pods_are_kept_in_order_and_once() {
        let facts = |name| {
            let mut pod = pod(json!({"containers": []}), None);
            pod.metadata.name = Some(String::from(name));
            PodFacts::read(&pod, false).unwrap()
        };
        let mut pods: Pods = ["b", "a", "b"].map(facts).into_iter().collect();
        let keys: Vec<&str> = pods.iter().map(|pod| pod.key.as_str()).collect();
        assert_eq!(keys, ["n/a", "n/b"]);
        let [a, b] = ["a", "b"].map(|name| PodKey::new("n", name));
        assert!(pods.remove(&a) && !pods.remove(&a) && pods.get(&b).is_some());
        assert_eq!((pods.len(), pods.is_empty()), (1, false));
    }
}
