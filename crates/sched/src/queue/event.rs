//! What happened, who cares, and does it help?
//!
//! A plugin that may reject pods declares its *wakes*: pairs of a resource and
//! the actions on it that may turn its "no" into a "yes". When such an event
//! arrives the queue asks the plugin for a [`Hint`] for the pods it rejected,
//! and only for those. Declarations are constants, so a plugin table can hold
//! them:
//!
//! ```
//! use sched::queue::{Actions, Interest, Resource, Wake};
//!
//! const NODE_AFFINITY: Interest = Interest::Only(&[
//!     Wake::new(Resource::Node, Actions::ADD.or(Actions::NODE_LABEL)),
//! ]);
//! ```

use std::fmt;

/// The kinds of object whose changes can wake a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Wildcard: concerns every waiting pod, whatever rejected it.
    Any,
    /// The waiting pod itself.
    OwnPod,
    /// A pod that has, or had, a node.
    Pod,
    Node,
    Namespace,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CsiNode,
    CsiDriver,
    CsiStorageCapacity,
    VolumeAttachment,
    ResourceClaim,
    ResourceSlice,
    DeviceClass,
    /// Services and workload controllers, the source of default selectors.
    Workload,
    PodDisruptionBudget,
    NodeMetric,
    NodeResourceTopology,
    Device,
    Reservation,
    ElasticQuota,
    PodGroup,
    ConfigMap,
}

/// A set of actions; an update names every property that changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Actions(u16);

impl Actions {
    pub const NONE: Self = Self(0);
    pub const ADD: Self = Self(1);
    pub const DELETE: Self = Self(1 << 1);
    pub const NODE_ALLOCATABLE: Self = Self(1 << 2);
    pub const NODE_LABEL: Self = Self(1 << 3);
    /// Taints or `spec.unschedulable`.
    pub const NODE_TAINT: Self = Self(1 << 4);
    pub const NODE_CONDITION: Self = Self(1 << 5);
    pub const NODE_ANNOTATION: Self = Self(1 << 6);
    pub const POD_LABEL: Self = Self(1 << 7);
    pub const POD_SCALE_DOWN: Self = Self(1 << 8);
    pub const POD_TOLERATION: Self = Self(1 << 9);
    pub const POD_GATES_ELIMINATED: Self = Self(1 << 10);
    pub const POD_GENERATED_CLAIM: Self = Self(1 << 11);
    /// A pod on a node began to terminate.
    pub const POD_TERMINATING: Self = Self(1 << 12);
    /// An update that is none of the named ones.
    pub const OTHER: Self = Self(1 << 13);
    /// Every kind of update.
    pub const UPDATE: Self = Self(!(Self::ADD.0 | Self::DELETE.0) & Self::ALL.0);
    pub const ALL: Self = Self(0x3fff);

    const NAMES: [(Self, &'static str); 14] = [
        (Self::ADD, "Add"),
        (Self::DELETE, "Delete"),
        (Self::NODE_ALLOCATABLE, "UpdateNodeAllocatable"),
        (Self::NODE_LABEL, "UpdateNodeLabel"),
        (Self::NODE_TAINT, "UpdateNodeTaint"),
        (Self::NODE_CONDITION, "UpdateNodeCondition"),
        (Self::NODE_ANNOTATION, "UpdateNodeAnnotation"),
        (Self::POD_LABEL, "UpdatePodLabel"),
        (Self::POD_SCALE_DOWN, "UpdatePodScaleDown"),
        (Self::POD_TOLERATION, "UpdatePodToleration"),
        (Self::POD_GATES_ELIMINATED, "UpdatePodSchedulingGatesEliminated"),
        (Self::POD_GENERATED_CLAIM, "UpdatePodGeneratedResourceClaim"),
        (Self::POD_TERMINATING, "UpdatePodTerminating"),
        (Self::OTHER, "Update"),
    ];

    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// `self` when `is_present`, otherwise nothing.
    #[must_use]
    pub const fn when(self, is_present: bool) -> Self {
        if is_present { self } else { Self::NONE }
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The first of the set, in the order of their names.
    #[must_use]
    pub const fn first(self) -> Self {
        Self(self.0 & self.0.wrapping_neg())
    }

    /// An update that changed nothing we name is still an update.
    #[must_use]
    pub const fn or_other(self) -> Self {
        if self.is_empty() { Self::OTHER } else { self }
    }
}

impl fmt::Debug for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        for (_, name) in Self::NAMES.iter().filter(|(action, _)| self.overlaps(*action)) {
            f.write_str(if is_first { "" } else { "|" })?;
            f.write_str(name)?;
            is_first = false;
        }
        if is_first { f.write_str("None") } else { Ok(()) }
    }
}

