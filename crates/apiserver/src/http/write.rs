//! How does an object get into the store?
//!
//! Create, update, patch and apply differ in where the new object comes from; from there on they
//! take the same road:
//!
//! ```text
//! new object -> field managers -> built-in admission, mutating webhooks
//!            -> what the server owns (uid, generation, status) -> validation
//!            -> validating webhooks -> store -> consequences (definitions, namespaces)
//! ```
//!
//! A modification is computed from the object just read and repeated when somebody else was
//! faster, unless the client insisted on the version it had seen.

use serde_json::{Value, json};

use super::admission::{self, Attributes, Operation};
use super::call::Call;
use super::consequences::{self, Consequence};
use super::query::WriteOptions;
use super::respond::Written;
use super::server::{ApiServer, object_of};
use super::source::seconds;
use super::status::{Cause, Status};
use super::{convert, managers, meta, strategy, validate};
use crate::store::{Key, Revision, Stored, WriteError};

/// Attempts to find a free generated name, and to win against other writers.
const ATTEMPTS: usize = 8;

/// Which part of an object a request may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything but the status, for kinds that keep it apart.
    Main,
    Status,
    /// A subresource with rules of its own; the change is taken as it is.
    Other,
}

/// The result of a write.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) created: bool,
    pub(super) written: Written,
}

/// Stores a new object. `track` records the client as manager of its fields.
pub(super) async fn insert(
    call: &mut Call,
    options: &WriteOptions,
    mut object: Value,
    track: bool,
) -> Result<Outcome, Status> {
    let served = call.served.clone();
    if served.traits.terminating {
        return Err(Status::new(
            axum::http::StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "create not allowed while custom resource definition is terminating",
        ));
    }
    wipe_system_fields(&mut object);
    claim_namespace(call, &mut object)?;
    if track {
        managers::track(call, options, None, &mut object);
    }
    let mut attributes = Attributes::new(call, Operation::Create, options.dry_run);
    attributes.name = meta::name(&object).to_owned();
    admission::mutate(call, &attributes, &mut object, None).await?;

    let generated = meta::name(&object).is_empty() && !meta::generate_name(&object).is_empty();
    for attempt in 1.. {
        // Only a generated name is tried more than once.
        let mut object = if generated { object.clone() } else { std::mem::take(&mut object) };
        give_identity(call, &mut object, generated);
        strategy::prepare_create(call, &mut object);
        validate::create(call, &object)?;
        attributes.name = meta::name(&object).to_owned();
        admission::validate(call, &attributes, Some(&object), None).await?;
        let key = call.key_of(&attributes.name)?;
        if options.dry_run {
            if call.server.store().get(&key).is_some() {
                return Err(Status::already_exists(served.subject(&attributes.name)));
            }
            return Ok(Outcome { created: true, written: Written::Dry(object) });
        }
        let consequence = Consequence::of_write(call, &object);
        convert::to_storage(&mut object, &served);
        match call.server.store().create(key, object).await {
            Ok(stored) => {
                consequence.settle(call).await;
                return Ok(Outcome { created: true, written: Written::Stored(stored) });
            }
            Err(WriteError::Exists) if generated && attempt < ATTEMPTS => {}
            Err(WriteError::Exists) => {
                return Err(Status::already_exists(served.subject(&attributes.name)));
            }
            Err(error) => return Err(storage_error(error)),
        }
    }
    Err(Status::internal("cannot find a free name"))
}

/// What a client may not decide about a new object.
fn wipe_system_fields(object: &mut Value) {
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "generation",
    ] {
        meta::unset(object, field);
    }
}

fn claim_namespace(call: &Call, object: &mut Value) -> Result<(), Status> {
    if !meta::resource_version(object).is_empty() {
        return Err(Status::new(
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            "",
            "resourceVersion should not be set on objects to be created",
        ));
    }
    meta::unset(object, "resourceVersion");
    if call.served.namespaced {
        check_namespace(call, object)?;
        meta::set(object, "namespace", call.namespace());
    } else {
        meta::unset(object, "namespace");
    }
    Ok(())
}

