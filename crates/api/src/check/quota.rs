//! May a quota be created, changed or deleted as it stands?
//!
//! Quotas form trees by their `parent` labels; the root quota is above all and
//! sets no bounds. Between a quota and its children three things must hold:
//! the same resources, children whose minimums together fit into the parent's,
//! and one tree id. A quota without children directly below the root is free
//! of all that.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use units::Quantity;

use super::{Report, join};
use crate::finding::{Code, Finding};
use crate::kind::ElasticQuota;
use crate::metadata::ResourceList;
use crate::metadata::quota::{parent_of, quota_of};
use crate::protocol::gate::{Gates, ManagerGate};
use crate::protocol::name::quota::{DEFAULT, ROOT, SYSTEM};
use crate::protocol::quota as key;

/// A quota as someone wants it, and what is around it.
#[derive(Debug, Clone, Copy)]
pub struct QuotaChange<'a> {
    /// `None` when the quota is new.
    pub old: Option<&'a ElasticQuota>,
    pub new: &'a ElasticQuota,
    /// Every quota of the cluster; the one in question may be among them.
    pub quotas: &'a [ElasticQuota],
    /// Whether the quota in question is known to exist.
    pub is_known: bool,
    /// Names of pods that count against the quota.
    pub pods: &'a [String],
}

fn name(quota: &ElasticQuota) -> &str {
    quota.metadata.name.as_deref().unwrap_or_default()
}

fn is_parent(quota: &ElasticQuota) -> bool {
    key::IS_PARENT.get(&quota.metadata) == Some(true)
}

fn tree(quota: &ElasticQuota) -> &str {
    key::TREE_ID.raw(&quota.metadata).unwrap_or_default()
}

fn is_exempt_from_sums(quota: &ElasticQuota) -> bool {
    let meta = &quota.metadata;
    key::ALLOW_FORCE_UPDATE.get(meta) == Some(true) || key::IS_ROOT.get(meta) == Some(true)
}

impl<'a> QuotaChange<'a> {
    fn name(&self) -> &'a str {
        name(self.new)
    }

    fn parent_name(&self) -> &'a str {
        parent_of(&self.new.metadata)
    }

    fn others(&self) -> impl Iterator<Item = &'a ElasticQuota> {
        let own = self.name();
        self.quotas.iter().filter(move |quota| name(quota) != own)
    }

    /// The parent, unless it is the root or unknown.
    fn parent(&self) -> Option<&'a ElasticQuota> {
        let parent = self.parent_name();
        self.others().find(|quota| name(quota) == parent).filter(|_| parent != ROOT)
    }

    fn children_of(&self, parent: &'a str) -> impl Iterator<Item = &'a ElasticQuota> {
        self.others().filter(move |quota| parent_of(&quota.metadata) == parent)
    }

    fn children(&self) -> impl Iterator<Item = &'a ElasticQuota> {
        self.children_of(self.name())
    }

    /// Nothing that these checks look at has changed.
    fn is_same(&self) -> bool {
        let facts = |quota: &'a ElasticQuota| {
            let place = (parent_of(&quota.metadata), is_parent(quota), tree(quota));
            (place, key::NAMESPACES.raw(&quota.metadata), &quota.spec)
        };
        self.old.is_some_and(|old| facts(old) == facts(self.new))
    }
}

/// Everything that speaks against a new or changed quota.
pub fn check_elastic_quota(change: &QuotaChange<'_>, gates: &Gates<ManagerGate>) -> Vec<Finding> {
    let mut report = Report::new("ElasticQuota", &change.new.metadata);
    if change.is_same() {
        return report.findings;
    }
    identity(&mut report, change);
    namespaces(&mut report, change);
    if change.old.is_some() && !change.is_known {
        report.push(unknown(change.name()));
    }
    bounds(&mut report, change.new);
    strict_keys(&mut report, change.new);
    parenthood(&mut report, change);
    tree_id(&mut report, change);
    if change.parent_name() == ROOT && !is_parent(change.new) {
        return report.findings;
    }
    parent(&mut report, change);
    resource_keys(&mut report, change, gates);
    if !is_exempt_from_sums(change.new) {
        sums(&mut report, change);
        if gates.is_on(ManagerGate::ElasticQuotaGuaranteeUsage) {
            guarantee(&mut report, change);
        }
    }
    report.findings
}

