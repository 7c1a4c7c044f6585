//! Profiles for pods that exist already.
//!
//! The webhook sees a pod once, when it is created. Behind the gate
//! ColocationProfileController this loop brings profiles to pods that are
//! still waiting for a node. It leaves alone what may not change on a live pod
//! (QoS class, priority) and says so in an event; scheduler, priority class
//! and resources are not touched either.
//!
//! Whether a profile with a probability applies is decided by the pod's and
//! the profile's ids: the answer is the same in every round, and in p of 100
//! pods it is yes.

use std::collections::HashMap;
use std::time::Duration;

use api::config::selector::Labels;
use api::kind::ClusterColocationProfile;
use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::object::CONTROLLER_MANAGED;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Api;
use kube::api::{ListParams, Patch};
use kube::core::Selector as WireSelector;
use reconcile::error::chain;
use reconcile::key::{Key, uid};
use reconcile::record::Recorder;
use reconcile::watch::{Cache, Watch};
use reconcile::write::{WriteError, Writer};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::admission::profile::{Profile, reapply};
use crate::{Shared, fingerprint};

const CONTROLLER: &str = "colocationprofile";
const SOURCE: &str = "colocationprofile-controller";
const LEFT_ALONE: &str = "ProfileFieldsLeftAlone";
/// Pods asked for at once.
const PAGE: u32 = 500;

/// What flags say about this controller.
#[derive(Debug, Clone)]
pub struct Options {
    pub gates: Gates<ManagerGate>,
    /// Take every profile, not only those whose label asks for it.
    pub by_default: bool,
    pub interval: Duration,
    /// How long a pod that was handled is left in peace.
    pub again_after: Duration,
    pub updates_per_second: f64,
    pub burst: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            gates: Gates::default(),
            by_default: false,
            interval: Duration::from_secs(30),
            again_after: Duration::from_secs(300),
            updates_per_second: 10.0,
            burst: 100,
        }
    }
}

/// Does the profile apply to this pod? Always the same answer for the same two.
pub fn is_due(profile: &Profile, pod_uid: &str) -> bool {
    let uid = profile.object().metadata.uid.as_deref().unwrap_or_default();
    let roll = fingerprint::of(format!("{pod_uid}/{uid}").as_bytes()) % 100;
    profile.is_due(u8::try_from(roll).unwrap_or_default())
}

/// Updates that may be made now; they come back with time.
#[derive(Debug)]
struct Allowance {
    per_second: f64,
    burst: u32,
    left: f64,
    counted: Instant,
}

impl Allowance {
    fn new(options: &Options) -> Self {
        let burst = options.burst.max(1);
        let per_second = options.updates_per_second;
        Self { per_second, burst, left: burst.into(), counted: Instant::now() }
    }

    fn take(&mut self) -> bool {
        let back = self.counted.elapsed().as_secs_f64() * self.per_second;
        self.counted = Instant::now();
        self.left = (self.left + back).min(self.burst.into());
        let may = self.left >= 1.0;
        if may {
            self.left -= 1.0;
        }
        may
    }
}

#[derive(Debug)]
struct Loop {
    options: Options,
    profiles: Cache<ClusterColocationProfile>,
    namespaces: Cache<Labels>,
    writer: Writer,
    events: Recorder,
    allowance: Allowance,
    /// By profile version and pod.
    handled: HashMap<(String, String), Instant>,
}

/// Runs until told to stop; writes only while this process leads.
pub async fn run(shared: Shared, options: Options, shutdown: CancellationToken) {
    let (events, recording) = shared.recorder(SOURCE, shutdown.clone());
    let allowance = Allowance::new(&options);
    let (profiles, namespaces) = (Cache::optional(), Cache::optional());
    let (writer, handled) = (shared.writer(), HashMap::new());
    let mut own = Loop { options, profiles, namespaces, writer, events, allowance, handled };
    let labels = |namespace: Namespace| namespace.metadata.labels.unwrap_or_default();
    let watch = Watch::all(Api::all(shared.client.clone()), shutdown.clone());
    let profiles = own.profiles.clone().follow(watch, |profile| profile);
    let watch = Watch::all(Api::all(shared.client.clone()), shutdown.clone());
    let namespaces = own.namespaces.clone().follow(watch, labels);
    let watching = async { tokio::join!(profiles, namespaces) };
    let working = async {
        let mut leadership = shared.leadership.clone();
        own.profiles.until_listed().await;
        own.namespaces.until_listed().await;
        loop {
            leadership.until_held().await;
            own.round(&shared).await;
            sleep(own.options.interval).await;
        }
    };
    let working = async {
        tokio::select! {
            _ = watching => {}
            () = working => {}
            () = shutdown.cancelled() => {}
        }
    };
    tokio::join!(working, recording);
}

