//! What is known of this node: what the cluster says about it, in one value.
//!
//! ```text
//! watches, kubelet ──> NodeState ──> collectors ──> Metrics ──> reports, predictor
//!                          └───────> strategies, evictions
//! ```
//!
//! Every part has an `Arc` of its own, so an event replaces one part and whoever reads compares pointers.
//!
//! Nothing waits for anything here: a node without a NodeSLO has no host applications and the
//! defaults, one without a NodeMetric is measured by the default policy. A NodeSLO that is deleted
//! is followed for another minute, in case it is only being made anew, and then counts as silent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::kind::node_metric::NodeMetricSpec;
use api::kind::node_slo::NodeSloSpec;
use api::kind::{NodeMetric, NodeSlo};
use api::policy::resolve;
use api::protocol::metric::agent::external::{
    CONTAINER_LIMITS, CONTAINER_REQUESTS, NODE_ALLOCATABLE,
};
use api::protocol::metric::unit;
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY};
use arc_swap::ArcSwap;
use groups::Layout;
use k8s_openapi::api::core::v1::Node as NodeObject;
use qos::node::{Node, NodeState, Pods, host_applications, metric_policy};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::exposition::{Exposition, Group};
use crate::object::Seen;

/// How long a NodeSLO that was deleted is still followed.
const GRACE: Duration = Duration::from_secs(60);

/// The newest state: written by the watches, read by the threads of the kernel.
pub type SharedNodeState = Arc<ArcSwap<NodeState>>;

/// What the task needs.
#[derive(Debug)]
pub struct Gathering {
    pub layout: Layout,
    pub node: watch::Receiver<Seen<NodeObject>>,
    pub slo: watch::Receiver<Seen<NodeSlo>>,
    pub node_metric: watch::Receiver<Seen<NodeMetric>>,
    pub pods: watch::Receiver<Pods>,
    pub exposition: Exposition,
}

/// The state, and what its parts were read from.
struct Parts {
    layout: Layout,
    state: NodeState,
    slo: Option<NodeSloSpec>,
    metric: Option<NodeMetricSpec>,
    is_listed: bool,
    is_answered: bool,
}

/// Keeps `shared` up to date until shutdown.
pub async fn follow(gathering: Gathering, shared: SharedNodeState, shutdown: CancellationToken) {
    let Gathering { layout, mut node, mut slo, mut node_metric, mut pods, exposition } = gathering;
    let mut parts = Parts::new(layout);
    let mut expiry = None;
    // What is there already counts as news; an empty list of pods does not.
    node.mark_changed();
    slo.mark_changed();
    node_metric.mark_changed();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Ok(()) = node.changed() => parts.set_node(&node.borrow_and_update()),
            Ok(()) = slo.changed() => {
                expiry = parts.set_slo(&slo.borrow_and_update(), Instant::now());
            }
            Ok(()) = node_metric.changed() => parts.set_policy(&node_metric.borrow_and_update()),
            Ok(()) = pods.changed() => parts.set_pods(&pods.borrow_and_update()),
            () = sleep(expiry) => expiry = parts.set_slo(&slo.borrow(), Instant::now()),
        }
        if **shared.load() != parts.state {
            shared.store(Arc::new(parts.state.clone()));
        }
        exposition.publish("world", |group| gauges(group, &parts.state));
    }
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

impl Parts {
    fn new(layout: Layout) -> Self {
        let state = NodeState::default();
        Self { layout, state, slo: None, metric: None, is_listed: false, is_answered: false }
    }

    fn complete(&mut self) {
        self.state.is_complete = self.is_listed && self.is_answered && self.state.node.is_some();
    }

    fn set_node(&mut self, seen: &Seen<NodeObject>) {
        let node = seen.present().map(|object| Node::read(object));
        if self.state.node.as_deref() != node.as_ref() {
            self.state.node = node.map(Arc::new);
        }
        self.complete();
    }

    fn set_pods(&mut self, pods: &Pods) {
        self.state.pods = pods.clone();
        self.is_listed = true;
        self.complete();
    }

    /// Takes over what was seen. Gives the time at which a deleted object stops to count.
    fn set_slo(&mut self, seen: &Seen<NodeSlo>, now: Instant) -> Option<Instant> {
        let received = match seen {
            Seen::Waiting => return None,
            Seen::Present(slo) => Some(slo.spec.clone()),
            Seen::Absent { since } => {
                let expiry = *since + GRACE;
                self.is_answered = true;
                self.complete();
                if now < expiry {
                    return self.slo.is_some().then_some(expiry);
                }
                if self.slo.is_some() {
                    info!("the NodeSLO is gone: everything is switched off");
                }
                None
            }
        };
        self.is_answered = true;
        self.complete();
        if self.slo != received {
            let resolved = resolve(received.as_ref(), Some(&self.state.slo));
            for refused in &resolved.refused {
                warn!(
                    field = refused.field,
                    value = refused.value,
                    rule = refused.rule,
                    "a value of the NodeSLO is not followed"
                );
            }
            let applications = host_applications(&resolved.policy.host_applications, &self.layout);
            self.state.host_applications = Arc::new(applications);
            self.state.slo = Arc::new(resolved);
            self.slo = received;
        }
        None
    }

