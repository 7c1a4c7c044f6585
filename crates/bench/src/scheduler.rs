//! `tidepool bench scheduler`: how many pods get a node in a second?
//!
//! The engine alone, in one thread: nodes are told, then pods arrive one after the other and each
//! is decided, bound and confirmed, as the process around the engine would. Only deciding is
//! timed. With `--through-api` the whole scheduler then works against an embedded API in this
//! process, and beside it a binder that decides nothing, see [`through_api`].

pub(super) mod mix;
mod through_api;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};
use control::scheduler::profile::translate;
use k8s_openapi::api::core::v1::Pod;
use sched::Time;
use sched::explain::State;
use sched::scheduler::{Attempt, Change, Key, Options, Outcome, Scheduler, Update};
use serde::Serialize;

use super::manager::rss_mib;
use super::percentile_ms;
use crate::report;

/// Measure the scheduler: decisions a second on one core, with every node scored
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Nodes in the cluster
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Pods to decide
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pods: u32,
    /// What the pods ask for
    #[arg(long, value_enum, default_value_t = Mix::Basic)]
    mix: Mix,
    /// Decide between equal nodes
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Also bind that many pods through an embedded API, beside a binder that decides nothing
    #[arg(long)]
    through_api: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tidepool bench scheduler --nodes 10000 --pods 100000 --json
  tidepool bench scheduler --nodes 1000 --pods 2000 --mix spread";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mix {
    /// CPU and memory, a few workloads
    Basic,
    /// Required and preferred terms between pods
    Affinity,
    /// Evenly over zones and nodes
    Spread,
    /// Whole CPUs of one NUMA node
    Numa,
    /// Nodes that report their load
    Loadaware,
    /// A full cluster and somebody more important
    Preempt,
}

/// Stable keys; more may be added.
#[derive(Debug, Serialize)]
struct Report {
    nodes: u32,
    pods: u32,
    mix: Mix,
    /// On one core, every node scored.
    decisions_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    /// Decisions that gave a node, or victims.
    placed: u32,
    rejected: u32,
    /// Time to take note of one pod, from its arrival to its confirmation.
    notes_us_per_pod: f64,
    rss_mib: f64,
    /// Whether an engine that is told everything anew, and so looks at every node once more,
    /// finds the same best score and the same number of nodes for one pod of each workload.
    equal_to_brute_force: bool,
    compared: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    through_api: Option<through_api::Report>,
}

/// The bench's own time; a second passes with every pod.
const START: i64 = 1_800_000_000;

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let mut report = self.measure()?;
        if self.through_api {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            report.through_api =
                Some(runtime.block_on(through_api::measure(self.nodes, self.pods))?);
        }
        if self.json {
            report::print_json(&report)?;
        } else {
            report::print(&report.for_people())?;
        }
        Ok(report.equal_to_brute_force)
    }

    fn measure(&self) -> anyhow::Result<Report> {
        let configuration = self.mix.configuration();
        let profiles = configuration.profiles.iter().map(translate).collect();
        let options = Options { seed: self.seed, ..Options::default() };
        let mut run = Run {
            arguments: self,
            engine: Scheduler::new(profiles, options)?,
            now: Time::from_secs(START),
            times: Vec::new(),
            noting: Duration::ZERO,
            placed: 0,
            rejected: 0,
            homes: Vec::new(),
            gone: Vec::new(),
        };
        run.fill()?;
        for number in 0..self.pods {
            run.one(number)?;
        }
        let rss_mib = rss_mib()?;
        let (compared, differing) = run.compare()?;
        let (times, spent) = (run.times, run.noting);
        let total: Duration = times.iter().sum();
        Ok(Report {
            nodes: self.nodes,
            pods: self.pods,
            mix: self.mix,
            decisions_per_s: times.len() as f64 / total.as_secs_f64().max(1e-9),
            p50_us: percentile_ms(&times, 500) * 1e3,
            p99_us: percentile_ms(&times, 990) * 1e3,
            placed: run.placed,
            rejected: run.rejected,
            notes_us_per_pod: spent.as_secs_f64() * 1e6 / f64::from(self.pods),
            rss_mib,
            equal_to_brute_force: differing == 0,
            compared,
            through_api: None,
        })
    }
}

impl Report {
    fn for_people(&self) -> String {
        let mut text = format!(
            "{} nodes, {} pods: {:.0} decisions/s, p50 {:.1} us, p99 {:.1} us, {} placed, {} not, {:.0} MiB\n",
            self.nodes,
            self.pods,
            self.decisions_per_s,
            self.p50_us,
            self.p99_us,
            self.placed,
            self.rejected,
            self.rss_mib
        );
        if let Some(api) = &self.through_api {
            text += &format!(
                "through the API: {:.0} pods/s bound, events {:.1} s behind; {:.0} by a binder that decides nothing ({:.2}x), {:.0} if it follows the pods ({:.2}x)\n",
                api.pods_per_s,
                api.events_behind_s,
                api.null_pods_per_s,
                api.ratio,
                api.following_null_pods_per_s,
                api.following_ratio
            );
        }
        text
    }
}

