//! Admission webhooks: names, paths, and what each one sees.

use crate::protocol::gate::ManagerGate;

pub const MUTATING_CONFIGURATION: &str = "koordinator-mutating-webhook-configuration";
pub const VALIDATING_CONFIGURATION: &str = "koordinator-validating-webhook-configuration";
pub const SERVICE: &str = "koordinator-webhook-service";
pub const SERVICE_PORT: u16 = 443;
pub const TIMEOUT_SECONDS: i32 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Mutating,
    Validating,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    Fail,
    Ignore,
}

/// One entry of a webhook configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Webhook {
    pub name: &'static str,
    pub path: &'static str,
    pub stage: Stage,
    pub operations: &'static [&'static str],
    /// API group, version and resource (with subresource).
    pub resource: (&'static str, &'static str, &'static str),
    /// What our installer writes; a failing manager must not stop a cluster's pods.
    pub failure_policy: FailurePolicy,
    /// The gate that registers the handler.
    pub gate: ManagerGate,
}

macro_rules! webhooks {
    ($($name:literal $stage:ident $path:ident [$($operation:literal),*] ($group:literal, $version:literal, $resource:literal)
       $policy:ident $gate:ident;)*) => {
        pub const WEBHOOKS: &[Webhook] = &[$(Webhook {
            name: $name,
            path: $path,
            stage: Stage::$stage,
            operations: &[$($operation),*],
            resource: ($group, $version, $resource),
            failure_policy: FailurePolicy::$policy,
            gate: ManagerGate::$gate,
        }),*];
    };
}

webhooks! {
    "mpod-create.koordinator.sh" Mutating MUTATE_POD ["CREATE"]
        ("", "v1", "pods") Ignore PodMutatingWebhook;
    "mpod-update.koordinator.sh" Mutating MUTATE_POD ["UPDATE"]
        ("", "v1", "pods") Ignore PodMutatingWebhook;
    "vpod.koordinator.sh" Validating VALIDATE_POD ["CREATE", "UPDATE"]
        ("", "v1", "pods") Ignore PodValidatingWebhook;
    "vpodbinding.koordinator.sh" Validating VALIDATE_POD_BINDING ["CREATE"]
        ("", "v1", "pods/binding") Ignore PodValidatingWebhook;
    "vconfigmap.koordinator.sh" Validating VALIDATE_CONFIG_MAP ["CREATE", "UPDATE", "DELETE"]
        ("", "v1", "configmaps") Fail ConfigMapValidatingWebhook;
    "vnode.koordinator.sh" Validating VALIDATE_NODE ["CREATE", "UPDATE"]
        ("", "v1", "nodes") Ignore NodeValidatingWebhook;
    "mnode-status.koordinator.sh" Mutating MUTATE_NODE_STATUS ["CREATE", "UPDATE"]
        ("", "v1", "nodes/status") Ignore NodeMutatingWebhook;
    "melasticquota.koordinator.sh" Mutating MUTATE_ELASTIC_QUOTA ["CREATE"]
        ("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas") Ignore ElasticMutatingWebhook;
    "velasticquota.koordinator.sh" Validating VALIDATE_ELASTIC_QUOTA ["CREATE", "UPDATE", "DELETE"]
        ("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas") Ignore ElasticValidatingWebhook;
    "mreservation-create.koordinator.sh" Mutating MUTATE_RESERVATION ["CREATE"]
        ("scheduling.koordinator.sh", "v1alpha1", "reservations") Ignore ReservationMutatingWebhook;
}

pub const MUTATE_POD: &str = "/mutate-pod";
pub const VALIDATE_POD: &str = "/validate-pod";
pub const VALIDATE_POD_BINDING: &str = "/validate-pod-binding";
pub const VALIDATE_CONFIG_MAP: &str = "/validate-configmap";
pub const VALIDATE_NODE: &str = "/validate-node";
pub const MUTATE_NODE_STATUS: &str = "/mutate-node-status";
pub const MUTATE_ELASTIC_QUOTA: &str = "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota";
pub const VALIDATE_ELASTIC_QUOTA: &str = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota";
pub const MUTATE_RESERVATION: &str = "/mutate-reservation";

/// Why a ConfigMap is refused. The answer's text wraps
/// `{"reason": R, "message": M}` in [`CONFIG_MAP_MARK`]s; consoles parse it.
pub mod config_map_reason {
    pub const PARSE: &str = "ParseConfigFail";
    pub const INVALID: &str = "ConfigParamInvalid";
    pub const OVERLAP: &str = "NodeStrategiesOverlap";
    /// Spelled so on the wire, without the second l.
    pub const CONFLICT: &str = "ExistNodeConfict";
}
pub const CONFIG_MAP_MARK: &str = "___";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::protocol::gate::Gate;

    #[test]
    fn names_are_unique_and_the_core_ones_are_on() {
        let names = WEBHOOKS.iter().map(|webhook| webhook.name).collect::<BTreeSet<_>>();
        assert_eq!(names.len(), WEBHOOKS.len());
        let on = WEBHOOKS.iter().filter(|webhook| webhook.gate.is_on_by_default());
        let on = on.map(|webhook| webhook.path).collect::<BTreeSet<_>>();
        assert!(on.contains(MUTATE_POD) && on.contains(VALIDATE_POD));
        assert!(!on.contains(VALIDATE_CONFIG_MAP));
    }
}
