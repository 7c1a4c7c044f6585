//! The same pages over TLS.

use std::sync::Arc;

use control::scheduler::secure::Secure;
use control::webhook::certificate::Bundle;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::rig::{options, rig};

async fn ask(port: u16, bundle: &Bundle, path: &str, token: Option<&str>) -> (u16, String) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("usual versions")
        .with_root_certificates(bundle.roots().expect("an authority"))
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("somebody listens");
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("trusted");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
    let talking = tokio::spawn(connection);
    let mut request = hyper::Request::get(path).header("host", "x");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Empty::<bytes::Bytes>::new()).expect("a request");
    let answer = sender.send_request(request).await.expect("an answer");
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("whole").to_bytes();
    drop(sender);
    let _ = talking.await;
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

#[tokio::test]
async fn pages_are_served_over_tls_to_those_who_may_read() {
    let rig = rig().await;
    let bundle = Bundle::make("127.0.0.1", Timestamp::now()).expect("a certificate");
    let dir = tempfile::tempdir().expect("a directory");
    let (cert, key) = (dir.path().join("cert"), dir.path().join("key"));
    for (name, text) in bundle.parts() {
        match name {
            "tls.crt" => std::fs::write(&cert, text).expect("written"),
            "tls.key" => std::fs::write(&key, text).expect("written"),
            _ => {}
        }
    }
    let mut options = options();
    options.secure =
        Some(Secure { files: Some((cert, key)), ..Secure::at(([127, 0, 0, 1], 0).into()) });
    let mut scheduler = rig.schedule_with(options).await;
    scheduler.status.until_synced().await;
    let port = scheduler.status.secure_address.expect("a port").port();
    assert_eq!(ask(port, &bundle, "/healthz", None).await, (200, "ok".to_owned()));
    assert_eq!(ask(port, &bundle, "/readyz", Some("whoever")).await.0, 200, "open to all");
    assert_eq!(ask(port, &bundle, "/metrics", Some("whoever")).await.0, 401, "a bad token");
    // The embedded API lets everybody do everything.
    let (status, page) = ask(port, &bundle, "/metrics", None).await;
    assert!(status == 200 && page.contains("scheduler_pending_pods"), "{status} {page}");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_certificate_is_made_when_none_is_given() {
    let rig = rig().await;
    let mut options = options();
    options.secure = Some(Secure::at(([127, 0, 0, 1], 0).into()));
    let scheduler = rig.schedule_with(options).await;
    let port = scheduler.status.secure_address.expect("a port").port();
    // Nobody trusts it, but it is shown.
    let stranger = Bundle::make("127.0.0.1", Timestamp::now()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("usual versions")
        .with_root_certificates(stranger.roots().expect("an authority"))
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("somebody listens");
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let refused = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let error = refused.expect_err("another authority").to_string();
    assert!(error.contains("certificate"), "{error}");
    scheduler.stop().await;
}
