//! Everything the cluster says about this node, put together for the kernel thread.
//!
//! Nothing waits for anything here: a node without a NodeSLO has no host applications and the
//! defaults, one without a NodeMetric is measured by the default policy. A NodeSLO that is deleted
//! is followed for another minute, in case it is only being made anew, and then counts as silent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::kind::node_metric::NodeMetricSpec;
use api::kind::node_slo::NodeSloSpec;
use api::kind::{NodeMetric, NodeSlo};
use api::metadata::ResourceList;
use api::policy::{ResolvedNodeSlo, resolve};
use api::protocol::metric::agent::external::{
    CONTAINER_LIMITS, CONTAINER_REQUESTS, NODE_ALLOCATABLE,
};
use api::protocol::metric::unit;
use api::protocol::node::RAW_ALLOCATABLE;
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY};
use api::resources::{WireList, amounts};
use groups::Layout;
use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use units::{Bytes, CpuMemory, MilliCpu, Rounding};

use crate::act::{NodeScene, Scene, SharedScene};
use crate::exposition::{Exposition, Group};
use crate::object::Seen;
use crate::pods::Pods;
use crate::policy::policy;
use crate::slo::host_applications;
use crate::view::{MetricPolicy, NodeView, SharedWorld, World};

/// How long a NodeSLO that was deleted is still followed.
const GRACE: Duration = Duration::from_secs(60);

/// What the task needs.
#[derive(Debug)]
pub struct Gathering {
    pub layout: Layout,
    pub node: watch::Receiver<Seen<Node>>,
    pub slo: watch::Receiver<Seen<NodeSlo>>,
    pub node_metric: watch::Receiver<Seen<NodeMetric>>,
    pub pods: watch::Receiver<Pods>,
    pub exposition: Exposition,
}

/// What the NodeSLO last said, and since when it has been gone.
struct Settings {
    received: Option<NodeSloSpec>,
    merged: Arc<ResolvedNodeSlo>,
    policy: MetricPolicy,
    /// What the policy was read from.
    measured: Option<NodeMetricSpec>,
}

/// Keeps `world`, and `scene` for the acting side, up to date until shutdown.
pub async fn follow(
    gathering: Gathering,
    world: SharedWorld,
    scene: SharedScene,
    shutdown: CancellationToken,
) {
    let Gathering { layout, mut node, slo: mut seen_slo, mut node_metric, mut pods, exposition } =
        gathering;
    let mut settings = Settings {
        received: None,
        merged: Arc::new(ResolvedNodeSlo::default()),
        policy: MetricPolicy::default(),
        measured: None,
    };
    let mut is_listed = false;
    loop {
        let is_answered = !matches!(*seen_slo.borrow(), Seen::Waiting);
        let expiry = settings.take_slo(&seen_slo.borrow_and_update(), Instant::now());
        settings.take_policy(&node_metric.borrow_and_update());
        let seen_node = node.borrow_and_update().present().cloned();
        let known_pods = {
            // Asked together: a list that comes in between would be taken and never noticed.
            let listed = pods.borrow_and_update();
            is_listed |= listed.has_changed();
            listed.clone()
        };
        let next = World {
            node: seen_node.as_deref().map(node_view),
            pods: known_pods.values().map(|pod| pod.view.clone()).collect(),
            host_applications: host_applications(
                &settings.merged.policy.host_applications,
                &layout,
            ),
            policy: settings.policy.clone(),
        };
        if **world.load() != next {
            world.store(Arc::new(next));
        }
        let next = Scene {
            node: seen_node.as_deref().map(|node| NodeScene::read(node, node_view(node))),
            slo: settings.merged.clone(),
            pods: known_pods.clone(),
            host_applications: world.load().host_applications.clone(),
            is_complete: is_listed && is_answered && seen_node.is_some(),
        };
        if **scene.load() != next {
            scene.store(Arc::new(next));
        }
        exposition.publish("world", |group| gauges(group, seen_node.as_deref(), &known_pods));
        tokio::select! {
            () = shutdown.cancelled() => return,
            Ok(()) = node.changed() => {}
            Ok(()) = seen_slo.changed() => {}
            Ok(()) = node_metric.changed() => {}
            Ok(()) = pods.changed() => is_listed = true,
            () = sleep(expiry) => {}
        }
    }
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

impl Settings {
    /// Takes over what was seen. Gives the time at which a deleted object stops to count.
    fn take_slo(&mut self, seen: &Seen<NodeSlo>, now: Instant) -> Option<Instant> {
        let received = match seen {
            Seen::Waiting => return None,
            Seen::Present(slo) => Some(slo.spec.clone()),
            Seen::Absent { since } => {
                let expiry = *since + GRACE;
                if now < expiry {
                    return self.received.is_some().then_some(expiry);
                }
                if self.received.is_some() {
                    info!("the NodeSLO is gone: everything is switched off");
                }
                None
            }
        };
        if self.received != received {
            self.merged = Arc::new(resolve(received.as_ref(), Some(&self.merged)));
            for refused in &self.merged.refused {
                warn!(
                    field = refused.field,
                    value = refused.value,
                    rule = refused.rule,
                    "a value of the NodeSLO is not followed"
                );
            }
            self.received = received;
        }
        None
    }

    /// The policy that is in force when the object goes stays in force.
    fn take_policy(&mut self, seen: &Seen<NodeMetric>) {
        let Some(object) = seen.present() else { return };
        if self.measured.as_ref() != Some(&object.spec) {
            self.policy = policy(&object.spec);
            self.measured = Some(object.spec.clone());
        }
    }
}

fn node_view(node: &Node) -> NodeView {
    let status = node.status.as_ref();
    let of = |list: Option<&WireList>| list.map(|list| both(&amounts(list))).unwrap_or_default();
    NodeView {
        name: node.metadata.name.clone().unwrap_or_default(),
        capacity: of(status.and_then(|status| status.capacity.as_ref())),
        allocatable: of(status.and_then(|status| status.allocatable.as_ref())),
        raw_allocatable: RAW_ALLOCATABLE.get(&node.metadata).map(|list| both(&list)),
        lent: lent(status.and_then(|status| status.allocatable.as_ref())),
    }
}

/// Milli-cores and bytes, as the wire counts these.
fn lent(allocatable: Option<&WireList>) -> BTreeMap<&'static str, i64> {
    let list = allocatable.map(amounts).unwrap_or_default();
    let names = [BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY];
    names.into_iter().filter_map(|name| Some((name, list.get(name)?.value()))).collect()
}

