//! How does a CustomResourceDefinition become a served kind, and how does it stop being one?
//!
//! On every write of a definition its names are checked against everything else served. If they
//! are free the definition is *established* and served at once; if not it says which name is
//! taken and waits. On deletion its instances go first: a finalizer keeps the definition until
//! the last of them is gone.

use serde_json::{Value, json};

use super::call::Call;
use super::kinds::{Registry, Served};
use super::meta;
use super::server::ApiServer;
use super::source::seconds;
use crate::store::{Collection, Key, WriteError};

/// Keeps a definition until its instances are gone.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn collection() -> Collection {
    Collection::new("apiextensions.k8s.io", "customresourcedefinitions")
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).and_then(|c| c.get("status")).and_then(Value::as_str) == Some("True")
}

/// Whether the definition's kinds are served.
pub(super) fn is_established(object: &Value) -> bool {
    is_true(object, "Established")
}

/// Completes a definition on its way to the store: names and status.
pub(super) fn prepare(server: &ApiServer, object: &mut Value, old: Option<&Value>) {
    complete_names(object);
    if let Some(old) = old {
        meta::copy_part(object, "status", old);
    }
    set_status(server, object);
}

fn complete_names(object: &mut Value) {
    let Some(names) = object.pointer_mut("/spec/names").and_then(Value::as_object_mut) else {
        return;
    };
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut fill = |field: &str, value: String| {
        let entry = names.entry(field).or_insert(Value::Null);
        if entry.as_str().unwrap_or_default().is_empty() {
            *entry = value.into();
        }
    };
    fill("singular", kind.to_ascii_lowercase());
    fill("listKind", format!("{kind}List"));
}

fn set_status(server: &ApiServer, object: &mut Value) {
    let now = seconds(server.options().clock.now());
    let conflict = taken_name(&server.registry(), object);
    let was_established = is_established(object);
    let storage = storage_version(object).unwrap_or_default().to_owned();
    let names = object.pointer("/spec/names").cloned().unwrap_or_else(|| json!({}));
    let accepted = conflict.is_none();
    set_condition(
        object,
        &now,
        match &conflict {
            None => ["NamesAccepted", "True", "NoConflicts", "no conflicts found"],
            Some((reason, message)) => ["NamesAccepted", "False", reason, message],
        },
    );
    if accepted || was_established {
        let message = "the initial names have been accepted";
        set_condition(object, &now, ["Established", "True", "InitialNamesAccepted", message]);
    } else {
        let message = "not all names are accepted";
        set_condition(object, &now, ["Established", "False", "NotAccepted", message]);
    }
    let status = object.get_mut("status").and_then(Value::as_object_mut);
    let Some(status) = status else { return };
    let mut names = names;
    if !accepted && let Some(taken) = &conflict {
        refuse_name(&mut names, taken.0);
    }
    status.insert("acceptedNames".into(), names);
    let versions = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(versions) = versions.as_array_mut()
        && !versions.iter().any(|version| *version == *storage)
    {
        versions.push(storage.into());
    }
}

/// Leaves out of the accepted names what another kind has.
fn refuse_name(names: &mut Value, reason: &str) {
    let Some(names) = names.as_object_mut() else { return };
    match reason {
        "PluralConflict" => names.insert("plural".into(), "".into()),
        "KindConflict" => names.insert("kind".into(), "".into()),
        "SingularConflict" => names.remove("singular"),
        "ShortNamesConflict" => names.remove("shortNames"),
        _ => names.remove("listKind"),
    };
}

fn storage_version(object: &Value) -> Option<&str> {
    let versions = object.pointer("/spec/versions")?.as_array()?;
    versions
        .iter()
        .find(|version| version.get("storage").and_then(Value::as_bool) == Some(true))?
        .get("name")?
        .as_str()
}

