//! What the endpoint `/apis/v1/plugins/NodeNUMAResource/nodes/:nodeName` answers.

use serde_json::{Value, json};

use super::hint::Occupancy;
use super::state::{Ratios, State, Zone};
use crate::model::{Requests, ResourceId, Resources};

/// Everything known about a node's CPUs and NUMA nodes.
pub fn dump(node: &str, state: &State, resources: &Resources) -> Value {
    let machine = state.machine();
    let topology = state.topology().map(|topology| {
        json!({
            "cpus": topology.all().to_string(),
            "cpusPerCore": topology.cpus_per_core(),
            "cpusPerNode": topology.cpus_per_node(),
            "cpusPerSocket": topology.cpus_per_socket(),
        })
    });
    let ratios = match &state.settings().ratios {
        Ratios::Unreadable => Value::Null,
        Ratios::Known(ratios) => ratios
            .iter()
            .map(|(id, ratio)| (resources.name(*id).to_owned(), json!(ratio.to_string())))
            .collect(),
    };
    let pods: serde_json::Map<String, Value> = state
        .pods()
        .map(|(uid, held)| {
            let shares: Vec<Value> = held
                .shares
                .iter()
                .map(|(id, amounts)| json!({"node": id, "resources": list(amounts, resources)}))
                .collect();
            let cpus = held.cpus.to_string();
            (uid.to_owned(), json!({"cpuset": cpus, "numaNodeResources": shares}))
        })
        .collect();
    json!({
        "node": node,
        "topology": topology,
        "numaTopologyPolicy": state.policy().map(|policy| policy.as_str()),
        "cpuBindPolicy": state.settings().bind.map(|bind| bind.as_str()),
        "fullPCPUsOnly": machine.is_full_pcpus_only,
        "amplificationRatios": ratios,
        "reservedCPUs": machine.reserved.to_string(),
        "availableCPUs": state.free().to_string(),
        "numaNodes": state.zones().iter().map(|own| zone(state, own, resources)).collect::<Vec<_>>(),
        "allocations": pods,
    })
}

fn zone(state: &State, zone: &Zone, resources: &Resources) -> Value {
    let amounts: serde_json::Map<String, Value> = zone
        .amounts
        .iter()
        .map(|amount| {
            let (capacity, used) = (amount.capacity, state.used(zone, amount));
            let name = resources.name(amount.resource).to_owned();
            (name, json!({"capacity": capacity, "used": used}))
        })
        .collect();
    let occupancy = match zone.occupancy {
        Occupancy::Idle => "idle",
        Occupancy::Single => "single",
        Occupancy::Shared => "shared",
    };
    json!({"node": zone.id, "resources": amounts, "freeCPUs": zone.free.any, "state": occupancy})
}

fn list(amounts: &Requests, resources: &Resources) -> Value {
    let entry = |(id, amount): (ResourceId, i64)| (resources.name(id).to_owned(), json!(amount));
    amounts.iter().map(entry).collect::<serde_json::Map<_, _>>().into()
}
