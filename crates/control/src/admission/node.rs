//! What may a node advertise, and do two node entries claim it?
//!
//! A node with amplification ratios advertises more than it has:
//!
//! ```text
//! allocatable = trunc(raw * ratio)      for cpu and memory with a ratio above 1
//! ```
//!
//! The raw amounts are kept in an annotation. They are taken anew whenever the
//! kubelet says something else than before; our own status writes repeat the
//! amplified amounts, change nothing, and are amplified from the stored raw
//! ones again, so nothing is amplified twice.
//!
//! Two holes stay open, as in the reference: a kubelet that happens to report
//! the amplified amount is taken for unchanged, and a change made while the
//! webhook was away is noticed at the next one.

use std::collections::BTreeMap;

use api::config::selector::Labels;
use api::metadata::{ResourceList, Wire};
use api::protocol::node::{AMPLIFICATION_RATIO, RAW_ALLOCATABLE};
use api::protocol::resource::{CPU, MEMORY};
use api::resources::{WireList, amount};
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;
use units::{Quantity, Ratio, Rounding};

use super::config_map::{self, Nodes};
use super::{Admitted, Denied, Verdict, decode, map_at, sentence};

const NATIVE: [&str; 2] = [CPU, MEMORY];

/// Who may report what a node has: its kubelet, or a person. Programs in pods may not.
fn is_reporter(user: &str) -> bool {
    !user.starts_with("system:serviceaccount:")
}

/// The edits of a node whose status is written by `user`.
pub fn mutate_status(old: &Value, new: &Value, user: &str) -> Verdict {
    let (before, after): (Node, Node) = (decode("old node", old)?, decode("node", new)?);
    let mut next = new.clone();
    let text = AMPLIFICATION_RATIO.raw(&after.metadata).unwrap_or_default();
    if text.is_empty() {
        if RAW_ALLOCATABLE.is_present(&after.metadata)
            && let Some(annotations) = map_at(&mut next, &["metadata", "annotations"])
        {
            annotations.remove(RAW_ALLOCATABLE.name);
        }
        return Ok(Admitted::edits(new, &next, Vec::new()));
    }
    let (ratios, findings) = AMPLIFICATION_RATIO.read(&after.metadata);
    let unreadable = |findings: &[api::finding::Finding]| {
        Denied::rule(findings.iter().map(sentence).collect::<Vec<_>>().join("; "))
    };
    let ratios = ratios.ok_or_else(|| unreadable(&findings))?.0;
    let Some(allocatable) = after.status.as_ref().and_then(|status| status.allocatable.as_ref())
    else {
        return Ok(Admitted::default());
    };
    let stored = RAW_ALLOCATABLE.is_present(&after.metadata);
    let reported = native(Some(allocatable));
    let told = native(before.status.as_ref().and_then(|status| status.allocatable.as_ref()));
    let raw = if !stored || (reported != told && is_reporter(user)) {
        reported
    } else {
        let (raw, findings) = RAW_ALLOCATABLE.read(&after.metadata);
        raw.ok_or_else(|| unreadable(&findings))?
    };
    if let Some(annotations) = map_at(&mut next, &["metadata", "annotations"]) {
        annotations.insert(RAW_ALLOCATABLE.name.into(), raw.print().into());
    }
    advertise(&mut next, &raw, &ratios);
    Ok(Admitted::edits(new, &next, Vec::new()))
}

fn native(list: Option<&WireList>) -> ResourceList {
    let list = list.into_iter().flatten();
    list.filter(|(name, _)| NATIVE.contains(&name.as_str()))
        .map(|(name, quantity)| (name.clone(), amount(quantity)))
        .collect()
}

fn advertise(node: &mut Value, raw: &ResourceList, ratios: &BTreeMap<String, Ratio>) {
    let Some(allocatable) = map_at(node, &["status", "allocatable"]) else { return };
    for name in NATIVE {
        let (Some(raw), Some(ratio)) = (raw.get(name), ratios.get(name)) else { continue };
        if *ratio > Ratio::ONE {
            let milli: i64 = ratio.apply(raw.milli_value(), Rounding::Down);
            let amplified = Quantity::from_milli(milli, raw.format());
            allocatable.insert(name.to_owned(), amplified.to_string().into());
        }
    }
}

/// Refuses labels that make a node match two entries of one list. `config` is
/// the ConfigMap's data; what cannot be read there is nobody's fault here.
pub fn validate(old: &Value, new: &Value, config: &BTreeMap<String, String>) -> Verdict {
    let (before, after): (Node, Node) = (decode("old node", old)?, decode("node", new)?);
    if before.metadata.labels == after.metadata.labels {
        return Ok(Admitted::default());
    }
    let labels: Labels = after.metadata.labels.unwrap_or_default();
    let name = after.metadata.name.unwrap_or_default();
    config_map::check_nodes(config, &Nodes::from([(name, labels)]))?;
    Ok(Admitted::default())
}