impl Loop {
    async fn round(&mut self, shared: &Shared) {
        let again_after = self.options.again_after;
        self.handled.retain(|_, since| since.elapsed() < again_after);
        for profile in self.profiles.all() {
            let is_managed = CONTROLLER_MANAGED.get(&profile.metadata) == Some(true);
            if !is_managed && !self.options.by_default {
                continue;
            }
            // Without a selector this loop means no pod, unlike the webhook.
            let Some(selector) = profile.spec.selector.clone() else { continue };
            let profile = Profile::new((*profile).clone());
            let result = self.apply(&profile, selector).await;
            let word = if result.is_ok() { "success" } else { "error" };
            shared.instruments.reconcile_total.with_label_values(&[CONTROLLER, word]).inc();
            if let Err(error) = result {
                let error = chain(&error);
                warn!(profile = profile.name(), error, "cannot bring a profile to waiting pods");
            }
        }
    }

    async fn apply(
        &mut self,
        profile: &Profile,
        selector: LabelSelector,
    ) -> Result<(), WriteError> {
        let Ok(selector) = WireSelector::try_from(selector) else { return Ok(()) };
        let api: Api<Pod> = Api::all(self.writer.client.clone());
        let mut params = ListParams::default()
            .labels(&selector.to_string())
            .fields("spec.nodeName=")
            .limit(PAGE);
        loop {
            let pods = Key::new("", "");
            let page = self.writer.ask("list", "Pod", &pods, api.list(&params)).await?;
            for pod in page.items {
                self.bring(profile, &pod).await?;
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    /// Brings a profile to one pod.
    async fn bring(&mut self, profile: &Profile, pod: &Pod) -> Result<(), WriteError> {
        let (name, uid) = (Key::of(pod), uid(pod).to_owned());
        let is_waiting = pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Pending");
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let around = self.namespaces.get(&Key::new("", &name.namespace));
        if !is_waiting || around.is_none() || !profile.matches_pod(&labels, around.as_deref()) {
            return Ok(());
        }
        let version = profile.object().metadata.resource_version.clone().unwrap_or_default();
        let key = (version, uid.clone());
        if !is_due(profile, &uid) || self.handled.contains_key(&key) {
            return Ok(());
        }
        let before = serde_json::to_value(pod).unwrap_or_default();
        let keeps_order =
            !self.options.gates.is_on(ManagerGate::ColocationProfileSkipValidatingPriority);
        let (after, left_alone) = match reapply(profile, &before, keeps_order) {
            Ok(applied) => applied,
            Err(error) => {
                warn!(pod = %name, %error, "a profile does not fit a waiting pod");
                return Ok(());
            }
        };
        if before == after {
            self.handled.insert(key, Instant::now());
            return Ok(());
        }
        if !self.allowance.take() || !self.writer.leads() {
            return Ok(());
        }
        self.write(&name, &before, &after).await?;
        info!(profile = profile.name(), pod = %name, "brought a profile to a waiting pod");
        self.handled.insert(key, Instant::now());
        if !left_alone.is_empty() {
            let note = format!(
                "profile {} also sets {}, which cannot change on a live pod",
                profile.name(),
                left_alone.join(", ")
            );
            self.events.normal(pod, LEFT_ALONE, note);
        }
        Ok(())
    }

    /// Writes what differs, if the pod is still the one we saw. One that has moved on waits its
    /// turn.
    async fn write(&self, pod: &Key, before: &Value, after: &Value) -> Result<(), WriteError> {
        let mut operations = vec![json!({
            "op": "test", "path": "/metadata/resourceVersion",
            "value": before["metadata"]["resourceVersion"],
        })];
        let edits = json!(json_patch::diff(before, after));
        operations.extend(edits.as_array().cloned().unwrap_or_default());
        let Ok(patch) = serde_json::from_value::<json_patch::Patch>(json!(operations)) else {
            return Ok(());
        };
        let (api, params) = (self.writer.api::<Pod>(pod), self.writer.patch_params());
        let patch = Patch::Json::<()>(patch);
        match self.writer.send("patch", "Pod", pod, api.patch(&pod.name, &params, &patch)).await {
            Err(error) if !error.status().is_some_and(|it| [404, 409, 422].contains(&it.code)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_fair_and_steady() {
        let profile: ClusterColocationProfile = serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u"}, "spec": {"probability": "30%"},
        }))
        .unwrap();
        let profile = Profile::new(profile);
        let due = (0..2000).filter(|pod| is_due(&profile, &format!("pod-{pod}"))).count();
        assert!((500..700).contains(&due), "{due} of 2000 at 30%");
        assert_eq!(is_due(&profile, "pod-7"), is_due(&profile, "pod-7"));
    }

    #[tokio::test(start_paused = true)]
    async fn updates_come_back_with_time() {
        let options = Options { updates_per_second: 2.0, burst: 3, ..Options::default() };
        let mut allowance = Allowance::new(&options);
        assert_eq!((0..10).filter(|_| allowance.take()).count(), 3);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((0..10).filter(|_| allowance.take()).count(), 2);
    }
}
