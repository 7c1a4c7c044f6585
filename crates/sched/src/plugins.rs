//! All plugins: one row each.
//!
//! The order of the rows is the order in which default plugins run. [`crate::plugin`] says how
//! to add one.

mod allocation;
mod balanced_allocation;
mod domains;
mod dynamic_resources;
mod fit_plus;
mod image_locality;
mod inter_pod;
mod load_aware;
mod marker;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod numa_resource;
#[cfg(test)]
mod rig;
mod scarce_resources;
mod scheduling_gates;
mod scheduling_hint;
mod spread;
mod taint_toleration;
#[cfg(test)]
mod trial;
mod volumes;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use marker::DEFAULT_PREEMPTION;

use crate::plugin::Plugin;
use crate::profile::Point::{
    self, Bind, Filter, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort, Reserve,
    Score,
};
use crate::queue::Resource::{Node, NodeMetric, NodeResourceTopology, OwnPod, Pod};
use crate::queue::{Actions, Interest, PluginId, Wake};
use crate::snapshot::Snapshot;
use volumes::{binding, limits, restrictions, zone};

/// One plugin: its name, where it takes part, and how it is made.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    pub points: &'static [Point],
    /// The weight of its score when the configuration does not say.
    pub weight: i64,
    /// Which events may help a pod it rejected.
    pub wakes: Interest,
    /// Part of Kubernetes' own default set.
    pub is_default: bool,
    /// Makes the plugin from its args; `Null` stands for the defaults.
    pub build: Build,
}

