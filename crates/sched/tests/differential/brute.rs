//! The scheduler once more, the slow way: every rule read off the objects, nothing kept.
//!
//! Written against the specification and not against the engine: it shares with it the order of
//! equal nodes (`sched::tie`) and the parser of quantities, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, Node, NodeSelectorTerm, Pod, Taint, Toleration};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use sched::tie;
use units::Quantity;

use crate::company;

pub(crate) type Amounts = BTreeMap<String, i64>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    Unschedulable(Vec<String>),
    Unresolvable(Vec<String>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Place { node: String, total: Option<i64> },
    Reject { message: String, nominate: Option<String>, victims: Vec<(String, bool)> },
}

/// A pod and what was read of it when it came.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) pod: Pod,
    pub(crate) node: Option<String>,
    requests: Amounts,
    /// With defaults for what is not requested.
    padded: Amounts,
    ports: Vec<Port>,
}

impl Known {
    pub(crate) fn new(pod: Pod) -> Self {
        let (plain, padded) = (requests(&pod, false), requests(&pod, true));
        Self { ports: ports(&pod), pod, node: None, requests: plain, padded }
    }
}

/// A node and what it offers.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) node: Node,
    offer: Amounts,
}

impl Place {
    pub(crate) fn new(node: Node) -> Self {
        Self { offer: offered(&node), node }
    }
}

/// Pods by node.
type Here<'a> = BTreeMap<&'a str, Vec<&'a Known>>;

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) nodes: BTreeMap<String, Place>,
    /// By uid.
    pub(crate) pods: BTreeMap<String, Known>,
    pub(crate) nominated: BTreeMap<String, String>,
    pub(crate) budgets: Vec<PodDisruptionBudget>,
}

pub(crate) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap()
}

pub(crate) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().unwrap().priority.unwrap_or(0)
}

