//! What does the scheduler count?
//!
//! Names, labels and buckets come from [`api::protocol::metric::scheduler`]; the registry that
//! serves them belongs to the process.
//!
//! What is counted for every pod is a handful of numbers. How long plugins take is measured for
//! one attempt in ten, as kube-scheduler does; what the engine counts by itself is fetched once a
//! second.

use std::collections::BTreeMap;
use std::time::Duration;

use api::protocol::metric::Metric;
use api::protocol::metric::scheduler as names;
use api::protocol::metric::scheduler::inherited as upstream;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Registry};
use reconcile::metrics::Registrar;
use sched::lap::{Ending, Lap, Timed};
use sched::profile::Point;
use sched::queue::{Hint, event_label};
use sched::scheduler::{Attempt, Outcome, Scheduler};
use sched::verdict::Code;

/// Everything that is counted, registered once a process.
#[derive(Debug, Clone)]
pub struct Instruments {
    attempts: IntCounterVec,
    attempt_duration: HistogramVec,
    algorithm_duration: Histogram,
    pending: IntGaugeVec,
    incoming: IntCounterVec,
    unschedulable: IntGaugeVec,
    inflight_events: IntGaugeVec,
    preemption_attempts: IntCounter,
    preemption_victims: Histogram,
    preemption_duration: HistogramVec,
    preemptions: IntCounterVec,
    pod_attempts: Histogram,
    pod_duration: HistogramVec,
    pod_sli_duration: HistogramVec,
    point_duration: HistogramVec,
    plugin_duration: HistogramVec,
    plugin_evaluations: IntCounterVec,
    hint_duration: HistogramVec,
    event_duration: HistogramVec,
    evaluated: Histogram,
    feasible: Histogram,
    cache_size: IntGaugeVec,
    pub(super) tasks: IntGaugeVec,
    pub(super) timeouts: IntCounterVec,
    pub(super) bindings: IntCounterVec,
    pub(super) leads: IntGaugeVec,
}

/// Every name there is, observed or not.
pub fn known() -> impl Iterator<Item = &'static Metric> {
    names::ALL.iter().chain(upstream::ALL).chain(names::own::ALL)
}

