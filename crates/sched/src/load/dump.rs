//! What the endpoint `/apis/v1/plugins/LoadAwareScheduling/node/:nodeName` answers.

use serde_json::{Map, Value, json};

use super::args::Settings;
use super::book::Page;
use crate::model::Names;
use crate::time::Time;

/// The pods on a node with when and how they count, and the sums they make.
pub fn dump(node: &str, settings: &Settings, page: &Page, names: &Names) -> Value {
    let list = |amounts: &[i64]| -> Value {
        let pairs = settings.columns.iter().zip(amounts);
        pairs.map(|(own, amount)| (own.name.clone(), json!(amount))).collect::<Map<_, _>>().into()
    };
    let mut pods: Vec<(String, Value)> = page
        .pods
        .iter()
        .map(|pod| {
            let key = format!("{}/{}", names.text(pod.namespace), pod.name);
            let start = pod.times.scheduled.or(pod.times.assigned);
            let value = json!({
                "pod": key,
                "timestamp": start.map(text),
                "estimated": list(&pod.estimate.amounts),
                "prod": pod.estimate.is_prod,
            });
            (key, value)
        })
        .collect();
    pods.sort_by(|a, b| a.0.cmp(&b.0));
    let updated = page.report.as_ref().and_then(|report| report.updated);
    json!({
        "node": node,
        "updateTime": updated.map(text),
        "expired": page.is_stale,
        "capacity": list(&page.capacity),
        "assignedPods": pods.into_iter().map(|(_, value)| value).collect::<Vec<_>>(),
        "nodeDelta": list(&page.sums.delta),
        "nodeEstimated": list(&page.sums.estimated),
        "prodUsage": list(&page.sums.prod_usage),
        "prodDelta": list(&page.sums.prod_delta),
    })
}

/// RFC 3339, to the second, as Kubernetes prints times.
fn text(time: Time) -> String {
    jiff::Timestamp::from_second(time.whole_secs())
        .map_or_else(|_| String::new(), |at| at.to_string())
}
