//! The same decision as lines of a sum, for people and programs.
//!
//! Every line carries its number in the resource's own unit, what it is, and where it comes from:
//! a field and the layer of the configuration that set it, or an object.

use api::config::{Key, NodeView};
use serde::Serialize;

use crate::Pair;
use crate::batch::{self, Charged};
use crate::mid;
use crate::normalize::{Normalization, Trouble};
use crate::plan::{Standing, Why};

/// What the numbers of a sum count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    MilliCores,
    Bytes,
}

impl Unit {
    /// An amount as people read it: cores with as many decimals as they need, GiB with one.
    pub fn show(self, amount: i64) -> String {
        match self {
            Self::MilliCores => {
                let text = format!("{:.3}", amount as f64 / 1_000.0);
                let short = text.trim_end_matches('0');
                if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
            }
            Self::Bytes => format!("{:.1}", amount as f64 / (1_u64 << 30) as f64),
        }
    }

    /// What [`Unit::show`] counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::MilliCores => "CPUs",
            Self::Bytes => "GiB",
        }
    }
}

/// How a line enters the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Sign {
    /// Starts the sum, or is added to it.
    Plus,
    Minus,
    /// What the lines above come to.
    Equals,
    /// Bounds or scales what stands above.
    Then,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Term {
    pub sign: Sign,
    pub amount: i64,
    pub what: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// How one resource came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sum {
    pub resource: &'static str,
    pub unit: Unit,
    /// What the node should show; nothing when it lends nothing.
    pub lent: Option<i64>,
    pub capacity: i64,
    /// What decided the result.
    #[serde(rename = "boundBy")]
    pub bound_by: &'static str,
    pub terms: Vec<Term>,
}

/// Why a node that lends nothing does not.
pub fn standing(standing: Standing, view: &NodeView) -> Option<String> {
    let limit = || setting(view, "degradeTimeMinutes");
    Some(match standing {
        Standing::Lending => return None,
        Standing::Incomplete => "the node does not say how much cpu and memory it has".to_owned(),
        Standing::Disabled => format!("co-location is off here: {}", setting(view, "enable")),
        Standing::NoReport => "the node has not been measured: no NodeMetric report".to_owned(),
        Standing::EmptyReport => "the NodeMetric says nothing about the node".to_owned(),
        Standing::Stale { age } => {
            format!("the last report is {} s old: {}", age.as_secs(), limit())
        }
        Standing::Skewed { ahead } => {
            format!("the last report is {} s from the future: {}", ahead.as_secs(), limit())
        }
    })
}

/// What to do about a node that lends nothing.
pub fn way_out(standing: Standing) -> Option<&'static str> {
    Some(match standing {
        Standing::Lending => return None,
        Standing::Incomplete => "wait for the kubelet, or look at the node's status",
        Standing::Disabled => {
            "to lend, set \"enable\": true in key colocation-config of ConfigMap slo-controller-config"
        }
        Standing::NoReport | Standing::EmptyReport | Standing::Stale { .. } => {
            "see whether the node's agent runs, and what it says"
        }
        Standing::Skewed { .. } => "set the clocks of the node and of the manager",
    })
}

/// A field's value and the layer it comes from.
fn setting(view: &NodeView, field: &str) -> String {
    match view.strategy(Key::Colocation).and_then(|layer| layer.get(&[field])) {
        Some(leaf) => format!("{field} = {} ({})", leaf.value, leaf.source),
        None => format!("{field} is not set"),
    }
}