/// Makes a plugin from its args, interning the names they hold.
pub type Build = fn(&Value, &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError>;

/// Args of a plugin that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("args of {plugin}: {problem}")]
pub struct ArgsError {
    pub plugin: &'static str,
    pub problem: String,
}

/// Reads args strictly, without their `apiVersion` and `kind`. `Null` gives the defaults.
pub fn read_args<T: DeserializeOwned + Default>(
    plugin: &'static str,
    args: &Value,
) -> Result<T, ArgsError> {
    if args.is_null() {
        return Ok(T::default());
    }
    let mut args = args.clone();
    if let Some(fields) = args.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    serde_json::from_value(args).map_err(|error| ArgsError { plugin, problem: error.to_string() })
}

/// Every plugin there is.
pub const TABLE: &[Row] = &[
    Row {
        name: scheduling_gates::NAME,
        points: &[PreEnqueue],
        weight: 0,
        wakes: Interest::Only(&[Wake::new(OwnPod, Actions::POD_GATES_ELIMINATED)]),
        is_default: true,
        build: scheduling_gates::build,
    },
    Row {
        name: marker::PRIORITY_SORT,
        points: &[QueueSort],
        weight: 0,
        wakes: Interest::Only(&[]),
        is_default: true,
        build: marker::sort,
    },
    Row {
        name: node_unschedulable::NAME,
        points: &[Filter],
        weight: 0,
        wakes: TAINTS,
        is_default: true,
        build: node_unschedulable::build,
    },
    Row {
        name: node_name::NAME,
        points: &[Filter],
        weight: 0,
        wakes: Interest::Only(&[Wake::new(Node, Actions::ADD)]),
        is_default: true,
        build: node_name::build,
    },
    Row {
        name: taint_toleration::NAME,
        points: &[Filter, PreScore, Score],
        weight: 3,
        wakes: TAINTS,
        is_default: true,
        build: taint_toleration::build,
    },
    Row {
        name: node_affinity::NAME,
        points: FILTER_AND_SCORE,
        weight: 2,
        wakes: Interest::Only(&[Wake::new(Node, Actions::ADD.or(Actions::NODE_LABEL))]),
        is_default: true,
        build: node_affinity::build,
    },
    Row {
        name: node_ports::NAME,
        points: &[PreFilter, Filter],
        weight: 0,
        wakes: Interest::Only(&[Wake::new(Pod, Actions::DELETE), Wake::new(Node, Actions::ADD)]),
        is_default: true,
        build: node_ports::build,
    },
    Row {
        name: node_resources_fit::NAME,
        points: FILTER_AND_SCORE,
        weight: 1,
        wakes: Interest::Only(&[
            Wake::new(Pod, Actions::DELETE.or(Actions::POD_SCALE_DOWN)),
            Wake::new(OwnPod, Actions::POD_SCALE_DOWN),
            Wake::new(Node, Actions::ADD.or(Actions::NODE_ALLOCATABLE)),
        ]),
        is_default: true,
        build: node_resources_fit::build,
    },
    Row {
        name: restrictions::NAME,
        points: &[PreFilter, Filter],
        weight: 0,
        wakes: restrictions::WAKES,
        is_default: true,
        build: restrictions::build,
    },
    Row {
        name: limits::NAME,
        points: &[PreFilter, Filter],
        weight: 0,
        wakes: limits::WAKES,
        is_default: true,
        build: limits::build,
    },
    Row {
        name: binding::NAME,
        points: &[PreFilter, Filter, Reserve, PreBind],
        weight: 0,
        wakes: binding::WAKES,
        is_default: true,
        build: binding::build,
    },
    Row {
        name: zone::NAME,
        points: &[PreFilter, Filter],
        weight: 0,
        wakes: zone::WAKES,
        is_default: true,
        build: zone::build,
    },
    Row {
        name: spread::NAME,
        points: FILTER_AND_SCORE,
        weight: 2,
        wakes: spread::WAKES,
        is_default: true,
        build: spread::build,
    },
    Row {
        name: inter_pod::NAME,
        points: FILTER_AND_SCORE,
        weight: 2,
        wakes: inter_pod::WAKES,
        is_default: true,
        build: inter_pod::build,
    },
    Row {
        name: dynamic_resources::NAME,
        points: &[PreFilter, Filter],
        weight: 0,
        wakes: dynamic_resources::WAKES,
        is_default: true,
        build: dynamic_resources::build,
    },
    Row {
        name: DEFAULT_PREEMPTION,
        points: &[PreEnqueue, PostFilter],
        weight: 0,
        wakes: Interest::Only(&[Wake::new(Pod, Actions::DELETE)]),
        is_default: true,
        build: marker::preemption,
    },
    Row {
        name: balanced_allocation::NAME,
        points: &[PreScore, Score],
        weight: 1,
        wakes: Interest::Only(&[]),
        is_default: true,
        build: balanced_allocation::build,
    },
    Row {
        name: image_locality::NAME,
        points: &[Score],
        weight: 1,
        wakes: Interest::Only(&[]),
        is_default: true,
        build: image_locality::build,
    },
    Row {
        name: marker::DEFAULT_BINDER,
        points: &[Bind],
        weight: 0,
        wakes: Interest::Only(&[]),
        is_default: true,
        build: marker::binder,
    },
    added(load_aware::NAME, &[Filter, Score, Reserve], 1, LOAD, load_aware::build),
    added(
        numa_resource::NAME,
        &[PreFilter, Filter, PreScore, Score, Reserve, PreBind],
        1,
        NUMA,
        numa_resource::build,
    ),
    added(fit_plus::NAME, &[PreScore, Score], 1, NOTHING, fit_plus::build),
    added(scarce_resources::NAME, &[PreScore, Score], 1, NOTHING, scarce_resources::build),
    added(scheduling_hint::NAME, &[PreFilter], 0, HINTS, scheduling_hint::build),
    added(marker::DEFAULT_PRE_BIND, &[PreBind], 0, NOTHING, marker::pre_bind),
];

const TAINTS: Interest = Interest::Only(&[
    Wake::new(Node, Actions::ADD.or(Actions::NODE_TAINT)),
    Wake::new(OwnPod, Actions::POD_TOLERATION),
]);

const FILTER_AND_SCORE: &[Point] = &[PreFilter, Filter, PreScore, Score];

/// The number by which the queue knows a plugin: its row.
pub fn id(name: &str) -> Option<PluginId> {
    PluginId::new(TABLE.iter().position(|row| row.name == name)?)
}

/// A plugin that runs where a configuration enables it.
const fn added(
    name: &'static str,
    points: &'static [Point],
    weight: i64,
    wakes: Interest,
    build: Build,
) -> Row {
    Row { name, points, weight, wakes, is_default: false, build }
}

/// It rejects nobody.
const NOTHING: Interest = Interest::Only(&[]);

const LOAD: Interest = Interest::Only(&[
    Wake::new(Pod, Actions::DELETE),
    Wake::new(NodeMetric, Actions::ALL),
    Wake::new(Node, Actions::ADD.or(Actions::NODE_ANNOTATION).or(Actions::NODE_ALLOCATABLE)),
]);

const NUMA: Interest = Interest::Only(&[
    Wake::new(Pod, Actions::DELETE),
    Wake::new(OwnPod, Actions::UPDATE),
    Wake::new(NodeResourceTopology, Actions::ALL),
    Wake::new(
        Node,
        Actions::ADD
            .or(Actions::NODE_LABEL)
            .or(Actions::NODE_ANNOTATION)
            .or(Actions::NODE_ALLOCATABLE),
    ),
]);

const HINTS: Interest =
    Interest::Only(&[Wake::new(Node, Actions::ADD), Wake::new(OwnPod, Actions::UPDATE)]);

pub fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}