impl World {
    fn here(&self) -> Here<'_> {
        let mut here: Here<'_> =
            self.nodes.keys().map(|node| (node.as_str(), Vec::new())).collect();
        for known in self.pods.values() {
            if let Some(pods) = known.node.as_deref().and_then(|node| here.get_mut(node)) {
                pods.push(known);
            }
        }
        here
    }

    pub(crate) fn decide(&self, known: &Known) -> Answer {
        let pod = &known.pod;
        let here = self.here();
        let nominated = self.nominated.get(uid(pod)).filter(|node| self.nodes.contains_key(*node));
        if let Some(node) = nominated
            && self.status(known, node, &here[node.as_str()]) == Status::Ok
        {
            return Answer::Place { node: node.clone(), total: None };
        }
        let statuses: BTreeMap<&String, Status> = self
            .nodes
            .keys()
            .map(|node| (node, self.status(known, node, &here[node.as_str()])))
            .collect();
        let feasible = statuses.iter().filter(|(_, status)| **status == Status::Ok);
        let feasible: Vec<&str> = feasible.map(|(node, _)| node.as_str()).collect();
        if !feasible.is_empty() {
            let totals = self.totals(known, &here, &feasible);
            let best = feasible.iter().max_by_key(|node| (totals[**node], self.order(pod, node)));
            let node = (*best.unwrap()).to_owned();
            return Answer::Place { total: Some(totals[node.as_str()]), node };
        }
        let mut message = format!("0/{} nodes are available: ", self.nodes.len());
        message += &format!("{}.", aggregate(statuses.values()));
        self.preempt(known, &here, &statuses, message)
    }

    fn order(&self, pod: &Pod, node: &str) -> u64 {
        let namespace = pod.metadata.namespace.as_deref().unwrap();
        let class = tie::mix(tie::of_pod(namespace, pod.metadata.labels.as_ref()) ^ self.seed);
        tie::between(class, tie::of(node.as_bytes()))
    }

    /// Both passes.
    fn status(&self, known: &Known, node: &str, here: &[&Known]) -> Status {
        let pod = &known.pod;
        let ahead = self.nominated.iter().filter(|(other, at)| *at == node && *other != uid(pod));
        let ahead = ahead.filter_map(|(other, _)| self.pods.get(other));
        let is_ahead = |one: &&Known| one.node.is_none() && priority(&one.pod) >= priority(pod);
        let mut with: Vec<&Known> = here.to_vec();
        with.extend(ahead.filter(is_ahead));
        if with.len() > here.len() {
            let first = self.filter(known, node, &with);
            if first != Status::Ok {
                return first;
            }
        }
        self.filter(known, node, here)
    }

    fn totals<'a>(
        &self,
        known: &Known,
        here: &Here<'_>,
        feasible: &[&'a str],
    ) -> BTreeMap<&'a str, i64> {
        let pod = &known.pod;
        let raw = |score: &dyn Fn(&Node) -> i64| -> Vec<i64> {
            feasible.iter().map(|node| score(&self.nodes[*node].node)).collect()
        };
        let taints = normalised(raw(&|node| soft_taints(pod, node)), true);
        let affinity = normalised(raw(&|node| preferred(pod, node)), false);
        let nodes: Vec<&Node> = feasible.iter().map(|name| &self.nodes[*name].node).collect();
        let company = company::scores(pod, &nodes, &self.cluster());
        let mut totals = BTreeMap::new();
        for (at, name) in feasible.iter().enumerate() {
            let place = &self.nodes[*name];
            let here = &here[name];
            let mut total = 3 * taints[at] + self.images(pod, &place.node) + company[at];
            if has_preferred(pod) {
                total += 2 * affinity[at];
            }
            total += least_allocated(known, place, here) + balanced(known, place, here);
            totals.insert(*name, total);
        }
        totals
    }

    fn images(&self, pod: &Pod, node: &Node) -> i64 {
        let spec = pod.spec.as_ref().unwrap();
        let containers: Vec<&Container> =
            spec.init_containers.iter().flatten().chain(&spec.containers).collect();
        let size = |node: &Node, image: &str| {
            let images = node.status.as_ref()?.images.as_ref()?;
            let held =
                images.iter().find(|one| one.names.iter().flatten().any(|name| name == image))?;
            held.size_bytes
        };
        let mut sum = 0_i64;
        for container in &containers {
            let image = container.image.as_deref().unwrap();
            let nodes = self.nodes.values().map(|place| &place.node);
            let holders = nodes.filter(|node| size(node, image).is_some()).count();
            let share = holders as f64 / self.nodes.len() as f64;
            sum += (size(node, image).unwrap_or(0) as f64 * share) as i64;
        }
        let (least, most) = (23 << 20, (1000 << 20) * containers.len() as i64);
        100 * (sum.clamp(least, most) - least) / (most - least)
    }

    fn preempt(
        &self,
        known: &Known,
        here: &Here<'_>,
        statuses: &BTreeMap<&String, Status>,
        message: String,
    ) -> Answer {
        let pod = &known.pod;
        let reject = |message, nominate, victims| Answer::Reject { message, nominate, victims };
        if pod.spec.as_ref().unwrap().preemption_policy.as_deref() == Some("Never") {
            let why = "preemption: not eligible due to preemptionPolicy=Never.";
            return reject(format!("{message} {why}"), None, Vec::new());
        }
        let mut failures: Vec<Status> = Vec::new();
        let mut best: Option<((usize, i32, i64, usize, i64, u64), &String, Vec<(String, bool)>)> =
            None;
        for (node, status) in statuses {
            if !matches!(status, Status::Unschedulable(_)) {
                let why = "Preemption is not helpful for scheduling".to_owned();
                failures.push(Status::Unresolvable(vec![why]));
                continue;
            }
            match self.clear(known, node, &here[node.as_str()]) {
                Err(status) => failures.push(status),
                Ok(victims) => {
                    let top = victims.iter().map(|(one, _)| priority(one)).max().unwrap();
                    let tops = victims.iter().filter(|(one, _)| priority(one) == top);
                    let cost = (
                        victims.iter().filter(|(_, violates)| *violates).count(),
                        top,
                        victims.iter().map(|(one, _)| i64::from(priority(one)) + (1 << 31)).sum(),
                        victims.len(),
                        -tops.map(|(one, _)| started(one)).min().unwrap(),
                        !self.order(pod, node),
                    );
                    let names = victims.iter().map(|(one, v)| (uid(one).to_owned(), *v)).collect();
                    if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                        best = Some((cost, node, names));
                    }
                }
            }
        }
        match best {
            Some((_, node, victims)) => reject(message, Some(node.clone()), victims),
            None => {
                let why = aggregate(failures.iter());
                let total = self.nodes.len();
                let why = format!("preemption: 0/{total} nodes are available: {why}.");
                reject(format!("{message} {why}"), None, Vec::new())
            }
        }
    }

    /// Who must go from a node, most important first.
    fn clear<'a>(
        &self,
        known: &Known,
        node: &str,
        here: &[&'a Known],
    ) -> Result<Vec<(&'a Pod, bool)>, Status> {
        let (mut lower, mut kept): (Vec<&Known>, Vec<&Known>) =
            here.iter().copied().partition(|one| priority(&one.pod) < priority(&known.pod));
        if lower.is_empty() {
            let why = "No preemption victims found for incoming pod".to_owned();
            return Err(Status::Unresolvable(vec![why]));
        }
        let status = self.status(known, node, &kept);
        if status != Status::Ok {
            return Err(status);
        }
        lower.sort_by_key(|one| {
            (-i64::from(priority(&one.pod)), started(&one.pod), uid(&one.pod).to_owned())
        });
        let violating = self.violating(&lower);
        let is_violating = |one: &Pod| violating.contains(uid(one));
        let mut order = lower.clone();
        order.sort_by_key(|one| !is_violating(&one.pod));
        let mut gone: BTreeSet<&str> = BTreeSet::new();
        for one in order {
            kept.push(one);
            if self.status(known, node, &kept) != Status::Ok {
                kept.pop();
                gone.insert(uid(&one.pod));
            }
        }
        let victims = lower.into_iter().map(|one| &one.pod).filter(|one| gone.contains(uid(one)));
        Ok(victims.map(|one| (one, is_violating(one))).collect())
    }

    fn violating(&self, pods: &[&Known]) -> BTreeSet<String> {
        let mut violating = BTreeSet::new();
        let mut left: Vec<i32> = self.budgets.iter().map(|one| allowed(one)).collect();
        for pod in pods.iter().map(|one| &one.pod) {
            for (budget, left) in self.budgets.iter().zip(&mut left) {
                let wanted = budget.spec.as_ref().unwrap().selector.as_ref().unwrap();
                let wanted = wanted.match_labels.as_ref().unwrap();
                let labels = pod.metadata.labels.as_ref().unwrap();
                let matches = wanted.iter().all(|(key, value)| labels.get(key) == Some(value));
                if matches && budget.metadata.namespace == pod.metadata.namespace {
                    *left -= 1;
                    if *left < 0 {
                        violating.insert(uid(pod).to_owned());
                    }
                }
            }
        }
        violating
    }
}

