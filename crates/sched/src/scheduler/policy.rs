//! What the queue asks the plugins: may this pod be tried, and could that event help it?

use std::collections::{HashMap, HashSet};

use super::Subject;
use crate::framework::Framework;
use crate::lap::Timed;
use crate::model::{Class, Symbol};
use crate::plugins::{self, DEFAULT_PREEMPTION, TABLE};
use crate::queue::{self, Hint, PluginId, Uid};
use crate::snapshot::Snapshot;

pub(super) struct Policy<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) frameworks: &'a [Framework],
    pub(super) profiles: &'a HashMap<Symbol, usize>,
    /// Pods whose victims are still being told to go.
    pub(super) preempting: &'a HashSet<Uid>,
}

impl Policy<'_> {
    fn find(&self, pod: &Uid) -> Option<(&Framework, &Class)> {
        let snapshot = self.snapshot;
        let pod = snapshot.pods.get(snapshot.pods.find(pod)?)?;
        let profile = *self.profiles.get(&pod.class.scheduler)?;
        Some((self.frameworks.get(profile)?, &pod.class))
    }

    /// The plugin that holds the pod back, and why.
    pub(super) fn gating(
        &self,
        pod: &Uid,
        first: Option<PluginId>,
    ) -> Option<(&'static str, String)> {
        if self.preempting.contains(pod) {
            let why = "waiting for the preemption for this pod to be finished";
            return Some((DEFAULT_PREEMPTION, why.to_owned()));
        }
        let (framework, class) = self.find(pod)?;
        let gates = framework.gates.iter().filter_map(|at| framework.get(*at));
        let mut gates: Vec<_> = gates.collect();
        gates.sort_by_key(|plugin| first.is_none() || plugins::id(plugin.name()) != first);
        gates.into_iter().find_map(|one| Some((one.name(), one.gate(self.snapshot, class)?)))
    }
}

impl queue::Policy for Policy<'_> {
    type Subject = Subject;

    fn gate(&self, pod: &Uid, first: Option<PluginId>) -> Option<PluginId> {
        let (plugin, _) = self.gating(pod, first)?;
        plugins::id(plugin)
    }

    fn hint(&self, plugin: PluginId, pod: &Uid, event: &queue::Event<Subject>) -> Hint {
        let Some((framework, class)) = self.find(pod) else { return Hint::Skip };
        let Some(row) = TABLE.get(plugin.index()) else { return Hint::Queue };
        if row.name == DEFAULT_PREEMPTION {
            return Hint::Skip;
        }
        let found = framework.plugins.iter().find(|one| one.name() == row.name);
        let Some(found) = found else { return Hint::Queue };
        let begun = framework.laps.begin();
        let hint = found.hint(self.snapshot, class, event);
        let (resource, actions) = (event.resource, event.actions);
        framework.laps.end(begun, Timed::Hint { plugin: row.name, resource, actions, hint });
        hint
    }
}