fn check_namespace(call: &Call, object: &Value) -> Result<(), Status> {
    match meta::namespace(object) {
        "" => Ok(()),
        given if given == call.namespace() => Ok(()),
        _ => Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

fn give_identity(call: &Call, object: &mut Value, generate: bool) {
    let options = call.server.options();
    if generate {
        let prefix = meta::generate_name(object);
        // Names end at 63 characters for most uses; Kubernetes cuts the prefix to keep that.
        let mut end = prefix.len().min(58);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        let name = format!("{}{}", &prefix[..end], options.ids.suffix());
        meta::set(object, "name", name);
    }
    meta::set(object, "uid", options.ids.uid());
    meta::set(object, "creationTimestamp", seconds(options.clock.now()));
    if call.served.traits.generation {
        meta::set(object, "generation", 1);
    }
}

/// Where the new version of an object comes from.
pub(super) trait Change: Send {
    /// The object as the client wants it, given the current one.
    fn apply(&mut self, current: &Value, call: &mut Call) -> Result<Value, Status>;

    /// The client is recorded as manager of what it changes; apply does that itself.
    fn tracks(&self) -> bool {
        true
    }

    /// The change was made to the current object, rather than brought along whole.
    fn patches(&self) -> bool {
        false
    }

    /// What a missing object becomes; `None` for 404.
    fn create(&mut self, _call: &mut Call) -> Option<Result<Value, Status>> {
        None
    }
}

/// Changes an object that exists, or creates it where the change allows that.
pub(super) async fn modify(
    call: &mut Call,
    options: &WriteOptions,
    part: Part,
    change: &mut impl Change,
) -> Result<Outcome, Status> {
    modify_with(call, options, part, change, true).await
}

/// The same for changes that admission has seen in another form, like a binding.
pub(super) async fn modify_admitted(
    call: &mut Call,
    options: &WriteOptions,
    part: Part,
    change: &mut impl Change,
) -> Result<Outcome, Status> {
    modify_with(call, options, part, change, false).await
}

async fn modify_with(
    call: &mut Call,
    options: &WriteOptions,
    part: Part,
    change: &mut impl Change,
    ask: bool,
) -> Result<Outcome, Status> {
    let key = call.key()?;
    for _ in 0..ATTEMPTS {
        let Some(current) = call.server.store().get(&key) else {
            return match change.create(call) {
                Some(object) => insert(call, options, object?, change.tracks()).await,
                None => Err(Status::not_found(call.subject())),
            };
        };
        let old = object_of(&current, &call.served)?;
        let mut new = change.apply(&old, call)?;
        meta::check_shape(&mut new)?;
        check_version(call, part, &new, &old, change.patches())?;
        keep_identity(&mut new, &old);
        if change.tracks() {
            managers::track(call, options, Some(&old), &mut new);
        }
        let mut attributes = Attributes::new(call, Operation::Update, options.dry_run);
        attributes.name = call.name().to_owned();
        if ask {
            admission::mutate(call, &attributes, &mut new, Some(&old)).await?;
            keep_identity(&mut new, &old);
        }
        strategy::prepare_update(call, part, &mut new, &old);
        if part != Part::Other {
            validate::update(call, &new, &old)?;
        }
        if ask {
            admission::validate(call, &attributes, Some(&new), Some(&old)).await?;
        }
        match commit(call, options, &key, &current, new, &old).await? {
            Committed::Done(written) => return Ok(Outcome { created: false, written }),
            // Once more from the current object; a client that named a version gets its conflict
            // there.
            Committed::Raced => {}
        }
    }
    Err(Status::modified(call.subject()))
}

/// Checks the version and the identity the client bases its change on.
fn check_version(
    call: &Call,
    part: Part,
    new: &Value,
    old: &Value,
    patches: bool,
) -> Result<(), Status> {
    let current = meta::resource_version(old);
    match meta::resource_version(new) {
        "" | "0" if !call.served.traits.unconditional_update && part != Part::Other => {
            return Err(Status::invalid(
                &call.served.group,
                &call.served.plural,
                call.name(),
                vec![Cause {
                    reason: "FieldValueInvalid".into(),
                    message: "Invalid value: 0: must be specified for an update".into(),
                    field: "metadata.resourceVersion".into(),
                }],
            ));
        }
        "" | "0" => {}
        asked if asked.parse::<u64>().is_err() => {
            return Err(Status::new(
                axum::http::StatusCode::INTERNAL_SERVER_ERROR,
                "",
                format!("strconv.ParseUint: parsing {asked:?}: invalid syntax"),
            ));
        }
        asked if asked != current => return Err(Status::modified(call.subject())),
        _ => {}
    }
    let (wanted, found) = (meta::uid(new), meta::uid(old));
    if !wanted.is_empty() && wanted != found && patches {
        let cause = Cause::invalid("metadata.uid", &json!(wanted), "field is immutable");
        let causes = vec![cause];
        return Err(Status::invalid(&call.served.group, &call.served.kind, call.name(), causes));
    }
    if !wanted.is_empty() && wanted != found {
        return Err(Status::conflict(
            call.subject(),
            format!(
                "Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
            ),
        ));
    }
    Ok(())
}

/// Restores what no client can change.
fn keep_identity(new: &mut Value, old: &Value) {
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ] {
        meta::copy(new, field, old);
    }
    meta::unset(new, "selfLink");
}

enum Committed {
    Done(Written),
    Raced,
}

async fn commit(
    call: &mut Call,
    options: &WriteOptions,
    key: &Key,
    current: &Stored,
    mut new: Value,
    old: &Value,
) -> Result<Committed, Status> {
    let last_finalizer = is_released(&call.served, &new, old);
    if !last_finalizer && strategy::is_unchanged(&mut new, old) {
        return Ok(Committed::Done(Written::Stored(current.clone())));
    }
    if options.dry_run {
        return Ok(Committed::Done(Written::Dry(new)));
    }
    // Watchers see an object leave as it was stored last, not as it never was.
    let consequence = Consequence::of_write(call, &new);
    let mut stored_form = if last_finalizer { old.clone() } else { std::mem::take(&mut new) };
    convert::to_storage(&mut stored_form, &call.served);
    let result = if last_finalizer {
        call.server.store().remove(key.clone(), stored_form, current.revision).await
    } else {
        call.server.store().replace(key.clone(), stored_form, current.revision).await
    };
    match result {
        Ok(stored) if last_finalizer => {
            consequences::of_removal(call).await;
            meta::set(&mut new, "resourceVersion", stored.revision.to_string());
            Ok(Committed::Done(Written::Dry(new)))
        }
        Ok(stored) => {
            consequence.settle(call).await;
            Ok(Committed::Done(Written::Stored(stored)))
        }
        Err(WriteError::Conflict { .. } | WriteError::Missing) => Ok(Committed::Raced),
        Err(error) => Err(storage_error(error)),
    }
}

/// An update took the last finalizer off an object that waits for deletion.
fn is_released(served: &super::kinds::Served, new: &Value, old: &Value) -> bool {
    let spec_finalizers = |object: &Value| {
        let list = object.pointer("/spec/finalizers").and_then(Value::as_array);
        list.map_or(0, Vec::len)
    };
    let is_namespace = served.is("", "namespaces");
    let count = |object: &Value| {
        let own = meta::finalizers(object).len();
        if is_namespace { own + spec_finalizers(object) } else { own }
    };
    meta::is_deleting(new)
        && count(new) == 0
        && (count(old) > 0)
        && meta::grace_period(new).unwrap_or(0) == 0
}

/// A write the store refused for a reason of its own.
pub(super) fn storage_error(error: WriteError) -> Status {
    match error {
        WriteError::TooLarge { bytes, limit } => Status::new(
            axum::http::StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: the object takes {bytes} bytes, limit is {limit}"),
        ),
        error => Status::internal(error.to_string()),
    }
}

/// Writes an object the server itself derives, once; losing a race is no error.
pub(super) async fn put_quietly(
    server: &ApiServer,
    key: Key,
    object: Value,
    expected: Option<Revision>,
) {
    let store = server.store();
    let result = match expected {
        None => store.create(key.clone(), object).await,
        Some(revision) => store.replace(key.clone(), object, revision).await,
    };
    match result {
        Ok(_) | Err(WriteError::Exists | WriteError::Missing | WriteError::Conflict { .. }) => {}
        Err(error) => tracing::warn!(%key, %error, "cannot write a derived object"),
    }
}

/// A fresh object of a built-in kind, for what the server creates itself.
pub(super) fn fresh(
    server: &ApiServer,
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Value {
    let options = server.options();
    let mut object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "uid": options.ids.uid(),
            "creationTimestamp": seconds(options.clock.now()),
        },
    });
    if !namespace.is_empty() {
        meta::set(&mut object, "namespace", namespace);
    }
    object
}
