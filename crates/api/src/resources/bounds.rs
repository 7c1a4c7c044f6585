//! Requests and limits of CPU and memory, in units.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde::{Deserialize, Serialize};
use units::{Bytes, MilliCpu, Quantity, Rounding};

use super::{WireList, amount, is_sidecar};
use crate::metadata::pod::ExtendedResources;
use crate::protocol::resource::{BATCH_CPU, BATCH_MEMORY, CPU, MEMORY};

/// Requests and limits of CPU and memory, native or batch; `None` is not given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    pub cpu_request: Option<MilliCpu>,
    pub cpu_limit: Option<MilliCpu>,
    pub memory_request: Option<Bytes>,
    pub memory_limit: Option<Bytes>,
}

impl Bounds {
    /// What a container says of `cpu` and `memory`.
    pub fn native(container: &Container) -> Self {
        Self::read(wire(container), [CPU, MEMORY], |cpu| MilliCpu::from_quantity(cpu, Rounding::Up))
    }

    /// What a container says of batch resources; `None` when it names none of them.
    pub fn batch(container: &Container) -> Option<Self> {
        let bounds = Self::read(wire(container), [BATCH_CPU, BATCH_MEMORY], milli_on_the_wire);
        (bounds != Self::default()).then_some(bounds)
    }

    /// The same from the webhook's copy, which stands in where the resources themselves were taken out.
    pub fn batch_copy(copy: &ExtendedResources) -> Self {
        let read = |is_limit: bool, name: &str| {
            let list = if is_limit { &copy.limits } else { &copy.requests };
            list.get(name).copied()
        };
        Self::read(read, [BATCH_CPU, BATCH_MEMORY], milli_on_the_wire)
    }

    fn read(
        list: impl Fn(bool, &str) -> Option<Quantity>,
        [cpu, memory]: [&str; 2],
        to_milli: fn(Quantity) -> MilliCpu,
    ) -> Self {
        let bytes = |memory| Bytes::from_quantity(memory, Rounding::Up);
        Self {
            cpu_request: list(false, cpu).map(to_milli),
            cpu_limit: list(true, cpu).map(to_milli),
            memory_request: list(false, memory).map(bytes),
            memory_limit: list(true, memory).map(bytes),
        }
    }

    /// Without limits that are not positive: those are none.
    #[must_use]
    pub fn with_positive_limits(self) -> Self {
        Self {
            cpu_limit: self.cpu_limit.filter(|limit| *limit > MilliCpu::ZERO),
            memory_limit: self.memory_limit.filter(|limit| *limit > Bytes::ZERO),
            ..self
        }
    }
}

fn wire(container: &Container) -> impl Fn(bool, &str) -> Option<Quantity> {
    let resources = container.resources.as_ref();
    let listed = |list: Option<&WireList>, name: &str| list?.get(name).map(amount);
    move |is_limit, name| match is_limit {
        true => listed(resources?.limits.as_ref(), name),
        false => listed(resources?.requests.as_ref(), name),
    }
}

/// Batch CPU is in milli-cores on the wire already.
fn milli_on_the_wire(cpu: Quantity) -> MilliCpu {
    MilliCpu(cpu.value())
}

/// The containers that run as long as the pod does: containers, then sidecars.
pub fn lasting(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    let sidecars = spec.init_containers.iter().flatten().filter(|init| is_sidecar(init));
    spec.containers.iter().chain(sidecars)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(resources: Value) -> Container {
        serde_json::from_value(json!({ "name": "c", "resources": resources })).unwrap()
    }

    #[test]
    fn native_and_batch_bounds_are_read_apart() {
        let container = container(json!({
            "requests": { "cpu": "1500u", "memory": "1Ki", "kubernetes.io/batch-cpu": "1500" },
            "limits": { "cpu": "2", "kubernetes.io/batch-memory": "1Gi" },
        }));
        let native = Bounds {
            cpu_request: Some(MilliCpu(2)),
            cpu_limit: Some(MilliCpu(2_000)),
            memory_request: Some(Bytes(1_024)),
            memory_limit: None,
        };
        assert_eq!(Bounds::native(&container), native, "rounded up");
        let batch = Bounds {
            cpu_request: Some(MilliCpu(1_500)),
            memory_limit: Some(Bytes(1 << 30)),
            ..Bounds::default()
        };
        assert_eq!(Bounds::batch(&container), Some(batch));
    }

    #[test]
    fn a_container_without_resources_has_no_bounds() {
        let bare = Container::default();
        assert_eq!((Bounds::native(&bare), Bounds::batch(&bare)), (Bounds::default(), None));
        let zero = Bounds::native(&container(json!({ "limits": { "cpu": "0", "memory": "1" } })));
        let positive = zero.with_positive_limits();
        assert_eq!((positive.cpu_limit, positive.memory_limit), (None, Some(Bytes(1))));
    }

    #[test]
    fn sidecars_last_and_other_init_containers_do_not() {
        let spec: PodSpec = serde_json::from_value(json!({
            "containers": [{ "name": "main" }],
            "initContainers": [{ "name": "setup" }, { "name": "side", "restartPolicy": "Always" }],
        }))
        .unwrap();
        let names: Vec<&str> = lasting(&spec).map(|container| container.name.as_str()).collect();
        assert_eq!(names, ["main", "side"]);
    }
}
