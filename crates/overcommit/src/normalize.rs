//! How much faster than the reference core is a core of this node?
//!
//! The ratio is looked up by processor model and by which of hyper-threading and turbo are on: one
//! of four numbers, without falling back from one to another. A node of twice the speed then offers
//! twice the batch milli-cores, and a batch pod gets the same work done wherever it runs.

use std::borrow::Cow;

use api::strategy::{CpuNormalizationStrategy, ModelRatios};

use crate::facts::{Processor, Switch};

/// What a ratio may be.
const ALLOWED: std::ops::RangeInclusive<f64> = 1.0..=5.0;

/// Differences up to this are not worth a write.
const TOLERANCE: f64 = 0.01;

/// What normalization came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Normalization {
    /// This ratio, as it is written: two decimals.
    Ratio { text: Cow<'static, str>, value: f64 },
    /// No ratio this time; an older one on the node stays there and is not applied.
    Kept(Trouble),
}

/// Why there is no ratio.
#[derive(Debug, Clone, PartialEq)]
pub enum Trouble {
    /// The configuration cannot be used.
    Unavailable,
    /// The node's own switch is no boolean.
    Switch,
    /// The node's agent has not said what the processor is.
    NoProcessor,
    /// Neither the model nor the default has a ratio.
    NoRatio,
    OutOfRange(f64),
}

impl Normalization {
    /// The factor for batch CPU; only a faster node changes anything.
    pub fn factor(&self) -> Option<f64> {
        match self {
            Self::Ratio { value, .. } if *value > 1.0 => Some(*value),
            _ => None,
        }
    }
}

pub fn normalize(
    own: Switch,
    strategy: Option<&CpuNormalizationStrategy>,
    processor: Option<&Processor>,
) -> Normalization {
    match ratio(own, strategy, processor) {
        // Nearly every node of nearly every cluster.
        Ok(1.0) => Normalization::Ratio { text: "1.00".into(), value: 1.0 },
        Ok(ratio) => {
            let text = format!("{ratio:.2}");
            let value = text.parse().unwrap_or(ratio);
            Normalization::Ratio { text: text.into(), value }
        }
        Err(trouble) => Normalization::Kept(trouble),
    }
}

fn ratio(
    own: Switch,
    strategy: Option<&CpuNormalizationStrategy>,
    processor: Option<&Processor>,
) -> Result<f64, Trouble> {
    let strategy = strategy.ok_or(Trouble::Unavailable)?;
    let is_on = match own {
        Switch::Set(is_on) => is_on,
        Switch::Unset => strategy.enable == Some(true),
        Switch::Unreadable => return Err(Trouble::Switch),
    };
    if !is_on {
        return Ok(1.0);
    }
    let processor = processor.ok_or(Trouble::NoProcessor)?;
    let models = strategy.ratio_model.as_ref();
    let own = models
        .and_then(|models| models.get(&*processor.model))
        .and_then(|ratios| of(ratios, processor));
    let ratio = own.or(strategy.default_ratio).ok_or(Trouble::NoRatio)?;
    if ALLOWED.contains(&ratio) { Ok(ratio) } else { Err(Trouble::OutOfRange(ratio)) }
}

fn of(ratios: &ModelRatios, processor: &Processor) -> Option<f64> {
    match (processor.has_hyper_threads, processor.has_turbo) {
        (true, true) => ratios.hyper_thread_turbo_enabled_ratio,
        (true, false) => ratios.hyper_thread_enabled_ratio,
        (false, true) => ratios.turbo_enabled_ratio,
        (false, false) => ratios.base_ratio,
    }
}

/// Must the node's annotation be written to say `new`?
pub fn differs(old: Option<&str>, new: f64) -> bool {
    match old.map(str::parse::<f64>) {
        Some(Ok(old)) if old.is_finite() => (old - new).abs() > TOLERANCE,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn strategy() -> CpuNormalizationStrategy {
        serde_json::from_value(json!({"enable": true, "ratioModel": {"fast": {
            "baseRatio": 1.5, "hyperThreadEnabledRatio": 1.0, "turboEnabledRatio": 1.8,
            "hyperThreadTurboEnabledRatio": 1.204,
        }, "partial": {"baseRatio": 1.5}, "wild": {"baseRatio": 5.01}, "slow": {"baseRatio": 0.99}}}))
        .unwrap()
    }

    fn processor(model: &str, has_hyper_threads: bool, has_turbo: bool) -> Processor {
        Processor { model: model.into(), has_hyper_threads, has_turbo }
    }

    fn text(found: &Normalization) -> &str {
        match found {
            Normalization::Ratio { text, .. } => text,
            Normalization::Kept(_) => "kept",
        }
    }

    #[test]
    fn the_exact_state_of_the_processor_chooses() {
        let cases = [
            ("fast", false, false, "1.50"),
            ("fast", true, false, "1.00"),
            ("fast", false, true, "1.80"),
            ("fast", true, true, "1.20"),
            ("partial", true, false, "kept"),
            ("unknown", false, false, "kept"),
            ("wild", false, false, "kept"),
            ("slow", false, false, "kept"),
        ];
        for (model, threads, turbo, want) in cases {
            let processor = processor(model, threads, turbo);
            let found = normalize(Switch::Unset, Some(&strategy()), Some(&processor));
            assert_eq!(text(&found), want, "{model} {threads} {turbo}");
        }
        let with_default = CpuNormalizationStrategy { default_ratio: Some(1.1), ..strategy() };
        let partial = processor("partial", true, false);
        let found = normalize(Switch::Unset, Some(&with_default), Some(&partial));
        assert_eq!((text(&found), found.factor()), ("1.10", Some(1.1)));
    }

    #[test]
    fn the_nodes_switch_counts_over_the_strategy() {
        let off = CpuNormalizationStrategy { enable: None, ..strategy() };
        let fast = processor("fast", false, false);
        let cases = [
            (Switch::Unset, Some(strategy()), "1.50"),
            (Switch::Unset, Some(off.clone()), "1.00"),
            (Switch::Set(true), Some(off), "1.50"),
            (Switch::Set(false), Some(strategy()), "1.00"),
            (Switch::Unreadable, Some(strategy()), "kept"),
            (Switch::Set(true), None, "kept"),
        ];
        for (own, strategy, want) in cases {
            let found = normalize(own, strategy.as_ref(), Some(&fast));
            assert_eq!(text(&found), want, "{own:?}");
        }
        let unknown = normalize(Switch::Unset, Some(&strategy()), None);
        assert_eq!(unknown, Normalization::Kept(Trouble::NoProcessor));
    }

    #[test]
    fn a_ratio_is_written_when_it_moved() {
        let cases = [
            (None, 1.0, true),
            (Some("1.00"), 1.0, false),
            (Some("1.20"), 1.205, false),
            (Some("1.20"), 1.22, true),
            (Some("fast"), 1.0, true),
            (Some("NaN"), 1.0, true),
        ];
        for (old, new, want) in cases {
            assert_eq!(differs(old, new), want, "{old:?} {new}");
        }
    }
}
