//! The same decision as a sum, for people and programs.
//!
//! Every term carries its number in the resource's own unit, a label, and where it comes from: a
//! field and the layer of the configuration that set it, or an object. Terms are whole milli-cores
//! and bytes, each rounded up, while the formula rounds once: what lies between is a term, too.

use api::config::{Key, NodeView};
use api::why::{Amount, NODE, Resource, SetValue, Setting, Sign, Source, Sum, Unit, Why};

use crate::batch::{self, Charged};
use crate::normalize::{Normalization, Trouble};
use crate::plan::{self, Standing};
use crate::{Pair, mid};

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
fn setting(view: &NodeView, field: &str) -> Setting {
    let leaf = view.strategy(Key::Colocation).and_then(|layer| layer.get(&[field]));
    let value = leaf
        .map(|leaf| SetValue { value: leaf.value.to_string(), set_by: leaf.source.to_string() });
    Setting { name: field.to_owned(), value }
}

/// Counts of things, without those of which there are none.
fn listed(counts: &[(usize, &str)]) -> String {
    let some = counts.iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

/// The sum of one of the two resources, while it grows.
struct Lines {
    is_cpu: bool,
    sum: Sum,
}

impl Lines {
    fn new(is_cpu: bool) -> Self {
        Self { is_cpu, sum: Sum::default() }
    }

    fn pick<T>(&self, pair: Pair<T>) -> T {
        if self.is_cpu { pair.cpu } else { pair.memory }
    }

    fn unit(&self) -> Unit {
        if self.is_cpu { Unit::MilliCores } else { Unit::Bytes }
    }

    fn add(&mut self, sign: Sign, amount: i64, label: &str, source: impl Into<Source>) {
        self.sum.push(sign, Amount(amount, self.unit()), label, source);
    }

    /// Adds what rounding each term by itself made of a total: less than one for each of them.
    fn round_to(&mut self, total: i64) {
        let off = total.saturating_sub(self.sum.total());
        let most = i64::try_from(self.sum.terms.len()).unwrap_or(i64::MAX);
        if off != 0 && off.saturating_abs() <= most {
            let sign = if off > 0 { Sign::Plus } else { Sign::Minus };
            let label = if self.is_cpu { "rounding to milli-cores" } else { "rounding to bytes" };
            self.add(sign, off.saturating_abs(), label, "");
        }
    }

    fn why(self, resource: Resource, lent: Option<i64>, capacity: i64, bound_by: &str) -> Why {
        let unit = self.unit();
        let lent = lent.map_or("withheld".to_owned(), |lent| unit.show(lent));
        Why {
            about: NODE.to_owned(),
            resource,
            headline: format!("{resource} is {lent} of {} {}", unit.show(capacity), unit.name()),
            bound_by: bound_by.to_owned(),
            sum: self.sum,
        }
    }
}

/// The two sums of batch resources; none when the node lends nothing.
pub fn batch(why: &plan::Why, view: &NodeView) -> Option<[Why; 2]> {
    let (sum, published) = (why.batch.as_ref()?, why.published?);
    Some([true, false].map(|is_cpu| batch_resource(is_cpu, why, sum, published, view)))
}

fn batch_resource(
    is_cpu: bool,
    why: &plan::Why,
    sum: &batch::Why,
    published: crate::publish::Batch,
    view: &NodeView,
) -> Why {
    let mut lines = Lines::new(is_cpu);
    let [reclaim, cap, policy] = lines.pick(Pair::new(
        ["cpuReclaimThresholdPercent", "batchCPUThresholdPercent", "cpuCalculatePolicy"],
        ["memoryReclaimThresholdPercent", "batchMemoryThresholdPercent", "memoryCalculatePolicy"],
    ));
    let outcome = lines.pick(sum.outcome);
    let capacity = lines.pick(sum.terms.capacity.counts());
    lines.add(Sign::Plus, capacity, "capacity", "Node");
    match lines.pick(sum.margin.counts()) {
        margin if margin < 0 => {
            let label = "more than is idle";
            lines.add(Sign::Plus, margin.saturating_neg(), label, setting(view, reclaim));
        }
        margin => lines.add(Sign::Minus, margin, "kept free", setting(view, reclaim)),
    }
    system(&mut lines, sum, outcome.charged);
    charged(&mut lines, sum, outcome.charged, setting(view, policy));
    let left = lines.pick(sum.left.counts());
    match outcome.bound_by {
        batch::Bound::Sum => lines.round_to(left),
        batch::Bound::Nothing => lines.add(Sign::Then, left, "nothing is left", ""),
        batch::Bound::Cap => lines.add(Sign::Then, left, "at most", setting(view, cap)),
    }
    lines.add(Sign::Equals, left, "left", "");
    if is_cpu {
        normalized(&mut lines, why, published.origin.cpu);
    }
    let lent = lines.pick(published.shown);
    match published.taken.map(|taken| lines.pick(taken)) {
        Some(0) => {}
        Some(taken) => {
            lines.add(Sign::Minus, taken, "taken by other systems", "thirdPartyAllocations");
            if taken > lines.pick(published.origin) {
                lines.add(Sign::Then, 0, "nothing is left", "");
            }
        }
        None => {
            let note = "thirdPartyAllocations cannot be read: not more than before";
            lines.add(Sign::Then, lent.unwrap_or(0), "withheld", note);
        }
    }
    lines.add(Sign::Equals, lent.unwrap_or(0), "lent", "");
    let bound_by = match outcome.bound_by {
        batch::Bound::Sum => "what is left",
        batch::Bound::Nothing => "load: nothing is left",
        batch::Bound::Cap => cap,
    };
    let resource = if is_cpu { Resource::BatchCpu } else { Resource::BatchMemory };
    lines.why(resource, lent, capacity, bound_by)
}

fn system(lines: &mut Lines, sum: &batch::Why, charged: Charged) {
    let reserved = lines.pick(sum.terms.reserved.counts());
    let kept = sum.kept;
    let whose = if lines.pick(kept.annotation.counts()) > lines.pick(kept.kubelet.counts()) {
        "annotation node.koordinator.sh/reservation"
    } else {
        "kubelet: capacity without allocatable"
    };
    if charged == Charged::Request {
        return lines.add(Sign::Minus, reserved, "reserved", whose);
    }
    let used = lines.pick((sum.terms.system + sum.terms.hosts).counts());
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

fn charged(lines: &mut Lines, sum: &batch::Why, charged: Charged, policy: Setting) {
    let (amounts, label) = match charged {
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
    let amount = lines.pick(amounts.counts());
    lines.add(Sign::Minus, amount, label, Source::from(pods).and(policy));
}

fn normalized(lines: &mut Lines, why: &plan::Why, origin: i64) {
    match &why.normalization {
        Some(Normalization::Ratio { text, value }) if *value > 1.0 => {
            let source = format!("x {text}, cpu-normalization-config");
            lines.add(Sign::Then, origin, "normalized", source);
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
pub fn mid(why: &plan::Why, view: &NodeView) -> Option<[Why; 2]> {
    let (found, lent) = (why.mid.as_ref()?, why.mid_published?);
    Some([true, false].map(|is_cpu| mid_resource(is_cpu, found, lent, view)))
}

fn mid_resource(is_cpu: bool, found: &mid::Why, lent: Pair<i64>, view: &NodeView) -> Why {
    let mut lines = Lines::new(is_cpu);
    let lent = lines.pick(lent);
    let field = |cpu, memory| setting(view, if is_cpu { cpu } else { memory });
    let capacity = match *found {
        mid::Why::Static { capacity, share, .. } => {
            let source = field("midStaticCPUReservedPercent", "midStaticMemoryReservedPercent");
            lines.add(Sign::Plus, lines.pick(share), "fixed share", source);
            capacity
        }
        mid::Why::Dynamic { capacity, reclaimable, unused, share, unallocated, .. } => {
            let (surplus, unused) = (lines.pick(reclaimable.counts()), lines.pick(unused.counts()));
            let (amount, source) = if surplus <= unused {
                (surplus, "predicted surplus; NodeMetric prodReclaimableMetric")
            } else {
                (unused, "unused < predicted surplus; NodeMetric nodeUsage")
            };
            lines.add(Sign::Plus, amount.max(0), "not needed by online pods", source);
            let all = lines.unit().show(lines.pick(unallocated.counts()));
            let source = Source::from(format!("of {all} unallocated"));
            let source = source.and(setting(view, "midUnallocatedPercent"));
            lines.add(Sign::Plus, lines.pick(share), "nobody asked for", source);
            capacity
        }
    };
    let bound = lines.pick(found.bound_by());
    let threshold = field("midCPUThresholdPercent", "midMemoryThresholdPercent");
    match bound {
        mid::Bound::Sum => lines.round_to(lent),
        mid::Bound::Threshold => lines.add(Sign::Then, lent, "at most", threshold),
        mid::Bound::Batch => lines.add(Sign::Then, lent, "at most", "what batch may have"),
    }
    lines.add(Sign::Equals, lent, "lent", "");
    let bound_by = match bound {
        mid::Bound::Sum => "what is not needed",
        mid::Bound::Threshold => "threshold",
        mid::Bound::Batch => "batch resources",
    };
    let resource = if is_cpu { Resource::MidCpu } else { Resource::MidMemory };
    let capacity = lines.pick(capacity.counts());
    lines.why(resource, Some(lent), capacity, bound_by)
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

    /// Adds up, as a reader would, and comes to the amount that is lent.
    fn assert_adds_up(why: &Why, lent: Option<i64>) {
        assert_eq!(why.sum.mistake(), None, "{why:?}");
        assert_eq!(why.sum.result(), Some(lent.unwrap_or(0)), "{why:?}");
    }

    #[test]
    fn the_lines_add_up_to_what_is_lent() {
        let node = N::new();
        let plan = node.plan().why;
        let lent = plan.published.unwrap().shown;
        for (why, lent) in batch(&plan, &view()).unwrap().iter().zip([lent.cpu, lent.memory]) {
            assert_adds_up(why, lent);
            assert_eq!(why.bound_by, "what is left");
        }
        let mut node = N::new();
        node.metric.reclaimable = amounts(12, 30);
        let plan = node.plan().why;
        let lent = plan.mid_published.unwrap();
        for (why, lent) in mid(&plan, &view()).unwrap().iter().zip([lent.cpu, lent.memory]) {
            assert_adds_up(why, Some(lent));
        }
    }

    #[test]
    fn every_line_says_where_it_comes_from() {
        let sums = batch(&N::new().plan().why, &view()).unwrap();
        let [cpu, _] = &sums;
        let sources: Vec<String> = cpu.sum.terms.iter().map(|t| t.source.to_string()).collect();
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
