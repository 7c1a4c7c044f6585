//! Objects of the API server change what we know.
//!
//! Pods are known by uid. What the API server says of a pod meets what we think of it:
//!
//! | we think | it has no node | it has a node |
//! |---|---|---|
//! | unknown | queue it, if it is ours | charge it |
//! | pending | update it in the queue | somebody bound it: charge it, forget the queue |
//! | assumed | our binding is on its way | confirmed; charged where the API server says |
//! | bound | an old copy: ignored | charged where the API server says |

use std::sync::Arc;

use api::kind::{NodeMetric, NodeResourceTopology};
use k8s_openapi::api::core::v1 as wire;

use super::change::{Change, Key, Update};
use super::facts;
use super::{Scheduler, Subject};
use crate::model::{Class, Node, Symbol};
use crate::plugin::Event;
use crate::queue::{Actions, Resource, Ticket};
use crate::read::{PodFacts, Reader};
use crate::snapshot::{Phase, Pod, PodIx};
use crate::time::Time;

impl Scheduler {
    /// Takes note of an object as it is now.
    pub fn apply(&mut self, change: Change, now: Time) {
        match change {
            Change::Pod(Update::Upsert(pod)) => self.set_pod(&pod, now),
            Change::Pod(Update::Delete(key)) => self.delete_pod(&key, now),
            Change::Node(Update::Upsert(node)) => self.set_node(&node, now),
            Change::Node(Update::Delete(key)) => self.delete_node(&key, now),
            Change::Pdb(Update::Upsert(pdb)) => self.budgets.set(&pdb, &mut self.snapshot),
            Change::Pdb(Update::Delete(key)) => self.budgets.remove(&key),
            Change::NodeMetric(update) => self.set_metric(update, now),
            Change::NodeTopology(update) => self.set_topology(update, now),
            fact => {
                if let Some(event) = facts::apply(&mut self.snapshot, &fact) {
                    self.fire(event, now);
                }
            }
        }
        self.tell_released(now);
    }

    fn set_node(&mut self, object: &wire::Node, now: Time) {
        let mut reader =
            Reader { names: &mut self.snapshot.names, resources: &mut self.snapshot.resources };
        let node = reader.node(object);
        let before = self.snapshot.node_by_name(node.name);
        let before = before.and_then(|at| self.snapshot.node(at).cloned());
        let name = node.name;
        if !self.snapshot.set_node(node) {
            return;
        }
        let after = self.snapshot.node_by_name(name);
        let after = after.and_then(|at| self.snapshot.node(at).cloned());
        let actions = match (&before, &after) {
            (Some(before), Some(after)) => node_actions(before, after),
            _ => Actions::ADD,
        };
        self.fire(Event::new(Resource::Node, actions, Subject::Node { before, after }), now);
    }

    fn delete_node(&mut self, key: &Key, now: Time) {
        let Some(name) = self.snapshot.names.find(&key.name) else { return };
        let before = self.snapshot.node_by_name(name);
        let before = before.and_then(|at| self.snapshot.node(at).cloned());
        if self.snapshot.remove_node(name) {
            let subject = Subject::Node { before, after: None };
            self.fire(Event::new(Resource::Node, Actions::DELETE, subject), now);
        }
    }

    fn set_metric(&mut self, update: Update<NodeMetric>, now: Time) {
        self.expire(now);
        let (name, actions) = match &update {
            Update::Upsert(metric) => (metric.metadata.name.as_deref(), Actions::OTHER),
            Update::Delete(key) => (Some(key.name.as_str()), Actions::DELETE),
        };
        let Some(name) = name else { return };
        let metric = match &update {
            Update::Upsert(metric) => Some(&**metric),
            Update::Delete(_) => None,
        };
        self.snapshot.set_metric(name, metric);
        let subject = self.report_of(name);
        self.fire(Event::new(Resource::NodeMetric, actions, subject), now);
    }

    fn set_topology(&mut self, update: Update<NodeResourceTopology>, now: Time) {
        let (name, actions) = match &update {
            Update::Upsert(topology) => (topology.metadata.name.as_deref(), Actions::OTHER),
            Update::Delete(key) => (Some(key.name.as_str()), Actions::DELETE),
        };
        let Some(name) = name else { return };
        let topology = match &update {
            Update::Upsert(topology) => Some(&**topology),
            Update::Delete(_) => None,
        };
        if self.snapshot.set_topology(name, topology) {
            let subject = self.report_of(name);
            self.fire(Event::new(Resource::NodeResourceTopology, actions, subject), now);
        }
    }

    fn report_of(&self, node: &str) -> Subject {
        self.snapshot.find_node(node).map_or(Subject::Other, Subject::Report)
    }

