//! Which kinds does this server serve, and how does each behave?
//!
//! A [`Registry`] is an immutable picture of everything served: the built-in kinds plus what the
//! CustomResourceDefinitions add. A change of a definition builds a new picture and swaps it in,
//! so a request sees one picture from start to end.

mod built_in;
mod custom;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) use self::custom::{Column, Definition, ScalePaths};
use super::select::SelectableFields;
use super::status::Subject;
use crate::store::{Collection, Key};
use objects::schema::Schema;

/// One resource in one API version.
#[derive(Debug, Clone)]
pub struct Served {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: &'static [&'static str],
    pub subresources: Vec<Subresource>,
    pub storage: Storage,
    pub schema: Option<Schema>,
    pub columns: Columns,
    pub fields: SelectableFields,
    pub traits: Traits,
    /// Sent as a `Warning` header with every use of this version.
    pub deprecation: Option<String>,
}

/// Where the objects of a resource are.
#[derive(Debug, Clone)]
pub enum Storage {
    /// In the store, in the form of `api_version`.
    Stored { collection: Collection, api_version: String, view: Conversion },
    /// Nowhere: the resource only answers questions.
    Virtual,
}

/// How the stored form becomes the served one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// Only `apiVersion` differs, if anything.
    Rename,
    /// Core events served as `events.k8s.io`.
    Event,
}

/// Rules in which kinds differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traits {
    pub custom: bool,
    /// `status` is written through its own path only.
    pub status: bool,
    /// PUT of an absent object creates it.
    pub create_on_update: bool,
    /// PUT without a resourceVersion overwrites whatever is there.
    pub unconditional_update: bool,
    /// `metadata.generation` counts changes of the specification.
    pub generation: bool,
    /// The definition is being deleted: nothing new may be created.
    pub terminating: bool,
}

/// Something below an object's own path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    pub name: &'static str,
    pub verbs: &'static [&'static str],
    pub action: Action,
}

/// Which code answers for a subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Status,
    Scale(ScalePaths),
    Binding,
    Eviction,
    Log,
    Token,
    Finalize,
    /// Streams into a running container; the kind of its options.
    Stream(&'static str),
}

impl Action {
    /// Group, version and kind of the subresource's body, when it is not its parent's.
    pub fn kind(&self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Self::Scale(_) => Some(("autoscaling", "v1", "Scale")),
            Self::Eviction => Some(("policy", "v1", "Eviction")),
            Self::Token => Some(("authentication.k8s.io", "v1", "TokenRequest")),
            Self::Binding => Some(("", "v1", "Binding")),
            Self::Stream(kind) => Some(("", "v1", kind)),
            Self::Status | Self::Log | Self::Finalize => None,
        }
    }
}

/// Where a kind's table columns come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Columns {
    BuiltIn,
    Custom(Arc<[Column]>),
}

pub(super) const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
pub(super) const NO_DELETE_COLLECTION: &[&str] =
    &["create", "delete", "get", "list", "patch", "update", "watch"];
pub(super) const CREATE: &[&str] = &["create"];
pub(super) const GET: &[&str] = &["get"];
pub(super) const READ_WRITE: &[&str] = &["get", "patch", "update"];

impl Served {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// How errors name an object of this kind.
    pub fn subject<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject { group: &self.group, resource: &self.plural, name }
    }

    pub fn key(&self, namespace: &str, name: &str) -> Option<Key> {
        match &self.storage {
            Storage::Stored { collection, .. } => Some(Key::new(collection, namespace, name)),
            Storage::Virtual => None,
        }
    }

    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }
}

/// Joins group and version as objects carry them.
pub(super) fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        _ => format!("{group}/{version}"),
    }
}

/// Everything served at one moment.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// In order of preference, built-in groups first.
    groups: Vec<Group>,
}

/// One API group.
#[derive(Debug, Clone)]
pub struct Group {
    pub name: String,
    /// In order of preference.
    pub versions: Vec<Version>,
}

