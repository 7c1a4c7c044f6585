//! Jobs, from the first pod to the last second of their time.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    batch::v1::UncountedTerminatedPods,
    core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, PodSpec},
};
use kube::ResourceExt;
use proptest::prelude::*;

use super::*;
use crate::{
    controllers::{
        amount::count as number,
        fixture::{NOW, PodBuilder, ago, ahead, labels, meta, pod, template},
        key::uid,
        pod::PodFacts,
    },
    well_known::{JOB_NAME, JOB_UID},
};

fn job(completions: Option<i32>, parallelism: i32) -> Job {
    Job {
        metadata: meta("work"),
        spec: Some(JobSpec {
            completions,
            parallelism: Some(parallelism),
            backoff_limit: Some(6),
            template: template("work", "v1"),
            ..JobSpec::default()
        }),
        status: Some(JobStatus { start_time: Some(stamp(ago(100))), ..JobStatus::default() }),
    }
}

fn with(mut job: Job, change: impl FnOnce(&mut JobSpec)) -> Job {
    change(job.spec.get_or_insert_default());
    job
}

fn indexed(completions: i32, parallelism: i32) -> Job {
    with(job(Some(completions), parallelism), |spec| spec.completion_mode = Some("Indexed".into()))
}

fn having(mut job: Job, change: impl FnOnce(&mut JobStatus)) -> Job {
    change(job.status.get_or_insert_default());
    job
}

fn worker(name: &str) -> PodBuilder {
    pod(name).finalizer(JOB_TRACKING)
}

fn succeeded(name: &str) -> PodBuilder {
    worker(name).phase("Succeeded")
}

fn failed(name: &str) -> PodBuilder {
    worker(name).phase("Failed")
}

fn at(pod: PodBuilder, index: i32) -> PodBuilder {
    pod.annotation(JOB_COMPLETION_INDEX, &index.to_string())
}

fn decide_with(job: &Job, pods: Vec<PodBuilder>, streak: Streak) -> Plan {
    let pods: Vec<_> = pods.into_iter().map(|pod| Arc::new(pod.build())).collect();
    plan(&Observed { job, pods: &pods, streak, is_current: true }, NOW)
}

fn decide(job: &Job, pods: Vec<PodBuilder>) -> Plan {
    decide_with(job, pods, Streak::default())
}

fn told(plan: &Plan) -> String {
    let names =
        |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.name_any()).collect::<Vec<_>>().join(",");
    match &plan.action {
        None => String::new(),
        Some(Action::Create(pods)) if pods.iter().all(Option::is_none) => {
            format!("+{}", pods.len())
        }
        Some(Action::Create(pods)) => {
            let indexes: Vec<_> = pods.iter().flatten().map(ToString::to_string).collect();
            format!("+{}", indexes.join(","))
        }
        Some(Action::Withdraw(pods)) => format!("-{}", names(pods)),
        Some(Action::Stop(pods)) => format!("stop {}", names(pods)),
        Some(Action::DeleteJob) => "delete".into(),
    }
}

fn conditions(plan: &Plan) -> Vec<(String, String)> {
    let conditions = plan.status.conditions.iter().flatten();
    conditions
        .filter(|condition| condition.status == "True")
        .map(|condition| (condition.type_.clone(), condition.reason.clone().unwrap_or_default()))
        .collect()
}

#[test]
fn as_many_run_as_are_wanted() {
    let run = |name: &str| worker(name).running();
    let done = |count| move |status: &mut JobStatus| status.succeeded = Some(count);
    let cases = [
        ("the first", job(Some(3), 2), vec![], "+2"),
        ("one more", job(Some(3), 2), vec![run("a")], "+1"),
        ("enough", job(Some(3), 2), vec![run("a"), run("b")], ""),
        ("only what is left", having(job(Some(3), 2), done(2)), vec![], "+1"),
        ("one is leaving: replaced at once", job(Some(1), 1), vec![], "+1"),
        ("less parallel now", job(Some(3), 1), vec![run("a").on("n1"), run("b")], "-b"),
        ("not at all now", job(Some(3), 0), vec![run("a")], "-a"),
        ("a queue: all at once", job(None, 2), vec![], "+2"),
        ("a queue after a success", having(job(None, 2), done(1)), vec![run("a")], ""),
        ("a burst at most", job(Some(5_000), 5_000), vec![], "+500"),
        ("indexes from the lowest", indexed(4, 2), vec![], "+0,1"),
        ("indexes that are free", indexed(4, 3), vec![at(run("a"), 1)], "+0,2"),
        ("an index twice", indexed(4, 2), vec![at(run("a").on("n"), 0), at(run("b"), 0)], "-b"),
        ("an index out of range", indexed(2, 2), vec![at(run("a"), 0), at(run("b"), 7)], "-b"),
        (
            "indexes that are done",
            having(indexed(4, 2), |status| status.completed_indexes = Some("0,2".into())),
            vec![],
            "+1,3",
        ),
    ];
    for (name, job, pods, want) in cases {
        assert_eq!(told(&decide(&job, pods)), want, "{name}");
    }
}