/// Counts of things, without those of which there are none.
fn listed(counts: &[(usize, &str)]) -> String {
    let some = counts.iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

/// Collects lines.
struct Lines(Vec<Term>);

impl Lines {
    fn add(&mut self, sign: Sign, amount: i64, what: &'static str, source: impl Into<String>) {
        self.0.push(Term { sign, amount, what, source: source.into() });
    }
}

/// The two sums of batch resources; none when the node lends nothing.
pub fn batch(why: &Why, view: &NodeView) -> Option<[Sum; 2]> {
    let (sum, published) = (why.batch.as_ref()?, why.published?);
    let names = Pair::new("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory");
    let fields = Pair::new(
        ["cpuReclaimThresholdPercent", "batchCPUThresholdPercent", "cpuCalculatePolicy"],
        ["memoryReclaimThresholdPercent", "batchMemoryThresholdPercent", "memoryCalculatePolicy"],
    );
    let terms = sum.terms;
    let [cpu, memory] = [true, false].map(|is_cpu| {
        let pick = |pair: Pair<i64>| if is_cpu { pair.cpu } else { pair.memory };
        let outcome = if is_cpu { sum.outcome.cpu } else { sum.outcome.memory };
        let [reclaim, cap, policy] = if is_cpu { fields.cpu } else { fields.memory };
        let mut lines = Lines(Vec::new());
        let capacity = pick(terms.capacity.counts());
        lines.add(Sign::Plus, capacity, "capacity", "Node");
        let margin = pick(sum.margin.counts());
        lines.add(Sign::Minus, margin, "kept free", setting(view, reclaim));
        system(&mut lines, sum, outcome.charged, &pick);
        charged(&mut lines, sum, outcome.charged, setting(view, policy), &pick);
        let left = pick(sum.left.counts());
        lines.add(Sign::Equals, left, "left", "");
        if let (batch::Bound::Cap, Some(most)) =
            (outcome.bound_by, if is_cpu { sum.cap.cpu } else { sum.cap.memory })
        {
            lines.add(Sign::Then, most, "at most", setting(view, cap));
        }
        if is_cpu {
            normalized(&mut lines, why, published.origin.cpu);
        }
        if let Some(taken) = published.taken.map(&pick)
            && taken > 0
        {
            lines.add(Sign::Minus, taken, "taken by other systems", "thirdPartyAllocations");
        }
        let lent = if is_cpu { published.shown.cpu } else { published.shown.memory };
        let note = match published.taken {
            Some(_) => "",
            None => "thirdPartyAllocations cannot be read: not more than before",
        };
        lines.add(Sign::Equals, lent.unwrap_or(0), "lent", note);
        Sum {
            resource: if is_cpu { names.cpu } else { names.memory },
            unit: if is_cpu { Unit::MilliCores } else { Unit::Bytes },
            lent,
            capacity,
            bound_by: match outcome.bound_by {
                batch::Bound::Sum => "what is left",
                batch::Bound::Nothing => "load: nothing is left",
                batch::Bound::Cap => cap,
                batch::Bound::Capacity => "capacity",
            },
            terms: lines.0,
        }
    });
    Some([cpu, memory])
}

fn system(lines: &mut Lines, sum: &batch::Why, charged: Charged, pick: &impl Fn(Pair<i64>) -> i64) {
    let reserved = pick(sum.terms.reserved.counts());
    let kept = sum.kept;
    let whose = if pick(kept.annotation.counts()) > pick(kept.kubelet.counts()) {
        "annotation node.koordinator.sh/reservation"
    } else {
        "kubelet: capacity without allocatable"
    };
    if charged == Charged::Request {
        return lines.add(Sign::Minus, reserved, "reserved", whose);
    }
    let used = pick((sum.terms.system + sum.terms.hosts).counts());
    let hosts = listed(&[(sum.host_count, "host applications")]);
    let measured =
        if hosts.is_empty() { "NodeMetric".to_owned() } else { format!("NodeMetric, {hosts}") };
    let source = if reserved > used {
        format!("reserved > used; {whose}")
    } else {
        format!("used >= reserved; {measured}")
    };
    lines.add(Sign::Minus, used.max(reserved), "system", source);
}

fn charged(
    lines: &mut Lines,
    sum: &batch::Why,
    charged: Charged,
    policy: String,
    pick: &impl Fn(Pair<i64>) -> i64,
) {
    let (amounts, what) = match charged {
        Charged::Usage => (sum.terms.usage, "used above batch"),
        Charged::Request => (sum.terms.request, "requested above batch"),
        Charged::Larger => (sum.terms.larger, "used or requested above batch"),
    };
    let counts = sum.counts;
    let pods = listed(&[
        (counts.charged, "pods"),
        (counts.unreported, "not measured yet"),
        (counts.gone, "gone but reported"),
    ]);
    let pods = if pods.is_empty() { "no pods".to_owned() } else { pods };
    lines.add(Sign::Minus, pick(amounts.counts()), what, format!("{pods}; {policy}"));
}

fn normalized(lines: &mut Lines, why: &Why, origin: i64) {
    match &why.normalization {
        Some(Normalization::Ratio { text, value }) if *value > 1.0 => {
            lines.add(
                Sign::Then,
                origin,
                "normalized",
                format!("x {text}, cpu-normalization-config"),
            );
        }
        Some(Normalization::Kept(trouble)) if *trouble != Trouble::Unavailable => {
            let reason = match trouble {
                Trouble::Switch => "label cpu-normalization-enabled is no boolean",
                Trouble::NoProcessor => "the processor is not known",
                Trouble::NoRatio => "no ratio for this processor",
                Trouble::OutOfRange(_) => "the ratio is not between 1 and 5",
                Trouble::Unavailable => "no usable configuration",
            };
            lines.add(Sign::Then, origin, "not normalized", reason);
        }
        _ => {}
    }
}

/// The two sums of mid resources; none when the node lends nothing.
pub fn mid(why: &Why, view: &NodeView) -> Option<[Sum; 2]> {
    let (found, lent) = (why.mid.as_ref()?, why.mid_published?);
    let [cpu, memory] = [true, false].map(|is_cpu| {
        let pick = |pair: Pair<i64>| if is_cpu { pair.cpu } else { pair.memory };
        let mut lines = Lines(Vec::new());
        let field = |cpu, memory| setting(view, if is_cpu { cpu } else { memory });
        let threshold = field("midCPUThresholdPercent", "midMemoryThresholdPercent");
        let (capacity, cap) = match *found {
            mid::Why::Static { capacity, share, cap, .. } => {
                let source = field("midStaticCPUReservedPercent", "midStaticMemoryReservedPercent");
                lines.add(Sign::Plus, pick(share), "fixed share", source);
                (capacity, cap)
            }
            mid::Why::Dynamic {
                capacity, reclaimable, unused, share, cap, unallocated, ..
            } => {
                let (surplus, unused) = (pick(reclaimable.counts()), pick(unused.counts()));
                let (amount, source) = if surplus <= unused {
                    (surplus, "predicted surplus; NodeMetric prodReclaimableMetric")
                } else {
                    (unused, "unused < predicted surplus; NodeMetric nodeUsage")
                };
                lines.add(Sign::Plus, amount.max(0), "not needed by online pods", source);
                let unit = if is_cpu { Unit::MilliCores } else { Unit::Bytes };
                let all = unit.show(pick(unallocated.counts()));
                let source =
                    format!("of {all} unallocated; {}", setting(view, "midUnallocatedPercent"));
                lines.add(Sign::Plus, pick(share), "nobody asked for", source);
                (capacity, cap)
            }
        };
        let bound = found.bound_by();
        let bound = if is_cpu { bound.cpu } else { bound.memory };
        if bound != mid::Bound::Sum {
            lines.add(Sign::Then, pick(cap), "at most", threshold);
        }
        lines.add(Sign::Equals, pick(lent), "lent", "");
        Sum {
            resource: if is_cpu { "kubernetes.io/mid-cpu" } else { "kubernetes.io/mid-memory" },
            unit: if is_cpu { Unit::MilliCores } else { Unit::Bytes },
            lent: Some(pick(lent)),
            capacity: pick(capacity.counts()),
            bound_by: match bound {
                mid::Bound::Sum => "what is not needed",
                mid::Bound::Threshold => "threshold",
                mid::Bound::Batch => "batch resources",
            },
            terms: lines.0,
        }
    });
    Some([cpu, memory])
}

#[cfg(test)]
mod tests {
    use api::config::Config;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::example::{N, amounts};

    fn view() -> NodeView {
        Config::default().for_node(&ObjectMeta::default())
    }

    /// Adds the lines up, as a reader would.
    fn added(sum: &Sum) -> i64 {
        let lines = sum.terms.iter().take_while(|term| term.sign != Sign::Equals);
        lines.map(|term| if term.sign == Sign::Minus { -term.amount } else { term.amount }).sum()
    }

    #[test]
    fn the_lines_add_up_to_what_is_lent() {
        let node = N::new();
        for sum in batch(&node.plan().why, &view()).unwrap() {
            assert_eq!(Some(added(&sum)), sum.lent, "{sum:?}");
            assert_eq!(sum.bound_by, "what is left");
        }
        let mut node = N::new();
        node.metric.reclaimable = amounts(12, 30);
        for sum in mid(&node.plan().why, &view()).unwrap() {
            assert_eq!(Some(added(&sum)), sum.lent, "{sum:?}");
        }
    }

    #[test]
    fn every_line_says_where_it_comes_from() {
        let sums = batch(&N::new().plan().why, &view()).unwrap();
        let [cpu, _] = &sums;
        let sources: Vec<&str> = cpu.terms.iter().map(|term| term.source.as_str()).collect();
        assert_eq!(
            sources,
            [
                "Node",
                "cpuReclaimThresholdPercent = 60 (built-in)",
                "reserved > used; kubelet: capacity without allocatable",
                "4 pods, 1 not measured yet, 1 gone but reported; cpuCalculatePolicy = \"usage\" (built-in)",
                "",
                "",
            ]
        );
    }

    #[test]
    fn a_node_that_lends_nothing_says_why() {
        let mut node = N::new();
        node.strategies.is_enabled = false;
        let why = node.plan().why;
        assert!(batch(&why, &view()).is_none() && mid(&why, &view()).is_none());
        let text = standing(why.standing, &view()).unwrap();
        assert_eq!(text, "co-location is off here: enable = false (built-in)");
        assert!(way_out(why.standing).is_some_and(|text| text.contains("colocation-config")));
        assert_eq!(standing(Standing::Lending, &view()), None);
    }
}
