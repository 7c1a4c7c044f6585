//! One pod, every node, one decision.
//!
//! ```text
//! standing of the class, brought up to date
//!   PreFilter said no                         -> rejected on every node
//!   the pod's nominated node still fits       -> that one
//!   a node a planner prefers fits             -> the first of these
//!   otherwise the best node that also leaves room for pods nominated to it
//!   nobody fits                               -> reasons by node, then preemption
//! ```
//!
//! **Nominated pods.** Where room is being made for pods at least as important, a node must fit
//! both with them (they will come) and without (they may not). Their nodes are few: instead of
//! checking them all, the ranking's best is checked, set aside when it fails, and put back after
//! the decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::framework::Framework;
use crate::model::Symbol;
use crate::queue::Nominator;
use crate::snapshot::{Change, NodeIx, PodIx, Snapshot, What};
use crate::standing::cache::Standings;
use crate::standing::pass::Pass;
use crate::standing::{Judgement, Standing};
use crate::verdict::{Code, Group, Rejection};

/// A decision about one pod.
#[derive(Debug)]
pub enum Decision {
    Place(Choice),
    Reject(Refused),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub node: NodeIx,
    /// Zero when the nominated node was taken without scoring.
    pub total: i64,
    pub feasible: Option<u32>,
    pub second: Option<(NodeIx, i64)>,
    pub was_nominated: bool,
    /// Weighted scores by plugin.
    pub parts: Vec<(&'static str, i64)>,
}

#[derive(Debug, Default)]
pub struct Refused {
    pub rejection: Rejection,
    /// Nodes where evicting pods may help, by index.
    pub resolvable: Vec<NodeIx>,
    /// Why, node by node.
    pub nodes: Vec<(Group, Vec<NodeIx>)>,
}

impl Choice {
    /// A node that is taken without scoring.
    pub(crate) fn of(node: NodeIx) -> Self {
        Self {
            node,
            total: 0,
            feasible: None,
            second: None,
            was_nominated: false,
            parts: Vec::new(),
        }
    }
}

/// What a decision reads and, in dry runs, changes and puts back.
#[derive(Debug)]
pub struct Cycle<'a> {
    pub snapshot: &'a mut Snapshot,
    pub framework: &'a Framework,
    pub nominator: &'a Nominator<Symbol>,
}

