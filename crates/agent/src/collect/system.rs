//! What is used by neither pods nor host applications?
//!
//! ```text
//! system           = max(node - pods - host applications, 0)      CPU and memory
//! NUMA memory      = max(NUMA node - pods there, 0)
//! NUMA CPU         = system CPU * NUMA node's share of all CPU
//! ```
//!
//! Inputs older than the limit make no sample: better a gap than a guess.

use std::time::Duration;

use super::host_applications::HostApplications;
use super::node::Node;
use super::pods::Pods;
use crate::series::{Measure, Metrics, Subject};

/// What the last ticks left behind.
#[derive(Debug)]
pub(super) struct Inputs<'a> {
    pub(super) node: &'a Node,
    pub(super) pods: &'a Pods,
    pub(super) apps: &'a HostApplications,
    /// Host applications count with their page cache.
    pub(super) page_cache: bool,
    /// How old an input may be.
    pub(super) outdated: Duration,
}

/// Derives the system's usage; `scratch` is overwritten.
pub(super) fn derive(
    inputs: &Inputs<'_>,
    now: Duration,
    metrics: &Metrics,
    scratch: &mut Vec<f64>,
) {
    let Inputs { node, pods, apps, page_cache, outdated } = *inputs;
    let Some(usage) = node.last().filter(|last| last.at >= now.saturating_sub(outdated)) else {
        return;
    };
    let (pod_sum, app_sum) = (pods.sum(now, outdated), apps.sum(now, outdated, page_cache));
    let cpu = (usage.cpu - pod_sum.cpu - app_sum.cpu).max(0.0);
    let memory = (usage.memory - pod_sum.memory - app_sum.memory).max(0.0);
    let mut store = metrics.lock();
    store.push(Subject::System, Measure::Cpu, now, cpu);
    store.push(Subject::System, Measure::Memory, now, memory);

    scratch.clear();
    let all: f64 = node.numa(now).map(|numa| numa.cpu).sum();
    let is_known = pods.sum_numa(now, outdated, scratch);
    for numa in node.numa(now) {
        let subject = Subject::NumaSystem(u32::from(numa.id));
        let share = if all > 0.0 { numa.cpu / all } else { 0.0 };
        store.push(subject, Measure::Cpu, now, cpu * share);
        if is_known {
            let pods = scratch.get(usize::from(numa.id)).copied().unwrap_or(0.0);
            store.push(subject, Measure::Memory, now, (numa.memory - pods).max(0.0));
        }
    }
}
