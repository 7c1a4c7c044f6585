//! How do webhooks take part in a write?
//!
//! Mutating webhooks are asked one after the other, in the order of their configurations' names;
//! each sees what the ones before it changed, and those that ask for it see the object again when
//! a later one changed it. Validating webhooks are asked all at once about the final object.

mod call;
mod condition;
mod config;
mod review;
mod rule;

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::Value;

pub(in crate::http) use self::call::Caller;
pub use self::call::{EndpointResolver, ServiceResolver};
pub(in crate::http) use self::config::Cache;
use self::config::{Hook, OnFailure};
use self::review::Verdict;
use self::rule::Fit;
use super::{Attributes, Operation};
use crate::http::call::Call;
use crate::http::decode::{self, Complaints};
use crate::http::status::Status;
use objects::patch;

/// Lets mutating webhooks change the object; true when one did.
pub(super) async fn mutate(
    call: &mut Call,
    attributes: &Attributes,
    object: &mut Option<Value>,
    old: Option<&Value>,
) -> Result<bool, Status> {
    let hooks = call.server.webhooks().mutating(call.server.store());
    if hooks.is_empty() || is_exempt(call) {
        return Ok(false);
    }
    let mut again: Vec<bool> = vec![false; hooks.len()];
    let mut asked: Vec<bool> = vec![false; hooks.len()];
    let mut any = false;
    for round in 0..2 {
        for (at, hook) in hooks.iter().enumerate() {
            if round == 1 && !again[at] {
                continue;
            }
            let Some(changed) = ask_mutating(call, attributes, hook, object, old).await? else {
                continue;
            };
            asked[at] = true;
            if changed {
                any = true;
                for (other, hook) in hooks.iter().enumerate() {
                    again[other] |= round == 0 && other != at && asked[other] && hook.reinvoke;
                }
            }
        }
    }
    Ok(any)
}

/// Asks one webhook; `None` when it has no business here, otherwise whether it changed anything.
async fn ask_mutating(
    call: &mut Call,
    attributes: &Attributes,
    hook: &Hook,
    object: &mut Option<Value>,
    old: Option<&Value>,
) -> Result<Option<bool>, Status> {
    let Some(fit) = fits(call, attributes, hook, object.as_ref(), old)? else { return Ok(None) };
    let verdict = ask(call, attributes, hook, &fit, object.as_ref(), old).await?;
    let Some(verdict) = verdict else { return Ok(Some(false)) };
    call.warnings.extend(verdict.warnings);
    let (Some(bytes), Some(current)) = (verdict.patch, object.as_mut()) else {
        return Ok(Some(false));
    };
    let mut next = fit.to_webhook(current);
    next = patch::json(&next, &bytes)
        .map_err(|error| Status::internal(format!("webhook {:?}: {error}", hook.name)))?;
    fit.to_request(&mut next, &call.served);
    decode::check_kind(&mut next, &call.served)?;
    decode::shape(&mut next, &call.served, &mut Complaints::default())?;
    if next == *current {
        return Ok(Some(false));
    }
    *current = next;
    Ok(Some(true))
}

/// Lets validating webhooks refuse the write.
pub(super) async fn validate(
    call: &mut Call,
    attributes: &Attributes,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    let hooks = call.server.webhooks().validating(call.server.store());
    if hooks.is_empty() || is_exempt(call) {
        return Ok(());
    }
    let mut wanted: Vec<(&Hook, Fit)> = Vec::new();
    for hook in hooks.iter() {
        if let Some(fit) = fits(call, attributes, hook, object, old)? {
            wanted.push((hook, fit));
        }
    }
    let shared: &Call = call;
    let answers =
        join_all(wanted.iter().map(|(hook, fit)| ask(shared, attributes, hook, fit, object, old)))
            .await;
    for answer in answers {
        if let Some(verdict) = answer? {
            call.warnings.extend(verdict.warnings);
        }
    }
    Ok(())
}

/// Webhooks must not lock themselves out.
fn is_exempt(call: &Call) -> bool {
    call.served.group == "admissionregistration.k8s.io"
}

/// Whether a webhook wants to hear of this request, and in which version of the resource.
fn fits(
    call: &Call,
    attributes: &Attributes,
    hook: &Hook,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Option<Fit>, Status> {
    let Some(fit) = rule::fit(call, attributes, hook) else { return Ok(None) };
    if !rule::selects(call, attributes, hook, object, old) {
        return Ok(None);
    }
    if hook.conditions.is_empty() {
        return Ok(Some(fit));
    }
    let request = review::request(call, attributes, &fit, "", None, None);
    match condition::all_hold(&hook.conditions, object, old, &request) {
        Ok(holds) => Ok(holds.then_some(fit)),
        Err(_) if hook.on_failure == OnFailure::Ignore => Ok(None),
        Err(why) => Err(Status::forbidden(call.served.subject(&attributes.name), why)),
    }
}

/// Asks a webhook. `None` means that it could not be asked and that this does not matter.
async fn ask(
    call: &Call,
    attributes: &Attributes,
    hook: &Hook,
    fit: &Fit,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Option<Verdict>, Status> {
    if attributes.dry_run && !hook.dry_run_safe {
        return Err(Status::bad_request(format!(
            "admission webhook {:?} does not support dry run",
            hook.name
        )));
    }
    let uid = call.server.options().ids.uid();
    let (object, old) = (object.map(|o| fit.to_webhook(o)), old.map(|o| fit.to_webhook(o)));
    let request = review::request(call, attributes, fit, &uid, object.as_ref(), old.as_ref());
    let body = review::envelope(hook.review_version, request);
    let answer = match call.server.caller().post(&call.server, hook, &body).await {
        Ok(answer) => review::read(&answer, hook.review_version, &uid, hook.mutating)
            .map_err(|why| format!("received invalid webhook response: {why}")),
        Err(why) => Err(format!("failed to call webhook: {why}")),
    };
    match answer {
        Ok(verdict) => match verdict.denial(&hook.name) {
            Some(status) => Err(status),
            None => Ok(Some(verdict)),
        },
        Err(why) if hook.on_failure == OnFailure::Ignore => {
            tracing::warn!(webhook = %hook.name, error = %why, "webhook failed; going on without it");
            Ok(None)
        }
        Err(why) => Err(Status::internal(format!("failed calling webhook {:?}: {why}", hook.name))),
    }
}

/// The operations of a rule, in its words.
fn matches_operation(list: &[String], operation: Operation) -> bool {
    list.iter().any(|word| word == "*" || word == operation.as_str())
}

/// Hooks of one kind, ready to be asked.
type Hooks = Arc<Vec<Hook>>;
