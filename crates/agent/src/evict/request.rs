//! How is the API server asked, and what does its answer mean?
//!
//! | answer to an eviction | means |
//! |---|---|
//! | 2xx | the pod leaves, within its own grace |
//! | 404 | it is gone |
//! | 409 | another pod has its name; ours is gone |
//! | 429 | a disruption budget refuses; not before the time it names |
//! | 403, 422, 500, ... | refused; the next one is asked |
//! | none, or not in time | unknown: it may leave all the same |
//!
//! A budget that refuses is an answer, and the next pod waits for it: the client that is used must not
//! repeat requests that are answered 429 (`kube::Config::default_retry`).

use std::time::Duration;

use api::metadata::Wire;
use api::metadata::eviction::EvictionNotice;
use api::protocol::event::{self, action, source};
use api::protocol::eviction::{NOTICE, NOTICE_CONDITION};
use http_body_util::BodyExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::core::Status;
use kube::runtime::events::EventType;
use kube::{Api, Client, Resource};
use qos::evict::book::Answer;
use reconcile::record::{Form, Note, publish};
use serde_json::json;
use tracing::{info, warn};

use crate::object::chain;

/// A pod by the names that an answer must be about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Victim {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The API server's.
    pub(super) uid: String,
}

/// What an event tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) type_: EventType,
    pub(super) reason: &'static str,
    pub(super) note: &'a str,
}

/// The way to the API server.
#[derive(Clone)]
pub(super) struct Office {
    pub(super) client: Client,
    pub(super) node: String,
    /// How long an answer is waited for.
    pub(super) patience: Duration,
}

impl Office {
    fn pods(&self, victim: &Victim) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &victim.namespace)
    }

    /// Tells the pod, in an annotation and in a condition.
    pub(super) async fn notify(&self, victim: &Victim, notice: &EvictionNotice) {
        let condition =
            Condition { status: "True", reason: &notice.feature, message: &notice.reason };
        let text = notice.print();
        self.mark(victim, Some(&text), &condition).await;
        let note = format!("{}: {}", notice.feature, notice.reason);
        self.tell(
            victim,
            Told { type_: EventType::Warning, reason: event::EVICTION_NOTICE, note: &note },
        )
        .await;
    }

    /// Takes the notice back.
    pub(super) async fn withdraw(&self, victim: &Victim) {
        let message = "what had to be freed is free, or this pod may not be evicted now";
        let condition = Condition { status: "False", reason: "Withdrawn", message };
        self.mark(victim, None, &condition).await;
        self.tell(
            victim,
            Told { type_: EventType::Normal, reason: event::EVICTION_WITHDRAWN, note: message },
        )
        .await;
    }

    /// A pod that has not heard of its eviction is evicted all the same: the need is real.
    async fn mark(&self, victim: &Victim, notice: Option<&str>, condition: &Condition<'_>) {
        let pods = self.pods(victim);
        let params = PatchParams::default();
        let annotations = json!({ "metadata": {
            "uid": victim.uid, "annotations": { NOTICE.name: notice } } });
        let status = json!({ "metadata": { "uid": victim.uid }, "status": { "conditions": [{
            "type": NOTICE_CONDITION,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": Timestamp::now().round(jiff::Unit::Second).ok(),
        }] } });
        let marking = async {
            pods.patch(&victim.name, &params, &Patch::Merge(&annotations)).await?;
            pods.patch_status(&victim.name, &params, &Patch::Strategic(&status)).await
        };
        match tokio::time::timeout(self.patience, marking).await {
            Ok(Ok(_)) => {}
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {}
            Ok(Err(error)) => {
                warn!(
                    pod = victim.name,
                    error = chain(&error),
                    "cannot mark a pod with its notice"
                );
            }
            Err(_) => warn!(pod = victim.name, "no answer about a pod's notice"),
        }
    }

    /// Asks the pod to leave, with the grace it asked for.
    pub(super) async fn evict(&self, victim: &Victim) -> (Answer, String) {
        let request = match eviction(victim) {
            Ok(request) => request,
            Err(error) => return (Answer::Refuses { wait: Duration::ZERO }, error.to_string()),
        };
        let asking = async {
            let response = self.client.send(request).await?;
            let code = response.status().as_u16();
            let body = response.into_body().collect().await?.to_bytes();
            Ok::<_, kube::Error>((code, body))
        };
        match tokio::time::timeout(self.patience, asking).await {
            Ok(Ok((code, body))) => {
                let status: Status = serde_json::from_slice(&body).unwrap_or_default();
                answer(code, &status)
            }
            // Whether the request left before the connection broke is not known.
            Ok(Err(error)) => (Answer::Unknown, chain(&error)),
            Err(_) => (Answer::Unknown, format!("no answer in {} s", self.patience.as_secs())),
        }
    }

    /// Writes an event about the pod; it explains, and holds nothing up.
    pub(super) async fn tell(&self, victim: &Victim, told: Told<'_>) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(victim.namespace.clone()),
            name: Some(victim.name.clone()),
            uid: Some(victim.uid.clone()),
            ..Default::default()
        };
        let note = Note {
            about,
            component: source::QOS_MANAGER.into(),
            is_warning: told.type_ == EventType::Warning,
            reason: told.reason.into(),
            action: Some(action::EVICTING.into()),
            text: told.note.to_owned(),
            repeats: false,
        };
        let form = Form::Events { instance: Some(self.node.clone()) };
        match tokio::time::timeout(self.patience, publish(&self.client, &form, &note)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                info!(pod = victim.name, error = chain(&error), "cannot write an event");
            }
            Err(_) => info!(pod = victim.name, "no answer about an event"),
        }
    }
}