#[test]
fn pods_are_counted_in_three_steps() {
    let mut job = job(Some(5), 2);
    // First the ids are written down, and the pods may go.
    let first = decide(&job, vec![succeeded("a"), failed("b"), worker("c").running()]);
    let uncounted = first.status.uncounted_terminated_pods.clone().unwrap();
    assert_eq!(uncounted.succeeded, Some(vec!["uid-a".to_owned()]));
    assert_eq!(uncounted.failed, Some(vec!["uid-b".to_owned()]));
    assert_eq!((first.status.succeeded, first.status.failed), (None, None));
    let released: Vec<_> = first.release.iter().map(|pod| pod.name_any()).collect();
    assert_eq!(released, ["a", "b"]);
    assert_eq!((first.why.succeeded, first.why.failed), (1, 1), "they count already");

    // A crash in between: the same again, and nothing twice.
    job.status = Some(first.status.clone());
    let again = decide(&job, vec![succeeded("a"), failed("b"), worker("c").running()]);
    assert_eq!(again.status, first.status);
    assert_eq!(again.release.len(), 2);

    // One has lost its finalizer, the other is gone: now they are numbers.
    let last = decide(&job, vec![pod("a").phase("Succeeded"), worker("c").running()]);
    assert_eq!((last.status.succeeded, last.status.failed), (Some(1), Some(1)));
    let empty = Some(UncountedTerminatedPods::default());
    assert_eq!(last.status.uncounted_terminated_pods, empty);
    job.status = Some(last.status.clone());
    let quiet = decide(&job, vec![pod("a").phase("Succeeded"), worker("c").running()]);
    assert_eq!(quiet.status, last.status, "and not again");
}

#[test]
fn indexes_are_counted_by_themselves() {
    let job = indexed(5, 5);
    let pods = vec![
        at(succeeded("a"), 0),
        at(succeeded("b"), 1),
        at(succeeded("c"), 2),
        at(succeeded("d"), 2),
        at(succeeded("e"), 9),
        succeeded("f"),
        at(failed("g"), 4),
    ];
    let plan = decide(&job, pods);
    assert_eq!(plan.status.completed_indexes.as_deref(), Some("0-2"));
    assert_eq!(plan.status.succeeded, Some(3));
    assert_eq!(plan.release.len(), 7, "all of them may go");
    let uncounted = plan.status.uncounted_terminated_pods.unwrap();
    assert_eq!(uncounted.succeeded, None);
    assert_eq!(uncounted.failed, Some(vec!["uid-g".to_owned()]));
}

#[test]
fn a_job_ends_when_its_last_pod_is_counted() {
    let mut job = job(Some(1), 1);
    let met = ("SuccessCriteriaMet".to_owned(), "CompletionsReached".to_owned());
    let first = decide(&job, vec![succeeded("a")]);
    assert_eq!(conditions(&first), std::slice::from_ref(&met));
    assert_eq!(first.why.verdict, Verdict::Ending);
    assert_eq!(first.status.completion_time, None);
    job.status = Some(first.status);
    let last = decide(&job, vec![pod("a").phase("Succeeded")]);
    let complete = ("Complete".to_owned(), "CompletionsReached".to_owned());
    assert_eq!(conditions(&last), [met, complete]);
    assert_eq!(last.status.completion_time, Some(stamp(NOW)));
    assert_eq!(last.status.succeeded, Some(1));
    job.status = Some(last.status.clone());
    let over = decide(&job, vec![]);
    assert_eq!((told(&over).as_str(), over.status), ("", last.status));
}