fn unknown(name: &str) -> Finding {
    let rule = format!("there is no quota {name}, as far as is known");
    let fix = "try again in a moment, or create the quota";
    Finding::error(Code::QuotaUnknown, rule, fix).path("metadata.name").value(name)
}

fn identity(report: &mut Report, change: &QuotaChange<'_>) {
    let name = change.name();
    if change.old.is_some() {
        if [ROOT, SYSTEM].contains(&name) {
            let rule = "the root and system quotas cannot be changed";
            report.push(Finding::error(Code::QuotaBuiltIn, rule, "change a quota of your own"));
        }
    } else if let Some(other) = change.quotas.iter().find(|quota| self::name(quota) == name) {
        let namespace = other.metadata.namespace.as_deref().unwrap_or_default();
        let rule = format!("names of quotas are unique in the cluster; {namespace}/{name} exists");
        let finding = Finding::error(Code::QuotaName, rule, "choose another name");
        report.push(finding.path("metadata.name").value(name));
    }
}

fn namespaces(report: &mut Report, change: &QuotaChange<'_>) {
    let instead = "the quota is refused";
    let meta = &change.new.metadata;
    let own = report.read(&key::NAMESPACES, meta, Code::QuotaNamespace, instead);
    for namespace in own.unwrap_or_default() {
        let holder = change.others().find(|quota| {
            let listed = key::NAMESPACES.get(&quota.metadata).unwrap_or_default();
            listed.contains(&namespace)
        });
        if let Some(holder) = holder {
            let rule = format!("namespace {namespace} belongs to quota {}", name(holder));
            let fix = "take it out of one of the two lists";
            let finding = Finding::error(Code::QuotaNamespace, rule, fix).value(&namespace);
            report.push_at(&key::NAMESPACES, finding);
        }
    }
}

fn bounds(report: &mut Report, quota: &ElasticQuota) {
    let (min, max) = (&quota.spec.min, &quota.spec.max);
    let instead = "the quota is refused";
    let weight = report.read(&key::SHARED_WEIGHT, &quota.metadata, Code::QuotaBounds, instead);
    let weight = weight.unwrap_or_default();
    for (field, list) in [("spec.min", min), ("spec.max", max), ("shared-weight", &weight)] {
        for (resource, amount) in list.iter().filter(|(_, amount)| **amount < Quantity::ZERO) {
            let finding =
                Finding::error(Code::QuotaBounds, "must not be negative", "use 0 or more");
            report.push(finding.path(format!("{field}.{resource}")).value(amount.to_string()));
        }
    }
    for (resource, least) in min {
        let (rule, fix) = match max.get(resource) {
            None => (format!("spec.max has no {resource}"), "add it to spec.max".to_owned()),
            Some(most) if least > most => {
                let fix = format!("use at most {most}, or raise spec.max.{resource}");
                (format!("must not be above spec.max.{resource} = {most}"), fix)
            }
            Some(_) => continue,
        };
        let finding = Finding::error(Code::QuotaBounds, rule, fix);
        report.push(finding.path(format!("spec.min.{resource}")).value(least.to_string()));
    }
}

/// For listed resources `spec.max` must cover what is used.
fn strict_keys(report: &mut Report, quota: &ElasticQuota) {
    let instead = "the quota is refused";
    let meta = &quota.metadata;
    let keys = report.read(&key::MAX_STRICT_CHECK_KEYS, meta, Code::QuotaUsed, instead);
    let used = quota.status.as_ref().map(|status| &status.used);
    for resource in keys.unwrap_or_default() {
        let Some(used) = used.and_then(|used| used.get(&resource)) else { continue };
        let max = quota.spec.max.get(&resource);
        if max.is_none_or(|max| max < used) {
            let rule = format!("must not be below the {used} in use");
            let fix = format!("use at least {used}, or remove pods first");
            let max = max.map_or("none".to_owned(), Quantity::to_string);
            let finding = Finding::error(Code::QuotaUsed, rule, fix);
            report.push(finding.path(format!("spec.max.{resource}")).value(max));
        }
    }
}

fn parenthood(report: &mut Report, change: &QuotaChange<'_>) {
    let Some(old) = change.old else { return };
    let (rule, fix) = match (is_parent(old), is_parent(change.new)) {
        (true, false) if change.children().next().is_some() => {
            let children = join(change.children().map(name));
            (format!("the quota has children: {children}"), "move or delete the children first")
        }
        (false, true) if !change.pods.is_empty() => {
            let pods = join(change.pods.iter().take(2));
            (format!("pods count against the quota: {pods}"), "move or delete the pods first")
        }
        _ => return,
    };
    let finding = Finding::error(Code::QuotaInUse, rule, fix);
    report.push_at(&key::IS_PARENT, finding.value(is_parent(change.new).to_string()));
}