impl Cycle<'_> {
    pub fn decide(&mut self, standings: &mut Standings, pass: &mut Pass, pod: PodIx) -> Decision {
        let Some(found) = self.snapshot.pods.get(pod) else {
            return Decision::Reject(Refused::default());
        };
        if self.snapshot.live() == 0 {
            return Decision::Reject(no_nodes());
        }
        let (class, nominated) = (Arc::clone(&found.class), found.nominated);
        let standing = standings.current(self.framework, self.snapshot, &class);
        standing.decided();
        if let Some(refused) = self.refused_before(standing) {
            return Decision::Reject(refused);
        }
        if let Some(node) = nominated.and_then(|name| self.snapshot.node_by_name(name))
            && self.fits(standing, pod, node).verdict.is_ok()
        {
            return Decision::Place(Choice { was_nominated: true, ..Choice::of(node) });
        }
        for node in standing.preferred().to_vec() {
            if self.fits(standing, pod, node).verdict.is_ok() {
                return Decision::Place(Choice::of(node));
            }
        }
        let needs_pass =
            standing.is_global() || (standing.is_relative() && !self.nominator.is_empty());
        if needs_pass {
            self.decide_by_pass(standing, pass, pod)
        } else {
            self.decide_by_rank(standing, pod)
        }
    }

    /// The ranking's best node that leaves room for those promised some.
    fn decide_by_rank(&mut self, standing: &mut Standing, pod: PodIx) -> Decision {
        let mut aside: Vec<(NodeIx, i64)> = Vec::new();
        let found = loop {
            let Some((node, total)) = standing.best() else { break None };
            if self.fits_with_nominated(standing, pod, node).verdict.is_ok() {
                break Some((node, total));
            }
            standing.exclude(self.snapshot, node);
            aside.push((node, total));
        };
        let second = found.and_then(|_| standing.second(self.snapshot));
        for (node, total) in &aside {
            standing.restore(self.snapshot, *node, *total);
        }
        let Some((node, total)) = found else {
            let known = self.without_room(standing, pod);
            return Decision::Reject(self.refuse(standing, &known));
        };
        Decision::Place(Choice {
            node,
            total,
            feasible: aside.is_empty().then(|| standing.feasible()),
            second,
            was_nominated: false,
            parts: standing.parts(self.snapshot, node),
        })
    }

    fn decide_by_pass(&mut self, standing: &mut Standing, pass: &mut Pass, pod: PodIx) -> Decision {
        let known = self.without_room(standing, pod);
        let without: Vec<NodeIx> = known.keys().copied().collect();
        standing.pass(self.snapshot, &without, pass);
        let (first, second) = pass.best(standing, self.snapshot);
        let Some((node, total)) = first else {
            return Decision::Reject(self.refuse(standing, &known));
        };
        Decision::Place(Choice {
            node,
            total,
            feasible: u32::try_from(pass.feasible()).ok(),
            second,
            was_nominated: false,
            parts: standing.parts_in(self.snapshot, pass, node),
        })
    }

    /// Filters and scores all nodes, or those in `among`, whichever way the class is decided
    /// otherwise. Fails when none is left.
    pub(crate) fn pass_over<'s>(
        &mut self,
        standings: &'s mut Standings,
        pass: &mut Pass,
        pod: PodIx,
        among: Option<&BTreeMap<NodeIx, i64>>,
    ) -> Result<&'s mut Standing, Box<Refused>> {
        let Some(found) = self.snapshot.pods.get(pod) else { return Err(Box::default()) };
        if self.snapshot.live() == 0 {
            return Err(Box::new(no_nodes()));
        }
        let class = Arc::clone(&found.class);
        let standing = standings.current(self.framework, self.snapshot, &class);
        if let Some(refused) = self.refused_before(standing) {
            return Err(Box::new(refused));
        }
        let known = self.without_room(standing, pod);
        let mut without: Vec<NodeIx> = known.keys().copied().collect();
        if let Some(among) = among {
            let others = self.snapshot.nodes().map(|(node, _)| node);
            without.extend(others.filter(|node| !among.contains_key(node)));
            without.sort_unstable();
        } else {
            standing.decided();
        }
        standing.pass(self.snapshot, &without, pass);
        if pass.feasible() == 0 {
            return Err(Box::new(self.refuse(standing, &known)));
        }
        Ok(standing)
    }

    /// Nodes that do not fit together with the pods nominated to them. That pass comes first, so
    /// its reasons are the ones to be told.
    fn without_room(&mut self, standing: &mut Standing, pod: PodIx) -> BTreeMap<NodeIx, Judgement> {
        let nodes: Vec<NodeIx> =
            self.nominator.nodes().filter_map(|name| self.snapshot.node_by_name(*name)).collect();
        let judged = nodes
            .into_iter()
            .map(|node| (node, self.fits_with_nominated(standing, pod, node)))
            .filter(|(_, judgement)| !judgement.verdict.is_ok());
        judged.collect()
    }

    /// Both passes on one node as it is now.
    pub fn fits(&mut self, standing: &mut Standing, pod: PodIx, node: NodeIx) -> Judgement {
        let with = self.fits_with_nominated(standing, pod, node);
        if !with.verdict.is_ok() {
            return with;
        }
        standing.judge_usage(self.snapshot, node)
    }

    /// The pass that counts pods nominated to the node. Good when there are none.
    fn fits_with_nominated(
        &mut self,
        standing: &mut Standing,
        pod: PodIx,
        node: NodeIx,
    ) -> Judgement {
        let ahead = self.ahead(pod, node);
        if ahead.is_empty() {
            return Judgement::OK;
        }
        for other in &ahead {
            self.try_on(standing, *other, node);
        }
        let judgement = standing.judge_usage(self.snapshot, node);
        for other in ahead.iter().rev() {
            self.try_off(standing, *other, node);
        }
        judgement
    }

    /// Pods nominated to the node that are at least as important, other than the pod itself.
    fn ahead(&self, pod: PodIx, node: NodeIx) -> Vec<PodIx> {
        if self.nominator.is_empty() {
            return Vec::new();
        }
        let snapshot = &*self.snapshot;
        let (Some(found), Some(node)) = (snapshot.pods.get(pod), snapshot.node(node)) else {
            return Vec::new();
        };
        let ahead = self.nominator.ahead_of(&found.uid, found.class.priority, &node.name);
        let pods = ahead.filter_map(|uid| snapshot.pods.find(uid));
        pods.filter(|one| snapshot.pods.get(*one).is_some_and(|pod| pod.node.is_none())).collect()
    }

    /// Dry run: a pod is on the node.
    pub fn try_on(&mut self, standing: &mut Standing, pod: PodIx, node: NodeIx) {
        self.snapshot.drop_on(pod, node);
        if standing.is_global()
            && let Some(found) = self.snapshot.pods.get(pod)
        {
            let (class, is_terminating) = (Arc::clone(&found.class), found.is_terminating);
            let change = Change { node, what: What::Added { class, is_terminating } };
            standing.follow(self.snapshot, &change);
        }
    }

    /// Dry run: a pod is not on the node.
    pub fn try_off(&mut self, standing: &mut Standing, pod: PodIx, node: NodeIx) {
        self.snapshot.lift(pod, node);
        if standing.is_global()
            && let Some(found) = self.snapshot.pods.get(pod)
        {
            let (class, is_terminating) = (Arc::clone(&found.class), found.is_terminating);
            let change = Change { node, what: What::Removed { class, is_terminating } };
            standing.follow(self.snapshot, &change);
        }
    }

    /// What PreFilter had against the class, told for every node.
    fn refused_before(&self, standing: &Standing) -> Option<Refused> {
        let before = standing.before()?;
        let rejection = Rejection {
            nodes: self.snapshot.live(),
            before: Some(before.refusal.reason.clone()),
            plugins: before.plugins.iter().copied().collect(),
            ..Rejection::default()
        };
        let all = || self.snapshot.nodes().map(|(node, _)| node).collect();
        let helps = before.refusal.code == Code::Unschedulable;
        let resolvable = if helps { all() } else { Vec::new() };
        Some(Refused { rejection, resolvable, nodes: Vec::new() })
    }

    fn refuse(&self, standing: &Standing, known: &BTreeMap<NodeIx, Judgement>) -> Refused {
        let nodes = standing.diagnose(self.snapshot, known);
        let resolvable = nodes.iter().filter(|(group, _)| group.code == Code::Unschedulable);
        let mut resolvable: Vec<NodeIx> =
            resolvable.flat_map(|(_, nodes)| nodes).copied().collect();
        resolvable.sort_unstable();
        let rejection = Rejection {
            nodes: self.snapshot.live(),
            plugins: nodes.iter().map(|(group, _)| group.plugin).collect(),
            groups: nodes.iter().map(|(group, _)| group.clone()).collect(),
            ..Rejection::default()
        };
        Refused { rejection, resolvable, nodes }
    }
}

fn no_nodes() -> Refused {
    let rejection = Rejection {
        before: Some("no nodes available to schedule pods".to_owned()),
        is_error: true,
        ..Rejection::default()
    };
    Refused { rejection, ..Refused::default() }
}