    /// The policy that is in force when the object goes stays in force.
    fn set_policy(&mut self, seen: &Seen<NodeMetric>) {
        let Some(object) = seen.present() else { return };
        if self.metric.as_ref() != Some(&object.spec) {
            self.state.policy = Arc::new(metric_policy(&object.spec));
            self.metric = Some(object.spec.clone());
        }
    }
}

/// What is lent: by the node, and to each container. Nothing before the Node is known.
fn gauges(group: &mut Group, state: &NodeState) {
    let Some(node) = &state.node else { return };
    for (name, unit) in [
        (BATCH_CPU, unit::INTEGER),
        (BATCH_MEMORY, unit::BYTE),
        (MID_CPU, unit::INTEGER),
        (MID_MEMORY, unit::BYTE),
    ] {
        if let Some(amount) = node.lent.get(name) {
            group.set(&NODE_ALLOCATABLE, &[name, unit], float(*amount));
        }
    }
    for pod in state.pods.values() {
        for lent in &pod.lent {
            let who = [&pod.uid, &pod.name, &pod.namespace, &lent.id, &lent.container];
            let labels = |unit| {
                let who = who.iter().map(|text| text.as_str());
                [lent.resource.as_str(), unit].into_iter().chain(who).collect::<Vec<&str>>()
            };
            // The reference's units, for cpu and memory alike.
            if let Some(request) = lent.request {
                group.set(&CONTAINER_REQUESTS, &labels(unit::INTEGER), float(request));
            }
            if let Some(limit) = lent.limit {
                group.set(&CONTAINER_LIMITS, &labels(unit::BYTE), float(limit));
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows only floats")]
fn float(value: i64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parts() -> Parts {
        Parts::new(Layout::one_machine())
    }

    fn slo(enable: bool) -> Seen<NodeSlo> {
        let spec = json!({ "resourceUsedThresholdWithBE": { "enable": enable } });
        let spec: NodeSloSpec = serde_json::from_value(spec).unwrap();
        Seen::Present(Arc::new(NodeSlo::new("n1", spec)))
    }

    fn is_enabled(parts: &Parts) -> Option<bool> {
        parts.state.slo.spec.resource_used_threshold_with_be.as_ref()?.enable
    }

    #[test]
    fn a_deleted_slo_counts_for_another_minute() {
        let mut parts = parts();
        let now = Instant::now();
        parts.set_slo(&slo(true), now);
        assert_eq!(is_enabled(&parts), Some(true));
        let gone = Seen::Absent { since: now };
        let expiry = parts.set_slo(&gone, now + Duration::from_secs(59)).unwrap();
        assert_eq!((is_enabled(&parts), expiry), (Some(true), now + GRACE));
        assert_eq!(parts.set_slo(&gone, expiry), None);
        assert_eq!(is_enabled(&parts), Some(false), "and then everything is off");
    }

    #[test]
    fn no_slo_is_no_reason_to_wait() {
        let mut parts = parts();
        let since = Instant::now();
        assert_eq!(parts.set_slo(&Seen::Waiting, since), None);
        assert_eq!(parts.set_slo(&Seen::Absent { since }, since), None);
        assert_eq!(is_enabled(&parts), Some(false));
    }

    fn metric(generation: i64, interval: i64) -> Seen<NodeMetric> {
        let object: Value = json!({
            "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
            "metadata": { "name": "n1", "generation": generation },
            "spec": { "metricCollectPolicy": { "reportIntervalSeconds": interval } },
        });
        Seen::Present(Arc::new(serde_json::from_value(object).unwrap()))
    }

    #[test]
    fn the_policy_follows_the_spec() {
        let mut parts = parts();
        parts.set_policy(&metric(1, 45));
        assert_eq!(parts.state.policy.report, Duration::from_secs(45));
        parts.set_policy(&metric(2, 90));
        assert_eq!(parts.state.policy.report, Duration::from_secs(90));
        parts.set_policy(&Seen::Absent { since: Instant::now() });
        assert_eq!(
            parts.state.policy.report,
            Duration::from_secs(90),
            "a missing object says nothing"
        );
    }

    #[test]
    fn an_event_replaces_one_part() {
        let mut parts = parts();
        let node = NodeObject::default();
        parts.set_node(&Seen::Present(Arc::new(node.clone())));
        parts.set_slo(&slo(true), Instant::now());
        assert!(!parts.state.is_complete, "nobody has listed the pods");
        parts.set_pods(&Pods::default());
        assert!(parts.state.is_complete);
        let before = parts.state.clone();
        parts.set_node(&Seen::Present(Arc::new(node)));
        parts.set_policy(&metric(1, 45));
        let after = &parts.state;
        let is_same_node = before.node.as_ref().zip(after.node.as_ref());
        assert!(is_same_node.is_some_and(|(before, after)| Arc::ptr_eq(before, after)));
        assert!(Arc::ptr_eq(&before.slo, &after.slo) && Arc::ptr_eq(&before.pods, &after.pods));
        assert!(!Arc::ptr_eq(&before.policy, &after.policy));
    }
}
