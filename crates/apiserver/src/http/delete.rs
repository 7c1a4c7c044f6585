//! How does an object die?
//!
//! At once, if nothing holds it back. Finalizers and a pod's grace period do: then the object gets
//! a deletion timestamp and stays until the last finalizer is taken off, or until its node
//! confirms with a second delete and a grace period of zero. What happens to dependants is written
//! down as a finalizer (`foregroundDeletion`, `orphan`) for the garbage collector.

use axum::http::StatusCode;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::admission::{self, Attributes, Operation};
use super::call::Call;
use super::consequences::{self, Consequence};
use super::definitions::CLEANUP;
use super::kinds::Served;
use super::negotiate::{self, Shapes};
use super::query::dry_run;
use super::respond::{self, Written};
use super::server::{ApiServer, object_of};
use super::source::seconds;
use super::status::{Cause, Deleted, Status, Subject};
use super::{convert, decode, meta, write};
use crate::store::{Key, Stored, WriteError};

/// What becomes of the objects that name this one as their owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// `metav1.DeleteOptions`
#[derive(Debug, Clone, Default)]
pub(super) struct DeleteOptions {
    pub(super) dry_run: bool,
    pub(super) grace_period: Option<i64>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    propagation: Option<Propagation>,
    /// The old spelling, `orphanDependents: false`, which is answered with 202.
    cascades_explicitly: bool,
}

impl DeleteOptions {
    /// Options come in the body, or as query parameters when there is none.
    pub(super) fn from_call(call: &Call) -> Result<Self, Status> {
        if call.body.is_empty() {
            return Self::from_query(call);
        }
        let kind = negotiate::object_body(&call.headers, false)?;
        let value = decode::value(&call.body, kind, "DeleteOptions")
            .map_err(|status| Status::bad_request(plain(&status.message)))?;
        Self::from_value(&value)
    }

    fn from_query(call: &Call) -> Result<Self, Status> {
        let mut causes = Vec::new();
        let dry_run = dry_run(call.query.all("dryRun"), &mut causes);
        let options = Self {
            dry_run,
            grace_period: call.query.integer("gracePeriodSeconds")?,
            uid: None,
            resource_version: None,
            propagation: propagation(call.query.get("propagationPolicy"), &mut causes),
            cascades_explicitly: false,
        };
        options.orphan(call.query.flag("orphanDependents"), causes)
    }

    pub(super) fn from_value(value: &Value) -> Result<Self, Status> {
        let kind = meta::kind(value);
        if !kind.is_empty() && kind != "DeleteOptions" {
            let why = decode::unregistered(meta::api_version(value), kind);
            return Err(Status::bad_request(why));
        }
        check_types(value)?;
        let text = |path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let mut causes = Vec::new();
        let dry = value.get("dryRun").and_then(Value::as_array);
        let dry = dry.into_iter().flatten().filter_map(Value::as_str);
        let options = Self {
            dry_run: dry_run(dry, &mut causes),
            grace_period: value.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
            propagation: propagation(text("/propagationPolicy").as_deref(), &mut causes),
            cascades_explicitly: false,
        };
        options.orphan(value.get("orphanDependents").and_then(Value::as_bool), causes)
    }

    fn orphan(mut self, orphan: Option<bool>, mut causes: Vec<Cause>) -> Result<Self, Status> {
        match (orphan, self.propagation) {
            (Some(_), Some(_)) => causes.push(Cause::invalid(
                "propagationPolicy",
                &json!(self.propagation.map(Propagation::as_str)),
                "orphanDependents and deletionPropagation cannot be both set",
            )),
            (Some(true), None) => self.propagation = Some(Propagation::Orphan),
            (Some(false), None) => {
                self.propagation = Some(Propagation::Background);
                self.cascades_explicitly = true;
            }
            (None, _) => {}
        }
        if causes.is_empty() {
            Ok(self)
        } else {
            Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", causes))
        }
    }
}

