//! What does the node show, and is a difference worth a write?
//!
//! Batch resources on their way to the node:
//!
//! ```text
//! left ──x normalization──> origin ──> annotation, for YARN's side
//!                              └──- taken by other systems──> capacity and allocatable
//! ```
//!
//! A node is written when a value moved by more than the threshold, and otherwise when the last
//! write is long ago and anything differs at all. A write that changes nothing does not happen.

use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use units::{Format, Quantity};

use crate::facts::{NodeFacts, Origin, Shown, ThirdParty};
use crate::pair::truncated;
use crate::{Amounts, Pair};

/// What is lent of CPU and memory: milli-cores and bytes.
pub type Lent = Pair<i64>;

/// Batch resources as the node should show them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batch {
    /// Before other systems' share.
    pub origin: Lent,
    /// What other systems took; `None` when that cannot be read.
    pub taken: Option<Lent>,
    /// `None` shows nothing.
    pub shown: Pair<Option<i64>>,
}

/// Whole milli-cores and bytes, with CPU multiplied by the normalization ratio.
pub fn origin(left: Amounts, factor: Option<f64>) -> Lent {
    let counts = left.counts();
    let cpu = match factor {
        Some(factor) => thousandth_up(truncated(counts.cpu.saturating_mul(1_000), factor)),
        None => counts.cpu,
    };
    Pair::new(cpu.max(0), counts.memory.max(0))
}

fn thousandth_up(thousandths: i64) -> i64 {
    thousandths / 1_000 + i64::from(thousandths % 1_000 > 0)
}

/// Takes other systems' share off.
///
/// When the share cannot be read, what the node shows stays, or less: giving out what may be taken
/// already would lend it twice.
pub fn batch(origin: Lent, third_party: ThirdParty, shown: Pair<Shown>) -> Batch {
    match third_party {
        ThirdParty::Nothing => {
            Batch { origin, taken: Some(Pair::new(0, 0)), shown: origin.map(Some) }
        }
        ThirdParty::Taken(taken) => {
            let taken = taken.map(Quantity::value);
            let rest = |(origin, taken): (i64, i64)| Some(origin.saturating_sub(taken).max(0));
            Batch { origin, taken: Some(taken), shown: origin.zip(taken).map(rest) }
        }
        ThirdParty::Unreadable => {
            let kept = |(origin, shown): (i64, Shown)| {
                shown.allocatable.map(|shown| shown.value().clamp(0, origin.max(0)))
            };
            Batch { origin, taken: None, shown: origin.zip(shown).map(kept) }
        }
    }
}

/// The annotation's new text, unless it says so already. Whatever else it holds stays.
pub fn origin_text(old: Option<&Origin>, wanted: Lent) -> Option<String> {
    let (cpu, memory) = (cpu_quantity(wanted.cpu), memory_quantity(wanted.memory));
    if old.is_some_and(|old| old.batch == Pair::new(Some(cpu), Some(memory))) {
        return None;
    }
    let Some(old) = old else {
        return Some(format!(
            r#"{{"resources":{{"{BATCH_CPU}":"{cpu}","{BATCH_MEMORY}":"{memory}"}}}}"#
        ));
    };
    let mut root = serde_json::from_str::<Map<String, Value>>(&old.text).unwrap_or_default();
    let resources = root.entry("resources").or_insert_with(|| json!({}));
    if !resources.is_object() {
        *resources = json!({});
    }
    for (name, amount) in [(BATCH_CPU, cpu), (BATCH_MEMORY, memory)] {
        if let Value::Object(resources) = resources {
            resources.insert(name.to_owned(), amount.to_string().into());
        }
    }
    Some(Value::Object(root).to_string())
}

pub(crate) fn cpu_quantity(milli_cores: i64) -> Quantity {
    Quantity::from_int(milli_cores, Format::DecimalSi)
}

pub(crate) fn memory_quantity(bytes: i64) -> Quantity {
    Quantity::from_int(bytes, Format::BinarySi)
}

/// The four lent resources as the node should show them, next to what it shows.
pub(crate) fn lent(
    node: &NodeFacts,
    batch: Option<Pair<Option<i64>>>,
    mid: Option<Pair<Option<i64>>>,
) -> impl Iterator<Item = (&'static str, Shown, Option<Quantity>)> {
    let cpu = |amount: Option<i64>| amount.map(cpu_quantity);
    let memory = |amount: Option<i64>| amount.map(memory_quantity);
    let batch = batch.into_iter().flat_map(move |wanted| {
        [
            (BATCH_CPU, node.batch.cpu, cpu(wanted.cpu)),
            (BATCH_MEMORY, node.batch.memory, memory(wanted.memory)),
        ]
    });
    let mid = mid.into_iter().flat_map(move |wanted| {
        [
            (MID_CPU, node.mid.cpu, cpu(wanted.cpu)),
            (MID_MEMORY, node.mid.memory, memory(wanted.memory)),
        ]
    });
    batch.chain(mid)
}

/// Did a resource move so far that the node must be written at once?
pub fn is_worth_writing(old: Option<Quantity>, new: Option<Quantity>, threshold: f64) -> bool {
    match (old, new) {
        (None, None) => false,
        (Some(old), Some(new)) if old == new => false,
        (Some(old), Some(new)) => {
            let (old, new) = (old.milli_value(), new.milli_value());
            new.saturating_sub(old).saturating_abs() as f64 > old as f64 * threshold
        }
        _ => true,
    }
}

