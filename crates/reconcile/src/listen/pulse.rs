//! When has a connection been silent for too long?
//!
//! ```text
//! accepted ── nothing ──> first byte ── head ──> request ... answer ── idle ──> next byte ── head ──>
//!          first_byte                head        no limit here        idle
//! ```
//!
//! An HTTP/2 client may say things between requests (it answers pings), so bytes alone do not begin
//! the head of a request there; such a connection is idle from the end of its last request on.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Limits;

/// How an HTTP/2 connection begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// What a connection has done so far.
#[derive(Debug)]
pub(super) struct Pulse {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    protocol: Protocol,
    has_asked: bool,
    in_flight: usize,
    /// The end of the last request, or the start of the connection.
    idle_since: Instant,
    /// When the head of a request began to arrive.
    head_since: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// So many bytes of the preface have arrived, and nothing else.
    Unknown(usize),
    Http1,
    Http2,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// Not a byte has come.
    Said,
    /// The head of a request does not end.
    Head,
    /// The next request does not come.
    Idle,
}

/// Who goes first when connections are short: those that never asked, and then the longest idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    has_asked: bool,
    idle_since: Instant,
}

impl Pulse {
    pub(super) fn new() -> Self {
        let state = State {
            protocol: Protocol::Unknown(0),
            has_asked: false,
            in_flight: 0,
            idle_since: Instant::now(),
            head_since: None,
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// The handshake is over: the client has the word.
    pub(super) fn begin(&self) {
        self.state.lock().idle_since = Instant::now();
    }

    /// Bytes came in.
    pub(super) fn read(&self, bytes: &[u8]) {
        let mut state = self.state.lock();
        let is_first = state.protocol == Protocol::Unknown(0);
        state.protocol = state.protocol.after(bytes);
        let may_begin = state.in_flight == 0 && state.protocol != Protocol::Http2;
        let begins = may_begin && state.head_since.is_none();
        if begins {
            state.head_since = Some(Instant::now());
        } else if state.protocol == Protocol::Http2 {
            // What began as the head of a request was the preface, in pieces.
            state.head_since = None;
        }
        drop(state);
        if begins || is_first {
            self.changed.notify_one();
        }
    }

    /// A request came in; it is in flight until the value is dropped.
    pub(super) fn fly(self: &Arc<Self>) -> Flight {
        let mut state = self.state.lock();
        state.in_flight += 1;
        state.has_asked = true;
        state.head_since = None;
        drop(state);
        Flight(self.clone())
    }

    /// `None` while a request is being answered.
    pub(super) fn rank(&self) -> Option<Rank> {
        let state = self.state.lock();
        let (has_asked, idle_since) = (state.has_asked, state.idle_since);
        (state.in_flight == 0).then_some(Rank { has_asked, idle_since })
    }

    /// Waits until the connection has been silent for too long.
    pub(super) async fn until_silent(&self, limits: &Limits) -> Silence {
        loop {
            let deadline = self.state.lock().deadline(limits);
            match deadline {
                Some((at, silence)) if at <= Instant::now() => return silence,
                Some((at, _)) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }
}

impl State {
    fn deadline(&self, limits: &Limits) -> Option<(Instant, Silence)> {
        if self.in_flight > 0 {
            return None;
        }
        let idle = match self.protocol {
            Protocol::Unknown(0) => (self.idle_since + limits.first_byte, Silence::Said),
            _ => (self.idle_since + limits.idle, Silence::Idle),
        };
        let head = self.head_since.map(|since| (since + limits.head, Silence::Head));
        Some(head.filter(|(at, _)| *at < idle.0).unwrap_or(idle))
    }
}

impl Protocol {
    fn after(self, bytes: &[u8]) -> Self {
        let Self::Unknown(seen) = self else { return self };
        let rest = PREFACE.get(seen..).unwrap_or_default();
        let common = rest.iter().zip(bytes).take_while(|(want, got)| want == got).count();
        match common {
            _ if common == rest.len() => Self::Http2,
            _ if common == bytes.len() => Self::Unknown(seen + common),
            _ => Self::Http1,
        }
    }
}

/// A request that is being answered, up to the last byte of its answer.
#[derive(Debug)]
pub(super) struct Flight(Arc<Pulse>);

impl Drop for Flight {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.idle_since = Instant::now();
        drop(state);
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limits() -> Limits {
        let seconds = Duration::from_secs;
        Limits {
            first_byte: seconds(10),
            head: seconds(5),
            idle: seconds(100),
            ..Limits::default()
        }
    }

    async fn silent_after(pulse: &Pulse) -> (Silence, u64) {
        let start = Instant::now();
        let silence = pulse.until_silent(&limits()).await;
        (silence, start.elapsed().as_secs())
    }

    #[test]
    fn the_preface_may_come_in_pieces() {
        let after = |pieces: &[&[u8]]| {
            pieces.iter().fold(Protocol::Unknown(0), |protocol, piece| protocol.after(piece))
        };
        assert_eq!(after(&[b"P", b"RI * HTTP/2.0\r\n"]), Protocol::Http2);
        assert_eq!(after(&[b"PRI * HTTP/2.0\r\n\r\nSM"]), Protocol::Http2);
        assert_eq!(after(&[b"P", b"OST /"]), Protocol::Http1);
        assert_eq!(after(&[b"GET / HTTP/1.1"]), Protocol::Http1);
        assert_eq!(after(&[b"PRI"]), Protocol::Unknown(3));
        assert_eq!(after(&[b"", b""]), Protocol::Unknown(0));
    }

    #[tokio::test(start_paused = true)]
    async fn every_silence_has_its_own_limit() {
        let pulse = Arc::new(Pulse::new());
        assert_eq!(silent_after(&pulse).await, (Silence::Said, 10));
        pulse.begin();
        pulse.read(b"GET /");
        assert_eq!(silent_after(&pulse).await, (Silence::Head, 5));
        drop(pulse.fly());
        assert_eq!(silent_after(&pulse).await, (Silence::Idle, 100));
        drop(pulse.fly());
        pulse.read(b"GET /");
        assert_eq!(silent_after(&pulse).await, (Silence::Head, 5), "of the second request");
    }

    #[tokio::test(start_paused = true)]
    async fn pings_are_no_request_and_do_not_prolong_a_life() {
        let pulse = Arc::new(Pulse::new());
        let (start, rest) = PREFACE.split_at(1);
        pulse.read(start);
        pulse.read(rest);
        let pinging = async {
            loop {
                tokio::time::sleep(Duration::from_secs(30)).await;
                pulse.read(b"an answer to a ping");
            }
        };
        let silent = tokio::select! {
            silent = silent_after(&pulse) => silent,
            () = pinging => unreachable!("pings do not end"),
        };
        assert_eq!(silent, (Silence::Idle, 100));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_may_take_as_long_as_it_likes() {
        let pulse = Arc::new(Pulse::new());
        pulse.read(b"GET /watch");
        let (flight, start) = (pulse.fly(), Instant::now());
        let answering = async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            drop(flight);
        };
        let limits = limits();
        let (silence, ()) = tokio::join!(pulse.until_silent(&limits), answering);
        assert_eq!((silence, start.elapsed().as_secs()), (Silence::Idle, 3_700));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_never_asked_goes_before_whoever_idles() {
        let asked = Arc::new(Pulse::new());
        drop(asked.fly());
        tokio::time::advance(Duration::from_secs(1)).await;
        let silent = Arc::new(Pulse::new());
        let busy = Arc::new(Pulse::new());
        let _flight = busy.fly();
        assert!(silent.rank() < asked.rank(), "though it is younger");
        assert_eq!(busy.rank(), None);
    }
}
