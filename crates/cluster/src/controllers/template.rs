//! How does a pod, and the name of a template, come out of a template?

use k8s_openapi::{
    api::core::v1::{Pod, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;

use super::claim::Owner;
use crate::well_known::POD_TEMPLATE_HASH;

/// Letters and digits without vowels and look-alikes, so that no hash spells a word.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A new pod of this owner. The server completes the generated name.
pub(crate) fn pod(owner: &Owner, template: &PodTemplateSpec) -> Pod {
    let wanted = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            namespace: Some(owner.key.namespace.clone()),
            generate_name: Some(format!("{}-", owner.key.name)),
            labels: wanted.labels,
            annotations: wanted.annotations,
            finalizers: wanted.finalizers,
            owner_references: Some(vec![owner.reference()]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// A short name for a value: equal values have equal names. `collisions` gives another name when
/// the first one is taken by something else.
pub(crate) fn hash(value: &impl Serialize, collisions: Option<i32>) -> String {
    // Kubernetes types always serialise.
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    if let Some(collisions) = collisions {
        bytes.extend(collisions.to_le_bytes());
    }
    let digits = fnv(&bytes).to_string();
    let letters =
        digits.bytes().filter_map(|digit| ALPHABET.get(usize::from(digit) % ALPHABET.len()));
    letters.map(|letter| char::from(*letter)).collect()
}

/// 32 bit FNV-1a.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Do both make the same pods? The hash label that a Deployment adds does not count.
pub(crate) fn same(left: &PodTemplateSpec, right: &PodTemplateSpec) -> bool {
    without_hash(left) == without_hash(right)
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let metadata = template.metadata.get_or_insert_default();
    if let Some(labels) = &mut metadata.labels {
        labels.remove(POD_TEMPLATE_HASH);
    }
    metadata.labels.take_if(|labels| labels.is_empty());
    metadata.annotations.take_if(|annotations| annotations.is_empty());
    metadata.creation_timestamp = None;
    template
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::{fixture::template, key::Key};

    #[test]
    fn a_pod_has_the_templates_content_and_its_owners_reference() {
        let owner = Owner {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            key: Key::new("default", "web"),
            uid: "u1".into(),
            is_terminating: false,
        };
        let template = template("web", "v1");
        let pod = pod(&owner, &template);
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-"));
        assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(pod.metadata.owner_references, Some(vec![owner.reference()]));
        assert_eq!(pod.metadata.labels, template.metadata.unwrap().labels);
        assert_eq!(pod.spec, template.spec);
    }

    #[test]
    fn hashes_are_stable_short_and_told_apart() {
        assert_eq!(fnv(b"a"), 0xe40c_292c, "the published test value");
        let one = hash(&template("web", "v1"), None);
        assert_eq!(one, hash(&template("web", "v1"), None));
        assert_ne!(one, hash(&template("web", "v2"), None));
        assert_ne!(one, hash(&template("web", "v1"), Some(1)));
        assert!((1..=10).contains(&one.len()), "{one}");
        assert!(one.bytes().all(|byte| ALPHABET.contains(&byte)), "{one}");
    }

    #[test]
    fn the_hash_label_does_not_make_a_difference() {
        let plain = template("web", "v1");
        let mut labelled = plain.clone();
        let labels = labelled.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(POD_TEMPLATE_HASH.into(), "abc".into());
        assert!(same(&plain, &labelled));
        assert!(!same(&plain, &template("web", "v2")));
        assert!(!same(&plain, &template("api", "v1")));
    }
}
