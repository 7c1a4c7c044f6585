//! How much may a pod use, and what is it promised?
//!
//! CPU and memory only: other resources have no control group. A container that names a limit and
//! no request is promised its limit. A pod is promised what its containers need at the worst
//! moment: the sum of the long-running ones, or an init container together with the sidecars that
//! run beside it, whichever is more; its overhead comes on top. A pod is limited only if every one of
//! its containers is.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource;
use units::{Bytes, MilliCpu, Quantity, Rounding};

/// What Kubernetes derives from requests and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QosClass {
    Guaranteed,
    Burstable,
    BestEffort,
}

/// CPU and memory, promised and at most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) cpu_request: MilliCpu,
    pub(crate) cpu_limit: Option<MilliCpu>,
    pub(crate) memory_request: Bytes,
    pub(crate) memory_limit: Option<Bytes>,
}

type Resources = BTreeMap<String, resource::Quantity>;

/// A quantity that is there, can be read and is above zero.
fn amount(resources: Option<&Resources>, name: &str) -> Option<Quantity> {
    let quantity: Quantity = resources?.get(name)?.0.parse().ok()?;
    quantity.sign().is_gt().then_some(quantity)
}

fn cpu(quantity: Quantity) -> MilliCpu {
    MilliCpu::from_quantity(quantity, Rounding::Up)
}

fn memory(quantity: Quantity) -> Bytes {
    Bytes::from_quantity(quantity, Rounding::Up)
}

impl QosClass {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }

    /// The class of a pod, from all of its containers, or from the pod's own amounts if it has any.
    pub(crate) fn of(spec: &PodSpec) -> Self {
        let whole = spec.resources.as_ref().filter(|own| !is_empty(own));
        let parts: Vec<Option<&ResourceRequirements>> = match whole {
            Some(own) => vec![Some(own)],
            None => all_containers(spec).map(|container| container.resources.as_ref()).collect(),
        };
        let mut is_guaranteed = true;
        let mut has_any = false;
        for part in parts {
            for name in ["cpu", "memory"] {
                let limit = amount(part.and_then(|part| part.limits.as_ref()), name);
                let request = amount(part.and_then(|part| part.requests.as_ref()), name);
                has_any |= limit.is_some() || request.is_some();
                is_guaranteed &=
                    limit.is_some() && request.is_none_or(|asked| Some(asked) == limit);
            }
        }
        match (has_any, is_guaranteed) {
            (false, _) => Self::BestEffort,
            (true, true) => Self::Guaranteed,
            (true, false) => Self::Burstable,
        }
    }
}

fn is_empty(resources: &ResourceRequirements) -> bool {
    let names = ["cpu", "memory"];
    let lists = [resources.limits.as_ref(), resources.requests.as_ref()];
    !lists.iter().any(|list| names.iter().any(|name| amount(*list, name).is_some()))
}

fn all_containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// Is this init container one that keeps running beside the others?
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

impl Amounts {
    pub(crate) fn of_container(container: &Container) -> Self {
        Self::of(container.resources.as_ref())
    }

    fn of(resources: Option<&ResourceRequirements>) -> Self {
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        let requests = resources.and_then(|resources| resources.requests.as_ref());
        let asked = |name| amount(requests, name).or_else(|| amount(limits, name));
        Self {
            cpu_request: asked("cpu").map(cpu).unwrap_or_default(),
            cpu_limit: amount(limits, "cpu").map(cpu),
            memory_request: asked("memory").map(memory).unwrap_or_default(),
            memory_limit: amount(limits, "memory").map(memory),
        }
    }

    /// What the whole pod is promised and limited to.
    pub(crate) fn of_pod(spec: &PodSpec) -> Self {
        let mut pod = Self::sum(spec.containers.iter().map(Self::of_container));
        let mut sidecars = Self::sum([]);
        let mut peak = Self::default();
        for container in spec.init_containers.iter().flatten() {
            let own = Self::of_container(container);
            let now = sidecars.clone().plus(&own);
            if is_sidecar(container) {
                sidecars = now.clone();
            }
            peak = peak.most(&now);
        }
        pod = pod.plus(&sidecars);
        pod = Self {
            cpu_request: pod.cpu_request.max(peak.cpu_request),
            memory_request: pod.memory_request.max(peak.memory_request),
            cpu_limit: pod.cpu_limit.map(|limit| limit.max(peak.cpu_limit.unwrap_or_default())),
            memory_limit: pod
                .memory_limit
                .map(|limit| limit.max(peak.memory_limit.unwrap_or_default())),
        };
        for name in ["cpu", "memory"] {
            // One container without a limit leaves the whole pod without one.
            let is_limited = all_containers(spec).all(|container| {
                let limits = container.resources.as_ref().and_then(|own| own.limits.as_ref());
                amount(limits, name).is_some()
            });
            if !is_limited {
                pod.unlimit(name);
            }
        }
        pod.overrule(spec.resources.as_ref());
        pod.add_overhead(spec.overhead.as_ref());
        pod
    }