/// Sets a condition given as type, status, reason and message; the time moves with the status.
fn set_condition(object: &mut Value, now: &str, facts: [&str; 4]) {
    let [kind, status, reason, message] = facts;
    let Some(fields) = object.as_object_mut() else { return };
    let all = fields.entry("status").or_insert_with(|| json!({}));
    if !all.is_object() {
        *all = json!({});
    }
    let Some(all) = all.as_object_mut() else { return };
    let conditions = all.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    let text = |condition: &Value, field: &str| {
        condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let found = conditions.iter_mut().find(|condition| text(condition, "type") == kind);
    let since = match &found {
        Some(condition) if text(condition, "status") == status => {
            text(condition, "lastTransitionTime")
        }
        _ => now.to_owned(),
    };
    let next = json!({
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    });
    match found {
        Some(condition) => *condition = next,
        None => conditions.push(next),
    }
}

/// The first name of a definition that another resource of its group has taken, as a condition's
/// reason and message.
fn taken_name(registry: &Registry, object: &Value) -> Option<(&'static str, String)> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (group, own) = (text("/spec/group"), text("/spec/names/plural"));
    let others: Vec<&Served> = registry
        .group(group)?
        .versions
        .iter()
        .flat_map(|version| version.resources.values())
        .map(|served| &**served)
        .filter(|served| served.plural != own || !served.traits.custom)
        .collect();
    let is_resource = |name: &str| {
        others.iter().any(|served| {
            served.plural == name
                || served.singular == name
                || served.short_names.iter().any(|short| short == name)
        })
    };
    let is_kind =
        |name: &str| others.iter().any(|served| served.kind == name || served.list_kind == name);
    let in_use = |name: &str| format!("{name:?} is already in use");
    if is_resource(own) {
        return Some(("PluralConflict", in_use(own)));
    }
    let singular = text("/spec/names/singular");
    if is_resource(singular) {
        return Some(("SingularConflict", in_use(singular)));
    }
    let short_names = object.pointer("/spec/names/shortNames").and_then(Value::as_array);
    for short in short_names.into_iter().flatten().filter_map(Value::as_str) {
        if is_resource(short) {
            return Some(("ShortNamesConflict", in_use(short)));
        }
    }
    for (path, reason) in
        [("/spec/names/kind", "KindConflict"), ("/spec/names/listKind", "ListKindConflict")]
    {
        if is_kind(text(path)) {
            return Some((reason, in_use(text(path))));
        }
    }
    None
}

/// Serves what is defined now, empties what is being deleted, and gives free names to those who
/// wait for them. The caller holds the lock on definitions.
pub(super) async fn settle(server: &ApiServer) {
    server.refresh_registry();
    finish_deletions(server).await;
    server.refresh_registry();
    settle_waiting(server).await;
}

/// Definitions whose names were taken may find them free now.
async fn settle_waiting(server: &ApiServer) {
    let store = server.store();
    for stored in store.list(&collection(), None).iter() {
        let Ok(mut object) = serde_json::from_slice::<Value>(&stored.json) else { continue };
        if is_true(&object, "NamesAccepted") || meta::is_deleting(&object) {
            continue;
        }
        set_status(server, &mut object);
        if is_true(&object, "NamesAccepted") {
            super::write::put_quietly(server, stored.key, object, Some(stored.revision)).await;
            server.refresh_registry();
        }
    }
}

/// After an instance is gone: its definition may have waited for that.
pub(super) async fn after_instance_removal(call: &Call) {
    if call.served.traits.terminating {
        let _one_at_a_time = call.server.definitions_lock().lock().await;
        settle(&call.server).await;
    }
}

async fn finish_deletions(server: &ApiServer) {
    for stored in server.store().list(&collection(), None).iter() {
        let Ok(object) = serde_json::from_slice::<Value>(&stored.json) else { continue };
        if meta::is_deleting(&object) && meta::finalizers(&object).contains(&CLEANUP) {
            empty_and_release(server, stored.key.clone()).await;
        }
    }
}

async fn empty_and_release(server: &ApiServer, key: Key) {
    let store = server.store();
    let Some(stored) = store.get(&key) else { return };
    let Ok(mut object) = serde_json::from_slice::<Value>(&stored.json) else { return };
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let instances = Collection::new(text("/spec/group"), text("/spec/names/plural"));
    let now = seconds(server.options().clock.now());
    for instance in store.list(&instances, None).iter() {
        super::delete::start(server, &instance.key, &now).await;
    }
    let left = store.list(&instances, None).len();
    let facts = match left {
        0 => ["Terminating", "False", "InstanceDeletionCompleted", "removed all instances"],
        _ => [
            "Terminating",
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        ],
    };
    let before = object.clone();
    set_condition(&mut object, &now, facts);
    if left > 0 {
        if object != before {
            super::write::put_quietly(server, key, object, Some(stored.revision)).await;
        }
        return;
    }
    let rest: Vec<String> = meta::finalizers(&object)
        .into_iter()
        .filter(|name| *name != CLEANUP)
        .map(str::to_owned)
        .collect();
    meta::set_finalizers(&mut object, &rest);
    let result = if rest.is_empty() {
        store.remove(key.clone(), object, stored.revision).await
    } else {
        store.replace(key.clone(), object, stored.revision).await
    };
    match result {
        Ok(_) | Err(WriteError::Conflict { .. } | WriteError::Missing) => {}
        Err(error) => tracing::warn!(%key, %error, "cannot release a definition"),
    }
}
