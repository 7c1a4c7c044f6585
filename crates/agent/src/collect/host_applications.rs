//! What do applications outside Kubernetes use?
//!
//! Each is a control group that somebody else made; it is sampled like a pod. With the page-cache policy
//! all memory charged to the group counts.

use std::collections::HashSet;
use std::time::Duration;

use host::Reading;

use super::group::{Group, Outcome, Pass};
use super::pods::{Sum, bytes_f64, record_memory};
use crate::series::{Measure, Metrics, Subject};
use qos::node::NodeState;

/// All host applications of the node.
#[derive(Debug, Default)]
pub(super) struct HostApplications {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    group: Group,
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    at: Duration,
    cpu: f64,
    memory: f64,
    with_page_cache: Option<f64>,
}

impl HostApplications {
    /// Follows the state.
    pub(super) fn follow(&mut self, state: &NodeState, metrics: &Metrics) {
        let mut known = std::mem::take(&mut self.entries);
        self.entries.extend(state.host_applications.iter().map(|app| {
            let at =
                known.iter().position(|old| old.name == app.name && old.group.is_at(&app.cgroup));
            at.map(|at| known.swap_remove(at)).unwrap_or_else(|| Entry {
                name: app.name.clone(),
                group: Group::new(&app.cgroup),
                last: None,
            })
        }));
        let names: HashSet<&str> =
            state.host_applications.iter().map(|app| app.name.as_str()).collect();
        metrics.lock().keep_host_applications(&names);
    }

    /// Samples all of them; `page_cache` also reads all memory that is charged.
    pub(super) fn tick(&mut self, pass: &mut Pass<'_>, metrics: &Metrics, page_cache: bool) {
        for app in &mut self.entries {
            let usage = match app.group.sample(pass) {
                Outcome::Sampled(usage) => usage,
                Outcome::Absent => {
                    app.last = None;
                    continue;
                }
                Outcome::Baseline | Outcome::Failed => continue,
            };
            let with_page_cache = match app.group.open_reader() {
                Some(reader) if page_cache => match reader.memory_usage(pass.buffer) {
                    Ok(Reading::Value(bytes)) => Some(bytes_f64(bytes)),
                    _ => None,
                },
                _ => None,
            };
            let memory = usage.memory.map_or(0.0, |memory| bytes_f64(memory.used()));
            app.last = Some(Last { at: pass.now, cpu: usage.cpu, memory, with_page_cache });
            let subject = Subject::HostApplication(&app.name);
            let mut store = metrics.lock();
            store.push(subject, Measure::Cpu, pass.now, usage.cpu);
            if let Some(memory) = &usage.memory {
                record_memory(&mut store, subject, memory, pass.now, false);
            }
            if let Some(bytes) = with_page_cache {
                store.push(subject, Measure::MemoryWithPageCache, pass.now, bytes);
            }
        }
    }

    /// What applications used that were sampled in the last `window`.
    pub(super) fn sum(&self, now: Duration, window: Duration, page_cache: bool) -> Sum {
        let lasts = self.entries.iter().filter_map(|app| app.last);
        let recent = lasts.filter(|last| last.at >= now.saturating_sub(window));
        recent.fold(Sum::default(), |sum, last| {
            let memory = last.with_page_cache.filter(|_| page_cache).unwrap_or(last.memory);
            Sum { cpu: sum.cpu + last.cpu, memory: sum.memory + memory }
        })
    }

    /// Groups that are there and cannot be read.
    pub(super) fn failing(&self) -> usize {
        self.entries.iter().filter(|app| app.group.is_failing()).count()
    }

    /// Visits the groups that were sampled lately.
    pub(super) fn visit(&mut self, mut visit: impl FnMut(Subject<'_>, &mut Group)) {
        for app in self.entries.iter_mut().filter(|app| app.last.is_some()) {
            visit(Subject::HostApplication(&app.name), &mut app.group);
        }
    }
}