impl Instruments {
    /// Fails when the registry has one of these names already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let make = Registrar(registry);
        Ok(Self {
            attempts: make.counters(&upstream::ATTEMPTS)?,
            attempt_duration: make.histograms(&upstream::ATTEMPT_DURATION)?,
            algorithm_duration: make.histogram(&upstream::ALGORITHM_DURATION)?,
            pending: make.gauges(&upstream::PENDING_PODS)?,
            incoming: make.counters(&upstream::INCOMING_PODS)?,
            unschedulable: make.gauges(&upstream::UNSCHEDULABLE_PODS)?,
            inflight_events: make.gauges(&upstream::INFLIGHT_EVENTS)?,
            preemption_attempts: make.counter(&upstream::PREEMPTION_ATTEMPTS)?,
            preemption_victims: make.histogram(&upstream::PREEMPTION_VICTIMS)?,
            preemption_duration: make.histograms(&upstream::PREEMPTION_DURATION)?,
            preemptions: make.counters(&upstream::PREEMPTIONS)?,
            pod_attempts: make.histogram(&upstream::POD_ATTEMPTS)?,
            pod_duration: make.histograms(&upstream::POD_DURATION)?,
            pod_sli_duration: make.histograms(&upstream::POD_SLI_DURATION)?,
            point_duration: make.histograms(&upstream::EXTENSION_POINT_DURATION)?,
            plugin_duration: make.histograms(&upstream::PLUGIN_DURATION)?,
            plugin_evaluations: make.counters(&upstream::PLUGIN_EVALUATIONS)?,
            hint_duration: make.histograms(&upstream::HINT_DURATION)?,
            event_duration: make.histograms(&upstream::EVENT_DURATION)?,
            evaluated: make.histogram(&names::EVALUATED_NODES)?,
            feasible: make.histogram(&names::FEASIBLE_NODES)?,
            cache_size: make.gauges(&upstream::CACHE_SIZE)?,
            tasks: make.gauges(&upstream::TASKS)?,
            timeouts: make.counters(&names::TIMEOUT)?,
            bindings: make.counters(&names::own::BINDINGS)?,
            leads: make.gauges(&upstream::LEADER)?,
        })
    }

    /// One pod was looked at.
    pub(super) fn attempted(&self, attempt: &Attempt, took: Duration) {
        let result = match &attempt.outcome {
            Outcome::Place(_) => "scheduled",
            Outcome::Reject(reject) if reject.why.is_error => "error",
            Outcome::Reject(_) => "unschedulable",
            Outcome::Skip { .. } | Outcome::Ask(_) | Outcome::AskRoom(_) => return,
        };
        let labels = [result, attempt.scheduler_name.as_str()];
        self.attempts.with_label_values(&labels).inc();
        self.attempt_duration.with_label_values(&labels).observe(took.as_secs_f64());
        self.algorithm_duration.observe(took.as_secs_f64());
        match &attempt.outcome {
            Outcome::Place(place) => {
                self.evaluated.observe(f64::from(place.why.nodes));
                self.feasible.observe(f64::from(place.why.feasible.unwrap_or(place.why.nodes)));
            }
            Outcome::Reject(reject) => {
                self.evaluated.observe(f64::from(reject.why.nodes));
                self.feasible.observe(0.0);
                if reject.why.preemption.is_some() || !reject.victims.is_empty() {
                    self.preemption_attempts.inc();
                }
                if !reject.victims.is_empty() {
                    // Victims of one preemption fit into a float.
                    self.preemption_victims.observe(reject.victims.len() as f64);
                }
            }
            Outcome::Skip { .. } | Outcome::Ask(_) | Outcome::AskRoom(_) => {}
        }
    }

    /// A pod got its node after so many attempts.
    pub(super) fn placed(&self, attempts: u32, waited: Duration) {
        self.pod_attempts.observe(f64::from(attempts));
        let label = if attempts >= 16 { "16+".to_owned() } else { attempts.to_string() };
        for duration in [&self.pod_duration, &self.pod_sli_duration] {
            duration.with_label_values(&[label.as_str()]).observe(waited.as_secs_f64());
        }
    }

    /// Something the engine timed.
    pub(super) fn timed(&self, profile: &str, lap: &Lap) {
        let took = lap.took.as_secs_f64();
        match lap.what {
            Timed::Plugin { plugin, point, ending } => {
                let labels = [plugin, point_word(point), ending_word(ending)];
                self.plugin_duration.with_label_values(&labels).observe(took);
            }
            Timed::Point { point, ending } => {
                let labels = [point_word(point), ending_word(ending), profile];
                self.point_duration.with_label_values(&labels).observe(took);
            }
            Timed::Hint { plugin, resource, actions, hint } => {
                let event = event_label(resource, actions);
                let hint = match hint {
                    Hint::Queue => "Queue",
                    Hint::Skip => "QueueSkip",
                };
                let labels = [plugin, event.as_str(), hint];
                self.hint_duration.with_label_values(&labels).observe(took);
            }
        }
    }

    /// Writing onto a pod, or binding it, took so long.
    pub(super) fn wrote(&self, point: Point, is_done: bool, profile: &str, took: Duration) {
        let ending = if is_done { "Success" } else { "Error" };
        let plugin = if point == Point::Bind { "DefaultBinder" } else { "DefaultPreBind" };
        let took = took.as_secs_f64();
        let labels = [plugin, point_word(point), ending];
        self.plugin_duration.with_label_values(&labels).observe(took);
        let labels = [point_word(point), ending, profile];
        self.point_duration.with_label_values(&labels).observe(took);
    }

    /// A change was taken note of.
    pub(super) fn heard(&self, event: &str, took: Duration) {
        self.event_duration.with_label_values(&[event]).observe(took.as_secs_f64());
    }

    /// Victims were told to go.
    pub(super) fn preempted(&self, is_done: bool, took: Duration) {
        let labels = [if is_done { "success" } else { "error" }];
        self.preemptions.with_label_values(&labels).inc();
        self.preemption_duration.with_label_values(&labels).observe(took.as_secs_f64());
    }

    /// How many pods wait in each part of the queue, and how much is remembered.
    pub(super) fn sizes(&self, pending: &[(&str, usize)], cached: &[(&str, usize)]) {
        for (queue, pods) in pending {
            self.pending.with_label_values(&[queue]).set(whole(*pods));
        }
        for (what, size) in cached {
            self.cache_size.with_label_values(&[what]).set(whole(*size));
        }
    }

    /// Fetches what the engine counts by itself.
    pub(super) fn fetch(&self, engine: &mut Scheduler) {
        for (room, cause, count) in engine.incoming() {
            let cause = cause.label();
            raise(&self.incoming, &[room.label(), cause.as_str()], count);
        }
        for (profile, plugin, point, count) in engine.evaluations() {
            raise(&self.plugin_evaluations, &[plugin, point_word(point), &profile], count);
        }
        let mut held: BTreeMap<String, usize> = BTreeMap::new();
        for (resource, actions) in engine.held_kinds() {
            *held.entry(event_label(resource, actions)).or_default() += 1;
        }
        self.inflight_events.reset();
        for (event, count) in held {
            self.inflight_events.with_label_values(&[event.as_str()]).set(whole(count));
        }
    }

    /// Which plugins hold pods back now: one more, or one less.
    pub(super) fn held_back<'a>(
        &self,
        plugins: impl IntoIterator<Item = &'a str>,
        profile: &str,
        by: i64,
    ) {
        for plugin in plugins {
            self.unschedulable.with_label_values(&[plugin, profile]).add(by);
        }
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Brings a counter up to a number somebody else counted.
fn raise(counter: &IntCounterVec, labels: &[&str], to: u64) {
    let counter = counter.with_label_values(labels);
    counter.inc_by(to.saturating_sub(counter.get()));
}

/// kube-scheduler's words.
fn point_word(point: Point) -> &'static str {
    match point {
        Point::PreEnqueue => "PreEnqueue",
        Point::QueueSort => "QueueSort",
        Point::PreFilter => "PreFilter",
        Point::Filter => "Filter",
        Point::PostFilter => "PostFilter",
        Point::PreScore => "PreScore",
        Point::Score => "Score",
        Point::Reserve => "Reserve",
        Point::Permit => "Permit",
        Point::PreBind => "PreBind",
        Point::Bind => "Bind",
        Point::PostBind => "PostBind",
    }
}

fn ending_word(ending: Ending) -> &'static str {
    match ending {
        Ending::Success => "Success",
        Ending::Skip => "Skip",
        Ending::Rejected(Code::Unschedulable) => "Unschedulable",
        Ending::Rejected(Code::Unresolvable) => "UnschedulableAndUnresolvable",
    }
}