fn allowed(budget: &PodDisruptionBudget) -> i32 {
    budget.status.as_ref().unwrap().disruptions_allowed
}

fn started(pod: &Pod) -> i64 {
    let start = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    start.map_or(i64::MAX, |time| time.0.as_second())
}

fn aggregate<'a>(statuses: impl Iterator<Item = &'a Status>) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for status in statuses {
        let (Status::Unschedulable(reasons) | Status::Unresolvable(reasons)) = status else {
            continue;
        };
        for reason in reasons {
            *counts.entry(reason).or_default() += 1;
        }
    }
    let mut parts: Vec<String> = counts.iter().map(|(why, n)| format!("{n} {why}")).collect();
    parts.sort();
    parts.join(", ")
}

fn normalised(raw: Vec<i64>, reverse: bool) -> Vec<i64> {
    let most = raw.iter().copied().max().unwrap_or(0);
    let share = |one: i64| if most == 0 { 0 } else { one * 100 / most };
    raw.into_iter().map(|one| if reverse { 100 - share(one) } else { share(one) }).collect()
}

/// The filters in their order; the first that rejects has the word.
pub(crate) fn filter(known: &Known, place: &Place, here: &[&Known]) -> Status {
    let (pod, node) = (&known.pod, &place.node);
    let unresolvable = |why: &str| Status::Unresolvable(vec![why.to_owned()]);
    let spec = pod.spec.as_ref().unwrap();
    let terms = required(pod);
    if let Some(pins) = pinned(&terms)
        && !pins.contains(node.metadata.name.as_deref().unwrap())
    {
        return unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]");
    }
    let node_spec = node.spec.as_ref();
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if node_spec.and_then(|spec| spec.unschedulable) == Some(true) && !tolerated(pod, &cordon) {
        return unresolvable("node(s) were unschedulable");
    }
    let mut taints = node_spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    if taints.any(|taint| taint.effect != "PreferNoSchedule" && !tolerated(pod, taint)) {
        return unresolvable("node(s) had untolerated taint(s)");
    }
    let mut selector = spec.node_selector.iter().flatten();
    let is_selected = selector.all(|(key, value)| label(node, key) == Some(value.as_str()));
    let is_wanted = terms.as_ref().is_none_or(|terms| terms.iter().any(|term| matches(term, node)));
    if !is_selected || !is_wanted {
        return unresolvable("node(s) didn't match Pod's node affinity/selector");
    }
    let taken = || here.iter().flat_map(|other| &other.ports);
    if known.ports.iter().any(|port| taken().any(|other| clash(port, other))) {
        let why = "node(s) didn't have free ports for the requested pod ports";
        return Status::Unschedulable(vec![why.to_owned()]);
    }
    fit(known, &place.offer, here)
}

