//! Extenders: good ones, slow ones, dead ones, and those that talk nonsense.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use api::scheduler::Extender;
use api::scheduler::extender::ManagedResource;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::PostParams;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::rig::{Rig, is_bound, node_of, object, options, rig, scheduled};

/// What an extender does with a question.
#[derive(Debug, Clone)]
enum Reply {
    Json(Value),
    Text(&'static str),
    Status(u16),
    Silence,
}

type Answers = Arc<Mutex<Box<dyn Fn(&str, &Value) -> Reply + Send>>>;

/// An extender on loopback.
struct Fake {
    address: SocketAddr,
    answers: Answers,
    heard: Arc<Mutex<Vec<(String, Value)>>>,
    task: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fake {
    async fn start(answer: impl Fn(&str, &Value) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
        let address = listener.local_addr().expect("it is bound");
        let answers: Answers = Arc::new(Mutex::new(Box::new(answer)));
        let heard: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let task = tokio::spawn(serve(listener, answers.clone(), heard.clone()));
        Self { address, answers, heard, task }
    }

    fn change(&self, answer: impl Fn(&str, &Value) -> Reply + Send + 'static) {
        *self.answers.lock() = Box::new(answer);
    }

    /// What was asked under this verb.
    fn heard(&self, verb: &str) -> Vec<Value> {
        let heard = self.heard.lock();
        heard.iter().filter(|(one, _)| one == verb).map(|(_, body)| body.clone()).collect()
    }

    fn settings(&self) -> Extender {
        Extender {
            url_prefix: format!("http://{}/sched", self.address),
            http_timeout: Some("300ms".parse().expect("a duration")),
            node_cache_capable: true,
            ..Extender::default()
        }
    }
}

async fn serve(listener: TcpListener, answers: Answers, heard: Arc<Mutex<Vec<(String, Value)>>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let (answers, heard) = (answers.clone(), heard.clone());
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let (answers, heard) = (answers.clone(), heard.clone());
            async move {
                let path = request.uri().path().to_owned();
                let verb = path.strip_prefix("/sched/").unwrap_or("").to_owned();
                let body = request.into_body().collect().await.expect("whole").to_bytes();
                let body: Value = serde_json::from_slice(&body).expect("JSON is sent");
                let reply = (answers.lock())(&verb, &body);
                heard.lock().push((verb, body));
                let (status, text) = match reply {
                    Reply::Json(value) => (200, value.to_string()),
                    Reply::Text(text) => (200, text.to_owned()),
                    Reply::Status(status) => (status, String::new()),
                    Reply::Silence => std::future::pending().await,
                };
                let mut answer = hyper::Response::new(Full::new(Bytes::from(text)));
                *answer.status_mut() = hyper::StatusCode::from_u16(status).expect("a status");
                Ok::<_, Infallible>(answer)
            }
        });
        let serving = hyper::server::conn::http1::Builder::new();
        tokio::spawn(serving.serve_connection(TokioIo::new(stream), service));
    }
}

async fn schedule(rig: &Rig, extenders: Vec<Extender>) -> crate::rig::Running {
    let mut options = options();
    options.configuration.extenders = extenders;
    rig.schedule_with(options).await
}

/// All nodes but these, by name.
fn all_but(question: &Value, not: &[&str]) -> Value {
    let names = question["NodeNames"].as_array().expect("names are sent").iter();
    let kept: Vec<&Value> =
        names.filter(|name| !not.contains(&name.as_str().unwrap_or_default())).collect();
    let failed: serde_json::Map<String, Value> =
        not.iter().map(|name| ((*name).to_owned(), json!("no licence"))).collect();
    json!({"nodenames": kept, "failedNodes": failed})
}

