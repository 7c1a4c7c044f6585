//! Who trains the models of [`overcommit::predict`], and how do they survive a restart?
//!
//! ```text
//! every minute   train          all pods, all classes, the node, sys
//!                checkpoint     at most 12 models, the longest unwritten first, each every 10 min
//!                forget         models without samples for 30 min, with their files
//! ```

pub mod checkpoint;
mod thread;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use overcommit::predict::{Model, ModelKey, Models, Training, Usage, age};
use tracing::{debug, warn};

use self::checkpoint::CheckpointDir;
pub use self::thread::{PredictThread, Prediction};
use crate::series::{Measure, Metrics, Subject};
use qos::node::NodeState;

/// The flags of the predictor.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictSettings {
    pub models: overcommit::predict::Settings,
    /// `--prediction-checkpoint-filepath`; `None` keeps models in memory only.
    pub checkpoint_dir: Option<PathBuf>,
    /// `--prediction-training-interval`.
    pub training_interval: Duration,
    /// `--prediction-model-checkpoint-interval`.
    pub checkpoint_interval: Duration,
    /// `--prediction-model-checkpoint-max-per-step`.
    pub checkpoints_per_step: usize,
}

impl Default for PredictSettings {
    fn default() -> Self {
        Self {
            models: overcommit::predict::Settings::default(),
            checkpoint_dir: None,
            training_interval: Duration::from_secs(60),
            checkpoint_interval: Duration::from_secs(10 * 60),
            checkpoints_per_step: 12,
        }
    }
}

/// What `metrics` say about the pods of `state` in the interval that ends at `now`.
fn training(metrics: &Metrics, state: &NodeState, now: Duration, interval: Duration) -> Training {
    let usage = |subject| {
        let p90 = |measure| Some(metrics.summary(subject, measure, now, interval)?.p90);
        Some(Usage { cpu: p90(Measure::Cpu)?, memory: p90(Measure::Memory)? })
    };
    let pods = state.pods.values().filter_map(|pod| {
        Some((pod.uid.clone(), pod.priority_class, usage(Subject::Pod(&pod.uid))?))
    });
    Training { node: usage(Subject::Node), pods: pods.collect() }
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

/// The models of the node, and which of them are on disk.
#[derive(Debug)]
pub struct Predictor {
    settings: PredictSettings,
    pub models: Models,
    dir: Option<CheckpointDir>,
    /// When each model was last written.
    written: BTreeMap<ModelKey, Timestamp>,
}

impl Predictor {
    pub fn new(settings: PredictSettings) -> Self {
        let dir = settings.checkpoint_dir.clone().map(CheckpointDir::new);
        let models = Models::new(settings.models.clone());
        Self { settings, models, dir, written: BTreeMap::new() }
    }

    /// Takes models back from disk. Files of pods that are not in `state`, files that cannot be read
    /// and those too old to mean anything are removed.
    pub fn restore(&mut self, state: &NodeState, now: Timestamp) {
        let Some(dir) = self.dir.clone() else { return };
        let known: BTreeSet<&str> = state.pods.keys().map(String::as_str).collect();
        let names = match dir.names() {
            Ok(names) => names,
            Err(error) => {
                warn!(%error, "cannot list prediction checkpoints; starting without history");
                return;
            }
        };
        for name in names {
            let key = ModelKey::from_name(&name)
                .filter(|key| !matches!(key, ModelKey::Pod(uid) if !known.contains(uid.as_str())));
            let is_used = key.is_some_and(|key| self.load(&dir, &name, key, now));
            if !is_used {
                dir.remove(&name);
            }
        }
    }

    /// Whether the file had a model that still means something.
    fn load(&mut self, dir: &CheckpointDir, name: &str, key: ModelKey, now: Timestamp) -> bool {
        let mut model = Model::new(&self.settings.models, now);
        if let Err(error) = dir.read(name, &mut model) {
            warn!(%error, model = name, "ignoring a prediction checkpoint");
            return false;
        }
        let written = model.updated;
        let is_used = self.models.restore(key.clone(), model, now);
        if is_used {
            self.written.insert(key, written);
        } else {
            let age_s = age(written, now).as_secs();
            debug!(model = name, age_s, "a prediction checkpoint is too old");
        }
        is_used
    }

    /// Forgets models without samples for a while, together with their files.
    pub fn forget(&mut self, now: Timestamp) {
        for key in self.models.forget(now) {
            self.written.remove(&key);
            if let Some(dir) = &self.dir {
                dir.remove(&key.name());
            }
        }
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
        let written = |key: &ModelKey| self.written.get(key).copied();
        let mut due: Vec<(&ModelKey, &Model)> = self
            .models
            .iter()
            .filter(|(key, model)| is_due(written(key)) && written(key) != Some(model.updated))
            .collect();
        due.sort_by_key(|(key, _)| written(key));
        due.truncate(most);
        let models = due.iter().map(|(key, model)| (key.name(), (*model).clone())).collect();
        let keys: Vec<ModelKey> = due.into_iter().map(|(key, _)| key.clone()).collect();
        self.written.extend(keys.into_iter().map(|key| (key, now)));
        Unwritten { dir: self.dir.clone(), models }
    }
}

#[cfg(test)]
mod tests;
