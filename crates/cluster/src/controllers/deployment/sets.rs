//! The ReplicaSets of one rollout, as they are and as they shall be.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{Action, Limits, Observed, Plan, Strategy, Why, progress, status};
use crate::{
    controllers::{
        amount::{count, length},
        claim::Owner,
        key::{controller_of, is_terminating, uid},
        replica_set::wanted,
        template,
    },
    well_known::{
        DAEMON_SET_TEMPLATE_GENERATION, DESIRED_REPLICAS, LAST_APPLIED, MAX_REPLICAS,
        POD_TEMPLATE_HASH, REVISION, REVISION_HISTORY,
    },
};

/// How long the list of earlier revisions may grow.
const HISTORY_CHARACTERS: usize = 2_000;

/// Annotations of the Deployment that its ReplicaSets do not inherit.
const NOT_INHERITED: [&str; 6] = [
    LAST_APPLIED,
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    DAEMON_SET_TEMPLATE_GENERATION,
];

/// One ReplicaSet on its way from `before` to `after`.
#[derive(Debug)]
pub(super) struct Set {
    /// `None` for one that is about to be created.
    before: Option<Arc<ReplicaSet>>,
    pub(super) after: ReplicaSet,
    is_deleted: bool,
}

impl Set {
    pub(super) fn replicas(&self) -> i32 {
        wanted(&self.after)
    }

    pub(super) fn is_active(&self) -> bool {
        self.replicas() > 0
    }

    pub(super) fn available(&self) -> i32 {
        self.after.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
    }

    pub(super) fn name(&self) -> &str {
        self.after.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.after.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, annotation: &str) -> Option<i64> {
        self.annotation(annotation)?.parse().ok()
    }

    fn age(&self) -> Option<Timestamp> {
        self.after.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    /// Older first; names decide between equals.
    pub(super) fn older_first(&self, other: &Self) -> Ordering {
        self.age().cmp(&other.age()).then_with(|| self.name().cmp(other.name()))
    }

    pub(super) fn resize(&mut self, replicas: i32, limits: &Limits) {
        self.after.spec.get_or_insert_default().replicas = Some(replicas);
        self.remember(limits);
    }

    /// Writes down for which size of the Deployment this ReplicaSet has its size.
    fn remember(&mut self, limits: &Limits) {
        let annotations = self.after.metadata.annotations.get_or_insert_default();
        annotations.insert(DESIRED_REPLICAS.into(), limits.replicas.to_string());
        annotations.insert(MAX_REPLICAS.into(), limits.most().to_string());
    }
}

/// A step in the making.
#[derive(Debug)]
pub(super) struct Rollout<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) spec: DeploymentSpec,
    pub(super) limits: Limits,
    pub(super) now: Timestamp,
    /// Starts as the status that was seen; conditions are added on the way.
    pub(super) status: DeploymentStatus,
    /// Oldest first.
    pub(super) sets: Vec<Set>,
    new: Option<usize>,
    revision: Option<String>,
}

impl<'a> Rollout<'a> {
    pub(super) fn new(observed: &Observed<'a>, now: Timestamp) -> Self {
        let spec = observed.deployment.spec.clone().unwrap_or_default();
        let mut sets: Vec<_> = observed
            .sets
            .iter()
            .map(|set| Set {
                before: Some(set.clone()),
                after: ReplicaSet::clone(set),
                is_deleted: false,
            })
            .collect();
        sets.sort_by(Set::older_first);
        let new = sets.iter().position(|set| {
            let has = set.after.spec.as_ref().and_then(|spec| spec.template.as_ref());
            has.is_some_and(|has| template::same(has, &spec.template))
        });
        Self {
            deployment: observed.deployment,
            limits: Limits::of(&spec),
            status: observed.deployment.status.clone().unwrap_or_default(),
            spec,
            now,
            sets,
            new,
            revision: None,
        }
    }

    pub(super) fn new_set(&self) -> Option<&Set> {
        self.new.and_then(|new| self.sets.get(new))
    }