fn tree_id(report: &mut Report, change: &QuotaChange<'_>) {
    let own = tree(change.new);
    let mut refuse = |rule: String, fix: &str| {
        let finding = Finding::error(Code::QuotaTree, rule, fix).value(format!("{own:?}"));
        report.push_at(&key::TREE_ID, finding);
    };
    if let Some(old) = change.old.map(tree).filter(|old| *old != own) {
        refuse(format!("cannot be changed; it was {old:?}"), "undo the change");
    }
    if let Some(parent) = change.parent().filter(|parent| tree(parent) != own) {
        let rule = format!("must be that of parent {}: {:?}", name(parent), tree(parent));
        refuse(rule, "use the parent's tree, or another parent");
    }
    if let Some(child) = change.children().find(|child| tree(child) != own) {
        let rule = format!("must be that of child {}: {:?}", name(child), tree(child));
        refuse(rule, "use the children's tree");
    }
}

fn parent(report: &mut Report, change: &QuotaChange<'_>) {
    let name = change.parent_name();
    let (rule, fix) = match change.parent() {
        _ if name == ROOT => return,
        None => (format!("there is no quota {name}"), "create the parent first".to_owned()),
        Some(parent) if !is_parent(parent) => {
            let fix = format!("set label {}: \"true\" on {name}", key::IS_PARENT.name);
            (format!("quota {name} may not have children"), fix)
        }
        Some(_) => return,
    };
    let finding = Finding::error(Code::QuotaParent, rule, fix).value(name);
    report.push_at(&key::PARENT, finding);
}

fn keys_of(list: &ResourceList) -> BTreeSet<&str> {
    list.keys().map(String::as_str).collect()
}

fn resource_keys(report: &mut Report, change: &QuotaChange<'_>, gates: &Gates<ManagerGate>) {
    let may_differ = gates.is_on(ManagerGate::ElasticQuotaEnableUpdateResourceKey);
    let mut compare = |upper: &ElasticQuota, lower: &ElasticQuota| {
        let (above, below) = (keys_of(&upper.spec.max), keys_of(&lower.spec.max));
        let fits = if may_differ { below.is_subset(&above) } else { above == below };
        let max = (!fits).then_some((
            "max",
            above,
            below,
            if may_differ { "within" } else { "equal to" },
        ));
        let (above, below) = (keys_of(&upper.spec.min), keys_of(&lower.spec.min));
        let min = (!below.is_subset(&above)).then_some(("min", above, below, "within"));
        for (field, above, below, relation) in [max, min].into_iter().flatten() {
            let (upper, lower) = (name(upper), name(lower));
            let rule = format!(
                "resources of {lower} ({}) must be {relation} those of its parent {upper} ({})",
                join(below),
                join(above)
            );
            let finding = Finding::error(Code::QuotaKeys, rule, "name the same resources in both");
            report.push(finding.path(format!("spec.{field}")));
        }
    };
    if let Some(parent) = change.parent() {
        compare(parent, change.new);
    }
    for child in change.children() {
        compare(change.new, child);
    }
}

fn sums(report: &mut Report, change: &QuotaChange<'_>) {
    let mut compare = |upper: &ElasticQuota, lower: Vec<&ElasticQuota>| {
        let resources: BTreeSet<_> = lower.iter().flat_map(|quota| quota.spec.min.keys()).collect();
        for resource in resources {
            let least =
                |quota: &ElasticQuota| quota.spec.min.get(resource).copied().unwrap_or_default();
            let (sum, bound) =
                (lower.iter().map(|quota| least(quota)).sum::<Quantity>(), least(upper));
            if sum > bound {
                let names = join(lower.iter().map(|quota| name(quota)));
                let rule = format!(
                    "minimums of {names} add up to {sum} {resource}, and {} has {bound}",
                    name(upper)
                );
                let fix = format!("lower them, or raise spec.min.{resource} of {}", name(upper));
                let finding = Finding::error(Code::QuotaSum, rule, fix);
                report.push(finding.path(format!("spec.min.{resource}")));
            }
        }
    };
    if let Some(parent) = change.parent() {
        compare(parent, change.children_of(name(parent)).chain([change.new]).collect());
    }
    compare(change.new, change.children().collect());
}

