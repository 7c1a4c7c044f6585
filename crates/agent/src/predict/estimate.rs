//! What do the models say about online pods?
//!
//! Two predictors answer, and the more careful answer of each kind is reported:
//!
//! ```text
//! m            = 1 + safety margin
//! by pod       peak    = sum of (p95 cpu, p98 memory) * m over warm pods
//!              lent    = min(allocatable - peak, sum of max(request - peak, 0))
//!              needed  = peak + requests of pods that are too young or have no model
//! by class     peak    = (sys + prod + none: p95 cpu, p98 memory) * m
//!              lent    = min(allocatable - peak, sum of requests - peak)
//!              needed  = peak
//!
//! reclaimable  = min of both lent          peak = max of both needed          each per resource
//! ```
//!
//! Only pods of the prod class, or of none, take part. Percentiles are cut to whole milli-cores and
//! bytes before the margin is applied and cut again after it, because consumers compare these numbers
//! with the reference's.

use std::collections::BTreeMap;

use api::priority::PriorityClass;
use jiff::Timestamp;
use units::{Bytes, MilliCpu};

use super::{Model, ModelKey, PredictSettings, age};
use crate::view::{Amounts, PodView};

/// What online pods leave and need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// What online pods asked for and are not expected to need.
    pub reclaimable: Amounts,
    /// What online pods and the system are expected to need at most.
    pub peak: Amounts,
}

/// Why nothing can be said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    #[error("there is no model of {what} yet")]
    NoModel { what: &'static str },
}

const CPU_PERCENTILE: f64 = 0.95;
const MEMORY_PERCENTILE: f64 = 0.98;

/// The sums of the predictor that looks at each pod.
#[derive(Debug, Default)]
struct ByPod {
    peak: Amounts,
    reclaimable: Amounts,
    unpredicted: Amounts,
}

pub(super) fn estimate<'a>(
    models: &BTreeMap<ModelKey, Model>,
    settings: &PredictSettings,
    allocatable: Amounts,
    pods: impl Iterator<Item = &'a PodView>,
    now: Timestamp,
) -> Result<Estimate, EstimateError> {
    let margin = f64::from(100 + settings.safety_margin_percent) / 100.0;
    let mut by_pod = ByPod::default();
    let mut requests = Amounts::default();
    for pod in pods.filter(|pod| pod.priority == PriorityClass::Prod) {
        let is_over = pod.is_deleting || pod.is_terminated();
        let is_cold = pod.started.is_none_or(|started| age(started, now) <= settings.cold_start);
        let model = models.get(&ModelKey::Pod(pod.uid.clone()));
        let is_counted = match model {
            _ if is_cold => {
                by_pod.unpredicted = plus(by_pod.unpredicted, pod.requests);
                true
            }
            _ if is_over => false,
            None => {
                by_pod.unpredicted = plus(by_pod.unpredicted, pod.requests);
                false
            }
            Some(model) => {
                let peak = with_margin(predicted(model), margin);
                by_pod.peak = plus(by_pod.peak, peak);
                by_pod.reclaimable = plus(by_pod.reclaimable, minus(pod.requests, peak));
                true
            }
        };
        if is_counted && !is_over {
            requests = plus(requests, pod.requests);
        }
    }
    let class_peak = with_margin(class_sum(models)?, margin);
    let lent_by_pod = least(minus(allocatable, by_pod.peak), by_pod.reclaimable);
    let lent_by_class = least(minus(allocatable, class_peak), minus(requests, class_peak));
    Ok(Estimate {
        reclaimable: least(lent_by_pod, lent_by_class),
        peak: most(plus(by_pod.peak, by_pod.unpredicted), class_peak),
    })
}

/// What the system and online pods together are expected to need.
fn class_sum(models: &BTreeMap<ModelKey, Model>) -> Result<Amounts, EstimateError> {
    let wanted = [
        (ModelKey::System, "the system"),
        (ModelKey::Class(Some(PriorityClass::Prod)), "prod pods"),
        (ModelKey::Class(None), "pods without a class"),
    ];
    let mut sum = Amounts::default();
    for (key, what) in wanted {
        let model = models.get(&key).ok_or(EstimateError::NoModel { what })?;
        sum = plus(sum, predicted(model));
    }
    Ok(sum)
}

/// A model's percentiles, cut to whole milli-cores and bytes.
#[expect(clippy::cast_possible_truncation, reason = "cutting is the rule, and casts saturate")]
fn predicted(model: &Model) -> Amounts {
    Amounts {
        cpu: MilliCpu((model.cpu.percentile(CPU_PERCENTILE) * 1000.0) as i64),
        memory: Bytes(model.memory.percentile(MEMORY_PERCENTILE) as i64),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the margin is defined on floats and cut"
)]
fn with_margin(amounts: Amounts, margin: f64) -> Amounts {
    Amounts {
        cpu: MilliCpu((amounts.cpu.0 as f64 * margin) as i64),
        memory: Bytes((amounts.memory.0 as f64 * margin) as i64),
    }
}

fn plus(a: Amounts, b: Amounts) -> Amounts {
    Amounts { cpu: a.cpu + b.cpu, memory: a.memory + b.memory }
}

/// `a - b`, never below zero.
fn minus(a: Amounts, b: Amounts) -> Amounts {
    Amounts { cpu: (a.cpu - b.cpu).max(MilliCpu(0)), memory: (a.memory - b.memory).max(Bytes(0)) }
}

fn least(a: Amounts, b: Amounts) -> Amounts {
    Amounts { cpu: a.cpu.min(b.cpu), memory: a.memory.min(b.memory) }
}

fn most(a: Amounts, b: Amounts) -> Amounts {
    Amounts { cpu: a.cpu.max(b.cpu), memory: a.memory.max(b.memory) }
}
