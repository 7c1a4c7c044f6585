//! Which plugins run for a scheduler name, in which order, with which weights and args.
//!
//! This is the result of merging a configuration with the defaults: plain lists of names, one
//! for each extension point. [`Scheduler::new`](crate::Scheduler::new) turns the names into
//! plugins by the [table](crate::plugins::TABLE).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::plugins::TABLE;

/// Where plugins take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
}

impl Point {
    pub const ALL: [Self; 12] = [
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PreScore,
        Self::Score,
        Self::Reserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
    ];

    /// The key of the configuration file.
    pub fn key(self) -> &'static str {
        match self {
            Self::PreEnqueue => "preEnqueue",
            Self::QueueSort => "queueSort",
            Self::PreFilter => "preFilter",
            Self::Filter => "filter",
            Self::PostFilter => "postFilter",
            Self::PreScore => "preScore",
            Self::Score => "score",
            Self::Reserve => "reserve",
            Self::Permit => "permit",
            Self::PreBind => "preBind",
            Self::Bind => "bind",
            Self::PostBind => "postBind",
        }
    }
}

/// A plugin at a point. The weight counts at `Score` only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enabled {
    pub name: String,
    pub weight: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Pods with this scheduler name are ours.
    pub scheduler_name: String,
    pub points: BTreeMap<Point, Vec<Enabled>>,
    /// Args by plugin; an absent entry is the plugin's defaults.
    pub args: BTreeMap<String, Value>,
}

impl Profile {
    /// The default plugins of Kubernetes in their order, and nothing else.
    pub fn of_defaults(scheduler_name: &str) -> Self {
        let rows = TABLE.iter().filter(|row| row.is_default);
        Self::of(scheduler_name, rows.map(|row| row.name))
    }

    /// These plugins at every point they have, with their default weights.
    pub fn of<'a>(scheduler_name: &str, plugins: impl IntoIterator<Item = &'a str>) -> Self {
        let mut points: BTreeMap<Point, Vec<Enabled>> = BTreeMap::new();
        for row in plugins.into_iter().filter_map(crate::plugins::find) {
            for point in row.points {
                let enabled = Enabled { name: row.name.to_owned(), weight: row.weight };
                points.entry(*point).or_default().push(enabled);
            }
        }
        Self { scheduler_name: scheduler_name.to_owned(), points, args: BTreeMap::new() }
    }

    pub fn at(&self, point: Point) -> &[Enabled] {
        self.points.get(&point).map_or(&[], Vec::as_slice)
    }

    #[must_use]
    pub fn with_args(mut self, plugin: &str, args: Value) -> Self {
        self.args.insert(plugin.to_owned(), args);
        self
    }
}
