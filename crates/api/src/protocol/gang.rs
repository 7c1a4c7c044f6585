//! Labels and annotations of gangs, on pods and PodGroups.

use units::GoDuration;

use super::keys;
use crate::metadata::gang::{GangMatchPolicy, GangMode, NetworkTopologySpec};

keys! {
    /// The PodGroup's name. A bare domain on the wire.
    label POD_GROUP: String = "pod-group.scheduling.sigs.k8s.io";
    /// Old; read after [`POD_GROUP`].
    label OLD_NAME: String = "pod-group.scheduling.sigs.k8s.io/name";
    /// Old.
    label OLD_MIN_AVAILABLE: i32 = "pod-group.scheduling.sigs.k8s.io/min-available";
    /// On pods; read last.
    annotation NAME: String = "gang.scheduling.koordinator.sh/name";
    /// On pods; unreadable keeps the gang from starting.
    annotation MIN_AVAILABLE: i32 = "gang.scheduling.koordinator.sh/min-available";
    /// Missing, unreadable or below the minimum: the minimum.
    annotation TOTAL_NUMBER: i32 = "gang.scheduling.koordinator.sh/total-number";
    /// On pods; missing or unreadable: 600 s.
    annotation WAITING_TIME: GoDuration = "gang.scheduling.koordinator.sh/waiting-time";
    /// Unknown: Strict.
    annotation MODE: GangMode = "gang.scheduling.koordinator.sh/mode";
    /// Unknown: once-satisfied.
    annotation MATCH_POLICY: GangMatchPolicy = "gang.scheduling.koordinator.sh/match-policy";
    /// Read where [`MATCH_POLICY`] is absent.
    annotation MATCH_POLICY_ALIAS: GangMatchPolicy =
        "pod-group.scheduling.sigs.k8s.io/match-policy";
    /// Gangs that start together, as `namespace/name`; unreadable: this gang alone.
    annotation GROUPS: Vec<String> = "gang.scheduling.koordinator.sh/groups";
    /// Unreadable counts as absent.
    annotation NETWORK_TOPOLOGY_SPEC: NetworkTopologySpec =
        "gang.scheduling.koordinator.sh/network-topology-spec";
    /// On pods; unreadable or absent: -1.
    annotation NETWORK_TOPOLOGY_INDEX: i32 =
        "gang.scheduling.koordinator.sh/network-topology-index";
    annotation NETWORK_TOPOLOGY_SELECTOR: String =
        "scheduling.koordinator.sh/network-topology-selector";
    /// Declared by the reference and read by nobody.
    annotation TIMEOUT: String = "gang.scheduling.koordinator.sh/timeout";
    /// Written when a gang is bound.
    annotation BIND_GROUP_ID: String = "internal.scheduling.koordinator.sh/bind-gang-group-id";
    annotation BIND_MEMBER_COUNT: i32 = "internal.scheduling.koordinator.sh/bind-gang-member-count";
    /// Old domain of [`BIND_GROUP_ID`].
    annotation OLD_BIND_GROUP_ID: String = "scheduling.koordinator.sh/bind-gang-group-id";
    /// Old domain of [`BIND_MEMBER_COUNT`].
    annotation OLD_BIND_MEMBER_COUNT: i32 = "scheduling.koordinator.sh/bind-gang-member-count";
}

/// How long a gang's pods wait for each other unless told otherwise.
pub const DEFAULT_WAITING_TIME: GoDuration = GoDuration::from_secs(600);