fn propagation(text: Option<&str>, causes: &mut Vec<Cause>) -> Option<Propagation> {
    match text? {
        "" => None,
        "Background" => Some(Propagation::Background),
        "Foreground" => Some(Propagation::Foreground),
        "Orphan" => Some(Propagation::Orphan),
        other => {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            causes.push(Cause::unsupported("propagationPolicy", &json!(other), &known));
            None
        }
    }
}

/// A deletion that cannot be read must not go through.
fn check_types(value: &Value) -> Result<(), Status> {
    type Test = fn(&Value) -> bool;
    let rules: [(&str, Test, &str); 7] = [
        ("gracePeriodSeconds", Value::is_i64, "int64"),
        ("preconditions", Value::is_object, "v1.Preconditions"),
        ("preconditions/uid", Value::is_string, "types.UID"),
        ("preconditions/resourceVersion", Value::is_string, "string"),
        ("orphanDependents", Value::is_boolean, "bool"),
        ("propagationPolicy", Value::is_string, "v1.DeletionPropagation"),
        ("dryRun", Value::is_array, "[]string"),
    ];
    for (field, fits, wanted) in rules {
        let Some(found) = value.pointer(&format!("/{field}")).filter(|v| !v.is_null()) else {
            continue;
        };
        if !fits(found) {
            let kind = match found {
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Bool(_) => "bool",
                Value::Array(_) => "array",
                _ => "object",
            };
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {kind} into Go struct field DeleteOptions.{} of type \
                 {wanted}",
                field.replace('/', ".")
            )));
        }
    }
    Ok(())
}

/// A decoder's message without the kind and the bytes around it.
fn plain(message: &str) -> &str {
    let inner = message.split_once("couldn't get").map_or(0, |(before, _)| before.len());
    let text = &message[inner..];
    text.rsplit_once(" (").map_or(text, |(text, _)| text)
}

/// DELETE of one object.
pub(super) async fn one(call: &mut Call) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::One)?;
    let options = DeleteOptions::from_call(call)?;
    warn_about_orphans(call, &options);
    let name = call.name().to_owned();
    let (written, gone) = object(call, &name, &options).await?;
    let code = match (gone, options.cascades_explicitly) {
        (false, true) => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    if gone && !returns_object(&call.served) {
        let uid = meta::uid(&written.object(call)?).to_owned();
        return respond::value(answer.encoding, code, &Deleted::new(call.subject(), &uid));
    }
    respond::one(call, answer, code, &written)
}

/// Kinds whose delete answers with the object; the others answer with a status.
fn returns_object(served: &Served) -> bool {
    served.group.is_empty()
        && matches!(
            served.plural.as_str(),
            "pods"
                | "podtemplates"
                | "resourcequotas"
                | "serviceaccounts"
                | "services"
                | "persistentvolumes"
                | "persistentvolumeclaims"
        )
}

fn warn_about_orphans(call: &mut Call, options: &DeleteOptions) {
    if call.served.is("batch", "jobs") && options.propagation.is_none() {
        call.warn(
            "child pods are preserved by default when jobs are deleted; set \
             propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
             suppress this warning",
        );
    }
}

/// Deletes one object; true when it is gone.
pub(super) async fn object(
    call: &mut Call,
    name: &str,
    options: &DeleteOptions,
) -> Result<(Written, bool), Status> {
    let key = call.key_of(name)?;
    let served = call.served.clone();
    let mut admitted = false;
    loop {
        let Some(current) = call.server.store().get(&key) else {
            return Err(Status::not_found(served.subject(name)));
        };
        let object = object_of(&current, &served)?;
        check_preconditions(&served, name, options, &object)?;
        if !admitted {
            let mut attributes = Attributes::new(call, Operation::Delete, options.dry_run);
            attributes.name = name.to_owned();
            admission::mutate_delete(call, &attributes, &object).await?;
            admission::validate(call, &attributes, None, Some(&object)).await?;
            admitted = true;
        }
        let now = call.server.options().clock.now();
        let step = plan(&served, &object, options, now);
        if options.dry_run {
            let gone = matches!(step, Step::Remove(_));
            return Ok((Written::Dry(step.into_object(object)), gone));
        }
        match carry_out(call, &key, &current, object, step).await {
            Ok(done) => return Ok(done),
            Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::Missing) => return Err(Status::not_found(served.subject(name))),
            Err(error) => return Err(write::storage_error(error)),
        }
    }
}