/// Some ancestor must already guarantee enough for what this quota, with the
/// quotas beside it on each level, is to be guaranteed.
fn guarantee(report: &mut Report, change: &QuotaChange<'_>) {
    let guaranteed =
        |quota: &ElasticQuota| key::GUARANTEED.get(&quota.metadata).unwrap_or_default();
    let of = |list: &ResourceList, resource: &str| list.get(resource).copied().unwrap_or_default();
    let own = guaranteed(change.new);
    let min = &change.new.spec.min;
    if tree(change.new).is_empty() || min.iter().all(|(name, least)| *least <= of(&own, name)) {
        return;
    }
    let mut needed = min.clone();
    for (resource, amount) in &mut needed {
        *amount = (*amount).max(of(&own, resource));
    }
    let mut at = change.new;
    // Parents could form a cycle; no tree is deeper than it has quotas.
    for _ in 0..=change.quotas.len() {
        let above = parent_of(&at.metadata);
        let upper = change.others().find(|quota| name(quota) == above && above != ROOT);
        let Some(upper) = upper else { break };
        let beside = change.children_of(above).filter(|quota| name(quota) != name(at));
        let beside: Vec<ResourceList> = beside.map(guaranteed).collect();
        for (resource, amount) in &mut needed {
            let sum = beside.iter().map(|list| of(list, resource)).sum::<Quantity>();
            *amount = (*amount + sum).max(of(&upper.spec.min, resource));
        }
        let room = guaranteed(upper);
        if needed.iter().all(|(resource, amount)| *amount <= of(&room, resource)) {
            return;
        }
        at = upper;
    }
    let needed = join(needed.iter().map(|(resource, amount)| format!("{resource} {amount}")));
    let rule = format!("no quota above guarantees what this needs: {needed}");
    let fix = "lower spec.min, or raise the minimum of a quota above first";
    report.push(Finding::error(Code::QuotaGuarantee, rule, fix).path("spec.min"));
}

/// Everything that speaks against deleting a quota. `pods` are those whose
/// label names it; `is_known` says whether the quota is known to exist.
pub fn check_elastic_quota_delete(
    quota: &ElasticQuota,
    is_known: bool,
    quotas: &[ElasticQuota],
    pods: &[String],
) -> Vec<Finding> {
    let mut report = Report::new("ElasticQuota", &quota.metadata);
    let own = name(quota);
    if !is_known {
        report.push(unknown(own));
    }
    if [ROOT, SYSTEM, DEFAULT].contains(&own) {
        let rule = "built-in quotas cannot be deleted";
        report.push(Finding::error(Code::QuotaBuiltIn, rule, "leave it; it costs nothing"));
    }
    let children: Vec<_> = quotas
        .iter()
        .filter(|other| parent_of(&other.metadata) == own && name(other) != own)
        .collect();
    if !children.is_empty() {
        let rule = format!("the quota has children: {}", join(children.into_iter().map(name)));
        report.push(Finding::error(Code::QuotaInUse, rule, "delete or move the children first"));
    }
    if !pods.is_empty() {
        let shown = join(pods.iter().take(2));
        let rule = format!("{} pods count against the quota, among them {shown}", pods.len());
        report.push(Finding::error(
            Code::QuotaInUse,
            rule,
            "delete the pods, or change their label",
        ));
    }
    report.findings
}

/// A pod may not count against a quota that has children of its own.
pub fn check_pod_quota(
    pod: &Pod,
    quotas: &[ElasticQuota],
    gates: &Gates<ManagerGate>,
) -> Vec<Finding> {
    let mut report = Report::new("Pod", &pod.metadata);
    let wanted = quota_of(&pod.metadata, quotas.iter().map(|quota| &quota.metadata));
    let quota = quotas.iter().find(|quota| name(quota) == wanted);
    let may = gates.is_on(ManagerGate::SupportParentQuotaSubmitPod);
    if quota.is_some_and(is_parent) && !may {
        let rule = "pods cannot count against a quota that is a parent of others";
        let fix = format!("set label {} to one of its children", key::NAME.name);
        let finding = Finding::error(Code::ParentQuota, rule, fix).value(wanted);
        report.push_at(&key::NAME, finding);
    }
    report.findings
}