#[tokio::test]
async fn they_filter_and_score() {
    let rig = rig().await;
    for name in ["n1", "n2", "n3"] {
        rig.add_node(name, "4").await;
    }
    let fake = Fake::start(|verb, question| match verb {
        "filter" => Reply::Json(all_but(question, &["n1"])),
        _ => Reply::Json(json!([{"Host": "n3", "Score": 10}, {"Host": "n9", "Score": 10}])),
    })
    .await;
    let settings = Extender {
        filter_verb: "filter".into(),
        prioritize_verb: "rank".into(),
        weight: Some(5),
        ..fake.settings()
    };
    rig.add_pod("web", "1").await;
    let scheduler = schedule(&rig, vec![settings]).await;
    let pod = rig.until_pod("web", "bound", is_bound).await;
    assert_eq!(node_of(&pod), Some("n3"));
    let filter = &fake.heard("filter")[0];
    assert_eq!(filter["Pod"]["metadata"]["name"], "web");
    assert_eq!(
        (filter["NodeNames"].as_array().map(Vec::len), &filter["Nodes"]),
        (Some(3), &Value::Null)
    );
    assert_eq!(fake.heard("rank")[0]["NodeNames"], json!(["n2", "n3"]), "only what is left");

    // What they refuse everywhere is told in their words, and tried again by itself.
    fake.change(|_, question| Reply::Json(all_but(question, &["n1", "n2", "n3"])));
    rig.add_pod("second", "1").await;
    let pod = rig.until_pod("second", "told", |pod| scheduled(pod).is_some()).await;
    let (_, reason, message) = scheduled(&pod).unwrap();
    assert_eq!(reason, "Unschedulable");
    assert!(message.starts_with("0/3 nodes are available: 3 no licence."), "{message}");
    fake.change(|_, question| Reply::Json(all_but(question, &["n1", "n2"])));
    let pod = rig.until_pod("second", "bound", is_bound).await;
    assert_eq!(node_of(&pod), Some("n3"));
    scheduler.stop().await;
}

