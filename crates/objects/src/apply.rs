//! Who owns which field, and what happens when two want the same one?
//!
//! Every object carries a ledger, `metadata.managedFields`, of the managers that wrote it and the fields each
//! of them stands behind. Two operations keep it:
//!
//! - [`apply`] (server-side apply): a manager states everything it wants, and only that. Stated fields are set
//!   and owned; fields it stated last time and no longer does are removed unless someone else owns them; a
//!   field that another manager owns with a different value is a conflict, unless forced.
//! - [`track_update`] (every other write): the object is whatever the writer says, and the writer owns what
//!   it changed.
//!
//! ```text
//!            live ──┐
//!                   ├─merge─> merged ─prune─> result ─compare with live─> others lose changed fields,
//!          intent ──┘            ^                                        or 409
//!             └─fields─> set ────┘ what the manager owned last time and not now
//! ```
//!
//! The rules are those of KEP-555 as Kubernetes 1.35 implements them. API versions of one kind are taken to
//! have the same fields: entries of other versions are read as if they were of this one.

mod check;
mod compare;
mod conflict;
mod extract;
mod field_set;
mod last_applied;
mod literal;
mod managed;
mod merge;
mod prune;
mod shape;
mod step;

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value};

pub use conflict::{Conflict, Conflicts};
pub use field_set::{FieldSet, FieldsError};
pub use literal::Literal;
pub(crate) use literal::same;
pub use managed::ManagedError;
pub use step::{Path, Step, StepError};

use crate::schema::{Gvk, Schema};
use compare::Changes;
use managed::{Managed, Record};
use shape::Shape;

/// Who writes, through which door, and when.
#[derive(Debug, Clone)]
pub struct Writer<'a> {
    /// The field manager: the `fieldManager` parameter, or what `http` derives from the user agent.
    pub manager: &'a str,
    /// `status`, `scale` and so on; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that this door does not let through, see [`reset_fields`].
    pub reset: &'a FieldSet,
    pub now: Timestamp,
}

/// Why an apply is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 400 BadRequest.
    #[error("{0}")]
    BadRequest(String),
    /// 409 Conflict; `details` of the answer are [`Conflicts::details`].
    #[error(transparent)]
    Conflict(#[from] Conflicts),
    /// 500 without a reason, as the reference answers intents that do not fit the schema.
    #[error("{0}")]
    Unfit(String),
}

impl ApplyError {
    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::Conflict(_) => 409,
            Self::Unfit(_) => 500,
        }
    }

    /// `reason` of the Status.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadRequest(_) => "BadRequest",
            Self::Conflict(_) => "Conflict",
            Self::Unfit(_) => "",
        }
    }
}

