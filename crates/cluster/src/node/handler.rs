//! Asking a container how it is, and telling it what happens: probes and hooks.
//!
//! A probe or hook is a command run inside the container, an HTTP request, a TCP connection, or (a
//! hook) a pause. HTTP statuses from 200 to 399 are good, redirects are not followed. HTTPS and
//! gRPC are not supported and count as failures that say so.

use std::net::IpAddr;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{
    Container, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::process::{Shim, execute};
use super::record::RunDir;

/// A container that runs, as probes and hooks see it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) container: Container,
    pub(crate) dir: RunDir,
    pub(crate) address: IpAddr,
    pub(crate) shim: Shim,
}

impl Target {
    /// The error is what the event says.
    pub(crate) async fn probe(&self, probe: &Probe) -> Result<(), String> {
        let seconds = probe.timeout_seconds.unwrap_or(1).max(1);
        let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or(1));
        if let Some(exec) = &probe.exec {
            return self.run(exec.command.as_deref().unwrap_or_default(), limit).await;
        }
        if let Some(get) = &probe.http_get {
            return limited(limit, self.get(get)).await;
        }
        if let Some(socket) = &probe.tcp_socket {
            return limited(limit, self.connect(socket)).await;
        }
        if probe.grpc.is_some() {
            return Err("grpc probes are not supported by this node".into());
        }
        Ok(())
    }

    pub(crate) async fn hook(
        &self,
        hook: &LifecycleHandler,
        limit: Duration,
    ) -> Result<(), String> {
        if let Some(exec) = &hook.exec {
            return self.run(exec.command.as_deref().unwrap_or_default(), limit).await;
        }
        if let Some(get) = &hook.http_get {
            return limited(limit, self.get(get)).await;
        }
        if let Some(pause) = &hook.sleep {
            let pause = Duration::from_secs(u64::try_from(pause.seconds).unwrap_or(0));
            sleep(pause.min(limit)).await;
        }
        Ok(())
    }

    async fn run(&self, argv: &[String], limit: Duration) -> Result<(), String> {
        match execute(&self.shim, &self.dir, argv, limit).await {
            Ok(Some(done)) if done.code == Some(0) => Ok(()),
            Ok(Some(done)) => {
                let output = done.output.trim_end();
                Err(match done.code {
                    _ if !output.is_empty() => output.to_owned(),
                    Some(code) => format!("command exited with {code}"),
                    None => "command was killed".to_owned(),
                })
            }
            Ok(None) => Err(format!("command timed out after {}s", limit.as_secs())),
            Err(error) => Err(format!("cannot run the command: {error}")),
        }
    }

    async fn connect(&self, socket: &TCPSocketAction) -> Result<(), String> {
        let host = socket.host.clone().unwrap_or_else(|| self.address.to_string());
        let port = self.port(&socket.port)?;
        TcpStream::connect((host.as_str(), port))
            .await
            .map(drop)
            .map_err(|error| format!("dial tcp {host}:{port}: {error}"))
    }

    async fn get(&self, get: &HTTPGetAction) -> Result<(), String> {
        if get.scheme.as_deref().is_some_and(|scheme| !scheme.eq_ignore_ascii_case("http")) {
            return Err("HTTPS probes are not supported by this node".into());
        }
        let host = get.host.clone().filter(|host| !host.is_empty());
        let host = host.unwrap_or_else(|| self.address.to_string());
        let port = self.port(&get.port)?;
        let path = get.path.as_deref().unwrap_or("/");
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let failed =
            |error: &dyn std::fmt::Display| format!("Get \"http://{host}:{port}{path}\": {error}");

        let request = request(get, &host, port, &path).map_err(|error| failed(&error))?;
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.map_err(|error| failed(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        let sent = sender.send_request(request);
        tokio::pin!(sent);
        let response = tokio::select! {
            response = &mut sent => response,
            // A server may close the connection with its answer.
            end = connection => {
                end.map_err(|error| failed(&error))?;
                sent.await
            }
        };
        let response = response.map_err(|error| failed(&error))?;
        match response.status().as_u16() {
            200..=399 => Ok(()),
            status => Err(format!("HTTP probe failed with statuscode: {status}")),
        }
    }

    fn port(&self, port: &IntOrString) -> Result<u16, String> {
        let number = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let mut ports = self.container.ports.iter().flatten();
                let named = ports.find(|port| port.name.as_deref() == Some(name.as_str()));
                named.map(|port| port.container_port).or_else(|| name.parse().ok())
            }
        };
        let number = number.and_then(|number| u16::try_from(number).ok());
        number.filter(|number| *number > 0).ok_or_else(|| format!("no such port: {port:?}"))
    }
}

