//! How much will online pods need, and how much of what they requested could be lent?
//!
//! Once a minute each pod's usage (the 90th percentile of that minute) goes into a decaying histogram
//! of its own, and the sums by priority class, the whole node and the rest of the node (`sys`) into
//! further ones. What follows from the histograms is in [`mod@estimate`].
//!
//! ```text
//! every minute   train     all pods, all classes, the node, sys
//!                forget    models without samples for 30 min
//! ```
//!
//! Time is an argument. Whoever keeps models on disk reads and writes them through [`Models::get`] and
//! [`Models::restore`].

pub mod estimate;

use std::collections::BTreeMap;
use std::time::Duration;

use api::priority::PriorityClass;
use jiff::Timestamp;
use stats::{Buckets, DecayingHistogram};

pub use self::estimate::{Estimate, EstimateError, Pod};

/// What operators may turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `--prediction-cold-start-duration`: younger pods are expected to need all they requested.
    pub cold_start: Duration,
    /// `--prediction-safety-margin-percent`.
    pub safety_margin_percent: u32,
    /// `--prediction-cpu-histogram-decay-halflife`.
    pub cpu_half_life: Duration,
    /// `--prediction-memory-histogram-decay-halflife`.
    pub memory_half_life: Duration,
    /// `--prediction-model-expiration-duration`.
    pub expiration: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cold_start: Duration::from_secs(24 * 3600),
            safety_margin_percent: 10,
            cpu_half_life: Duration::from_secs(12 * 3600),
            memory_half_life: Duration::from_secs(24 * 3600),
            expiration: Duration::from_secs(30 * 60),
        }
    }
}

/// Whose usage a model describes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelKey {
    Node,
    /// The node without its pods.
    System,
    /// All pods of a priority class, or of none.
    Class(Option<PriorityClass>),
    /// A pod, by uid.
    Pod(String),
}

impl ModelKey {
    /// The models every node has.
    fn of_every_node() -> impl Iterator<Item = Self> {
        let classes = PriorityClass::ALL.iter().copied().map(Some).chain([None]);
        [Self::Node, Self::System].into_iter().chain(classes.map(Self::Class))
    }

    /// The reference's name of the model, which is that of its checkpoint file.
    pub fn name(&self) -> String {
        match self {
            Self::Node => "__node__".to_owned(),
            Self::System => "__node-sys__".to_owned(),
            Self::Class(class) => format!("__node-{}__", class.map_or("", PriorityClass::as_str)),
            Self::Pod(uid) => uid.clone(),
        }
    }

    /// The key of a name; `None` for a name no model can have.
    pub fn from_name(name: &str) -> Option<Self> {
        if let Some(key) = Self::of_every_node().find(|key| key.name() == name) {
            return Some(key);
        }
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (is_plain && !name.is_empty()).then(|| Self::Pod(name.to_owned()))
    }
}

/// What is usual for one subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Cores.
    pub cpu: DecayingHistogram,
    /// Bytes.
    pub memory: DecayingHistogram,
    pub updated: Timestamp,
}

impl Model {
    /// A model without samples.
    pub fn new(settings: &Settings, now: Timestamp) -> Self {
        Self {
            cpu: DecayingHistogram::new(Buckets::cpu(), settings.cpu_half_life),
            memory: DecayingHistogram::new(Buckets::memory(), settings.memory_half_life),
            updated: now,
        }
    }
}

/// What one subject used in one training interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Cores.
    pub cpu: f64,
    /// Bytes.
    pub memory: f64,
}

impl Usage {
    fn add(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, memory: self.memory + other.memory }
    }

    fn rest(self, used: Self) -> Self {
        Self { cpu: (self.cpu - used.cpu).max(0.0), memory: (self.memory - used.memory).max(0.0) }
    }
}

/// What was used in one training interval. A pod needs both CPU and memory to count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Training {
    pub node: Option<Usage>,
    pub pods: Vec<(String, PriorityClass, Usage)>,
}

/// All models of one node.
#[derive(Debug)]
pub struct Models {
    settings: Settings,
    models: BTreeMap<ModelKey, Model>,
}

impl Models {
    pub fn new(settings: Settings) -> Self {
        Self { settings, models: BTreeMap::new() }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn len(&self) -> usize {
        self.models.len()
    }

    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ModelKey, &Model)> {
        self.models.iter()
    }

    pub fn get(&self, key: &ModelKey) -> Option<&Model> {
        self.models.get(key)
    }

    /// Takes back a model that was saved; `false` when the model is older than two half-lives and says
    /// nothing any more.
    pub fn restore(&mut self, key: ModelKey, mut model: Model, now: Timestamp) -> bool {
        let half_life = self.settings.cpu_half_life.min(self.settings.memory_half_life);
        if age(model.updated, now) > half_life * 2 {
            return false;
        }
        model.updated = now;
        self.models.insert(key, model);
        true
    }

    /// Adds what was used in the last interval to all models. Without a sample of the node nothing is
    /// said about the system.
    pub fn train(&mut self, training: &Training, now: Timestamp) {
        let mut classes: BTreeMap<Option<PriorityClass>, Usage> =
            PriorityClass::ALL.iter().map(|class| (Some(*class), Usage::default())).collect();
        classes.insert(None, Usage::default());
        let mut pods = Usage::default();
        for (uid, class, usage) in &training.pods {
            pods = pods.add(*usage);
            if let Some(sum) = classes.get_mut(&Some(*class)) {
                *sum = sum.add(*usage);
            }
            self.add(ModelKey::Pod(uid.clone()), *usage, now);
        }
        for (class, usage) in classes {
            self.add(ModelKey::Class(class), usage, now);
        }
        if let Some(node) = training.node {
            self.add(ModelKey::Node, node, now);
            self.add(ModelKey::System, node.rest(pods), now);
        }
    }

    fn add(&mut self, key: ModelKey, usage: Usage, now: Timestamp) {
        let settings = &self.settings;
        let model = self.models.entry(key).or_insert_with(|| Model::new(settings, now));
        model.cpu.add(usage.cpu, now.as_nanosecond());
        model.memory.add(usage.memory, now.as_nanosecond());
        model.updated = now;
    }

    /// Forgets models without samples for a while; whose models these were.
    pub fn forget(&mut self, now: Timestamp) -> Vec<ModelKey> {
        let expiration = self.settings.expiration;
        let expired = self.models.extract_if(.., |_, model| age(model.updated, now) > expiration);
        expired.map(|(key, _)| key).collect()
    }
}

/// Time from `then` to `now`; zero when the wall clock was set back.
pub fn age(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests;
