//! What do evictions look like in `explain`?

use api::policy::ResolvedNodeSlo;
use api::why::{Amount, NODE, Resource as Shown, Sum, Unit, Why};
use qos::evict::cpu::Band;
use qos::evict::{Need, Resource, Rules};
use units::{Bytes, Rounding};

use super::inputs::Seen;

fn setting(name: &str) -> String {
    format!("resource-threshold-config.{name}")
}

/// How far the node is from sending anybody away, and for what it does.
pub(super) fn node(
    seen: &Seen,
    rules: &Rules,
    needs: &[Need<String>],
    slo: &ResolvedNodeSlo,
) -> Vec<Why> {
    let mut whys: Vec<Why> = needs.iter().map(|need| wanted(need, seen)).collect();
    let band = rules.best_effort_memory.or(rules.memory.map(|rule| rule.band));
    let is_full = needs.iter().any(|need| need.target == qos::evict::Target::MemoryUsed);
    if let Some(band) = band
        && !is_full
        && let Some(used) = seen.inputs().memory_used
    {
        whys.push(room(used, seen.inputs().memory_capacity, band, slo));
    }
    whys
}

fn room(used: Bytes, capacity: Bytes, band: Band, slo: &ResolvedNodeSlo) -> Why {
    let limit = band.threshold.apply(capacity, Rounding::Down);
    Why {
        about: NODE.to_owned(),
        resource: Shown::Memory,
        headline: "nobody has to leave for memory".to_owned(),
        bound_by: "room below the threshold".to_owned(),
        sum: Sum::default()
            .plus(capacity, "capacity", "memory of the machine, or of the group around it")
            .then(
                limit,
                "pods leave from here on",
                slo.setting(&setting("memoryEvictThresholdPercent")),
            )
            .minus(used, "used", "all but page cache that can be given up")
            .equals(limit - used, "room", ""),
    }
}

fn wanted(need: &Need<String>, seen: &Seen) -> Why {
    let names: Vec<&str> = need
        .pods
        .iter()
        .filter_map(|(id, _)| seen.victims.get(id))
        .take(3)
        .map(|victim| victim.name.as_str())
        .collect();
    let first = if names.is_empty() {
        "nobody may be asked".to_owned()
    } else {
        format!("first to go: {}", names.join(", "))
    };
    let resource = resource(need.target.resource());
    let unit = if resource == Shown::Cpu { Unit::MilliCores } else { Unit::Bytes };
    Why {
        about: NODE.to_owned(),
        resource,
        headline: format!("pods have to leave: {}", need.why),
        bound_by: need.feature.to_owned(),
        sum: Sum::default().beside(Amount(need.release, unit), "to be freed", first),
    }
}

/// What is said about a pod that was told to leave.
pub(super) fn noticed(about: &str, feature: &str, reason: &str, target: Resource) -> Why {
    Why {
        about: about.to_owned(),
        resource: resource(target),
        headline: format!("was told that it will be evicted: {reason}"),
        bound_by: feature.to_owned(),
        sum: Sum::default(),
    }
}

fn resource(resource: Resource) -> Shown {
    match resource {
        Resource::Cpu => Shown::Cpu,
        Resource::Memory => Shown::Memory,
    }
}
