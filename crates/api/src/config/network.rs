//! Do the network shares of the classes fit into the network?
//!
//! `networkQOS` requests are percents (integers) or bandwidths (quantities).
//! Within one strategy, over LSR, LS and BE, all requests must be of one kind;
//! percents of a direction may add up to 100, bandwidths to the total that
//! `system-config` gives for the same nodes. An unknown total is not checked.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value as Json;
use units::Quantity;

use super::check::{Document, Part};
use crate::finding::{Code, Finding};
use crate::json::Step;

const CLASSES: [&str; 3] = ["lsrClass", "lsClass", "beClass"];
const FIELDS: [&str; 4] = ["ingressRequest", "ingressLimit", "egressRequest", "egressLimit"];

pub(super) fn check(document: &Document, system: Option<&Document>) -> Vec<Finding> {
    let totals = Totals::of(system);
    let mut findings = check_part(document, &document.cluster, totals.cluster);
    for entry in &document.entries {
        let total = totals.of_entry(entry.raw_selector.as_ref());
        findings.extend(check_part(document, &entry.part, total));
    }
    findings
}

/// The bandwidths that `system-config` gives: the cluster's, and those of its entries by selector.
#[derive(Default)]
struct Totals {
    cluster: Option<Quantity>,
    has_entries: bool,
    entries: BTreeMap<String, Option<Quantity>>,
}

impl Totals {
    fn of(system: Option<&Document>) -> Self {
        let Some(system) = system else { return Self::default() };
        let mut entries = BTreeMap::new();
        for entry in &system.entries {
            if let Some(selector) = &entry.raw_selector {
                entries.entry(text_of(selector)).or_insert_with(|| bandwidth(&entry.part));
            }
        }
        let has_entries = !system.entries.is_empty();
        Self { cluster: bandwidth(&system.cluster), has_entries, entries }
    }

    /// For the nodes of an entry: that of the entry with the same selector, and without any entries the
    /// cluster's.
    fn of_entry(&self, selector: Option<&LabelSelector>) -> Option<Quantity> {
        match selector {
            Some(selector) if self.has_entries => {
                self.entries.get(&text_of(selector)).copied().flatten()
            }
            _ => self.cluster,
        }
    }
}

/// Equal selectors have equal texts.
fn text_of(selector: &LabelSelector) -> String {
    serde_json::json!(selector).to_string()
}

fn bandwidth(part: &Part) -> Option<Quantity> {
    let bandwidth = &part.strategy["totalNetworkBandwidth"];
    let text = bandwidth.as_str().map_or_else(|| bandwidth.to_string(), str::to_owned);
    text.parse().ok().filter(|total: &Quantity| !total.is_zero())
}

fn check_part(document: &Document, part: &Part, total: Option<Quantity>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for class in CLASSES {
        for field in FIELDS {
            if let Some(finding) = check_value(&part.strategy[class]["networkQOS"][field]) {
                findings.push(document.locate(part, &steps(class, field), finding));
            }
        }
    }
    for field in ["ingressRequest", "egressRequest"] {
        findings.extend(check_sum(document, part, field, total.as_ref()));
    }
    findings.extend(check_kinds(document, part));
    findings
}

fn steps(class: &str, field: &str) -> [Step; 3] {
    [Step::from(class), Step::from("networkQOS"), Step::from(field)]
}

fn check_value(value: &Json) -> Option<Finding> {
    if let Some(percent) = value.as_i64() {
        return (!(0..=100).contains(&percent)).then(|| {
            let fix = "use a percentage, or a bandwidth as text such as \"100M\"";
            Finding::error(Code::OutOfRange, "a percentage must be between 0 and 100", fix)
        });
    }
    let error = value.as_str()?.parse::<Quantity>().err()?;
    let rule = format!("not a {error}");
    let fix = "use bits per second such as \"100M\", or a percentage without quotes";
    Some(Finding::error(Code::BadText, rule, fix))
}

fn requests<'a>(part: &'a Part, field: &'a str) -> impl Iterator<Item = (&'static str, &'a Json)> {
    CLASSES
        .into_iter()
        .map(move |class| (class, &part.strategy[class]["networkQOS"][field]))
        .filter(|(_, value)| !value.is_null())
}

fn check_sum(
    document: &Document,
    part: &Part,
    field: &str,
    total: Option<&Quantity>,
) -> Option<Finding> {
    let percents: i64 =
        requests(part, field).filter_map(|(_, value)| value.as_i64()).fold(0, i64::saturating_add);
    let bandwidths: Vec<Quantity> =
        requests(part, field).filter_map(|(_, value)| value.as_str()?.parse().ok()).collect();
    let bandwidth = bandwidths.into_iter().reduce(|a, b| a + b);

    let rule = match (bandwidth, total) {
        _ if percents > 100 => {
            format!("{field} of LSR, LS and BE add up to {percents} %, over 100")
        }
        (Some(sum), Some(total)) if sum > *total => {
            format!("{field} of LSR, LS and BE add up to {sum}, over the total of {total}")
        }
        _ => return None,
    };
    let (class, _) = requests(part, field).last()?;
    let fix = if percents > 100 {
        "lower the requests until they add up to 100"
    } else {
        "lower the requests, or raise totalNetworkBandwidth in system-config"
    };
    let finding = Finding::error(Code::NetworkBudget, rule, fix);
    Some(document.locate(part, &steps(class, field), finding))
}

fn check_kinds(document: &Document, part: &Part) -> Option<Finding> {
    let all = || {
        ["ingressRequest", "egressRequest"].into_iter().flat_map(|field| {
            requests(part, field).map(move |(class, value)| (class, field, value))
        })
    };
    let (_, _, first) = all().next()?;
    let (class, field, _) = all().find(|(.., value)| value.is_i64() != first.is_i64())?;
    let finding = Finding::error(
        Code::NetworkBudget,
        "percents and bandwidths are mixed in the requests of LSR, LS and BE",
        "use one kind for all requests of a strategy",
    );
    Some(document.locate(part, &steps(class, field), finding))
}