/// Is it time to write whatever differs?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// This process has not looked at the node before.
    First,
    Late,
    NotYet,
}

pub(crate) fn due(last: Option<Timestamp>, now: Timestamp, after: SignedDuration) -> Due {
    match last {
        None => Due::First,
        Some(last) if now.duration_since(last) > after => Due::Late,
        Some(_) => Due::NotYet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_by_more_than_the_threshold_are_written() {
        let amount = |count: i64| Some(cpu_quantity(count));
        let cases = [
            (amount(14_400), amount(15_840), false),
            (amount(14_400), amount(15_841), true),
            (amount(14_400), amount(12_960), false),
            (amount(14_400), amount(12_959), true),
            (amount(0), amount(1), true),
            (amount(0), amount(0), false),
            (None, amount(0), true),
            (amount(0), None, true),
            (None, None, false),
        ];
        for (old, new, want) in cases {
            assert_eq!(is_worth_writing(old, new, 0.1), want, "{old:?} -> {new:?}");
        }
    }

    #[test]
    fn normalization_rounds_up_to_a_milli_core() {
        let left = |cpu| Amounts::from_counts(Pair::new(cpu, 7));
        let cases = [
            ("B10", 14_400, Some(1.2), 17_280),
            ("B11", 14_401, Some(1.15), 16_562),
            ("none", 14_401, None, 14_401),
            ("nothing", 0, Some(5.0), 0),
        ];
        for (name, cpu, factor, want) in cases {
            assert_eq!(origin(left(cpu), factor), Pair::new(want, 7), "{name}");
        }
    }

    #[test]
    fn other_systems_share_is_taken_off() {
        let origin = Pair::new(14_400, 77_738_908_058);
        let taken = |cpu, memory: &str| {
            ThirdParty::Taken(Pair::new(cpu_quantity(cpu), memory.parse().unwrap()))
        };
        let was = |cpu, memory| {
            Pair::new(cpu, memory).map(|amount: Option<i64>| Shown {
                capacity: amount.map(cpu_quantity),
                allocatable: amount.map(cpu_quantity),
            })
        };
        let nothing = was(None, None);
        let cases = [
            ("Y1", taken(10_000, "10Gi"), nothing, (Some(4_400), Some(67_001_489_818))),
            ("Y2", taken(20_000, "0"), nothing, (Some(0), Some(77_738_908_058))),
            ("nobody", ThirdParty::Nothing, nothing, (Some(14_400), Some(77_738_908_058))),
            (
                "unreadable keeps",
                ThirdParty::Unreadable,
                was(Some(9_000), Some(5)),
                (Some(9_000), Some(5)),
            ),
            (
                "unreadable never exceeds what is left",
                ThirdParty::Unreadable,
                was(Some(20_000), Some(5)),
                (Some(14_400), Some(5)),
            ),
            ("unreadable and nothing shown", ThirdParty::Unreadable, nothing, (None, None)),
        ];
        for (name, third_party, shown, (cpu, memory)) in cases {
            let found = batch(origin, third_party, shown);
            assert_eq!(found.shown, Pair::new(cpu, memory), "{name}");
            assert_eq!(found.origin, origin, "{name}");
        }
    }

    #[test]
    fn the_note_keeps_what_others_wrote_and_is_written_once() {
        let wanted = Pair::new(14_400, 77_738_908_058);
        let plain = r#"{"resources":{"kubernetes.io/batch-cpu":"14400","kubernetes.io/batch-memory":"77738908058"}}"#;
        assert_eq!(origin_text(None, wanted).as_deref(), Some(plain));
        let old = |text: &str, cpu: Option<i64>| Origin {
            text: text.into(),
            batch: Pair::new(cpu.map(cpu_quantity), Some(memory_quantity(wanted.memory))),
        };
        assert_eq!(origin_text(Some(&old(plain, Some(14_400))), wanted), None, "says so already");
        let richer = r#"{"other":1,"resources":{"kubernetes.io/batch-cpu":"1","x":"2"}}"#;
        let text = origin_text(Some(&old(richer, Some(1))), wanted).unwrap();
        let text: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&text["other"], &text["resources"]["x"]), (&json!(1), &json!("2")));
        assert_eq!(text["resources"][BATCH_CPU], "14400");
        for broken in ["{", "[]", r#"{"resources":7}"#] {
            let text = origin_text(Some(&old(broken, None)), wanted).unwrap();
            assert!(text.contains("14400"), "{broken}");
        }
    }

    #[test]
    fn time_makes_any_difference_due() {
        let after = SignedDuration::from_secs(300);
        let start = Timestamp::UNIX_EPOCH;
        let at = |seconds| start + SignedDuration::from_secs(seconds);
        assert_eq!(due(None, start, after), Due::First);
        assert_eq!(due(Some(start), at(300), after), Due::NotYet);
        assert_eq!(due(Some(start), at(301), after), Due::Late);
        assert_eq!(due(Some(at(9)), start, after), Due::NotYet, "a clock that went back");
    }
}
