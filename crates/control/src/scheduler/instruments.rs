//! What does the scheduler count?
//!
//! Names, labels and buckets come from [`api::protocol::metric::scheduler`]; the registry that
//! serves them belongs to the process.

use std::time::Duration;

use api::protocol::metric::scheduler as names;
use api::protocol::metric::scheduler::inherited as upstream;
use api::protocol::metric::{Kind, Metric};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
};
use sched::scheduler::{Attempt, Outcome};

/// Everything that is counted, registered once a process.
#[derive(Debug, Clone)]
pub struct Instruments {
    attempts: IntCounterVec,
    attempt_duration: HistogramVec,
    algorithm_duration: Histogram,
    pending: IntGaugeVec,
    unschedulable: IntGaugeVec,
    preemption_attempts: IntCounter,
    preemption_victims: Histogram,
    pod_attempts: Histogram,
    pod_duration: HistogramVec,
    pod_sli_duration: HistogramVec,
    evaluated: Histogram,
    feasible: Histogram,
    cache_size: IntGaugeVec,
    pub(super) tasks: IntGaugeVec,
    pub(super) timeouts: IntCounterVec,
    pub(super) bindings: IntCounterVec,
    pub(super) leads: IntGaugeVec,
}

impl Instruments {
    /// Fails when the registry has one of these names already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let make = Maker(registry);
        Ok(Self {
            attempts: make.counters(&upstream::ATTEMPTS)?,
            attempt_duration: make.histograms(&upstream::ATTEMPT_DURATION)?,
            algorithm_duration: make.histogram(&upstream::ALGORITHM_DURATION)?,
            pending: make.gauges(&upstream::PENDING_PODS)?,
            unschedulable: make.gauges(&upstream::UNSCHEDULABLE_PODS)?,
            preemption_attempts: make.counter(&upstream::PREEMPTION_ATTEMPTS)?,
            preemption_victims: make.histogram(&upstream::PREEMPTION_VICTIMS)?,
            pod_attempts: make.histogram(&upstream::POD_ATTEMPTS)?,
            pod_duration: make.histograms(&upstream::POD_DURATION)?,
            pod_sli_duration: make.histograms(&upstream::POD_SLI_DURATION)?,
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
            Outcome::Skip { .. } => return,
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
            Outcome::Skip { .. } => {}
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

    /// How many pods wait in each part of the queue, and how much is remembered.
    pub(super) fn sizes(&self, pending: &[(&str, usize)], cached: &[(&str, usize)]) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (queue, pods) in pending {
            self.pending.with_label_values(&[queue]).set(count(*pods));
        }
        for (what, size) in cached {
            self.cache_size.with_label_values(&[what]).set(count(*size));
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

struct Maker<'a>(&'a Registry);

impl Maker<'_> {
    fn keep<C: prometheus::core::Collector + Clone + 'static>(
        &self,
        collector: C,
    ) -> Result<C, prometheus::Error> {
        self.0.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    fn counters(&self, metric: &Metric) -> Result<IntCounterVec, prometheus::Error> {
        self.keep(IntCounterVec::new(Opts::new(metric.name, metric.help), metric.labels)?)
    }

    fn counter(&self, metric: &Metric) -> Result<IntCounter, prometheus::Error> {
        self.keep(IntCounter::with_opts(Opts::new(metric.name, metric.help))?)
    }

    fn gauges(&self, metric: &Metric) -> Result<IntGaugeVec, prometheus::Error> {
        self.keep(IntGaugeVec::new(Opts::new(metric.name, metric.help), metric.labels)?)
    }

    fn histograms(&self, metric: &Metric) -> Result<HistogramVec, prometheus::Error> {
        self.keep(HistogramVec::new(options(metric), metric.labels)?)
    }

    fn histogram(&self, metric: &Metric) -> Result<Histogram, prometheus::Error> {
        self.keep(Histogram::with_opts(options(metric))?)
    }
}

fn options(metric: &Metric) -> HistogramOpts {
    let options = HistogramOpts::new(metric.name, metric.help);
    match metric.kind {
        Kind::Histogram(buckets) => options.buckets(buckets.upper_bounds()),
        Kind::Counter | Kind::Gauge => options,
    }
}
