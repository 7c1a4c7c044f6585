//! All plugins: one row each.
//!
//! The order of the rows is the order in which default plugins run. [`crate::plugin`] says how
//! to add one.

mod domains;
mod inter_pod;
mod spread;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::plugin::Plugin;
use crate::profile::Point;
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
    pub build: fn(&Value, &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError>,
}

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

pub const TABLE: &[Row] = &[
    Row {
        name: spread::NAME,
        points: &[Point::PreFilter, Point::Filter, Point::PreScore, Point::Score],
        weight: 2,
        is_default: true,
        build: spread::build,
    },
    Row {
        name: inter_pod::NAME,
        points: &[Point::PreFilter, Point::Filter, Point::PreScore, Point::Score],
        weight: 2,
        is_default: true,
        build: inter_pod::build,
    },
];

pub fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}
