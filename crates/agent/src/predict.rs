//! How much will online pods need, and how much of what they asked for could be lent?
//!
//! Once a minute each pod's usage (the 90th percentile of that minute) goes into a decaying histogram
//! of its own, and the sums by priority class, the whole node and the rest of the node (`sys`) into
//! further ones. The histograms are written to disk, so that a restart does not forget what a day has
//! taught; see [`checkpoint`]. What follows from them is in [`estimate`].
//!
//! ```text
//! every minute   train          all pods, all classes, the node, sys
//!                checkpoint     at most 12 models, the longest unwritten first, each every 10 min
//!                forget         models without samples for 30 min, with their files
//! ```

pub mod checkpoint;
pub mod estimate;
mod thread;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use api::priority::PriorityClass;
use jiff::Timestamp;
use stats::{Buckets, DecayingHistogram};
use tracing::{debug, warn};

use self::checkpoint::CheckpointDir;
pub use self::estimate::{Estimate, EstimateError};
pub use self::thread::{PredictThread, Prediction};
use crate::series::{Measure, Metrics, Subject};
use crate::view::{Amounts, PodView, World};

/// The flags of the predictor.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictSettings {
    /// `--prediction-checkpoint-filepath`; `None` keeps models in memory only.
    pub checkpoint_dir: Option<PathBuf>,
    /// `--prediction-cold-start-duration`: younger pods are expected to need all they asked for.
    pub cold_start: Duration,
    /// `--prediction-safety-margin-percent`.
    pub safety_margin_percent: u32,
    /// `--prediction-cpu-histogram-decay-halflife`.
    pub cpu_half_life: Duration,
    /// `--prediction-memory-histogram-decay-halflife`.
    pub memory_half_life: Duration,
    /// `--prediction-training-interval`.
    pub training_interval: Duration,
    /// `--prediction-model-expiration-duration`.
    pub expiration: Duration,
    /// `--prediction-model-checkpoint-interval`.
    pub checkpoint_interval: Duration,
    /// `--prediction-model-checkpoint-max-per-step`.
    pub checkpoints_per_step: usize,
}

impl Default for PredictSettings {
    fn default() -> Self {
        Self {
            checkpoint_dir: None,
            cold_start: Duration::from_secs(24 * 3600),
            safety_margin_percent: 10,
            cpu_half_life: Duration::from_secs(12 * 3600),
            memory_half_life: Duration::from_secs(24 * 3600),
            training_interval: Duration::from_secs(60),
            expiration: Duration::from_secs(30 * 60),
            checkpoint_interval: Duration::from_secs(10 * 60),
            checkpoints_per_step: 12,
        }
    }
}

