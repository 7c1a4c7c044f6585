//! Who trains the models? A thread of its own, because writing checkpoints waits for the disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use overcommit::predict::estimate::{self, Estimate, EstimateError, Pod};
use parking_lot::Mutex;
use qos::node::Pod as NodePod;
use units::CpuMemory;

use super::{PredictSettings, Predictor, training};
use crate::clock::Clock;
use crate::node_state::SharedNodeState;
use crate::series::Metrics;
use crate::worker::{End, Worker};

/// The models, for those who ask what they say.
#[derive(Debug, Clone)]
pub struct Prediction {
    predictor: Arc<Mutex<Predictor>>,
}

impl Prediction {
    pub fn new(predictor: Predictor) -> Self {
        Self { predictor: Arc::new(Mutex::new(predictor)) }
    }

    /// What can be lent and what is needed at most, given the pods that have samples.
    pub fn estimate<'a>(
        &self,
        allocatable: CpuMemory,
        pods: impl Iterator<Item = &'a NodePod>,
        now: Timestamp,
    ) -> Result<Estimate, EstimateError> {
        let pods = pods.map(|pod| Pod {
            uid: &pod.uid,
            class: pod.priority_class,
            started: pod.started,
            is_over: pod.is_deleting || pod.is_terminated(),
            requests: pod.requests,
        });
        estimate::estimate(&self.predictor.lock().models, allocatable, pods, now)
    }

    pub fn models(&self) -> usize {
        self.predictor.lock().models.len()
    }
}

/// Trains until it is stopped.
#[derive(Debug)]
pub struct PredictThread(Worker);

impl PredictThread {
    /// Starts training. Models come back from disk as soon as the node has pods, because only then
    /// is it known which checkpoints still belong to somebody.
    pub fn start(
        settings: PredictSettings,
        metrics: Metrics,
        state: SharedNodeState,
        clock: Clock,
    ) -> io::Result<(Self, Prediction)> {
        let prediction = Prediction::new(Predictor::new(settings.clone()));
        let trainer = Trainer {
            interval: settings.training_interval,
            metrics,
            state,
            clock,
            prediction: prediction.clone(),
            is_restored: false,
        };
        let worker = Worker::start("predict", move |stop| trainer.run(stop))?;
        Ok((Self(worker), prediction))
    }

    /// Says when the thread has ended.
    pub(crate) fn end(&mut self) -> Option<End> {
        self.0.end()
    }

    /// Stops after writing all models to disk.
    pub fn stop(self) {
        drop(self.0);
    }
}

struct Trainer {
    interval: Duration,
    metrics: Metrics,
    state: SharedNodeState,
    clock: Clock,
    prediction: Prediction,
    is_restored: bool,
}

impl Trainer {
    fn run(mut self, stop: &AtomicBool) {
        let mut due = self.clock.now() + self.interval;
        while !stop.load(Ordering::Acquire) {
            let now = self.clock.now();
            if now < due {
                thread::park_timeout(due - now);
                continue;
            }
            due = now + self.interval;
            self.step(now, Timestamp::now());
        }
        self.prediction.predictor.lock().checkpoint_all(Timestamp::now());
    }

    fn step(&mut self, now: Duration, wall: Timestamp) {
        let state = self.state.load();
        let mut predictor = self.prediction.predictor.lock();
        if !self.is_restored && !state.pods.is_empty() {
            predictor.restore(&state, wall);
            self.is_restored = true;
        }
        let training = training(&self.metrics, &state, now, self.interval);
        predictor.models.train(&training, wall);
        predictor.forget(wall);
        let due = self.is_restored.then(|| predictor.take_due(wall));
        // Writing waits for the disk; whoever asks for an estimate must not.
        drop(predictor);
        if let Some(due) = due {
            due.write();
        }
    }
}
