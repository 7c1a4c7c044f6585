//! `eviction`: a delete that asks the disruption budgets first.
//!
//! ```text
//! pod finished, pending or dying        -> delete
//! no budget                             -> delete
//! one budget, pod not ready and allowed -> delete
//! one budget with disruptions left      -> take one, delete
//! otherwise                             -> 429
//! ```

use axum::response::Response;
use serde_json::{Value, json};

use super::done;
use crate::http::admission::{self, Attributes, Operation};
use crate::http::call::Call;
use crate::http::delete::{self, DeleteOptions};
use crate::http::query::{WriteOptions, dry_run};
use crate::http::select::{Labels, labels_match};
use crate::http::server::object_of;
use crate::http::source::seconds;
use crate::http::status::{Cause, Status};
use crate::http::{decode, meta, negotiate, write};
use crate::store::{Collection, Stored, WriteError};

/// More evictions than this in flight on one budget mean that its controller is asleep.
const MAX_DISRUPTED: usize = 2000;

pub(super) async fn evict(call: &mut Call) -> Result<Response, Status> {
    let options = WriteOptions::from_query(&call.query, &call.headers, "CreateOptions")?;
    let kind = negotiate::object_body(&call.headers, call.served.traits.custom)?;
    let mut eviction = decode::value(&call.body, kind, "Eviction")?;
    meta::check_shape(&mut eviction)?;
    let name = meta::name(&eviction);
    if !name.is_empty() && name != call.name() {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut delete = match eviction.get("deleteOptions") {
        Some(value) if value.is_object() => DeleteOptions::from_value(value)?,
        _ => DeleteOptions::default(),
    };
    delete.dry_run |= options.dry_run || dry_run(call.query.all("dryRun"), &mut Vec::new());

    let mut attributes = Attributes::new(call, Operation::Create, delete.dry_run);
    attributes.name = call.name().to_owned();
    admission::mutate(call, &attributes, &mut eviction, None).await?;
    admission::validate(call, &attributes, Some(&eviction), None).await?;

    let stored = call.server.store().get(&call.key()?);
    let stored = stored.ok_or_else(|| Status::not_found(call.subject()))?;
    let pod = object_of(&stored, &call.served)?;
    if !ignores_budgets(&pod) {
        ask_budgets(call, &pod, delete.dry_run).await?;
        if !delete.dry_run {
            announce(call).await;
        }
    }
    let name = call.name().to_owned();
    call.target.subresource = None;
    delete::object(call, &name, &delete).await?;
    done(call)
}

fn ignores_budgets(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed" | "Pending") || meta::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str);
        text("type") == Some("Ready") && text("status") == Some("True")
    })
}

async fn ask_budgets(call: &Call, pod: &Value, dry_run: bool) -> Result<(), Status> {
    loop {
        let budgets = budgets_of(call, pod);
        let (stored, budget) = match budgets.as_slice() {
            [] => return Ok(()),
            [one] => one,
            _ => {
                return Err(Status::new(
                    axum::http::StatusCode::INTERNAL_SERVER_ERROR,
                    "",
                    "This pod has more than one PodDisruptionBudget, which the eviction \
                     subresource does not support.",
                ));
            }
        };
        if !is_ready(pod) && lets_unhealthy_go(budget) {
            return Ok(());
        }
        let now = seconds(call.server.options().clock.now());
        let next = take_one(budget, meta::name(pod), &now)?;
        if dry_run {
            return Ok(());
        }
        match call.server.store().replace(stored.key.clone(), next, stored.revision).await {
            Ok(_) => return Ok(()),
            // Somebody else took one, or the controller recounted: look again.
            Err(WriteError::Conflict { .. } | WriteError::Missing) => {}
            Err(error) => return Err(write::storage_error(error)),
        }
    }
}

fn budgets_of(call: &Call, pod: &Value) -> Vec<(Stored, Value)> {
    let collection = Collection::new("policy", "poddisruptionbudgets");
    let budgets = call.server.store().list(&collection, Some(call.namespace()));
    budgets
        .iter()
        .filter_map(|stored| {
            let budget: Value = serde_json::from_slice(&stored.json).ok()?;
            // A budget without a selector selects nothing, one with an empty selector everything.
            let selector = budget.pointer("/spec/selector").filter(|value| value.is_object())?;
            let selector = Labels::from_object(selector).ok()?;
            labels_match(&selector, pod).then_some((stored, budget))
        })
        .collect()
}

fn count(budget: &Value, field: &str) -> i64 {
    budget.pointer(&format!("/status/{field}")).and_then(Value::as_i64).unwrap_or(0)
}

