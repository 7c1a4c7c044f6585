//! What does the store hold at one revision?
//!
//! A [`State`] is an immutable value built from persistent ordered maps: a
//! clone is a few reference counts, and the next write copies only the path to
//! the object it touches. Readers take the current state and keep it as long
//! as they like; nobody waits for anybody.

use std::{ops::Bound, sync::Arc};

use rpds::RedBlackTreeMapSync;

use super::{
    body::Body,
    error::WriteError,
    event::{Change, Event, EventKind},
    key::{Collection, Key, Place, Revision},
};

/// One object as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub key: Key,
    pub revision: Revision,
    /// The whole object as compact JSON, `metadata.resourceVersion` included.
    pub json: Arc<[u8]>,
}

/// An object within its collection, which knows its name already.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) revision: Revision,
    pub(super) json: Arc<[u8]>,
}

impl Entry {
    fn stored(&self, collection: &Collection, place: &Place) -> Stored {
        let key = Key {
            collection: collection.clone(),
            namespace: Arc::clone(&place.namespace),
            name: Arc::clone(&place.name),
        };
        Stored { key, revision: self.revision, json: Arc::clone(&self.json) }
    }
}

pub(super) type Objects = RedBlackTreeMapSync<Place, Entry>;
pub(super) type Tables = RedBlackTreeMapSync<Collection, Table>;

/// One collection and the last revision that changed it.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) changed: Revision,
    pub(super) objects: Objects,
}

/// What a write wants of the object that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    Create,
    Replace { expected: Revision },
    Remove { expected: Revision },
}

#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) revision: Revision,
    pub(super) tables: Tables,
}

impl State {
    pub(super) fn empty() -> Self {
        Self { revision: Revision::FIRST, tables: Tables::default() }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Stored> {
        let entry = self.tables.get(&key.collection)?.objects.get(&key.place())?;
        Some(Stored { key: key.clone(), revision: entry.revision, json: Arc::clone(&entry.json) })
    }

    pub(super) fn snapshot(&self, collection: &Collection, namespace: Option<&str>) -> Snapshot {
        let objects = self.tables.get(collection).map(|table| table.objects.clone());
        Snapshot {
            revision: self.revision,
            collection: collection.clone(),
            namespace: namespace.map(Arc::from),
            objects: objects.unwrap_or_default(),
        }
    }

    /// Carries out one write at the next revision, or says why it cannot be.
    pub(super) fn apply(
        &mut self,
        key: &Key,
        intent: Intent,
        body: &Body,
    ) -> Result<Change, WriteError> {
        let key = self.intern(key);
        let current = self.get(&key);
        let kind = match (intent, &current) {
            (Intent::Create, None) => EventKind::Added,
            (Intent::Create, Some(_)) => return Err(WriteError::Exists),
            (_, None) => return Err(WriteError::Missing),
            (Intent::Replace { expected }, Some(current)) if current.revision == expected => {
                EventKind::Modified
            }
            (Intent::Remove { expected }, Some(current)) if current.revision == expected => {
                EventKind::Deleted
            }
            (_, Some(current)) => return Err(WriteError::Conflict { current: current.clone() }),
        };

        let revision = self.revision.next();
        self.revision = revision;
        let object = Stored { key: key.clone(), revision, json: body.at(revision) };
        if !self.tables.contains_key(&key.collection) {
            let table = Table { changed: revision, objects: Objects::default() };
            self.tables.insert_mut(key.collection.clone(), table);
        }
        if let Some(table) = self.tables.get_mut(&key.collection) {
            table.changed = revision;
            if kind == EventKind::Deleted {
                table.objects.remove_mut(&key.place());
            } else {
                let entry = Entry { revision, json: Arc::clone(&object.json) };
                table.objects.insert_mut(key.place(), entry);
            }
        }

        let previous_revision = current.as_ref().map(|stored| stored.revision);
        let previous = current.map(|stored| stored.json);
        Ok(Change { event: Arc::new(Event { kind, object, previous }), previous_revision })
    }

    /// The same key, made of the texts that are in memory already: those of the
    /// object itself, or its namespace's from a neighbour.
    fn intern(&self, key: &Key) -> Key {
        let Some((collection, table)) = self.tables.get_key_value(&key.collection) else {
            return key.clone();
        };
        let place = key.place();
        let Place { namespace, name } = match table.objects.get_key_value(&place) {
            Some((known, _)) => known.clone(),
            None => {
                let before = table.objects.range(..place.clone()).next_back();
                let after = table.objects.range(place.clone()..).next();
                let mut near = [before, after].into_iter().flatten().map(|(near, _)| near);
                match near.find(|near| near.namespace == place.namespace) {
                    Some(near) => Place { namespace: Arc::clone(&near.namespace), ..place },
                    None => place,
                }
            }
        };
        Key { collection: collection.clone(), namespace, name }
    }
}

/// A consistent view of a collection, or of one namespace of it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub revision: Revision,
    collection: Collection,
    namespace: Option<Arc<str>>,
    objects: Objects,
}

