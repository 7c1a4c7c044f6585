//! Values that tie pods and reservations together.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, ObjectReference, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ResourceList, Wire, json_wire, print_json, words};
use crate::finding::Finding;
use crate::kind::reservation::ReservationOwner;
use crate::shape;

json_wire!(
    ExactMatchSpec,
    ObjectReference,
    ReservationAllocated,
    ResizeAllocatable,
    RestrictedOptions,
    Vec<ReservationOwner>,
);

/// The reservation a pod was placed in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReservationAllocated {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
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

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ReservationSelectorTerms {
    pub reservation_selector_terms: Vec<NodeSelectorTerm>,
}

impl Wire for ReservationAffinity {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        if text.is_empty() { (Some(Self::default()), Vec::new()) } else { shape::read(text) }
    }

    fn print(&self) -> String {
        print_json(self)
    }
}

/// Which resources of a Restricted reservation are restricted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RestrictedOptions {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
}

/// Which resources of pod and reservation must be equal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ExactMatchSpec {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
}

/// What a reservation holds from now on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResizeAllocatable {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: ResourceList,
}

words! {
    /// Does a pod run, or hold its place for others?
    #[derive(Default)]
    OperatingMode { #[default] Runnable = "Runnable", Reservation = "Reservation" }
}
