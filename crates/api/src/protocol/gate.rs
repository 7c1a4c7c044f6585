//! Feature gates: `--feature-gates=A=true,B=false`.
//!
//! A gate's variant is spelled exactly as on the command line. Gates that are
//! off by default follow `AllAlpha`, gates that are on by default follow
//! `AllBeta`, and a gate that is named itself wins over both, wherever it
//! stands.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::shape::nearest;

/// The gates of one component.
pub trait Gate: Copy + Ord + 'static {
    const ALL: &'static [Self];
    fn name(self) -> &'static str;
    fn is_on_by_default(self) -> bool;
}

macro_rules! gates {
    ($(#[$doc:meta])* $name:ident { on: [$($on:ident),* $(,)?], off: [$($off:ident),* $(,)?] $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($on,)*
            $($off,)*
        }

        impl Gate for $name {
            const ALL: &'static [Self] = &[$(Self::$on,)* $(Self::$off,)*];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$on => stringify!($on),)*
                    $(Self::$off => stringify!($off),)*
                }
            }

            fn is_on_by_default(self) -> bool {
                let on: &[Self] = &[$(Self::$on,)*];
                on.contains(&self)
            }
        }
    };
}

gates! {
    /// Gates of the manager and of the descheduler, which share one registry:
    /// each accepts the other's names. The two `*TerminatingPod` gates belong
    /// to the scheduler; manifests pass them to both, so they are accepted here.
    ManagerGate {
        on: [
            PodMutatingWebhook, PodValidatingWebhook, ElasticMutatingWebhook,
            ElasticValidatingWebhook, WebhookFramework,
        ],
        off: [
            NodeMutatingWebhook, NodeValidatingWebhook, ConfigMapValidatingWebhook,
            ReservationMutatingWebhook, ColocationProfileSkipMutatingResources,
            ColocationProfileSkipValidatingPriority, MultiQuotaTree,
            ElasticQuotaIgnorePodOverhead, ElasticQuotaIgnoreTerminatingPod,
            ElasticQuotaImmediateIgnoreTerminatingPod, ElasticQuotaGuaranteeUsage,
            ElasticQuotaEnableUpdateResourceKey, ElasticQuotaEvaluationTransformPod,
            DisableDefaultQuota, SupportParentQuotaSubmitPod, EnableQuotaAdmission,
            EnableQuotaAdmissionOnUpdate, EnableSyncGPUSharedResource,
            ColocationProfileController, ValidatePodDeviceResource, EnablePodEnhancedValidator,
            DisableExtendedResourceSpec, DisableDeviceResourceSpec, BindingAdmissionWebhook,
            PriorityTransformer, PreemptionPolicyTransformer, ReplaceResourcesTransformer,
            DisablePVCReservation,
        ],
    }
}

gates! {
    /// Gates of the node agent; strategies and hooks share one registry.
    AgentGate {
        on: [
            BECPUSuppress, CPUBurst, RdtResctrl, NodeTopologyReport, GroupIdentity,
            CPUSetAllocator, BatchResource,
        ],
        off: [
            BECPUEvict, BEMemoryEvict, CgroupReconcile, SystemConfig, CPICollector, PSICollector,
            Libpfm4, ResctrlCollector, BECPUManager, AuditEvents, AuditEventsHTTPHandler,
            CPUEvict, MemoryEvict, CPUAllocatableEvict, MemoryAllocatableEvict, Accelerators,
            RDMADevices, BlkIOReconcile, ColdPageCollector, HugePageReport, PodResourcesProxy,
            HamiCoreVGPUMonitor, PerCPUMetric, NodeMetricPromMetrics, GPUEnvInject,
            RDMADeviceInject, CPUNormalization, CoreSched, TerwayQoS, TCNetworkQoS, Resctrl,
            OOMScoreAdj,
        ],
    }
}