/// One change of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<S> {
    pub resource: Resource,
    pub actions: Actions,
    /// The object before and after; `None` when the particulars were dropped,
    /// in which case every plugin that asked for this kind of event is woken.
    pub subject: Option<S>,
}

impl<S> Event<S> {
    #[must_use]
    pub const fn new(resource: Resource, actions: Actions, subject: S) -> Self {
        Self { resource, actions, subject: Some(subject) }
    }

    /// An event without particulars.
    #[must_use]
    pub const fn vague(resource: Resource, actions: Actions) -> Self {
        Self { resource, actions, subject: None }
    }

    /// The event that concerns everyone.
    #[must_use]
    pub const fn wildcard() -> Self {
        Self::vague(Resource::Any, Actions::ALL)
    }
}

/// What a plugin says about an event on behalf of a pod it rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// The pod may fit now: try again.
    Queue,
    /// This event changes nothing for the pod.
    Skip,
}

impl Hint {
    #[must_use]
    pub const fn queue_if(helps: bool) -> Self {
        if helps { Self::Queue } else { Self::Skip }
    }
}

/// A kind of event a plugin wants to be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    pub resource: Resource,
    pub actions: Actions,
}

impl Wake {
    #[must_use]
    pub const fn new(resource: Resource, actions: Actions) -> Self {
        Self { resource, actions }
    }
}

/// Which events can turn a plugin's rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// The plugin declares nothing: any event may help.
    Every,
    /// These and no others; with an empty list only the flush and `activate` help.
    Only(&'static [Wake]),
}

impl Interest {
    fn covers(self, resource: Resource, actions: Actions) -> bool {
        match self {
            Self::Every => true,
            Self::Only(wakes) => {
                wakes.iter().any(|wake| wake.resource == resource && wake.actions.overlaps(actions))
            }
        }
    }
}

/// A plugin's index in the plugin table; the table has at most 64 rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId(u8);

impl PluginId {
    pub const LIMIT: usize = 64;

    /// `None` beyond the table's limit.
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        u8::try_from(index).ok().filter(|_| index < Self::LIMIT).map(Self)
    }

    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of plugins in one word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PluginSet(u64);

impl PluginSet {
    pub const EMPTY: Self = Self(0);

    #[must_use]
    pub const fn with(self, plugin: PluginId) -> Self {
        Self(self.0 | 1 << plugin.0)
    }

    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    pub const fn contains(self, plugin: PluginId) -> bool {
        self.0 & 1 << plugin.0 != 0
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = PluginId> {
        (0..64u8).map(PluginId).filter(move |plugin| self.contains(*plugin))
    }
}

impl FromIterator<PluginId> for PluginSet {
    fn from_iter<I: IntoIterator<Item = PluginId>>(plugins: I) -> Self {
        plugins.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for PluginSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(PluginId::index)).finish()
    }
}

/// The declarations of all plugins, by [`PluginId`].
#[derive(Debug, Clone)]
pub struct Interests(Vec<Interest>);

impl Interests {
    /// Rows beyond [`PluginId::LIMIT`] are ignored: no plugin can have such an id.
    #[must_use]
    pub fn new(table: impl IntoIterator<Item = Interest>) -> Self {
        Self(table.into_iter().take(PluginId::LIMIT).collect())
    }

    #[must_use]
    pub fn plugins(&self) -> usize {
        self.0.len()
    }

    /// Who wants to be asked about such an event; everyone about a wildcard.
    #[must_use]
    pub fn covering(&self, resource: Resource, actions: Actions) -> PluginSet {
        let is_wildcard = resource == Resource::Any;
        (0..self.0.len())
            .filter_map(PluginId::new)
            .filter(|plugin| is_wildcard || self.covers(*plugin, resource, actions))
            .collect()
    }

    fn covers(&self, plugin: PluginId, resource: Resource, actions: Actions) -> bool {
        self.0.get(plugin.index()).is_some_and(|interest| interest.covers(resource, actions))
    }

    /// True when at least one of `plugins` can be woken by some event: a pod
    /// rejected by none such waits for the periodic flush alone.
    #[must_use]
    pub fn can_wake(&self, plugins: PluginSet) -> bool {
        plugins
            .iter()
            .any(|plugin| !matches!(self.0.get(plugin.index()), None | Some(Interest::Only([]))))
    }
}
