//! What should be written to a node, and why?
//!
//! ```text
//! incomplete ──> nothing is touched
//! disabled   ──> batch and mid go away, normalization stays, amplification goes away
//! doubtful   ──> batch and mid go away until a fresh report arrives
//! lending    ──> batch and mid from the report
//! ```
//!
//! A report is doubtful when there is none, when it is older than the strategy allows, when it is
//! from a future just as far away (the node's clock cannot be trusted then), or when it says
//! nothing about the node. Missing resources are deleted, not set to zero: a node that shows zero
//! would be drained by its agent, one that shows nothing only refuses new pods.

use jiff::{SignedDuration, Timestamp};
use units::Quantity;

use crate::amplify::{Amplification, amplify};
use crate::batch::{self, Terms};
use crate::device::{self, Devices};
use crate::facts::{MetricFacts, NodeFacts, NodeUsage, Pods, TopologyFacts};
use crate::load::Load;
use crate::mid;
use crate::normalize::{self, Normalization, normalize};
use crate::publish::{self, Batch, Due, Lent};
use crate::strategy::Strategies;
use crate::zone::{self, ZoneWrite};
use crate::{Amounts, Pair};

/// Everything one decision may look at.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    pub node: &'a NodeFacts,
    pub pods: &'a Pods,
    /// `None` when the node has no NodeMetric.
    pub metric: Option<&'a MetricFacts>,
    pub topology: Option<&'a TopologyFacts>,
    pub devices: Devices<'a>,
    pub strategies: &'a Strategies,
    pub options: &'a Options,
    /// When this process last wrote the node's status, or found that it need not.
    pub last_sync: Option<Timestamp>,
    pub now: Timestamp,
}

/// What flags say about the calculation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub plugins: Plugins,
    /// Nodes show a resource for shared GPUs (gate EnableSyncGPUSharedResource).
    pub is_gpu_shared: bool,
    /// Devices are shown on nodes that lend nothing, too (`--device-resources-independent`).
    pub are_devices_independent: bool,
    /// Mid pods are charged their mid requests (`--batch-count-mid-requests`).
    pub count_mid_requests: bool,
    /// A node may lend although the cluster does not (`--colocation-node-enable-overrides`).
    pub node_enable_overrides: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            plugins: Plugins::ALL,
            is_gpu_shared: false,
            are_devices_independent: false,
            count_mid_requests: false,
            node_enable_overrides: false,
        }
    }
}

/// Which parts of the calculation run; the others leave their part of the node alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plugins {
    pub batch: bool,
    pub mid: bool,
    pub normalization: bool,
    pub amplification: bool,
    pub gpu: bool,
    pub rdma: bool,
}

impl Plugins {
    pub const ALL: Self = Self {
        batch: true,
        mid: true,
        normalization: true,
        amplification: true,
        gpu: true,
        rdma: true,
    };

    /// Chooses by the names of `api::protocol::metric::manager::PLUGINS`.
    pub fn choose(is_on: impl Fn(&str) -> bool) -> Self {
        Self {
            batch: is_on("BatchResource"),
            mid: is_on("MidResource"),
            normalization: is_on("CPUNormalization"),
            amplification: is_on("ResourceAmplification"),
            gpu: is_on("GPUDeviceResource"),
            rdma: is_on("RDMADeviceResource"),
        }
    }
}

/// How far a node can be trusted to lend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Lending,
    /// The node says nothing of its cpu or memory.
    Incomplete,
    Disabled,
    /// There is no report, or it never had a time.
    NoReport,
    /// The report says nothing about the node.
    EmptyReport,
    Stale {
        age: SignedDuration,
    },
    /// The report is from the future.
    Skewed {
        ahead: SignedDuration,
    },
}

/// What to write, when to look again, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub status: Option<StatusWrite>,
    pub meta: Option<MetaWrite>,
    pub zones: Vec<ZoneWrite>,
    /// Nothing needs to be written although it is time: the node counts as written.
    pub is_synced: bool,
    pub look_again: Option<Timestamp>,
    pub why: Why,
}

impl Plan {
    /// The node already says what it should.
    pub fn is_quiet(&self) -> bool {
        self.status.is_none() && self.meta.is_none() && self.zones.is_empty()
    }
}

/// A change of the node's status; `None` takes a resource away.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusWrite {
    pub resources: Vec<(&'static str, Option<Quantity>)>,
    /// New text of the note on batch resources.
    pub origin: Option<String>,
    /// Something moved far; otherwise there is no hurry.
    pub is_urgent: bool,
}

