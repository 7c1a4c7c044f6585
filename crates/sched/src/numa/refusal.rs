//! Why does a node not suit a pod?

use super::hint::Misfit;
use super::take::Shortage;
use crate::model::ResourceId;

/// Why a node does not suit a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    InvalidTopology,
    InvalidRatio,
    Fractional,
    BindConflict,
    NotWholeCores,
    PolicyMismatch,
    NoNumaResources,
    AmplifiedCpu,
    Cpus(Shortage),
    Insufficient(ResourceId),
    Misfit(Misfit),
}

impl Refusal {
    /// Pods leaving the node would not help.
    pub fn is_final(&self) -> bool {
        match self {
            Self::InvalidTopology
            | Self::InvalidRatio
            | Self::Fractional
            | Self::BindConflict
            | Self::NotWholeCores
            | Self::PolicyMismatch
            | Self::NoNumaResources => true,
            Self::AmplifiedCpu | Self::Cpus(_) | Self::Insufficient(_) | Self::Misfit(_) => false,
        }
    }

    /// As people read it, with `name` giving the names of resources.
    pub fn text<'a>(&self, name: impl Fn(ResourceId) -> &'a str) -> String {
        let text = match self {
            Self::InvalidTopology => "node(s) invalid CPU Topology",
            Self::InvalidRatio => "node(s) invalid CPU amplification ratio",
            Self::Fractional => "the requested CPUs must be integer",
            Self::BindConflict => {
                "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
            }
            Self::NotWholeCores => "node(s) requested cpus not multiple cpus per core",
            Self::PolicyMismatch => "node(s) NUMA Topology policy not match",
            Self::NoNumaResources => "node(s) missing NUMA resources",
            Self::AmplifiedCpu => "Insufficient amplified cpu",
            Self::Cpus(shortage) => return shortage.to_string(),
            Self::Insufficient(resource) => {
                return format!("Insufficient NUMA {}", name(*resource));
            }
            Self::Misfit(misfit) => return misfit.text(name),
        };
        text.to_owned()
    }
}
