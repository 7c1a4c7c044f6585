//! Does a quota fit into its tree?
//!
//! A new quota gets the root as parent, its parent's tree and its maximum as
//! weight where it names none. The rules are [`api::check`]'s, judged against
//! the quotas this replica knows of; what it has just admitted and has not yet
//! seen come back counts as well, except as a name that is taken: a request
//! that somebody else refused afterwards must be able to come again.

use api::check::{QuotaChange, check_elastic_quota, check_elastic_quota_delete};
use api::kind::ElasticQuota;
use api::metadata::Wire;
use api::metadata::quota::parent_of;
use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::name::quota::ROOT;
use api::protocol::quota as key;
use serde_json::{Value, json};

use super::{Admitted, Denied, Verdict, decode, map_at, refuse_errors, sentence, warnings};

/// The edits of a new quota.
pub fn mutate(quota: &Value, quotas: &[ElasticQuota]) -> Verdict {
    let typed: ElasticQuota = decode("quota", quota)?;
    let meta = &typed.metadata;
    let mut next = quota.clone();
    let parent = parent_of(meta);
    let mut labels: Vec<(&str, String)> = Vec::new();
    if key::PARENT.raw(meta).unwrap_or_default().is_empty() {
        labels.push((key::PARENT.name, ROOT.to_owned()));
    }
    if key::TREE_ID.raw(meta).unwrap_or_default().is_empty() && parent != ROOT {
        let above = quotas.iter().find(|quota| quota.metadata.name.as_deref() == Some(parent));
        let above = above.ok_or_else(|| {
            Denied::rule(format!(
                "{}: there is no quota {parent}; create it first",
                key::PARENT.name
            ))
        })?;
        let tree = key::TREE_ID.raw(&above.metadata).filter(|tree| !tree.is_empty());
        labels.extend(tree.map(|tree| (key::TREE_ID.name, tree.to_owned())));
    }
    if !labels.is_empty()
        && let Some(map) = map_at(&mut next, &["metadata", "labels"])
    {
        map.extend(labels.into_iter().map(|(name, text)| (name.to_owned(), json!(text))));
    }
    let weight = weight(&typed)?;
    if key::SHARED_WEIGHT.get(meta).as_ref() != Some(&weight)
        && let Some(map) = map_at(&mut next, &["metadata", "annotations"])
    {
        map.insert(key::SHARED_WEIGHT.name.into(), weight.print().into());
    }
    Ok(Admitted::edits(quota, &next, Vec::new()))
}

/// The weight as given, for exactly the resources of the maximum.
fn weight(quota: &ElasticQuota) -> Result<api::metadata::ResourceList, Denied> {
    let max = &quota.spec.max;
    let raw = key::SHARED_WEIGHT.raw(&quota.metadata).unwrap_or_default();
    if raw.is_empty() {
        return Ok(max.clone());
    }
    let (given, findings) = key::SHARED_WEIGHT.read(&quota.metadata);
    let given = given.ok_or_else(|| {
        Denied::rule(findings.iter().map(sentence).collect::<Vec<_>>().join("; "))
    })?;
    let own = |(name, amount)| (String::clone(name), *given.get(name).unwrap_or(amount));
    Ok(max.iter().map(own).collect())
}

/// What a quota is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// As the API server has told.
    pub quotas: &'a [ElasticQuota],
    /// Admitted a moment ago and not yet told.
    pub recent: &'a [ElasticQuota],
    /// Names of pods that count against the quota in question.
    pub pods: &'a [String],
    pub gates: &'a Gates<ManagerGate>,
}

impl Surroundings<'_> {
    /// Whether a quota of this name exists, or is about to.
    fn is_known(&self, own: &str) -> bool {
        let mut all = self.quotas.iter().chain(self.recent);
        all.any(|quota| quota.metadata.name.as_deref() == Some(own))
    }

    /// All quotas; of two with one name the recent one, unless it is the one in question.
    fn all(&self, own: &str) -> Vec<ElasticQuota> {
        let name = |quota: &ElasticQuota| quota.metadata.name.clone().unwrap_or_default();
        let recent: Vec<_> = self.recent.iter().filter(|quota| name(quota) != own).collect();
        let is_newer = |quota: &&ElasticQuota| recent.iter().any(|one| name(one) == name(quota));
        let told = self.quotas.iter().filter(|quota| !is_newer(quota));
        told.chain(recent.iter().copied()).cloned().collect()
    }
}

/// `old` is the quota before the change.
pub fn validate(old: Option<&Value>, new: &Value, around: &Surroundings<'_>) -> Verdict {
    let new: ElasticQuota = decode("quota", new)?;
    let old: Option<ElasticQuota> = old.map(|old| decode("old quota", old)).transpose()?;
    let own = new.metadata.name.as_deref().unwrap_or_default();
    let quotas = around.all(own);
    let change = QuotaChange {
        old: old.as_ref(),
        new: &new,
        quotas: &quotas,
        is_known: around.is_known(own),
        pods: around.pods,
    };
    let findings = check_elastic_quota(&change, around.gates);
    refuse_errors(&findings)?;
    Ok(Admitted::with_warnings(warnings(&findings)))
}

pub fn validate_delete(quota: &Value, around: &Surroundings<'_>) -> Verdict {
    let quota: ElasticQuota = decode("quota", quota)?;
    let own = quota.metadata.name.as_deref().unwrap_or_default();
    let (is_known, quotas) = (around.is_known(own), around.all(own));
    refuse_errors(&check_elastic_quota_delete(&quota, is_known, &quotas, around.pods))?;
    Ok(Admitted::default())
}
