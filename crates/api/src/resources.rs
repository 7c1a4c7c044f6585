//! What does a pod ask for, and under which names?
//!
//! Pods of the batch and mid classes do not ask for `cpu` and `memory` but for
//! what is lent out; CPU then counts in milli-cores:
//!
//! ```text
//! koord-batch   cpu: 1500m  ->  kubernetes.io/batch-cpu: 1500
//!               memory: 2Gi ->  kubernetes.io/batch-memory: 2Gi
//! ```

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use units::{Format, Quantity, Scale};

use crate::metadata::ResourceList;
use crate::priority::PriorityClass;
use crate::protocol::resource::{
    ALIASES, BATCH_CPU, BATCH_MEMORY, CPU, HUGEPAGES_PREFIX, MEMORY, MID_CPU, MID_MEMORY,
};

mod bounds;
mod device;
mod rewrite;

pub use bounds::{Bounds, lasting};
pub use device::check_device_requests;
pub use rewrite::{ReplaceResources, extended_resource_spec, translate};

/// Amounts as Kubernetes' own types carry them.
pub type WireList = BTreeMap<String, WireQuantity>;

/// The exact amount. The API server admits only readable ones; anything else is zero.
pub fn amount(quantity: &WireQuantity) -> Quantity {
    quantity.0.parse().unwrap_or_default()
}

pub fn amounts(list: &WireList) -> ResourceList {
    list.iter().map(|(name, quantity)| (name.clone(), amount(quantity))).collect()
}

pub fn to_wire(quantity: Quantity) -> WireQuantity {
    WireQuantity(quantity.to_string())
}

/// What pods of a class call `cpu` or `memory`. Free pods have no names of
/// their own and keep the native ones, as all other resources do.
pub fn name_for(class: PriorityClass, native: &str) -> Option<&'static str> {
    match (class, native) {
        (PriorityClass::Batch, CPU) => Some(BATCH_CPU),
        (PriorityClass::Batch, MEMORY) => Some(BATCH_MEMORY),
        (PriorityClass::Mid, CPU) => Some(MID_CPU),
        (PriorityClass::Mid, MEMORY) => Some(MID_MEMORY),
        _ => None,
    }
}

/// The class and native name behind a lent resource.
pub fn native_of(name: &str) -> Option<(PriorityClass, &'static str)> {
    match name {
        BATCH_CPU => Some((PriorityClass::Batch, CPU)),
        BATCH_MEMORY => Some((PriorityClass::Batch, MEMORY)),
        MID_CPU => Some((PriorityClass::Mid, CPU)),
        MID_MEMORY => Some((PriorityClass::Mid, MEMORY)),
        _ => None,
    }
}

/// Gives old names their new ones, except where the new name is there already.
pub fn resolve_aliases<T>(list: &mut BTreeMap<String, T>) {
    for (old, new) in ALIASES {
        if !list.contains_key(*new)
            && let Some(value) = list.remove(*old)
        {
            list.insert((*new).to_owned(), value);
        }
    }
}

/// An amount as Node status shows it: a whole number, rounded up; memory in binary notation.
pub fn for_node_status(name: &str, amount: Quantity) -> Quantity {
    let format = match name {
        MEMORY | BATCH_MEMORY | MID_MEMORY => Format::BinarySi,
        _ => Format::DecimalSi,
    };
    amount.round_up(Scale::One).with_format(format)
}

/// What Kubernetes charges a pod for: containers and sidecars together, raised
/// to the largest moment of initialisation, replaced by what the pod asks for
/// as a whole, plus overhead.
pub fn pod_requests(spec: &PodSpec) -> ResourceList {
    let mut total = ResourceList::new();
    for container in &spec.containers {
        add(&mut total, &requests(container));
    }
    let mut sidecars = ResourceList::new();
    let mut peak = ResourceList::new();
    for container in spec.init_containers.iter().flatten() {
        let mut moment = requests(container);
        if is_sidecar(container) {
            add(&mut total, &moment);
            add(&mut sidecars, &moment);
            moment.clone_from(&sidecars);
        } else {
            add(&mut moment, &sidecars);
        }
        raise(&mut peak, &moment);
    }
    raise(&mut total, &peak);
    let own = spec.resources.as_ref().and_then(|own| own.requests.as_ref());
    for (name, quantity) in own.into_iter().flatten().filter(|(name, _)| is_pod_level(name)) {
        total.insert(name.clone(), amount(quantity));
    }
    if let Some(overhead) = &spec.overhead {
        add(&mut total, &amounts(overhead));
    }
    total
}

/// An init container that keeps running beside the others.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn is_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with(HUGEPAGES_PREFIX)
}

fn requests(container: &Container) -> ResourceList {
    let requests = container.resources.as_ref().and_then(|own| own.requests.as_ref());
    requests.map(amounts).unwrap_or_default()
}

fn add(total: &mut ResourceList, part: &ResourceList) {
    for (name, quantity) in part {
        *total.entry(name.clone()).or_default() += *quantity;
    }
}

fn raise(total: &mut ResourceList, part: &ResourceList) {
    for (name, quantity) in part {
        let entry = total.entry(name.clone()).or_default();
        *entry = (*entry).max(*quantity);
    }
}
