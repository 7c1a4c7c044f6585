//! A Deployment, its ReplicaSets and just enough of the controllers below it.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::apps::v1::{DeploymentCondition, DeploymentStrategy, RollingUpdateDeployment},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::super::*;
use crate::{
    controllers::{
        clock::{plus_seconds, stamp},
        fixture::{NOW, meta, pod, selector, template},
        replica_set::wanted,
        template::same,
    },
    well_known::REVISION,
};

pub(super) fn deployment(
    replicas: i32,
    surge: IntOrString,
    unavailable: IntOrString,
) -> Deployment {
    Deployment {
        metadata: meta("web"),
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            selector: selector(&[("app", "web")]),
            template: template("web", "v1"),
            progress_deadline_seconds: Some(600),
            revision_history_limit: Some(10),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(surge),
                    max_unavailable: Some(unavailable),
                }),
            }),
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

pub(super) fn int(number: i32) -> IntOrString {
    IntOrString::Int(number)
}

pub(super) fn percent(number: i32) -> IntOrString {
    IntOrString::String(format!("{number}%"))
}

/// The pods of one ReplicaSet, and its controller.
#[derive(Debug, Default, Clone)]
pub(super) struct Pods {
    pub(super) unready: i32,
    pub(super) ready: i32,
}

/// A Deployment, its ReplicaSets and just enough of the controllers below it.
#[derive(Debug)]
pub(super) struct World {
    pub(super) deployment: Deployment,
    pub(super) sets: BTreeMap<String, ReplicaSet>,
    pub(super) pods: BTreeMap<String, Pods>,
    pub(super) now: Timestamp,
}

impl World {
    pub(super) fn new(deployment: Deployment) -> Self {
        Self { deployment, sets: BTreeMap::new(), pods: BTreeMap::new(), now: NOW }
    }

    /// A world in which `v1` is fully rolled out and the Deployment has just got `v2`.
    pub(super) fn updated(deployment: Deployment) -> Self {
        let mut world = Self::new(deployment);
        world.settle();
        world.edit(|spec| spec.template = template("web", "v2"));
        world
    }

    pub(super) fn spec(&mut self) -> &mut DeploymentSpec {
        self.deployment.spec.get_or_insert_default()
    }

    pub(super) fn edit(&mut self, change: impl FnOnce(&mut DeploymentSpec)) {
        change(self.spec());
        let generation = self.deployment.metadata.generation.get_or_insert(0);
        *generation += 1;
    }

    pub(super) fn plan(&self) -> Plan {
        let sets: Vec<_> = self.sets.values().cloned().map(Arc::new).collect();
        let pods: Vec<_> = self
            .pods
            .iter()
            .flat_map(|(set, pods)| {
                let owner = &self.sets[set];
                (0..pods.ready + pods.unready)
                    .map(move |n| Arc::new(pod(&format!("{set}-{n}")).owned_by(owner).build()))
            })
            .collect();
        let observed = Observed { deployment: &self.deployment, sets: &sets, pods: &pods };
        plan(&observed, self.now)
    }

    pub(super) fn step(&mut self) -> Plan {
        let plan = self.plan();
        for action in plan.actions.clone() {
            match action {
                Action::Create(mut set) => {
                    let name = set.metadata.name.clone().unwrap();
                    set.metadata.uid = Some(format!("uid-{name}"));
                    self.now = plus_seconds(self.now, 1);
                    set.metadata.creation_timestamp = Some(stamp(self.now));
                    set.metadata.generation = Some(1);
                    assert!(self.sets.insert(name.clone(), *set).is_none(), "{name} exists");
                }
                Action::Update { before, after } => {
                    let name = after.metadata.name.clone().unwrap();
                    assert_eq!(self.sets.insert(name, *after), Some(ReplicaSet::clone(&before)));
                }
                Action::Delete(set) => {
                    self.sets.remove(set.metadata.name.as_deref().unwrap());
                }
            }
        }
        if let Some(revision) = &plan.revision {
            let annotations = self.deployment.metadata.annotations.get_or_insert_default();
            annotations.insert(REVISION.into(), revision.clone());
        }
        self.deployment.status = Some(plan.status.clone());
        plan
    }

    /// Lets the ReplicaSet controller make the pods its set wants.
    pub(super) fn run_pods(&mut self) {
        for (name, set) in &self.sets {
            let pods = self.pods.entry(name.clone()).or_default();
            let change = wanted(set) - pods.ready - pods.unready;
            if change > 0 {
                pods.unready += change;
            } else {
                let unready = pods.unready.min(-change);
                pods.unready -= unready;
                pods.ready -= -change - unready;
            }
        }
        self.pods.retain(|name, _| self.sets.contains_key(name));
    }

    pub(super) fn make_ready(&mut self, most: i32) {
        let mut left = most;
        for pods in self.pods.values_mut() {
            let ready = pods.unready.min(left);
            pods.unready -= ready;
            pods.ready += ready;
            left -= ready;
        }
    }

    /// Lets ReplicaSets report what they have.
    pub(super) fn report(&mut self) {
        for (name, set) in &mut self.sets {
            let pods = self.pods.get(name).cloned().unwrap_or_default();
            let status = set.status.get_or_insert_default();
            status.replicas = pods.ready + pods.unready;
            status.ready_replicas = Some(pods.ready);
            status.available_replicas = Some(pods.ready);
            status.observed_generation = set.metadata.generation;
        }
    }

    pub(super) fn available(&self) -> i32 {
        self.pods.values().map(|pods| pods.ready).sum()
    }

    pub(super) fn wanted(&self) -> i32 {
        self.sets.values().map(wanted).sum()
    }

    /// Everything works at once, until nothing is left to do.
    pub(super) fn settle(&mut self) {
        for _ in 0..100 {
            let plan = self.step();
            self.run_pods();
            self.make_ready(i32::MAX);
            self.report();
            if plan.actions.is_empty() && self.plan().actions.is_empty() {
                self.step();
                return;
            }
        }
        panic!("does not settle: {self:?}");
    }

    /// The set whose template has this image.
    pub(super) fn set(&self, image: &str) -> Option<&ReplicaSet> {
        let wanted = template("web", image);
        self.sets.values().find(|set| {
            let has = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
            same(has.unwrap(), &wanted)
        })
    }

    /// `new/old` sizes.
    pub(super) fn sizes(&self) -> String {
        let size = |image| self.set(image).map_or("-".to_owned(), |set| wanted(set).to_string());
        format!("{}/{}", size("v2"), size("v1"))
    }

    pub(super) fn annotation(&self, image: &str, name: &str) -> Option<String> {
        self.set(image)?.metadata.annotations.as_ref()?.get(name).cloned()
    }

    pub(super) fn progressing(&self) -> (String, String) {
        let status = self.deployment.status.clone().unwrap_or_default();
        let condition = find(&status, "Progressing").expect("a Progressing condition");
        (condition.status.clone(), condition.reason.unwrap_or_default())
    }
}

pub(super) fn find(status: &DeploymentStatus, kind: &str) -> Option<DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind).cloned()
}
