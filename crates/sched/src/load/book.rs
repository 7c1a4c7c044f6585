//! What is in use on every node, including by pods that were placed a moment ago?
//!
//! A node reports once a minute what it used over the last minute. A pod that was placed since is
//! not in there, or only in part, and without more a cold node would be filled to the brim between
//! two reports. So each pod counts with its estimate until the reports are known to cover it:
//!
//! ```text
//! estimated:  usage missing  OR  updated - interval < scheduled  OR  deadline > updated
//! delta       += max(0, estimate - usage)      of estimated pods
//! estimated   += estimate                      of all pods
//! prod usage  += usage                         of prod pods the node counts as prod
//! prod delta  += max(0, estimate - prod usage) of estimated prod pods
//! ```
//!
//! A [`Book`] keeps these sums by node: added to when a pod comes, taken from when it goes, and
//! made anew when a report arrives. There is one for each configuration of the plugin.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use api::kind::NodeMetric;
use api::metadata::node::UsageThresholds;
use api::metadata::{ResourceList, Wire};
use api::protocol::node::{RAW_ALLOCATABLE, USAGE_THRESHOLDS};
use api::protocol::resource::CPU;

use super::args::{Policy, Settings};
use super::estimate::Estimate;
use super::report::Report;
use crate::model::{Class, ClassId, Names, Node, Resources, Symbol};
use crate::snapshot::{NodeIx, PodIx};
use crate::time::Time;

/// When things happened to a pod; `None` while they have not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Its condition `PodScheduled` became true.
    pub scheduled: Option<Time>,
    /// Its condition `Initialized` became true.
    pub initialized: Option<Time>,
    /// We placed it, or saw it placed.
    pub assigned: Option<Time>,
}

impl Times {
    /// A pod that was just placed has not got a time yet: it is later than every report.
    fn start(&self) -> Time {
        self.scheduled.or(self.assigned).unwrap_or(Time::MAX)
    }
}

/// A pod on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Assigned {
    pub pod: PodIx,
    pub namespace: Symbol,
    pub name: Arc<str>,
    pub times: Times,
    pub estimate: Arc<Estimate>,
}

/// Sums over the pods of a node, by column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    pub delta: Box<[i64]>,
    pub estimated: Box<[i64]>,
    pub prod_usage: Box<[i64]>,
    pub prod_delta: Box<[i64]>,
}

impl Sums {
    fn zero(width: usize) -> Self {
        let zeros = || vec![0; width].into_boxed_slice();
        Self { delta: zeros(), estimated: zeros(), prod_usage: zeros(), prod_delta: zeros() }
    }

    /// Adds a pod, or takes it away with `sign` -1.
    fn count(&mut self, report: Option<&Report>, pod: &Assigned, sign: i64) {
        let add = |sums: &mut [i64], at: usize, amount: i64| {
            if let Some(sum) = sums.get_mut(at) {
                *sum = sum.saturating_add(sign.saturating_mul(amount));
            }
        };
        let usage = report.and_then(|report| report.pod(pod.namespace, &pod.name));
        let is_early = pod.is_early(report);
        let prod_usage = usage.filter(|(_, is_prod)| *is_prod).map(|(usage, _)| usage);
        let usage = usage.map(|(usage, _)| usage);
        let of = |usage: Option<&[i64]>, at: usize| {
            usage.and_then(|usage| usage.get(at)).copied().unwrap_or(0)
        };
        for (at, estimate) in pod.estimate.amounts.iter().enumerate() {
            add(&mut self.estimated, at, *estimate);
            if usage.is_none() || is_early {
                add(&mut self.delta, at, estimate.saturating_sub(of(usage, at)).max(0));
            }
            if !pod.estimate.is_prod {
                continue;
            }
            add(&mut self.prod_usage, at, of(prod_usage, at));
            if prod_usage.is_none() || is_early {
                add(&mut self.prod_delta, at, estimate.saturating_sub(of(prod_usage, at)).max(0));
            }
        }
    }
}

