//! Is there room left in a pod's quota?
//!
//! Behind the gate EnableQuotaAdmission a pod is charged when it is created:
//!
//! ```text
//! admitted  iff  used + requested <= limit      for every resource asked for
//! used  = annotation child-request      limit = annotation admission, or spec.max
//! ```
//!
//! The sum goes back into the annotation. Nothing is released here: the
//! scheduler's quota controller rewrites the annotation.

use api::kind::ElasticQuota;
use api::metadata::ResourceList;
use api::metadata::quota::quota_of;
use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::name::quota::{DEFAULT, ROOT, SYSTEM};
use api::protocol::pod::REPLACE_RESOURCES;
use api::protocol::quota::{ADMISSION, CHILD_REQUEST, NAME};
use api::protocol::resource::{
    BATCH_CPU, BATCH_MEMORY, CPU, GPU, GPU_MEMORY_RATIO, GPU_SHARED, MEMORY, MID_CPU, MID_MEMORY,
    NVIDIA_GPU,
};
use api::resources::pod_requests;
use k8s_openapi::api::core::v1::Pod;
use units::Quantity;

use super::Denied;

/// A quota with none of these is not charged at all.
const COUNTED: &[&str] = &[
    CPU,
    MEMORY,
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    BATCH_CPU,
    BATCH_MEMORY,
    MID_CPU,
    MID_MEMORY,
    GPU,
    NVIDIA_GPU,
    GPU_SHARED,
    GPU_MEMORY_RATIO,
];

/// The quota that a new pod is charged to, or a pod that moves to another quota; a move counts behind
/// the gate EnableQuotaAdmissionOnUpdate alone.
pub fn target<'q>(
    old: Option<&Pod>,
    new: &Pod,
    quotas: &'q [ElasticQuota],
    gates: &Gates<ManagerGate>,
) -> Result<Option<&'q ElasticQuota>, Denied> {
    if let Some(old) = old {
        let named = |pod| charged_name(pod, quotas, gates);
        let is_moved = named(old) != named(new);
        if !is_moved || !gates.is_on(ManagerGate::EnableQuotaAdmissionOnUpdate) {
            return Ok(None);
        }
    }
    quota_for(new, quotas, gates)
}

/// The name of the quota a pod is charged to; `None` when it is charged to none.
fn charged_name<'a>(
    pod: &'a Pod,
    quotas: &'a [ElasticQuota],
    gates: &Gates<ManagerGate>,
) -> Option<&'a str> {
    let is_named = NAME.raw(&pod.metadata).is_some_and(|name| !name.is_empty());
    if !is_named && gates.is_on(ManagerGate::DisableDefaultQuota) {
        return None;
    }
    let name = quota_of(&pod.metadata, quotas.iter().map(|quota| &quota.metadata));
    Some(name).filter(|name| ![ROOT, SYSTEM, DEFAULT].contains(name))
}

/// The quota a pod is charged to, if any.
fn quota_for<'q>(
    pod: &Pod,
    quotas: &'q [ElasticQuota],
    gates: &Gates<ManagerGate>,
) -> Result<Option<&'q ElasticQuota>, Denied> {
    let Some(wanted) = charged_name(pod, quotas, gates) else { return Ok(None) };
    let mut found = quotas.iter().filter(|quota| quota.metadata.name.as_deref() == Some(wanted));
    match (found.next(), found.next()) {
        (Some(quota), None) => Ok(Some(quota)),
        (None, _) => Err(Denied::rule(format!("the pod's quota {wanted} does not exist"))),
        (Some(_), Some(_)) => {
            Err(Denied::rule(format!("there are several quotas named {wanted}; keep one")))
        }
    }
}

/// What the quota's annotation becomes when the pod is charged; `None` when nothing changes.
pub fn charge(
    pod: &Pod,
    quota: &ElasticQuota,
    gates: &Gates<ManagerGate>,
) -> Result<Option<ResourceList>, Denied> {
    let max = &quota.spec.max;
    if !COUNTED.iter().any(|name| max.contains_key(*name)) {
        return Ok(None);
    }
    let requested = requested(pod, max, gates);
    if requested.is_empty() {
        return Ok(None);
    }
    let given = ADMISSION.get(&quota.metadata).filter(|list| !list.is_empty());
    let limit = given.as_ref().unwrap_or(max);
    let mut used = CHILD_REQUEST.get(&quota.metadata).unwrap_or_default();
    let of = |list: &ResourceList, name: &str| list.get(name).copied().unwrap_or_default();
    let exceeded: Vec<&String> = requested
        .iter()
        .filter(|(name, amount)| {
            limit.get(*name).is_some_and(|limit| of(&used, name) + **amount > *limit)
        })
        .map(|(name, _)| name)
        .collect();
    if !exceeded.is_empty() {
        let show = |list: &ResourceList| {
            let parts = exceeded.iter().map(|name| format!("{name}={}", of(list, name)));
            parts.collect::<Vec<_>>().join(",")
        };
        return Err(Denied::rule(format!(
            "exceeded quota: {}/{}, requested: {}, used: {}, limited: {}",
            quota.metadata.namespace.as_deref().unwrap_or_default(),
            quota.metadata.name.as_deref().unwrap_or_default(),
            show(&requested),
            show(&used),
            show(limit),
        )));
    }
    for (name, amount) in requested {
        *used.entry(name).or_default() += amount;
    }
    Ok(Some(used))
}

fn requested(pod: &Pod, max: &ResourceList, gates: &Gates<ManagerGate>) -> ResourceList {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let Some(spec) = pod.spec.as_ref().filter(|_| !matches!(phase, Some("Succeeded" | "Failed")))
    else {
        return ResourceList::new();
    };
    let replaces = gates.is_on(ManagerGate::ElasticQuotaEvaluationTransformPod)
        && gates.is_on(ManagerGate::ReplaceResourcesTransformer);
    let requests = match REPLACE_RESOURCES.get(&pod.metadata).filter(|_| replaces) {
        Some(mapping) => {
            let mut spec = spec.clone();
            mapping.apply(&mut spec);
            pod_requests(&spec)
        }
        None => pod_requests(spec),
    };
    let counts = |(name, amount): &(String, Quantity)| max.contains_key(name) && !amount.is_zero();
    requests.into_iter().filter(counts).collect()
}