    fn set_pod(&mut self, object: &wire::Pod, now: Time) {
        let mut reader =
            Reader { names: &mut self.snapshot.names, resources: &mut self.snapshot.resources };
        let (facts, template) = reader.pod(object);
        let known = self.snapshot.pods.find(&facts.uid);
        if facts.is_finished {
            if let Some(pod) = known {
                self.remove_pod(pod, now);
            }
            return;
        }
        let class = self.snapshot.classes.intern(template, facts.tie);
        match known {
            None => self.new_pod(object, facts, class, now),
            Some(pod) => self.known_pod(object, pod, &facts, class, now),
        }
    }

    fn new_pod(&mut self, object: &wire::Pod, facts: PodFacts, class: Arc<Class>, now: Time) {
        let is_ours = self.profiles.contains_key(&class.scheduler);
        if facts.node.is_none() && !is_ours {
            return;
        }
        let pod = self.snapshot.pods.insert(Pod {
            uid: Arc::clone(&facts.uid),
            namespace: facts.namespace,
            name: Arc::clone(&facts.name),
            class: Arc::clone(&class),
            phase: if facts.node.is_some() { Phase::Bound } else { Phase::Pending },
            node: None,
            nominated: None,
            created: facts.created,
            started: facts.started,
            is_terminating: facts.is_terminating,
            is_preempted: facts.is_preempted,
        });
        self.snapshot.extras.pod_seen(pod, object, &mut self.snapshot.resources);
        if let Some(node) = facts.node {
            self.snapshot.attach(pod, node);
            self.pod_event(Actions::ADD, None, Some(class), now);
            return;
        }
        if let Some(node) = facts.nominated {
            self.promise(pod, node);
        }
        let (queue, policy) = self.queue_and_policy();
        queue.add(ticket(&facts.uid, &class), &policy, now);
    }

    fn known_pod(
        &mut self,
        object: &wire::Pod,
        pod: PodIx,
        facts: &PodFacts,
        class: Arc<Class>,
        now: Time,
    ) {
        let Some(found) = self.snapshot.pods.get(pod) else { return };
        let (phase, at, before) = (found.phase, found.node, Arc::clone(&found.class));
        let begins_to_end = facts.is_terminating && !found.is_terminating;
        self.snapshot.extras.pod_seen(pod, object, &mut self.snapshot.resources);
        match (phase, facts.node) {
            (Phase::Pending, None) => self.update_pending(pod, facts, before, class, now),
            (Phase::Pending, Some(node)) => {
                self.queue.delete(&facts.uid);
                self.release(pod);
                self.renew(pod, facts, &class, Phase::Bound);
                self.snapshot.attach(pod, node);
                self.pod_event(Actions::ADD, None, Some(class), now);
            }
            (Phase::Assumed, None) | (Phase::Bound, None) => {}
            (Phase::Assumed | Phase::Bound, Some(node)) => {
                let is_elsewhere = at != self.snapshot.slot_named(node);
                self.queue.delete(&facts.uid);
                self.update_assigned(pod, facts, &before, &class, node);
                if is_elsewhere {
                    self.pod_event(Actions::DELETE, Some(Arc::clone(&before)), None, now);
                }
                if phase == Phase::Assumed || is_elsewhere {
                    self.pod_event(Actions::ADD, None, Some(Arc::clone(&class)), now);
                }
                if begins_to_end {
                    let (before, class) = (Arc::clone(&before), Arc::clone(&class));
                    self.pod_event(Actions::POD_TERMINATING, Some(before), Some(class), now);
                }
                // It may have been changed on its way, too.
                if before.id != class.id {
                    self.pod_event(pod_actions(&before, &class), Some(before), Some(class), now);
                }
            }
        }
    }

    fn update_pending(
        &mut self,
        pod: PodIx,
        facts: &PodFacts,
        before: Arc<Class>,
        class: Arc<Class>,
        now: Time,
    ) {
        if !self.profiles.contains_key(&class.scheduler) {
            self.remove_pod(pod, now);
            return;
        }
        self.renew(pod, facts, &class, Phase::Pending);
        let promised = self.nominator.node_of(&facts.uid).copied();
        // Without one, the copy may be older than a promise of ours that is being written.
        if let Some(node) = facts.nominated.or(promised) {
            self.promise(pod, node);
        }
        if before.id == class.id {
            return;
        }
        let actions = pod_actions(&before, &class);
        let ticket = ticket(&facts.uid, &class);
        let subject = Subject::Pod { before: Some(before), after: Some(class) };
        let event = Event::new(Resource::OwnPod, actions, subject);
        let (queue, policy) = self.queue_and_policy();
        queue.update(ticket, event, &policy, now);
    }

    /// Charges a pod where the API server says, when that or the charge is another.
    fn update_assigned(
        &mut self,
        pod: PodIx,
        facts: &PodFacts,
        before: &Class,
        class: &Arc<Class>,
        node: Symbol,
    ) {
        let Some(found) = self.snapshot.pods.get(pod) else { return };
        let is_there = found.node.is_some() && found.node == self.snapshot.slot_named(node);
        let is_same = before.id == class.id
            && found.is_terminating == facts.is_terminating
            && found.is_preempted == facts.is_preempted
            && found.started == facts.started;
        if is_there && is_same {
            self.renew(pod, facts, class, Phase::Bound);
            return;
        }
        self.snapshot.detach(pod);
        self.renew(pod, facts, class, Phase::Bound);
        self.snapshot.attach(pod, node);
    }

