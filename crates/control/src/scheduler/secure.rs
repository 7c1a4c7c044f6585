//! The secure port: the same pages over TLS, for those who may read them.
//!
//! ```text
//! path is open to all ──────────────────────────────> answered
//! bearer token ──TokenReview──> user ──┐
//! no token ─────> system:anonymous ────┴─SubjectAccessReview──> answered, or 403
//! ```
//!
//! The API server knows who somebody is and what they may do; it is asked, and what it says is
//! remembered for a few seconds. When it cannot be asked the answer is no. Client certificates are
//! not looked at.
//!
//! The certificate comes from two files, which are read again every minute, or is made at the
//! start and kept in memory.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::{Request, StatusCode};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use reconcile::listen::{self, Answers, Reply};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::PATIENCE;
use crate::webhook::certificate::{Bundle, CertificateError, certified_key};
use crate::webhook::tls::Serving;

/// How long an answer of the API server counts.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Answers that are remembered at once.
const MOST: usize = 1024;
/// How often certificate files are read again.
const AGAIN: Duration = Duration::from_secs(60);

/// Where and how pages are served over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secure {
    pub listen: SocketAddr,
    /// Certificate and key; made in memory when there are none.
    pub files: Option<(PathBuf, PathBuf)>,
    /// Paths that everybody may read; a `*` at the end stands for any rest.
    pub open: Vec<String>,
}

impl Secure {
    /// kube-scheduler's settings, there.
    pub fn at(listen: SocketAddr) -> Self {
        let open = ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec();
        Self { listen, files: None, open }
    }
}

/// Why there is no certificate to show.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot use the certificate")]
    Certificate(#[from] CertificateError),
}

/// What to show to clients, to begin with.
pub(super) async fn serving(secure: &Secure, now: Timestamp) -> Result<Arc<Serving>, SecureError> {
    let serving = Arc::new(Serving::default());
    match &secure.files {
        Some(files) => serving.replace(load(files).await?),
        None => {
            let address = secure.listen.ip();
            let name =
                if address.is_unspecified() { "127.0.0.1".into() } else { address.to_string() };
            let made = Bundle::make(&name, now)?.certified_key()?;
            serving.replace(made);
        }
    }
    Ok(serving)
}

async fn load((cert, key): &(PathBuf, PathBuf)) -> Result<rustls::sign::CertifiedKey, SecureError> {
    let read = async |path: &PathBuf| {
        let text = tokio::task::spawn_blocking({
            let path = path.clone();
            move || std::fs::read_to_string(path)
        });
        let text = text.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        text.map_err(|source| SecureError::Read { path: path.clone(), source })
    };
    Ok(certified_key(&read(cert).await?, &read(key).await?)?)
}

/// Follows the files until told to stop; what cannot be used changes nothing.
pub(super) async fn renew(
    files: (PathBuf, PathBuf),
    serving: Arc<Serving>,
    stop: CancellationToken,
) {
    let mut is_broken = false;
    loop {
        tokio::select! {
            () = sleep(AGAIN) => {}
            () = stop.cancelled() => return,
        }
        match load(&files).await {
            Ok(key) => {
                serving.replace(key);
                is_broken = false;
            }
            Err(error) => {
                if !is_broken {
                    warn!(%error, "cannot renew the certificate; the old one stays");
                }
                is_broken = true;
            }
        }
    }
}

/// What somebody wants to read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Wish {
    token: Option<String>,
    verb: String,
    path: String,
}

/// Lets those through who may read.
pub(super) struct Guard<A> {
    client: Client,
    open: Vec<String>,
    inner: Arc<A>,
    known: Mutex<HashMap<Wish, Known>>,
}

/// A status and its reason.
type Refusal = (StatusCode, String);

/// What was said, and when.
type Known = (Instant, Result<(), Refusal>);

impl<A: Answers> Answers for Guard<A> {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
        let wish = Wish {
            token: token.filter(|token| !token.is_empty()).map(str::to_owned),
            verb: request.method().as_str().to_ascii_lowercase(),
            path: request.uri().path().to_owned(),
        };
        match self.judge(wish).await {
            Ok(()) => self.inner.answer(request).await,
            Err((status, why)) => listen::text(status, why),
        }
    }
}

impl<A> Guard<A> {
    pub(super) fn new(client: Client, open: Vec<String>, inner: Arc<A>) -> Self {
        Self { client, open, inner, known: Mutex::default() }
    }

    async fn judge(&self, wish: Wish) -> Result<(), Refusal> {
        if self.open.iter().any(|open| covers(open, &wish.path)) {
            return Ok(());
        }
        if let Some((since, verdict)) = self.known.lock().get(&wish)
            && since.elapsed() < REMEMBERED
        {
            return verdict.clone();
        }
        let asking = self.ask(&wish);
        let verdict = match timeout(PATIENCE, asking).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => return Err(unanswered(&error.to_string())),
            Err(_) => return Err(unanswered("it does not answer")),
        };
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.retain(|_, (since, _)| since.elapsed() < REMEMBERED);
        }
        if known.len() < MOST {
            known.insert(wish, (Instant::now(), verdict.clone()));
        }
        verdict
    }

    async fn ask(&self, wish: &Wish) -> kube::Result<Result<(), Refusal>> {
        let user = match &wish.token {
            None => UserInfo {
                username: Some("system:anonymous".to_owned()),
                groups: Some(vec!["system:unauthenticated".to_owned()]),
                ..UserInfo::default()
            },
            Some(token) => match self.identify(token).await? {
                Some(user) => user,
                None => {
                    let text = "the token belongs to nobody\n".to_owned();
                    return Ok(Err((StatusCode::UNAUTHORIZED, text)));
                }
            },
        };
        let name = user.username.clone().unwrap_or_default();
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                groups: user.groups,
                uid: user.uid,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(wish.path.clone()),
                    verb: Some(wish.verb.clone()),
                }),
                resource_attributes: None,
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        if answer.status.is_some_and(|status| status.allowed) {
            return Ok(Ok(()));
        }
        let Wish { verb, path, .. } = wish;
        debug!(user = name, path, "refused a request");
        let text = format!("user {name:?} may not {verb} {path}; give it a role that allows it\n");
        Ok(Err((StatusCode::FORBIDDEN, text)))
    }

    /// Whose token it is.
    async fn identify(&self, token: &str) -> kube::Result<Option<UserInfo>> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: None },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status;
        let status = status.filter(|status| status.authenticated == Some(true));
        Ok(status.map(|status| status.user.unwrap_or_default()))
    }
}

