//! What makes a pod the third of its row?

use k8s_openapi::{
    api::{
        apps::v1::ControllerRevision,
        core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{Version, View};
use crate::{
    controllers::{claim::Owner, revision, template},
    well_known::{CONTROLLER_REVISION_HASH, POD_INDEX, STATEFUL_SET_POD_NAME},
};

pub(super) fn pod_name(set: &str, ordinal: i32) -> String {
    format!("{set}-{ordinal}")
}

/// The number in the pod's name; `None` when the name is not of this row.
pub(super) fn ordinal(set: &str, pod: &Pod) -> Option<i32> {
    let digits = pod.metadata.name.as_deref()?.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal: i32 = digits.parse().ok()?;
    (ordinal >= 0 && ordinal.to_string() == digits).then_some(ordinal)
}

pub(super) fn claim_name(set: &str, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    let claim = template.metadata.name.as_deref().unwrap_or_default();
    format!("{claim}-{}", pod_name(set, ordinal))
}

/// The pod for a number, made from one of the two revisions.
pub(super) fn pod(view: &View<'_>, ordinal: i32, version: Version) -> Pod {
    let revision: &ControllerRevision = match version {
        Version::Current => view.observed.current,
        Version::Update => view.observed.update,
    };
    let template = revision::kept_template(revision).unwrap_or_else(|| view.spec.template.clone());
    let owner = Owner::of(view.observed.set);
    let mut pod = template::pod(&owner, &template);
    let name = pod_name(view.name, ordinal);
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(STATEFUL_SET_POD_NAME.into(), name.clone());
    labels.insert(POD_INDEX.into(), ordinal.to_string());
    let revision = revision.metadata.name.clone().unwrap_or_default();
    labels.insert(CONTROLLER_REVISION_HASH.into(), revision);
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    spec.subdomain = view.spec.service_name.clone();
    let claims = view.spec.volume_claim_templates.as_deref().unwrap_or_default();
    if !claims.is_empty() {
        spec.volumes = Some(volumes(view, spec.volumes.take(), claims, ordinal));
    }
    pod
}

/// The template's volumes, with the claims in place of those that have their names.
fn volumes(
    view: &View<'_>,
    own: Option<Vec<Volume>>,
    claims: &[PersistentVolumeClaim],
    ordinal: i32,
) -> Vec<Volume> {
    let mut volumes: Vec<Volume> = claims
        .iter()
        .map(|claim| Volume {
            name: claim.metadata.name.clone().unwrap_or_default(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(view.name, claim, ordinal),
                read_only: Some(false),
            }),
            ..Volume::default()
        })
        .collect();
    let others = own.into_iter().flatten();
    let others: Vec<_> =
        others.filter(|own| !volumes.iter().any(|volume| volume.name == own.name)).collect();
    volumes.extend(others);
    volumes
}

/// The volume claim with this name, from its template. It outlives the set and its pods.
pub(super) fn claim(view: &View<'_>, ordinal: i32, name: &str) -> Option<PersistentVolumeClaim> {
    let mut templates = view.spec.volume_claim_templates.iter().flatten();
    let template = templates.find(|template| claim_name(view.name, template, ordinal) == name)?;
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    labels.extend(view.spec.selector.match_labels.clone().unwrap_or_default());
    Some(PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: view.observed.set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: template.metadata.annotations.clone(),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    })
}