gates! {
    /// Gates of the scheduler.
    SchedulerGate {
        on: [
            DynamicSchedulerCheck, GangPendingPodsConditionPatch, EnableBatchScheduleNodeSnapshot,
            CSIStorageCapacity, GenericEphemeralVolume, PodDisruptionBudget,
        ],
        off: [
            CompatibleCSIStorageCapacity, DisableCSIStorageCapacityInformer,
            CompatiblePodDisruptionBudget, DisablePodDisruptionBudgetInformer,
            DisableDynamicResourceAllocationInformer, ResizePod, MultiQuotaTree,
            ElasticQuotaIgnorePodOverhead, ElasticQuotaIgnoreTerminatingPod,
            ElasticQuotaImmediateIgnoreTerminatingPod, ElasticQuotaGuaranteeUsage,
            DisableDefaultQuota, SupportParentQuotaSubmitPod, LazyReservationRestore,
            OmitNodeLabelsForReservation, SkipReservationFitsNode, DevicePluginAdaption,
            CleanExpiredReservationAllocated, SkipFilterWithNominatedPods, SyncBarrier,
            CrossSchedulerNomination, EnableInlineBatchSchedule, PriorityTransformer,
            PreemptionPolicyTransformer, ReplaceResourcesTransformer,
        ],
    }
}

/// Which gates of one component are on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gates<G: Gate>(BTreeSet<G>);

impl<G: Gate> Default for Gates<G> {
    fn default() -> Self {
        Self(G::ALL.iter().copied().filter(|gate| gate.is_on_by_default()).collect())
    }
}

/// The names of those that are on.
impl<G: Gate> Serialize for Gates<G> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|gate| gate.name()))
    }
}

/// A name that no gate has says nothing.
impl<'de, G: Gate> Deserialize<'de> for Gates<G> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let on: BTreeSet<String> = BTreeSet::deserialize(deserializer)?;
        Ok(Self(G::ALL.iter().copied().filter(|gate| on.contains(gate.name())).collect()))
    }
}

/// One entry of `--feature-gates` that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    #[error("unknown feature gate {name:?}{}", nearest.map_or(String::new(), |n| format!("; did you mean {n}?")))]
    Unknown { name: String, nearest: Option<&'static str> },
    #[error("feature gate {name}: {value:?} is neither true nor false")]
    NotBool { name: String, value: String },
    #[error("feature gate entry {entry:?} has no value; write {entry}=true or {entry}=false")]
    NoValue { entry: String },
}

impl<G: Gate> Gates<G> {
    /// The defaults changed by `text`, and every entry that could not be
    /// followed. Whether such an entry stops the program is the program's choice.
    pub fn parse(text: &str) -> (Self, Vec<GateError>) {
        let mut named = Vec::new();
        let (mut alpha, mut beta) = (None, None);
        let mut errors = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match Self::entry(entry) {
                Ok((Target::Off, on)) => alpha = Some(on),
                Ok((Target::On, on)) => beta = Some(on),
                Ok((Target::One(gate), on)) => named.push((gate, on)),
                Err(error) => errors.push(error),
            }
        }
        let mut gates = Self::default();
        for gate in G::ALL.iter().copied() {
            let group = if gate.is_on_by_default() { beta } else { alpha };
            let own = named.iter().rev().find(|(name, _)| *name == gate).map(|(_, on)| *on);
            if let Some(on) = own.or(group) {
                gates.set(gate, on);
            }
        }
        (gates, errors)
    }

    pub fn is_on(&self, gate: G) -> bool {
        self.0.contains(&gate)
    }

    pub fn set(&mut self, gate: G, on: bool) {
        if on {
            self.0.insert(gate);
        } else {
            self.0.remove(&gate);
        }
    }

    fn entry(entry: &str) -> Result<(Target<G>, bool), GateError> {
        let Some((name, value)) = entry.split_once('=') else {
            return Err(GateError::NoValue { entry: entry.to_owned() });
        };
        let (name, value) = (name.trim(), value.trim());
        let target = match name {
            "AllAlpha" => Target::Off,
            "AllBeta" => Target::On,
            _ => match G::ALL.iter().find(|gate| gate.name() == name) {
                Some(gate) => Target::One(*gate),
                None => {
                    let nearest = nearest(name, G::ALL.iter().map(|gate| gate.name()));
                    return Err(GateError::Unknown { name: name.to_owned(), nearest });
                }
            },
        };
        match crate::metadata::parse_bool(value) {
            Some(on) => Ok((target, on)),
            None => Err(GateError::NotBool { name: name.to_owned(), value: value.to_owned() }),
        }
    }
}

