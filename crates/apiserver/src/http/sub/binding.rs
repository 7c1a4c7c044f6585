//! `binding`: the scheduler's one write.

use axum::response::Response;
use objects::schema::names;
use serde::Deserialize;
use serde_json::{Value, json};

use super::done;
use crate::http::admission::{self, Attributes, Operation};
use crate::http::call::Call;
use crate::http::decode;
use crate::http::negotiate;
use crate::http::query::WriteOptions;
use crate::http::source::seconds;
use crate::http::status::{Cause, Status, Subject};
use crate::http::write::{Change, Part};
use crate::http::{meta, write};

/// POST to `pods/NAME/binding`.
pub(super) async fn bind_named(call: &mut Call) -> Result<Response, Status> {
    bind(call).await
}

/// POST to `bindings`, where the object names the pod.
pub(super) async fn bind(call: &mut Call) -> Result<Response, Status> {
    let options = WriteOptions::from_query(&call.query, &call.headers, "CreateOptions")?;
    let kind = negotiate::object_body(&call.headers, call.served.traits.custom)?;
    let mut binding = decode::value(&call.body, kind, "Binding")?;
    meta::check_shape(&mut binding)?;
    check(call, &binding)?;
    if call.target.name.is_none() {
        call.target.name = Some(meta::name(&binding).to_owned());
        let pods = call.server.registry().find("", "v1", "pods").cloned();
        call.served = pods.ok_or_else(Status::unknown_resource)?;
        call.target.resource = "pods".to_owned();
    }
    call.target.subresource = Some("binding".to_owned());
    let mut attributes = Attributes::new(call, Operation::Create, options.dry_run);
    attributes.name = call.name().to_owned();
    admission::mutate(call, &attributes, &mut binding, None).await?;
    admission::validate(call, &attributes, Some(&binding), None).await?;
    let mut change = Bind { binding };
    write::modify_admitted(call, &options, Part::Other, &mut change).await?;
    done(call)
}

fn check(call: &Call, binding: &Value) -> Result<(), Status> {
    let name = meta::name(binding);
    let text = |path: &str| binding.pointer(path).and_then(Value::as_str).unwrap_or_default();
    if let Some(wanted) = &call.target.name
        && !name.is_empty()
        && name != wanted
    {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let mut causes = Vec::new();
    if call.target.name.is_none() && name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    }
    if !matches!(text("/target/kind"), "" | "Node") {
        let kind = binding.pointer("/target/kind").unwrap_or(&Value::Null);
        causes.push(Cause::unsupported("target.kind", kind, &["Node", "<empty>"]));
    }
    match text("/target/name") {
        "" => causes.push(Cause::required("target.name", "")),
        // The name becomes part of paths on the node.
        node => causes.extend(
            names::dns_subdomain(node)
                .into_iter()
                .map(|why| Cause::invalid("target.name", &json!(node), why)),
        ),
    }
    match causes.first() {
        None => Ok(()),
        // Kubernetes does not dress this refusal up.
        Some(cause) => Err(Status::new(
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            "",
            format!("{}: {}", cause.field, cause.message),
        )),
    }
}

struct Bind {
    binding: Value,
}

impl Change for Bind {
    fn apply(&mut self, pod: &Value, call: &mut Call) -> Result<Value, Status> {
        let node = self.binding.pointer("/target/name").and_then(Value::as_str).unwrap_or_default();
        refuse(pod, &self.binding)?;
        let mut next = pod.clone();
        next["spec"]["nodeName"] = json!(node);
        if let Some(more) = meta::metadata(&self.binding).get("annotations") {
            merge(&mut next, "annotations", more);
        }
        if let Some(more) = meta::metadata(&self.binding).get("labels") {
            merge(&mut next, "labels", more);
        }
        copy_topology(call, &mut next, node);
        set_scheduled(&mut next, &seconds(call.server.options().clock.now()));
        Ok(next)
    }

    /// Nobody owns a pod's place.
    fn tracks(&self) -> bool {
        false
    }
}

fn refuse(pod: &Value, binding: &Value) -> Result<(), Status> {
    let name = meta::name(pod);
    let conflict = |why: String| {
        Err(Status::conflict(Subject { group: "", resource: "pods/binding", name }, why))
    };
    let uid = meta::uid(binding);
    if !uid.is_empty() && uid != meta::uid(pod) {
        return conflict(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            meta::uid(pod)
        ));
    }
    let version = meta::resource_version(binding);
    if !version.is_empty() && version != meta::resource_version(pod) {
        return conflict(format!(
            "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in \
             object meta: {}",
            meta::resource_version(pod)
        ));
    }
    if meta::is_deleting(pod) {
        return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
    if !node.is_empty() {
        return conflict(format!("pod {name} is already assigned to node {node:?}"));
    }
    let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

fn merge(pod: &mut Value, field: &str, more: &Value) {
    let entry = meta::metadata_mut(pod).entry(field).or_insert_with(|| json!({}));
    if let (Some(entry), Some(more)) = (entry.as_object_mut(), more.as_object()) {
        entry.extend(more.clone());
    }
}

/// As much of a node as matters here.
#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    metadata: NodeMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeMetadata {
    labels: Option<serde_json::Map<String, Value>>,
}

/// A pod learns the zone and region of its node.
fn copy_topology(call: &Call, pod: &mut Value, node: &str) {
    let Some(node) = call.server.read::<Node>("", "nodes", "", node) else { return };
    let wanted = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
    let labels = node.metadata.labels.unwrap_or_default();
    let found: serde_json::Map<String, Value> =
        labels.into_iter().filter(|(key, _)| wanted.contains(&key.as_str())).collect();
    if !found.is_empty() {
        merge(pod, "labels", &Value::Object(found));
    }
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let condition = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now});
    let Some(fields) = pod.as_object_mut() else { return };
    let status = fields.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    conditions
        .retain(|condition| condition.get("type").and_then(Value::as_str) != Some("PodScheduled"));
    conditions.push(condition);
}
