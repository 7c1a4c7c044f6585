//! The questions: could this event have turned the verdict of this plugin?

use std::sync::Arc;

use crate::model::{Class, Effect, Node, NodeAffinity, ResourceId, Taint, VolumeSource};
use crate::plugins::inter_pod::admits;
use crate::queue::{Event, Hint, Resource, Subject};
use crate::snapshot::{NodeIx, Snapshot};

pub(super) fn always(_: &Snapshot, _: &Class, _: &Event<Subject>) -> Hint {
    Hint::Queue
}

pub(super) fn never(_: &Snapshot, _: &Class, _: &Event<Subject>) -> Hint {
    Hint::Skip
}

/// The node as it is after the event, for events about nodes.
fn node_now(event: &Event<Subject>) -> Option<&Node> {
    match &event.subject {
        Some(Subject::Node { after, .. }) => after.as_deref(),
        _ => None,
    }
}

pub(super) fn node_name(_: &Snapshot, class: &Class, event: &Event<Subject>) -> Hint {
    let is_it = |node: &Node| class.node_name.is_none_or(|name| name == node.name);
    Hint::queue_if(node_now(event).is_none_or(is_it))
}

pub(super) fn ports(_: &Snapshot, class: &Class, event: &Event<Subject>) -> Hint {
    let Some(Subject::Pod { before: Some(gone), .. }) = &event.subject else { return Hint::Queue };
    let mut freed = gone.host_ports.iter();
    let is_ours = freed.any(|port| class.host_ports.iter().any(|own| own.conflicts(*port)));
    Hint::queue_if(is_ours)
}

pub(super) fn schedulable(snapshot: &Snapshot, class: &Class, event: &Event<Subject>) -> Hint {
    let Some(node) = node_now(event) else { return Hint::Queue };
    let key = snapshot.names.find("node.kubernetes.io/unschedulable");
    let value = snapshot.names.find("");
    let tolerates = key.is_none_or(|key| {
        let value = value.unwrap_or(key);
        let taint = Taint { key, value, effect: Effect::NoSchedule };
        class.tolerations.iter().any(|one| one.tolerates(&taint))
    });
    Hint::queue_if(!node.unschedulable || tolerates)
}

pub(super) fn tolerated(_: &Snapshot, class: &Class, event: &Event<Subject>) -> Hint {
    let Some(node) = node_now(event) else { return Hint::Queue };
    let mut hard = node.taints.iter().filter(|one| one.effect != Effect::PreferNoSchedule);
    Hint::queue_if(hard.all(|taint| class.tolerations.iter().any(|one| one.tolerates(taint))))
}

pub(super) fn node_affinity(snapshot: &Snapshot, class: &Class, event: &Event<Subject>) -> Hint {
    let Some(node) = node_now(event) else { return Hint::Queue };
    let NodeAffinity { selector, required, .. } = &class.node_affinity;
    let is_selected = selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    let matches = is_selected
        && required
            .as_ref()
            .is_none_or(|one| one.matches(node.name, &node.labels, &snapshot.names));
    Hint::queue_if(matches)
}

/// Is there room for CPU, memory, storage and one pod more on the node of the event? Scalars are
/// not looked at: a profile may ignore some.
pub(super) fn room(snapshot: &Snapshot, class: &Class, event: &Event<Subject>) -> Hint {
    let at: Option<NodeIx> = match &event.subject {
        Some(Subject::Pod { node, .. }) => *node,
        Some(Subject::Node { after: Some(node), .. }) => snapshot.node_by_name(node.name),
        _ => None,
    };
    let Some(at) = at else { return Hint::Queue };
    let room = snapshot.rooms().get(at);
    let native = [ResourceId::CPU, ResourceId::MEMORY, ResourceId::EPHEMERAL_STORAGE];
    let fits = native.iter().zip(room.allocatable.iter().zip(room.requested)).all(
        |(resource, (allocatable, requested))| {
            let wanted = class.requests.get(*resource);
            wanted <= 0 || wanted <= allocatable.saturating_sub(requested)
        },
    );
    Hint::queue_if(fits && room.pods < room.max_pods)
}

/// Pods before and after an event about a pod.
fn pods(event: &Event<Subject>) -> Option<[Option<&Arc<Class>>; 2]> {
    match &event.subject {
        Some(Subject::Pod { before, after, .. }) if event.resource == Resource::Pod => {
            Some([before.as_ref(), after.as_ref()])
        }
        _ => None,
    }
}

/// Company changes for a pod when somebody it wants comes (or the last one it wanted goes, which
/// frees the first of its kind), when somebody it shuns goes, or somebody who shuns it.
pub(super) fn company(snapshot: &Snapshot, class: &Class, event: &Event<Subject>) -> Hint {
    let Some([before, after]) = pods(event) else { return Hint::Queue };
    let own = &class.pod_affinity;
    let is_wanted = |pod: Option<&Arc<Class>>| {
        pod.is_some_and(|pod| own.required.iter().all(|term| admits(term, pod, snapshot)))
    };
    let is_shunned = |pod: Option<&Arc<Class>>| {
        pod.is_some_and(|pod| {
            own.anti_required.iter().any(|term| admits(term, pod, snapshot))
                || pod.pod_affinity.anti_required.iter().any(|term| admits(term, class, snapshot))
        })
    };
    let has_new_company = !own.required.is_empty() && is_wanted(before) != is_wanted(after);
    Hint::queue_if(has_new_company || (is_shunned(before) && !is_shunned(after)))
}

/// Counts change when a pod that some constraint counts comes, goes, or changes its labels.
pub(super) fn spread(snapshot: &Snapshot, class: &Class, event: &Event<Subject>) -> Hint {
    let Some([before, after]) = pods(event) else { return Hint::Queue };
    if class.spread.is_empty() {
        return Hint::Queue;
    }
    let counts = |pod: Option<&Arc<Class>>, at: usize| {
        let Some(constraint) = class.spread.get(at) else { return false };
        pod.is_some_and(|pod| {
            pod.namespace == class.namespace
                && constraint.selector.matches(&pod.labels, &snapshot.names)
        })
    };
    let mut constraints = 0..class.spread.len();
    Hint::queue_if(constraints.any(|at| counts(before, at) != counts(after, at)))
}

/// A pod that went may have held one of our disks; a claim matters when it is ours.
pub(super) fn disks(snapshot: &Snapshot, class: &Class, event: &Event<Subject>) -> Hint {
    match &event.subject {
        Some(Subject::Pod { before: Some(gone), .. }) => {
            let mut theirs = gone.volumes.iter();
            let is_shared =
                theirs.any(|volume| class.volumes.iter().any(|own| own.source == volume.source));
            Hint::queue_if(is_shared)
        }
        _ => claims(snapshot, class, event),
    }
}

/// A claim matters when it is ours; everything else about storage may.
pub(super) fn claims(_: &Snapshot, class: &Class, event: &Event<Subject>) -> Hint {
    let is_claim = event.resource == Resource::PersistentVolumeClaim;
    let Some(Subject::Object { namespace, name: changed }) = &event.subject else {
        return Hint::Queue;
    };
    let is_ours = class.volumes.iter().any(
        |volume| matches!(&volume.source, VolumeSource::Claim { name, .. } if name == changed),
    );
    Hint::queue_if(!is_claim || (*namespace == Some(class.namespace) && is_ours))
}