async fn carry_out(
    call: &Call,
    key: &Key,
    current: &Stored,
    mut last: Value,
    step: Step,
) -> Result<(Written, bool), WriteError> {
    let store = call.server.store();
    match step {
        Step::Keep => Ok((Written::Stored(current.clone()), false)),
        Step::Mark(mut object) => {
            convert::to_storage(&mut object, &call.served);
            let stored = store.replace(key.clone(), object.clone(), current.revision).await?;
            Consequence::of_write(call, &object).settle(call).await;
            Ok((Written::Stored(stored), false))
        }
        Step::Remove(mut object) => {
            // Watchers see the object leave as it was stored last.
            convert::to_storage(&mut last, &call.served);
            let stored = store.remove(key.clone(), last, current.revision).await?;
            consequences::of_removal(call).await;
            meta::set(&mut object, "resourceVersion", stored.revision.to_string());
            Ok((Written::Dry(object), true))
        }
    }
}

fn check_preconditions(
    served: &Served,
    name: &str,
    options: &DeleteOptions,
    object: &Value,
) -> Result<(), Status> {
    // The kind, not the resource: Kubernetes is not of one mind here.
    let subject = Subject { group: &served.group, resource: &served.kind, name };
    let conflict = |why: String| Err(Status::conflict(subject, why));
    if let Some(wanted) = &options.uid
        && wanted != meta::uid(object)
    {
        return conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({}). The \
             object might have been deleted and then recreated",
            meta::uid(object)
        ));
    }
    if let Some(wanted) = &options.resource_version
        && wanted != meta::resource_version(object)
    {
        return conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the \
             ResourceVersion in record ({}). The object might have been modified",
            meta::resource_version(object)
        ));
    }
    Ok(())
}

/// What a delete does to an object.
#[derive(Debug, PartialEq)]
enum Step {
    /// It is dying already and this delete adds nothing.
    Keep,
    /// It stays, marked as dying.
    Mark(Value),
    Remove(Value),
}

impl Step {
    fn into_object(self, current: Value) -> Value {
        match self {
            Self::Keep => current,
            Self::Mark(object) | Self::Remove(object) => object,
        }
    }
}

fn plan(served: &Served, object: &Value, options: &DeleteOptions, now: Timestamp) -> Step {
    let mut next = object.clone();
    let mut finalizers = finalizers_after(served, object, options.propagation);
    let is_definition = served.is("apiextensions.k8s.io", "customresourcedefinitions");
    if is_definition && !meta::is_deleting(object) {
        finalizers.push(CLEANUP.to_owned());
    }
    meta::set_finalizers(&mut next, &finalizers);
    let is_namespace = served.is("", "namespaces");
    let grace = if served.is("", "pods") { pod_grace(object, options) } else { 0 };
    let waits = !finalizers.is_empty() || (is_namespace && has_spec_finalizers(object));

    if meta::is_deleting(object) {
        let running = meta::grace_period(object).unwrap_or(0);
        let shorter = grace < running && (options.grace_period.is_some() || grace == 0);
        if shorter && grace > 0 {
            mark(&mut next, now, grace);
            return Step::Mark(next);
        }
        if running > 0 && !shorter {
            return if next == *object { Step::Keep } else { Step::Mark(next) };
        }
        if waits {
            if shorter {
                meta::set(&mut next, "deletionGracePeriodSeconds", 0);
            }
            return if next == *object { Step::Keep } else { Step::Mark(next) };
        }
        meta::set(&mut next, "deletionGracePeriodSeconds", 0);
        return Step::Remove(next);
    }
    if !waits && grace == 0 {
        if served.is("", "pods") {
            mark(&mut next, now, 0);
        }
        return Step::Remove(next);
    }
    mark(&mut next, now, grace);
    if is_namespace || is_definition {
        meta::copy(&mut next, "generation", object);
        meta::unset(&mut next, "deletionGracePeriodSeconds");
    }
    if is_namespace && let Some(status) = next.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("phase".into(), "Terminating".into());
    }
    Step::Mark(next)
}

