//! The Job controller: looks, plans, writes.

use std::{collections::HashMap, fmt, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::Pod,
};
use kube::{api::DeleteParams, core::Selector};
use serde_json::json;
use tracing::debug;

use super::{Action, Observed, Plan, Streak, is_managed, is_tracked, manage, plan};
use crate::{
    controllers::{
        caches::Caches,
        claim::{Owner, claim, selects, workload_selector},
        drive::{Controller, Next},
        expectations::{Expectations, LOOK_AGAIN},
        key::{Key, Seen, controller_of, uid},
        merge,
        owners::{owner_key, selecting},
        queue::Queue,
        writer::{SyncError, Writer, in_parallel, name},
    },
    well_known::JOB_TRACKING,
};

pub(crate) struct Jobs {
    caches: Caches,
    writer: Writer,
    expectations: Expectations<Key>,
    /// Failures in a row, and the id of the job that had them.
    streaks: HashMap<Key, (String, Streak)>,
}

/// What the controller is asked to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Subject {
    Job(Key),
    /// A pod that waits to be counted by a job that is no more.
    Orphan(Key),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Job(key) => write!(f, "job {key}"),
            Subject::Orphan(key) => write!(f, "pod {key}"),
        }
    }
}

impl Jobs {
    pub(crate) fn new(caches: &Caches, writer: Writer) -> (Self, Queue<Subject>) {
        let queue = Queue::new();
        let keys = queue.clone();
        let pods = caches.pods.clone();
        caches.jobs.subscribe(move |change| {
            if let Some(job) = change.latest() {
                keys.add(Subject::Job(Key::of(&**job)));
            }
            if let (Some(gone), None) = (&change.before, &change.after) {
                for pod in pods.controlled_by(uid(&**gone)) {
                    keys.add(Subject::Orphan(Key::of(&*pod)));
                }
            }
        });
        let keys = queue.clone();
        let jobs = caches.jobs.clone();
        caches.pods.subscribe(move |change| {
            for pod in change.sides() {
                if let Some(job) = owner_key(&**pod, "Job") {
                    keys.add(Subject::Job(job));
                }
            }
            if let Some(pod) = change.after.as_ref().filter(|pod| is_tracked(pod)) {
                let job = owner_key(&**pod, "Job").and_then(|job| jobs.get(&job));
                if job.is_none() {
                    keys.add(Subject::Orphan(Key::of(&**pod)));
                }
            }
            for job in selecting(&jobs, change, selector) {
                keys.add(Subject::Job(job));
            }
        });
        let this = Self {
            caches: caches.clone(),
            writer,
            expectations: Expectations::new(),
            streaks: HashMap::new(),
        };
        (this, queue)
    }

    async fn reconcile_job(&mut self, key: &Key, now: Timestamp) -> Result<Next, SyncError> {
        let Some(job) = self.caches.jobs.get(key).filter(|job| is_managed(job)) else {
            self.expectations.forget(key);
            self.streaks.remove(key);
            return Ok(Next::Settled);
        };
        if !self.expectations.is_fresh(key, &*job) {
            return Ok(Next::After(LOOK_AGAIN));
        }
        let is_current = self.expectations.are_met(key, &self.caches.pods, now);
        let pods = self.pods(&job).await?;
        let streak = self.streaks.get(key).filter(|(id, _)| id == uid(&*job));
        let streak = streak.map(|(_, streak)| *streak).unwrap_or_default();
        let observed = Observed { job: &job, pods: &pods, streak, is_current };
        let plan = plan(&observed, now);
        debug!(object = %key, why = ?plan.why, "job");
        self.write_status(&job, &plan.status).await?;
        match plan.streak == Streak::default() {
            true => self.streaks.remove(key),
            false => self.streaks.insert(key.clone(), (uid(&*job).to_owned(), plan.streak)),
        };
        self.tell(&job, &plan);
        self.release(&plan.release).await?;
        if let Some(action) = plan.action {
            self.act(&job, action, now).await?;
        }
        if plan.recheck.is_none() && !is_current {
            return Ok(Next::After(LOOK_AGAIN));
        }
        Ok(Next::at(plan.recheck, now))
    }

    /// The job's pods, adopted and released as needed.
    async fn pods(&self, job: &Job) -> Result<Vec<Arc<Pod>>, SyncError> {
        let owner = Owner::of(job);
        let controlled = self.caches.pods.controlled_by(&owner.uid);
        // The server gives every job a selector; without one, the reference alone decides.
        let Some(selector) = selector(job) else { return Ok(controlled) };
        let orphans = self.caches.pods.uncontrolled(&owner.key.namespace);
        let candidates = controlled.into_iter().chain(orphans);
        let claims = claim(&owner, candidates, |pod| selects(&selector, pod));
        self.writer.settle::<Job, Pod>(&owner, claims).await
    }