fn request(
    get: &HTTPGetAction,
    host: &str,
    port: u16,
    path: &str,
) -> Result<Request<Empty<Bytes>>, hyper::http::Error> {
    let mut request =
        Request::builder().method(Method::GET).uri(path).body(Empty::<Bytes>::new())?;
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::try_from(format!("{host}:{port}"))?);
    headers.insert(USER_AGENT, HeaderValue::from_static("kube-probe/1.35"));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    for header in get.http_headers.iter().flatten() {
        let name = HeaderName::try_from(header.name.as_str())?;
        headers.insert(name, HeaderValue::try_from(header.value.as_str())?);
    }
    Ok(request)
}

async fn limited(
    limit: Duration,
    asked: impl Future<Output = Result<(), String>>,
) -> Result<(), String> {
    match timeout(limit, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {}s", limit.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn target(port: u16) -> Target {
        let container = json!({"name": "c", "ports": [{"name": "web", "containerPort": port}]});
        Target {
            container: serde_json::from_value(container).unwrap(),
            dir: RunDir::new("/nowhere"),
            address: "127.0.0.1".parse().unwrap(),
            shim: Shim::own("shim"),
        }
    }

    async fn ask(port: u16, probe: Value) -> Result<(), String> {
        target(port).probe(&serde_json::from_value(probe).unwrap()).await
    }

    /// Answers one request with that status line and returns what was asked.
    async fn serve(answer: &'static str) -> (u16, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = vec![0; 4096];
            let length = stream.read(&mut asked).await.unwrap();
            let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&asked[..length]).into_owned()
        });
        (port, served)
    }

    #[tokio::test]
    async fn http_statuses() {
        let cases = [
            ("200 OK", Ok(())),
            ("302 Found", Ok(())),
            ("400 Bad Request", Err("HTTP probe failed with statuscode: 400".to_owned())),
            ("503 Busy", Err("HTTP probe failed with statuscode: 503".to_owned())),
        ];
        for (answer, want) in cases {
            let (port, served) = serve(answer).await;
            let get = json!({"path": "healthz", "port": "web", "httpHeaders": [{"name": "X-A", "value": "b"}]});
            assert_eq!(ask(port, json!({"httpGet": get})).await, want, "{answer}");
            let asked = served.await.unwrap().to_lowercase();
            assert!(asked.starts_with("get /healthz http/1.1"), "{asked}");
            assert!(
                asked.contains("x-a: b") && asked.contains("user-agent: kube-probe/"),
                "{asked}"
            );
        }
    }

    #[tokio::test]
    async fn connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(ask(port, json!({"tcpSocket": {"port": port}})).await, Ok(()));
        // Nobody answers: the listener accepts connections and says nothing.
        let slow = json!({"httpGet": {"port": port}, "timeoutSeconds": 1});
        assert_eq!(ask(port, slow).await, Err("no answer within 1s".into()));
        drop(listener);
        let refused = ask(port, json!({"tcpSocket": {"port": port}})).await.unwrap_err();
        assert!(refused.starts_with(&format!("dial tcp 127.0.0.1:{port}: ")), "{refused}");
    }

    #[tokio::test]
    async fn what_cannot_be_asked_fails_and_says_so() {
        let cases = [
            (json!({"grpc": {"port": 1}}), "grpc probes are not supported by this node"),
            (
                json!({"httpGet": {"port": 1, "scheme": "HTTPS"}}),
                "HTTPS probes are not supported by this node",
            ),
            (json!({"tcpSocket": {"port": "none"}}), "no such port: String(\"none\")"),
            (json!({"tcpSocket": {"port": 70000}}), "no such port: Int(70000)"),
        ];
        for (probe, want) in cases {
            assert_eq!(ask(1, probe).await, Err(want.to_owned()));
        }
    }
}