    fn sum(parts: impl IntoIterator<Item = Self>) -> Self {
        let none = Self {
            cpu_limit: Some(MilliCpu::ZERO),
            memory_limit: Some(Bytes::ZERO),
            ..Self::default()
        };
        parts.into_iter().fold(none, |sum, part| sum.plus(&part))
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            cpu_request: self.cpu_request + other.cpu_request,
            cpu_limit: self.cpu_limit.zip(other.cpu_limit).map(|(a, b)| a + b),
            memory_request: self.memory_request + other.memory_request,
            memory_limit: self.memory_limit.zip(other.memory_limit).map(|(a, b)| a + b),
        }
    }

    fn most(self, other: &Self) -> Self {
        Self {
            cpu_request: self.cpu_request.max(other.cpu_request),
            cpu_limit: self.cpu_limit.max(other.cpu_limit),
            memory_request: self.memory_request.max(other.memory_request),
            memory_limit: self.memory_limit.max(other.memory_limit),
        }
    }

    fn unlimit(&mut self, name: &str) {
        match name {
            "cpu" => self.cpu_limit = None,
            _ => self.memory_limit = None,
        }
    }

    /// Amounts given for the pod as a whole win over those of its containers.
    fn overrule(&mut self, whole: Option<&ResourceRequirements>) {
        let limits = whole.and_then(|whole| whole.limits.as_ref());
        let requests = whole.and_then(|whole| whole.requests.as_ref());
        if let Some(limit) = amount(limits, "cpu") {
            self.cpu_limit = Some(cpu(limit));
        }
        if let Some(limit) = amount(limits, "memory") {
            self.memory_limit = Some(memory(limit));
        }
        if let Some(request) = amount(requests, "cpu") {
            self.cpu_request = cpu(request);
        }
        if let Some(request) = amount(requests, "memory") {
            self.memory_request = memory(request);
        }
    }

    fn add_overhead(&mut self, overhead: Option<&Resources>) {
        if let Some(extra) = amount(overhead, "cpu").map(cpu) {
            self.cpu_request += extra;
            self.cpu_limit = self.cpu_limit.map(|limit| limit + extra);
        }
        if let Some(extra) = amount(overhead, "memory").map(memory) {
            self.memory_request += extra;
            self.memory_limit = self.memory_limit.map(|limit| limit + extra);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> PodSpec {
        serde_json::from_value(value).unwrap()
    }

    fn container(requests: Value, limits: Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn the_class_follows_requests_and_limits() {
        let full = json!({"cpu": "1", "memory": "1Gi"});
        let cases = [
            ("nothing", json!([container(json!({}), json!({}))]), QosClass::BestEffort),
            (
                "zero is nothing",
                json!([container(json!({"cpu": "0"}), json!({}))]),
                QosClass::BestEffort,
            ),
            (
                "other resources do not count",
                json!([container(json!({"example.com/gpu": "1"}), json!({}))]),
                QosClass::BestEffort,
            ),
            ("limits alone", json!([container(json!({}), full.clone())]), QosClass::Guaranteed),
            (
                "equal, differently written",
                json!([container(json!({"cpu": "1000m", "memory": "1024Mi"}), full.clone())]),
                QosClass::Guaranteed,
            ),
            (
                "one limit missing",
                json!([container(json!({}), json!({"cpu": "1"}))]),
                QosClass::Burstable,
            ),
            (
                "asks for less",
                json!([container(json!({"cpu": "500m"}), full.clone())]),
                QosClass::Burstable,
            ),
            (
                "a second container without any",
                json!([container(json!({}), full.clone()), {"name": "d"}]),
                QosClass::Burstable,
            ),
        ];
        for (name, containers, want) in cases {
            assert_eq!(QosClass::of(&spec(json!({"containers": containers}))), want, "{name}");
        }
        let init =
            json!({"containers": [container(json!({}), full)], "initContainers": [{"name": "i"}]});
        assert_eq!(QosClass::of(&spec(init)), QosClass::Burstable, "init containers count");
        let whole = json!({
            "containers": [{"name": "c"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        });
        assert_eq!(QosClass::of(&spec(whole)), QosClass::Guaranteed, "amounts of the pod");
    }

    #[test]
    fn a_pod_needs_its_worst_moment() {
        let cpu_of = |value: Value| {
            let amounts = Amounts::of_pod(&spec(value));
            (amounts.cpu_request.0, amounts.cpu_limit.map(|limit| limit.0))
        };
        let one = |cpu: &str| container(json!({}), json!({"cpu": cpu}));
        let sidecar = |cpu: &str| {
            let mut value = one(cpu);
            value["restartPolicy"] = json!("Always");
            value
        };
        let cases = [
            ("a sum", json!({"containers": [one("1"), one("500m")]}), (1_500, Some(1_500))),
            (
                "a larger init container",
                json!({"containers": [one("1")], "initContainers": [one("3"), one("2")]}),
                (3_000, Some(3_000)),
            ),
            (
                "sidecars add to what starts after them",
                json!({"containers": [one("1")], "initContainers": [sidecar("2"), one("3")]}),
                (5_000, Some(5_000)),
            ),
            (
                "and to the containers",
                json!({"containers": [one("4")], "initContainers": [one("3"), sidecar("2")]}),
                (6_000, Some(6_000)),
            ),
            (
                "one container without a limit",
                json!({"containers": [one("1"), container(json!({"cpu": "1"}), json!({}))]}),
                (2_000, None),
            ),
            (
                "overhead comes on top",
                json!({"containers": [one("1")], "overhead": {"cpu": "250m"}}),
                (1_250, Some(1_250)),
            ),
            (
                "the pod's own amounts win",
                json!({
                    "containers": [one("1")],
                    "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}},
                }),
                (2_000, Some(3_000)),
            ),
            (
                "text that is no quantity counts as nothing",
                json!({"containers": [one("many")]}),
                (0, None),
            ),
        ];
        for (name, value, want) in cases {
            assert_eq!(cpu_of(value), want, "{name}");
        }
    }
}