/// The question, made by hand: `kube`'s own leaves out the options, and with them the uid.
fn eviction(victim: &Victim) -> Result<http::Request<Body>, http::Error> {
    let eviction = Eviction {
        metadata: ObjectMeta { name: Some(victim.name.clone()), ..ObjectMeta::default() },
        delete_options: Some(DeleteOptions {
            preconditions: Some(Preconditions {
                uid: Some(victim.uid.clone()),
                resource_version: None,
            }),
            ..DeleteOptions::default()
        }),
    };
    let path = Pod::url_path(&(), Some(&victim.namespace));
    let body = serde_json::to_vec(&eviction).unwrap_or_default();
    http::Request::post(format!("{path}/{}/eviction", victim.name))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
}

struct Condition<'a> {
    status: &'static str,
    reason: &'a str,
    message: &'a str,
}

/// What an answer means, and its words for people.
fn answer(code: u16, status: &Status) -> (Answer, String) {
    let details = status.details.as_ref();
    let causes = details.into_iter().flat_map(|details| &details.causes);
    let words: Vec<&str> = [status.message.as_str()]
        .into_iter()
        .chain(causes.map(|cause| cause.message.as_str()))
        .filter(|text| !text.is_empty())
        .collect();
    let words = format!("{code}: {}", words.join("; "));
    let answer = match code {
        200..=299 => Answer::Leaves,
        // The only precondition that is sent is the uid, so a conflict is about that.
        404 | 409 | 410 => Answer::Gone,
        _ => {
            let seconds = details.map_or(0, |details| details.retry_after_seconds);
            Answer::Refuses { wait: Duration::from_secs(seconds.into()) }
        }
    };
    (answer, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(message: &str, retry: u32) -> Status {
        serde_json::from_value(json!({ "message": message,
            "details": { "retryAfterSeconds": retry, "causes": [{ "message": "the budget web" }] } }))
        .unwrap()
    }

    #[test]
    fn every_answer_has_a_meaning() {
        let refuses = |seconds| Answer::Refuses { wait: Duration::from_secs(seconds) };
        let cases = [
            ("accepted", 201, "", Answer::Leaves),
            ("gone", 404, "pods \"a\" not found", Answer::Gone),
            (
                "replaced",
                409,
                "the UID in the precondition (a) does not match the UID in record (b)",
                Answer::Gone,
            ),
            ("a budget", 429, "Cannot evict pod", refuses(7)),
            ("forbidden", 403, "no", refuses(7)),
            ("two budgets", 500, "more than one PodDisruptionBudget", refuses(7)),
        ];
        for (name, code, message, want) in cases {
            assert_eq!(answer(code, &status(message, 7)).0, want, "{name}");
        }
        assert_eq!(answer(429, &status("Cannot evict", 0)).1, "429: Cannot evict; the budget web");
    }
}