fn mark(object: &mut Value, now: Timestamp, grace: i64) {
    let end = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    if !meta::is_deleting(object) && meta::generation(object) > 0 {
        let generation = meta::generation(object).saturating_add(1);
        meta::set(object, "generation", generation);
    }
    meta::set(object, "deletionTimestamp", seconds(end));
    meta::set(object, "deletionGracePeriodSeconds", grace);
}

fn has_spec_finalizers(object: &Value) -> bool {
    let list = object.pointer("/spec/finalizers").and_then(Value::as_array);
    list.is_some_and(|list| !list.is_empty())
}

/// Seconds a pod gets to stop; none when no node has it or when it has stopped already.
fn pod_grace(pod: &Value, options: &DeleteOptions) -> i64 {
    let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default();
    if text("/spec/nodeName").is_empty() || matches!(text("/status/phase"), "Succeeded" | "Failed")
    {
        return 0;
    }
    let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let grace = options.grace_period.or(own).unwrap_or(30);
    // A negative period means the shortest one that still lets the node act.
    if grace < 0 { 1 } else { grace }
}

fn finalizers_after(
    served: &Served,
    object: &Value,
    propagation: Option<Propagation>,
) -> Vec<String> {
    let current: Vec<String> = meta::finalizers(object).into_iter().map(str::to_owned).collect();
    let default = served.is("batch", "jobs").then_some(Propagation::Orphan);
    let has = |name: &str| current.iter().any(|finalizer| finalizer == name);
    // A delete without an opinion leaves an earlier decision alone.
    if propagation.is_none() && (has("orphan") || has("foregroundDeletion")) {
        return current;
    }
    let Some(propagation) = propagation.or(default) else { return current };
    let wanted = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some("foregroundDeletion"),
        Propagation::Orphan => Some("orphan"),
    };
    let mut next: Vec<String> = current
        .iter()
        .filter(|name| !matches!(name.as_str(), "orphan" | "foregroundDeletion"))
        .cloned()
        .collect();
    next.extend(wanted.map(str::to_owned));
    next
}

