//! A node's report, as far as lending goes.

use api::kind::node_metric::{NodeMetricStatus, PodUsage as WirePod};
use api::kind::shape::ResourceMap;
use api::priority::PriorityClass;
use jiff::Timestamp;
use units::Quantity;

use super::pod::{PodKey, Pods};
use crate::{Amounts, Pair};

/// What a node's agent measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricFacts {
    pub updated: Option<Timestamp>,
    /// `None` when the report says nothing about the node as a whole.
    pub node: Option<NodeUsage>,
    /// In order of key.
    pub pods: Box<[PodUsage]>,
    pub hosts: HostUsage,
    /// What online pods asked for and are not expected to need.
    pub reclaimable: Amounts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeUsage {
    pub total: Pair<Option<Quantity>>,
    /// Neither pods nor host applications.
    pub system: Amounts,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PodUsage {
    pub key: PodKey,
    /// `None` for a class nobody knows; such a pod is charged for.
    pub class: Option<PriorityClass>,
    pub usage: Amounts,
}

/// Applications outside Kubernetes, by how they rank against lent work.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostUsage {
    /// Above batch: prod and mid.
    pub above_batch: Amounts,
    /// Above mid: prod.
    pub above_mid: Amounts,
    pub above_batch_count: usize,
    pub above_mid_count: usize,
}

impl MetricFacts {
    pub fn read(status: &NodeMetricStatus) -> Self {
        let mut pods: Vec<PodUsage> = status.pods_metric.iter().map(pod_usage).collect();
        pods.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        // Of two reports on one pod the reference keeps one; which is not said, so take the first.
        pods.dedup_by(|a, b| a.key == b.key);
        let node = status.node_metric.as_ref().map(|usage| NodeUsage {
            total: amounts(usage.node_usage.as_ref()),
            system: amounts(usage.system_usage.as_ref()).map(Option::unwrap_or_default),
        });
        let reclaimable = status.prod_reclaimable_metric.as_ref();
        Self {
            updated: status.update_time.as_ref().map(|time| time.0),
            node,
            pods: pods.into_boxed_slice(),
            hosts: hosts(status),
            reclaimable: amounts(reclaimable.and_then(|metric| metric.resource.as_ref()))
                .map(Option::unwrap_or_default),
        }
    }

    /// Takes over the keys of pods that are known, see [`PodKey`].
    pub fn share_keys(&mut self, pods: &Pods) {
        for report in &mut self.pods {
            if let Some(pod) = pods.get(&report.key) {
                report.key = pod.key.clone();
            }
        }
    }

    /// What the report says of a pod.
    pub fn pod(&self, key: &PodKey) -> Option<&PodUsage> {
        let place = self.pods.binary_search_by(|report| report.key.cmp(key));
        place.ok().and_then(|at| self.pods.get(at))
    }
}

fn amounts(map: Option<&ResourceMap>) -> Pair<Option<Quantity>> {
    // Usage is measured: a negative number is nonsense and must not lend anything.
    let clean = |amount: Quantity| amount.max(Quantity::ZERO);
    map.map(|map| Amounts::partly(&map.resources).map(|amount| amount.map(clean)))
        .unwrap_or_default()
}

fn class(word: Option<&str>) -> Option<PriorityClass> {
    word.and_then(PriorityClass::from_word)
}

fn pod_usage(pod: &WirePod) -> PodUsage {
    PodUsage {
        key: PodKey::new(
            pod.namespace.as_deref().unwrap_or_default(),
            pod.name.as_deref().unwrap_or_default(),
        ),
        class: class(pod.priority.as_deref()),
        usage: amounts(pod.pod_usage.as_ref()).map(Option::unwrap_or_default),
    }
}

fn hosts(status: &NodeMetricStatus) -> HostUsage {
    let mut hosts = HostUsage::default();
    for application in &status.host_application_metric {
        let usage = amounts(application.usage.as_ref()).map(Option::unwrap_or_default);
        let class = class(application.priority.as_deref());
        if matches!(class, Some(PriorityClass::Prod | PriorityClass::Mid)) {
            hosts.above_batch += usage;
            hosts.above_batch_count += 1;
        }
        if class == Some(PriorityClass::Prod) {
            hosts.above_mid += usage;
            hosts.above_mid_count += 1;
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(status: serde_json::Value) -> MetricFacts {
        MetricFacts::read(&serde_json::from_value(status).unwrap())
    }

    #[test]
    fn host_applications_rank_by_class() {
        let application = |class: Option<&str>| {
            json!({"name": "x", "priority": class,
                "usage": {"resources": {"cpu": "1", "memory": "1Gi"}}})
        };
        let cases = [
            (Some("koord-prod"), 1, 1),
            (Some("koord-mid"), 1, 0),
            (Some("koord-batch"), 0, 0),
            (Some("koord-free"), 0, 0),
            (None, 0, 0),
        ];
        for (class, above_batch, above_mid) in cases {
            let hosts = read(json!({"hostApplicationMetric": [application(class)]})).hosts;
            let counts = (hosts.above_batch_count, hosts.above_mid_count);
            assert_eq!(counts, (above_batch, above_mid), "{class:?}");
            assert_eq!(hosts.above_batch.counts().cpu, 1_000 * i64::from(above_batch > 0));
        }
    }

    #[test]
    fn pods_come_in_order_and_once_and_never_negative() {
        let pod = |name: &str, cpu: &str| {
            json!({"name": name, "namespace": "d", "priority": "koord-odd",
                "podUsage": {"resources": {"cpu": cpu}}})
        };
        let facts = read(json!({"podsMetric": [pod("b", "-1"), pod("a", "2"), pod("b", "3")]}));
        let keys: Vec<&str> = facts.pods.iter().map(|pod| pod.key.as_str()).collect();
        assert_eq!(keys, ["d/a", "d/b"]);
        assert!(facts.pods.iter().all(|pod| pod.usage.cpu >= Quantity::ZERO));
        assert!(facts.pods.iter().all(|pod| pod.class.is_none()));
    }
}
