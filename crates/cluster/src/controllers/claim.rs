//! Which objects belong to an owner: does it adopt one, or let one go?
//!
//! An owner selects by labels but controls by reference. The reference decides; the labels change
//! it:
//!
//! | reference | labels match | then |
//! |---|---|---|
//! | to this owner | yes | it is ours |
//! | to this owner | no | release it |
//! | to nobody | yes | adopt it, unless it is on its way out |
//! | to somebody else | – | leave it alone |
//!
//! An owner on its way out neither adopts nor releases; that is the garbage collector's business.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::{
    Resource,
    core::{Selector, SelectorExt},
};
use reconcile::key::{Key, ObjectVersion, controller_of, is_terminating, uid};
use reconcile::merge::precondition;
use reconcile::write::{Kind, WriteError, Writer, missing_is_fine};
use serde_json::{Value, json};

/// Who claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) is_terminating: bool,
}

impl Owner {
    pub(crate) fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            key: Key::of(object),
            uid: uid(object).to_owned(),
            is_terminating: is_terminating(object),
        }
    }

    /// The reference that makes this owner the controller of an object.
    pub(crate) fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.key.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// What an owner has, wants and gives up.
#[derive(Debug)]
struct Claims<K> {
    owned: Vec<Arc<K>>,
    adopt: Vec<Arc<K>>,
    release: Vec<Arc<K>>,
}

/// Sorts the candidates: the objects the owner controls and those that nobody does.
fn claim<K: Resource>(
    owner: &Owner,
    candidates: impl IntoIterator<Item = Arc<K>>,
    matches: impl Fn(&K) -> bool,
) -> Claims<K> {
    let mut claims = Claims { owned: Vec::new(), adopt: Vec::new(), release: Vec::new() };
    for object in candidates {
        match controller_of(object.meta()) {
            Some(reference) if reference.uid != owner.uid => {}
            Some(_) if matches(&object) => claims.owned.push(object),
            Some(_) if owner.is_terminating => {}
            Some(_) => claims.release.push(object),
            None if owner.is_terminating || is_terminating(&*object) => {}
            None if matches(&object) => claims.adopt.push(object),
            None => {}
        }
    }
    claims
}

/// Adopts and releases, and returns what the owner controls then.
///
/// The cache may not know yet that the owner is on its way out or was replaced; it must not adopt
/// then, so the server is asked first.
pub(crate) async fn settle<O: Kind, K: Kind>(
    writer: &Writer,
    owner: &Owner,
    selector: &Selector,
    candidates: impl IntoIterator<Item = Arc<K>>,
) -> Result<Vec<Arc<K>>, WriteError> {
    let claims = claim(owner, candidates, |object| selects(selector, object));
    let mut owned = claims.owned;
    for object in &claims.release {
        let (key, patch) = (Key::of(&**object), release(owner, &**object));
        missing_is_fine(writer.patch::<K>(&key, &patch).await)?;
    }
    if claims.adopt.is_empty() {
        return Ok(owned);
    }
    let live = writer.get::<O>(&owner.key).await?;
    if live.is_none_or(|live| uid(&live) != owner.uid || is_terminating(&live)) {
        return Ok(owned);
    }
    for object in &claims.adopt {
        let (key, patch) = (Key::of(&**object), adoption(owner, &**object));
        owned.extend(missing_is_fine(writer.patch::<K>(&key, &patch).await)?.map(Arc::new));
    }
    Ok(owned)
}

/// The patch that makes `owner` the controller of an object.
fn adoption(owner: &Owner, object: &impl Resource) -> Value {
    let mut owners = object.meta().owner_references.clone().unwrap_or_default();
    owners.push(owner.reference());
    owners_patch(object, &owners)
}

/// The patch that takes the owner's reference away.
fn release(owner: &Owner, object: &impl Resource) -> Value {
    let mut owners = object.meta().owner_references.clone().unwrap_or_default();
    owners.retain(|reference| reference.uid != owner.uid);
    owners_patch(object, &owners)
}

fn owners_patch(object: &impl Resource, owners: &[OwnerReference]) -> Value {
    let mut metadata = precondition(&ObjectVersion::of(object));
    metadata.insert("ownerReferences".into(), json!(owners));
    json!({ "metadata": metadata })
}

/// The selector in a form that matches; `None` when it is malformed or, as in workloads, when it
/// would match everything.
pub(crate) fn workload_selector(selector: &LabelSelector) -> Option<Selector> {
    label_selector(selector).filter(|selector| !selector.selects_all())
}

pub(crate) fn label_selector(selector: &LabelSelector) -> Option<Selector> {
    selector.clone().try_into().ok()
}

/// Do the object's labels match?
pub(crate) fn selects(selector: &Selector, object: &impl Resource) -> bool {
    match &object.meta().labels {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&Default::default()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::controllers::fixture::pod;

    fn owner() -> Owner {
        Owner {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            key: Key::new("default", "web"),
            uid: "u1".into(),
            is_terminating: false,
        }
    }

    #[test]
    fn the_reference_decides_and_labels_change_it() {
        let ours = || pod("a").owner("ReplicaSet", "web", "u1");
        let theirs = || pod("a").owner("ReplicaSet", "api", "u2");
        let leaving = Owner { is_terminating: true, ..owner() };
        let cases = [
            ("ours and matching", owner(), ours().label("app", "web"), (1, 0, 0)),
            ("ours and not matching", owner(), ours(), (0, 0, 1)),
            ("ours, not matching, owner leaving", leaving.clone(), ours(), (0, 0, 0)),
            ("nobody's and matching", owner(), pod("a").label("app", "web"), (0, 1, 0)),
            (
                "nobody's, matching, leaving",
                owner(),
                pod("a").label("app", "web").terminating(),
                (0, 0, 0),
            ),
            ("nobody's, matching, owner leaving", leaving, pod("a").label("app", "web"), (0, 0, 0)),
            ("nobody's and not matching", owner(), pod("a"), (0, 0, 0)),
            ("another's though matching", owner(), theirs().label("app", "web"), (0, 0, 0)),
        ];
        for (name, owner, candidate, want) in cases {
            let web = |pod: &Pod| {
                pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("app"))
            };
            let claims = claim(&owner, [Arc::new(candidate.build())], web);
            let got = (claims.owned.len(), claims.adopt.len(), claims.release.len());
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn adoption_keeps_other_owners_and_release_undoes_it() {
        let shared = pod("a").uid("p").version(3).other_owner("ConfigMap", "c", "u9").build();
        let patch = adoption(&owner(), &shared);
        let uids = |patch: &Value| -> Vec<String> {
            let owners = patch["metadata"]["ownerReferences"].as_array().unwrap();
            owners.iter().map(|owner| owner["uid"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(uids(&patch), ["u9", "u1"]);
        assert_eq!(patch["metadata"]["resourceVersion"], "3");
        let ours = pod("a").other_owner("ConfigMap", "c", "u9").owner("ReplicaSet", "web", "u1");
        assert_eq!(uids(&release(&owner(), &ours.build())), ["u9"]);
    }

    #[test]
    fn a_workload_must_select_something() {
        assert!(workload_selector(&LabelSelector::default()).is_none());
        assert!(label_selector(&LabelSelector::default()).is_some());
    }
}
