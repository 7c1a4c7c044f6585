//! GPUs, spelled out: what the shorthand stands for, and which requests make no sense.
//!
//! ```text
//! koordinator.sh/gpu: 200  ->  gpu-core: 200, gpu-memory-ratio: 200, gpu.shared: 2
//! gpu-memory: 8Gi          ->  gpu-memory: 8Gi, gpu.shared: 1
//! ```

use api::protocol::resource::{GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED, NPU_CORE};
use api::resources::amount;
use k8s_openapi::api::core::v1::Container;
use serde_json::{Map, Value};
use units::Quantity;

use super::map_at;

const ASKED: [&str; 5] = [GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED];

/// Replaces the shorthand in every regular container of a pod.
pub(super) fn expand(pod: &mut Value) {
    let containers = pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        expand_container(container);
    }
}

fn expand_container(container: &mut Value) {
    let requests = container.pointer("/resources/requests").and_then(Value::as_object);
    let Some(requests) = requests.filter(|map| ASKED.iter().any(|name| map.contains_key(*name)))
    else {
        return;
    };
    let mut added: Vec<(&str, Value)> = Vec::new();
    let gpu = requests.get(GPU).cloned();
    if let Some(gpu) = &gpu {
        added.extend([(GPU_CORE, gpu.clone()), (GPU_MEMORY_RATIO, gpu.clone())]);
    }
    if !requests.contains_key(GPU_SHARED) {
        let shares = shares(requests, gpu.as_ref());
        added.push((GPU_SHARED, shares.to_string().into()));
    }
    for list in ["requests", "limits"] {
        let Some(map) = map_at(container, &["resources", list]) else { continue };
        if gpu.is_some() {
            map.remove(GPU);
        }
        map.extend(added.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        if map.is_empty()
            && let Some(resources) = map_at(container, &["resources"])
        {
            resources.remove(list);
        }
    }
}

/// Over how many GPUs a request is spread: whole GPUs by their count, anything else over one.
fn shares(requests: &Map<String, Value>, gpu: Option<&Value>) -> i64 {
    let percent = |name: &str| gpu.or_else(|| requests.get(name)).and_then(percent);
    let whole = |percent: i64| if percent > 100 && percent % 100 == 0 { percent / 100 } else { 1 };
    let ratio = percent(GPU_MEMORY_RATIO);
    ratio.or_else(|| percent(GPU_CORE)).map_or(1, whole)
}

fn percent(value: &Value) -> Option<i64> {
    let quantity: Quantity = match value {
        Value::String(text) => text.parse().ok()?,
        Value::Number(number) => number.to_string().parse().ok()?,
        _ => return None,
    };
    Some(quantity.value())
}

/// What is wrong with the GPUs one container asks for.
pub(super) fn problems(container: &Container) -> Vec<String> {
    let requests = container.resources.as_ref().and_then(|own| own.requests.as_ref());
    let asked = |name: &str| requests.and_then(|list| list.get(name)).map(amount);
    let value = |name: &str| asked(name).map(Quantity::value);
    let mut problems = Vec::new();
    let mut refuse = |name: &str, why: String| {
        let container = &container.name;
        problems.push(format!("container {container}: requests[{name}]: {why}"));
    };
    if asked(GPU).is_some() && asked(GPU_SHARED).is_some() {
        refuse(GPU, format!("cannot be asked for together with {GPU_SHARED}"));
        return problems;
    }
    if let Some(gpu) = value(GPU)
        && (gpu <= 0 || (gpu > 100 && gpu % 100 != 0))
    {
        refuse(GPU, format!("{gpu} must be from 1 to 100, or a multiple of 100"));
    }
    let Some(shares) = value(GPU_SHARED) else { return problems };
    if shares <= 0 {
        refuse(GPU_SHARED, format!("{shares} must be above 0"));
        return problems;
    }
    let is_npu = asked(NPU_CORE).is_some();
    if !is_npu && asked(GPU_MEMORY).is_some() == asked(GPU_MEMORY_RATIO).is_some() {
        let why = format!("needs exactly one of {GPU_MEMORY} and {GPU_MEMORY_RATIO}");
        refuse(GPU_SHARED, why);
    }
    for name in [GPU_CORE, GPU_MEMORY_RATIO] {
        if let Some(amount) = value(name).filter(|amount| amount % shares != 0) {
            refuse(name, format!("{amount} must be divisible by the {shares} shared GPUs"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_shorthand_is_spelled_out() {
        let cases = [
            (
                "a part of one",
                json!({GPU: "50"}),
                json!({GPU_CORE: "50", GPU_MEMORY_RATIO: "50", GPU_SHARED: "1"}),
            ),
            (
                "two whole ones",
                json!({GPU: "200"}),
                json!({GPU_CORE: "200", GPU_MEMORY_RATIO: "200", GPU_SHARED: "2"}),
            ),
            (
                "one whole one",
                json!({GPU: "100"}),
                json!({GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_SHARED: "1"}),
            ),
            ("memory", json!({GPU_MEMORY: "8Gi"}), json!({GPU_MEMORY: "8Gi", GPU_SHARED: "1"})),
            (
                "a ratio beside cores",
                json!({GPU_CORE: "400", GPU_MEMORY_RATIO: "50"}),
                json!({GPU_CORE: "400", GPU_MEMORY_RATIO: "50", GPU_SHARED: "1"}),
            ),
            ("cores alone", json!({GPU_CORE: "400"}), json!({GPU_CORE: "400", GPU_SHARED: "4"})),
            (
                "shares as given",
                json!({GPU_CORE: "400", GPU_SHARED: "2"}),
                json!({GPU_CORE: "400", GPU_SHARED: "2"}),
            ),
            ("no GPU", json!({"cpu": "1"}), json!({"cpu": "1"})),
        ];
        for (name, requests, want) in cases {
            let mut pod = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}});
            expand(&mut pod);
            assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"], want, "{name}");
            let once = pod.clone();
            expand(&mut pod);
            assert_eq!(pod, once, "{name}, twice");
        }
    }

    #[test]
    fn limits_follow_and_init_containers_do_not() {
        let mut pod = json!({"spec": {
            "containers": [{"name": "c", "resources": {"requests": {GPU: "100"}, "limits": {GPU: "100", "cpu": "1"}}}],
            "initContainers": [{"name": "i", "resources": {"requests": {GPU: "100"}}}],
        }});
        expand(&mut pod);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"]["limits"],
            json!({"cpu": "1", GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_SHARED: "1"})
        );
        assert_eq!(pod["spec"]["initContainers"][0]["resources"]["requests"], json!({GPU: "100"}));
    }

    #[test]
    fn senseless_requests_are_named() {
        let cases = [
            (json!({GPU: "50"}), ""),
            (json!({GPU: "300"}), ""),
            (json!({GPU: "150"}), "150 must be from 1 to 100"),
            (json!({GPU: "0"}), "0 must be from 1 to 100"),
            (json!({GPU: "50", GPU_SHARED: "1"}), "together with"),
            (json!({GPU_SHARED: "0"}), "above 0"),
            (json!({GPU_SHARED: "1"}), "exactly one of"),
            (json!({GPU_SHARED: "1", GPU_MEMORY: "1Gi", GPU_MEMORY_RATIO: "50"}), "exactly one of"),
            (json!({GPU_SHARED: "2", GPU_MEMORY_RATIO: "75"}), "75 must be divisible by the 2"),
            (json!({GPU_SHARED: "2", GPU_CORE: "100", GPU_MEMORY: "1Gi"}), ""),
            (json!({GPU_SHARED: "1", NPU_CORE: "1"}), ""),
        ];
        for (requests, want) in cases {
            let container: Container =
                serde_json::from_value(json!({"name": "c", "resources": {"requests": requests}}))
                    .unwrap();
            let problems = problems(&container).join("; ");
            match want {
                "" => assert_eq!(problems, "", "{requests}"),
                want => assert!(problems.contains(want), "{requests}: {problems}"),
            }
        }
    }
}