impl Group {
    pub(super) fn is_built_in(&self) -> bool {
        let mut resources = self.versions.iter().flat_map(|version| version.resources.values());
        resources.any(|served| !served.traits.custom)
    }
}

/// One version of a group, with its resources by plural name.
#[derive(Debug, Clone)]
pub struct Version {
    pub name: String,
    pub resources: BTreeMap<String, Arc<Served>>,
}

impl Registry {
    pub fn built_in() -> Self {
        let mut registry = Self::default();
        for served in built_in::all() {
            registry.add(served);
        }
        registry
    }

    /// The built-in kinds and those of the given definitions.
    pub fn with_definitions<'a>(definitions: impl Iterator<Item = &'a Definition>) -> Self {
        let mut registry = Self::built_in();
        for served in definitions.flat_map(Definition::served) {
            registry.add(served);
        }
        for group in &mut registry.groups {
            group.versions.sort_by_key(|version| Reverse(version_priority(&version.name)));
        }
        registry
    }

    fn add(&mut self, served: Served) {
        let group = match self.groups.iter().position(|group| group.name == served.group) {
            Some(at) => &mut self.groups[at],
            None => {
                self.groups.push(Group { name: served.group.clone(), versions: Vec::new() });
                self.groups.last_mut().expect("a group was just pushed")
            }
        };
        let version = match group.versions.iter().position(|v| v.name == served.version) {
            Some(at) => &mut group.versions[at],
            None => {
                group
                    .versions
                    .push(Version { name: served.version.clone(), resources: BTreeMap::new() });
                group.versions.last_mut().expect("a version was just pushed")
            }
        };
        version.resources.insert(served.plural.clone(), Arc::new(served));
    }

    /// Every group, core included.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    pub fn version(&self, group: &str, version: &str) -> Option<&Version> {
        self.group(group)?.versions.iter().find(|v| v.name == version)
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.version(group, version)?.resources.get(plural)
    }

    /// The preferred version of a resource.
    pub fn preferred(&self, group: &str, plural: &str) -> Option<&Arc<Served>> {
        self.group(group)?.versions.iter().find_map(|version| version.resources.get(plural))
    }

    pub fn resources(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.groups
            .iter()
            .flat_map(|group| &group.versions)
            .flat_map(|version| version.resources.values())
    }
}

/// Orders versions as Kubernetes does: `v2` before `v1` before `v1beta2` before `v1alpha1` before
/// anything else.
fn version_priority(version: &str) -> (u8, u64, u64, Reverse<String>) {
    let other = (0, 0, 0, Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stage) = rest.split_at(end);
    let Ok(major) = major.parse::<u64>() else { return other };
    let (rank, minor) = match stage {
        "" => (3, Ok(0)),
        _ => match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor.parse()),
            (_, Some(minor)) => (1, minor.parse()),
            _ => return other,
        },
    };
    match minor {
        Ok(minor) => (rank, major, minor, Reverse(String::new())),
        Err(_) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_maturity() {
        let mut versions =
            ["foo1", "v1alpha1", "v2beta1", "v1", "v10", "v1beta2", "v2", "foo10", "v11beta2"];
        versions.sort_by_key(|version| Reverse(version_priority(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v2beta1", "v1beta2", "v1alpha1", "foo1", "foo10"]
        );
    }

    #[test]
    fn resources_are_found_by_their_path() {
        let registry = Registry::built_in();
        let pods = registry.find("", "v1", "pods").unwrap();
        assert_eq!((pods.kind.as_str(), pods.namespaced, pods.traits.status), ("Pod", true, true));
        assert!(registry.find("", "v2", "pods").is_none());
        assert!(registry.find("apps", "v1", "pods").is_none());
        assert_eq!(registry.preferred("apps", "deployments").unwrap().version, "v1");
    }

    #[test]
    fn every_stored_kind_has_a_schema() {
        for served in Registry::built_in().resources() {
            assert!(served.schema.is_some(), "{} {}", served.api_version(), served.kind);
        }
    }
}
