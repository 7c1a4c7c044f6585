//! A small cluster to judge objects by.

use std::collections::BTreeMap;

use api::config::selector::Labels;
use api::kind::{ClusterColocationProfile, ElasticQuota, ElasticQuotaProfile};
use api::protocol::gate::{Gates, ManagerGate};
use control::admission::pod::{self, Surroundings};
use control::admission::profile::{Dice, PriorityClasses, PriorityFacts, Profile};
use control::admission::validate::{self, Demands};
use control::admission::{Admitted, Denied, Verdict};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) profiles: Vec<Profile>,
    pub(crate) namespace: Option<Labels>,
    pub(crate) priority_classes: PriorityClasses,
    pub(crate) quotas: Vec<ElasticQuota>,
    pub(crate) quota_profiles: Vec<ElasticQuotaProfile>,
    pub(crate) gates: Gates<ManagerGate>,
    pub(crate) demands: Demands,
    pub(crate) is_strict: bool,
    pub(crate) rolls: BTreeMap<String, u8>,
}

pub(crate) fn from_yaml<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).expect("the text has its kind's shape")
}

/// The four priority classes an install brings, and these profiles.
pub(crate) fn world(profiles: &[&str]) -> World {
    let classes =
        [("koord-prod", 9000), ("koord-mid", 7000), ("koord-batch", 5000), ("koord-free", 3000)];
    let classes = classes.map(|(name, value)| {
        let policy = Some("PreemptLowerPriority".to_owned());
        (name.to_owned(), PriorityFacts { value, preemption_policy: policy })
    });
    let mut profiles: Vec<Profile> = profiles
        .iter()
        .map(|text| Profile::new(from_yaml::<ClusterColocationProfile>(text)))
        .collect();
    profiles.sort_by(|a, b| a.name().cmp(b.name()));
    World {
        profiles,
        namespace: Some(Labels::from([("team".to_owned(), "data".to_owned())])),
        priority_classes: classes.into(),
        quotas: Vec::new(),
        quota_profiles: Vec::new(),
        gates: Gates::default(),
        demands: Demands::default(),
        is_strict: false,
        rolls: BTreeMap::new(),
    }
}

impl World {
    pub(crate) fn with(mut self, gate: ManagerGate) -> Self {
        self.gates.set(gate, true);
        self
    }

    pub(crate) fn mutate(&self, pod: &Value) -> Verdict {
        let roll = |name: &str| self.rolls.get(name).copied().unwrap_or(0);
        let around = Surroundings {
            profiles: &self.profiles,
            namespace: self.namespace.as_ref(),
            priority_classes: &self.priority_classes,
            quotas: &self.quotas,
            quota_profiles: &self.quota_profiles,
            gates: &self.gates,
            dice: Dice(&roll),
        };
        pod::mutate(pod, "default", &around)
    }

    /// The pod as it is after its mutation.
    pub(crate) fn mutated(&self, pod: &Value) -> Value {
        let Admitted { patch, .. } = self.mutate(pod).expect("the pod is mutated");
        let mut next = pod.clone();
        json_patch::patch(&mut next, &patch).expect("the patch applies to what it was made from");
        next
    }

    pub(crate) fn validate(&self, old: Option<&Value>, new: &Value) -> Verdict {
        let around = validate::Surroundings {
            quotas: &self.quotas,
            gates: &self.gates,
            demands: &self.demands,
            is_strict: self.is_strict,
        };
        validate::validate(old, new, "default", &around)
    }

    pub(crate) fn refusal(&self, old: Option<&Value>, new: &Value) -> String {
        match self.validate(old, new) {
            Err(Denied { code, message }) => format!("{code} {message}"),
            Ok(_) => "admitted".to_owned(),
        }
    }
}

/// A pod with one container.
pub(crate) fn pod(labels: Value, priority: Option<i32>, requests: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "labels": labels},
        "spec": {"priority": priority, "containers": [{
            "name": "main", "image": "nginx", "resources": {"requests": requests, "limits": requests},
        }]},
    })
}