#[test]
fn too_many_failures_end_a_job() {
    let failures = |count| move |status: &mut JobStatus| status.failed = Some(count);
    let never = |limit| with(job(Some(2), 2), |spec| spec.backoff_limit = Some(limit));
    let on_failure = |limit| {
        with(never(limit), |spec| {
            spec.template.spec.get_or_insert_default().restart_policy = Some("OnFailure".into());
        })
    };
    let run = |name: &str| worker(name).running();
    let cases = [
        ("at the limit", having(never(2), failures(2)), vec![run("a"), run("b")], None),
        ("one more", having(never(2), failures(2)), vec![failed("a"), run("b")], Some("stop b")),
        ("none allowed", never(0), vec![failed("a"), run("b")], Some("stop b")),
        ("restarts do not count", never(3), vec![run("a").restarts(5), run("b")], None),
        (
            "restarts count",
            on_failure(3),
            vec![run("a").restarts(2), run("b").restarts(1)],
            Some("stop a,b"),
        ),
        ("few restarts", on_failure(3), vec![run("a").restarts(2), run("b")], None),
        ("no restart allowed", on_failure(0), vec![run("a").restarts(1)], Some("stop a")),
    ];
    for (name, job, pods, want) in cases {
        let plan = decide(&job, pods);
        let target = ("FailureTarget".to_owned(), "BackoffLimitExceeded".to_owned());
        assert_eq!(conditions(&plan).contains(&target), want.is_some(), "{name}");
        if let Some(want) = want {
            assert_eq!(told(&plan), want, "{name}");
        }
    }
}

#[test]
fn a_failed_job_waits_for_its_last_pod() {
    let mut job = with(job(Some(2), 2), |spec| spec.backoff_limit = Some(0));
    let first = decide(&job, vec![failed("a"), worker("b").running()]);
    assert_eq!(told(&first), "stop b");
    job.status = Some(first.status);
    let leaving = decide(&job, vec![pod("a").phase("Failed"), worker("b").running().terminating()]);
    assert_eq!(leaving.why.verdict, Verdict::Ending);
    assert_eq!(leaving.why.failed, 2, "it counts as failed");
    job.status = Some(leaving.status);
    let still = decide(&job, vec![pod("b").running().terminating()]);
    assert_eq!(still.why.verdict, Verdict::Ending);
    job.status = Some(still.status);
    let last = decide(&job, vec![]);
    assert_eq!(last.why.verdict, Verdict::Ended);
    assert_eq!(last.status.failed, Some(2));
    assert_eq!(last.status.completion_time, None);
    assert!(conditions(&last).contains(&("Failed".into(), "BackoffLimitExceeded".into())));
}

#[test]
fn time_runs_out_from_the_start() {
    let job = |seconds| with(job(Some(1), 1), |spec| spec.active_deadline_seconds = Some(seconds));
    let run = || vec![worker("a").running()];
    let early = decide(&job(101), run());
    assert_eq!((told(&early).as_str(), early.recheck), ("", Some(ahead(1))));
    let late = decide(&job(100), run());
    assert_eq!(told(&late), "stop a");
    assert_eq!(conditions(&late), [("FailureTarget".into(), "DeadlineExceeded".into())]);
    let suspended = with(job(100), |spec| spec.suspend = Some(true));
    assert_eq!(told(&decide(&suspended, run())), "-a", "its clock stands still");
}

#[test]
fn failures_are_followed_by_growing_pauses() {
    let ended = |name: &str, seconds| {
        failed(name).with(|pod| {
            let state = ContainerState {
                terminated: Some(ContainerStateTerminated {
                    finished_at: Some(stamp(ago(seconds))),
                    ..ContainerStateTerminated::default()
                }),
                ..ContainerState::default()
            };
            let status = ContainerStatus { state: Some(state), ..ContainerStatus::default() };
            pod.status.get_or_insert_default().container_statuses = Some(vec![status]);
        })
    };
    let streak = |failures, seconds| Streak { failures, last: ago(seconds) };
    let cases = [
        ("the first failure", vec![ended("a", 4)], Streak::default(), Some(6)),
        ("long enough ago", vec![ended("a", 10)], Streak::default(), None),
        ("the third in a row", vec![ended("a", 0)], streak(2, 60), Some(40)),
        ("remembered", vec![], streak(2, 5), Some(15)),
        ("the longest", vec![], streak(40, 0), Some(600)),
        ("a success ends it", vec![ended("a", 9), succeeded("b")], streak(5, 20), None),
    ];
    for (name, pods, streak, pause) in cases {
        let plan = decide_with(&job(Some(3), 1), pods, streak);
        assert_eq!(plan.recheck, pause.map(ahead), "{name}");
        assert_eq!(plan.action.is_none(), pause.is_some(), "{name}");
        assert_eq!(plan.why.verdict == Verdict::Pausing, pause.is_some(), "{name}");
    }
}

