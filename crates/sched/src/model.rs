//! What the scheduler knows of pods and nodes: small values with interned names.
//!
//! | type | what it is |
//! |---|---|
//! | [`Symbol`], [`Names`] | a string, once; comparing two is comparing numbers |
//! | [`ResourceId`], [`Requests`] | a resource by number; amounts of a pod |
//! | [`Labels`], [`Selector`], [`NodeSelector`] | labels and what can be asked of them |
//! | [`Template`], [`Class`] | everything any plugin reads of a pod, shared by its replicas |
//! | [`Node`] | everything any plugin reads of a node object |
//!
//! Kubernetes objects become these values in [`crate::read`] and nowhere else.

mod labels;
mod names;
mod node;
mod node_selector;
mod pod_terms;
mod resource;
mod template;

pub use labels::{Labels, Operator, Requirement, Selector};
pub use names::{Names, Symbol};
pub use node::{Effect, Image, Node, Taint};
pub use node_selector::{FieldTerm, NodeSelector, NodeTerm, PreferredNodeTerm};
pub use pod_terms::{PodAffinity, PodTerm, PreferredPodTerm, SpreadConstraint, Unsatisfiable};
pub use resource::{Requests, ResourceId, Resources};
pub use template::{
    Class, ClassId, Classes, Container, ContainerKind, HostPort, NodeAffinity, Owner, Protocol,
    Template, Toleration, Volume, VolumeSource,
};