    async fn act(&mut self, job: &Job, action: Action, now: Timestamp) -> Result<(), SyncError> {
        let key = Key::of(job);
        match action {
            Action::Create(indexes) => {
                let pods: Vec<_> =
                    indexes.into_iter().map(|index| manage::pod(job, index)).collect();
                let created = self.writer.create_all(&pods).await;
                for pod in &created.done {
                    self.expectations.created(&key, pod, now);
                    let message = format!("Created pod: {}", name(pod));
                    self.writer.normal(job, "SuccessfulCreate", message);
                }
                let Some(error) = created.error.filter(|error| !error.is_namespace_ending()) else {
                    return Ok(());
                };
                let message = format!("Error creating: {}", error.message());
                self.writer.warning(job, "FailedCreate", message);
                Err(error)
            }
            Action::Withdraw(pods) => {
                self.release(&pods).await?;
                self.delete(job, &pods, now).await
            }
            Action::Stop(pods) => self.delete(job, &pods, now).await,
            Action::DeleteJob => {
                self.writer.delete::<Job>(&Seen::of(job), DeleteParams::foreground()).await
            }
        }
    }

    async fn delete(
        &mut self,
        job: &Job,
        pods: &[Arc<Pod>],
        now: Timestamp,
    ) -> Result<(), SyncError> {
        let deleted = self.writer.delete_all(pods).await;
        for pod in &deleted.done {
            self.expectations.deleted(&Key::of(job), &**pod, now);
            let message = format!("Deleted pod: {}", name(&**pod));
            self.writer.normal(job, "SuccessfulDelete", message);
        }
        deleted.error.map_or(Ok(()), Err)
    }

    /// Lets counted pods go.
    async fn release(&self, pods: &[Arc<Pod>]) -> Result<(), SyncError> {
        let releases = pods.iter().filter(|pod| is_tracked(pod)).map(|pod| async move {
            let mut finalizers = pod.metadata.finalizers.clone().unwrap_or_default();
            finalizers.retain(|finalizer| finalizer != JOB_TRACKING);
            let mut metadata = merge::precondition(&Seen::of(&**pod));
            metadata.insert("finalizers".into(), json!(finalizers));
            let patch = json!({ "metadata": metadata });
            match self.writer.patch::<Pod>(&Key::of(&**pod), &patch).await {
                Err(error) if error.is_missing() => Ok(()),
                other => other.map(drop),
            }
        });
        in_parallel(releases.collect()).await.into_iter().collect()
    }

    async fn write_status(&mut self, job: &Job, after: &JobStatus) -> Result<(), SyncError> {
        let seen = Seen::of(job);
        if let Some(patch) = merge::status(&seen, job.status.as_ref(), after) {
            let written = self.writer.patch_status::<Job>(&seen.key, &patch).await?;
            self.expectations.written(&seen.key, &written);
        }
        Ok(())
    }

    /// One event for each condition that is new.
    fn tell(&self, job: &Job, plan: &Plan) {
        let before = job.status.as_ref().and_then(|status| status.conditions.as_ref());
        for condition in plan.status.conditions.iter().flatten() {
            if before.is_some_and(|before| before.contains(condition)) {
                continue;
            }
            let message = condition.message.clone().unwrap_or_default();
            match (condition.type_.as_str(), condition.status.as_str()) {
                ("Complete", _) => self.writer.normal(job, "Completed", "Job completed".into()),
                ("Suspended", "True") => self.writer.normal(job, "Suspended", message),
                ("Suspended", _) => self.writer.normal(job, "Resumed", message),
                ("Failed", _) => {
                    let reason = match condition.reason.as_deref() {
                        Some("DeadlineExceeded") => "DeadlineExceeded",
                        _ => "BackoffLimitExceeded",
                    };
                    self.writer.warning(job, reason, message);
                }
                _ => {}
            }
        }
    }

    /// The job is gone, or the pod has left it: nobody will count this pod.
    async fn reconcile_orphan(&mut self, key: &Key) -> Result<Next, SyncError> {
        let Some(pod) = self.caches.pods.get(key).filter(|pod| is_tracked(pod)) else {
            return Ok(Next::Settled);
        };
        if let Some(owner) = controller_of(&pod.metadata).filter(|owner| owner.kind == "Job") {
            let job = self.writer.get::<Job>(&Key::new(&key.namespace, &owner.name)).await?;
            if job.is_some_and(|job| uid(&job) == owner.uid) {
                return Ok(Next::Settled);
            }
        }
        self.release(&[pod]).await?;
        Ok(Next::Settled)
    }
}

fn selector(job: &Job) -> Option<Selector> {
    workload_selector(job.spec.as_ref()?.selector.as_ref()?)
}

impl Controller for Jobs {
    type Key = Subject;

    const NAME: &'static str = "job-controller";

    async fn reconcile(&mut self, key: &Subject, now: Timestamp) -> Result<Next, SyncError> {
        match key {
            Subject::Job(key) => self.reconcile_job(key, now).await,
            Subject::Orphan(key) => self.reconcile_orphan(key).await,
        }
    }
}