/// One measurement.
struct Run<'a> {
    arguments: &'a Arguments,
    engine: Scheduler,
    now: Time,
    times: Vec<Duration>,
    /// Spent on taking note of things.
    noting: Duration,
    placed: u32,
    rejected: u32,
    /// Which pod is where.
    homes: Vec<(u32, Home)>,
    /// Pods that made room.
    gone: Vec<Key>,
}

/// A node, and what was written onto the pod.
type Home = (String, BTreeMap<String, String>);

impl Run<'_> {
    fn fill(&mut self) -> anyhow::Result<()> {
        for change in self.arguments.mix.cluster(self.arguments.nodes)? {
            self.engine.apply(change, self.now);
        }
        Ok(())
    }

    /// One pod arrives, is decided and confirmed.
    fn one(&mut self, number: u32) -> anyhow::Result<()> {
        self.now = self.now + Duration::from_millis(1);
        let pod = Arc::new(self.arguments.mix.pod(number)?);
        let start = Instant::now();
        self.engine.apply(Change::Pod(Update::Upsert(pod.clone())), self.now);
        self.noting += start.elapsed();

        let start = Instant::now();
        let attempt = self.engine.next(self.now).context("a pod that has just come is decided")?;
        self.times.push(start.elapsed());

        let start = Instant::now();
        self.settle(number, &pod, attempt);
        self.noting += start.elapsed();
        Ok(())
    }

    /// Tells everything to a new engine and asks both about one more pod of each workload.
    fn compare(&mut self) -> anyhow::Result<(u32, u32)> {
        let Arguments { mix, nodes, pods, seed, .. } = *self.arguments;
        let profiles = mix.configuration().profiles.iter().map(translate).collect();
        let mut fresh = Scheduler::new(profiles, Options { seed, ..Options::default() })?;
        for change in mix.cluster(nodes)? {
            fresh.apply(change, Time::from_secs(START));
        }
        for gone in &self.gone {
            fresh.apply(Change::Pod(Update::Delete(gone.clone())), self.now);
        }
        for (number, (node, annotations)) in &self.homes {
            let pod = on_node(mix.pod(*number)?, node.clone(), annotations.clone());
            fresh.apply(Change::Pod(Update::Upsert(Arc::new(pod))), self.now);
        }
        let (mut compared, mut differing) = (0, 0);
        for number in pods..pods + mix::WORKLOADS {
            let pod = Arc::new(mix.pod(number)?);
            let ask = |engine: &mut Scheduler| {
                engine.apply(Change::Pod(Update::Upsert(pod.clone())), self.now);
                let best = best(engine, &pod);
                engine.apply(Change::Pod(Update::Delete(key_of(&pod))), self.now);
                best
            };
            compared += 1;
            differing += u32::from(ask(&mut self.engine) != ask(&mut fresh));
        }
        Ok((compared, differing))
    }

    fn settle(&mut self, number: u32, pod: &Pod, attempt: Attempt) {
        match attempt.outcome {
            Outcome::Place(place) => {
                self.placed += 1;
                self.engine.bound(&attempt.pod.uid, self.now);
                let bound =
                    on_node(pod.clone(), place.node.clone(), place.patch.annotations.clone());
                self.engine.apply(Change::Pod(Update::Upsert(Arc::new(bound))), self.now);
                self.homes.push((number, (place.node, place.patch.annotations)));
            }
            Outcome::Reject(reject) => {
                match reject.victims.is_empty() {
                    true => self.rejected += 1,
                    false => self.placed += 1,
                }
                for victim in reject.victims {
                    let key =
                        Key::new(&victim.pod.namespace, &victim.pod.name).with_uid(&victim.pod.uid);
                    self.engine.apply(Change::Pod(Update::Delete(key.clone())), self.now);
                    self.gone.push(key);
                }
                self.engine.preempted(&attempt.pod.uid, self.now);
                // It would come back after its pause; here the next one comes instead.
                self.engine.apply(Change::Pod(Update::Delete(key_of(pod))), self.now);
            }
            Outcome::Skip { .. } | Outcome::Ask(_) | Outcome::AskRoom(_) => self.rejected += 1,
        }
    }
}

fn key_of(pod: &Pod) -> Key {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let meta = &pod.metadata;
    Key { namespace: text(&meta.namespace), name: text(&meta.name), uid: meta.uid.clone() }
}

/// The pod as the API server shows it once it is bound.
fn on_node(mut pod: Pod, node: String, annotations: BTreeMap<String, String>) -> Pod {
    if let Some(spec) = &mut pod.spec {
        spec.node_name = Some(node);
    }
    pod.metadata.annotations.get_or_insert_default().extend(annotations);
    pod
}

/// The best score and the number of nodes that fit; `None` when none does.
fn best(engine: &mut Scheduler, pod: &Pod) -> Option<(i64, Option<u32>)> {
    let meta = &pod.metadata;
    let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
    match engine.explain(namespace, name)?.state {
        State::Ready(placement) => Some((placement.winner.total, placement.feasible)),
        _ => None,
    }
}
