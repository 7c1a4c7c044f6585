//! The load: requests at times that are fixed beforehand.
//!
//! Arrivals do not wait for answers, and latency counts from the time at which a request was due, so a
//! service that stalls is charged for everyone who came meanwhile.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{f64::consts::TAU, io, thread};

use anyhow::Context;
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::machine::ClientGroup;
use super::serve::ANSWER;
use super::{DEADLINE, WARM_UP};
use crate::{Outcome, output};
use bench::percentile;

/// Send requests and say how long the answers took
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[arg(long)]
    address: SocketAddr,
    #[arg(long)]
    seconds: u16,
    #[arg(long)]
    rate: f64,
    #[arg(long)]
    seed: u64,
}

/// Clients that take turns. So many that none is still waiting when its next turn comes.
const CLIENTS: usize = 64;

/// A client that hears nothing for so long counts the answer as lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// From one rush hour to the next.
const SWING: Duration = Duration::from_secs(10);

/// How far the rate goes up and down around its average.
const SWING_SHARE: f64 = 0.8;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: demo\r\n\r\n";

/// What became of the requests of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Latency {
    pub(super) requests: usize,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
    /// Answers that came after the deadline, or never.
    pub(super) missed_percent: f64,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        // The parent says when, and ends this process by closing its input.
        let mut go = String::new();
        io::stdin().read_line(&mut go)?;
        thread::spawn(|| {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            std::process::exit(1);
        });
        let length = Duration::from_secs(self.seconds.into()) + WARM_UP;
        let arrivals = Arc::new(arrivals(self.rate, length, self.seed));
        let answers = Arc::new(Mutex::new(Vec::with_capacity(arrivals.len())));
        let start = Instant::now() + Duration::from_millis(100);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (arrivals, answers) = (arrivals.clone(), answers.clone());
                thread::spawn(move || {
                    let own = arrivals.iter().skip(number).step_by(CLIENTS);
                    let mine = Client::new(self.address).send_all(start, own);
                    answers.lock().unwrap_or_else(PoisonError::into_inner).extend(mine);
                })
            })
            .collect();
        for client in clients {
            anyhow::ensure!(client.join().is_ok(), "a client panicked");
        }
        let answers = std::mem::take(&mut *answers.lock().unwrap_or_else(PoisonError::into_inner));
        output::print(&serde_json::to_string(&Latency::of(answers))?)?;
        Ok(Outcome::Done)
    }
}

/// One connection, made anew after an error.
struct Client {
    address: SocketAddr,
    connection: Option<TcpStream>,
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    /// Latencies of what was due after the warm-up.
    fn send_all<'a>(
        mut self,
        start: Instant,
        arrivals: impl Iterator<Item = &'a Duration>,
    ) -> Vec<Duration> {
        let mut latencies = Vec::new();
        for arrival in arrivals {
            let due = start + *arrival;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let latency = match self.send() {
                Ok(()) => due.elapsed(),
                Err(_) => {
                    self.connection = None;
                    PATIENCE.max(due.elapsed())
                }
            };
            if *arrival >= WARM_UP {
                latencies.push(latency);
            }
        }
        latencies
    }

    fn send(&mut self) -> io::Result<()> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let connection = TcpStream::connect_timeout(&self.address, PATIENCE)?;
                connection.set_nodelay(true)?;
                connection.set_read_timeout(Some(PATIENCE))?;
                none.insert(connection)
            }
        };
        connection.write_all(REQUEST)?;
        let mut answer = [0; ANSWER.len()];
        connection.read_exact(&mut answer)
    }
}

/// The same for the same seed: a Poisson process whose rate swings.
fn arrivals(rate: f64, length: Duration, seed: u64) -> Vec<Duration> {
    let highest = rate * (1.0 + SWING_SHARE);
    let mut random = Random(seed ^ 0xD1B5_4A32_D192_ED03);
    let mut at = 0.0;
    let mut arrivals = Vec::new();
    loop {
        at += -(1.0 - random.next()).ln() / highest;
        if at >= length.as_secs_f64() {
            return arrivals;
        }
        let now = rate * (1.0 + SWING_SHARE * (TAU * at / SWING.as_secs_f64()).sin());
        if random.next() < now / highest {
            arrivals.push(Duration::from_secs_f64(at));
        }
    }
}

/// Even numbers from 0 to 1 (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Latency {
    fn of(mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        let at = |per_mille: usize| {
            let latency = percentile(&latencies, per_mille).unwrap_or_default();
            (latency.as_secs_f64() * 1e5).round() / 100.0
        };
        let missed = latencies.iter().filter(|latency| **latency > DEADLINE).count();
        let missed_percent = 100.0 * missed as f64 / latencies.len().max(1) as f64;
        Self {
            requests: latencies.len(),
            p50_ms: at(500),
            p99_ms: at(990),
            p999_ms: at(999),
            missed_percent: (missed_percent * 100.0).round() / 100.0,
        }
    }
}

/// The load as a process in a control group of its own.
pub(super) struct Driver<'a> {
    pub(super) address: SocketAddr,
    pub(super) seconds: u16,
    pub(super) rate: f64,
    pub(super) seed: u64,
    pub(super) group: &'a ClientGroup,
}

impl Driver<'_> {
    pub(super) async fn run(&self) -> anyhow::Result<Latency> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["demo", "drive", "--address", &self.address.to_string()])
            .args(["--seconds", &self.seconds.to_string(), "--rate", &self.rate.to_string()])
            .args(["--seed", &self.seed.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the load")?;
        self.group.enter(child.id().context("the load has ended")?)?;
        // Held until the answers are there.
        let mut input = child.stdin.take().context("the load has no input")?;
        input.write_all(b"go\n").await?;
        let said = child.wait_with_output().await?;
        drop(input);
        anyhow::ensure!(said.status.success(), "the load failed: {}", said.status);
        Ok(serde_json::from_slice(&said.stdout)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_the_same_for_a_seed_and_swing_around_the_rate() {
        let length = Duration::from_secs(100);
        let one = arrivals(400.0, length, 7);
        assert_eq!(one, arrivals(400.0, length, 7));
        assert_ne!(one, arrivals(400.0, length, 8));
        assert!((39_000..41_000).contains(&one.len()), "{}", one.len());
        assert!(one.is_sorted());
        // The first half of every swing is the busy one.
        let swing = SWING.as_secs_f64();
        let busy = one.iter().filter(|at| at.as_secs_f64() % swing < swing / 2.0).count();
        assert!(busy > one.len() * 2 / 3, "{busy} of {}", one.len());
    }

    #[test]
    fn percentiles_are_exact_and_late_answers_are_missed() {
        let latency = Latency::of((1..=1_000).rev().map(Duration::from_millis).collect());
        let want = Latency {
            requests: 1_000,
            p50_ms: 500.0,
            p99_ms: 990.0,
            p999_ms: 999.0,
            missed_percent: 98.0,
        };
        assert_eq!(latency, want);
        assert_eq!(Latency::of(Vec::new()).missed_percent, 0.0);
    }

    #[test]
    fn nobody_at_the_address_is_an_answer_that_never_came() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let start = Instant::now().checked_sub(WARM_UP).unwrap();
        let sent = Client::new(address).send_all(start, [WARM_UP].iter());
        assert!(sent.iter().all(|latency| *latency >= PATIENCE), "{sent:?}");
        assert_eq!(sent.len(), 1);
    }
}
