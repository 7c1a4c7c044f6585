//! What does this replica know of the cluster, for answering at once?
//!
//! Watches keep mirrors of what admission looks at. What has to be prepared,
//! such as compiled selectors, is prepared once a change and not once a request.

use std::sync::Arc;

use api::config::selector::Labels;
use api::kind::{ClusterColocationProfile, ElasticQuota, ElasticQuotaProfile};
use api::protocol::quota::SHARED_WEIGHT;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use parking_lot::Mutex;
use prometheus::GaugeVec;
use tokio_util::sync::CancellationToken;
use units::{Rounding, Scale};

use crate::admission::profile::{PriorityClasses, PriorityFacts, Profile};
use crate::mirror::{Mirror, follow};

/// Mirrors of what admission looks at.
#[derive(Debug)]
pub(super) struct Knowledge {
    profiles: Arc<Mirror<ClusterColocationProfile>>,
    namespaces: Arc<Mirror<Labels>>,
    priority_classes: Arc<Mirror<PriorityFacts>>,
    quotas: Arc<Mirror<ElasticQuota>>,
    quota_profiles: Arc<Mirror<ElasticQuotaProfile>>,
    prepared: Mutex<Option<(u64, Arc<Prepared>)>>,
    shared_weight: GaugeVec,
}

/// What requests are judged by; the same value until something changes.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) profiles: Vec<Profile>,
    pub(super) priority_classes: PriorityClasses,
    pub(super) quotas: Vec<ElasticQuota>,
    pub(super) quota_profiles: Vec<ElasticQuotaProfile>,
}

impl Knowledge {
    pub(super) fn new(shared_weight: GaugeVec) -> Self {
        Self {
            profiles: Arc::default(),
            namespaces: Arc::default(),
            priority_classes: Arc::default(),
            quotas: Arc::default(),
            quota_profiles: Arc::default(),
            prepared: Mutex::default(),
            shared_weight,
        }
    }

    /// Follows the cluster until told to stop.
    pub(super) async fn follow(&self, client: Client, shutdown: CancellationToken) {
        let all = Config::default;
        let stop = || shutdown.clone();
        tokio::join!(
            follow(Api::all(client.clone()), all(), self.profiles.clone(), own, stop()),
            follow(Api::all(client.clone()), all(), self.namespaces.clone(), labels, stop()),
            follow(Api::all(client.clone()), all(), self.priority_classes.clone(), facts, stop()),
            follow(Api::all(client.clone()), all(), self.quotas.clone(), own, stop()),
            follow(Api::all(client), all(), self.quota_profiles.clone(), own, stop()),
        );
    }

    /// Has everything that exists been told once?
    pub(super) fn is_ready(&self) -> bool {
        self.profiles.is_ready()
            && self.namespaces.is_ready()
            && self.priority_classes.is_ready()
            && self.quotas.is_ready()
            && self.quota_profiles.is_ready()
    }

    pub(super) async fn until_ready(&self) {
        self.profiles.until_ready().await;
        self.namespaces.until_ready().await;
        self.priority_classes.until_ready().await;
        self.quotas.until_ready().await;
        self.quota_profiles.until_ready().await;
    }

    /// Labels of a namespace; `None` when it is not known.
    pub(super) fn namespace(&self, name: &str) -> Option<Arc<Labels>> {
        self.namespaces.get("", name)
    }

    pub(super) fn prepared(&self) -> Arc<Prepared> {
        let generation = [
            self.profiles.generation(),
            self.priority_classes.generation(),
            self.quotas.generation(),
            self.quota_profiles.generation(),
        ];
        let generation = generation.into_iter().fold(0, u64::wrapping_add);
        let mut prepared = self.prepared.lock();
        match &*prepared {
            Some((known, value)) if *known == generation => value.clone(),
            _ => {
                let value = Arc::new(self.prepare());
                *prepared = Some((generation, value.clone()));
                value
            }
        }
    }

    fn prepare(&self) -> Prepared {
        let profiles = self.profiles.all().into_iter();
        let classes = self.priority_classes.all().into_iter();
        let quotas: Vec<ElasticQuota> =
            self.quotas.all().into_iter().map(|(_, quota)| (*quota).clone()).collect();
        self.shared_weight.reset();
        for quota in &quotas {
            self.show_weight(quota);
        }
        Prepared {
            profiles: profiles.map(|(_, profile)| Profile::new((*profile).clone())).collect(),
            priority_classes: classes.map(|((_, name), facts)| (name, (*facts).clone())).collect(),
            quotas,
            quota_profiles: self
                .quota_profiles
                .all()
                .into_iter()
                .map(|(_, profile)| (*profile).clone())
                .collect(),
        }
    }

    fn show_weight(&self, quota: &ElasticQuota) {
        let name = quota.metadata.name.as_deref().unwrap_or_default();
        for (resource, amount) in SHARED_WEIGHT.get(&quota.metadata).unwrap_or_default() {
            let milli = amount.to_int(Scale::Milli, Rounding::Down);
            let gauge = self.shared_weight.with_label_values(&[name, resource.as_str()]);
            gauge.set(milli as f64 / 1000.0);
        }
    }
}

fn own<K>(object: K) -> K {
    object
}

fn labels(namespace: Namespace) -> Labels {
    namespace.metadata.labels.unwrap_or_default()
}

fn facts(class: PriorityClass) -> PriorityFacts {
    PriorityFacts { value: class.value, preemption_policy: class.preemption_policy }
}
