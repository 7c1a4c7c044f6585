//! What a pod asks for, summed up as Kubernetes does.
//!
//! ```text
//! max( containers + sidecars,  max over init containers (with the sidecars before them) )
//!   replaced by pod-level resources, plus overhead
//! ```
//!
//! A running pod that is being resized is charged the largest of what it wants, what was
//! granted and what it has; what it wants no longer counts once that was found infeasible.

use std::collections::BTreeMap;

use api::protocol::resource::{CPU, HUGEPAGES_PREFIX, MEMORY};
use api::resources::{WireList, amount, is_sidecar, resolve_aliases};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus};

use super::Reader;
use crate::model::{Requests, ResourceId};

/// Amounts by resource; a zero that was written stays.
type Amounts = BTreeMap<ResourceId, i64>;

/// What scores assume of a container that declares nothing.
const DEFAULT_MILLI_CPU: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// The pod as a whole.
#[derive(Debug)]
pub(super) struct Totals {
    pub(super) requests: Requests,
    pub(super) limits: Requests,
    pub(super) overhead: Requests,
    pub(super) nonzero: [i64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Requests,
    /// Requests, with defaults for CPU and memory.
    NonZero,
    Limits,
}

impl Reader<'_> {
    pub(super) fn totals(&mut self, spec: &PodSpec, status: Option<&PodStatus>) -> Totals {
        let overhead = self.amounts(spec.overhead.as_ref());
        let mut requests = self.total(spec, status, Which::Requests);
        let mut nonzero = self.total(spec, status, Which::NonZero);
        let mut limits = self.total(spec, status, Which::Limits);
        add(&mut requests, &overhead);
        add(&mut nonzero, &overhead);
        for (resource, amount) in &overhead {
            limits.entry(*resource).and_modify(|limit| *limit = limit.saturating_add(*amount));
        }
        let part = |resource| nonzero.get(&resource).copied().unwrap_or(0);
        Totals {
            nonzero: [part(ResourceId::CPU), part(ResourceId::MEMORY)],
            requests: requests.into_iter().collect(),
            limits: limits.into_iter().collect(),
            overhead: overhead.into_iter().collect(),
        }
    }

    pub(super) fn requests(&mut self, list: Option<&WireList>) -> Requests {
        self.amounts(list).into_iter().collect()
    }

    fn total(&mut self, spec: &PodSpec, status: Option<&PodStatus>, which: Which) -> Amounts {
        let mut total = Amounts::new();
        for container in &spec.containers {
            add(&mut total, &self.container(container, status, which));
        }
        let mut sidecars = Amounts::new();
        let mut peak = Amounts::new();
        for container in spec.init_containers.iter().flatten() {
            let mut moment = self.container(container, status, which);
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
        let own = spec.resources.as_ref().and_then(|own| match which {
            Which::Limits => own.limits.as_ref(),
            Which::Requests | Which::NonZero => own.requests.as_ref(),
        });
        let own = own.map(|own| {
            own.iter().filter(|(name, _)| is_pod_level(name)).map(|(k, v)| (k.clone(), v.clone()))
        });
        let own: Option<WireList> = own.map(Iterator::collect);
        total.extend(self.amounts(own.as_ref()));
        total
    }

    fn container(
        &mut self,
        container: &Container,
        status: Option<&PodStatus>,
        which: Which,
    ) -> Amounts {
        let own = container.resources.as_ref();
        if which == Which::Limits {
            return self.amounts(own.and_then(|own| own.limits.as_ref()));
        }
        let mut amounts = self.amounts(own.and_then(|own| own.requests.as_ref()));
        if let Some((status, found)) =
            status.and_then(|status| Some((status, status_of(status, &container.name)?)))
        {
            let granted = self.amounts(found.allocated_resources.as_ref());
            let actual = found.resources.as_ref().and_then(|own| own.requests.as_ref());
            let actual = self.amounts(actual);
            if is_infeasible(status) && !(granted.is_empty() && actual.is_empty()) {
                amounts = Amounts::new();
            }
            raise(&mut amounts, &granted);
            raise(&mut amounts, &actual);
        }
        if which == Which::NonZero {
            amounts.entry(ResourceId::CPU).or_insert(DEFAULT_MILLI_CPU);
            amounts.entry(ResourceId::MEMORY).or_insert(DEFAULT_MEMORY);
        }
        amounts
    }

    fn amounts(&mut self, list: Option<&WireList>) -> Amounts {
        let Some(list) = list else { return Amounts::new() };
        let mut list = list.clone();
        resolve_aliases(&mut list);
        let read = list.iter().map(|(name, quantity)| {
            let quantity = amount(quantity);
            let value = if name == CPU { quantity.milli_value() } else { quantity.value() };
            (self.resources.intern(name), value.max(0))
        });
        read.collect()
    }
}

fn status_of<'a>(status: &'a PodStatus, name: &str) -> Option<&'a ContainerStatus> {
    let lists = [&status.container_statuses, &status.init_container_statuses];
    lists.into_iter().flatten().flatten().find(|one| one.name == name)
}

fn is_infeasible(status: &PodStatus) -> bool {
    status.conditions.iter().flatten().any(|condition| {
        condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
    })
}

fn is_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with(HUGEPAGES_PREFIX)
}

fn add(total: &mut Amounts, part: &Amounts) {
    for (resource, amount) in part {
        let entry = total.entry(*resource).or_default();
        *entry = entry.saturating_add(*amount);
    }
}

fn raise(total: &mut Amounts, part: &Amounts) {
    for (resource, amount) in part {
        let entry = total.entry(*resource).or_default();
        *entry = (*entry).max(*amount);
    }
}
