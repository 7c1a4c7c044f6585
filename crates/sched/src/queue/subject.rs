//! What an event is about, and which properties an update changed.

use std::sync::Arc;

use crate::model::{Class, Node, Symbol};
use crate::snapshot::NodeIx;

use super::event::{Actions, Event, Resource};

/// The object of an event, before and after.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A pod on a node. A pod that begins to terminate is one that was and is no more.
    Pod {
        before: Option<Arc<Class>>,
        after: Option<Arc<Class>>,
        node: Option<NodeIx>,
    },
    Node {
        before: Option<Arc<Node>>,
        after: Option<Arc<Node>>,
    },
    /// Any other object, by name; the namespace is `None` for objects of the cluster.
    Object {
        namespace: Option<Symbol>,
        name: Symbol,
    },
}

impl Event<Subject> {
    pub fn pod_added(class: Arc<Class>, node: NodeIx) -> Self {
        let subject = Subject::Pod { before: None, after: Some(class), node: Some(node) };
        Self::new(Resource::Pod, Actions::ADD, subject)
    }

    pub fn pod_deleted(class: Arc<Class>, node: NodeIx) -> Self {
        let subject = Subject::Pod { before: Some(class), after: None, node: Some(node) };
        Self::new(Resource::Pod, Actions::DELETE, subject)
    }

    /// A pod on a node began to terminate: its room is still taken, its company no longer counts.
    pub fn pod_terminating(class: Arc<Class>, node: NodeIx) -> Self {
        let subject = Subject::Pod { before: Some(class), after: None, node: Some(node) };
        Self::new(Resource::Pod, Actions::POD_TERMINATING, subject)
    }

    pub fn pod_updated(before: Arc<Class>, after: Arc<Class>, node: NodeIx) -> Self {
        let actions = pod_changes(&before, &after);
        let subject = Subject::Pod { before: Some(before), after: Some(after), node: Some(node) };
        Self::new(Resource::Pod, actions, subject)
    }

    /// A waiting pod changed.
    pub fn own_pod(before: Arc<Class>, after: Arc<Class>) -> Self {
        let actions = pod_changes(&before, &after);
        let subject = Subject::Pod { before: Some(before), after: Some(after), node: None };
        Self::new(Resource::OwnPod, actions, subject)
    }

    /// `None` when nothing changed that anyone may wait for.
    pub fn node(before: Option<Arc<Node>>, after: Option<Arc<Node>>) -> Option<Self> {
        let actions = match (&before, &after) {
            (None, Some(_)) => Actions::ADD,
            (Some(_), None) => Actions::DELETE,
            (Some(before), Some(after)) => node_changes(before, after),
            (None, None) => Actions::NONE,
        };
        let subject = Subject::Node { before, after };
        (!actions.is_empty()).then(|| Self::new(Resource::Node, actions, subject))
    }

    pub fn object(
        resource: Resource,
        actions: Actions,
        namespace: Option<Symbol>,
        name: Symbol,
    ) -> Self {
        Self::new(resource, actions, Subject::Object { namespace, name })
    }
}

/// Which properties of a node changed.
pub fn node_changes(before: &Node, after: &Node) -> Actions {
    let is_tainted_otherwise =
        before.taints != after.taints || before.unschedulable != after.unschedulable;
    let is_sized_otherwise =
        before.allocatable != after.allocatable || before.max_pods != after.max_pods;
    Actions::NODE_ALLOCATABLE
        .when(is_sized_otherwise)
        .or(Actions::NODE_LABEL.when(before.labels != after.labels))
        .or(Actions::NODE_TAINT.when(is_tainted_otherwise))
        .or(Actions::NODE_CONDITION.when(before.conditions != after.conditions))
        .or(Actions::NODE_ANNOTATION.when(before.annotations != after.annotations))
}

/// Which properties of a pod changed; [`Actions::OTHER`] when none with a name did.
pub fn pod_changes(before: &Class, after: &Class) -> Actions {
    let is_smaller = before.requests.iter().any(|(id, amount)| after.requests.get(id) < amount);
    let tolerates_more = after.tolerations.iter().any(|one| !before.tolerations.contains(one));
    let is_released = !before.gates.is_empty() && after.gates.is_empty();
    Actions::POD_LABEL
        .when(before.labels != after.labels)
        .or(Actions::POD_SCALE_DOWN.when(is_smaller))
        .or(Actions::POD_TOLERATION.when(tolerates_more))
        .or(Actions::POD_GATES_ELIMINATED.when(is_released))
        .or_other()
}