/// Whose usage a model describes. The text is the name of its checkpoint file.
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

    fn file_name(&self) -> String {
        match self {
            Self::Node => "__node__".to_owned(),
            Self::System => "__node-sys__".to_owned(),
            Self::Class(class) => format!("__node-{}__", class.map_or("", PriorityClass::as_str)),
            Self::Pod(uid) => uid.clone(),
        }
    }

    /// The key of a checkpoint file; `None` for a name no model can have.
    fn from_file_name(name: &str) -> Option<Self> {
        if let Some(key) = Self::of_every_node().find(|key| key.file_name() == name) {
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
    pub(crate) cpu: DecayingHistogram,
    /// Bytes.
    pub(crate) memory: DecayingHistogram,
    pub(crate) updated: Timestamp,
    /// When the model was last written to disk.
    written: Option<Timestamp>,
}

impl Model {
    fn new(settings: &PredictSettings, now: Timestamp) -> Self {
        Self {
            cpu: DecayingHistogram::new(Buckets::cpu(), settings.cpu_half_life),
            memory: DecayingHistogram::new(Buckets::memory(), settings.memory_half_life),
            updated: now,
            written: None,
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

/// What was used in one training interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Training {
    pub node: Option<Usage>,
    pub pods: Vec<(String, PriorityClass, Usage)>,
}

impl Training {
    /// What `metrics` say about the pods of `world` in the interval that ends at `now`. A pod needs
    /// both CPU and memory to count.
    pub fn from_metrics(
        metrics: &Metrics,
        world: &World,
        now: Duration,
        interval: Duration,
    ) -> Self {
        let usage = |subject| {
            let p90 = |measure| Some(metrics.summary(subject, measure, now, interval)?.p90);
            Some(Usage { cpu: p90(Measure::Cpu)?, memory: p90(Measure::Memory)? })
        };
        let pods = world.pods.iter().filter_map(|pod| {
            Some((pod.uid.clone(), pod.priority, usage(Subject::Pod(&pod.uid))?))
        });
        Self { node: usage(Subject::Node), pods: pods.collect() }
    }
}

/// Models on their way to disk.
#[derive(Debug)]
pub(crate) struct Unwritten {
    dir: Option<CheckpointDir>,
    models: Vec<(String, Model)>,
}

impl Unwritten {
    /// Writes them; what cannot be written is lost until the next time.
    pub(crate) fn write(self) {
        let Some(dir) = &self.dir else { return };
        for (name, model) in &self.models {
            if let Err(error) = dir.write(name, model) {
                warn!(%error, model = name, "cannot write a prediction checkpoint");
            }
        }
    }
}

/// All models of the node.
#[derive(Debug)]
pub struct Predictor {
    settings: PredictSettings,
    models: BTreeMap<ModelKey, Model>,
    dir: Option<CheckpointDir>,
}

impl Predictor {
    pub fn new(settings: PredictSettings) -> Self {
        let dir = settings.checkpoint_dir.clone().map(CheckpointDir::new);
        Self { settings, models: BTreeMap::new(), dir }
    }

    pub fn models(&self) -> usize {
        self.models.len()
    }

    /// Takes models back from disk. Files of pods that are not in `world`, files that cannot be read
    /// and those too old to mean anything are removed.
    pub fn restore(&mut self, world: &World, now: Timestamp) {
        let Some(dir) = &self.dir else { return };
        let known: BTreeSet<&str> = world.pods.iter().map(|pod| pod.uid.as_str()).collect();
        let names = match dir.names() {
            Ok(names) => names,
            Err(error) => {
                warn!(%error, "cannot list prediction checkpoints; starting without history");
                return;
            }
        };
        let half_life = self.settings.cpu_half_life.min(self.settings.memory_half_life);
        for name in names {
            let model = ModelKey::from_file_name(&name)
                .filter(|key| !matches!(key, ModelKey::Pod(uid) if !known.contains(uid.as_str())))
                .and_then(|key| Some((key, self.load(dir, &name, now, half_life * 2)?)));
            match model {
                Some((key, model)) => {
                    self.models.insert(key, model);
                }
                None => dir.remove(&name),
            }
        }
    }

    fn load(
        &self,
        dir: &CheckpointDir,
        name: &str,
        now: Timestamp,
        oldest: Duration,
    ) -> Option<Model> {
        let mut model = Model::new(&self.settings, now);
        if let Err(error) = dir.read(name, &mut model) {
            warn!(%error, model = name, "ignoring a prediction checkpoint");
            return None;
        }
        let age = age(model.updated, now);
        if age > oldest {
            debug!(model = name, age_s = age.as_secs(), "a prediction checkpoint is too old");
            return None;
        }
        model.written = Some(model.updated);
        model.updated = now;
        Some(model)
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

    /// Forgets models without samples for a while, together with their files.
    pub fn forget(&mut self, now: Timestamp) {
        let expiration = self.settings.expiration;
        let dir = self.dir.as_ref();
        self.models.retain(|key, model| {
            let keep = age(model.updated, now) <= expiration;
            if !keep && let Some(dir) = dir {
                dir.remove(&key.file_name());
            }
            keep
        });
    }

    /// Writes the models that have been unwritten for longest.
    pub fn checkpoint(&mut self, now: Timestamp) {
        self.take_due(now).write();
    }

    /// Writes all models that changed since they were written; for the end of the process.
    pub fn checkpoint_all(&mut self, now: Timestamp) {
        self.take(now, usize::MAX, |_| true).write();
    }

    /// Copies of the models that have been unwritten for longest, so that writing them keeps nobody
    /// waiting. They are not due again before the next interval, even if writing fails.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Unwritten {
        let interval = self.settings.checkpoint_interval;
        self.take(now, self.settings.checkpoints_per_step, |written| {
            written.is_none_or(|written| age(written, now) >= interval)
        })
    }

    fn take(
        &mut self,
        now: Timestamp,
        most: usize,
        is_due: impl Fn(Option<Timestamp>) -> bool,
    ) -> Unwritten {
        let mut due: Vec<(&ModelKey, &mut Model)> = self
            .models
            .iter_mut()
            .filter(|(_, model)| is_due(model.written) && model.written != Some(model.updated))
            .collect();
        due.sort_by_key(|(_, model)| model.written);
        let taken = due.into_iter().take(most).map(|(key, model)| {
            model.written = Some(now);
            (key.file_name(), model.clone())
        });
        let models = taken.collect();
        Unwritten { dir: self.dir.clone(), models }
    }

    /// What can be lent and what is needed at most, given the pods that have samples.
    pub fn estimate<'a>(
        &self,
        allocatable: Amounts,
        pods: impl Iterator<Item = &'a PodView>,
        now: Timestamp,
    ) -> Result<Estimate, EstimateError> {
        estimate::estimate(&self.models, &self.settings, allocatable, pods, now)
    }
}

/// Time from `then` to `now`; zero when the wall clock was set back.
fn age(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests;
