//! What names an object, and in which order do objects come?
//!
//! A listing is ordered as Kubernetes orders it: by the bytes of
//! `namespace/name`, slash included. So `team-a/web` comes before `team/web`,
//! because a dash sorts before a slash.

use std::{cmp::Ordering, fmt, sync::Arc};

/// No name on the wire is longer than 253 bytes; a little room costs nothing.
const LONGEST_PART: usize = 512;

/// A position in the store's one global order of writes, shown to clients as
/// `resourceVersion`. An empty store is at revision 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    pub(super) const FIRST: Self = Self(1);

    /// The revision after this one.
    ///
    /// At a million writes a second the counter lasts half a million years.
    pub(super) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All objects of one resource, whatever API version they were written in.
///
/// Clones share one allocation, so a key costs little more than its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collection(pub(super) Arc<Names>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Names {
    group: Box<str>,
    resource: Box<str>,
}

impl Collection {
    /// `Collection::new("apps", "deployments")`; the core group is `""`.
    pub fn new(group: impl Into<Box<str>>, resource: impl Into<Box<str>>) -> Self {
        Self(Arc::new(Names { group: group.into(), resource: resource.into() }))
    }

    pub fn group(&self) -> &str {
        &self.0.group
    }

    pub fn resource(&self) -> &str {
        &self.0.resource
    }
}

/// As people write it: `deployments.apps`, `pods`.
impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group() {
            "" => f.write_str(self.resource()),
            group => write!(f, "{}.{group}", self.resource()),
        }
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The name of one object. The namespace is `""` for cluster-scoped objects.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub collection: Collection,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(
        collection: &Collection,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Self { collection: collection.clone(), namespace: namespace.into(), name: name.into() }
    }

    /// Refuses what could be mistaken for another key once written down.
    pub(super) fn check(&self) -> Result<(), KeyError> {
        check_part("group", self.collection.group(), true)?;
        check_part("resource", self.collection.resource(), false)?;
        check_part("namespace", &self.namespace, true)?;
        check_part("name", &self.name, false)
    }

    pub(super) fn place(&self) -> Place {
        Place { namespace: Arc::clone(&self.namespace), name: Arc::clone(&self.name) }
    }
}

/// `pods/shop/web-0`, `nodes/n1`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{}/{}", self.collection, self.name),
            namespace => write!(f, "{}/{namespace}/{}", self.collection, self.name),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A key that cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("{part} is empty")]
    Empty { part: &'static str },
    #[error("{part} is {bytes} bytes long: at most {LONGEST_PART} are allowed")]
    TooLong { part: &'static str, bytes: usize },
    #[error("{part} {value:?} contains {found:?}: slashes and control characters are not allowed")]
    Character { part: &'static str, value: String, found: char },
}

fn check_part(part: &'static str, value: &str, may_be_empty: bool) -> Result<(), KeyError> {
    if value.is_empty() && !may_be_empty {
        return Err(KeyError::Empty { part });
    }
    if value.len() > LONGEST_PART {
        return Err(KeyError::TooLong { part, bytes: value.len() });
    }
    match value.chars().find(|c| *c == '/' || c.is_control()) {
        Some(found) => Err(KeyError::Character { part, value: value.to_owned(), found }),
        None => Ok(()),
    }
}

/// Where an object stands within its collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

impl Place {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.namespace == other.namespace {
            return self.name.cmp(&other.name);
        }
        let slash = std::iter::once(b'/');
        self.namespace.bytes().chain(slash.clone()).cmp(other.namespace.bytes().chain(slash))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Memory and disk agree on the order, whatever the names are made of.
        #[test]
        fn places_sort_as_their_text_does(
            a in ("[a-c.:0-]{0,3}", "[a-c.:0-]{1,3}"),
            b in ("[a-c.:0-]{0,3}", "[a-c.:0-]{1,3}"),
        ) {
            let text = |place: &(String, String)| format!("{}/{}", place.0, place.1);
            let place = |place: &(String, String)| Place::new(&place.0, &place.1);
            prop_assert_eq!(place(&a).cmp(&place(&b)), text(&a).cmp(&text(&b)));
        }
    }

    #[test]
    fn names_read_as_people_write_them() {
        let deployments = Collection::new("apps", "deployments");
        assert_eq!(Key::new(&deployments, "shop", "web").to_string(), "deployments.apps/shop/web");
        assert_eq!(Key::new(&Collection::new("", "nodes"), "", "n1").to_string(), "nodes/n1");
    }
}