impl Snapshot {
    pub(super) fn new(revision: Revision, collection: Collection, objects: Objects) -> Self {
        Self { revision, collection, namespace: None, objects }
    }

    /// The same view narrowed to one namespace, or widened to all.
    pub fn within(self, namespace: Option<&str>) -> Self {
        Self { namespace: namespace.map(Arc::from), ..self }
    }

    /// All objects, ordered by `namespace/name`.
    pub fn iter(&self) -> impl Iterator<Item = Stored> {
        self.range(None).map(|(place, entry)| entry.stored(&self.collection, place))
    }

    /// The objects that follow this name, which need not exist itself.
    pub fn after<'a>(
        &'a self,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = Stored> + use<'a> {
        self.range(Some(Place::new(namespace, name)))
            .map(|(place, entry)| entry.stored(&self.collection, place))
    }

    /// How many objects follow this name.
    pub fn count_after(&self, namespace: &str, name: &str) -> usize {
        self.range(Some(Place::new(namespace, name))).count()
    }

    pub fn len(&self) -> usize {
        match self.namespace {
            None => self.objects.size(),
            Some(_) => self.range(None).count(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.range(None).next().is_none()
    }

    fn range(&self, after: Option<Place>) -> impl Iterator<Item = (&Place, &Entry)> {
        let namespace = self.namespace.as_deref();
        // No name is empty, so an empty one stands just before its namespace.
        let first = Place::new(namespace.unwrap_or(""), "");
        let start = after.map_or(first.clone(), |after| after.max(first));
        self.objects.range((Bound::Excluded(start), Bound::Unbounded)).take_while(
            move |(place, _)| namespace.is_none_or(|wanted| *place.namespace == *wanted),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A name that was written and read many times is in memory once.
    #[test]
    fn texts_are_shared() {
        let mut state = State::empty();
        let mut write = |namespace: &str, name: &str, intent: Intent| {
            let key = Key::new(&Collection::new("", "pods"), namespace, name);
            let change = state.apply(&key, intent, &Body::new(json!({}), 100).unwrap()).unwrap();
            change.event.object.clone()
        };
        let first = write("ns", "m", Intent::Create);
        let other = write("ns-other", "m", Intent::Create);
        assert!(Arc::ptr_eq(&first.key.collection.0, &other.key.collection.0));
        for name in ["a", "z"] {
            let neighbour = write("ns", name, Intent::Create);
            assert!(Arc::ptr_eq(&first.key.namespace, &neighbour.key.namespace), "{name}");
        }
        let second = write("ns", "m", Intent::Replace { expected: first.revision });
        assert!(Arc::ptr_eq(&first.key.namespace, &second.key.namespace));
        assert!(Arc::ptr_eq(&first.key.name, &second.key.name));
        assert_eq!(*other.key.namespace, *"ns-other");
    }
}