enum Target<G> {
    /// Every gate that is off by default.
    Off,
    /// Every gate that is on by default.
    On,
    One(G),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_reference_s() {
        let agent = Gates::<AgentGate>::default();
        assert!(agent.is_on(AgentGate::BECPUSuppress));
        assert!(!agent.is_on(AgentGate::BEMemoryEvict), "the bare binary does not evict");
        assert_eq!(agent.0.len(), 7);
        assert_eq!(Gates::<ManagerGate>::default().0.len(), 5);
        assert_eq!(Gates::<SchedulerGate>::default().0.len(), 6);
    }

    #[test]
    fn gates_are_switched_by_name_and_by_group() {
        use AgentGate::{Accelerators, BECPUEvict, BECPUSuppress, BEMemoryEvict, CgroupReconcile};
        let cases: &[(&str, &str, &[AgentGate], &[AgentGate])] = &[
            ("nothing", "", &[BECPUSuppress], &[BECPUEvict]),
            (
                "the chart's line",
                "BECPUEvict=true,BEMemoryEvict=true,CgroupReconcile=true,Accelerators=true",
                &[BECPUEvict, BEMemoryEvict, CgroupReconcile, Accelerators, BECPUSuppress],
                &[],
            ),
            ("the sample's line", "AllAlpha=true,AllBeta=true", AgentGate::ALL, &[]),
            (
                "a name wins over its group",
                "BECPUEvict=false,AllAlpha=true",
                &[Accelerators],
                &[BECPUEvict],
            ),
            ("beta off", "AllBeta=false", &[], &[BECPUSuppress, BECPUEvict]),
            ("last one counts", "BECPUEvict=true,BECPUEvict=false", &[], &[BECPUEvict]),
            ("spaces and Go's booleans", " BECPUEvict = T , ", &[BECPUEvict], &[BEMemoryEvict]),
        ];
        for (name, text, on, off) in cases {
            let (gates, errors) = Gates::<AgentGate>::parse(text);
            assert_eq!(errors, [], "{name}");
            assert!(on.iter().all(|gate| gates.is_on(*gate)), "{name}");
            assert!(!off.iter().any(|gate| gates.is_on(*gate)), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_named_and_the_rest_still_counts() {
        let (gates, errors) = Gates::<AgentGate>::parse(
            "BEMemoryEvit=true,CPUBurst=maybe,Accelerators,CPUEvict=true",
        );
        assert!(gates.is_on(AgentGate::CPUEvict));
        let errors = errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            errors,
            [
                "unknown feature gate \"BEMemoryEvit\"; did you mean BEMemoryEvict?",
                "feature gate CPUBurst: \"maybe\" is neither true nor false",
                "feature gate entry \"Accelerators\" has no value; write Accelerators=true or \
                 Accelerators=false",
            ]
        );
    }

    #[test]
    fn the_manager_takes_the_descheduler_s_gates() {
        let (gates, errors) = Gates::<ManagerGate>::parse("DisablePVCReservation=true");
        assert_eq!(errors, []);
        assert!(gates.is_on(ManagerGate::DisablePVCReservation));
        let (_, errors) = Gates::<ManagerGate>::parse("BECPUSuppress=true");
        assert_eq!(errors.len(), 1, "the agent's gates are not the manager's");
    }
}