#[test]
fn a_suspended_job_withdraws_its_pods_and_starts_anew() {
    let mut job = with(job(Some(2), 2), |spec| spec.suspend = Some(true));
    let plan = decide(&job, vec![worker("a").running()]);
    assert_eq!((told(&plan).as_str(), plan.why.verdict), ("-a", Verdict::Suspended));
    assert_eq!(conditions(&plan), [("Suspended".into(), "JobSuspended".into())]);
    assert_eq!(plan.status.start_time, None);
    job.status = Some(plan.status);
    let job = with(job, |spec| spec.suspend = Some(false));
    let plan = decide(&job, vec![]);
    assert_eq!(told(&plan), "+2");
    assert_eq!(plan.status.start_time, Some(stamp(NOW)));
    let resumed = plan.status.conditions.unwrap().remove(0);
    assert_eq!((resumed.status.as_str(), resumed.reason.as_deref()), ("False", Some("JobResumed")));
}

#[test]
fn replacement_may_wait_until_the_old_pod_has_failed() {
    let leaving = || vec![worker("a").running().terminating()];
    let plan = decide(&job(Some(1), 1), leaving());
    assert_eq!(plan.why.failed, 1);
    assert_eq!(plan.why.verdict, Verdict::Pausing, "it counts as failed at once");
    let patient = with(job(Some(1), 1), |spec| spec.pod_replacement_policy = Some("Failed".into()));
    let plan = decide(&patient, leaving());
    assert_eq!((plan.why.failed, told(&plan).as_str()), (0, ""));
    assert_eq!(plan.status.terminating, Some(1));
}

#[test]
fn a_finished_job_is_deleted_when_its_time_has_come() {
    let ended = |seconds| {
        having(job(Some(1), 1), |status| {
            let end = condition("Complete", "CompletionsReached", "", ago(seconds));
            status.conditions = Some(vec![end]);
        })
    };
    let cases = [
        ("no time given", ended(50), None, "", None),
        ("not yet", ended(50), Some(60), "", Some(ahead(10))),
        ("now", ended(50), Some(50), "delete", None),
        ("at once", ended(0), Some(0), "delete", None),
    ];
    for (name, job, ttl, want, recheck) in cases {
        let job = with(job, |spec| spec.ttl_seconds_after_finished = ttl);
        let plan = decide(&job, vec![worker("a").phase("Succeeded")]);
        assert_eq!((told(&plan).as_str(), plan.recheck), (want, recheck), "{name}");
        assert_eq!(plan.release.len(), 1, "{name}: nobody is held back");
    }
}

#[test]
fn a_leaving_job_lets_all_its_pods_go() {
    let mut job = job(Some(3), 3);
    job.metadata.deletion_timestamp = Some(stamp(NOW));
    let plan = decide(&job, vec![worker("a").running(), failed("b")]);
    assert_eq!((told(&plan).as_str(), plan.release.len()), ("", 2));
    assert_eq!(plan.why.verdict, Verdict::Leaving);
}

#[test]
fn a_worker_knows_its_job_and_its_index() {
    let made = manage::pod(&job(Some(1), 1), None);
    assert_eq!(made.metadata.generate_name.as_deref(), Some("work-"));
    assert!(is_tracked(&made));
    let has = made.metadata.labels.clone().unwrap();
    assert_eq!((has[JOB_NAME].as_str(), has[JOB_UID].as_str()), ("work", "uid-work"));
    let mut given = job(Some(1), 1);
    let template = given.spec.get_or_insert_default().template.metadata.get_or_insert_default();
    template.labels = Some(labels(&[(JOB_UID, "other")]));
    assert_eq!(manage::pod(&given, None).labels()[JOB_UID], "other", "the template has its way");

    let made = manage::pod(&indexed(3, 3), Some(2));
    assert_eq!(made.metadata.generate_name.as_deref(), Some("work-2-"));
    assert_eq!(index(&made), Some(2));
    assert_eq!(made.labels()[JOB_COMPLETION_INDEX], "2");
    let PodSpec { hostname, containers, .. } = made.spec.unwrap();
    assert_eq!(hostname.as_deref(), Some("work-2"));
    let variable = &containers[0].env.as_ref().unwrap()[0];
    assert_eq!(variable.name, "JOB_COMPLETION_INDEX");
}

