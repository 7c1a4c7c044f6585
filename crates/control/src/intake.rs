//! Which configuration is in force?
//!
//! One ConfigMap configures all controllers. It is watched; what arrives is judged by
//! [`api::config`] and published as a new value, whole, through a channel:
//!
//! | arrived | in force | said |
//! |---|---|---|
//! | nothing yet | nothing: controllers wait | |
//! | no such ConfigMap | built-in defaults | `tidepool_config_present` 0, a warning |
//! | a good key | its text | `ConfigLoaded` if it was bad before |
//! | a bad key | its last good text | findings, a Warning event on the ConfigMap, metrics |
//! | deletion | built-in defaults, as if it had never been | `tidepool_config_present` 0, a warning |
//! | the same data again | what was | |
//!
//! The other keys of a ConfigMap with a bad key still advance.

mod state;

use std::sync::Arc;

use api::config::{Config, Key, Options};
use api::finding::Finding;
use api::protocol::event;
use api::protocol::name::{NAMESPACE, config_map};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use reconcile::clock::Clock;
use reconcile::elect::Leadership;
use reconcile::record::{Form, Recorder, Recording};
use reconcile::watch::One;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::instruments::Instruments;
pub use state::{Change, Input, State};

/// Which ConfigMap is read, and how strictly.
#[derive(Debug, Clone)]
pub struct Settings {
    pub namespace: String,
    pub name: String,
    pub options: Options,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: NAMESPACE.to_owned(),
            name: config_map::SLO.to_owned(),
            options: Options::default(),
        }
    }
}

/// The configuration as it is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct InForce {
    pub config: Config,
    /// The ConfigMap exists.
    pub is_present: bool,
    /// Rises with every change.
    pub generation: u64,
    pub findings: Vec<Finding>,
}

impl InForce {
    /// Is what the cluster says about co-location unknown or unusable? Specs that were derived
    /// from it earlier then stay.
    pub fn is_colocation_doubtful(&self) -> bool {
        use api::config::Status::{Fallback, Kept, Unavailable};
        !self.is_present
            || matches!(self.config.status(Key::Colocation), Kept | Fallback | Unavailable)
    }
}

/// The latest configuration, for readers; `None` until the first look at the ConfigMap.
#[derive(Debug, Clone)]
pub struct Configs(watch::Receiver<Option<Arc<InForce>>>);

impl Configs {
    pub fn latest(&self) -> Option<Arc<InForce>> {
        self.0.borrow().clone()
    }

    /// Waits for the next one; never returns once the intake has ended.
    pub async fn changed(&mut self) -> Arc<InForce> {
        loop {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(latest) = self.0.borrow_and_update().clone() {
                return latest;
            }
        }
    }
}

/// The writing end of [`Configs`].
#[derive(Debug)]
pub struct Intake(watch::Sender<Option<Arc<InForce>>>);

/// Both ends, with nothing in force yet.
pub fn channel() -> (Intake, Configs) {
    let (sender, receiver) = watch::channel(None);
    (Intake(sender), Configs(receiver))
}

/// Follows the ConfigMap until told to stop. Runs on every replica; only the leader writes events.
pub async fn run(
    intake: Intake,
    settings: Settings,
    client: Client,
    leadership: Leadership,
    instruments: Instruments,
    shutdown: CancellationToken,
) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &settings.namespace);
    let form = Form::Events { instance: None };
    let (events, recording) = Recording::new(client, leadership, Clock::system(), form)
        .start(event::source::NODE_SLO, shutdown.clone());
    let following = async {
        let mut state = State::new(&settings);
        let mut map = One::new(api, &settings.name, shutdown);
        while let Some(answer) = map.next().await {
            // The last configuration stays in force while nobody can tell.
            let Ok(found) = answer else { continue };
            let data = found.as_ref().map(|found| found.data.clone().unwrap_or_default());
            let input = data.map_or(Input::Absent, Input::Data);
            let Some(change) = state.next(input) else { continue };
            show(&change, &instruments);
            intake.0.send_replace(Some(change.in_force.clone()));
            if let Some(found) = found {
                tell(&events, &found, &change);
            }
        }
    };
    tokio::join!(following, recording);
}

/// Puts a change into metrics and the log.
fn show(change: &Change, instruments: &Instruments) {
    instruments.config_present.set(change.in_force.is_present.into());
    for key in Key::ALL {
        let stale = change.bad.contains(&key);
        instruments.config_key_stale.with_label_values(&[key.name()]).set(stale.into());
        if stale {
            instruments.config_parse_failures.with_label_values(&[key.name()]).inc();
        }
    }
    let generation = change.in_force.generation;
    if !change.in_force.is_present && generation <= 1 {
        info!(generation, "no configuration: the ConfigMap does not exist; defaults are in force");
    } else if !change.in_force.is_present {
        warn!(generation, "the ConfigMap is gone; defaults are in force");
    } else if change.bad.is_empty() {
        info!(generation, "configuration loaded");
    }
    for key in &change.bad {
        let findings: Vec<String> = change.of(*key).map(ToString::to_string).collect();
        warn!(key = key.name(), findings = findings.join("; "), "kept the last good configuration");
    }
}

/// Puts a change onto the ConfigMap as events, for whoever edits it.
fn tell(events: &Recorder, about: &ConfigMap, change: &Change) {
    for key in &change.bad {
        let (component, reason) = origin(*key);
        let findings: Vec<String> = change.of(*key).map(ToString::to_string).collect();
        let note = format!("{} keeps its last good value. {}", key.name(), findings.join("\n"));
        events.of(component).warning(about, reason, note);
    }
    for key in &change.recovered {
        let (component, _) = origin(*key);
        let note = format!("{} is in force again.", key.name());
        events.of(component).normal(about, event::CONFIG_LOADED, note);
    }
}

/// Who reads a key, and what it calls a bad one.
fn origin(key: Key) -> (&'static str, &'static str) {
    use event::source::{NODE_RESOURCE, NODE_SLO};
    match key {
        Key::Colocation => (NODE_RESOURCE, event::COLOCATION_CONFIG),
        Key::Normalization => (NODE_RESOURCE, event::NORMALIZATION_CONFIG),
        Key::Amplification => (NODE_RESOURCE, event::AMPLIFICATION_CONFIG),
        Key::Threshold
        | Key::Qos
        | Key::Burst
        | Key::System
        | Key::HostApplication
        | Key::Kernel
        | Key::Reaction
        | Key::Switch => (NODE_SLO, event::SLO_CONFIG),
    }
}
