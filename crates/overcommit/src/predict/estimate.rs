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

use api::priority::PriorityClass;
use jiff::Timestamp;
use units::{Bytes, CpuMemory, MilliCpu};

use super::{Model, ModelKey, Models, age};

/// One pod, as far as an estimate looks at the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod<'p> {
    pub uid: &'p str,
    pub class: PriorityClass,
    /// When the pod started, or was created if it has not.
    pub started: Option<Timestamp>,
    /// The pod is being deleted, or all of its containers have ended.
    pub is_over: bool,
    /// Native CPU and memory.
    pub requests: CpuMemory,
}

/// What online pods leave and need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// What online pods asked for and are not expected to need.
    pub reclaimable: CpuMemory,
    /// What online pods and the system are expected to need at most.
    pub peak: CpuMemory,
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
    peak: CpuMemory,
    reclaimable: CpuMemory,
    unpredicted: CpuMemory,
}

/// What can be lent and what is needed at most, given the pods that have samples.
pub fn estimate<'p>(
    models: &Models,
    allocatable: CpuMemory,
    pods: impl Iterator<Item = Pod<'p>>,
    now: Timestamp,
) -> Result<Estimate, EstimateError> {
    let settings = models.settings();
    let margin = f64::from(100 + settings.safety_margin_percent) / 100.0;
    let mut by_pod = ByPod::default();
    let mut requests = CpuMemory::default();
    for pod in pods.filter(|pod| pod.class == PriorityClass::Prod) {
        let is_cold = pod.started.is_none_or(|started| age(started, now) <= settings.cold_start);
        let model = models.get(&ModelKey::Pod(pod.uid.to_owned()));
        let is_counted = match model {
            _ if is_cold => {
                by_pod.unpredicted = by_pod.unpredicted + pod.requests;
                true
            }
            _ if pod.is_over => false,
            None => {
                by_pod.unpredicted = by_pod.unpredicted + pod.requests;
                false
            }
            Some(model) => {
                let peak = with_margin(predicted(model), margin);
                by_pod.peak = by_pod.peak + peak;
                by_pod.reclaimable = by_pod.reclaimable + pod.requests.less(peak);
                true
            }
        };
        if is_counted && !pod.is_over {
            requests = requests + pod.requests;
        }
    }
    let class_peak = with_margin(class_sum(models)?, margin);
    let lent_by_pod = allocatable.less(by_pod.peak).min(by_pod.reclaimable);
    let lent_by_class = allocatable.less(class_peak).min(requests.less(class_peak));
    Ok(Estimate {
        reclaimable: lent_by_pod.min(lent_by_class),
        peak: (by_pod.peak + by_pod.unpredicted).max(class_peak),
    })
}

/// What the system and online pods together are expected to need.
fn class_sum(models: &Models) -> Result<CpuMemory, EstimateError> {
    let wanted = [
        (ModelKey::System, "the system"),
        (ModelKey::Class(Some(PriorityClass::Prod)), "prod pods"),
        (ModelKey::Class(None), "pods without a class"),
    ];
    let mut sum = CpuMemory::default();
    for (key, what) in wanted {
        let model = models.get(&key).ok_or(EstimateError::NoModel { what })?;
        sum = sum + predicted(model);
    }
    Ok(sum)
}

/// A model's percentiles, cut to whole milli-cores and bytes.
#[expect(clippy::cast_possible_truncation, reason = "cutting is the rule, and casts saturate")]
fn predicted(model: &Model) -> CpuMemory {
    CpuMemory {
        cpu: MilliCpu((model.cpu.percentile(CPU_PERCENTILE) * 1000.0) as i64),
        memory: Bytes(model.memory.percentile(MEMORY_PERCENTILE) as i64),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the margin is defined on floats and cut"
)]
fn with_margin(amounts: CpuMemory, margin: f64) -> CpuMemory {
    CpuMemory {
        cpu: MilliCpu((amounts.cpu.0 as f64 * margin) as i64),
        memory: Bytes((amounts.memory.0 as f64 * margin) as i64),
    }
}