fn fit(known: &Known, offer: &Amounts, here: &[&Known]) -> Status {
    let mut reasons = Vec::new();
    let mut is_hopeless = false;
    if here.len() as i64 + 1 > offer.get("pods").copied().unwrap_or(0) {
        reasons.push("Too many pods".to_owned());
    }
    for (name, amount) in known.requests.iter().filter(|(_, amount)| **amount > 0) {
        let taken: i64 = here.iter().map(|one| part(&one.requests, name)).sum();
        let offered = part(offer, name);
        if *amount > offered - taken {
            reasons.push(format!("Insufficient {name}"));
            is_hopeless |= *amount > offered;
        }
    }
    match (reasons.is_empty(), is_hopeless) {
        (true, _) => Status::Ok,
        (false, true) => Status::Unresolvable(reasons),
        (false, false) => Status::Unschedulable(reasons),
    }
}

fn part(amounts: &Amounts, name: &str) -> i64 {
    amounts.get(name).copied().unwrap_or(0)
}

fn amount(name: &str, text: &str) -> i64 {
    let quantity: Quantity = text.parse().unwrap();
    if name == "cpu" { quantity.milli_value() } else { quantity.value() }
}

fn offered(node: &Node) -> Amounts {
    let offered = node.status.as_ref().unwrap().allocatable.as_ref().unwrap();
    offered.iter().map(|(name, text)| (name.clone(), amount(name, &text.0))).collect()
}

/// The largest moment in the life of the pod, resource by resource.
fn requests(pod: &Pod, with_defaults: bool) -> Amounts {
    let spec = pod.spec.as_ref().unwrap();
    let own = |container: &Container| -> Amounts {
        let list = container.resources.as_ref().and_then(|own| own.requests.as_ref());
        let mut amounts: Amounts = list
            .into_iter()
            .flatten()
            .map(|(name, text)| (name.clone(), amount(name, &text.0)))
            .collect();
        if with_defaults {
            amounts.entry("cpu".to_owned()).or_insert(100);
            amounts.entry("memory".to_owned()).or_insert(200 << 20);
        }
        amounts
    };
    let sum = |parts: &[Amounts]| {
        let mut total = Amounts::new();
        for (name, amount) in parts.iter().flatten() {
            *total.entry(name.clone()).or_default() += amount;
        }
        total
    };
    let mut moments: Vec<Amounts> = Vec::new();
    let mut running: Vec<Amounts> = Vec::new();
    for container in spec.init_containers.iter().flatten() {
        let mut now = running.clone();
        now.push(own(container));
        moments.push(sum(&now));
        if container.restart_policy.as_deref() == Some("Always") {
            running.push(own(container));
        }
    }
    running.extend(spec.containers.iter().map(own));
    moments.push(sum(&running));
    let mut most = Amounts::new();
    for (name, amount) in moments.iter().flatten() {
        let entry = most.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
    for (name, text) in spec.overhead.iter().flatten() {
        *most.entry(name.clone()).or_default() += amount(name, &text.0);
    }
    most
}

fn least_allocated(known: &Known, place: &Place, here: &[&Known]) -> i64 {
    let (offer, own) = (&place.offer, &known.padded);
    let (mut sum, mut weights) = (0, 0);
    for name in ["cpu", "memory"] {
        let capacity = part(offer, name);
        let taken: i64 = here.iter().map(|one| part(&one.padded, name)).sum();
        let wanted = taken + part(own, name);
        if capacity > 0 {
            sum += if wanted > capacity { 0 } else { (capacity - wanted) * 100 / capacity };
            weights += 1;
        }
    }
    if weights == 0 { 0 } else { sum / weights }
}

fn balanced(known: &Known, place: &Place, here: &[&Known]) -> i64 {
    let (offer, own) = (&place.offer, &known.requests);
    if part(own, "cpu") == 0 && part(own, "memory") == 0 {
        return 0;
    }
    let mut fractions = Vec::new();
    for name in ["cpu", "memory"] {
        let capacity = part(offer, name);
        let taken: i64 = here.iter().map(|one| part(&one.requests, name)).sum();
        if capacity > 0 {
            let fraction = (taken + part(own, name)) as f64 / capacity as f64;
            fractions.push(fraction.min(1.0));
        }
    }
    let deviation = match fractions[..] {
        [one, other] => ((one - other) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - deviation) * 100.0) as i64
}

fn tolerated(pod: &Pod, taint: &Taint) -> bool {
    tolerations(pod).iter().any(|one| tolerates(one, taint))
}

fn tolerations(pod: &Pod) -> &[Toleration] {
    pod.spec.as_ref().unwrap().tolerations.as_deref().unwrap_or_default()
}

fn tolerates(one: &Toleration, taint: &Taint) -> bool {
    let text = |option: &Option<String>| option.clone().unwrap_or_default();
    let (key, effect, value) = (text(&one.key), text(&one.effect), text(&one.value));
    (effect.is_empty() || effect == taint.effect)
        && (key.is_empty() || key == taint.key)
        && match one.operator.as_deref() {
            Some("Exists") => true,
            _ => value == text(&taint.value),
        }
}

fn soft_taints(pod: &Pod, node: &Node) -> i64 {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    let soft = taints.filter(|taint| taint.effect == "PreferNoSchedule");
    let helps =
        |one: &&Toleration| matches!(one.effect.as_deref(), None | Some("" | "PreferNoSchedule"));
    let untolerated = soft
        .filter(|taint| !tolerations(pod).iter().filter(helps).any(|one| tolerates(one, taint)));
    untolerated.count() as i64
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn required(pod: &Pod) -> Option<Vec<NodeSelectorTerm>> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    Some(required.node_selector_terms.clone())
}

fn pinned(terms: &Option<Vec<NodeSelectorTerm>>) -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    let terms = terms.as_ref().filter(|terms| !terms.is_empty())?;
    for term in terms {
        let field = term.match_fields.as_ref()?.first()?;
        all.extend(field.values.clone()?);
    }
    Some(all)
}

