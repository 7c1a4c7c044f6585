//! Which QoS class does a pod have?
//!
//! The *raw* class is the label's; decisions that bind, suppress or evict use
//! it. The *effective* class falls back to what Kubernetes thinks of the pod;
//! reports, batch calculation and class strategies use that one:
//!
//! ```text
//! Guaranteed -> LSR    Burstable -> LS    BestEffort -> BE
//! ```

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use units::Quantity;

use crate::metadata::words;
use crate::protocol::pod::QOS_CLASS;
use crate::protocol::resource::{CPU, MEMORY};
use crate::resources::amount;

words! {
    QosClass {
        /// Exclusive CPUs.
        Lse = "LSE",
        /// Reserved CPUs, shared with BE only.
        Lsr = "LSR",
        /// The shared pool.
        Ls = "LS",
        /// What the others leave.
        Be = "BE",
        /// Daemons of the node.
        System = "SYSTEM",
    }
}

words! {
    /// Sections of the QoS strategy. LSE has none of its own and uses LSR's.
    StrategyClass {
        Lsr = "lsrClass",
        Ls = "lsClass",
        Be = "beClass",
        System = "systemClass",
    }
}

words! {
    /// The QoS class Kubernetes derives from requests and limits.
    KubeQos { Guaranteed = "Guaranteed", Burstable = "Burstable", BestEffort = "BestEffort" }
}

impl QosClass {
    pub fn strategy_class(self) -> StrategyClass {
        match self {
            Self::Lse | Self::Lsr => StrategyClass::Lsr,
            Self::Ls => StrategyClass::Ls,
            Self::Be => StrategyClass::Be,
            Self::System => StrategyClass::System,
        }
    }

    /// LSE and LSR pods ask for CPUs of their own.
    pub fn wants_cpus(self) -> bool {
        matches!(self, Self::Lse | Self::Lsr)
    }
}

impl From<KubeQos> for QosClass {
    fn from(kube: KubeQos) -> Self {
        match kube {
            KubeQos::Guaranteed => Self::Lsr,
            KubeQos::Burstable => Self::Ls,
            KubeQos::BestEffort => Self::Be,
        }
    }
}

/// What the label says; annotations are not asked.
pub fn raw(pod: &Pod) -> Option<QosClass> {
    QOS_CLASS.get(&pod.metadata)
}

/// The raw class, or else the one that follows from Kubernetes' own.
pub fn effective(pod: &Pod) -> QosClass {
    raw(pod).unwrap_or_else(|| kube_qos(pod).into())
}

/// What Kubernetes recorded in the status, or else what it would record.
pub fn kube_qos(pod: &Pod) -> KubeQos {
    let recorded = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    recorded.and_then(KubeQos::from_word).unwrap_or_else(|| computed_qos(pod))
}

/// Kubernetes' rule, over `spec.resources` when present and else over all
/// containers: nothing asked is BestEffort; cpu and memory limited everywhere
/// and all requests equal to the limits is Guaranteed. Zero counts as nothing.
fn computed_qos(pod: &Pod) -> KubeQos {
    let Some(spec) = &pod.spec else { return KubeQos::BestEffort };
    let own = spec.resources.as_ref();
    let containers = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let parts: Vec<Option<&ResourceRequirements>> = match own {
        Some(own) => vec![Some(own)],
        None => containers().map(|container| container.resources.as_ref()).collect(),
    };
    let (mut requests, mut limits) = (Totals::default(), Totals::default());
    let mut is_limited = true;
    for part in parts {
        requests.add(part.and_then(|part| part.requests.as_ref()));
        let found = limits.add(part.and_then(|part| part.limits.as_ref()));
        is_limited &= found == 2;
    }
    if requests == Totals::default() && limits == Totals::default() {
        KubeQos::BestEffort
    } else if is_limited && requests == limits {
        KubeQos::Guaranteed
    } else {
        KubeQos::Burstable
    }
}

#[derive(Default, PartialEq)]
struct Totals {
    cpu: Quantity,
    memory: Quantity,
}

type WireList = BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

