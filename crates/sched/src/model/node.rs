//! A node as plugins see it: the object, not what runs there.

use std::sync::Arc;

use api::finding::Finding;

use super::labels::Labels;
use super::names::Symbol;
use super::resource::Requests;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taint {
    pub key: Symbol,
    pub value: Symbol,
    pub effect: Effect,
}

/// An image some node holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Image {
    /// With a tag: `nginx` is `nginx:latest`.
    pub name: Symbol,
    pub size: i64,
}

/// Everything any plugin reads of a node object.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: Symbol,
    pub uid: Arc<str>,
    pub labels: Labels,
    /// Annotations under Koordinator's prefixes; plugins parse what they need.
    pub annotations: Labels,
    pub taints: Box<[Taint]>,
    pub unschedulable: bool,
    /// What pods may have: reservations taken off, deprecated names replaced.
    pub allocatable: Requests,
    pub max_pods: i64,
    pub images: Box<[Image]>,
    /// Conditions by type and status, for the events they cause.
    pub conditions: Labels,
    /// Annotations that could not be read and count as absent.
    pub findings: Vec<Finding>,
}