fn both(list: &ResourceList) -> CpuMemory {
    let amount = |name| list.get(name).copied().unwrap_or_default();
    CpuMemory {
        cpu: MilliCpu::from_quantity(amount(CPU), Rounding::Up),
        memory: Bytes::from_quantity(amount(MEMORY), Rounding::Up),
    }
}

/// What is lent: by the node, and to each container. Nothing before the Node is known.
fn gauges(group: &mut Group, node: Option<&Node>, pods: &Pods) {
    let Some(node) = node else { return };
    let none = WireList::new();
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let lists = amounts(allocatable.unwrap_or(&none));
    for (name, unit) in [
        (BATCH_CPU, unit::INTEGER),
        (BATCH_MEMORY, unit::BYTE),
        (MID_CPU, unit::INTEGER),
        (MID_MEMORY, unit::BYTE),
    ] {
        if let Some(amount) = lists.get(name) {
            group.set(&NODE_ALLOCATABLE, &[name, unit], float(amount.value()));
        }
    }
    for pod in pods.values() {
        for lent in &pod.lent {
            let view = &pod.view;
            let who = [&view.uid, &view.name, &view.namespace, &lent.id, &lent.container];
            let labels = |unit| {
                let who = who.iter().map(|text| text.as_str());
                [lent.resource, unit].into_iter().chain(who).collect::<Vec<&str>>()
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

    fn settings() -> Settings {
        Settings {
            received: None,
            merged: Arc::new(ResolvedNodeSlo::default()),
            policy: MetricPolicy::default(),
            measured: None,
        }
    }

    fn slo(enable: bool) -> Seen<NodeSlo> {
        let spec = json!({ "resourceUsedThresholdWithBE": { "enable": enable } });
        let spec: NodeSloSpec = serde_json::from_value(spec).unwrap();
        Seen::Present(Arc::new(NodeSlo::new("n1", spec)))
    }

    fn is_enabled(settings: &Settings) -> Option<bool> {
        settings.merged.spec.resource_used_threshold_with_be.as_ref()?.enable
    }

    #[test]
    fn a_deleted_slo_counts_for_another_minute() {
        let mut settings = settings();
        let now = Instant::now();
        settings.take_slo(&slo(true), now);
        assert_eq!(is_enabled(&settings), Some(true));
        let gone = Seen::Absent { since: now };
        let expiry = settings.take_slo(&gone, now + Duration::from_secs(59)).unwrap();
        assert_eq!((is_enabled(&settings), expiry), (Some(true), now + GRACE));
        assert_eq!(settings.take_slo(&gone, expiry), None);
        assert_eq!(is_enabled(&settings), Some(false), "and then everything is off");
    }

    #[test]
    fn no_slo_is_no_reason_to_wait() {
        let mut settings = settings();
        let since = Instant::now();
        assert_eq!(settings.take_slo(&Seen::Waiting, since), None);
        assert_eq!(settings.take_slo(&Seen::Absent { since }, since), None);
        assert_eq!(is_enabled(&settings), Some(false));
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
        let mut settings = settings();
        settings.take_policy(&metric(1, 45));
        assert_eq!(settings.policy.report, Duration::from_secs(45));
        settings.take_policy(&metric(2, 90));
        assert_eq!(settings.policy.report, Duration::from_secs(90));
        settings.take_policy(&Seen::Absent { since: Instant::now() });
        assert_eq!(
            settings.policy.report,
            Duration::from_secs(90),
            "a missing object says nothing"
        );
    }

    #[test]
    fn a_node_is_seen_with_what_it_really_has() {
        let node = serde_json::from_value(json!({
            "metadata": { "name": "n1", "annotations": {
                "node.koordinator.sh/raw-allocatable": r#"{"cpu":"4","memory":"8Gi"}"# } },
            "status": { "capacity": { "cpu": "8" }, "allocatable": { "cpu": "6500m", "memory": "1Gi" } },
        }));
        let view = node_view(&node.unwrap());
        assert_eq!(view.capacity, CpuMemory { cpu: MilliCpu(8000), memory: Bytes::ZERO });
        assert_eq!(view.allocatable, CpuMemory { cpu: MilliCpu(6500), memory: Bytes(1 << 30) });
        assert_eq!(
            view.real_allocatable(),
            CpuMemory { cpu: MilliCpu(4000), memory: Bytes(8 << 30) }
        );
        assert_eq!(node_view(&Node::default()), NodeView::default());
    }
}