#[tokio::test]
async fn whole_nodes_are_sent_to_those_who_do_not_know_them() {
    let rig = rig().await;
    rig.add_node("n1", "4").await;
    let fake = Fake::start(|_, question| Reply::Json(json!({"Nodes": question["Nodes"]}))).await;
    let settings =
        Extender { filter_verb: "f".into(), node_cache_capable: false, ..fake.settings() };
    rig.add_pod("web", "1").await;
    let scheduler = schedule(&rig, vec![settings]).await;
    rig.until_pod("web", "bound", is_bound).await;
    let question = &fake.heard("f")[0];
    assert_eq!(question["Nodes"]["items"][0]["status"]["allocatable"]["cpu"], "4");
    assert_eq!(question["NodeNames"], Value::Null);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_bad_one_is_passed_over_or_fails_the_attempt() {
    let cases: [(&str, Reply, &str); 6] = [
        ("slow", Reply::Silence, "does not answer within 300 ms"),
        ("broken", Reply::Status(500), "it answers 500"),
        ("garbage", Reply::Text("<html>"), "not JSON"),
        ("of another shape", Reply::Json(json!([1])), "not an object"),
        (
            "unknown node",
            Reply::Json(json!({"NodeNames": ["n9"]})),
            "node n9, which it was not asked",
        ),
        ("its own error", Reply::Json(json!({"Error": "no database"})), "no database"),
    ];
    for (name, reply, want) in cases {
        let rig = rig().await;
        rig.add_node("n1", "4").await;
        let bad = reply.clone();
        let fake = Fake::start(move |_, _| bad.clone()).await;
        let settings = Extender { filter_verb: "f".into(), ..fake.settings() };
        rig.add_pod("web", "1").await;
        let scheduler = schedule(&rig, vec![settings.clone()]).await;
        let pod = rig.until_pod("web", "told", |pod| scheduled(pod).is_some()).await;
        let (_, reason, message) = scheduled(&pod).unwrap();
        assert_eq!(reason, "SchedulerError", "{name}");
        assert!(
            message.contains(&settings.url_prefix) && message.contains(want),
            "{name}: {message}"
        );
        // It heals, and nobody has to do anything.
        fake.change(|_, question| Reply::Json(all_but(question, &[])));
        rig.until_pod("web", "bound", is_bound).await;

        let bad = reply.clone();
        fake.change(move |_, _| bad.clone());
        scheduler.stop().await;
        let ignorable = Extender { ignorable: true, ..settings };
        let scheduler = schedule(&rig, vec![ignorable]).await;
        rig.add_pod("second", "1").await;
        rig.until_pod("second", "bound", is_bound).await;
        scheduler.stop().await;
    }
}

#[tokio::test]
async fn a_dead_one_does_not_hold_up_pods_it_does_not_care_for() {
    let rig = rig().await;
    rig.add_node("n1", "4").await;
    let address = {
        let fake = Fake::start(|_, _| Reply::Silence).await;
        fake.settings()
    };
    let resource = ManagedResource { name: "example.com/card".into(), ignored_by_scheduler: true };
    let settings =
        Extender { filter_verb: "f".into(), managed_resources: vec![resource], ..address };
    let scheduler = schedule(&rig, vec![settings]).await;
    let resources = json!({"requests": {"cpu": "1", "example.com/card": "1"},
        "limits": {"example.com/card": "1"}});
    let container = json!({"name": "c", "image": "i", "resources": resources});
    rig.add("carded", "1", json!({"containers": [container]})).await;
    rig.add_pod("plain", "1").await;
    rig.until_pod("plain", "bound", is_bound).await;
    let pod = rig.until_pod("carded", "told", |pod| scheduled(pod).is_some()).await;
    assert_eq!(scheduled(&pod).unwrap().1, "SchedulerError", "the node lacks cards, nobody counts");
    scheduler.stop().await;
}

#[tokio::test]
async fn one_may_bind_in_our_place() {
    let rig = rig().await;
    rig.add_node("n1", "4").await;
    let (told, mut tell) = tokio::sync::mpsc::unbounded_channel();
    let fake = Fake::start(move |_, question| {
        let _ = told.send(question.clone());
        Reply::Json(json!({}))
    })
    .await;
    let settings = Extender { bind_verb: "bind".into(), ..fake.settings() };
    let pod = rig.add_pod("web", "1").await;
    let scheduler = schedule(&rig, vec![settings]).await;
    let question = tell.recv().await.expect("it is asked to bind");
    let uid = pod.metadata.uid.clone().unwrap();
    assert_eq!(
        question,
        json!({"PodName": "web", "PodNamespace": "default", "PodUID": uid, "Node": "n1"})
    );
    rig.until_event("web", "Scheduled").await;
    assert_eq!(rig.wire.take_writes(), Vec::<String>::new(), "we bind nothing");

    // One that says no leaves the pod to be tried again.
    fake.change(|_, _| Reply::Json(json!({"Error": "not today"})));
    rig.add_pod("second", "1").await;
    let pod = rig.until_pod("second", "told", |pod| scheduled(pod).is_some()).await;
    let (_, reason, message) = scheduled(&pod).unwrap();
    assert_eq!(reason, "SchedulerError");
    assert!(message.contains("not today"), "{message}");
    scheduler.stop().await;
}

#[tokio::test]
async fn they_agree_to_victims() {
    let rig = rig().await;
    let classes: Api<PriorityClass> = Api::all(rig.client.clone());
    for (name, value) in [("low", 10), ("mid", 20), ("high", 1_000)] {
        let class = json!({"metadata": {"name": name}, "value": value});
        classes.create(&PostParams::default(), &object(class)).await.expect("new");
    }
    for (node, class) in [("n1", "low"), ("n2", "mid")] {
        rig.add_node(node, "2").await;
        let more = json!({"nodeName": node, "priorityClassName": class,
            "terminationGracePeriodSeconds": 0});
        rig.add(class, "2", more).await;
    }
    let fake = Fake::start(|_, question| {
        let mut kept = question["NodeNameToMetaVictims"].clone();
        kept.as_object_mut().expect("nodes").remove("n1");
        Reply::Json(json!({"nodeNameToMetaVictims": kept}))
    })
    .await;
    let settings = Extender { preempt_verb: "preempt".into(), ..fake.settings() };
    let scheduler = schedule(&rig, vec![settings]).await;
    rig.add("boss", "2", json!({"priorityClassName": "high"})).await;
    let boss = rig.until_pod("boss", "bound", is_bound).await;
    assert_eq!(node_of(&boss), Some("n2"), "the cheaper one was refused");
    let question = &fake.heard("preempt")[0];
    let nodes = question["NodeNameToMetaVictims"].as_object().unwrap();
    assert_eq!(nodes.keys().collect::<Vec<_>>(), ["n1", "n2"]);
    assert_eq!(nodes["n1"]["NumPDBViolations"], 0);
    rig.until("the victim is gone", |pods| pods.len() == 2).await;

    fake.change(|_, _| Reply::Json(json!({"NodeNameToMetaVictims": {"n7": {"Pods": []}}})));
    rig.add("second", "2", json!({"priorityClassName": "high"})).await;
    let pod = rig.until_pod("second", "told", |pod| scheduled(pod).is_some()).await;
    let (_, reason, message) = scheduled(&pod).unwrap();
    assert_eq!(reason, "SchedulerError");
    assert!(message.contains("node n7, which it was not asked"), "{message}");
    assert_eq!(rig.pods().list(&Default::default()).await.unwrap().items.len(), 3, "nobody went");
    scheduler.stop().await;
}
