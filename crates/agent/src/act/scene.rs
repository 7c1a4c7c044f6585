//! What does the cluster want of this node?

use std::sync::Arc;

use api::metadata::node::{NodeReservation, NodeSwitch, SystemQosResource};
use api::policy::ResolvedNodeSlo;
use api::protocol::node as key;
use api::protocol::resource::CPU;
use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::Node;
use units::{CpuSet, MilliCpu, Ratio, Rounding};

use crate::pods::Pods;
use crate::view::{HostApplicationView, NodeView};

/// The newest scene: written by the watches, read by the acting thread.
pub type SharedScene = Arc<ArcSwap<Scene>>;

/// Everything the cluster wants of this node at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scene {
    /// `None` until the Node object was seen.
    pub node: Option<NodeScene>,
    /// The NodeSLO over the defaults, with the source of every value.
    pub slo: Arc<ResolvedNodeSlo>,
    pub pods: Pods,
    pub host_applications: Vec<HostApplicationView>,
    /// Whether Node, pods and NodeSLO have all been heard of; nobody acts before.
    pub is_complete: bool,
}

/// The Node object in the eyes of strategies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeScene {
    pub view: NodeView,
    /// CPU that the operator's annotation keeps from pods.
    pub reserved: MilliCpu,
    /// What a core of this machine is worth, compared with the reference machine.
    pub normalization: Option<Ratio>,
    /// CPUs of the SYSTEM class.
    pub system: Option<SystemCpus>,
    /// The node's own switch: `tidepool.io/switch: off`.
    pub is_off: bool,
}

/// CPUs kept for the SYSTEM class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemCpus {
    pub cpus: CpuSet,
    /// Nobody else may run there.
    pub is_exclusive: bool,
}

impl NodeScene {
    pub fn read(node: &Node, view: NodeView) -> Self {
        let meta = &node.metadata;
        let ratio = key::CPU_NORMALIZATION_RATIO.get(meta);
        Self {
            view,
            reserved: key::RESERVATION.get(meta).map(reserved).unwrap_or_default(),
            normalization: ratio.filter(|ratio| ratio.hundredths() > 100),
            system: key::SYSTEM_QOS_RESOURCE.get(meta).and_then(system),
            is_off: key::SWITCH.get(meta) == Some(NodeSwitch::Off),
        }
    }
}

/// Named CPUs count over an amount.
fn reserved(reservation: NodeReservation) -> MilliCpu {
    if !reservation.reserved_cpus.is_empty() {
        let count = i64::try_from(reservation.reserved_cpus.len()).unwrap_or(i64::MAX);
        return MilliCpu::from_cores(count);
    }
    let cpu = reservation.resources.get(CPU).copied().unwrap_or_default();
    MilliCpu::from_quantity(cpu, Rounding::Down)
}

fn system(resource: SystemQosResource) -> Option<SystemCpus> {
    let is_exclusive = resource.is_exclusive();
    (!resource.cpuset.is_empty()).then_some(SystemCpus { cpus: resource.cpuset, is_exclusive })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(annotations: serde_json::Value) -> NodeScene {
        let node = json!({ "metadata": { "name": "n1", "annotations": annotations } });
        NodeScene::read(&serde_json::from_value(node).unwrap(), NodeView::default())
    }

    #[test]
    fn annotations_of_the_node_are_followed_or_absent() {
        let reserved =
            |text: &str| read(json!({ "node.koordinator.sh/reservation": text })).reserved;
        assert_eq!(reserved(r#"{"resources":{"cpu":"1500m"}}"#), MilliCpu(1500));
        assert_eq!(
            reserved(r#"{"resources":{"cpu":"4"},"reservedCPUs":"0-1"}"#),
            MilliCpu(2000),
            "named CPUs count over an amount"
        );
        assert_eq!(reserved("{"), MilliCpu::ZERO);

        let ratio =
            |text: &str| read(json!({ "node.koordinator.sh/cpu-normalization-ratio": text }));
        assert_eq!(ratio("1.20").normalization, Some(Ratio::from_hundredths(120)));
        assert_eq!(ratio("1.00").normalization, None, "an equal core changes nothing");

        let system = |text: &str| read(json!({ "node.koordinator.sh/system-qos-resource": text }));
        let cpus = system(r#"{"cpuset":"0-1"}"#).system.unwrap();
        assert_eq!((cpus.cpus.to_string().as_str(), cpus.is_exclusive), ("0-1", true));
        assert_eq!(system("{}").system, None);

        assert!(read(json!({ "tidepool.io/switch": "off" })).is_off);
        assert!(!read(json!({ "tidepool.io/switch": "on" })).is_off);
    }
}