fn unanswered(why: &str) -> Refusal {
    let text = format!("cannot ask the API server who may read this: {why}\n");
    (StatusCode::SERVICE_UNAVAILABLE, text)
}

fn covers(open: &str, path: &str) -> bool {
    match open.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path.trim_end_matches('/') == open.trim_end_matches('/'),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use http::Response;
    use http_body_util::BodyExt;
    use serde_json::{Value, json};

    use super::*;

    /// An API server that knows one token, and lets its owner read metrics.
    fn server(questions: Arc<AtomicU32>) -> Client {
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            questions.fetch_add(1, Ordering::SeqCst);
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await?.to_bytes();
                let mut review: Value = serde_json::from_slice(&body)?;
                if path.ends_with("/tokenreviews") {
                    let is_known = review["spec"]["token"] == "good";
                    review["status"] =
                        json!({"authenticated": is_known, "user": {"username": "prom"}});
                } else {
                    let spec = &review["spec"];
                    let is_fine = spec["user"] == "prom"
                        && spec["nonResourceAttributes"]
                            == json!({"path": "/metrics", "verb": "get"});
                    review["status"] = json!({"allowed": is_fine});
                }
                let body = http_body_util::Full::new(bytes::Bytes::from(review.to_string()));
                Ok::<_, tower::BoxError>(Response::builder().status(201).body(body)?)
            }
        });
        Client::new(service, "default")
    }

    struct Nothing;

    fn wish(token: Option<&str>, verb: &str, path: &str) -> Wish {
        Wish { token: token.map(str::to_owned), verb: verb.to_owned(), path: path.to_owned() }
    }

    #[tokio::test]
    async fn those_who_may_read_get_through() {
        let questions = Arc::new(AtomicU32::new(0));
        let open = vec!["/healthz".to_owned(), "/live*".to_owned()];
        let guard = Guard::new(server(questions.clone()), open, Arc::new(Nothing));
        let cases = [
            ("open to all", wish(None, "get", "/healthz"), 200),
            ("open with a slash", wish(None, "get", "/healthz/"), 200),
            ("open by prefix", wish(Some("bad"), "get", "/livez"), 200),
            ("a neighbour of an open path", wish(None, "get", "/healthzz"), 403),
            ("nobody in particular", wish(None, "get", "/metrics"), 403),
            ("a stranger", wish(Some("bad"), "get", "/metrics"), 401),
            ("the owner", wish(Some("good"), "get", "/metrics"), 200),
            ("the owner, elsewhere", wish(Some("good"), "get", "/configz"), 403),
            ("the owner, writing", wish(Some("good"), "put", "/metrics"), 403),
        ];
        for (name, wish, want) in cases {
            let code = guard.judge(wish).await.map_or_else(|(status, _)| status.as_u16(), |()| 200);
            assert_eq!(code, want, "{name}");
        }
        let asked = questions.load(Ordering::SeqCst);
        guard.judge(wish(Some("good"), "get", "/metrics")).await.unwrap();
        assert_eq!(questions.load(Ordering::SeqCst), asked, "known for a while");
    }

    #[tokio::test]
    async fn an_api_server_that_cannot_be_asked_means_no() {
        let broken = tower::service_fn(|_: Request<kube::client::Body>| async {
            Err::<Response<http_body_util::Empty<bytes::Bytes>>, _>(tower::BoxError::from("gone"))
        });
        let guard = Guard::new(Client::new(broken, "default"), Vec::new(), Arc::new(Nothing));
        let (status, why) = guard.judge(wish(Some("good"), "get", "/metrics")).await.unwrap_err();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(why.contains("API server"), "{why}");
    }

    #[tokio::test]
    async fn certificates_come_from_files_or_are_made() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let mut secure = Secure::at(([127, 0, 0, 1], 0).into());
        serving(&secure, now).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        secure.files = Some((cert.clone(), key.clone()));
        let error = serving(&secure, now).await.err().unwrap().to_string();
        assert!(error.contains("cert.pem"), "{error}");
        let bundle = Bundle::make("127.0.0.1", now).unwrap();
        let parts: HashMap<_, _> = bundle.parts().into_iter().collect();
        std::fs::write(&cert, parts["tls.crt"]).unwrap();
        std::fs::write(&key, parts["tls.key"]).unwrap();
        serving(&secure, now).await.unwrap();
        let other = Bundle::make("127.0.0.1", now).unwrap();
        let others: HashMap<_, _> = other.parts().into_iter().collect();
        std::fs::write(&key, others["tls.key"]).unwrap();
        assert!(serving(&secure, now).await.is_err(), "a key of another certificate");
    }
}
