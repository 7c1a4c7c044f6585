//! Labels and annotations of reservations and the pods that use them.

use k8s_openapi::api::core::v1::ObjectReference;

use super::keys;
use crate::kind::reservation::ReservationOwner;
use crate::metadata::reservation::{
    ExactMatchSpec, OperatingMode, ReservationAffinity, ReservationAllocated, ResizeAllocatable,
    RestrictedOptions,
};

keys! {
    /// On pods.
    label IGNORED: bool = "scheduling.koordinator.sh/reservation-ignored";
    /// On reservations and pods.
    label PRE_ALLOCATION_REQUIRED: bool = "scheduling.koordinator.sh/pre-allocation-required";
    /// On reservations; lower first, 0 leaves it to the score. The descheduler writes Unix milliseconds.
    label ORDER: i64 = "scheduling.koordinator.sh/reservation-order";
    /// On pods; W: scheduler.
    annotation ALLOCATED: ReservationAllocated = "scheduling.koordinator.sh/reservation-allocated";
    /// On pods.
    annotation AFFINITY: ReservationAffinity = "scheduling.koordinator.sh/reservation-affinity";
    /// On reservations.
    annotation RESTRICTED_OPTIONS: RestrictedOptions =
        "scheduling.koordinator.sh/reservation-restricted-options";
    /// On pods.
    annotation EXACT_MATCH: ExactMatchSpec = "scheduling.koordinator.sh/exact-match-reservation";
    /// On reservations.
    annotation RESIZE_ALLOCATABLE: ResizeAllocatable =
        "scheduling.koordinator.sh/reservation-resize-allocatable";
    /// On pods.
    label OPERATING_MODE: OperatingMode = "scheduling.koordinator.sh/operating-mode";
    /// On pods in mode Reservation.
    annotation OWNERS: Vec<ReservationOwner> = "scheduling.koordinator.sh/reservation-owners";
    /// On pods in mode Reservation; W: scheduler.
    annotation CURRENT_OWNER: ObjectReference =
        "scheduling.koordinator.sh/reservation-current-owner";
    /// Marks the scheduler's own stand-in for a reservation, as the three below;
    /// refused on real pods.
    annotation RESERVE_POD: String = "scheduling.koordinator.sh/reserve-pod";
    annotation NAME: String = "scheduling.koordinator.sh/reservation-name";
    annotation NODE: String = "scheduling.koordinator.sh/reservation-node";
    annotation IS_PRE_ALLOCATION: String = "scheduling.koordinator.sh/is-pre-allocation";
    /// On pods; `"true"` keeps it from being a victim.
    label DISABLE_PREEMPTIBLE: bool = "scheduling.koordinator.sh/disable-preemptible";
    /// On pods.
    label IS_PRE_ALLOCATABLE: bool = "pod.koordinator.sh/is-pre-allocatable";
    /// On pods; higher first.
    annotation PRE_ALLOCATABLE_PRIORITY: f64 = "pod.koordinator.sh/pre-allocatable-priority";
}