impl Assigned {
    /// The report does not cover the pod yet, or the pod is to be estimated for longer.
    fn is_early(&self, report: Option<&Report>) -> bool {
        let Some((updated, interval)) =
            report.and_then(|report| Some((report.updated?, report.interval)))
        else {
            return true;
        };
        let start = self.times.start();
        let initialized = self.times.initialized.zip(self.estimate.after_initialized);
        let deadline = match (initialized, self.estimate.after_scheduled) {
            (Some((at, after)), _) => Some(at + after),
            (None, Some(after)) => Some(start + after),
            (None, None) => None,
        };
        updated - interval < start || deadline.is_some_and(|deadline| deadline > updated)
    }
}

/// One node's page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub report: Option<Arc<Report>>,
    pub is_stale: bool,
    /// What the node physically has, by column.
    pub capacity: Box<[i64]>,
    /// The node's own thresholds.
    pub policy: Option<Box<Policy>>,
    pub sums: Sums,
    pub pods: Vec<Assigned>,
}

impl Page {
    fn recount(&mut self, width: usize) {
        self.sums = Sums::zero(width);
        for pod in &self.pods {
            self.sums.count(self.report.as_deref(), pod, 1);
        }
    }
}

/// All nodes under one configuration.
#[derive(Debug)]
pub struct Book {
    settings: Arc<Settings>,
    pages: Vec<Page>,
    /// By node name, so that a report may come before its node.
    reports: HashMap<Symbol, Arc<Report>>,
    /// Reports that will be too old, by when.
    expiries: BTreeSet<(Time, NodeIx)>,
    estimates: HashMap<ClassId, Arc<Estimate>>,
    now: Time,
}

/// Estimates of more classes than this are made again when they are needed.
const KEPT_ESTIMATES: usize = 4096;

