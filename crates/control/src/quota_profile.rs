//! How much is a quota tree made of?
//!
//! An ElasticQuotaProfile stands for nodes. The quota it names is kept at what
//! those nodes have:
//!
//! ```text
//! min[k] = sum of allocatable[k] * ratio     for the profile's resource keys
//! max[k] = more than anybody has
//! ```
//!
//! and says in annotations how much there is in total and how much of it
//! stands on nodes that take no pods. Deleting the profile leaves the quota.

use std::time::Duration;

use api::config::selector::{Labels, Selector};
use api::kind::{ElasticQuota, ElasticQuotaProfile};
use api::metadata::ResourceList;
use api::protocol::event::source::QUOTA_PROFILE;
use api::protocol::event::{CREATE_QUOTA_FAILED, UPDATE_QUOTA_FAILED};
use api::protocol::name::quota::PROFILE_MAX;
use api::protocol::quota::{
    IS_ROOT, PROFILE, RESOURCE_KEYS, TOTAL_RESOURCE, TREE_ID, UNSCHEDULABLE_RESOURCE,
};
use api::protocol::resource::{CPU, MEMORY};
use api::resources::amounts;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use reconcile::key::Key;
use reconcile::record::Recorder;
use reconcile::watch::{Cache, Watch};
use reconcile::write::{WriteError, Writer};
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use units::{Format, Quantity, Ratio, Rounding, Scale};

use crate::{Shared, fingerprint};

const PERIOD: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);
const CONTROLLER: &str = "quotaprofile";

/// What a profile needs to know of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeView {
    labels: Labels,
    allocatable: ResourceList,
    /// Not cordoned, and ready.
    takes_pods: bool,
}

impl From<Node> for NodeView {
    fn from(node: Node) -> Self {
        let is_cordoned = node.spec.is_some_and(|spec| spec.unschedulable == Some(true));
        let status = node.status.unwrap_or_default();
        let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
        let is_ready = ready.is_some_and(|condition| condition.status == "True");
        Self {
            labels: node.metadata.labels.unwrap_or_default(),
            allocatable: status.allocatable.as_ref().map(amounts).unwrap_or_default(),
            takes_pods: is_ready && !is_cordoned,
        }
    }
}

/// The tree a profile belongs to, whether or not it says so already.
pub fn tree_of(profile: &ElasticQuotaProfile) -> String {
    let given = TREE_ID.raw(&profile.metadata).filter(|tree| !tree.is_empty());
    given.map_or_else(
        || {
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            let (namespace, name) =
                (part(&profile.metadata.namespace), part(&profile.metadata.name));
            fingerprint::of(format!("{namespace}/{name}").as_bytes()).to_string()
        },
        str::to_owned,
    )
}

/// The quota that a profile keeps, with exactly the labels, annotations and bounds it sets.
pub fn wanted<'n>(
    profile: &ElasticQuotaProfile,
    nodes: impl IntoIterator<Item = &'n NodeView>,
) -> ElasticQuota {
    let selector = Selector::compile(&profile.spec.node_selector).ok();
    let (mut total, mut unschedulable) = (ResourceList::new(), ResourceList::new());
    let is_meant =
        |node: &&NodeView| selector.as_ref().is_some_and(|selector| selector.matches(&node.labels));
    for node in nodes.into_iter().filter(is_meant) {
        add(&mut total, &node.allocatable);
        if !node.takes_pods {
            add(&mut unschedulable, &node.allocatable);
        }
    }
    let ratio = ratio_of(profile);
    let (total, unschedulable) = (share(total, ratio), share(unschedulable, ratio));
    let keys = RESOURCE_KEYS.get(&profile.metadata).filter(|keys| !keys.is_empty());
    let keys = keys.unwrap_or_else(|| vec![CPU.to_owned(), MEMORY.to_owned()]);

    let mut quota = ElasticQuota::new(&profile.spec.quota_name, Default::default());
    quota.spec.min =
        keys.iter().map(|key| (key.clone(), total.get(key).copied().unwrap_or_default())).collect();
    let most = Quantity::from_int(PROFILE_MAX, Format::DecimalSi);
    quota.spec.max = keys.into_iter().map(|key| (key, most)).collect();
    let meta = &mut quota.metadata;
    meta.namespace.clone_from(&profile.metadata.namespace);
    PROFILE.set(meta, &profile.metadata.name.clone().unwrap_or_default());
    meta.labels.get_or_insert_default().extend(profile.spec.quota_labels.clone());
    TREE_ID.set(meta, &tree_of(profile));
    IS_ROOT.set(meta, &true);
    TOTAL_RESOURCE.set(meta, &total);
    UNSCHEDULABLE_RESOURCE.set(meta, &unschedulable);
    quota
}

