//! How long do webhooks take to answer?
//!
//! Asked as an API server asks: over TLS, one HTTP/2 connection, each request
//! at its appointed time whether or not the one before has been answered. The
//! time counts from the appointment, so an answer that comes late because
//! others were before it is late.
//!
//! The asking has a thread and a runtime of its own, as in another process, and
//! a second thread that only keeps the time: the runtime's timers tick once a
//! millisecond, which is as long as the answer takes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::certificate::provider;

/// Whom to ask, how often, and about what.
#[derive(Debug, Clone)]
pub struct Questions {
    pub address: SocketAddr,
    /// The name in the server's certificate.
    pub host: String,
    /// Whom to trust, as PEM.
    pub authority: String,
    /// Asked one after the other; together they are one write.
    pub paths: Vec<&'static str>,
    /// An AdmissionReview; `None` gets the paths instead, which costs the way and nothing else.
    pub body: Option<Vec<u8>>,
    pub per_second: u32,
    pub count: u32,
}

/// How long each write was held up, shortest first. Blocks until all are answered.
pub fn measure(questions: &Questions) -> io::Result<Vec<Duration>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut times = runtime.block_on(ask_all(questions))?;
    times.sort_unstable();
    Ok(times)
}

async fn ask_all(questions: &Questions) -> io::Result<Vec<Duration>> {
    let sender = connect(questions).await?;
    let requests: Arc<Vec<Request<Full<Bytes>>>> = Arc::new(requests(questions)?);
    let mut appointments = appointments(questions)?;
    let mut asked = JoinSet::new();
    while let Some(due) = appointments.recv().await {
        let (mut sender, requests) = (sender.clone(), requests.clone());
        asked.spawn(async move {
            for request in requests.iter() {
                ask(&mut sender, request.clone()).await?;
            }
            Ok::<_, io::Error>(due.elapsed())
        });
    }
    let mut times = Vec::new();
    while let Some(time) = asked.join_next().await {
        times.push(time.map_err(io::Error::other)??);
    }
    Ok(times)
}

/// Names each appointment when it has come.
fn appointments(questions: &Questions) -> io::Result<mpsc::Receiver<Instant>> {
    let pause = Duration::from_secs(1) / questions.per_second.max(1);
    let count = questions.count;
    // Room for all of them: whoever keeps the time never waits for whoever asks.
    let (teller, told) = mpsc::channel(usize::try_from(count).unwrap_or(usize::MAX).max(1));
    let tell = move || {
        let start = Instant::now() + pause;
        for index in 0..count {
            let due = start + pause * index;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if teller.try_send(due).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("appointments".to_owned()).spawn(tell)?;
    Ok(told)
}

async fn connect(questions: &Questions) -> io::Result<SendRequest<Full<Bytes>>> {
    let mut roots = RootCertStore::empty();
    let authority =
        rustls::pki_types::CertificateDer::from_pem_slice(questions.authority.as_bytes());
    roots.add(authority.map_err(io::Error::other)?).map_err(io::Error::other)?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(questions.host.clone()).map_err(io::Error::other)?;
    let stream = TcpStream::connect(questions.address).await?;
    stream.set_nodelay(true)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    // Ends with the last sender.
    tokio::spawn(connection);
    Ok(sender)
}

fn requests(questions: &Questions) -> io::Result<Vec<Request<Full<Bytes>>>> {
    let method = if questions.body.is_some() { Method::POST } else { Method::GET };
    let body = Bytes::from(questions.body.clone().unwrap_or_default());
    let request = |path: &&str| {
        let uri: Uri =
            format!("https://{}{path}", questions.host).parse().map_err(io::Error::other)?;
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri;
        let kind = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(request)
    };
    questions.paths.iter().map(request).collect()
}

async fn ask(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> io::Result<()> {
    sender.ready().await.map_err(io::Error::other)?;
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = answer.status();
    answer.into_body().collect().await.map_err(io::Error::other)?;
    if status == StatusCode::OK {
        return Ok(());
    }
    Err(io::Error::other(format!("a webhook answered {status}")))
}
