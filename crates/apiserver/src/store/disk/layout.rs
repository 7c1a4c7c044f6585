//! How do objects become rows, and rows objects?

use std::{collections::HashSet, path::Path, sync::Arc};

use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table as Rows,
    TableDefinition,
};
use uuid::Uuid;

use crate::store::{
    error::OpenError,
    event::{Change, EventKind},
    key::{Collection, Key, Place, Revision},
    state::{Entry, Objects, State, Table, Tables},
};

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const COLLECTIONS: TableDefinition<'_, &str, u64> = TableDefinition::new("collections");
const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");

const FORMAT: u64 = 1;
const FORMAT_ROW: &str = "format";
const REVISION_ROW: &str = "revision";
const CLUSTER_ROW: &str = "cluster-id";
/// The revision in front of an object's JSON.
const PREFIX: usize = size_of::<u64>();

/// Writes an empty store into an empty database.
pub(super) fn initialise(database: &Database, cluster_id: Uuid) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(OBJECTS)?;
    transaction.open_table(COLLECTIONS)?;
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert(FORMAT_ROW, FORMAT.to_string().as_str())?;
        meta.insert(REVISION_ROW, Revision::FIRST.to_string().as_str())?;
        meta.insert(CLUSTER_ROW, cluster_id.to_string().as_str())?;
    }
    transaction.commit()?;
    Ok(())
}

/// Commits without changing anything.
///
/// redb's repair ends with a commit of a kind that the next start would trust
/// without verifying it; an ordinary commit on top is verified.
pub(super) fn touch(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert(FORMAT_ROW, FORMAT.to_string().as_str())?;
    transaction.commit()?;
    Ok(())
}

/// Writes a batch, and puts right what failed batches may have left.
pub(super) fn write(
    database: &Database,
    before: &State,
    after: &State,
    changes: &[Change],
    unsettled: &HashSet<Key>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        let mut collections = transaction.open_table(COLLECTIONS)?;
        for key in unsettled {
            match before.get(key) {
                Some(stored) => put(&mut objects, key, stored.revision, &stored.json)?,
                None => {
                    objects.remove(row_key(key).as_str())?;
                }
            }
        }
        let mut touched: HashSet<&Collection> =
            unsettled.iter().map(|key| &key.collection).collect();
        for Change { event, .. } in changes {
            let object = &event.object;
            touched.insert(&object.key.collection);
            if event.kind == EventKind::Deleted {
                objects.remove(row_key(&object.key).as_str())?;
            } else {
                put(&mut objects, &object.key, object.revision, &object.json)?;
            }
        }
        for collection in touched {
            let row = collection_key(collection);
            match after.tables.get(collection) {
                Some(table) => collections.insert(row.as_str(), table.changed.0)?,
                None => collections.remove(row.as_str())?,
            };
        }
        let mut meta = transaction.open_table(META)?;
        meta.insert(REVISION_ROW, after.revision.to_string().as_str())?;
    }
    transaction.commit()?;
    Ok(())
}

fn put(
    objects: &mut Rows<'_, &str, &[u8]>,
    key: &Key,
    revision: Revision,
    json: &[u8],
) -> Result<(), redb::Error> {
    let mut row = objects.insert_reserve(row_key(key).as_str(), PREFIX + json.len())?;
    let (prefix, rest) = row.as_mut().split_at_mut(PREFIX);
    prefix.copy_from_slice(&revision.0.to_le_bytes());
    rest.copy_from_slice(json);
    Ok(())
}

fn row_key(key: &Key) -> String {
    let Key { collection, namespace, name } = key;
    format!("{}/{}/{namespace}/{name}", collection.group(), collection.resource())
}

fn collection_key(collection: &Collection) -> String {
    format!("{}/{}", collection.group(), collection.resource())
}

