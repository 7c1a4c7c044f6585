//! When are events forgotten?
//!
//! An hour after they were last written, as on any Kubernetes server; otherwise a machine that
//! runs for months would keep every word its controllers ever said.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::server::ApiServer;
use crate::store::{Collection, Removal, Stored, WriteError};

const LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// The times an event carries.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    metadata: Created,
    last_timestamp: Option<Timestamp>,
    event_time: Option<Timestamp>,
    series: Option<Series>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    creation_timestamp: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    last_observed_time: Option<Timestamp>,
}

impl Times {
    fn last(&self) -> Option<Timestamp> {
        let observed = self.series.as_ref().and_then(|series| series.last_observed_time);
        [self.metadata.creation_timestamp, self.last_timestamp, self.event_time, observed]
            .into_iter()
            .flatten()
            .max()
    }
}

fn is_stale(stored: &Stored, now: Timestamp) -> bool {
    let Ok(times) = serde_json::from_slice::<Times>(&stored.json) else { return false };
    times.last().is_some_and(|last| now.duration_since(last) > LIFETIME)
}

impl ApiServer {
    /// Removes events that have had their time; says how many.
    pub async fn expire_events(&self) -> usize {
        let now = self.options().clock.now();
        let events = self.store().list(&Collection::new("", "events"), None);
        let stale = events.iter().filter(|stored| is_stale(stored, now));
        let removals: Vec<Removal> = stale
            .filter_map(|stored| {
                let last = serde_json::from_slice(&stored.json).ok()?;
                Some(Removal { key: stored.key.clone(), last, expected: stored.revision })
            })
            .collect();
        let outcomes = match self.store().remove_all(removals).await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                tracing::warn!(%error, "cannot forget events");
                return 0;
            }
        };
        // An event that somebody wrote to meanwhile is not stale after all.
        let removed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let failed = outcomes.into_iter().find_map(|outcome| match outcome {
            Ok(_) | Err(WriteError::Conflict { .. } | WriteError::Missing) => None,
            Err(error) => Some(error),
        });
        if let Some(error) = failed {
            tracing::warn!(%error, "cannot forget an event");
        }
        removed
    }
}