/// Starts the deletion of any object without asking anyone, for what the server cleans up itself.
pub(super) async fn start(server: &ApiServer, key: &Key, now: &str) {
    let store = server.store();
    while let Some(stored) = store.get(key) {
        let Ok(mut object) = serde_json::from_slice::<Value>(&stored.json) else { return };
        let result = if meta::finalizers(&object).is_empty() {
            store.remove(key.clone(), object, stored.revision).await
        } else if meta::is_deleting(&object) {
            return;
        } else {
            meta::set(&mut object, "deletionTimestamp", now);
            meta::set(&mut object, "deletionGracePeriodSeconds", 0);
            store.replace(key.clone(), object, stored.revision).await
        };
        match result {
            Err(WriteError::Conflict { .. }) => {}
            Err(error) => {
                tracing::warn!(%key, %error, "cannot delete an object");
                return;
            }
            Ok(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::kinds::Registry;

    fn served(group: &str, plural: &str) -> std::sync::Arc<Served> {
        Registry::built_in().preferred(group, plural).unwrap().clone()
    }

    fn pod() -> Value {
        json!({
            "metadata": {"name": "p", "uid": "u", "generation": 1},
            "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30},
            "status": {"phase": "Running"},
        })
    }

    fn with(mut object: Value, path: &str, field: &str, value: Value) -> Value {
        object.pointer_mut(path).unwrap()[field] = value;
        object
    }

    fn grace(seconds: i64) -> DeleteOptions {
        DeleteOptions { grace_period: Some(seconds), ..DeleteOptions::default() }
    }

    #[test]
    fn pods_get_their_grace_period() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let dying = with(
            with(pod(), "/metadata", "deletionTimestamp", json!("2026-01-01T00:00:30Z")),
            "/metadata",
            "deletionGracePeriodSeconds",
            json!(30),
        );
        let held = with(dying.clone(), "/metadata", "finalizers", json!(["a/b"]));
        let cases = [
            ("its own", pod(), DeleteOptions::default(), ("mark", Some(30))),
            ("a shorter one", pod(), grace(5), ("mark", Some(5))),
            ("none", pod(), grace(0), ("remove", Some(0))),
            ("negative is the least", pod(), grace(-1), ("mark", Some(1))),
            (
                "nobody runs it",
                with(pod(), "/spec", "nodeName", json!("")),
                DeleteOptions::default(),
                ("remove", Some(0)),
            ),
            (
                "it has finished",
                with(pod(), "/status", "phase", json!("Succeeded")),
                grace(30),
                ("remove", Some(0)),
            ),
            ("dying, again", dying.clone(), DeleteOptions::default(), ("keep", Some(30))),
            ("dying, longer", dying.clone(), grace(60), ("keep", Some(30))),
            ("dying, shorter", dying.clone(), grace(10), ("mark", Some(10))),
            ("dying, confirmed", dying, grace(0), ("remove", Some(0))),
            ("confirmed but held", held, grace(0), ("mark", Some(0))),
        ];
        for (name, object, options, want) in cases {
            let step = plan(&served("", "pods"), &object, &options, now);
            let word = match step {
                Step::Keep => "keep",
                Step::Mark(_) => "mark",
                Step::Remove(_) => "remove",
            };
            let left = meta::grace_period(&step.into_object(object));
            assert_eq!((word, left), want, "{name}");
        }
    }

    #[test]
    fn propagation_is_written_as_a_finalizer() {
        let object = |list: Value| json!({"metadata": {"finalizers": list}});
        use Propagation::{Background, Foreground, Orphan};
        let cases = [
            ("nothing said", "deployments", json!([]), None, vec![]),
            ("foreground", "deployments", json!([]), Some(Foreground), vec!["foregroundDeletion"]),
            ("orphan", "deployments", json!(["a/b"]), Some(Orphan), vec!["a/b", "orphan"]),
            ("a change of mind", "deployments", json!(["orphan"]), Some(Background), vec![]),
            ("an earlier decision", "deployments", json!(["orphan"]), None, vec!["orphan"]),
            ("jobs orphan by default", "jobs", json!([]), None, vec!["orphan"]),
        ];
        for (name, plural, list, propagation, want) in cases {
            let group = if plural == "jobs" { "batch" } else { "apps" };
            let got = finalizers_after(&served(group, plural), &object(list), propagation);
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn contradicting_options_are_refused() {
        let good = json!({"kind": "DeleteOptions", "propagationPolicy": "Orphan"});
        assert!(DeleteOptions::from_value(&good).is_ok());
        for bad in [
            json!({"kind": "Pod"}),
            json!({"propagationPolicy": "Maybe"}),
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            json!({"dryRun": ["Some"]}),
            json!({"gracePeriodSeconds": "soon"}),
            json!({"preconditions": {"uid": 1}}),
        ] {
            assert!(DeleteOptions::from_value(&bad).is_err(), "{bad}");
        }
    }
}
