//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Limits;
use super::pulse::{Flight, Pulse, Silence};
use super::stall::Stalling;

/// How often an HTTP/2 client is asked whether it is still there.
const PING: Duration = Duration::from_secs(30);

/// Answers requests until the client goes, is silent for too long, or we are told to stop.
pub(super) async fn converse<S, B>(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    service: S,
    limits: Arc<Limits>,
    pulse: Arc<Pulse>,
    stop: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Send + Sync + 'static,
    S::Future: Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    // An answer must not wait until the client has confirmed the one before. A socket that refuses
    // is closing, which shows soon enough.
    let _ = stream.set_nodelay(true);
    let stream = Stalling::new(stream, limits.stall);
    let Some(acceptor) = acceptor else {
        return talk(stream, service, &limits, pulse, &stop).await;
    };
    let handshake = tokio::select! {
        () = stop.cancelled() => return,
        handshake = timeout(limits.handshake, acceptor.accept(stream)) => handshake,
    };
    match handshake {
        Ok(Ok(stream)) => talk(stream, service, &limits, pulse, &stop).await,
        Ok(Err(error)) => debug!(%error, "a client gave up during the handshake"),
        Err(_) => debug!("a client took too long for the handshake"),
    }
}

async fn talk<T, S, B>(
    stream: T,
    service: S,
    limits: &Limits,
    pulse: Arc<Pulse>,
    stop: &CancellationToken,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Send + Sync + 'static,
    S::Future: Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    pulse.begin();
    let flying = pulse.clone();
    let service = service_fn(move |request| {
        let (flight, answer) = (flying.fly(), service.call(request));
        async move {
            let response = answer.await?;
            Ok::<_, Infallible>(response.map(|body| FlyingBody { body, _flight: flight }))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_buf_size(limits.head_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(PING);
    let io = TokioIo::new(Heard { stream, pulse: pulse.clone() });
    let mut conversation = pin!(builder.serve_connection(io, service).into_owned());
    let silence = tokio::select! {
        ended = conversation.as_mut() => return report(ended),
        () = stop.cancelled() => None,
        silence = pulse.until_silent(limits) => Some(silence),
    };
    if let Some(silence) = silence {
        debug!(?silence, "a client was silent for too long");
        if silence != Silence::Idle {
            return;
        }
    }
    // What is in flight is answered, and a request that has just left the client is not lost.
    conversation.as_mut().graceful_shutdown();
    if let Ok(ended) = timeout(limits.drain, conversation).await {
        report(ended);
    }
}

fn report(ended: Result<(), Box<dyn Error + Send + Sync>>) {
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}

/// A stream that tells what it hears.
struct Heard<T> {
    stream: T,
    pulse: Arc<Pulse>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Heard<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        match buffer.filled().get(before..) {
            Some(bytes) if !bytes.is_empty() => self.pulse.read(bytes),
            _ => {}
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Heard<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The body of an answer; its request is in flight until it has gone.
struct FlyingBody<B> {
    body: B,
    _flight: Flight,
}

impl<B: Body + Unpin> Body for FlyingBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
