//! CPUs that are kept from pods: by the kubelet's configuration and by the operator's annotation.

use api::metadata::node::NodeReservation as Reservation;
use api::metadata::topology::CpuManagerPolicy as Manager;
use api::protocol::node;
use api::protocol::resource::CPU;
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;
use units::{CpuSet, MilliCpu, Rounding, Scale};

use super::Machine;
use super::kubelet::KubeletConfig;
use super::take::take;

/// The kubelet's CPU manager. Under the static policy the CPUs it keeps for itself are named;
/// what cannot be found out is left out.
pub(super) fn cpu_manager(kubelet: Option<&KubeletConfig>, machine: &Machine) -> Manager {
    let Some(kubelet) = kubelet else { return Manager::default() };
    let mut manager = Manager {
        policy: kubelet.cpu_manager_policy.clone(),
        options: kubelet.cpu_manager_options.clone(),
        reserved_cpus: CpuSet::new(),
    };
    if manager.is_static() {
        manager.reserved_cpus = kubelet_reserved(kubelet, machine).unwrap_or_default();
    }
    manager
}

fn kubelet_reserved(kubelet: &KubeletConfig, machine: &Machine) -> Option<CpuSet> {
    let all = machine.cpus.online();
    if !kubelet.reserved_cpus.is_empty() {
        let named: CpuSet = kubelet.reserved_cpus.parse().ok()?;
        return named.is_subset(&all).then_some(named);
    }
    packed(machine, &all, whole_cores(kubelet.reserved_cpu))
}

fn whole_cores(cpu: MilliCpu) -> i64 {
    cpu.to_quantity().to_int(Scale::One, Rounding::Up)
}

fn packed(machine: &Machine, all: &CpuSet, cores: i64) -> Option<CpuSet> {
    let wanted = usize::try_from(cores).ok().filter(|wanted| *wanted > 0)?;
    take(&machine.cpus, all, wanted).ok()
}

/// The operator's annotation with its CPUs named; unreadable counts as absent.
pub(super) fn node_reservation(of: &Node, machine: &Machine) -> Reservation {
    let Some(mut reservation) = read(of) else { return Reservation::default() };
    if reservation.reserved_cpus.is_empty() {
        let cpu = reservation.resources.get(CPU).copied().unwrap_or_default();
        let cores = cpu.to_int(Scale::One, Rounding::Up);
        let cpus = packed(machine, &machine.cpus.online(), cores);
        reservation.reserved_cpus = cpus.unwrap_or_default();
    }
    reservation
}

/// CPUs that cannot be read are dropped, and the rest of the annotation stays.
fn read(of: &Node) -> Option<Reservation> {
    let text = node::RESERVATION.raw(&of.metadata)?;
    let mut value: Value = serde_json::from_str(text).ok()?;
    let fields = value.as_object_mut()?;
    let is_cpus = |value: &Value| value.as_str().is_some_and(|text| text.parse::<CpuSet>().is_ok());
    if fields.get("reservedCPUs").is_some_and(|cpus| !is_cpus(cpus)) {
        fields.remove("reservedCPUs");
    }
    serde_json::from_value(value).ok()
}