    fn renew(&mut self, pod: PodIx, facts: &PodFacts, class: &Arc<Class>, phase: Phase) {
        if let Some(found) = self.snapshot.pods.get_mut(pod) {
            found.class = Arc::clone(class);
            found.phase = phase;
            found.started = facts.started;
            // Nobody comes back; a copy from before the deletion may still arrive.
            found.is_terminating |= facts.is_terminating;
            found.is_preempted = facts.is_preempted;
        }
    }

    /// The API server took our deletion of this pod. Its next copy says so, too, but until that
    /// arrives nobody must choose it as a victim once more.
    pub fn leaving(&mut self, uid: &str, now: Time) {
        let Some(pod) = self.snapshot.pods.find(uid) else { return };
        let Some(found) = self.snapshot.pods.get(pod).filter(|pod| !pod.is_terminating) else {
            return;
        };
        let class = Arc::clone(&found.class);
        let node = found.node.and_then(|at| self.snapshot.node(at)).map(|node| node.name);
        let Some(node) = node else { return };
        self.snapshot.detach(pod);
        if let Some(found) = self.snapshot.pods.get_mut(pod) {
            found.is_terminating = true;
        }
        self.snapshot.attach(pod, node);
        self.pod_event(Actions::POD_TERMINATING, Some(Arc::clone(&class)), Some(class), now);
    }

    fn delete_pod(&mut self, key: &Key, now: Time) {
        let pod = match &key.uid {
            Some(uid) => self.snapshot.pods.find(uid),
            None => self.find_pod(&key.namespace, &key.name),
        };
        if let Some(pod) = pod {
            self.remove_pod(pod, now);
        }
    }

    /// Forgets a pod, wherever it stands.
    pub(super) fn remove_pod(&mut self, pod: PodIx, now: Time) {
        let Some(found) = self.snapshot.pods.get(pod) else { return };
        let (uid, class, phase) = (Arc::clone(&found.uid), Arc::clone(&found.class), found.phase);
        self.queue.delete(&uid);
        self.release(pod);
        self.preempting.remove(&uid);
        if phase == Phase::Assumed {
            self.unreserve(pod);
        }
        let was_charged = self.snapshot.detach(pod).is_some();
        self.snapshot.extras.pod_gone(pod);
        self.snapshot.pods.remove(pod);
        self.placements.remove(&uid);
        if was_charged {
            self.pod_event(Actions::DELETE, Some(class), None, now);
        }
    }

    pub(super) fn pod_event(
        &mut self,
        actions: Actions,
        before: Option<Arc<Class>>,
        after: Option<Arc<Class>>,
        now: Time,
    ) {
        let subject = Subject::Pod { before, after };
        self.fire(Event::new(Resource::Pod, actions, subject), now);
    }

    /// Tells the queue what happened.
    pub(super) fn fire(&mut self, event: Event, now: Time) {
        let (queue, policy) = self.queue_and_policy();
        queue.fire(event, &policy, now);
    }

    pub(super) fn find_pod(&self, namespace: &str, name: &str) -> Option<PodIx> {
        let namespace = self.snapshot.names.find(namespace)?;
        let mut pods = self.snapshot.pods.iter();
        pods.find(|(_, pod)| pod.namespace == namespace && &*pod.name == name).map(|(at, _)| at)
    }
}

pub(super) fn ticket(uid: &Arc<str>, class: &Class) -> Ticket {
    Ticket { uid: Arc::clone(uid), priority: class.priority, group: class.id.0 }
}

fn node_actions(before: &Node, after: &Node) -> Actions {
    let is_offer = before.allocatable != after.allocatable || before.max_pods != after.max_pods;
    let is_taint = before.taints != after.taints || before.unschedulable != after.unschedulable;
    Actions::NODE_ALLOCATABLE
        .when(is_offer)
        .or(Actions::NODE_LABEL.when(before.labels != after.labels))
        .or(Actions::NODE_TAINT.when(is_taint))
        .or(Actions::NODE_CONDITION.when(before.conditions != after.conditions))
        .or(Actions::NODE_ANNOTATION.when(before.annotations != after.annotations))
        .or_other()
}

fn pod_actions(before: &Class, after: &Class) -> Actions {
    let shrinks = before.requests.iter().any(|(id, amount)| after.requests.get(id) < amount);
    let ungated = !before.gates.is_empty() && after.gates.is_empty();
    Actions::POD_LABEL
        .when(before.labels != after.labels)
        .or(Actions::POD_SCALE_DOWN.when(shrinks))
        .or(Actions::POD_TOLERATION.when(before.tolerations != after.tolerations))
        .or(Actions::POD_GATES_ELIMINATED.when(ungated))
        .or_other()
}
