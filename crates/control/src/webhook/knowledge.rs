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
use kube::{Api, Client};
use parking_lot::Mutex;
use prometheus::GaugeVec;
use reconcile::key::Key;
use reconcile::watch::{Cache, Watch};
use reconcile::write::Kind;
use tokio_util::sync::CancellationToken;
use units::{Rounding, Scale};

use crate::admission::profile::{PriorityClasses, PriorityFacts, Profile};

/// Mirrors of what admission looks at.
#[derive(Debug)]
pub(super) struct Knowledge {
    profiles: Cache<ClusterColocationProfile>,
    namespaces: Cache<Labels>,
    priority_classes: Cache<PriorityFacts>,
    quotas: Cache<ElasticQuota>,
    quota_profiles: Cache<ElasticQuotaProfile>,
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
            profiles: Cache::optional(),
            namespaces: Cache::optional(),
            priority_classes: Cache::optional(),
            quotas: Cache::optional(),
            quota_profiles: Cache::optional(),
            prepared: Mutex::default(),
            shared_weight,
        }
    }

    /// Follows the cluster until told to stop.
    pub(super) async fn follow(&self, client: Client, shutdown: CancellationToken) {
        let stop = || shutdown.clone();
        tokio::join!(
            follow(&self.profiles, Api::all(client.clone()), own, stop()),
            follow(&self.namespaces, Api::all(client.clone()), labels, stop()),
            follow(&self.priority_classes, Api::all(client.clone()), facts, stop()),
            follow(&self.quotas, Api::all(client.clone()), own, stop()),
            follow(&self.quota_profiles, Api::all(client), own, stop()),
        );
    }

    /// Has everything that exists been told once?
    pub(super) fn is_ready(&self) -> bool {
        self.profiles.is_listed()
            && self.namespaces.is_listed()
            && self.priority_classes.is_listed()
            && self.quotas.is_listed()
            && self.quota_profiles.is_listed()
    }

    pub(super) async fn until_ready(&self) {
        self.profiles.until_listed().await;
        self.namespaces.until_listed().await;
        self.priority_classes.until_listed().await;
        self.quotas.until_listed().await;
        self.quota_profiles.until_listed().await;
    }

    /// Labels of a namespace; `None` when it is not known.
    pub(super) fn namespace(&self, name: &str) -> Option<Arc<Labels>> {
        self.namespaces.get(&Key::new("", name))
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
        let profiles = self.profiles.all();
        let classes = self.priority_classes.entries().into_iter();
        let quotas: Vec<ElasticQuota> =
            self.quotas.all().iter().map(|quota| (**quota).clone()).collect();
        self.shared_weight.reset();
        for quota in &quotas {
            self.show_weight(quota);
        }
        Prepared {
            profiles: profiles.iter().map(|profile| Profile::new((**profile).clone())).collect(),
            priority_classes: classes.map(|(key, facts)| (key.name, (*facts).clone())).collect(),
            quotas,
            quota_profiles: self
                .quota_profiles
                .all()
                .iter()
                .map(|profile| (**profile).clone())
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

async fn follow<K: Kind, V: Send + Sync + 'static>(
    cache: &Cache<V>,
    api: Api<K>,
    view: fn(K) -> V,
    stop: CancellationToken,
) {
    cache.clone().follow(Watch::all(api, stop), view).await;
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
