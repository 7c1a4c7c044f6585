//! Values that tie pods and reservations together.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, ObjectReference, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ResourceList, Wire, json_wire, print_json, records, words};
use crate::finding::Finding;
use crate::kind::reservation::ReservationOwner;
use crate::shape;

json_wire!(ObjectReference, Vec<ReservationOwner>);

records! {
    /// The reservation a pod was placed in.
    ReservationAllocated { name: String, uid: String }

    ReservationSelectorTerms { reservation_selector_terms: Vec<NodeSelectorTerm> }
}

/// Which reservations a pod wants. A name excludes the rest; all empty means
/// any reservation, and so does an empty text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ReservationAffinity {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<ReservationSelectorTerms>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reservation_selector: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

impl Wire for ReservationAffinity {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        if text.is_empty() { (Some(Self::default()), Vec::new()) } else { shape::read(text) }
    }

    fn print(&self) -> String {
        print_json(self)
    }
}

records! {
    /// Which resources of a Restricted reservation are restricted.
    RestrictedOptions { resources: Vec<String> }

    /// Which resources of pod and reservation must be equal.
    ExactMatchSpec { resource_names: Vec<String> }

    /// What a reservation holds from now on.
    ResizeAllocatable { resources: ResourceList }
}

words! {
    /// Does a pod run, or hold its place for others?
    #[derive(Default)]
    OperatingMode { #[default] Runnable = "Runnable", Reservation = "Reservation" }
}
