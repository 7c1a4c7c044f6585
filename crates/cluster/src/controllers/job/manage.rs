//! Which pods are missing, and which are too many?

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobStatus},
        core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{
    Action, BURST, Plan, Verdict, View, condition, count::Counted, index, verdict::deadline,
};
use crate::{
    controllers::{
        amount::{count, length},
        claim::Owner,
        clock::stamp,
        replica_set::by_expendability,
        template,
    },
    well_known::{
        JOB_COMPLETION_INDEX, JOB_NAME, JOB_NAME_LEGACY, JOB_TRACKING, JOB_UID, JOB_UID_LEGACY,
    },
};

const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

pub(super) fn manage(view: &View<'_>, mut counted: Counted) -> Plan {
    note_suspension(view, &mut counted.status);
    let is_current = view.observed.is_current;
    if view.is_suspended() {
        let active: Vec<_> = view.active.iter().take(BURST).map(|pod| (*pod).clone()).collect();
        let action =
            Some(Action::Withdraw(active)).filter(|_| !view.active.is_empty() && is_current);
        return counted.into_plan(view, Verdict::Suspended, action, None);
    }
    let wanted = wanted(view, &counted);
    let recheck = deadline(view, &counted);
    let mut plan = if !is_current {
        counted.into_plan(view, Verdict::Undecided, None, recheck)
    } else {
        let surplus = surplus(view, wanted);
        if surplus.is_empty() {
            create(view, counted, wanted, recheck)
        } else {
            counted.into_plan(view, Verdict::Undecided, Some(Action::Withdraw(surplus)), recheck)
        }
    };
    plan.why.wanted = wanted;
    plan
}

/// How many pods should run now.
fn wanted(view: &View<'_>, counted: &Counted) -> i32 {
    let parallelism = view.spec.parallelism.unwrap_or(1).max(0);
    match view.spec.completions {
        Some(completions) => parallelism.min(completions.saturating_sub(counted.succeeded)).max(0),
        // After the first success nothing new starts.
        None if counted.succeeded > 0 => count(view.active.len()).min(parallelism),
        None => parallelism,
    }
}

fn create(view: &View<'_>, counted: Counted, wanted: i32, recheck: Option<Timestamp>) -> Plan {
    let leaving = if view.replaces_only_failed() { view.leaving.len() } else { 0 };
    let missing = length(wanted).saturating_sub(view.active.len() + leaving).min(BURST);
    let free_at = counted.streak.over_at();
    if missing > 0 && free_at > view.now {
        let recheck = recheck.map_or(free_at, |at| at.min(free_at));
        return counted.into_plan(view, Verdict::Pausing, None, Some(recheck));
    }
    let pods: Vec<_> = match view.is_indexed() {
        true => free_indexes(view, &counted).take(missing).map(Some).collect(),
        false => vec![None; missing],
    };
    let action = Some(Action::Create(pods)).filter(|action| *action != Action::Create(vec![]));
    counted.into_plan(view, Verdict::Undecided, action, recheck)
}

/// The lowest indexes that are neither done nor being worked on.
fn free_indexes(view: &View<'_>, counted: &Counted) -> impl Iterator<Item = i32> {
    let leaving = view.leaving.iter().filter(|_| view.replaces_only_failed());
    let taken: BTreeSet<i32> =
        view.active.iter().chain(leaving).filter_map(|pod| index(pod)).collect();
    let missing = counted.done.missing(view.spec.completions.unwrap_or(0));
    missing.filter(move |index| !taken.contains(index))
}

/// Pods beyond the wanted number, and, if the job is Indexed, those without a place of their own.
fn surplus(view: &View<'_>, wanted: i32) -> Vec<Arc<Pod>> {
    let active: Vec<_> = view.active.iter().map(|pod| (*pod).clone()).collect();
    let mut ranked = by_expendability(&active, &HashMap::new(), view.now);
    let mut surplus = Vec::new();
    if view.is_indexed() {
        let completions = view.spec.completions.unwrap_or(0);
        let mut seen = BTreeSet::new();
        // The one that is missed most keeps the index.
        ranked.reverse();
        let (placed, lost): (Vec<_>, Vec<_>) = ranked.into_iter().partition(|pod| {
            index(pod).is_some_and(|index| index < completions && seen.insert(index))
        });
        surplus.extend(lost);
        ranked = placed;
        ranked.reverse();
    }
    let beyond = ranked.len().saturating_sub(length(wanted));
    surplus.extend(ranked.into_iter().take(beyond));
    surplus.truncate(BURST);
    surplus
}

/// The `Suspended` condition follows the spec; a job that resumes starts its clock anew.
fn note_suspension(view: &View<'_>, status: &mut JobStatus) {
    let now = view.now;
    let conditions = status.conditions.get_or_insert_default();
    let old = conditions.iter_mut().find(|condition| condition.type_ == "Suspended");
    let was = old.as_ref().is_some_and(|old| old.status == "True");
    let is = view.is_suspended();
    if was != is {
        let mut next = match is {
            true => condition("Suspended", "JobSuspended", "Job suspended", now),
            false => condition("Suspended", "JobResumed", "Job resumed", now),
        };
        next.status = if is { "True".into() } else { "False".into() };
        match old {
            Some(old) => *old = next,
            None => conditions.push(next),
        }
        status.start_time = Some(stamp(now)).filter(|_| !is);
    }
    status.conditions.take_if(|conditions| conditions.is_empty());
}

/// A pod of the job, for one index if it has indexes.
pub(super) fn pod(job: &Job, index: Option<i32>) -> Pod {
    let owner = Owner::of(job);
    let template = job.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut pod = template::pod(&owner, &template);
    pod.metadata.finalizers.get_or_insert_default().push(JOB_TRACKING.into());
    let labels = pod.metadata.labels.get_or_insert_default();
    for (key, value) in [
        (JOB_NAME, &owner.key.name),
        (JOB_NAME_LEGACY, &owner.key.name),
        (JOB_UID, &owner.uid),
        (JOB_UID_LEGACY, &owner.uid),
    ] {
        labels.entry(key.into()).or_insert_with(|| value.clone());
    }
    if let Some(index) = index {
        place(&mut pod, &owner.key.name, index);
    }
    pod
}

fn place(pod: &mut Pod, job: &str, index: i32) {
    let metadata: &mut ObjectMeta = &mut pod.metadata;
    let text = index.to_string();
    metadata.generate_name = Some(format!("{job}-{index}-"));
    metadata.labels.get_or_insert_default().insert(JOB_COMPLETION_INDEX.into(), text.clone());
    metadata.annotations.get_or_insert_default().insert(JOB_COMPLETION_INDEX.into(), text);
    let spec = pod.spec.get_or_insert_default();
    if spec.hostname.is_none() {
        spec.hostname = Some(format!("{job}-{index}"));
    }
    let field = ObjectFieldSelector {
        api_version: None,
        field_path: format!("metadata.annotations['{JOB_COMPLETION_INDEX}']"),
    };
    let variable = EnvVar {
        name: INDEX_VARIABLE.into(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
        ..EnvVar::default()
    };
    let init = spec.init_containers.iter_mut().flatten();
    for container in init.chain(&mut spec.containers) {
        let variables = container.env.get_or_insert_default();
        if !variables.iter().any(|has| has.name == INDEX_VARIABLE) {
            variables.push(variable.clone());
        }
    }
}