/// The revision that the database is at.
pub(super) fn revision(database: &Database) -> Result<Revision, redb::Error> {
    let meta = database.begin_read()?.open_table(META)?;
    let row = meta.get(REVISION_ROW)?;
    let revision = row.and_then(|row| row.value().parse().ok());
    revision.map(Revision).ok_or_else(|| redb::Error::Corrupted("no revision".to_owned()))
}

/// Reads everything.
pub(super) fn load(database: &Database, path: &Path) -> Result<(State, Uuid), OpenError> {
    let damaged =
        |reason: String| OpenError::Damaged { path: path.to_owned(), reason: reason.into() };
    let (format, cluster_id) = read_meta(database).map_err(|error| super::damage(path, error))?;
    let format: u64 = format.parse().map_err(|_| damaged(format!("format is {format:?}")))?;
    if format > FORMAT {
        return Err(OpenError::NewerFormat { path: path.to_owned(), found: format, known: FORMAT });
    }
    let cluster_id =
        cluster_id.parse().map_err(|_| damaged(format!("cluster id is {cluster_id:?}")))?;
    let revision = revision(database).map_err(|error| super::damage(path, error))?;
    let tables =
        read_tables(database).map_err(|error| super::damage(path, error))?.map_err(damaged)?;
    Ok((State { revision, tables }, cluster_id))
}

fn read_meta(database: &Database) -> Result<(String, String), redb::Error> {
    let meta = database.begin_read()?.open_table(META)?;
    let row = |name: &str| -> Result<String, redb::Error> {
        match meta.get(name)? {
            Some(text) => Ok(text.value().to_owned()),
            None => Err(redb::Error::Corrupted(format!("no {name}"))),
        }
    };
    Ok((row(FORMAT_ROW)?, row(CLUSTER_ROW)?))
}

/// All collections, or what makes no sense about them.
fn read_tables(database: &Database) -> Result<Result<Tables, String>, redb::Error> {
    let transaction = database.begin_read()?;
    let objects = transaction.open_table(OBJECTS)?;
    let mut tables = Tables::default();
    let mut orphans = objects.len()?;
    for row in transaction.open_table(COLLECTIONS)?.iter()? {
        let (key, changed) = row?;
        let Some((group, resource)) = key.value().split_once('/') else {
            return Ok(Err(format!("collection {:?} makes no sense", key.value())));
        };
        let first = format!("{}/", key.value());
        // The character after the slash: the end of the collection's keys.
        let end = format!("{}0", key.value());
        let mut members = Vec::new();
        for row in objects.range(first.as_str()..end.as_str())? {
            let (key, value) = row?;
            let last = members.last().map(|(place, _): &(Place, Entry)| &place.namespace);
            match read_row(key.value(), value.value(), first.len(), last) {
                Some(member) => members.push(member),
                None => return Ok(Err(format!("row {:?} makes no sense", key.value()))),
            }
        }
        orphans = orphans.saturating_sub(members.len() as u64);
        let table = Table {
            changed: Revision(changed.value()),
            objects: members.into_iter().collect::<Objects>(),
        };
        tables.insert_mut(Collection::new(group, resource), table);
    }
    if orphans > 0 {
        return Ok(Err(format!("{orphans} rows belong to no collection")));
    }
    Ok(Ok(tables))
}

/// Neighbours share the text of their namespace.
fn read_row(
    key: &str,
    value: &[u8],
    prefix: usize,
    last: Option<&Arc<str>>,
) -> Option<(Place, Entry)> {
    let (namespace, name) = key.get(prefix..)?.split_once('/')?;
    let namespace = match last {
        Some(last) if **last == *namespace => Arc::clone(last),
        _ => Arc::from(namespace),
    };
    let (revision, json) = value.split_first_chunk::<PREFIX>()?;
    let entry = Entry { revision: Revision(u64::from_le_bytes(*revision)), json: Arc::from(json) };
    Some((Place { namespace, name: Arc::from(name) }, entry))
}
