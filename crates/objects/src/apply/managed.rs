//! `metadata.managedFields`: reading, writing and the bookkeeping rules.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::field_set::{FieldSet, FieldsError};
use super::step::Path;

/// Updates by more managers than this are folded together, the oldest first.
const MAX_UPDATERS: usize = 10;
/// The manager that folded updates belong to.
const FOLDED: &str = "ancient-changes";

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) manager: String,
    /// The operation: `Apply`, or else `Update`.
    pub(super) applied: bool,
    pub(super) api_version: String,
    /// Empty for the object itself.
    pub(super) subresource: String,
    pub(super) time: Option<Timestamp>,
    pub(super) fields: FieldSet,
}

/// What makes two entries the same manager. Appliers are the same whatever version they speak.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    manager: String,
    operation: &'static str,
    /// Empty for appliers.
    api_version: String,
    subresource: String,
}

/// Why `managedFields` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagedError {
    #[error("managedFields must be a list of entries")]
    NotAList,
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    NoVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoType(usize),
    #[error("invalid fieldsType {1:?} in managed fields entry {0}")]
    WrongType(usize, String),
    #[error("time {1:?} in managed fields entry {0} is not a timestamp")]
    Time(usize, String),
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
}

impl Record {
    pub(super) fn identity(&self) -> Identity {
        Identity {
            manager: self.manager.clone(),
            operation: self.operation(),
            api_version: if self.applied { String::new() } else { self.api_version.clone() },
            subresource: self.subresource.clone(),
        }
    }

    fn operation(&self) -> &'static str {
        if self.applied { "Apply" } else { "Update" }
    }

    fn seconds(&self) -> i64 {
        self.time.map_or(0, Timestamp::as_second)
    }

    fn read(at: usize, entry: &Value) -> Result<Self, ManagedError> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let applied = match text("operation") {
            "Apply" => true,
            "Update" => false,
            _ => return Err(ManagedError::Operation),
        };
        if text("apiVersion").is_empty() {
            return Err(ManagedError::NoVersion);
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(ManagedError::NoType(at)),
            other => return Err(ManagedError::WrongType(at, other.to_owned())),
        }
        let time = match text("time") {
            "" => None,
            time => Some(time.parse().map_err(|_| ManagedError::Time(at, time.to_owned()))?),
        };
        Ok(Self {
            manager: text("manager").to_owned(),
            applied,
            api_version: text("apiVersion").to_owned(),
            subresource: text("subresource").to_owned(),
            time,
            fields: FieldSet::from_value(entry.get("fieldsV1").unwrap_or(&Value::Null))?,
        })
    }

    fn write(&self) -> Value {
        let mut entry = Map::new();
        if !self.manager.is_empty() {
            entry.insert("manager".to_owned(), json!(self.manager));
        }
        entry.insert("operation".to_owned(), json!(self.operation()));
        entry.insert("apiVersion".to_owned(), json!(self.api_version));
        if let Some(time) = self.time {
            // Kubernetes keeps whole seconds.
            let time = Timestamp::from_second(time.as_second()).unwrap_or(time);
            entry.insert("time".to_owned(), json!(time.to_string()));
        }
        entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
        entry.insert("fieldsV1".to_owned(), self.fields.to_value());
        if !self.subresource.is_empty() {
            entry.insert("subresource".to_owned(), json!(self.subresource));
        }
        Value::Object(entry)
    }
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Managed(pub(super) BTreeMap<Identity, Record>);

impl Managed {
    /// Reads `metadata.managedFields` of an object.
    pub(super) fn of(object: &Value) -> Result<Self, ManagedError> {
        let entries = match object.pointer("/metadata/managedFields") {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(ManagedError::NotAList),
        };
        let mut managed = Self::default();
        for (at, entry) in entries.iter().enumerate() {
            let record = Record::read(at, entry)?;
            managed.0.insert(record.identity(), record);
        }
        Ok(managed)
    }

    /// Writes `metadata.managedFields`, or removes it when nobody owns anything.
    pub(super) fn store(&self, object: &mut Value) {
        let mut records: Vec<&Record> = self.0.values().collect();
        records.sort_by_key(|record| {
            let Record { manager, api_version, subresource, .. } = record;
            (record.operation(), record.seconds(), manager, api_version, subresource)
        });
        take_from(object);
        let Value::Object(object) = object else { return };
        if records.is_empty() {
            return;
        }
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(metadata) = metadata {
            let entries = records.into_iter().map(Record::write).collect();
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }

    /// Folds the oldest updates of each version together until few enough are left.
    pub(super) fn cap_updaters(&mut self) {
        let mut updaters: Vec<(i64, Identity)> = self
            .0
            .iter()
            .filter(|(_, record)| !record.applied)
            .map(|(identity, record)| (record.seconds(), identity.clone()))
            .collect();
        updaters.sort_unstable();
        let Some(mut excess) = updaters.len().checked_sub(MAX_UPDATERS) else { return };
        let mut oldest: BTreeMap<String, Identity> = BTreeMap::new();
        for (_, identity) in updaters {
            if excess == 0 {
                return;
            }
            let Some(version) = self.0.get(&identity).map(|record| record.api_version.clone())
            else {
                continue;
            };
            match oldest.get(&version) {
                None => {
                    oldest.insert(version, identity);
                }
                Some(first) => {
                    self.fold(&first.clone(), &identity, &version);
                    excess -= 1;
                }
            }
        }
    }

    /// Moves the fields of `identity` to the folded entry of its version, which starts as `first`.
    fn fold(&mut self, first: &Identity, identity: &Identity, version: &str) {
        let bucket = Record {
            manager: FOLDED.to_owned(),
            applied: false,
            api_version: version.to_owned(),
            subresource: String::new(),
            time: None,
            fields: FieldSet::default(),
        };
        let key = bucket.identity();
        if !self.0.contains_key(&key)
            && let Some(first) = self.0.remove(first)
        {
            self.0.insert(key.clone(), Record { fields: first.fields, ..bucket });
        }
        if let Some(folded) = self.0.remove(identity)
            && let Some(bucket) = self.0.get_mut(&key)
        {
            bucket.fields.absorb(folded.fields);
            bucket.time = folded.time;
        }
    }
}

/// Removes `metadata.managedFields`, so that it does not take part in comparisons.
pub(super) fn take_from(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

/// A copy of an object without its entries, which are often half of it.
pub(super) fn without(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let copy = fields.iter().map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let others = metadata.iter().filter(|(name, _)| *name != "managedFields");
            let others = others.map(|(name, value)| (name.clone(), value.clone()));
            (name.clone(), Value::Object(others.collect()))
        }
        _ => (name.clone(), value.clone()),
    });
    Value::Object(copy.collect())
}

/// True when a request asks for the managers to be forgotten: an empty list, or one empty entry.
pub(super) fn asks_for_reset(object: &Value) -> bool {
    match object.pointer("/metadata/managedFields") {
        Some(Value::Array(entries)) => match entries.as_slice() {
            [] => true,
            [Value::Object(entry)] => entry.values().all(is_zero),
            _ => false,
        },
        _ => false,
    }
}

fn is_zero(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

/// Fields that nobody ever owns: who an object is, and what the server writes itself.
pub(super) fn never_owned() -> FieldSet {
    let mut set = FieldSet::of(&[&["apiVersion"], &["kind"], &["metadata"]]);
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        set.insert(Path::fields(&["metadata", name]));
    }
    set
}
