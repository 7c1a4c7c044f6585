//! What do the webhooks answer, given what is known of the cluster?
//!
//! [`answer`] is one webhook, as the manager serves it. [`admit`] is all of them, one after the other as
//! an API server asks them: those that edit first, those that judge then, about the object as it has
//! become. Whoever has the objects at hand needs no cluster for either.

use api::config::Options as ConfigOptions;
use api::config::selector::Labels;
use api::kind::{ElasticQuota, ElasticQuotaProfile};
use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::webhook::{
    MUTATE_ELASTIC_QUOTA, MUTATE_NODE_STATUS, MUTATE_POD, MUTATE_RESERVATION, Stage,
    VALIDATE_CONFIG_MAP, VALIDATE_ELASTIC_QUOTA, VALIDATE_NODE, VALIDATE_POD, WEBHOOKS, Webhook,
};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::Value;

use super::config_map::{Data, Nodes};
use super::profile::{Dice, PriorityClasses, Profile};
use super::review::{Operation, Request};
use super::validate::Demands;
use super::{
    Admitted, Denied, Verdict, charge, config_map, node, pod, quota, reservation, validate,
};

/// What is known of the cluster when a request is judged.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Sorted by name.
    pub profiles: &'a [Profile],
    /// Labels of the request's namespace; `None` when it is not known.
    pub namespace: Option<&'a Labels>,
    pub priority_classes: &'a PriorityClasses,
    pub quotas: &'a [ElasticQuota],
    /// Quotas that were admitted a moment ago and are not among the others yet.
    pub recent_quotas: &'a [ElasticQuota],
    pub quota_profiles: &'a [ElasticQuotaProfile],
    /// Names of pods that count against the quota in question.
    pub pods_of_quota: &'a [String],
    pub nodes: &'a Nodes,
    /// The ConfigMap in force, for nodes that are judged by it.
    pub configuration: &'a Data,
    pub demands: &'a Demands,
    pub gates: &'a Gates<ManagerGate>,
    /// Namespace and name of the ConfigMap that is judged, and how strictly.
    pub config_map: (&'a str, &'a str, ConfigOptions),
    /// Some pairs of QoS and priority class are refused that the reference admits.
    pub is_strict: bool,
    /// For profiles that apply by chance.
    pub dice: Dice<'a>,
}

/// The object before the request; `None` when it is new.
pub fn old(request: &Request) -> Option<&Value> {
    Some(&request.old_object).filter(|old| !old.is_null())
}

/// The namespace that an object is in, or is put into.
pub fn namespace_of(request: &Request) -> &str {
    let named = request.object.pointer("/metadata/namespace").and_then(Value::as_str);
    named.filter(|name| !name.is_empty()).unwrap_or(&request.namespace)
}

/// The answer of the webhook at `path`.
pub fn answer(path: &str, request: &Request, context: &Context<'_>) -> Verdict {
    use Operation::{Create, Delete, Update};
    match (path, request.operation) {
        (MUTATE_POD, Create) => mutate_pod(request, context),
        (VALIDATE_POD, Create | Update) => validate_pod(request, context),
        (MUTATE_NODE_STATUS, Update) => {
            node::mutate_status(&request.old_object, &request.object, &request.user_info.username)
        }
        (VALIDATE_NODE, Update) => {
            node::validate(&request.old_object, &request.object, context.configuration)
        }
        (VALIDATE_CONFIG_MAP, Create | Update) => validate_config_map(request, context),
        (MUTATE_ELASTIC_QUOTA, Create) => quota::mutate(&request.object, context.quotas),
        (VALIDATE_ELASTIC_QUOTA, Create | Update | Delete) => validate_quota(request, context),
        (MUTATE_RESERVATION, Create) => {
            let around = reservation::Surroundings {
                profiles: context.profiles,
                priority_classes: context.priority_classes,
                gates: context.gates,
                dice: context.dice,
            };
            reservation::mutate(&request.object, &around)
        }
        _ => Ok(Admitted::default()),
    }
}

fn mutate_pod(request: &Request, context: &Context<'_>) -> Verdict {
    let around = pod::Surroundings {
        profiles: context.profiles,
        namespace: context.namespace,
        priority_classes: context.priority_classes,
        quotas: context.quotas,
        quota_profiles: context.quota_profiles,
        gates: context.gates,
        dice: context.dice,
    };
    pod::mutate(&request.object, namespace_of(request), &around)
}

