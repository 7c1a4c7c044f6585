//! A standing from nothing: what each plugin will do for the class.

use std::sync::Arc;

use super::ranking::Ranking;
use super::{Allowed, Before, FilterRun, Raws, ScoreRun, Standing};
use crate::framework::{Framework, PluginIx};
use crate::lap::{Ending, Timed};
use crate::model::Class;
use crate::plugin::{Context, Filtering, Normalise, Prepared, Reads, Refusal, Scoring, Work};
use crate::profile::Point;
use crate::snapshot::{NodeIx, Snapshot};
use crate::tie;
use crate::verdict::Code;

/// Preparation of one plugin, its work moved to the standing.
struct Step {
    plugin: PluginIx,
    filter: Filtering,
    score: Scoring,
    work: Option<usize>,
}

impl Standing {
    pub fn build(
        framework: &Framework,
        snapshot: &Snapshot,
        class: &Arc<Class>,
        seed: u64,
    ) -> Self {
        let mut standing = Self {
            class: Arc::clone(class),
            tie: tie::mix(class.tie ^ seed),
            cursor: snapshot.log().end(),
            epochs: Vec::new(),
            before: None,
            allowed: None,
            preferred: Vec::new(),
            works: Vec::new(),
            filters: Vec::new(),
            scores: Vec::new(),
            is_global: false,
            cells: Vec::new(),
            raws: Vec::new(),
            feasible: 0,
            ranking: Ranking::default(),
            is_dirty: false,
            decisions: 0,
        };
        standing.prepare(framework, snapshot);
        if standing.before.is_none() {
            standing.evaluate(snapshot);
        }
        standing
    }

    fn prepare(&mut self, framework: &Framework, snapshot: &Snapshot) {
        let scores = framework.scores.iter().map(|(plugin, _)| plugin);
        let all = framework.pre_filters.iter().chain(&framework.filters).chain(scores);
        let mut steps: Vec<Step> = Vec::new();
        for &plugin in all {
            if steps.iter().any(|step| step.plugin == plugin) {
                continue;
            }
            let Some(found) = framework.get(plugin) else { continue };
            let class = Arc::clone(&self.class);
            let name = found.name();
            let begun = framework.laps.begin();
            let prepared = found.prepare(Context { snapshot, class: &class });
            let is_filter =
                framework.pre_filters.contains(&plugin) || framework.filters.contains(&plugin);
            let point = if is_filter { Point::PreFilter } else { Point::PreScore };
            let ending = ending(&prepared);
            framework.laps.end(begun, Timed::Plugin { plugin: name, point, ending });
            let nodes = prepared.nodes.clone();
            self.preferred.extend(&prepared.prefer);
            let step = self.take(plugin, prepared, snapshot);
            if let Filtering::Reject(refusal) = &step.filter {
                // Unresolvable is final; otherwise the last word counts.
                let is_final = refusal.code == Code::Unresolvable;
                self.before = Some(Before { plugins: vec![name], refusal: refusal.clone() });
                if is_final {
                    return;
                }
            }
            if let Some(nodes) = nodes {
                self.allow(name, nodes);
            }
            steps.push(step);
        }
        if self.before.is_none()
            && let Some(allowed) = self.allowed.as_ref().filter(|allowed| allowed.is_disjoint())
        {
            self.before = Some(disjoint(allowed));
        }
        self.line_up(framework, &steps);
    }

    fn take(&mut self, plugin: PluginIx, prepared: Prepared, snapshot: &Snapshot) -> Step {
        for epoch in prepared.depends {
            self.epochs.push((*epoch, snapshot.epoch(*epoch)));
        }
        let work = prepared.work.map(|work| {
            self.works.push(work);
            self.works.len() - 1
        });
        Step { plugin, filter: prepared.filter, score: prepared.score, work }
    }

    fn allow(&mut self, plugin: &'static str, nodes: Vec<NodeIx>) {
        let allowed = match self.allowed.take() {
            None => Allowed { nodes, plugins: vec![plugin] },
            Some(mut allowed) => {
                allowed.nodes.retain(|node| nodes.contains(node));
                allowed.plugins.push(plugin);
                allowed.plugins.sort_unstable();
                allowed
            }
        };
        self.allowed = Some(allowed);
    }

    /// Filters and scores in the order of the profile.
    fn line_up(&mut self, framework: &Framework, steps: &[Step]) {
        let name = |plugin: PluginIx| framework.get(plugin).map_or("", |found| found.name());
        for &plugin in &framework.filters {
            let step = steps.iter().find(|step| step.plugin == plugin);
            if let Some(Step { filter: Filtering::Run(reads), work: Some(work), .. }) = step {
                self.is_global |= *reads == Reads::Cluster;
                self.filters.push(FilterRun { plugin: name(plugin), work: *work, reads: *reads });
            }
        }
        for &(plugin, weight) in &framework.scores {
            let step = steps.iter().find(|step| step.plugin == plugin);
            let Some(Step { score: Scoring::Run(reads, normalise), work: Some(work), .. }) = step
            else {
                continue;
            };
            let (reads, normalise, work) = (*reads, *normalise, *work);
            self.is_global |= reads == Reads::Cluster;
            if let (Normalise::Largest { reverse }, Reads::Node | Reads::Usage) = (normalise, reads)
            {
                let run = self.scores.len();
                self.raws.push(Raws { run, reverse, ..Raws::default() });
            }
            self.scores.push(ScoreRun { plugin: name(plugin), work, reads, normalise, weight });
        }
    }

    pub(super) fn work(&self, at: usize) -> Option<&dyn Work> {
        self.works.get(at).map(AsRef::as_ref)
    }
}

fn ending(prepared: &Prepared) -> Ending {
    match (&prepared.filter, &prepared.score) {
        (Filtering::Reject(refusal), _) => Ending::Rejected(refusal.code),
        (Filtering::Skip, Scoring::Skip) => Ending::Skip,
        _ => Ending::Success,
    }
}

fn disjoint(allowed: &Allowed) -> Before {
    let plugins = allowed.plugins.join(" ");
    let reason = format!("node(s) didn't satisfy plugin(s) [{plugins}] simultaneously");
    let refusal = Refusal { code: Code::Unresolvable, reason };
    Before { plugins: allowed.plugins.clone(), refusal }
}