/// The fields a write through this door cannot change, so that nobody owns them through it: `status` outside
/// of `/status` (if the kind has that subresource), and everything but the status inside of it.
pub fn reset_fields(kind: &Gvk, subresource: &str, has_status: bool) -> FieldSet {
    match (subresource, has_status) {
        ("", true) => FieldSet::of(&[&["status"]]),
        ("status", _) => {
            let mut reset = FieldSet::of(&[&["spec"]]);
            let more: &[&[&str]] = match (kind.group.as_str(), kind.kind.as_str()) {
                ("", "Pod") => {
                    &[&["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
                }
                ("apps", "Deployment") => &[&["metadata", "labels"]],
                ("apiextensions.k8s.io", "CustomResourceDefinition") => &[&["metadata"]],
                _ => &[],
            };
            reset.absorb(FieldSet::of(more));
            reset
        }
        _ => FieldSet::default(),
    }
}

/// Server-side apply: the object that results from `live` (absent to create it) and a manager's intent.
///
/// The result is not yet defaulted or validated, and fields that `writer.reset` names are merged like others:
/// putting them back is up to the caller, as it is for updates.
pub fn apply(
    live: Option<&Value>,
    intent: &Value,
    writer: &Writer<'_>,
    force: bool,
    schema: &Schema,
) -> Result<Value, ApplyError> {
    check_intent(intent, schema)?;
    let shape = Shape::of(schema);
    let mut managed = match live {
        Some(live) => Managed::of(live).map_err(|error| {
            ApplyError::Unfit(format!("failed to decode managed fields: {error}"))
        })?,
        None => Managed::default(),
    };
    let mut live = live.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    managed::take_from(&mut live);
    let write = Write { live: &live, shape, writer, api_version: schema.gvk().api_version() };
    if managed.0.is_empty() {
        let first = Writer { manager: "before-first-apply", ..writer.clone() };
        let empty = Value::Object(Map::new());
        Write { live: &empty, writer: &first, ..write.clone() }.update(&live, &mut managed);
    }

    if writer.manager != last_applied::KUBECTL {
        let (mut object, managed) = write.apply(intent, managed, force)?;
        managed.store(&mut object);
        return Ok(object);
    }
    let (mut object, managed) = match write.apply(intent, managed.clone(), force) {
        Err(conflicts) => write.apply_inherited(intent, managed, conflicts)?,
        Ok(applied) => applied,
    };
    last_applied::refresh(&mut object, intent);
    managed.store(&mut object);
    Ok(object)
}

fn check_intent(intent: &Value, schema: &Schema) -> Result<(), ApplyError> {
    let text = |pointer: &str| intent.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (gvk, given) = (schema.gvk(), text("/apiVersion"));
    let (group, version) = given.split_once('/').unwrap_or(("", given));
    let kind = format!("{group}/{version}, Kind={}", text("/kind"));
    if given != gvk.api_version() || text("/kind") != gvk.kind {
        return Err(ApplyError::BadRequest(format!("invalid object type: {kind}")));
    }
    if matches!(intent.pointer("/metadata/managedFields"), Some(fields) if !fields.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    check::check(intent, Shape::of(schema)).map_err(|problem| {
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        ApplyError::Unfit(format!(
            "failed to create typed patch object ({namespace}/{name}; {kind}): {problem}"
        ))
    })
}

/// Brings `managedFields` of `new` up to date after a create (`live` absent), update or patch.
///
/// `new` is the object as the request wants it, with defaults but before admission. What it says about
/// `managedFields` itself is honoured the way Kubernetes does: nothing or nonsense keeps the live entries,
/// `[]` and `[{}]` forget them all, anything readable replaces them.
pub fn track_update(live: Option<&Value>, new: &mut Value, writer: &Writer<'_>, schema: &Schema) {
    let mut managed = managers_to_start_from(live, new, writer);
    managed::take_from(new);
    // An existing object without entries is one whose managers were forgotten: updates leave it so.
    if !(managed.0.is_empty() && live.is_some()) {
        let live = live.map_or_else(|| Value::Object(Map::new()), managed::without);
        let api_version = schema.gvk().api_version();
        let write = Write { live: &live, shape: Shape::of(schema), writer, api_version };
        write.update(new, &mut managed);
    }
    managed.store(new);
}

fn managers_to_start_from(live: Option<&Value>, new: &Value, writer: &Writer<'_>) -> Managed {
    let of_live = || live.and_then(|live| Managed::of(live).ok()).unwrap_or_default();
    if !writer.subresource.is_empty() {
        return of_live();
    }
    if managed::asks_for_reset(new) {
        return Managed::default();
    }
    match Managed::of(new) {
        Ok(managed) if !managed.0.is_empty() => managed,
        _ => of_live(),
    }
}

/// Gives entries of `new` the times they have in `old` when times are all that differs between the two
/// objects, so that a write that changes nothing is recognised as one.
pub fn keep_times(old: &Value, new: &mut Value) {
    let own: Vec<Option<Value>> = entries_mut(new)
        .iter_mut()
        .zip(entries(old))
        .map(|(entry, before)| set_time(entry, before.get("time").cloned()?))
        .collect();
    if same(old, new) {
        return;
    }
    for ((entry, before), own) in entries_mut(new).iter_mut().zip(entries(old)).zip(own) {
        match own {
            Some(time) => {
                set_time(entry, time);
            }
            None if before.get("time").is_some() => {
                entry.as_object_mut().and_then(|entry| entry.remove("time"));
            }
            None => {}
        }
    }
}

/// Dates an entry, and returns what it was dated before.
fn set_time(entry: &mut Value, time: Value) -> Option<Value> {
    entry.as_object_mut()?.insert("time".to_owned(), time)
}

fn entries(object: &Value) -> &[Value] {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.map(Vec::as_slice).unwrap_or_default()
}

fn entries_mut(object: &mut Value) -> &mut [Value] {
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    entries.map(Vec::as_mut_slice).unwrap_or_default()
}

/// One write to one object; neither side carries `managedFields`.
#[derive(Clone)]
struct Write<'w> {
    live: &'w Value,
    shape: Shape<'w>,
    writer: &'w Writer<'w>,
    api_version: String,
}

impl Write<'_> {
    fn record(&self, applied: bool, fields: FieldSet) -> Record {
        Record {
            manager: self.writer.manager.to_owned(),
            applied,
            api_version: self.api_version.clone(),
            subresource: self.writer.subresource.to_owned(),
            time: None,
            fields,
        }
    }

    fn apply(
        &self,
        intent: &Value,
        mut managed: Managed,
        force: bool,
    ) -> Result<(Value, Managed), Conflicts> {
        self.reconcile(&mut managed);
        let fields = extract::fields(intent, self.shape).outside(self.writer.reset);
        let mut own = self.record(true, fields);
        let identity = own.identity();
        let last =
            managed.0.remove(&identity).unwrap_or_else(|| self.record(true, FieldSet::default()));
        own.time = last.time;

        let mut object = merge::merge(Some(self.live), intent, self.shape);
        if !last.fields.difference(&own.fields).is_empty() {
            let mut owned = own.fields.clone();
            managed.0.values().for_each(|record| owned.absorb(record.fields.clone()));
            object = prune::prune(&object, &last.fields, &owned, self.shape);
        }

        let changes = compare::objects(self.live, &object, self.shape).outside(self.writer.reset);
        settle(&mut managed, &changes, force)?;
        if !same(self.live, &object) {
            own.time = Some(self.writer.now);
        }
        own.fields = own.fields.difference(&NEVER_OWNED);
        if !own.fields.is_empty() {
            managed.0.insert(identity, own);
        }
        Ok((object, managed))
    }

    /// Tries again without the conflicts over fields that client-side apply owned for the same user.
    fn apply_inherited(
        &self,
        intent: &Value,
        managed: Managed,
        conflicts: Conflicts,
    ) -> Result<(Value, Managed), Conflicts> {
        let Some(fields) = last_applied::inherited(self.live, &self.api_version, self.shape) else {
            return Err(conflicts);
        };
        match conflicts.without(|path| fields.contains(path)) {
            Some(conflicts) => Err(conflicts),
            None => self.apply(intent, managed, true),
        }
    }

    fn update(&self, new: &Value, managed: &mut Managed) {
        self.reconcile(managed);
        let changes = compare::objects(self.live, new, self.shape).outside(self.writer.reset);
        // Forced, so there are no conflicts to report.
        let _ = settle(managed, &changes, true);
        let taken = changes.taken().difference(&NEVER_OWNED);
        if !taken.is_empty() {
            let own = self.record(false, FieldSet::default());
            let own = managed.0.entry(own.identity()).or_insert(own);
            own.fields.absorb(taken);
            own.time = Some(self.writer.now);
        }
        managed.cap_updaters();
    }

    fn reconcile(&self, managed: &mut Managed) {
        for record in managed.0.values_mut() {
            record.fields = extract::reconciled(&record.fields, self.shape);
        }
    }
}

static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(managed::never_owned);

/// Takes changed and removed fields from everyone who owns them, or reports them.
fn settle(managed: &mut Managed, changes: &Changes, force: bool) -> Result<(), Conflicts> {
    let taken = changes.taken();
    if !force {
        let mut conflicts = Vec::new();
        for record in managed.0.values() {
            let owner = conflict::name(record);
            conflicts.extend(
                record
                    .fields
                    .intersection(&taken)
                    .paths()
                    .into_iter()
                    .map(|field| Conflict { owner: owner.clone(), field }),
            );
        }
        if let Some(conflicts) = Conflicts::new(conflicts) {
            return Err(conflicts);
        }
    }
    for record in managed.0.values_mut() {
        record.fields = record.fields.difference(&taken).difference(&changes.removed);
    }
    managed.0.retain(|_, record| !record.fields.is_empty());
    Ok(())
}

#[cfg(test)]
mod tests;
