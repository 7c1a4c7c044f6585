use std::net::SocketAddr;

use futures::StreamExt;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::*;

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(600);
/// A test that waits for longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const SLOW_REQUEST: &[u8] = b"GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// Nobody loses a connection for want of time.
fn patient() -> Limits {
    Limits {
        handshake: LONG,
        first_byte: LONG,
        head: LONG,
        idle: LONG,
        stall: LONG,
        ..Limits::default()
    }
}

/// Answers `/` at once, and other paths when told to.
#[derive(Default)]
struct Pages {
    arrived: Notify,
    go_on: Notify,
}

impl Answers for Pages {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if request.uri().path() != "/" {
            self.arrived.notify_one();
            self.go_on.notified().await;
        }
        text(StatusCode::OK, "hello")
    }
}

struct Rig {
    address: SocketAddr,
    pages: Arc<Pages>,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

async fn rig(limits: Limits, tls: Option<Arc<ServerConfig>>) -> Rig {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (pages, stop) = (Arc::new(Pages::default()), CancellationToken::new());
    let serving = tokio::spawn(serve(listener, tls, pages.clone(), limits, stop.clone()));
    Rig { address, pages, stop, serving }
}

impl Rig {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// What the server still says before it closes; a reset is an end, too.
async fn until_closed(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let reading = stream.read_to_end(&mut text);
    let _ = timeout(PATIENCE, reading).await.expect("the server closes the connection");
    String::from_utf8_lossy(&text).into_owned()
}

/// Sends a request and reads the head and the body of its answer.
async fn ask(stream: &mut TcpStream) {
    stream.write_all(REQUEST).await.unwrap();
    let mut text = String::new();
    while !text.ends_with("hello") {
        let mut bytes = [0; 1_024];
        let reading = timeout(PATIENCE, stream.read(&mut bytes));
        let count = reading.await.expect("the server answers").unwrap();
        assert_ne!(count, 0, "closed after {text:?}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
}

#[tokio::test]
async fn a_client_that_says_nothing_is_let_go() {
    let rig = rig(Limits { first_byte: SHORT, ..patient() }, None).await;
    let mut silent = rig.connect().await;
    assert_eq!(until_closed(&mut silent).await, "");
}

#[tokio::test]
async fn a_client_that_says_nothing_after_the_handshake_is_let_go() {
    let (server, client) = certificates();
    let rig = rig(Limits { first_byte: SHORT, ..patient() }, Some(server)).await;
    let name = ServerName::try_from("localhost").unwrap();
    let mut silent = client.connect(name, rig.connect().await).await.unwrap();
    assert_eq!(until_closed(&mut silent).await, "");
}

#[tokio::test]
async fn a_client_that_does_not_shake_hands_is_let_go() {
    let (server, _) = certificates();
    let rig = rig(Limits { handshake: SHORT, ..patient() }, Some(server)).await;
    assert_eq!(until_closed(&mut rig.connect().await).await, "");
}

#[tokio::test]
async fn a_head_that_does_not_end_is_cut_off() {
    let rig = rig(Limits { head: SHORT, ..patient() }, None).await;
    for start in ["G", "P", "GET / HTTP/1.1\r\nhost: a\r\n"] {
        let mut slow = rig.connect().await;
        slow.write_all(start.as_bytes()).await.unwrap();
        assert_eq!(until_closed(&mut slow).await, "", "{start:?}");
    }
}

#[tokio::test]
async fn a_client_that_idles_is_let_go_after_its_answer() {
    let rig = rig(Limits { idle: SHORT, ..patient() }, None).await;
    let mut idle = rig.connect().await;
    ask(&mut idle).await;
    assert_eq!(until_closed(&mut idle).await, "");
}

#[tokio::test]
async fn an_http2_client_that_asks_for_nothing_is_let_go() {
    let rig = rig(Limits { idle: SHORT, drain: SHORT, ..patient() }, None).await;
    let mut idle = rig.connect().await;
    // The preface, and settings without any.
    idle.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    until_closed(&mut idle).await;
}

#[tokio::test]
async fn an_answer_may_be_silent_for_longer_than_a_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // A watch: an event now, and the next one much later.
    let service = service_fn(|_: Request<Incoming>| async {
        let events = futures::stream::iter(["first ", "second"]).then(|event| async move {
            if event == "second" {
                sleep(SHORT * 5).await;
            }
            Ok::<_, Infallible>(Frame::data(Bytes::from(event)))
        });
        Ok::<_, Infallible>(Response::new(StreamBody::new(events.boxed())))
    });
    let limits = Limits { first_byte: SHORT, head: SHORT, idle: SHORT, ..patient() };
    let stop = CancellationToken::new();
    tokio::spawn(serve_with(listener, None, service, limits, stop));
    let mut watching = TcpStream::connect(address).await.unwrap();
    watching.write_all(REQUEST).await.unwrap();
    let text = until_closed(&mut watching).await;
    assert!(text.contains("first ") && text.contains("second"), "{text:?}");
}

#[tokio::test]
async fn silent_clients_keep_nobody_out() {
    let rig = rig(Limits { connections: 3, ..patient() }, None).await;
    let mut first = rig.connect().await;
    let mut second = rig.connect().await;
    let mut asking = rig.connect().await;
    ask(&mut asking).await;
    let mut fourth = rig.connect().await;
    ask(&mut fourth).await;
    assert_eq!(until_closed(&mut first).await, "", "the oldest that said nothing goes first");
    let mut fifth = rig.connect().await;
    ask(&mut fifth).await;
    assert_eq!(until_closed(&mut second).await, "");
    ask(&mut fourth).await;
    // All have asked by now: the one that idles longest goes.
    let mut sixth = rig.connect().await;
    ask(&mut sixth).await;
    assert_eq!(until_closed(&mut asking).await, "");
}

#[tokio::test]
async fn whoever_is_being_answered_is_not_pushed_out() {
    let rig = rig(Limits { connections: 1, ..patient() }, None).await;
    let mut slow = rig.connect().await;
    slow.write_all(SLOW_REQUEST).await.unwrap();
    rig.pages.arrived.notified().await;
    let mut waiting = rig.connect().await;
    waiting.write_all(REQUEST).await.unwrap();
    rig.pages.go_on.notify_one();
    assert!(until_closed(&mut slow).await.ends_with("hello"));
    ask(&mut waiting).await;
}

#[tokio::test]
async fn one_address_has_its_share_and_no_more() {
    let rig = rig(Limits { per_address: Some(1), ..patient() }, None).await;
    let mut busy = rig.connect().await;
    busy.write_all(SLOW_REQUEST).await.unwrap();
    rig.pages.arrived.notified().await;
    let mut second = rig.connect().await;
    let _ = second.write_all(REQUEST).await;
    assert_eq!(until_closed(&mut second).await, "", "refused");
    rig.pages.go_on.notify_one();
    assert!(until_closed(&mut busy).await.ends_with("hello"));
    ask(&mut rig.connect().await).await;
}

#[tokio::test]
async fn what_is_in_flight_is_answered_after_the_stop_and_then_all_ends() {
    let rig = rig(Limits { drain: LONG, ..patient() }, None).await;
    let mut slow = rig.connect().await;
    slow.write_all(SLOW_REQUEST).await.unwrap();
    rig.pages.arrived.notified().await;
    let mut idle = rig.connect().await;
    ask(&mut idle).await;
    rig.stop.cancel();
    assert_eq!(until_closed(&mut idle).await, "");
    rig.pages.go_on.notify_one();
    assert!(until_closed(&mut slow).await.ends_with("hello"));
    timeout(PATIENCE, rig.serving).await.expect("the server ends").unwrap();
}

#[tokio::test]
async fn a_request_that_does_not_end_holds_the_end_up_for_a_while_only() {
    let rig = rig(Limits { drain: SHORT, ..patient() }, None).await;
    let mut slow = rig.connect().await;
    slow.write_all(SLOW_REQUEST).await.unwrap();
    rig.pages.arrived.notified().await;
    rig.stop.cancel();
    timeout(PATIENCE, rig.serving).await.expect("the server ends").unwrap();
    assert_eq!(until_closed(&mut slow).await, "");
}

fn certificates() -> (Arc<ServerConfig>, TlsConnector) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    (Arc::new(server), TlsConnector::from(Arc::new(client)))
}