fn add(total: &mut ResourceList, part: &ResourceList) {
    for (name, amount) in part {
        *total.entry(name.clone()).or_default() += *amount;
    }
}

/// A number above 0 and at most 1; anything else acts as 1.
fn ratio_of(profile: &ElasticQuotaProfile) -> Option<Ratio> {
    let ratio: Ratio = profile.spec.resource_ratio.as_deref()?.parse().ok()?;
    (ratio > Ratio::from_hundredths(0) && ratio < Ratio::ONE).then_some(ratio)
}

/// cpu is cut to thousandths, everything else to whole units.
fn share(list: ResourceList, ratio: Option<Ratio>) -> ResourceList {
    let Some(ratio) = ratio else { return list };
    let cut = |(name, amount): (String, Quantity)| {
        let scale = if name == CPU { Scale::Milli } else { Scale::One };
        let count: i64 = ratio.apply(amount.to_int(scale, Rounding::Down), Rounding::Down);
        let amount = match scale {
            Scale::Milli => Quantity::from_milli(count, amount.format()),
            _ => Quantity::from_int(count, amount.format()),
        };
        (name, amount)
    };
    list.into_iter().map(cut).collect()
}

/// The merge patch that makes a quota what is wanted; `None` when it is.
pub fn change(found: &ElasticQuota, wanted: &ElasticQuota) -> Option<Value> {
    let texts = |found: &Option<Labels>, wanted: &Option<Labels>| -> Map<String, Value> {
        let has =
            |key: &String, text: &String| found.as_ref().and_then(|map| map.get(key)) == Some(text);
        let new = wanted.iter().flatten().filter(|(key, text)| !has(key, text));
        new.map(|(key, text)| (key.clone(), json!(text))).collect()
    };
    let (before, after) = (&found.metadata, &wanted.metadata);
    let labels = texts(&before.labels, &after.labels);
    let annotations = texts(&before.annotations, &after.annotations);
    if labels.is_empty() && annotations.is_empty() && found.spec == wanted.spec {
        return None;
    }
    let bounds = |found: &ResourceList, wanted: &ResourceList| -> Map<String, Value> {
        let gone = found.keys().filter(|key| !wanted.contains_key(*key));
        let gone = gone.map(|key| (key.clone(), Value::Null));
        gone.chain(wanted.iter().map(|(key, amount)| (key.clone(), json!(amount)))).collect()
    };
    Some(json!({
        "metadata": {
            "resourceVersion": before.resource_version,
            "labels": labels, "annotations": annotations,
        },
        "spec": {
            "min": bounds(&found.spec.min, &wanted.spec.min),
            "max": bounds(&found.spec.max, &wanted.spec.max),
        },
    }))
}

/// What the controller looks at and writes with.
#[derive(Debug)]
struct Profiles {
    profiles: Cache<ElasticQuotaProfile>,
    quotas: Cache<ElasticQuota>,
    nodes: Cache<NodeView>,
    writer: Writer,
}

