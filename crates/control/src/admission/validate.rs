//! May a pod be created or changed as it stands?
//!
//! The rules are [`api::check`]'s; here they get an order. The first group that
//! fails refuses the pod, with everything that group has to say:
//!
//! 1. the mark of the scheduler's own stand-ins
//! 2. classes: what may not change, which pairs exclude each other (more of them
//!    with `--strict-qos-priority-matrix`), batch resources, whole CPUs
//! 3. the pod's quota
//! 4. devices (gate ValidatePodDeviceResource)
//! 5. labels that an administrator demands (gate EnablePodEnhancedValidator)
//!
//! An update is measured by 2, 4 and 5 only as far as it touches what they look
//! at, and never while the pod is being deleted: a pod that breaks a rule made
//! after it must still be able to lose its finalizer.

use api::check::{check_pod_admission, check_pod_quota, check_pod_update};
use api::finding::{Code, Finding};
use api::kind::ElasticQuota;
use api::priority::check_strict_combination;
use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::name::config_map;
use api::protocol::pod::SKIP_ENHANCED_VALIDATION;
use api::protocol::quota;
use api::{priority, qos, resources};
use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

use super::{Admitted, Denied, Verdict, decode, device, refuse_errors, warnings};

/// What a pod is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    pub quotas: &'a [ElasticQuota],
    pub gates: &'a Gates<ManagerGate>,
    pub demands: &'a Demands,
    /// Some pairs of classes are refused that the reference admits.
    pub is_strict: bool,
}

/// `old` is the pod before the change; `namespace` is the request's.
pub fn validate(
    old: Option<&Value>,
    new: &Value,
    namespace: &str,
    around: &Surroundings<'_>,
) -> Verdict {
    let mut pod: Pod = decode("pod", new)?;
    let old: Option<Pod> = old.map(|old| decode("old pod", old)).transpose()?;
    if pod.metadata.namespace.as_deref().unwrap_or_default().is_empty() {
        pod.metadata.namespace = Some(namespace.to_owned());
    }
    let is_leaving = pod.metadata.deletion_timestamp.is_some();
    let is_judged = |is_touched: fn(&Pod, &Pod) -> bool| match &old {
        None => true,
        Some(old) => !is_leaving && is_touched(old, &pod),
    };
    let are_classes_judged = is_judged(|old, new| classes_of(old) != classes_of(new));
    let findings = check_pod_admission(&pod);
    let of_marks: Vec<Finding> = only(&findings, |finding| finding.code == Code::ReservePod);
    refuse_errors(&of_marks)?;

    let changes = old.as_ref().map(|old| check_pod_update(old, &pod, around.gates));
    let changes = changes.unwrap_or_default();
    let is_of_quota = |finding: &Finding| finding.key.as_deref() == Some(quota::PREEMPTIBLE.name);
    let mut classes = only(&changes, |finding| !is_of_quota(finding));
    if are_classes_judged {
        classes.extend(only(&findings, |finding| {
            !matches!(finding.code, Code::ReservePod | Code::DeviceRequest)
        }));
        if around.is_strict {
            classes.extend(check_strict_combination(qos::raw(&pod), priority::raw(&pod)));
        }
    }
    refuse_errors(&classes)?;

    let mut quota = only(&changes, is_of_quota);
    quota.extend(membership(&pod, around));
    refuse_errors(&quota)?;

    if is_judged(|old, new| resources_of(old) != resources_of(new)) {
        devices(&pod, around.gates)?;
    }
    if around.gates.is_on(ManagerGate::EnablePodEnhancedValidator) && !(old.is_some() && is_leaving)
    {
        around.demands.check(old.as_ref(), &pod)?;
    }
    Ok(Admitted::with_warnings(warnings(&classes)))
}

fn only(findings: &[Finding], wanted: impl Fn(&Finding) -> bool) -> Vec<Finding> {
    findings.iter().filter(|finding| wanted(finding)).cloned().collect()
}

/// What the rules for classes look at.
fn classes_of(pod: &Pod) -> impl PartialEq {
    let requests = pod.spec.as_ref().map(resources::pod_requests);
    (qos::raw(pod), priority::raw(pod), requests)
}

/// What the rules for devices look at.
fn resources_of(pod: &Pod) -> Vec<Option<&ResourceRequirements>> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.map(|container| container.resources.as_ref()).collect()
}

/// Without a default quota, a pod that names none belongs to none.
fn membership(pod: &Pod, around: &Surroundings<'_>) -> Vec<Finding> {
    let is_named = quota::NAME.raw(&pod.metadata).is_some_and(|name| !name.is_empty());
    if !is_named && around.gates.is_on(ManagerGate::DisableDefaultQuota) {
        return Vec::new();
    }
    check_pod_quota(pod, around.quotas, around.gates)
}

fn devices(pod: &Pod, gates: &Gates<ManagerGate>) -> Result<(), Denied> {
    if !gates.is_on(ManagerGate::ValidatePodDeviceResource) {
        return Ok(());
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let problems: Vec<String> = containers.flat_map(device::problems).collect();
    if problems.is_empty() { Ok(()) } else { Err(Denied::rule(problems.join("; "))) }
}

/// Labels that pods must have, from a ConfigMap of the administrator's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Demands(Vec<Demand>);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Demand {
    #[serde(default)]
    name: String,
    #[serde(default)]
    required_labels: Vec<String>,
    /// Namespaces whose pods need not obey.
    #[serde(default)]
    namespace_whitelist: Vec<String>,
}

impl Demands {
    /// The demands in a ConfigMap's data; none unless it is switched on.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, serde_json::Error> {
        let switch = data.get(config_map::ENHANCED_VALIDATOR_ENABLE);
        if !switch.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Ok(Self::default());
        }
        match data.get(config_map::ENHANCED_VALIDATOR_RULES) {
            Some(text) => serde_json::from_str(text).map(Self),
            None => Ok(Self::default()),
        }
    }

    /// Refuses labels that are missing; of a pod that lacked them before, those it lost.
    fn check(&self, old: Option<&Pod>, pod: &Pod) -> Result<(), Denied> {
        let is_excused = |pod: &Pod| SKIP_ENHANCED_VALIDATION.get(&pod.metadata) == Some(true);
        if is_excused(pod) {
            return Ok(());
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let has = |pod: &Pod, key: &String| {
            pod.metadata.labels.as_ref().is_some_and(|map| map.contains_key(key))
        };
        let was_without = |key: &String| old.is_some_and(|old| !is_excused(old) && !has(old, key));
        let bound = |demand: &&Demand| !demand.namespace_whitelist.iter().any(|n| n == namespace);
        for demand in self.0.iter().filter(bound) {
            let missing = demand.required_labels.iter().filter(|key| !has(pod, key));
            let missing: Vec<&str> =
                missing.filter(|key| !was_without(key)).map(String::as_str).collect();
            if !missing.is_empty() {
                return Err(Denied::rule(format!(
                    "rule {:?} of ConfigMap {} demands labels that the pod lacks: {}",
                    demand.name,
                    config_map::ENHANCED_VALIDATOR,
                    missing.join(", ")
                )));
            }
        }
        Ok(())
    }
}