impl Totals {
    /// Adds what a list says of cpu and memory; counts how many of the two it names.
    fn add(&mut self, list: Option<&WireList>) -> usize {
        let mut found = 0;
        for (name, total) in [(CPU, &mut self.cpu), (MEMORY, &mut self.memory)] {
            let Some(quantity) = list.and_then(|list| list.get(name)).map(amount) else { continue };
            if quantity > Quantity::ZERO {
                *total += quantity;
                found += 1;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
    }

    fn container(requests: serde_json::Value, limits: serde_json::Value) -> serde_json::Value {
        json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn kubernetes_class_decides_without_a_label() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let cases = [
            ("nothing asked", json!([{"name": "c"}]), KubeQos::BestEffort, QosClass::Be),
            (
                "zero is nothing",
                json!([container(json!({"cpu": "0"}), json!({}))]),
                KubeQos::BestEffort,
                QosClass::Be,
            ),
            (
                "batch only is nothing",
                json!([container(json!({"kubernetes.io/batch-cpu": "2k"}), json!({}))]),
                KubeQos::BestEffort,
                QosClass::Be,
            ),
            (
                "a request",
                json!([container(json!({"cpu": "1"}), json!({}))]),
                KubeQos::Burstable,
                QosClass::Ls,
            ),
            (
                "all equal",
                json!([container(both.clone(), both.clone())]),
                KubeQos::Guaranteed,
                QosClass::Lsr,
            ),
            (
                "equal in another notation",
                json!([container(json!({"cpu": "1000m", "memory": "1024Mi"}), both.clone())]),
                KubeQos::Guaranteed,
                QosClass::Lsr,
            ),
            (
                "limit above request",
                json!([container(both.clone(), json!({"cpu": "2", "memory": "1Gi"}))]),
                KubeQos::Burstable,
                QosClass::Ls,
            ),
            (
                "no memory limit",
                json!([container(json!({"cpu": "1"}), json!({"cpu": "1"}))]),
                KubeQos::Burstable,
                QosClass::Ls,
            ),
            (
                "one container without limits",
                json!([container(both.clone(), both.clone()), {"name": "d"}]),
                KubeQos::Burstable,
                QosClass::Ls,
            ),
        ];
        for (name, containers, kube, class) in cases {
            let pod = pod(json!({"containers": containers}));
            assert_eq!(kube_qos(&pod), kube, "{name}");
            assert_eq!(effective(&pod), class, "{name}");
            assert_eq!(raw(&pod), None, "{name}");
        }
    }

    #[test]
    fn init_containers_and_pod_level_resources_count() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let init = pod(json!({
            "containers": [container(both.clone(), both.clone())],
            "initContainers": [container(json!({"cpu": "1"}), json!({}))],
        }));
        assert_eq!(kube_qos(&init), KubeQos::Burstable);
        let level = pod(json!({
            "containers": [{"name": "c"}],
            "resources": {"requests": both, "limits": both},
        }));
        assert_eq!(kube_qos(&level), KubeQos::Guaranteed);
    }

    #[test]
    fn the_recorded_class_counts_over_the_computed_one() {
        let mut pod = pod(json!({"containers": [{"name": "c"}]}));
        pod.status.get_or_insert_default().qos_class = Some("Guaranteed".to_owned());
        assert_eq!(effective(&pod), QosClass::Lsr);
        pod.status.get_or_insert_default().qos_class = Some(String::new());
        assert_eq!(effective(&pod), QosClass::Be);
    }

    #[test]
    fn only_an_exact_label_counts() {
        for (text, class) in [
            ("LSE", Some(QosClass::Lse)),
            ("LSR", Some(QosClass::Lsr)),
            ("LS", Some(QosClass::Ls)),
            ("BE", Some(QosClass::Be)),
            ("SYSTEM", Some(QosClass::System)),
            ("be", None),
            ("System", None),
            ("", None),
        ] {
            let mut pod = pod(json!({"containers": []}));
            pod.metadata.labels.get_or_insert_default().insert(QOS_CLASS.name.into(), text.into());
            assert_eq!(raw(&pod), class, "{text:?}");
            assert_eq!(effective(&pod), class.unwrap_or(QosClass::Be), "{text:?}");
        }
    }

    #[test]
    fn lse_uses_the_strategy_of_lsr() {
        assert_eq!(QosClass::Lse.strategy_class(), StrategyClass::Lsr);
        assert_eq!(QosClass::Be.strategy_class().as_str(), "beClass");
    }
}