impl Profiles {
    fn new(writer: Writer) -> Self {
        let (profiles, quotas) = (Cache::optional(), Cache::optional());
        Self { profiles, quotas, nodes: Cache::optional(), writer }
    }
}

/// Runs until told to stop; writes only while this process leads.
pub async fn run(shared: Shared, shutdown: CancellationToken) {
    let own = Profiles::new(shared.writer());
    let (events, recording) = shared.recorder(QUOTA_PROFILE, shutdown.clone());
    let (client, stop) = (|| shared.client.clone(), || shutdown.clone());
    let watching = async {
        tokio::join!(
            own.profiles.clone().follow(Watch::all(Api::all(client()), stop()), |profile| profile),
            own.quotas.clone().follow(Watch::all(Api::all(client()), stop()), |quota| quota),
            own.nodes
                .clone()
                .follow(Watch::all(Api::<Node>::all(client()), stop()), NodeView::from),
        )
    };
    let working = async {
        let mut leadership = shared.leadership.clone();
        let mut changes = own.profiles.changes();
        own.profiles.until_listed().await;
        own.quotas.until_listed().await;
        own.nodes.until_listed().await;
        loop {
            leadership.until_held().await;
            changes.mark_unchanged();
            let pause = if own.reconcile_all(&shared, &events).await { PERIOD } else { RETRY };
            tokio::select! {
                () = sleep(pause) => {}
                _ = changes.changed() => {}
            }
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

impl Profiles {
    /// True when everything went well.
    async fn reconcile_all(&self, shared: &Shared, events: &Recorder) -> bool {
        let nodes = self.nodes.all();
        let mut is_well = true;
        for profile in self.profiles.all() {
            let wanted = wanted(&profile, nodes.iter().map(|node| &**node));
            let result = self.reconcile(&profile, &wanted).await;
            let word = if result.is_ok() { "success" } else { "error" };
            shared.instruments.reconcile_total.with_label_values(&[CONTROLLER, word]).inc();
            if let Err((reason, error)) = result {
                is_well = false;
                let (name, error) = (&profile.spec.quota_name, error.message());
                warn!(quota = name, error, "cannot keep a profile's quota; will try again");
                events.warning(&*profile, reason, format!("quota {name}: {error}"));
            }
        }
        is_well
    }

    async fn reconcile(
        &self,
        profile: &ElasticQuotaProfile,
        wanted: &ElasticQuota,
    ) -> Result<(), (&'static str, WriteError)> {
        let not_updated = |error| (UPDATE_QUOTA_FAILED, error);
        if !self.writer.leads() {
            return Ok(());
        }
        let own = Key::of(profile);
        if !TREE_ID.is_present(&profile.metadata) {
            let patch = json!({ "metadata": { "labels": { TREE_ID.name: tree_of(profile) } } });
            let patched = self.writer.patch::<ElasticQuotaProfile>(&own, &patch).await;
            patched.map_err(not_updated)?;
        }
        let key = Key::new(&own.namespace, &profile.spec.quota_name);
        match self.quotas.get(&key) {
            None => match self.writer.create(wanted).await {
                Ok(_) => info!(quota = key.name, "made a profile's quota"),
                // The watch has not told us yet; the next round compares.
                Err(error) if error.is_conflict() => {}
                Err(error) => {
                    // So does our own admission, before the API server can say that there is one.
                    let found = self.writer.get::<ElasticQuota>(&key).await;
                    if !found.is_ok_and(|found| found.is_some()) {
                        return Err((CREATE_QUOTA_FAILED, error));
                    }
                }
            },
            Some(found) => {
                if let Some(patch) = change(&found, wanted) {
                    let patched = self.writer.patch::<ElasticQuota>(&key, &patch).await;
                    patched.map_err(not_updated)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use reconcile::elect::Leadership;

    use super::*;

    fn profile(ratio: Option<&str>) -> ElasticQuotaProfile {
        serde_json::from_value(json!({
            "metadata": {"name": "pool-a", "namespace": "kube-system"},
            "spec": {"quotaName": "root-a", "quotaLabels": {"team": "data"}, "resourceRatio": ratio,
                "nodeSelector": {"matchLabels": {"pool": "a"}}},
        }))
        .unwrap()
    }

    fn node(pool: &str, ready: &str, cordoned: bool) -> NodeView {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"labels": {"pool": pool}},
            "spec": {"unschedulable": cordoned},
            "status": {
                "allocatable": {"cpu": "3333m", "memory": "7Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }))
        .unwrap();
        node.into()
    }

    fn nodes() -> Vec<NodeView> {
        vec![
            node("a", "True", false),
            node("a", "True", true),
            node("a", "Unknown", false),
            node("b", "True", false),
        ]
    }

    #[test]
    fn a_quota_is_what_its_nodes_are() {
        let quota = wanted(&profile(None), &nodes());
        insta::assert_yaml_snapshot!(quota);
        let half = wanted(&profile(Some("0.5")), &nodes());
        assert_eq!(half.spec.min["cpu"].to_string(), "4999m", "9999m cut in half");
        assert_eq!(half.spec.min["memory"].to_string(), "10752Mi");
        for odd in ["0", "-1", "1.5", "much", "1"] {
            assert_eq!(wanted(&profile(Some(odd)), &nodes()).spec, quota.spec, "{odd} acts as 1");
        }
    }

    #[test]
    fn keys_may_be_chosen() {
        let mut profile = profile(None);
        RESOURCE_KEYS.set(&mut profile.metadata, &vec!["pods".to_owned(), "gpu".to_owned()]);
        let quota = wanted(&profile, &nodes());
        assert_eq!(quota.spec.min["pods"].to_string(), "330");
        assert_eq!(quota.spec.min["gpu"].to_string(), "0");
        assert_eq!(quota.spec.max.len(), 2);
    }

    #[test]
    fn only_differences_are_written() {
        let wanted = wanted(&profile(None), &nodes());
        let mut found = wanted.clone();
        found.metadata.labels.get_or_insert_default().insert("other".into(), "stays".into());
        assert_eq!(change(&found, &wanted), None);
        found.spec.min.insert("gpu".to_owned(), Quantity::ZERO);
        let patch = change(&found, &wanted).expect("a resource too many");
        assert_eq!(patch["spec"]["min"]["gpu"], Value::Null);
        assert!(patch["spec"]["min"].as_object().unwrap().contains_key("gpu"));
        IS_ROOT.remove(&mut found.metadata);
        let patch = change(&found, &wanted).expect("a label too few");
        assert_eq!(patch["metadata"]["labels"][IS_ROOT.name], "true");
    }

    /// A server that refuses to create, and says whether the quota is there.
    fn refusing(is_there: bool) -> kube::Client {
        let service = tower::service_fn(
            move |request: http::Request<kube::client::Body>| async move {
                let (code, body) = match request.method().as_str() {
                    "GET" if is_there => (200, json!(wanted(&profile(None), &nodes()))),
                    "GET" => (
                        404,
                        json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "no"}),
                    ),
                    "POST" => (
                        400,
                        json!({"kind": "Status", "status": "Failure", "code": 400, "reason": "BadRequest", "message": "exists"}),
                    ),
                    _ => (200, json!(profile(None))),
                };
                let body = kube::client::Body::from(body.to_string().into_bytes());
                Ok::<_, tower::BoxError>(http::Response::builder().status(code).body(body)?)
            },
        );
        kube::Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_quota_that_the_watch_has_not_told_of_is_no_failure() {
        for (is_there, want) in [(true, true), (false, false)] {
            let writer = Writer::new(refusing(is_there), Leadership::alone());
            let quota = wanted(&profile(None), &nodes());
            let kept = Profiles::new(writer).reconcile(&profile(None), &quota).await;
            assert_eq!(kept.is_ok(), want, "there: {is_there}");
        }
    }
}
