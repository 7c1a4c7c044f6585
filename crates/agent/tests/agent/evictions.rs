//! Pods that have to leave: told, asked, refused, lost and left in peace.
//!
//! The node has 4 GiB, a quarter of it in use, and is full at a quarter: one pod of 64 MiB is enough.

use std::time::Duration;

use agent::Config;
use api::kind::NodeSlo;
use api::protocol::gate::AgentGate;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::gate::Fault;
use crate::rig::{LIMIT, Rig, read, until};

const NOTICE: &str = "tidepool.io/eviction-notice";

fn evicting(config: &mut Config) {
    config.gates.set(AgentGate::BEMemoryEvict, true);
    config.evict.interval = Duration::from_millis(50);
    // On a busy machine answers come late, and what was asked takes long: neither means anything.
    config.evict.patience = LIMIT;
    config.evict.manners.unsure = LIMIT;
    config.evict.manners.memory_notice = Duration::from_millis(300);
    config.evict.manners.memory_rest = Duration::from_millis(300);
}

/// Takes an answer for lost that does not come soon.
fn impatient(config: &mut Config) {
    evicting(config);
    config.evict.patience = Duration::from_millis(500);
}

impl Rig {
    async fn full() -> Self {
        Self::full_with(evicting).await
    }

    async fn full_with(change: fn(&mut Config)) -> Self {
        let rig = Self::start_with(change).await;
        rig.fill(25).await;
        rig
    }

    /// From this share on the node is full.
    async fn fill(&self, threshold: i64) {
        let slos: Api<NodeSlo> = Api::all(self.client.clone());
        let slo = json!({
            "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO",
            "metadata": { "name": "n1" },
            "spec": { "resourceUsedThresholdWithBE": {
                "enable": true, "memoryEvictThresholdPercent": threshold,
                "memoryEvictLowerPercent": threshold - 1 } },
        });
        let params = PatchParams::apply("test").force();
        slos.patch("n1", &params, &Patch::Apply(slo)).await.expect("the NodeSLO is accepted");
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// Pods that somebody is deleting.
    async fn leaving(&self) -> Vec<String> {
        let pods = self.pods().list(&ListParams::default()).await.expect("the server answers");
        let leaving =
            pods.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
        leaving.filter_map(|pod| pod.metadata.name).collect()
    }

    async fn until_leaving(&self, want: &[&str]) {
        let what = format!("leaving: {want:?}");
        until(&what, async || (self.leaving().await == want).then_some(())).await;
    }

    async fn reasons(&self, pod: &str) -> Vec<(String, String)> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let events = events.list(&ListParams::default()).await.expect("the server answers");
        let about = events.items.into_iter().filter(|event| {
            event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some(pod)
        });
        about
            .map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default()))
            .collect()
    }

    /// Waits for an event about a pod, and gives its note.
    async fn until_told(&self, pod: &str, reason: &str) -> String {
        until(&format!("told {reason}"), async || {
            let reasons = self.reasons(pod).await;
            reasons.into_iter().find(|(found, _)| found == reason).map(|(_, note)| note)
        })
        .await
    }

    /// Lets the agent think many more times about who has to leave.
    async fn rounds(&self) {
        for _ in 0..20 {
            let last = self.last_round().await;
            until("another round", async || (self.last_round().await > last).then_some(())).await;
        }
    }

    /// When it last thought about it, as text that sorts by time.
    async fn last_round(&self) -> Option<String> {
        let page: serde_json::Value = serde_json::from_str(&self.decided().await).ok()?;
        let mut decisions = page["decisions"].as_array()?.iter();
        let eviction = decisions.find(|one| one["strategy"] == "evict")?;
        eviction["at"].as_str().map(str::to_owned)
    }

    async fn decided(&self) -> String {
        self.ask("/decisions").await.1
    }

    async fn notice(&self, pod: &str) -> Option<serde_json::Value> {
        let pod = self.pods().get_opt(pod).await.expect("the server answers")?;
        let notice = pod.metadata.annotations?.remove(NOTICE)?;
        Some(serde_json::from_str(&notice).expect("a notice is JSON"))
    }

    async fn condition(&self, pod: &str) -> Option<String> {
        let pod = self.pods().get_opt(pod).await.expect("the server answers")?;
        let conditions = pod.status?.conditions?;
        let ours = conditions.into_iter().find(|c| c.type_ == "tidepool.io/EvictionNotice")?;
        Some(ours.status)
    }
}

