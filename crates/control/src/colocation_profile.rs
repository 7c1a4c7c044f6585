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
use std::sync::Arc;
use std::time::Duration;

use api::config::selector::Labels;
use api::kind::ClusterColocationProfile;
use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::object::CONTROLLER_MANAGED;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::Selector as WireSelector;
use kube::runtime::events::EventType;
use kube::runtime::watcher::Config;
use kube::{Api, Resource};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::admission::profile::{Profile, reapply};
use crate::intake::publish;
use crate::mirror::{Mirror, follow};
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
    profiles: Arc<Mirror<ClusterColocationProfile>>,
    namespaces: Arc<Mirror<Labels>>,
    allowance: Allowance,
    /// By profile version and pod.
    handled: HashMap<(String, String), Instant>,
}

/// Runs until told to stop; writes only while this process leads.
pub async fn run(shared: Shared, options: Options, shutdown: CancellationToken) {
    let (profiles, namespaces) = (Arc::default(), Arc::default());
    let allowance = Allowance::new(&options);
    let mut own = Loop { options, profiles, namespaces, allowance, handled: HashMap::new() };
    let client = shared.client.clone();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let labels = |namespace: Namespace| namespace.metadata.labels.unwrap_or_default();
    let watching = {
        let (profiles, mirror) = (own.profiles.clone(), own.namespaces.clone());
        let stop = shutdown.clone();
        async move {
            tokio::join!(
                follow(
                    Api::all(client),
                    Config::default(),
                    profiles,
                    |profile| profile,
                    stop.clone()
                ),
                follow(namespaces, Config::default(), mirror, labels, stop),
            )
        }
    };
    let working = async {
        let mut leadership = shared.leadership.clone();
        own.profiles.until_ready().await;
        own.namespaces.until_ready().await;
        loop {
            leadership.until_held().await;
            own.round(&shared).await;
            sleep(own.options.interval).await;
        }
    };
    tokio::select! {
        _ = watching => {}
        () = working => {}
        () = shutdown.cancelled() => {}
    }
}

impl Loop {
    async fn round(&mut self, shared: &Shared) {
        let again_after = self.options.again_after;
        self.handled.retain(|_, since| since.elapsed() < again_after);
        for (_, profile) in self.profiles.all() {
            let is_managed = CONTROLLER_MANAGED.get(&profile.metadata) == Some(true);
            if !is_managed && !self.options.by_default {
                continue;
            }
            // Without a selector this loop means no pod, unlike the webhook.
            let Some(selector) = profile.spec.selector.clone() else { continue };
            let profile = Profile::new((*profile).clone());
            let result = self.apply(shared, &profile, selector).await;
            let word = if result.is_ok() { "success" } else { "error" };
            shared.instruments.reconcile_total.with_label_values(&[CONTROLLER, word]).inc();
            if let Err(error) = result {
                warn!(profile = profile.name(), %error, "cannot bring a profile to waiting pods");
            }
        }
    }

    async fn apply(
        &mut self,
        shared: &Shared,
        profile: &Profile,
        selector: LabelSelector,
    ) -> Result<(), kube::Error> {
        let Ok(selector) = WireSelector::try_from(selector) else { return Ok(()) };
        let api: Api<Pod> = Api::all(shared.client.clone());
        let mut params = ListParams::default()
            .labels(&selector.to_string())
            .fields("spec.nodeName=")
            .limit(PAGE);
        loop {
            let page = api.list(&params).await?;
            for pod in page.items {
                self.handle(shared, profile, &pod).await?;
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    async fn handle(
        &mut self,
        shared: &Shared,
        profile: &Profile,
        pod: &Pod,
    ) -> Result<(), kube::Error> {
        let meta = &pod.metadata;
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        let (namespace, name, uid) = (part(&meta.namespace), part(&meta.name), part(&meta.uid));
        let is_waiting = pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Pending");
        let labels = meta.labels.clone().unwrap_or_default();
        let around = self.namespaces.get("", &namespace);
        if !is_waiting || around.is_none() || !profile.matches_pod(&labels, around.as_deref()) {
            return Ok(());
        }
        let key = (part(&profile.object().metadata.resource_version), uid.clone());
        if !is_due(profile, &uid) || self.handled.contains_key(&key) {
            return Ok(());
        }
        let before = serde_json::to_value(pod).unwrap_or_default();
        let keeps_order =
            !self.options.gates.is_on(ManagerGate::ColocationProfileSkipValidatingPriority);
        let (after, left_alone) = match reapply(profile, &before, keeps_order) {
            Ok(applied) => applied,
            Err(error) => {
                warn!(pod = name, %error, "a profile does not fit a waiting pod");
                return Ok(());
            }
        };
        if before == after {
            self.handled.insert(key, Instant::now());
            return Ok(());
        }
        if !self.allowance.take() || !shared.leadership.is_held() {
            return Ok(());
        }
        write(shared, &namespace, &name, &before, &after).await?;
        info!(profile = profile.name(), pod = name, "brought a profile to a waiting pod");
        self.handled.insert(key, Instant::now());
        if !left_alone.is_empty() {
            let note = format!(
                "profile {} also sets {}, which cannot change on a live pod",
                profile.name(),
                left_alone.join(", ")
            );
            let about = pod.object_ref(&());
            publish(&shared.client, &about, SOURCE, EventType::Normal, LEFT_ALONE, note).await;
        }
        Ok(())
    }
}

/// Writes what differs, if the pod is still the one we saw. One that has moved on waits its turn.
async fn write(
    shared: &Shared,
    namespace: &str,
    name: &str,
    before: &Value,
    after: &Value,
) -> Result<(), kube::Error> {
    let mut operations = vec![json!({
        "op": "test", "path": "/metadata/resourceVersion",
        "value": before["metadata"]["resourceVersion"],
    })];
    let edits = json!(json_patch::diff(before, after));
    operations.extend(edits.as_array().cloned().unwrap_or_default());
    let Ok(patch) = serde_json::from_value::<json_patch::Patch>(json!(operations)) else {
        return Ok(());
    };
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), namespace);
    match api.patch(name, &PatchParams::default(), &Patch::Json::<()>(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if [404, 409, 422].contains(&status.code) => Ok(()),
        Err(error) => Err(error),
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
