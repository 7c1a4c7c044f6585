//! By how much is a node's allocatable multiplied before pods are placed?
//!
//! The configured ratios, with CPU multiplied once more by the normalization ratio that stands on
//! the node, one round behind the one that is being computed. The node webhook does the
//! multiplication; here only the annotation is decided.

use std::fmt::Write;

use api::protocol::resource::CPU;
use api::strategy::ResourceAmplificationStrategy;

/// What amplification came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Amplification {
    /// The annotation's text; `None` takes it away.
    Wanted(Option<String>),
    /// An older annotation stays.
    Kept(Trouble),
}

/// Why nothing could be decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Trouble {
    /// The configuration cannot be used.
    Unavailable,
    /// The normalization ratio on the node is no positive number.
    BadRatio,
    /// A ratio below one would take resources away.
    Shrinks(f64),
}

pub fn amplify(
    strategy: Option<&ResourceAmplificationStrategy>,
    normalization: Option<&str>,
) -> Amplification {
    match ratios(strategy, normalization) {
        Ok(text) => Amplification::Wanted(text),
        Err(trouble) => Amplification::Kept(trouble),
    }
}

fn ratios(
    strategy: Option<&ResourceAmplificationStrategy>,
    normalization: Option<&str>,
) -> Result<Option<String>, Trouble> {
    let strategy = strategy.ok_or(Trouble::Unavailable)?;
    let configured =
        strategy.resource_amplification_ratio.as_ref().filter(|_| strategy.enable == Some(true));
    let faster = match normalization.map(str::parse::<f64>) {
        None => 1.0,
        Some(Ok(ratio)) if ratio > 0.0 && ratio.is_finite() => ratio,
        Some(_) => return Err(Trouble::BadRatio),
    };
    let own = configured.and_then(|ratios| ratios.get(CPU)).copied();
    let product = own.filter(|ratio| *ratio > 0.0).unwrap_or(1.0) * faster;
    let cpu = if product > 1.0 { Some(product) } else { own };
    let others = configured.into_iter().flatten().filter(|(name, _)| *name != CPU);
    let mut all: Vec<(&str, f64)> = others.map(|(name, ratio)| (name.as_str(), *ratio)).collect();
    all.extend(cpu.map(|ratio| (CPU, ratio)));
    all.sort_unstable_by_key(|(name, _)| *name);
    // Written so that NaN is refused, too.
    if let Some((_, ratio)) = all.iter().find(|(_, ratio)| !(*ratio >= 1.0)) {
        return Err(Trouble::Shrinks(*ratio));
    }
    Ok((!all.is_empty()).then(|| print(&all)))
}

fn print(ratios: &[(&str, f64)]) -> String {
    let mut text = String::from("{");
    for (index, (name, ratio)) in ratios.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let name = serde_json::Value::from(*name);
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{name}:{ratio:.2}");
    }
    text + "}"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn strategy(enable: bool, ratios: serde_json::Value) -> ResourceAmplificationStrategy {
        serde_json::from_value(json!({"enable": enable, "resourceAmplificationRatio": ratios}))
            .unwrap()
    }

    #[test]
    fn the_annotation_follows_both_ratios() {
        use Amplification::{Kept, Wanted};
        let text = |text: &str| Wanted(Some(text.to_owned()));
        let cases = [
            ("off", strategy(false, json!({"cpu": 2})), None, Wanted(None)),
            ("nothing configured", strategy(true, json!({})), None, Wanted(None)),
            ("cpu", strategy(true, json!({"cpu": 1.5})), None, text(r#"{"cpu":1.50}"#)),
            ("one stays", strategy(true, json!({"cpu": 1})), None, text(r#"{"cpu":1.00}"#)),
            (
                "sorted",
                strategy(true, json!({"memory": 1.25, "cpu": 1.5})),
                None,
                text(r#"{"cpu":1.50,"memory":1.25}"#),
            ),
            (
                "multiplied",
                strategy(true, json!({"cpu": 1.5})),
                Some("1.20"),
                text(r#"{"cpu":1.80}"#),
            ),
            (
                "normalization alone",
                strategy(false, json!({})),
                Some("1.20"),
                text(r#"{"cpu":1.20}"#),
            ),
            ("normalization of one", strategy(false, json!({})), Some("1.00"), Wanted(None)),
            (
                "zero counts as one",
                strategy(true, json!({"cpu": 0})),
                Some("2"),
                text(r#"{"cpu":2.00}"#),
            ),
            (
                "zero alone shrinks",
                strategy(true, json!({"cpu": 0})),
                None,
                Kept(Trouble::Shrinks(0.0)),
            ),
            (
                "below one",
                strategy(true, json!({"memory": 0.5})),
                None,
                Kept(Trouble::Shrinks(0.5)),
            ),
            ("bad ratio", strategy(false, json!({})), Some("x"), Kept(Trouble::BadRatio)),
            ("negative ratio", strategy(false, json!({})), Some("-1"), Kept(Trouble::BadRatio)),
        ];
        for (name, strategy, normalization, want) in cases {
            assert_eq!(amplify(Some(&strategy), normalization), want, "{name}");
        }
        assert_eq!(amplify(None, None), Kept(Trouble::Unavailable));
    }
}
