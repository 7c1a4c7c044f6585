//! The Job controller: looks, plans, writes.

use std::{collections::HashMap, fmt, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::Pod,
};
use kube::api::DeleteParams;
use reconcile::drive::Controller;
use reconcile::key::{Key, ObjectVersion, controller_of, uid};
use reconcile::merge;
use reconcile::queue::{Next, Queue};
use reconcile::write::{WriteError, in_parallel, missing_is_fine};
use serde_json::json;
use tracing::debug;

use super::{Action, Observed, Plan, Streak, is_managed, is_tracked, manage, plan};
use crate::{
    controllers::{
        Tools,
        caches::Caches,
        claim::{Owner, settle},
        expectations::LOOK_AGAIN,
        owners::{Workload, owner_key, wake_owners},
        pods::PodWriter,
    },
    well_known::JOB_TRACKING,
};

pub(crate) struct Jobs {
    caches: Caches,
    pods: PodWriter,
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
    pub(crate) fn new(Tools { caches, writer, events }: Tools) -> (Self, Queue<Subject>) {
        let queue = Queue::default();
        wake_owners(&caches.jobs, &caches.pods, &queue, Subject::Job);
        let (keys, pods) = (queue.clone(), caches.pods.clone());
        caches.jobs.subscribe(move |change| {
            if let (Some(gone), None) = (&change.before, &change.after) {
                for pod in pods.controlled_by(uid(&**gone)) {
                    keys.add(Subject::Orphan(Key::of(&*pod)));
                }
            }
        });
        let (keys, jobs) = (queue.clone(), caches.jobs.clone());
        caches.pods.subscribe(move |change| {
            if let Some(pod) = change.after.as_ref().filter(|pod| is_tracked(pod)) {
                let job = owner_key(&**pod, "Job").and_then(|job| jobs.get(&job));
                if job.is_none() {
                    keys.add(Subject::Orphan(Key::of(&**pod)));
                }
            }
        });
        let pods = PodWriter::new(writer, events);
        (Self { caches, pods, streaks: HashMap::new() }, queue)
    }

    async fn reconcile_job(&mut self, key: &Key, now: Timestamp) -> Result<Next, WriteError> {
        let Some(job) = self.caches.jobs.get(key).filter(|job| is_managed(job)) else {
            self.pods.expectations.forget(key);
            self.streaks.remove(key);
            return Ok(Next::Settled);
        };
        if !self.pods.expectations.is_fresh(key, &*job) {
            return Ok(Next::After(LOOK_AGAIN));
        }
        let is_current = self.pods.expectations.are_met(key, &self.caches.pods, now);
        let pods = self.claimed(&job).await?;
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
    async fn claimed(&self, job: &Job) -> Result<Vec<Arc<Pod>>, WriteError> {
        let owner = Owner::of(job);
        let controlled = self.caches.pods.controlled_by(&owner.uid);
        // The server gives every job a selector; without one, the reference alone decides.
        let Some(selector) = job.selector() else { return Ok(controlled) };
        let orphans = self.caches.pods.uncontrolled(&owner.key.namespace);
        let candidates = controlled.into_iter().chain(orphans);
        settle::<Job, Pod>(&self.pods.writer, &owner, &selector, candidates).await
    }

    async fn act(&mut self, job: &Job, action: Action, now: Timestamp) -> Result<(), WriteError> {
        match action {
            Action::Create(indexes) => {
                let pods: Vec<_> =
                    indexes.into_iter().map(|index| manage::pod(job, index)).collect();
                self.pods.create(job, &pods, now).await
            }
            Action::Withdraw(pods) => {
                self.release(&pods).await?;
                self.pods.delete(job, &pods, now).await
            }
            Action::Stop(pods) => self.pods.delete(job, &pods, now).await,
            Action::DeleteJob => {
                let (seen, foreground) = (ObjectVersion::of(job), DeleteParams::foreground());
                self.pods.writer.delete_exactly::<Job>(&seen, foreground).await
            }
        }
    }

    /// Lets counted pods go.
    async fn release(&self, pods: &[Arc<Pod>]) -> Result<(), WriteError> {
        let releases = pods.iter().filter(|pod| is_tracked(pod)).map(|pod| async move {
            let mut finalizers = pod.metadata.finalizers.clone().unwrap_or_default();
            finalizers.retain(|finalizer| finalizer != JOB_TRACKING);
            let mut metadata = merge::precondition(&ObjectVersion::of(&**pod));
            metadata.insert("finalizers".into(), json!(finalizers));
            let patch = json!({ "metadata": metadata });
            let patched = self.pods.writer.patch::<Pod>(&Key::of(&**pod), &patch).await;
            missing_is_fine(patched).map(drop)
        });
        in_parallel(releases.collect()).await.into_iter().collect()
    }

    async fn write_status(&mut self, job: &Job, after: &JobStatus) -> Result<(), WriteError> {
        let written = self.pods.writer.write_status(job, job.status.as_ref(), after).await?;
        if let Some(written) = written {
            self.pods.expectations.written(&Key::of(job), &written);
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
                ("Complete", _) => self.pods.events.normal(job, "Completed", "Job completed"),
                ("Suspended", "True") => self.pods.events.normal(job, "Suspended", message),
                ("Suspended", _) => self.pods.events.normal(job, "Resumed", message),
                ("Failed", _) => {
                    let reason = match condition.reason.as_deref() {
                        Some("DeadlineExceeded") => "DeadlineExceeded",
                        _ => "BackoffLimitExceeded",
                    };
                    self.pods.events.warning(job, reason, message);
                }
                _ => {}
            }
        }
    }

    /// The job is gone, or the pod has left it: nobody will count this pod.
    async fn reconcile_orphan(&mut self, key: &Key) -> Result<Next, WriteError> {
        let Some(pod) = self.caches.pods.get(key).filter(|pod| is_tracked(pod)) else {
            return Ok(Next::Settled);
        };
        if let Some(owner) = controller_of(&pod.metadata).filter(|owner| owner.kind == "Job") {
            let job = self.pods.writer.get::<Job>(&Key::new(&key.namespace, &owner.name)).await?;
            if job.is_some_and(|job| uid(&job) == owner.uid) {
                return Ok(Next::Settled);
            }
        }
        self.release(&[pod]).await?;
        Ok(Next::Settled)
    }
}

impl Controller for Jobs {
    type Key = Subject;

    const NAME: &'static str = "job-controller";

    async fn reconcile(&mut self, key: &Subject, now: Timestamp) -> Result<Next, WriteError> {
        match key {
            Subject::Job(key) => self.reconcile_job(key, now).await,
            Subject::Orphan(key) => self.reconcile_orphan(key).await,
        }
    }
}