fn matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.iter().flatten();
    let fields = term.match_fields.iter().flatten();
    if expressions.clone().count() + fields.clone().count() == 0 {
        return false;
    }
    let holds = |value: Option<&str>, operator: &str, values: &[String]| {
        let number = |text: &str| text.parse::<i64>().ok();
        match operator {
            "In" => value.is_some_and(|value| values.iter().any(|one| one == value)),
            "NotIn" => !value.is_some_and(|value| values.iter().any(|one| one == value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => value.and_then(number) > number(&values[0]) && value.and_then(number).is_some(),
            _ => value.and_then(number).is_some_and(|found| Some(found) < number(&values[0])),
        }
    };
    let name = node.metadata.name.as_deref();
    expressions.clone().all(|one| {
        holds(label(node, &one.key), &one.operator, one.values.as_deref().unwrap_or_default())
    }) && fields
        .clone()
        .all(|one| holds(name, &one.operator, one.values.as_deref().unwrap_or_default()))
}

fn has_preferred(pod: &Pod) -> bool {
    let affinity = pod.spec.as_ref().unwrap().affinity.as_ref();
    let affinity = affinity.and_then(|one| one.node_affinity.as_ref());
    affinity.is_some_and(|one| one.preferred_during_scheduling_ignored_during_execution.is_some())
}

fn preferred(pod: &Pod, node: &Node) -> i64 {
    let affinity = pod.spec.as_ref().unwrap().affinity.as_ref();
    let affinity = affinity.and_then(|one| one.node_affinity.as_ref());
    let terms =
        affinity.and_then(|one| one.preferred_during_scheduling_ignored_during_execution.as_ref());
    let terms = terms.into_iter().flatten().filter(|one| matches(&one.preference, node));
    terms.map(|one| i64::from(one.weight)).sum()
}

type Port = (i32, String, String);

fn ports(pod: &Pod) -> Vec<Port> {
    let spec = pod.spec.as_ref().unwrap();
    let init = spec.init_containers.iter().flatten();
    let sidecars = init.filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|one| one.ports.iter().flatten());
    let read = ports.filter_map(|port| {
        let ip = port.host_ip.clone().filter(|ip| !ip.is_empty());
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        Some((port.host_port?, protocol, ip.unwrap_or_else(|| "0.0.0.0".to_owned())))
    });
    read.collect()
}

fn clash(a: &Port, b: &Port) -> bool {
    a.0 == b.0 && a.1 == b.1 && (a.2 == b.2 || a.2 == "0.0.0.0" || b.2 == "0.0.0.0")
}