    pub(super) fn new_set_mut(&mut self) -> Option<&mut Set> {
        self.new.and_then(|new| self.sets.get_mut(new))
    }

    pub(super) fn old_sets(&self) -> impl Iterator<Item = &Set> {
        let new = self.new;
        self.sets.iter().enumerate().filter(move |(n, _)| Some(*n) != new).map(|(_, set)| set)
    }

    /// Old ReplicaSets, oldest first.
    pub(super) fn old_sets_mut(&mut self) -> impl Iterator<Item = &mut Set> {
        let new = self.new;
        self.sets.iter_mut().enumerate().filter(move |(n, _)| Some(*n) != new).map(|(_, set)| set)
    }

    /// What all ReplicaSets together want.
    pub(super) fn total(&self) -> i32 {
        self.sets.iter().map(Set::replicas).fold(0, i32::saturating_add)
    }

    /// Brings number and annotations of the new ReplicaSet up to date, if there is one.
    pub(super) fn find_new(&mut self) {
        let number = self.next_revision();
        let deployment = self.deployment;
        let min_ready = self.spec.min_ready_seconds;
        let Some(set) = self.new_set_mut() else { return };
        let annotations = set.after.metadata.annotations.get_or_insert_default();
        inherit(deployment, annotations);
        renumber(annotations, number);
        if let Some(spec) = &mut set.after.spec
            && spec.min_ready_seconds.unwrap_or(0) != min_ready.unwrap_or(0)
        {
            spec.min_ready_seconds = min_ready;
        }
        let name = set.name().to_owned();
        self.revision = set.annotation(REVISION).map(str::to_owned);
        progress::note_found(self, &name);
    }

    /// The new ReplicaSet, created if there is none yet.
    pub(super) fn find_or_create_new(&mut self) {
        if self.new.is_some() {
            return self.find_new();
        }
        let mut set = self.fresh();
        let annotations = set.after.metadata.annotations.get_or_insert_default();
        inherit(self.deployment, annotations);
        renumber(annotations, self.next_revision());
        set.remember(&self.limits);
        let replicas = self.room_for(&set);
        set.resize(replicas, &self.limits);
        self.revision = set.annotation(REVISION).map(str::to_owned);
        progress::note_created(self, set.name());
        self.new = Some(self.sets.len());
        self.sets.push(set);
    }

