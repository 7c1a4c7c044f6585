//! What is wrong with a ClusterColocationProfile?

use std::collections::BTreeSet;
use std::sync::OnceLock;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Report;
use crate::config::selector::Selector;
use crate::finding::{Code, Finding};
use crate::json;
use crate::kind::ClusterColocationProfile;
use crate::shape::Shape;

/// Everything wrong with a profile, given the names of the PriorityClass objects
/// that exist.
pub fn check_profile(
    profile: &ClusterColocationProfile,
    priority_classes: &BTreeSet<String>,
) -> Vec<Finding> {
    let mut report = Report::new("ClusterColocationProfile", &profile.metadata);
    let spec = &profile.spec;
    let selectors = [("namespaceSelector", &spec.namespace_selector), ("selector", &spec.selector)];
    for (field, selector) in selectors {
        if let Some(Err(error)) = selector.as_ref().map(Selector::compile) {
            let rule = format!("{error}; the profile matches no pod");
            let finding = Finding::error(Code::BadSelector, rule, "correct the selector");
            report.push(finding.path(format!("spec.{field}")));
        }
    }
    for finding in probability(spec.probability.as_ref()).1 {
        report.push(finding);
    }
    if let Some(class) = &spec.priority_class_name
        && !priority_classes.contains(class)
    {
        let rule = "there is no such PriorityClass; pods that match the profile cannot be created";
        let fix = format!("create PriorityClass {class}, or name an existing one");
        let finding = Finding::error(Code::ProfilePriorityClass, rule, fix);
        report.push(finding.path("spec.priorityClassName").value(class));
    }
    for finding in patch(profile) {
        report.push(finding);
    }
    report.findings
}

/// In how many of 100 cases a profile applies: always when absent or above 100,
/// never at 0. `None` means the value cannot be read and the profile is skipped.
pub fn probability(value: Option<&IntOrString>) -> (Option<u8>, Vec<Finding>) {
    let (text, percent) = match value {
        None => return (Some(100), Vec::new()),
        Some(IntOrString::Int(percent)) => (percent.to_string(), Some(*percent)),
        Some(IntOrString::String(text)) => {
            (format!("{text:?}"), text.strip_suffix('%').and_then(|digits| digits.parse().ok()))
        }
    };
    let warn = |rule: &str| {
        let fix = "use a percentage from 0% to 100%, such as \"30%\"";
        let finding = Finding::warning(Code::ProfileProbability, rule, fix);
        vec![finding.path("spec.probability").value(text.clone())]
    };
    match percent {
        Some(101..) => (Some(100), warn("above 100; the profile always applies")),
        Some(percent) => match u8::try_from(percent) {
            Ok(percent) => (Some(percent), Vec::new()),
            Err(_) => (None, warn("below 0; the profile is skipped")),
        },
        None => (None, warn("not a percentage; the profile is skipped")),
    }
}

/// Fields of the patch that a pod cannot take.
fn patch(profile: &ClusterColocationProfile) -> Vec<Finding> {
    static POD: OnceLock<Shape> = OnceLock::new();
    let Some(patch) = &profile.spec.patch else { return Vec::new() };
    let Ok(node) = json::parse(&crate::metadata::print_json(patch)) else { return Vec::new() };
    let mut findings = Vec::new();
    POD.get_or_init(Shape::of::<Pod>).fit(&node, &mut findings);
    let misfits = findings.into_iter().filter(|finding| finding.is_error() && !is_amount(finding));
    misfits
        .map(|finding| {
            let path = finding.path.as_deref().unwrap_or_default();
            let path = format!("spec.patch.{path}");
            let rule = format!("{}; pods that match the profile are refused", finding.rule);
            Finding { code: Code::ProfilePatch, rule, at: None, path: Some(path), ..finding }
        })
        .collect()
}

/// Kubernetes' schema calls amounts texts, but the API server takes numbers too.
fn is_amount(finding: &Finding) -> bool {
    let path = finding.path.as_deref().unwrap_or_default();
    let is_number = finding.value.as_deref().is_some_and(|value| value.parse::<f64>().is_ok());
    is_number && [".requests.", ".limits.", ".overhead."].iter().any(|list| path.contains(list))
}