/// A change of annotations and labels; `None` takes one away.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetaWrite {
    pub annotations: Vec<(&'static str, Option<String>)>,
    pub labels: Vec<(&'static str, Option<String>)>,
}

/// Every number of the decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Why {
    pub standing: Standing,
    pub batch: Option<batch::Why>,
    pub published: Option<Batch>,
    pub mid: Option<mid::Why>,
    pub mid_published: Option<Lent>,
    /// `None` when the node lends nothing or the part is off.
    pub normalization: Option<Normalization>,
    pub amplification: Option<Amplification>,
}

pub fn plan(inputs: &Inputs<'_>) -> Plan {
    let standing = standing(inputs);
    let mut why = Why {
        standing,
        batch: None,
        published: None,
        mid: None,
        mid_published: None,
        normalization: None,
        amplification: None,
    };
    if standing == Standing::Incomplete {
        let look_again = None;
        return Plan {
            status: None,
            meta: None,
            zones: Vec::new(),
            is_synced: false,
            look_again,
            why,
        };
    }
    let plugins = inputs.options.plugins;
    if plugins.normalization && standing != Standing::Disabled {
        let processor = inputs.topology.and_then(|topology| topology.processor.as_ref());
        let strategy = inputs.strategies.normalization.as_ref();
        why.normalization = Some(normalize(inputs.node.normalization, strategy, processor));
    }
    if plugins.amplification {
        why.amplification = Some(match standing {
            Standing::Disabled => Amplification::Wanted(None),
            _ => amplify(inputs.strategies.amplification.as_ref(), inputs.node.ratio.as_deref()),
        });
    }
    let zones = lend(inputs, standing, &mut why);
    let meta = meta(inputs, standing, &why);
    let (status, is_synced, is_waiting) = status(inputs, standing, &why);
    let look_again = look_again(inputs, standing, is_waiting);
    Plan { status, meta, zones, is_synced, look_again, why }
}

fn standing(inputs: &Inputs<'_>) -> Standing {
    if inputs.node.capacity.is_none() {
        return Standing::Incomplete;
    }
    if !inputs.strategies.is_enabled {
        return Standing::Disabled;
    }
    let Some(metric) = inputs.metric else { return Standing::NoReport };
    let Some(updated) = metric.updated else { return Standing::NoReport };
    let age = inputs.now.duration_since(updated);
    let limit = inputs.strategies.lending.degrade_after;
    if age > limit {
        Standing::Stale { age }
    } else if -age > limit {
        Standing::Skewed { ahead: -age }
    } else if metric.node.is_none() {
        Standing::EmptyReport
    } else {
        Standing::Lending
    }
}

/// Fills in batch and mid, and returns what must change on the zones.
fn lend(inputs: &Inputs<'_>, standing: Standing, why: &mut Why) -> Vec<ZoneWrite> {
    let plugins = inputs.options.plugins;
    let lending = &inputs.strategies.lending;
    let topology = inputs.topology.filter(|topology| plugins.batch && topology.is_counted());
    let ended = || {
        topology.map(|found| zone::writes(found, None, lending.diff_threshold)).unwrap_or_default()
    };
    let (Standing::Lending, Some(capacity), Some((metric, usage))) =
        (standing, inputs.node.capacity, report(inputs.metric))
    else {
        return ended();
    };
    let reserved = inputs.node.reserved;
    let load = Load::of(inputs.pods, &metric.pods);
    let terms = Terms::of_node(capacity, usage.system, &metric.hosts, reserved, &load);
    let batch = batch::batch(terms, reserved, &load, metric.hosts.above_batch_count, lending);
    let factor = why.normalization.as_ref().and_then(Normalization::factor);
    if plugins.mid {
        let found = mid::mid(capacity, &usage, metric, reserved, &load, batch.left, lending);
        why.mid_published = Some(found.left().counts());
        why.mid = Some(found);
    }
    if !plugins.batch {
        return Vec::new();
    }
    let origin = publish::origin(batch.left, factor);
    why.published = Some(publish::batch(origin, inputs.node.third_party, inputs.node.batch));
    why.batch = Some(batch);
    let Some(topology) = topology else { return Vec::new() };
    let system = terms.system + terms.hosts;
    let left = zone::zones(topology, system, terms.reserved, inputs.pods, &metric.pods, lending);
    let shown: Vec<Amounts> = left.into_iter().map(|left| zone::shown(left, factor)).collect();
    zone::writes(topology, Some(&shown), lending.diff_threshold)
}

fn report(metric: Option<&MetricFacts>) -> Option<(&MetricFacts, NodeUsage)> {
    let metric = metric?;
    Some((metric, metric.node?))
}

