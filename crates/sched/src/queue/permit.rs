//! How long may a plugin keep a chosen pod waiting for permission?
//!
//! Each plugin that answers "wait" sets its own deadline, never more than
//! [`PERMIT_LIMIT`] ahead. The pod may go when every one of them has allowed it;
//! the first deadline to pass before its plugin allowed rejects the pod.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::Time;

use super::event::PluginId;

/// No plugin may hold a pod longer, whatever it asks for.
pub const PERMIT_LIMIT: Duration = Duration::from_mins(15);

/// The permissions a pod still lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitWait {
    since: Time,
    deadlines: BTreeMap<PluginId, Time>,
}

impl PermitWait {
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self { since: now, deadlines: BTreeMap::new() }
    }

    /// `plugin` wants the pod to wait for at most `timeout`.
    pub fn ask(&mut self, plugin: PluginId, timeout: Duration) {
        self.deadlines.insert(plugin, self.since + timeout.min(PERMIT_LIMIT));
    }

    /// `plugin` lets the pod go; true when nobody holds it any more.
    pub fn allow(&mut self, plugin: PluginId) -> bool {
        self.deadlines.remove(&plugin);
        self.is_allowed()
    }

    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.deadlines.is_empty()
    }

    /// The plugin whose patience ends first, and when.
    #[must_use]
    pub fn deadline(&self) -> Option<(PluginId, Time)> {
        let first = self.deadlines.iter().min_by_key(|(plugin, at)| (**at, **plugin));
        first.map(|(plugin, at)| (*plugin, *at))
    }

    /// The plugin that rejects the pod by timeout, and after how long a wait.
    #[must_use]
    pub fn expired(&self, now: Time) -> Option<(PluginId, Duration)> {
        let (plugin, at) = self.deadline()?;
        (at <= now).then(|| (plugin, at.since(self.since)))
    }
}