    fn fresh(&self) -> Set {
        let owner = Owner::of(self.deployment);
        let mut template = self.spec.template.clone();
        let hash = template::hash(&template, self.status.collision_count);
        let metadata = template.metadata.get_or_insert_default();
        metadata.labels.get_or_insert_default().insert(POD_TEMPLATE_HASH.into(), hash.clone());
        let mut selector = self.spec.selector.clone();
        selector
            .match_labels
            .get_or_insert_default()
            .insert(POD_TEMPLATE_HASH.into(), hash.clone());
        let metadata = ObjectMeta {
            name: Some(format!("{}-{hash}", owner.key.name)),
            namespace: Some(owner.key.namespace.clone()),
            labels: template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()),
            owner_references: Some(vec![owner.reference()]),
            ..ObjectMeta::default()
        };
        let spec = ReplicaSetSpec {
            replicas: Some(0),
            min_ready_seconds: self.spec.min_ready_seconds,
            selector,
            template: Some(template),
        };
        let after = ReplicaSet { metadata, spec: Some(spec), status: None };
        Set { before: None, after, is_deleted: false }
    }

    /// How large the new ReplicaSet may be now.
    pub(super) fn room_for(&self, set: &Set) -> i32 {
        let has = set.replicas();
        if self.limits.strategy == Strategy::Recreate {
            return self.limits.replicas;
        }
        let room = self.limits.most().saturating_sub(self.total());
        if room <= 0 {
            return has;
        }
        has.saturating_add(room.min(self.limits.replicas.saturating_sub(has)))
    }

    /// One more than the highest number among the old ones.
    fn next_revision(&self) -> i64 {
        let highest = self.old_sets().filter_map(|set| set.number(REVISION)).max();
        highest.unwrap_or(0).saturating_add(1)
    }

    /// Marks old, empty ReplicaSets beyond the history limit for deletion, lowest revision first.
    pub(super) fn trim_history(&mut self) {
        let Some(limit) = self.spec.revision_history_limit.filter(|limit| *limit != i32::MAX)
        else {
            return;
        };
        let mut old: Vec<_> =
            self.old_sets_mut().filter(|set| !is_terminating(&set.after)).collect();
        old.sort_by(|left, right| {
            let revisions = left.number(REVISION).cmp(&right.number(REVISION));
            revisions.then_with(|| left.older_first(right))
        });
        let surplus = count(old.len()).saturating_sub(limit);
        for set in old.into_iter().take(length(surplus)) {
            let seen = set.after.status.as_ref();
            let generation = set.after.metadata.generation.unwrap_or(0);
            let observed = seen.and_then(|status| status.observed_generation).unwrap_or(0);
            let has_pods = set.is_active() || seen.is_some_and(|status| status.replicas > 0);
            set.is_deleted = !has_pods && observed >= generation;
        }
    }

    /// Ends a step that does not count as progress of a rollout.
    pub(super) fn finish_without_progress(mut self, why: Why) -> Plan {
        self.status = status::counted(&self);
        self.into_plan(why, None)
    }

    /// Ends a step of a rollout.
    pub(super) fn finish(mut self, why: Why) -> Plan {
        let counted = status::counted(&self);
        let is_complete = status::is_complete(&self, &counted);
        let (status, recheck) = progress::judge(&self, counted);
        self.status = status;
        let why = if is_complete && why == Why::Holding { Why::Complete } else { why };
        self.into_plan(why, recheck)
    }

    fn into_plan(self, why: Why, recheck: Option<Timestamp>) -> Plan {
        let mut actions = Vec::new();
        let current = self.deployment.metadata.annotations.as_ref();
        let current = current.and_then(|annotations| annotations.get(REVISION));
        let revision = self.revision.filter(|revision| current != Some(revision));
        for set in self.sets {
            match set.before {
                None => actions.push(Action::Create(Box::new(set.after))),
                Some(before) if set.is_deleted => actions.push(Action::Delete(before)),
                Some(before) if *before != set.after => {
                    actions.push(Action::Update { before, after: Box::new(set.after) });
                }
                Some(_) => {}
            }
        }
        Plan { actions, status: self.status, revision, recheck, why }
    }
}

/// Is the ReplicaSet that has the wanted name our own, made from the same template?
pub(super) fn is_own(deployment: &Deployment, found: &ReplicaSet, wanted: &ReplicaSet) -> bool {
    let template = |set: &ReplicaSet| {
        set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default()
    };
    controller_of(&found.metadata).is_some_and(|owner| owner.uid == uid(deployment))
        && template::same(&template(found), &template(wanted))
}

fn inherit(deployment: &Deployment, annotations: &mut BTreeMap<String, String>) {
    let inherited = deployment.metadata.annotations.iter().flatten();
    for (name, value) in inherited.filter(|(name, _)| !NOT_INHERITED.contains(&name.as_str())) {
        annotations.insert(name.clone(), value.clone());
    }
}

/// Gives the ReplicaSet the number if it is higher than the one it has, which goes into history.
fn renumber(annotations: &mut BTreeMap<String, String>, number: i64) {
    let old = annotations.get(REVISION).cloned();
    let has = old.as_deref().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    if has >= number {
        return;
    }
    annotations.insert(REVISION.into(), number.to_string());
    let Some(old) = old else { return };
    let history = annotations.get(REVISION_HISTORY).filter(|history| !history.is_empty());
    let mut history = history.map_or(old.clone(), |history| format!("{history},{old}"));
    while history.len() > HISTORY_CHARACTERS {
        let Some((_, later)) = history.split_once(',') else { break };
        history = later.to_owned();
    }
    annotations.insert(REVISION_HISTORY.into(), history);
}
