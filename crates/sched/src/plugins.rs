//! All plugins: one row each.
//!
//! The order of the rows is the order in which default plugins run. [`crate::plugin`] says how
//! to add one.

mod allocation;
mod balanced_allocation;
mod domains;
mod fit_plus;
mod image_locality;
mod inter_pod;
mod load_aware;
mod marker;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod numa_resource;
mod scarce_resources;
mod scheduling_gates;
mod scheduling_hint;
mod spread;
mod taint_toleration;
#[cfg(test)]
mod trial;
pub mod wakes;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use marker::DEFAULT_PREEMPTION;

use crate::plugin::Plugin;
use crate::profile::Point::{
    self, Bind, Filter, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort, Reserve,
    Score,
};
use crate::snapshot::Snapshot;

/// One plugin: its name, where it takes part, and how it is made.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    pub points: &'static [Point],
    /// The weight of its score when the configuration does not say.
    pub weight: i64,
    /// Part of Kubernetes' own default set.
    pub is_default: bool,
    /// Makes the plugin from its args; `Null` stands for the defaults.
    pub build: Build,
}

/// Makes a plugin from its args, interning the names they hold.
pub type Build = fn(&Value, &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError>;

/// Args of a plugin that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("args of {plugin}: {problem}")]
pub struct ArgsError {
    pub plugin: &'static str,
    pub problem: String,
}

/// Reads args strictly, without their `apiVersion` and `kind`. `Null` gives the defaults.
pub fn read_args<T: DeserializeOwned + Default>(
    plugin: &'static str,
    args: &Value,
) -> Result<T, ArgsError> {
    if args.is_null() {
        return Ok(T::default());
    }
    let mut args = args.clone();
    if let Some(fields) = args.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    serde_json::from_value(args).map_err(|error| ArgsError { plugin, problem: error.to_string() })
}

/// Every plugin there is.
pub const TABLE: &[Row] = &[
    row(scheduling_gates::NAME, &[PreEnqueue], 0, scheduling_gates::build),
    row(marker::PRIORITY_SORT, &[QueueSort], 0, marker::sort),
    row(node_unschedulable::NAME, &[Filter], 0, node_unschedulable::build),
    row(node_name::NAME, &[Filter], 0, node_name::build),
    row(taint_toleration::NAME, &[Filter, PreScore, Score], 3, taint_toleration::build),
    row(node_affinity::NAME, FILTER_AND_SCORE, 2, node_affinity::build),
    row(node_ports::NAME, &[PreFilter, Filter], 0, node_ports::build),
    row(node_resources_fit::NAME, FILTER_AND_SCORE, 1, node_resources_fit::build),
    row(spread::NAME, FILTER_AND_SCORE, 2, spread::build),
    row(inter_pod::NAME, FILTER_AND_SCORE, 2, inter_pod::build),
    row(marker::DEFAULT_PREEMPTION, &[PreEnqueue, PostFilter], 0, marker::preemption),
    row(balanced_allocation::NAME, &[PreScore, Score], 1, balanced_allocation::build),
    row(image_locality::NAME, &[Score], 1, image_locality::build),
    row(marker::DEFAULT_BINDER, &[Bind], 0, marker::binder),
    added(load_aware::NAME, &[Filter, Score, Reserve], 1, load_aware::build),
    added(
        numa_resource::NAME,
        &[PreFilter, Filter, PreScore, Score, Reserve, PreBind],
        1,
        numa_resource::build,
    ),
    added(fit_plus::NAME, &[PreScore, Score], 1, fit_plus::build),
    added(scarce_resources::NAME, &[PreScore, Score], 1, scarce_resources::build),
    added(scheduling_hint::NAME, &[PreFilter], 0, scheduling_hint::build),
    added(marker::DEFAULT_PRE_BIND, &[PreBind], 0, marker::pre_bind),
];

const FILTER_AND_SCORE: &[Point] = &[PreFilter, Filter, PreScore, Score];

/// A plugin of Kubernetes' default set.
const fn row(name: &'static str, points: &'static [Point], weight: i64, build: Build) -> Row {
    Row { name, points, weight, is_default: true, build }
}

/// A plugin that runs where a configuration enables it.
const fn added(name: &'static str, points: &'static [Point], weight: i64, build: Build) -> Row {
    Row { is_default: false, ..row(name, points, weight, build) }
}

pub fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}