impl Book {
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            pages: Vec::new(),
            reports: HashMap::new(),
            expiries: BTreeSet::new(),
            estimates: HashMap::new(),
            now: Time::ZERO,
        }
    }

    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    pub fn page(&self, at: NodeIx) -> Option<&Page> {
        self.pages.get(at.index())
    }

    pub fn grow(&mut self, slots: usize) {
        let width = self.settings.width();
        self.pages.resize_with(slots, || Page {
            capacity: vec![0; width].into(),
            sums: Sums::zero(width),
            ..Page::default()
        });
    }

    pub fn set_node(&mut self, at: NodeIx, node: &Node, names: &Names) {
        let report = self.reports.get(&node.name).cloned();
        self.set_report(at, report);
        let text = |name: &str| names.find(name).and_then(|key| node.annotations.get(key));
        let raw = text(RAW_ALLOCATABLE.name)
            .and_then(|value| ResourceList::parse(names.text(value)).0)
            .unwrap_or_default();
        let own = text(USAGE_THRESHOLDS.name)
            .and_then(|value| UsageThresholds::parse(names.text(value)).0);
        let Some(page) = self.pages.get_mut(at.index()) else { return };
        let capacity = self.settings.columns.iter().map(|column| match raw.get(&column.name) {
            Some(raw) if column.name == CPU => raw.milli_value(),
            Some(raw) => raw.value(),
            None => node.allocatable.get(column.id),
        });
        page.capacity = capacity.collect();
        page.policy = own.and_then(|own| self.settings.overridden(&own)).map(Box::new);
    }

    pub fn remove_node(&mut self, at: NodeIx) {
        self.set_report(at, None);
        if let Some(page) = self.pages.get_mut(at.index()) {
            page.capacity.fill(0);
            page.policy = None;
        }
    }

    /// A report came, or went. `at` is the node's place, when the node is there.
    pub fn set_metric(
        &mut self,
        node: Symbol,
        metric: Option<&NodeMetric>,
        at: Option<NodeIx>,
        names: &mut Names,
    ) {
        let report = metric.map(|metric| Arc::new(Report::read(metric, &self.settings, names)));
        match &report {
            Some(report) => self.reports.insert(node, Arc::clone(report)),
            None => self.reports.remove(&node),
        };
        if let Some(at) = at {
            self.set_report(at, report);
        }
    }

    fn set_report(&mut self, at: NodeIx, report: Option<Arc<Report>>) {
        let Some(page) = self.pages.get_mut(at.index()) else { return };
        let expiry = |report: &Option<Arc<Report>>| report.as_ref()?.expires(&self.settings);
        if let Some(before) = expiry(&page.report) {
            self.expiries.remove(&(before, at));
        }
        page.is_stale = false;
        match expiry(&report) {
            Some(when) if when <= self.now => page.is_stale = true,
            Some(when) => {
                self.expiries.insert((when, at));
            }
            None => {}
        }
        if page.report != report {
            page.report = report;
            page.recount(self.settings.width());
        }
    }

    /// Time has passed; pushes the nodes whose report is too old now.
    pub fn expire(&mut self, now: Time, touched: &mut Vec<NodeIx>) {
        self.now = self.now.max(now);
        while let Some((when, at)) = self.expiries.first().copied() {
            if when > now {
                return;
            }
            self.expiries.pop_first();
            if let Some(page) = self.pages.get_mut(at.index()) {
                page.is_stale = true;
                touched.push(at);
            }
        }
    }

    /// When the next report will be too old.
    pub fn wake_at(&self) -> Option<Time> {
        self.expiries.first().map(|(when, _)| *when)
    }

    /// What is expected of pods of a class.
    pub fn estimate(
        &mut self,
        class: &Class,
        names: &Names,
        resources: &Resources,
    ) -> Arc<Estimate> {
        if let Some(found) = self.estimates.get(&class.id) {
            return Arc::clone(found);
        }
        if self.estimates.len() >= KEPT_ESTIMATES {
            self.estimates.clear();
        }
        let estimate = Arc::new(Estimate::of(&self.settings, class, names, resources));
        self.estimates.insert(class.id, Arc::clone(&estimate));
        estimate
    }

    pub fn attach(&mut self, at: NodeIx, pod: Assigned) {
        let Some(page) = self.pages.get_mut(at.index()) else { return };
        page.sums.count(page.report.as_deref(), &pod, 1);
        page.pods.push(pod);
    }

    pub fn detach(&mut self, at: NodeIx, pod: PodIx) {
        let Some(page) = self.pages.get_mut(at.index()) else { return };
        let Some(found) = page.pods.iter().position(|own| own.pod == pod) else { return };
        let gone = page.pods.swap_remove(found);
        page.sums.count(page.report.as_deref(), &gone, -1);
    }

    /// More is known of when things happened to a pod on a node. Says whether the sums differ.
    pub fn set_times(&mut self, at: NodeIx, pod: PodIx, times: Times) -> bool {
        let Some(page) = self.pages.get_mut(at.index()) else { return false };
        let Some(found) = page.pods.iter_mut().find(|own| own.pod == pod) else { return false };
        let report = page.report.as_deref();
        let was_early = found.is_early(report);
        let before = std::mem::replace(&mut found.times, times);
        let is_changed = found.is_early(report) != was_early;
        if is_changed {
            let now = std::mem::replace(&mut found.times, before);
            page.sums.count(report, found, -1);
            found.times = now;
            page.sums.count(report, found, 1);
        }
        is_changed
    }

    /// Sums that are not what their pods add up to.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (at, page) in self.pages.iter().enumerate() {
            let mut fresh = page.clone();
            fresh.recount(self.settings.width());
            if fresh.sums != page.sums {
                wrong.push(format!("load of node slot {at}: {:?} for {:?}", page.sums, fresh.sums));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests;
