//! Which events can turn a plugin's "no", and for whom?
//!
//! One row for each plugin that rejects: the kinds of events it wants to be asked about and the
//! question itself. A hint must never say `Skip` when the event could have helped, for then the pod
//! sleeps until the flush; saying `Queue` in vain costs one attempt. Hints see the snapshot as it is
//! after the event.

mod hints;

use crate::model::Class;
use crate::queue::{Actions, Event, Hint, Interest, Interests, Resource, Subject, Wake};
use crate::snapshot::Snapshot;

/// Whether an event may help pods of a class that the plugin rejected.
pub type HintFn = fn(&Snapshot, &Class, &Event<Subject>) -> Hint;

/// When to look again at pods that one plugin rejected.
#[derive(Debug, Clone, Copy)]
pub struct Waking {
    pub plugin: &'static str,
    pub interest: Interest,
    pub hint: HintFn,
}

const fn on(resource: Resource, actions: Actions) -> Wake {
    Wake::new(resource, actions)
}

const fn row(plugin: &'static str, wakes: &'static [Wake], hint: HintFn) -> Waking {
    Waking { plugin, interest: Interest::Only(wakes), hint }
}

use Resource::{
    CsiDriver, CsiNode, CsiStorageCapacity, Namespace, Node, NodeMetric, NodeResourceTopology,
    OwnPod, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, VolumeAttachment, Workload,
};

const ADD: Actions = Actions::ADD;
const DELETE: Actions = Actions::DELETE;
const UPDATE: Actions = Actions::UPDATE;
const ALL: Actions = Actions::ALL;
const LABEL: Actions = Actions::NODE_LABEL;
const TAINT: Actions = Actions::NODE_TAINT;
/// A pod with an effect on others came, changed or went.
const COMPANY: Actions = ADD.or(DELETE).or(Actions::POD_LABEL);

const TABLE: &[Waking] = &[
    row("SchedulingGates", &[on(OwnPod, Actions::POD_GATES_ELIMINATED)], hints::always),
    row("DefaultPreemption", &[on(Pod, DELETE)], hints::never),
    row("NodeName", &[on(Node, ADD)], hints::node_name),
    row("NodePorts", &[on(Pod, DELETE), on(Node, ADD)], hints::ports),
    row(
        "NodeUnschedulable",
        &[on(Node, ADD.or(TAINT)), on(OwnPod, Actions::POD_TOLERATION)],
        hints::schedulable,
    ),
    row(
        "TaintToleration",
        &[on(Node, ADD.or(TAINT)), on(OwnPod, Actions::POD_TOLERATION)],
        hints::tolerated,
    ),
    row("NodeAffinity", &[on(Node, ADD.or(LABEL))], hints::node_affinity),
    row(
        "NodeResourcesFit",
        &[
            on(Pod, DELETE.or(Actions::POD_SCALE_DOWN)),
            on(OwnPod, Actions::POD_SCALE_DOWN),
            on(Node, ADD.or(Actions::NODE_ALLOCATABLE)),
        ],
        hints::room,
    ),
    row(
        "InterPodAffinity",
        &[
            on(Pod, COMPANY),
            on(OwnPod, Actions::POD_LABEL),
            // A node takes the domains of its pods with it.
            on(Node, ADD.or(DELETE).or(LABEL)),
            on(Namespace, ADD.or(UPDATE).or(DELETE)),
        ],
        hints::company,
    ),
    row(
        "PodTopologySpread",
        &[
            on(Pod, COMPANY.or(Actions::POD_TERMINATING)),
            on(OwnPod, Actions::POD_LABEL.or(Actions::POD_TOLERATION)),
            on(Node, ADD.or(DELETE).or(LABEL).or(TAINT)),
            on(Workload, ALL),
        ],
        hints::spread,
    ),
    row(
        "VolumeRestrictions",
        &[on(Pod, DELETE), on(Node, ADD), on(PersistentVolumeClaim, ADD.or(UPDATE))],
        hints::disks,
    ),
    row(
        "NodeVolumeLimits",
        &[
            on(CsiNode, ADD.or(UPDATE).or(DELETE)),
            on(Pod, DELETE),
            on(Node, ADD),
            on(PersistentVolumeClaim, ADD.or(UPDATE)),
            on(PersistentVolume, UPDATE),
            on(VolumeAttachment, DELETE),
        ],
        hints::always,
    ),
    row(
        "VolumeZone",
        &[
            on(StorageClass, ADD.or(UPDATE)),
            on(PersistentVolumeClaim, ADD.or(UPDATE)),
            on(PersistentVolume, ADD.or(UPDATE)),
            on(Node, ADD.or(LABEL)),
        ],
        hints::claims,
    ),
    row(
        "VolumeBinding",
        &[
            on(StorageClass, ADD.or(UPDATE)),
            on(PersistentVolumeClaim, ADD.or(UPDATE)),
            on(PersistentVolume, ADD.or(UPDATE)),
            on(Node, ADD.or(LABEL)),
            on(CsiNode, ADD.or(UPDATE)),
            on(CsiDriver, UPDATE.or(DELETE)),
            on(CsiStorageCapacity, ADD.or(UPDATE)),
        ],
        hints::claims,
    ),
    row("DynamicResources", &[on(OwnPod, UPDATE)], hints::always),
    row(
        "LoadAwareScheduling",
        &[
            on(Pod, DELETE),
            on(NodeMetric, ALL),
            on(Node, ADD.or(Actions::NODE_ANNOTATION).or(Actions::NODE_ALLOCATABLE)),
        ],
        hints::always,
    ),
    row(
        "NodeNUMAResource",
        &[
            on(Pod, DELETE),
            on(NodeResourceTopology, ALL),
            on(Node, ADD.or(LABEL).or(Actions::NODE_ANNOTATION).or(Actions::NODE_ALLOCATABLE)),
        ],
        hints::always,
    ),
];

/// A plugin without a row is woken by everything.
pub fn of(plugin: &'static str) -> Waking {
    let row = TABLE.iter().find(|row| row.plugin == plugin);
    row.copied().unwrap_or(Waking { plugin, interest: Interest::Every, hint: hints::always })
}

/// The declarations of all plugins in the order of [`super::TABLE`].
pub fn interests() -> Interests {
    Interests::new(super::TABLE.iter().map(|row| of(row.name).interest))
}
