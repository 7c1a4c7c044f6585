//! Labels and annotations of quotas, their profiles and their pods.

use super::keys;
use crate::metadata::ResourceList;

keys! {
    /// On pods.
    label NAME: String = "quota.scheduling.koordinator.sh/name";
    /// On pods; `"false"` keeps quota logic from preempting it. Cannot be changed.
    label PREEMPTIBLE: bool = "quota.scheduling.koordinator.sh/preemptible";
    /// Without it the root.
    label PARENT: String = "quota.scheduling.koordinator.sh/parent";
    label IS_PARENT: bool = "quota.scheduling.koordinator.sh/is-parent";
    /// W: manager, for quotas made from a profile.
    label IS_ROOT: bool = "quota.scheduling.koordinator.sh/is-root";
    /// On quotas and profiles. Cannot be changed.
    label TREE_ID: String = "quota.scheduling.koordinator.sh/tree-id";
    label PROFILE: String = "quota.scheduling.koordinator.sh/profile";
    /// Only `"false"` stops lending.
    label ALLOW_LENT_RESOURCE: bool = "quota.scheduling.koordinator.sh/allow-lent-resource";
    label ALLOW_FORCE_UPDATE: bool = "quota.scheduling.koordinator.sh/allow-force-update";
    label IGNORE_DEFAULT_TREE: bool = "quota.scheduling.koordinator.sh/ignore-default-tree";
    /// Without it `spec.max`.
    annotation SHARED_WEIGHT: ResourceList = "quota.scheduling.koordinator.sh/shared-weight";
    annotation NAMESPACES: Vec<String> = "quota.scheduling.koordinator.sh/namespaces";
    /// On profiles; without it cpu and memory.
    annotation RESOURCE_KEYS: Vec<String> = "quota.scheduling.koordinator.sh/resource-keys";
    annotation TOTAL_RESOURCE: ResourceList = "quota.scheduling.koordinator.sh/total-resource";
    annotation UNSCHEDULABLE_RESOURCE: ResourceList =
        "quota.scheduling.koordinator.sh/unschedulable-resource";
    /// W: scheduler, as the six below.
    annotation RUNTIME: ResourceList = "quota.scheduling.koordinator.sh/runtime";
    annotation REQUEST: ResourceList = "quota.scheduling.koordinator.sh/request";
    annotation CHILD_REQUEST: ResourceList = "quota.scheduling.koordinator.sh/child-request";
    annotation GUARANTEED: ResourceList = "quota.scheduling.koordinator.sh/guaranteed";
    annotation ALLOCATED: ResourceList = "quota.scheduling.koordinator.sh/allocated";
    annotation NON_PREEMPTIBLE_REQUEST: ResourceList =
        "quota.scheduling.koordinator.sh/non-preemptible-request";
    annotation NON_PREEMPTIBLE_USED: ResourceList =
        "quota.scheduling.koordinator.sh/non-preemptible-used";
    /// What admission allows instead of `spec.max`, behind a gate.
    annotation ADMISSION: ResourceList = "quota.scheduling.koordinator.sh/admission";
    /// `spec.max` must stay at or above what is used for these; unreadable refuses the quota.
    annotation MAX_STRICT_CHECK_KEYS: Vec<String> =
        "quota.scheduling.koordinator.sh/max-strict-check-resource-keys";
}
