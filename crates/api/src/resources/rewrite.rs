//! Renaming resources in pods.
//!
//! Everything here works on the maps of a PodSpec: requests and limits of init
//! containers and containers, and the overhead.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use units::{Format, Quantity};

use super::{WireList, amount, amounts, is_sidecar, name_for, to_wire};
use crate::finding::Finding;
use crate::metadata::pod::{ExtendedResourceSpec, ExtendedResources};
use crate::metadata::{ResourceList, Wire};
use crate::priority::PriorityClass;
use crate::protocol::pod::EXTENDED_RESOURCE_SPEC;
use crate::protocol::resource::{BATCH_CPU, BATCH_MEMORY, CPU, MEMORY};

/// Moves cpu and memory to the names of `class`, and says whether anything
/// moved. An amount that stands under the new name is overwritten; a limit
/// without request becomes the request too.
pub fn translate(spec: &mut PodSpec, class: PriorityClass) -> bool {
    let mut is_changed = false;
    for native in [CPU, MEMORY] {
        let Some(name) = name_for(class, native) else { continue };
        for resources in resources_mut(spec) {
            for list in [&mut resources.requests, &mut resources.limits].into_iter().flatten() {
                is_changed |= move_amount(list, native, name);
            }
            is_changed |= default_request(resources, name);
        }
        is_changed |= spec.overhead.as_mut().is_some_and(|list| move_amount(list, native, name));
    }
    is_changed
}

fn init_containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten()
}

fn resources_mut(spec: &mut PodSpec) -> impl Iterator<Item = &mut ResourceRequirements> {
    let init = spec.init_containers.iter_mut().flatten();
    init.chain(&mut spec.containers).filter_map(|container| container.resources.as_mut())
}

fn move_amount(list: &mut WireList, from: &str, to: &str) -> bool {
    let Some(quantity) = list.remove(from) else { return false };
    let quantity = if from == CPU { to_wire(in_milli(amount(&quantity))) } else { quantity };
    list.insert(to.to_owned(), quantity);
    true
}

/// A whole number of thousandths, rounded up.
fn in_milli(cores: Quantity) -> Quantity {
    Quantity::from_int(cores.milli_value(), Format::DecimalSi)
}

fn default_request(resources: &mut ResourceRequirements, name: &str) -> bool {
    let limit = resources.limits.as_ref().and_then(|limits| limits.get(name)).cloned();
    let is_asked = resources.requests.as_ref().is_some_and(|list| list.contains_key(name));
    let Some(limit) = limit.filter(|_| !is_asked) else { return false };
    resources.requests.get_or_insert_default().insert(name.to_owned(), limit);
    true
}

/// The annotation that repeats a pod's batch resources: what to write, if it is
/// not there already. Regular containers count, and sidecars, which run beside
/// them. A pod without batch resources gets none, and one that stands there
/// becomes `{}`.
///
/// An annotation that cannot be read is an error: the pod is refused.
pub fn extended_resource_spec(pod: &Pod) -> Result<Option<ExtendedResourceSpec>, Vec<Finding>> {
    let batch = |list: Option<&WireList>| -> ResourceList {
        let list = list.map(amounts).unwrap_or_default();
        list.into_iter()
            .filter(|(name, _)| [BATCH_CPU, BATCH_MEMORY].contains(&name.as_str()))
            .collect()
    };
    let sidecars = |spec| init_containers(spec).filter(|container| is_sidecar(container));
    let beside = pod.spec.iter().flat_map(sidecars);
    let regular = pod.spec.iter().flat_map(|spec| &spec.containers);
    let containers = beside.chain(regular).filter_map(|container| {
        let resources = container.resources.as_ref()?;
        let limits = batch(resources.limits.as_ref());
        let requests = batch(resources.requests.as_ref());
        let has_batch = !limits.is_empty() || !requests.is_empty();
        has_batch.then(|| (container.name.clone(), ExtendedResources { limits, requests }))
    });
    let wanted = ExtendedResourceSpec { containers: containers.collect() };
    if !EXTENDED_RESOURCE_SPEC.is_present(&pod.metadata) {
        return Ok(Some(wanted).filter(|spec| !spec.containers.is_empty()));
    }
    let (found, findings) = EXTENDED_RESOURCE_SPEC.read(&pod.metadata);
    let Some(found) = found else { return Err(findings) };
    Ok(Some(wanted).filter(|wanted| *wanted != found))
}

/// `a:b,c:`: rename a to b, erase c.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplaceResources(BTreeMap<String, Option<String>>);

impl Wire for ReplaceResources {
    /// Entries without exactly one colon are ignored, and so is an empty source.
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        let entries = text.split(',').filter_map(|entry| {
            let (from, to) = entry.split_once(':').filter(|(_, to)| !to.contains(':'))?;
            let (from, to) = (from.trim(), to.trim());
            let to = Some(to.to_owned()).filter(|to| !to.is_empty());
            (!from.is_empty()).then(|| (from.to_owned(), to))
        });
        (Some(Self(entries.collect())), Vec::new())
    }

    fn print(&self) -> String {
        let entries = self.0.iter().map(|(from, to)| {
            let to = to.as_deref().unwrap_or_default();
            format!("{from}:{to}")
        });
        entries.collect::<Vec<_>>().join(",")
    }
}

impl ReplaceResources {
    pub fn apply(&self, spec: &mut PodSpec) {
        for resources in resources_mut(spec) {
            for list in [&mut resources.requests, &mut resources.limits].into_iter().flatten() {
                self.apply_to(list);
            }
        }
        if let Some(overhead) = &mut spec.overhead {
            self.apply_to(overhead);
        }
    }

    /// Erases first. A list that has the new name already keeps both; an amount
    /// that was called `cpu` is counted in thousandths from then on.
    pub fn apply_to(&self, list: &mut WireList) {
        list.retain(|name, _| self.0.get(name) != Some(&None));
        for (from, to) in &self.0 {
            if let Some(to) = to
                && !list.contains_key(to)
            {
                move_amount(list, from, to);
            }
        }
    }
}
