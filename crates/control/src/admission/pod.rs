//! What must be changed about a new pod?
//!
//! ```text
//! profiles -> cpu and memory become batch or mid resources
//!          -> the annotation that repeats batch resources
//!          -> node affinity of the quota's tree   (gate MultiQuotaTree)
//!          -> shorthand for GPUs spelled out
//! ```
//!
//! Resources are renamed only when a profile means the pod, even if chance
//! passed it over, and none of those profiles says to leave them alone.
//! Updates are not touched.

use api::config::selector::Labels;
use api::kind::{ElasticQuota, ElasticQuotaProfile};
use api::metadata::Wire;
use api::metadata::quota::quota_of;
use api::priority;
use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::name::quota::DEFAULT;
use api::protocol::pod::EXTENDED_RESOURCE_SPEC;
use api::protocol::quota::TREE_ID;
use api::resources::{self, WireList};
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use super::profile::{Dice, Means, PriorityClasses, Profile, Target};
use super::{Admitted, Denied, Verdict, decode, device, map_at, sentence};

/// What a pod is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Sorted by name.
    pub profiles: &'a [Profile],
    /// Labels of the pod's namespace; `None` when it is not known.
    pub namespace: Option<&'a Labels>,
    pub priority_classes: &'a PriorityClasses,
    pub quotas: &'a [ElasticQuota],
    pub quota_profiles: &'a [ElasticQuotaProfile],
    pub gates: &'a Gates<ManagerGate>,
    /// For profiles that apply by chance.
    pub dice: Dice<'a>,
}

/// The edits of a pod that is created in `namespace`.
pub fn mutate(pod: &Value, namespace: &str, around: &Surroundings<'_>) -> Verdict {
    decode::<Pod>("pod", pod)?;
    let is_on = |gate| around.gates.is_on(gate);
    let mut next = pod.clone();

    let means = Means {
        profiles: around.profiles,
        target: Target::Pod,
        namespace: around.namespace,
        classes: around.priority_classes,
        dice: around.dice,
    };
    let matched = means.apply(&mut next)?;
    let keeps = matched.iter().any(|profile| profile.keeps_resources());
    if !matched.is_empty() && !keeps && !is_on(ManagerGate::ColocationProfileSkipMutatingResources)
    {
        translate(&mut next)?;
    }
    if !is_on(ManagerGate::DisableExtendedResourceSpec) {
        repeat_batch_resources(&mut next)?;
    }
    if is_on(ManagerGate::MultiQuotaTree) {
        stay_in_tree(&mut next, namespace, around)?;
    }
    if !is_on(ManagerGate::DisableDeviceResourceSpec) {
        device::expand(&mut next);
    }
    Ok(Admitted::edits(pod, &next, Vec::new()))
}

/// After profiles have changed a pod it may not be one any more.
fn decode_changed(pod: &Value) -> Result<Pod, Denied> {
    decode("pod", pod).map_err(|denied| {
        Denied::impossible(format!("a profile's patch does not fit the pod: {}", denied.message))
    })
}

/// Gives cpu and memory the names of the pod's class.
fn translate(pod: &mut Value) -> Result<(), Denied> {
    let typed = decode_changed(pod)?;
    let class = priority::effective(&typed);
    let Some(before) = typed.spec else { return Ok(()) };
    let mut after = before.clone();
    if !resources::translate(&mut after, class) {
        return Ok(());
    }
    let lists = [
        ("containers", before.containers, after.containers),
        (
            "initContainers",
            before.init_containers.unwrap_or_default(),
            after.init_containers.unwrap_or_default(),
        ),
    ];
    for (list, before, after) in lists {
        for (index, (before, after)) in before.iter().zip(&after).enumerate() {
            if before != after {
                write_resources(pod, list, index, after);
            }
        }
    }
    if before.overhead != after.overhead
        && let Some(spec) = map_at(pod, &["spec"])
    {
        spec.insert("overhead".into(), json!(after.overhead));
    }
    Ok(())
}

fn write_resources(pod: &mut Value, list: &str, index: usize, container: &Container) {
    let Some(wanted) = &container.resources else { return };
    let Some(own) = pod.pointer_mut(&format!("/spec/{list}/{index}")) else { return };
    let Some(own) = map_at(own, &["resources"]) else { return };
    let mut write = |name: &str, list: &Option<WireList>| {
        if let Some(list) = list {
            own.insert(name.into(), json!(list));
        }
    };
    write("requests", &wanted.requests);
    write("limits", &wanted.limits);
}

/// The container runtime cannot see batch resources; an annotation tells the agent.
fn repeat_batch_resources(pod: &mut Value) -> Result<(), Denied> {
    let typed = decode_changed(pod)?;
    let wanted = resources::extended_resource_spec(&typed).map_err(|findings| {
        let findings: Vec<String> = findings.iter().map(sentence).collect();
        Denied::impossible(findings.join("; "))
    })?;
    if let Some(wanted) = wanted
        && let Some(annotations) = map_at(pod, &["metadata", "annotations"])
    {
        annotations.insert(EXTENDED_RESOURCE_SPEC.name.into(), wanted.print().into());
    }
    Ok(())
}

/// Keeps a pod on the nodes of its quota's tree.
fn stay_in_tree(pod: &mut Value, namespace: &str, around: &Surroundings<'_>) -> Result<(), Denied> {
    let mut typed = decode_changed(pod)?;
    typed.metadata.namespace = Some(namespace.to_owned());
    // A quota in another namespace that is called as this one counts where no quota lists it.
    let name = match quota_of(&typed.metadata, around.quotas.iter().map(|quota| &quota.metadata)) {
        DEFAULT => namespace,
        name => name,
    };
    let quota = around.quotas.iter().find(|quota| quota.metadata.name.as_deref() == Some(name));
    let tree = quota.and_then(|quota| TREE_ID.raw(&quota.metadata)).unwrap_or_default();
    if tree.is_empty() {
        return Ok(());
    }
    let of_tree = |profile: &&ElasticQuotaProfile| TREE_ID.raw(&profile.metadata) == Some(tree);
    let place = |profile: &&ElasticQuotaProfile| {
        (profile.metadata.namespace.clone(), profile.metadata.name.clone())
    };
    let Some(profile) = around.quota_profiles.iter().filter(of_tree).min_by_key(place) else {
        return Ok(());
    };
    let selector = &profile.spec.node_selector;
    let labels = selector.match_labels.iter().flatten();
    let mut wanted: Vec<Value> = labels
        .map(|(key, value)| json!({ "key": key, "operator": "In", "values": [value] }))
        .collect();
    wanted.extend(selector.match_expressions.iter().flatten().map(|expression| json!(expression)));
    require(pod, &wanted);
    Ok(())
}

/// Adds requirements to every alternative of the pod's required node affinity.
fn require(pod: &mut Value, wanted: &[Value]) {
    const PATH: &[&str] =
        &["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    if wanted.is_empty() {
        return;
    }
    let Some(required) = map_at(pod, PATH) else { return };
    let terms = required.entry("nodeSelectorTerms").or_insert_with(|| json!([]));
    if terms.as_array().is_none_or(Vec::is_empty) {
        *terms = json!([{}]);
    }
    for term in terms.as_array_mut().into_iter().flatten() {
        let Some(term) = map_at(term, &[]) else { continue };
        let own = term.entry("matchExpressions").or_insert_with(|| json!([]));
        if own.is_null() {
            *own = json!([]);
        }
        let Some(own) = own.as_array_mut() else { continue };
        let new: Vec<Value> = wanted.iter().filter(|one| !own.contains(one)).cloned().collect();
        own.extend(new);
    }
}