#[test]
fn other_peoples_jobs_are_left_alone() {
    assert!(is_managed(&job(None, 1)));
    let managed_by = |name: &str| with(job(None, 1), |spec| spec.managed_by = Some(name.into()));
    assert!(is_managed(&managed_by("kubernetes.io/job-controller")));
    assert!(!is_managed(&managed_by("example.com/queue")));
}

/// A job and its pods, with a controller that may crash after any write.
struct World {
    job: Job,
    pods: BTreeMap<String, Pod>,
    made: usize,
    most: usize,
}

impl World {
    /// Plans, and does only the first `writes` of what was planned.
    fn step(&mut self, writes: usize) -> Plan {
        let pods: Vec<_> = self.pods.values().cloned().map(Arc::new).collect();
        let streak = Streak::default();
        let plan = plan(&Observed { job: &self.job, pods: &pods, streak, is_current: true }, NOW);
        let mut left = writes;
        let mut may = || {
            let may = left > 0;
            left = left.saturating_sub(1);
            may
        };
        if may() {
            self.job.status = Some(plan.status.clone());
        } else {
            return plan;
        }
        for pod in &plan.release {
            if may() {
                self.release(&pod.name_any());
            }
        }
        match &plan.action {
            Some(Action::Create(new)) => {
                for index in new {
                    if may() {
                        self.made += 1;
                        let name = format!("p{}", self.made);
                        let mut made = manage::pod(&self.job, *index);
                        made.metadata.uid = Some(format!("uid-{name}"));
                        made.metadata.name = Some(name.clone());
                        self.pods.insert(name, PodBuilder::from(made).running().build());
                    }
                }
            }
            Some(Action::Withdraw(pods)) => {
                for pod in pods {
                    self.release(&pod.name_any());
                    self.pods.remove(&pod.name_any());
                }
            }
            Some(Action::Stop(pods)) => {
                for pod in pods {
                    if let Some(pod) = self.pods.get_mut(&pod.name_any()) {
                        pod.metadata.deletion_timestamp = Some(stamp(NOW));
                    }
                }
            }
            Some(Action::DeleteJob) | None => {}
        }
        let active = self.pods.values().filter(|pod| is_active(pod)).count();
        self.most = self.most.max(active);
        plan
    }

    fn release(&mut self, name: &str) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod.metadata.finalizers = None;
            if pod.is_terminating() {
                self.pods.remove(name);
            }
        }
    }

    fn finish(&mut self, nth: usize, phase: &str) -> Option<Pod> {
        let running = self.pods.values_mut().filter(|pod| is_active(pod));
        let pod = running.into_iter().nth(nth)?;
        pod.status.get_or_insert_default().phase = Some(phase.into());
        Some(pod.clone())
    }
}

proptest! {
    /// Whatever succeeds and fails in whichever order, and wherever the controller crashes: never
    /// more pods run than allowed, every result counts once, and the job ends.
    #[test]
    fn every_result_counts_once(
        completions in 1..6i32,
        parallelism in 1..4i32,
        is_indexed in any::<bool>(),
        ticks in prop::collection::vec((0..4usize, any::<bool>(), 0..6usize), 0..30),
    ) {
        let job = match is_indexed {
            true => indexed(completions, parallelism),
            false => job(Some(completions), parallelism),
        };
        let job = with(job, |spec| spec.backoff_limit = Some(1_000));
        let mut world = World { job, pods: BTreeMap::new(), made: 0, most: 0 };
        let (mut failures, mut successes) = (0, BTreeMap::new());
        for (nth, fails, writes) in ticks {
            world.step(writes);
            let phase = if fails { "Failed" } else { "Succeeded" };
            if let Some(pod) = world.finish(nth, phase) {
                match fails {
                    true => failures += 1,
                    false => { successes.insert(uid(&pod).to_owned(), index(&pod)); }
                }
            }
        }
        for _ in 0..60 {
            world.step(usize::MAX);
            if let Some(pod) = world.finish(0, "Succeeded") {
                successes.insert(uid(&pod).to_owned(), index(&pod));
            }
        }
        let status = world.job.status.clone().unwrap();
        prop_assert!(verdict::ended(&status).is_some(), "{status:?}");
        prop_assert!(number(world.most) <= parallelism);
        prop_assert_eq!(status.failed.unwrap_or(0), failures);
        prop_assert_eq!(status.succeeded, Some(completions));
        if !is_indexed {
            prop_assert_eq!(number(successes.len()), completions, "no pod too many was made");
        }
        prop_assert!(world.pods.values().all(|pod| !is_tracked(pod)));
    }
}
