//! `scale`: the number of replicas, whatever the kind calls it.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::http::call::Call;
use crate::http::decode;
use crate::http::kinds::ScalePaths;
use crate::http::negotiate::{self, BodyKind, Shapes};
use crate::http::query::WriteOptions;
use crate::http::server::object_of;
use crate::http::status::{Cause, Status};
use crate::http::verbs::patch::refusal;
use crate::http::verbs::update::claim_name;
use crate::http::write::{Change, Part};
use crate::http::{meta, respond, write};
use objects::patch;

pub(super) async fn serve(
    call: &mut Call,
    paths: &ScalePaths,
    verb: &str,
) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::Plain)?;
    if verb == "get" {
        let stored = call.server.store().get(&call.key()?);
        let stored = stored.ok_or_else(|| Status::not_found(call.subject()))?;
        let scale = scale_of(&object_of(&stored, &call.served)?, paths);
        return respond::value(answer.encoding, StatusCode::OK, &scale);
    }
    let (kind, options) = match verb {
        "update" => (
            negotiate::object_body(&call.headers, call.served.traits.custom)?,
            WriteOptions::from_query(&call.query, &call.headers, "UpdateOptions")?,
        ),
        _ => (
            negotiate::patch_body(&call.headers, true)?,
            WriteOptions::from_query(&call.query, &call.headers, "PatchOptions")?,
        ),
    };
    let body = match kind {
        BodyKind::JsonPatch => Value::Null,
        BodyKind::Json | BodyKind::Yaml | BodyKind::Protobuf => {
            decode::value(&call.body, kind, "Scale")?
        }
        _ => decode::patch(&call.body, kind)?,
    };
    let mut change = Rescale { kind, body, paths: paths.clone() };
    let outcome = write::modify(call, &options, Part::Other, &mut change).await?;
    let scale = scale_of(&outcome.written.object(call)?, paths);
    respond::value(answer.encoding, StatusCode::OK, &scale)
}

struct Rescale {
    kind: BodyKind,
    body: Value,
    paths: ScalePaths,
}

impl Change for Rescale {
    fn apply(&mut self, current: &Value, call: &mut Call) -> Result<Value, Status> {
        let scale = scale_of(current, &self.paths);
        let wanted = match self.kind {
            BodyKind::JsonPatch => patch::json(&scale, &call.body),
            BodyKind::Json | BodyKind::Yaml | BodyKind::Protobuf => Ok(self.body.clone()),
            // Lists do not occur in a Scale, so all merging dialects agree.
            _ => patch::merge(&scale, &self.body),
        };
        let mut wanted = wanted.map_err(refusal)?;
        meta::check_shape(&mut wanted)?;
        claim_name(call, &wanted)?;
        let replicas = replicas(&wanted, call.name())?;
        let mut next = current.clone();
        set(&mut next, &self.paths.spec_replicas, replicas.into());
        let version = meta::resource_version(&wanted);
        if !version.is_empty() {
            meta::set(&mut next, "resourceVersion", version);
        }
        Ok(next)
    }
}

fn replicas(scale: &Value, name: &str) -> Result<i64, Status> {
    let value = scale.pointer("/spec/replicas").filter(|value| !value.is_null());
    let Some(value) = value else { return Ok(0) };
    let Some(replicas) = value.as_i64() else {
        return Err(Status::bad_request(format!(
            "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal {} into \
             Go struct field ScaleSpec.spec.replicas of type int32",
            if value.is_string() { "string" } else { "number" }
        )));
    };
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let cause = Cause::invalid("spec.replicas", value, why);
        return Err(Status::invalid("autoscaling", "Scale", name, vec![cause]));
    }
    Ok(replicas)
}

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, step| value.get(step))
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let mut place = object;
    for step in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[step.as_str()];
    }
    *place = value;
}

/// The object as a Scale.
fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let metadata: Map<String, Value> =
        ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
            .iter()
            .filter_map(|field| {
                let value = meta::metadata(object).get(*field)?;
                Some(((*field).to_owned(), value.clone()))
            })
            .collect();
    let number = |path: &[String]| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": number(&paths.spec_replicas)},
        "status": {"replicas": number(&paths.status_replicas)},
    });
    let selector = match &paths.selector {
        Some(path) if path.is_empty() => String::new(),
        Some(path) => at(object, path).and_then(Value::as_str).unwrap_or_default().to_owned(),
        None => selector_text(object.pointer("/spec/selector")),
    };
    if !selector.is_empty() {
        scale["status"]["selector"] = json!(selector);
    }
    scale
}

/// A label selector in the form that list requests take.
fn selector_text(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return String::new() };
    let mut parts: Vec<String> = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
        let values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        parts.push(match text("operator") {
            "In" => format!("{} in ({})", text("key"), values.join(",")),
            "NotIn" => format!("{} notin ({})", text("key"), values.join(",")),
            "Exists" => text("key").to_owned(),
            _ => format!("!{}", text("key")),
        });
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shows_what_the_paths_point_at() {
        let steps = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<String>>();
        let paths = ScalePaths {
            spec_replicas: steps("spec.size"),
            status_replicas: steps("status.ready"),
            selector: Some(steps("status.selector")),
        };
        let mut object = json!({"metadata": {"name": "x"}, "status": {"selector": "a=b"}});
        set(&mut object, &paths.spec_replicas, json!(3));
        let scale = scale_of(&object, &paths);
        assert_eq!(scale["spec"]["replicas"], 3);
        assert_eq!(scale["status"], json!({"replicas": 0, "selector": "a=b"}));
    }

    #[test]
    fn replicas_are_whole_and_not_negative() {
        assert_eq!(replicas(&json!({"spec": {"replicas": 2}}), "x").ok(), Some(2));
        assert_eq!(replicas(&json!({"spec": {}}), "x").ok(), Some(0));
        assert_eq!(replicas(&json!({"spec": {"replicas": -1}}), "x").unwrap_err().code, 422);
        assert_eq!(replicas(&json!({"spec": {"replicas": "2"}}), "x").unwrap_err().code, 400);
    }
}
