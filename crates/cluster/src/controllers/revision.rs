//! Which version of a template is this, and which came before?
//!
//! DaemonSets and StatefulSets keep each version of their template in a ControllerRevision: a
//! patch that brings the template back, with a number that grows. `kubectl rollout history` lists
//! them and `rollout undo` applies one. A template that comes back gets its old revision with a
//! new number.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec},
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, runtime::RawExtension},
};
use serde_json::{Value, json};

use super::{amount::length, claim::Owner, template};

/// Whose revisions, and what they carry.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) owner: &'a Owner,
    pub(crate) template: &'a PodTemplateSpec,
    /// The owner's annotations; a revision keeps them, `kubernetes.io/change-cause` above all.
    pub(crate) annotations: Option<&'a BTreeMap<String, String>>,
    /// The label under which a revision carries its hash.
    pub(crate) hash_label: &'static str,
    pub(crate) collisions: Option<i32>,
}

/// The revision of the present template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Present {
    /// It is the newest.
    Newest(Arc<ControllerRevision>),
    /// It was there before and must get this number.
    Again {
        revision: Arc<ControllerRevision>,
        number: i64,
    },
    Create(Box<ControllerRevision>),
}

/// Finds the revision of the present template among all revisions of the owner.
pub(crate) fn present(subject: &Subject<'_>, revisions: &[Arc<ControllerRevision>]) -> Present {
    let newest = revisions.iter().map(|revision| revision.revision).max();
    let next = newest.unwrap_or(0).saturating_add(1);
    let data = data(subject.template);
    let mut equal: Vec<_> = revisions
        .iter()
        .filter(|revision| revision.data.as_ref().is_some_and(|has| has.0 == data))
        .collect();
    equal.sort_by_key(|revision| revision.revision);
    match equal.pop() {
        Some(revision) if Some(revision.revision) == newest => Present::Newest(revision.clone()),
        Some(revision) => Present::Again { revision: revision.clone(), number: next },
        None => Present::Create(Box::new(create(subject, data, next))),
    }
}

fn create(subject: &Subject<'_>, data: Value, number: i64) -> ControllerRevision {
    let owner = subject.owner;
    let hash = template::hash(subject.template, subject.collisions);
    let mut labels =
        subject.template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default();
    labels.insert(subject.hash_label.into(), hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", owner.key.name)),
            namespace: Some(owner.key.namespace.clone()),
            labels: Some(labels),
            annotations: subject.annotations.cloned(),
            owner_references: Some(vec![owner.reference()]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}

/// The patch that brings the template back.
pub(crate) fn data(template: &PodTemplateSpec) -> Value {
    // Kubernetes types always serialise.
    let mut template = serde_json::to_value(template).unwrap_or_else(|_| json!({}));
    if let Some(fields) = template.as_object_mut() {
        fields.insert("$patch".into(), "replace".into());
    }
    json!({ "spec": { "template": template } })
}

/// The template that a revision keeps.
pub(crate) fn kept_template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let data = &revision.data.as_ref()?.0;
    serde_json::from_value(data.pointer("/spec/template")?.clone()).ok()
}

/// The hash in the revision's label.
pub(crate) fn hash<'a>(revision: &'a ControllerRevision, label: &str) -> Option<&'a str> {
    revision.metadata.labels.as_ref()?.get(label).map(String::as_str)
}

/// Revisions beyond the limit that nothing uses any more, oldest first.
pub(crate) fn surplus(
    revisions: &[Arc<ControllerRevision>],
    is_used: impl Fn(&ControllerRevision) -> bool,
    limit: i32,
) -> Vec<Arc<ControllerRevision>> {
    let mut unused: Vec<_> =
        revisions.iter().filter(|revision| !is_used(revision)).cloned().collect();
    unused.sort_by_key(|revision| revision.revision);
    unused.truncate(unused.len().saturating_sub(length(limit)));
    unused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::{
        fixture::{labels, template},
        key::Key,
    };

    fn owner() -> Owner {
        Owner {
            api_version: "apps/v1".into(),
            kind: "DaemonSet".into(),
            key: Key::new("default", "agent"),
            uid: "u1".into(),
            is_terminating: false,
        }
    }

    fn find(image: &str, revisions: &[Arc<ControllerRevision>]) -> Present {
        let (owner, template) = (owner(), template("agent", image));
        let annotations = labels(&[("kubernetes.io/change-cause", "because")]);
        let subject = Subject {
            owner: &owner,
            template: &template,
            annotations: Some(&annotations),
            hash_label: "hash",
            collisions: None,
        };
        present(&subject, revisions)
    }

    fn create(image: &str, revisions: &[Arc<ControllerRevision>]) -> Arc<ControllerRevision> {
        match find(image, revisions) {
            Present::Create(revision) => Arc::new(*revision),
            other => panic!("{image}: {other:?}"),
        }
    }

    #[test]
    fn a_template_is_found_again_and_gets_a_new_number() {
        let one = create("v1", &[]);
        assert_eq!(one.revision, 1);
        assert_eq!(kept_template(&one), Some(template("agent", "v1")));
        assert_eq!(one.metadata.annotations.as_ref().unwrap().len(), 1);
        let hash = hash(&one, "hash").unwrap();
        assert_eq!(one.metadata.name, Some(format!("agent-{hash}")));
        assert_eq!(find("v1", std::slice::from_ref(&one)), Present::Newest(one.clone()));
        let two = create("v2", std::slice::from_ref(&one));
        assert_eq!(two.revision, 2);
        let again = find("v1", &[one.clone(), two.clone()]);
        assert_eq!(again, Present::Again { revision: one, number: 3 });
        assert_eq!(find("v2", std::slice::from_ref(&two)), Present::Newest(two));
    }

    #[test]
    fn the_oldest_unused_revisions_go() {
        let mut revisions: Vec<Arc<ControllerRevision>> = Vec::new();
        for image in ["v1", "v2", "v3", "v4"] {
            let next = create(image, &revisions);
            revisions.push(next);
        }
        let numbers = |limit, used: i64| -> Vec<i64> {
            let gone = surplus(&revisions, |revision| revision.revision == used, limit);
            gone.iter().map(|revision| revision.revision).collect()
        };
        assert_eq!(numbers(1, 4), [1, 2]);
        assert_eq!(numbers(1, 1), [2, 3], "what is in use stays");
        assert_eq!(numbers(10, 4), [0i64; 0]);
        assert_eq!(numbers(0, 0), [1, 2, 3, 4]);
    }
}