fn meta(inputs: &Inputs<'_>, standing: Standing, why: &Why) -> Option<MetaWrite> {
    use api::protocol::node as names;
    let node = inputs.node;
    let mut write = MetaWrite::default();
    if let Some(Normalization::Ratio { text, value }) = &why.normalization
        && normalize::differs(node.ratio.as_deref(), *value)
    {
        write.annotations.push((names::CPU_NORMALIZATION_RATIO.name, Some(text.to_string())));
    }
    if let Some(Amplification::Wanted(wanted)) = &why.amplification
        && wanted.as_deref() != node.amplification.as_deref()
    {
        write.annotations.push((names::AMPLIFICATION_RATIO.name, wanted.clone()));
    }
    let labels = [names::GPU_VENDOR.name, names::GPU_MODEL.name, names::GPU_DRIVER_VERSION.name];
    if inputs.options.plugins.gpu
        && shows_devices(inputs, standing)
        && let Devices::Known(Some(device)) = inputs.devices
        && device.healthy_gpus > 0
    {
        let both = device.labels.iter().zip(&node.gpu_labels);
        for (name, (wanted, shown)) in labels.into_iter().zip(both) {
            if wanted.is_some() && wanted != shown {
                write.labels.push((name, wanted.as_deref().map(str::to_owned)));
            }
        }
    }
    let is_empty = write.annotations.is_empty() && write.labels.is_empty();
    (!is_empty).then_some(write)
}

fn shows_devices(inputs: &Inputs<'_>, standing: Standing) -> bool {
    standing != Standing::Disabled || inputs.options.are_devices_independent
}

/// What to write, whether nothing needs to be although it is time, and whether a small difference
/// waits for its time.
fn status(inputs: &Inputs<'_>, standing: Standing, why: &Why) -> (Option<StatusWrite>, bool, bool) {
    let (node, options) = (inputs.node, inputs.options);
    let lending = &inputs.strategies.lending;
    let nothing = Pair::new(None, None);
    let batch = why.published.map_or(nothing, |batch| batch.shown);
    let mid = why.mid_published.map_or(nothing, |mid| mid.map(Some));
    let mut resources = Vec::new();
    let mut is_urgent = false;
    let mut compare = |name, shown: crate::facts::Shown, wanted: Option<Quantity>| {
        if shown.is(wanted) {
            return;
        }
        is_urgent |= publish::is_worth_writing(shown.allocatable, wanted, lending.diff_threshold);
        resources.push((name, wanted));
    };
    let plugins = options.plugins;
    let lent = publish::lent(node, plugins.batch.then_some(batch), plugins.mid.then_some(mid));
    for (name, shown, wanted) in lent {
        compare(name, shown, wanted);
    }
    if shows_devices(inputs, standing) {
        let gpus = plugins.gpu.then(|| device::gpus(node, inputs.devices, options.is_gpu_shared));
        let rdma = plugins.rdma.then(|| device::rdma(node, inputs.devices));
        for (name, wanted) in gpus.into_iter().flatten().chain(rdma.into_iter().flatten()) {
            let shown = node.devices.iter().find(|(shown, _)| *shown == name);
            compare(name, shown.map(|(_, shown)| *shown).unwrap_or_default(), wanted);
        }
    }
    let origin = if plugins.batch { origin_text(inputs, standing, why) } else { None };
    let differs = !resources.is_empty() || origin.is_some();
    let due = publish::due(inputs.last_sync, inputs.now, lending.update_after);
    if differs && (is_urgent || due != Due::NotYet) {
        return (Some(StatusWrite { resources, origin, is_urgent }), false, false);
    }
    (None, due != Due::NotYet, differs)
}

/// A node that never lent needs no note that it lends nothing; one that did has batch resources or a
/// note.
fn origin_text(inputs: &Inputs<'_>, standing: Standing, why: &Why) -> Option<String> {
    let old = inputs.node.origin.as_ref();
    let batch = inputs.node.batch;
    let never_lent = old.is_none() && batch.cpu.is_absent() && batch.memory.is_absent();
    if standing == Standing::Disabled && never_lent {
        return None;
    }
    publish::origin_text(old, why.published.map_or(Pair::new(0, 0), |batch| batch.origin))
}

/// The next moment at which time alone changes something.
fn look_again(inputs: &Inputs<'_>, standing: Standing, is_waiting: bool) -> Option<Timestamp> {
    let lending = &inputs.strategies.lending;
    let a_moment = SignedDuration::from_secs(1);
    let after = |start: Timestamp, span: SignedDuration| start.checked_add(span + a_moment).ok();
    let updated = inputs.metric.and_then(|metric| metric.updated);
    let stale = match standing {
        Standing::Lending => updated.and_then(|updated| after(updated, lending.degrade_after)),
        Standing::Skewed { .. } => {
            updated.and_then(|updated| after(updated, -lending.degrade_after))
        }
        _ => None,
    };
    let late =
        inputs.last_sync.filter(|_| is_waiting).and_then(|last| after(last, lending.update_after));
    [stale, late].into_iter().flatten().min()
}