fn validate_pod(request: &Request, context: &Context<'_>) -> Verdict {
    let around = validate::Surroundings {
        quotas: context.quotas,
        gates: context.gates,
        demands: context.demands,
        is_strict: context.is_strict,
    };
    let verdict = validate::validate(old(request), &request.object, &request.namespace, &around)?;
    if let Some((pod, quota)) = charged(request, context.quotas, context.gates)? {
        charge::charge(&pod, quota, context.gates)?;
    }
    Ok(verdict)
}

/// The pod of a request and the quota that it is charged to; `None` when it is charged to none.
pub fn charged<'q>(
    request: &Request,
    quotas: &'q [ElasticQuota],
    gates: &Gates<ManagerGate>,
) -> Result<Option<(Pod, &'q ElasticQuota)>, Denied> {
    if !gates.is_on(ManagerGate::EnableQuotaAdmission) {
        return Ok(None);
    }
    let read = |value: &Value| Pod::deserialize(value).ok();
    let Some(mut pod) = read(&request.object) else { return Ok(None) };
    pod.metadata.namespace.get_or_insert_with(|| request.namespace.clone());
    let mut before = old(request).and_then(read);
    if let Some(before) = &mut before {
        before.metadata.namespace.get_or_insert_with(|| request.namespace.clone());
    }
    let quota = charge::target(before.as_ref(), &pod, quotas, gates)?;
    Ok(quota.map(|quota| (pod, quota)))
}

fn validate_config_map(request: &Request, context: &Context<'_>) -> Verdict {
    let (namespace, name, options) = context.config_map;
    if (request.namespace.as_str(), request.name.as_str()) != (namespace, name) {
        return Ok(Admitted::default());
    }
    let data = |object: &Value| Data::deserialize(&object["data"]).unwrap_or_default();
    let object = format!("ConfigMap {namespace}/{name}");
    let before = old(request).map(data);
    config_map::validate(before.as_ref(), &data(&request.object), &object, options, context.nodes)
}

fn validate_quota(request: &Request, context: &Context<'_>) -> Verdict {
    let around = quota::Surroundings {
        quotas: context.quotas,
        recent: context.recent_quotas,
        pods: context.pods_of_quota,
        gates: context.gates,
    };
    match (request.operation, old(request)) {
        (Operation::Delete, Some(old)) => quota::validate_delete(old, &around),
        (Operation::Delete, None) => Ok(Admitted::default()),
        (_, old) => quota::validate(old, &request.object, &around),
    }
}

/// What becomes of an object that is sent to a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// Webhooks that were asked, in order.
    pub asked: Vec<&'static Webhook>,
    /// Webhooks that look at such objects and whose gates are off.
    pub off: Vec<&'static Webhook>,
    /// All edits together, and all warnings; or the first refusal.
    pub verdict: Verdict,
}

/// Asks every webhook for this kind of object: a plural name, with a subresource or without.
pub fn admit(resource: &str, request: &Request, context: &Context<'_>) -> Admission {
    let operation = request.operation.as_str();
    let is_meant = |webhook: &&Webhook| {
        webhook.resource.2 == resource && webhook.operations.contains(&operation)
    };
    let is_on = |webhook: &&Webhook| {
        context.gates.is_on(ManagerGate::WebhookFramework) && context.gates.is_on(webhook.gate)
    };
    let meant = WEBHOOKS.iter().filter(is_meant);
    let (mut asked, off): (Vec<&'static Webhook>, Vec<&'static Webhook>) = meant.partition(is_on);
    asked.sort_by_key(|webhook| webhook.stage != Stage::Mutating);
    let verdict = ask_all(&asked, request, context);
    Admission { asked, off, verdict }
}

fn ask_all(webhooks: &[&'static Webhook], request: &Request, context: &Context<'_>) -> Verdict {
    let mut request = request.clone();
    let sent = request.object.clone();
    let mut warnings = Vec::new();
    for webhook in webhooks {
        let admitted = answer(webhook.path, &request, context)?;
        warnings.extend(admitted.warnings);
        json_patch::patch(&mut request.object, &admitted.patch).map_err(|error| {
            Denied::impossible(format!("the edits of {} do not fit: {error}", webhook.name))
        })?;
    }
    Ok(Admitted::edits(&sent, &request.object, warnings))
}
