//! What must be changed about a new reservation?
//!
//! Profiles apply as to pods, with labels on the reservation and scheduler and
//! priority on its template. Resources keep their names: a reservation holds
//! what its template asks for. Reservations that the descheduler makes for a
//! pod it moves are left alone, because they must fit that pod.

use api::check::check_reservation;
use api::kind::Reservation;
use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::name::DESCHEDULER;
use api::protocol::object::CREATED_BY;
use serde_json::Value;

use super::profile::{Dice, Means, PriorityClasses, Profile, Target};
use super::{Admitted, Verdict, decode, warnings};

/// What a reservation is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Sorted by name.
    pub profiles: &'a [Profile],
    pub priority_classes: &'a PriorityClasses,
    pub gates: &'a Gates<ManagerGate>,
    /// For profiles that apply by chance.
    pub dice: Dice<'a>,
}

pub fn mutate(reservation: &Value, around: &Surroundings<'_>) -> Verdict {
    let typed: Reservation = decode("reservation", reservation)?;
    let notes = warnings(&check_reservation(&typed));
    let is_migration = CREATED_BY.raw(&typed.metadata) == Some(DESCHEDULER);
    if is_migration || !around.gates.is_on(ManagerGate::ReservationMutatingWebhook) {
        return Ok(Admitted::with_warnings(notes));
    }
    let mut next = reservation.clone();
    let means = Means {
        profiles: around.profiles,
        target: Target::Reservation,
        namespace: None,
        classes: around.priority_classes,
        dice: around.dice,
    };
    means.apply(&mut next)?;
    decode::<Reservation>("reservation", &next)?;
    Ok(Admitted::edits(reservation, &next, notes))
}
