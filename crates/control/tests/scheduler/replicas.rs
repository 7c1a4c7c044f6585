//! Two replicas, one lease, and what a scheduler says about itself.

use std::time::Duration;

use api::scheduler::Lease;
use control::scheduler::{Options, candidacy};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::Value;

use crate::rig::{Rig, is_bound, options, rig};

fn replica(name: &str) -> Options {
    let lease = Lease {
        length: Duration::from_secs(2),
        deadline: Duration::from_secs(1),
        retry: Duration::from_millis(100),
        ..Lease::default()
    };
    let mut options = options();
    options.election = Some(candidacy(&lease, name.to_owned()));
    options.listen = Some(([127, 0, 0, 1], 0).into());
    options
}

pub(crate) async fn ask(address: std::net::SocketAddr, path: &str) -> (u16, String) {
    let stream = tokio::net::TcpStream::connect(address).await.expect("the scheduler answers");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .expect("the scheduler answers");
    let talking = tokio::spawn(connection);
    let request = hyper::Request::get(path)
        .header("host", "x")
        .body(String::new())
        .expect("the scheduler answers");
    let answer = sender.send_request(request).await.expect("the scheduler answers");
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("the scheduler answers").to_bytes();
    drop(sender);
    let _ = talking.await;
    (status, String::from_utf8(body.to_vec()).expect("the scheduler answers"))
}

async fn bound(rig: &Rig, count: usize) {
    rig.until("bound", |pods| pods.iter().filter(|pod| is_bound(pod)).count() == count).await;
}

#[tokio::test]
async fn only_the_leader_binds_and_the_other_takes_over() {
    let rig = rig().await;
    rig.add_node("n1", "40").await;
    let mut first = rig.schedule_with(replica("first")).await;
    first.status.leadership.until_held().await;
    let mut second = rig.schedule_with(replica("second")).await;
    second.status.until_synced().await;
    for pod in 0..10 {
        rig.add_pod(&format!("p{pod}"), "1").await;
    }
    bound(&rig, 10).await;
    assert!(first.status.leadership.is_held() && !second.status.leadership.is_held());
    let (waiting, leading) = (second.status.address.unwrap(), first.status.address.unwrap());
    let (status, body) = ask(waiting, "/apis/v1/nodes/n1").await;
    assert_eq!((status, body.as_str()), (503, r#"{"message":"the instance is not leader"}"#));
    assert_eq!(ask(waiting, "/readyz").await, (200, "ok".to_owned()));
    assert_eq!(ask(leading, "/healthz").await, (200, "ok".to_owned()));

    first.stop().await;
    second.status.leadership.until_held().await;
    for pod in 10..20 {
        rig.add_pod(&format!("p{pod}"), "1").await;
    }
    bound(&rig, 20).await;
    rig.assert_bound_once(20).await;

    let (status, body) = ask(waiting, "/apis/v1/nodes/n1").await;
    assert_eq!(status, 200);
    let node: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(node["resources"]["cpu"]["requested"], 20_000);
    assert_eq!(node["pods"].as_array().unwrap().len(), 20);
    for path in ["LoadAwareScheduling/node/n1", "NodeNUMAResource/nodes/n1"] {
        assert_eq!(ask(waiting, &format!("/apis/v1/plugins/{path}")).await.0, 200, "{path}");
        let missing = path.replace("n1", "n9");
        assert_eq!(ask(waiting, &format!("/apis/v1/plugins/{missing}")).await.0, 404, "{missing}");
    }
    let (_, check) = ask(waiting, "/apis/v1/check").await;
    assert_eq!(check, r#"{"violations":[]}"#);
    let (_, metrics) = ask(waiting, "/metrics").await;
    let attempts =
        r#"scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 10"#;
    assert!(metrics.contains(attempts), "{metrics}");
    assert_eq!(ask(waiting, "/apis/v1/nodes/none").await.0, 404);
    assert_eq!(ask(waiting, "/nowhere").await.0, 404);
    let (_, pod) = ask(waiting, "/apis/v1/pods/default/p15").await;
    assert!(pod.contains("n1"), "{pod}");
    second.stop().await;
}