fn lets_unhealthy_go(budget: &Value) -> bool {
    let policy = budget.pointer("/spec/unhealthyPodEvictionPolicy").and_then(Value::as_str);
    let (healthy, wanted) = (count(budget, "currentHealthy"), count(budget, "desiredHealthy"));
    policy == Some("AlwaysAllow") || (healthy >= wanted && wanted > 0)
}

/// The budget after one more disruption, or why there is none left.
fn take_one(budget: &Value, pod: &str, now: &str) -> Result<Value, Status> {
    let name = meta::name(budget);
    let refuse = |cause: String, retry: Option<u32>| {
        let mut status = Status::too_many_requests(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            retry,
        );
        status.details.get_or_insert_default().causes.push(Cause {
            reason: "DisruptionBudget".into(),
            message: cause,
            field: String::new(),
        });
        Err(status)
    };
    if count(budget, "observedGeneration") < meta::generation(budget) {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return refuse(cause, Some(10));
    }
    let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    let allowed = count(budget, "disruptionsAllowed");
    if allowed < 0 || disrupted.is_some_and(|map| map.len() > MAX_DISRUPTED) {
        let why = if allowed < 0 {
            "pdb disruptions allowed is negative"
        } else {
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        };
        return Err(Status::forbidden(
            crate::http::status::Subject {
                group: "policy",
                resource: "poddisruptionbudgets",
                name,
            },
            why,
        ));
    }
    if allowed == 0 {
        let cause = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            count(budget, "desiredHealthy"),
            count(budget, "currentHealthy")
        );
        return refuse(cause, None);
    }
    let mut next = budget.clone();
    next["status"]["disruptionsAllowed"] = json!(allowed - 1);
    if !next["status"]["disruptedPods"].is_object() {
        next["status"]["disruptedPods"] = json!({});
    }
    next["status"]["disruptedPods"][pod] = json!(now);
    if allowed == 1 {
        exhaust(&mut next, now);
    }
    Ok(next)
}

/// The budget says that nothing is left of it.
fn exhaust(budget: &mut Value, now: &str) {
    let condition = json!({
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": count(budget, "observedGeneration"),
        "lastTransitionTime": now,
    });
    let Some(status) = budget.get_mut("status").and_then(Value::as_object_mut) else { return };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|one| one.get("type") != condition.get("type"));
        conditions.push(condition);
    }
}

/// The pod says that it is being disrupted, so that its controller need not count this as failure.
async fn announce(call: &Call) {
    let Ok(key) = call.key() else { return };
    let now = seconds(call.server.options().clock.now());
    while let Some(stored) = call.server.store().get(&key) {
        let Ok(mut pod) = serde_json::from_slice::<Value>(&stored.json) else { return };
        let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else { return };
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        let Some(conditions) = conditions.as_array_mut() else { return };
        conditions.retain(|condition| {
            condition.get("type").and_then(Value::as_str) != Some("DisruptionTarget")
        });
        conditions.push(json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": now,
        }));
        match call.server.store().replace(key.clone(), pod, stored.revision).await {
            Err(WriteError::Conflict { .. }) => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_gives_what_it_has() {
        let budget = |generation: i64, allowed: i64| {
            json!({
                "metadata": {"name": "b", "generation": generation},
                "status": {
                    "observedGeneration": 1, "disruptionsAllowed": allowed,
                    "currentHealthy": 2, "desiredHealthy": 2,
                },
            })
        };
        let next = take_one(&budget(1, 1), "p", "now").unwrap();
        assert_eq!(next["status"]["disruptionsAllowed"], 0);
        assert_eq!(next["status"]["disruptedPods"], json!({"p": "now"}));

        let none_left = take_one(&budget(1, 0), "p", "now").unwrap_err();
        assert_eq!(none_left.code, 429);
        let causes = &none_left.details.unwrap().causes;
        assert_eq!(
            causes[0].message,
            "The disruption budget b needs 2 healthy pods and has 2 currently"
        );
        let unseen = take_one(&budget(2, 1), "p", "now").unwrap_err();
        assert_eq!(unseen.details.unwrap().retry_after_seconds, Some(10));
        assert_eq!(take_one(&budget(1, -1), "p", "now").unwrap_err().code, 403);
    }

    #[test]
    fn unhealthy_pods_may_go_when_the_budget_is_healthy_or_says_so() {
        let budget = |healthy: i64, policy: Value| {
            json!({
                "spec": {"unhealthyPodEvictionPolicy": policy},
                "status": {"currentHealthy": healthy, "desiredHealthy": 2},
            })
        };
        assert!(lets_unhealthy_go(&budget(2, Value::Null)));
        assert!(!lets_unhealthy_go(&budget(1, Value::Null)));
        assert!(lets_unhealthy_go(&budget(1, json!("AlwaysAllow"))));
    }
}