#[tokio::test]
async fn a_full_node_tells_one_best_effort_pod_and_evicts_it_with_the_sum() {
    let rig = Rig::full().await;
    let online = json!({
        "metadata": { "name": "web", "labels": { "koordinator.sh/qosClass": "LS" } },
        "spec": { "nodeName": "n1", "containers": [{ "name": "c", "image": "none" }] },
    });
    let online: Pod = rig.pods().create(&PostParams::default(), &read(online)).await.unwrap();
    let dir = format!("tidepool/kubepods/besteffort/pod{}", online.metadata.uid.unwrap());
    rig.host.add_pod(&dir);
    rig.host.set_memory(&dir, 1 << 30);
    let hog = rig.add_pod("hog").await;
    rig.host.set_memory(&hog, 512 << 20);

    let notice = until("told", async || rig.notice("hog").await).await;
    assert_eq!(notice["feature"], "BEMemoryEvict");
    rig.add_pod("small").await;
    rig.until_leaving(&["hog"]).await;
    until("marked", async || (rig.condition("hog").await? == "True").then_some(())).await;
    let note = rig.until_told("hog", "evictPodSuccess").await;
    assert_eq!(
        note,
        "trigger by koordlet feature BEMemoryEvict, kill pod: hog; the node uses 1Gi of 4Gi memory \
         (25%); from 25% on it goes down to 24%"
    );
    rig.rounds().await;
    assert_eq!(rig.leaving().await, ["hog"], "who leaves counts as gone");
    assert_eq!(rig.reasons("web").await, [], "the online pod hears nothing");
    assert_eq!(rig.reasons("small").await, []);
    let metrics = rig.ask("/metrics").await.1;
    assert!(
        metrics.contains(r#"koordlet_pod_eviction{node="n1",reason="BEMemoryEvict"} 1"#),
        "{metrics}"
    );
    assert!(rig.decided().await.contains("pods have to leave"));
    rig.stop().await;
}

#[tokio::test]
async fn a_notice_is_taken_back_when_the_need_passes() {
    let rig = Rig::start_with(|config| {
        evicting(config);
        config.evict.manners.memory_notice = Duration::from_secs(3600);
    })
    .await;
    rig.fill(25).await;
    rig.add_pod("hog").await;
    until("told", async || (rig.condition("hog").await? == "True").then_some(())).await;
    let notice = rig.notice("hog").await.unwrap();
    // Times are told in whole seconds.
    assert!(notice["due"].as_str() > notice["since"].as_str(), "{notice}");
    let decided = rig.decided().await;
    assert!(decided.contains("default/hog") && decided.contains("was told"), "{decided}");
    rig.fill(70).await;
    until("taken back", async || (rig.condition("hog").await? == "False").then_some(())).await;
    assert_eq!(rig.notice("hog").await, None);
    rig.until_told("hog", "EvictionNoticeWithdrawn").await;
    assert_eq!(rig.gate.evictions(), 0);
    until("room is explained", async || {
        rig.decided().await.contains("nobody has to leave for memory").then_some(())
    })
    .await;
    rig.stop().await;
}

/// Whatever becomes of the first question, one pod leaves in the end, and not two.
#[tokio::test]
async fn every_answer_leads_to_one_departure() {
    let cases = [
        ("a budget refuses", Fault::Status(429), "small"),
        ("two budgets", Fault::Status(500), "small"),
        ("forbidden", Fault::Status(403), "small"),
        ("gone meanwhile", Fault::Vanishes, "small"),
        ("another pod with its name", Fault::Replaced, "small"),
        ("the answer is lost", Fault::Unheard, "hog"),
    ];
    for (name, fault, want) in cases {
        println!("{name}");
        let is_lost = fault == Fault::Unheard;
        let rig = Rig::full_with(if is_lost { impatient } else { evicting }).await;
        rig.gate.fail_evictions([fault]);
        let hog = rig.add_pod("hog").await;
        rig.host.set_memory(&hog, 512 << 20);
        if is_lost {
            until("asked", async || (rig.gate.evictions() == 1).then_some(())).await;
        } else {
            until("told", async || (rig.condition("hog").await? == "True").then_some(())).await;
        }
        rig.add_pod("small").await;
        rig.until_leaving(&[want]).await;
        rig.rounds().await;
        assert_eq!(rig.leaving().await, [want], "{name}");
        if matches!(fault, Fault::Status(_)) {
            let note = rig.until_told("hog", "evictPodFail").await;
            assert!(note.contains("answered"), "{name}: {note}");
            until("taken back", async || (rig.condition("hog").await? == "False").then_some(()))
                .await;
        }
        rig.stop().await;
    }
}

#[tokio::test]
async fn without_an_answer_nobody_else_is_asked_for_a_while() {
    let rig = Rig::full_with(impatient).await;
    rig.gate.fail_evictions([Fault::Lost]);
    let hog = rig.add_pod("hog").await;
    rig.host.set_memory(&hog, 512 << 20);
    until("asked", async || (rig.gate.evictions() == 1).then_some(())).await;
    rig.add_pod("small").await;
    rig.rounds().await;
    assert_eq!(rig.gate.evictions(), 1);
    assert_eq!(rig.leaving().await, [""; 0]);
    rig.stop().await;
}

#[tokio::test]
async fn a_server_that_is_away_evicts_nobody_and_is_asked_again() {
    let rig = Rig::full_with(|config| {
        evicting(config);
        config.evict.manners.unsure = Duration::from_secs(1);
    })
    .await;
    rig.rounds().await;
    let hog = rig.add_pod("hog").await;
    rig.host.set_memory(&hog, 512 << 20);
    until("told", async || (rig.condition("hog").await? == "True").then_some(())).await;
    rig.gate.close();
    rig.rounds().await;
    assert_eq!(rig.ask("/healthz").await.0, 200);
    rig.gate.open();
    rig.until_leaving(&["hog"]).await;
    rig.stop().await;
}

#[tokio::test]
async fn what_an_owner_starts_instead_is_left_in_peace_even_after_a_restart() {
    let mut rig = Rig::full().await;
    let hog = rig.add_pod("hog").await;
    rig.until_leaving(&["hog"]).await;
    rig.delete_pod("hog", &hog).await;
    rig.add_pod("hog").await;
    rig.rounds().await;
    assert_eq!(rig.leaving().await, [""; 0]);
    rig.kill_and_start().await;
    until("ready", async || rig.decided().await.contains("pods have to leave").then_some(())).await;
    rig.rounds().await;
    assert_eq!((rig.leaving().await, rig.gate.evictions()), (vec![], 1));
    rig.add_pod("other").await;
    rig.until_leaving(&["other"]).await;
    rig.stop().await;
}

/// Killed between the question and the answer: the next process must not ask somebody else, even
/// if it hears late of the pods that are there.
#[tokio::test]
async fn an_agent_that_dies_while_it_asks_asks_nobody_else() {
    let mut rig = Rig::full().await;
    rig.gate.fail_evictions([Fault::Lost]);
    let hog = rig.add_pod("hog").await;
    rig.host.set_memory(&hog, 512 << 20);
    until("asked", async || (rig.gate.evictions() == 1).then_some(())).await;
    rig.gate.close();
    rig.kill_and_start().await;
    for _ in 0..20 {
        assert_eq!(rig.ask("/healthz").await.0, 200);
    }
    rig.gate.open();
    rig.add_pod("small").await;
    until("ready", async || rig.decided().await.contains("pods have to leave").then_some(())).await;
    rig.rounds().await;
    assert_eq!(rig.gate.evictions(), 1, "whoever was asked counts as gone");
    rig.stop().await;
}
