//! Where do this process's time and memory go?
//!
//! The reference serves Go's profiles under `/debug/pprof`. Stacks need a sampler that interrupts
//! threads, which this program has not; what the kernel knows of a process is served instead, as
//! text, under the same paths:
//!
//! | path | shows |
//! |---|---|
//! | `/debug/pprof/profile?seconds=N` | CPU time by thread, over that span |
//! | `/debug/pprof/heap`, `allocs` | memory by kind |
//! | `/debug/pprof/goroutine`, `threadcreate` | threads, and what they are doing |
//! | `/debug/pprof/cmdline` | the command line |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use reconcile::listen::{self, Answers, Reply};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

const ROOT: &str = "/debug/pprof";
const LONGEST: u64 = 300;
const USUAL: u64 = 30;
const INDEX: &str = "\
profile    CPU time by thread; ?seconds=30
heap       memory by kind
goroutine  threads, and what they are doing
cmdline    the command line

Stacks are not recorded: use `perf record -g -p PID` on the node.
";

/// Answers questions about the process.
#[derive(Debug)]
pub(super) struct Profiles {
    /// One measurement at a time: each holds a connection for its whole span.
    turn: Semaphore,
}

impl Default for Profiles {
    fn default() -> Self {
        Self { turn: Semaphore::new(1) }
    }
}

impl Answers for Profiles {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if request.method() != Method::GET {
            return listen::text(StatusCode::METHOD_NOT_ALLOWED, "send GET");
        }
        let path = request.uri().path().trim_end_matches('/');
        let Some(what) = path.strip_prefix(ROOT).map(|rest| rest.trim_start_matches('/')) else {
            return listen::text(StatusCode::NOT_FOUND, format!("look under {ROOT}/"));
        };
        let shown = match what {
            "" => Ok(INDEX.to_owned()),
            "cmdline" => read("cmdline"),
            "heap" | "allocs" => memory(),
            "goroutine" | "threadcreate" => threads().map(|threads| list(&threads)),
            "profile" => match seconds(request.uri().query()) {
                Ok(span) => self.measure(span).await,
                Err(why) => return listen::text(StatusCode::BAD_REQUEST, why),
            },
            "block" | "mutex" | "trace" | "symbol" => {
                let text = format!("there is no {what} profile here\n\n{INDEX}");
                return listen::text(StatusCode::NOT_IMPLEMENTED, text);
            }
            _ => return listen::text(StatusCode::NOT_FOUND, INDEX),
        };
        match shown {
            Ok(text) => listen::text(StatusCode::OK, text),
            Err(error) => {
                let text = format!("cannot read /proc/self: {error}\n");
                listen::text(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        }
    }
}

impl Profiles {
    async fn measure(&self, span: Duration) -> io::Result<String> {
        let _turn = self.turn.acquire().await;
        let (start, before) = (Instant::now(), threads()?);
        sleep(span).await;
        Ok(spent(&before, &threads()?, start.elapsed()))
    }
}

/// How long to look, from a query such as `seconds=5`.
fn seconds(query: Option<&str>) -> Result<Duration, String> {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    let asked = pairs.filter_map(|pair| pair.strip_prefix("seconds=")).next_back();
    let seconds = match asked {
        None => Some(USUAL),
        Some(text) => text.parse().ok().filter(|seconds| (1..=LONGEST).contains(seconds)),
    };
    let wrong = || format!("seconds must be a number from 1 to {LONGEST}\n");
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

fn read(file: &str) -> io::Result<String> {
    std::fs::read_to_string(Path::new("/proc/self").join(file))
}

/// One thread as the kernel sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Thread {
    name: String,
    /// The kernel's letter: R runs, S waits.
    state: char,
    ran: Duration,
}

/// All threads by number. One that ends meanwhile is not there.
fn threads() -> io::Result<BTreeMap<u32, Thread>> {
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let file = |file: &str| read(&format!("task/{id}/{file}"));
        if let (Ok(stat), Ok(times)) = (file("stat"), file("schedstat"))
            && let Some(thread) = thread(&stat, &times)
        {
            threads.insert(id, thread);
        }
    }
    Ok(threads)
}

/// Reads a thread's `stat` and `schedstat`.
fn thread(stat: &str, times: &str) -> Option<Thread> {
    // A name may hold anything, brackets too; what follows the last one is plain.
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let state = rest.trim_start().chars().next()?;
    let ran = times.split_whitespace().next()?.parse().ok()?;
    Some(Thread { name, state, ran: Duration::from_nanos(ran) })
}

fn list(threads: &BTreeMap<u32, Thread>) -> String {
    let mut text = format!("{} threads\n\n     id  state  cpu ms  name\n", threads.len());
    for (id, Thread { name, state, ran }) in threads {
        let _ = writeln!(text, "{id:7}  {state:5}  {:6}  {name}", ran.as_millis());
    }
    text
}

/// CPU time between two looks, by name of thread, most first.
fn spent(before: &BTreeMap<u32, Thread>, after: &BTreeMap<u32, Thread>, span: Duration) -> String {
    let mut by_name: BTreeMap<&str, Duration> = BTreeMap::new();
    for (id, thread) in after {
        let earlier = before.get(id).map_or(Duration::ZERO, |own| own.ran);
        *by_name.entry(&thread.name).or_default() += thread.ran.saturating_sub(earlier);
    }
    let mut rows: Vec<(&str, Duration)> = by_name.into_iter().collect();
    rows.sort_by_key(|(name, ran)| (std::cmp::Reverse(*ran), *name));
    let total: Duration = rows.iter().map(|(_, ran)| *ran).sum();
    let cores = |ran: Duration| ran.as_secs_f64() / span.as_secs_f64().max(1e-9);
    let mut text = format!(
        "CPU time over {:.1} s: {:.3} cores\n\n      ms   cores  thread\n",
        span.as_secs_f64(),
        cores(total)
    );
    for (name, ran) in rows {
        let _ = writeln!(text, "{:8.1}  {:6.3}  {name}", ran.as_secs_f64() * 1e3, cores(ran));
    }
    text
}

/// What the kernel counts of this process's memory.
fn memory() -> io::Result<String> {
    let status = read("status")?;
    let mut text = String::new();
    let wanted = ["VmPeak", "VmHWM", "VmRSS", "RssAnon", "RssFile", "RssShmem", "VmData", "VmSwap"];
    for line in status.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name))) {
        let _ = writeln!(text, "{line}");
    }
    if let Ok(rollup) = read("smaps_rollup") {
        text.push('\n');
        text.extend(rollup.lines().skip(1).flat_map(|line| [line, "\n"]));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_read_whatever_they_are_called() {
        let cases = [
            ("12 (worker) S 1 2 3", "5000000 10 3", Some(("worker", 'S', 5))),
            ("12 (a (b) c) R 1", "0 0 0", Some(("a (b) c", 'R', 0))),
            ("12 worker S", "1 2 3", None),
            ("12 (worker) S", "", None),
            ("", "1", None),
        ];
        for (stat, times, want) in cases {
            let found = thread(stat, times);
            let want = want.map(|(name, state, ms)| Thread {
                name: name.to_owned(),
                state,
                ran: Duration::from_millis(ms),
            });
            assert_eq!(found, want, "{stat:?}");
        }
    }

    #[test]
    fn time_between_two_looks_is_summed_by_name() {
        let thread = |name: &str, ms| Thread {
            name: name.to_owned(),
            state: 'R',
            ran: Duration::from_millis(ms),
        };
        let before = BTreeMap::from([(1, thread("main", 10)), (2, thread("worker", 100))]);
        let after = BTreeMap::from([
            (1, thread("main", 20)),
            (2, thread("worker", 600)),
            (3, thread("worker", 500)),
        ]);
        let text = spent(&before, &after, Duration::from_secs(2));
        assert!(text.starts_with("CPU time over 2.0 s: 0.505 cores\n"), "{text}");
        assert!(text.contains("  1000.0   0.500  worker\n    10.0   0.005  main\n"), "{text}");
    }

    #[test]
    fn spans_have_limits() {
        assert_eq!(seconds(None), Ok(Duration::from_secs(30)));
        assert_eq!(seconds(Some("debug=1&seconds=5")), Ok(Duration::from_secs(5)));
        for bad in ["seconds=0", "seconds=301", "seconds=-1", "seconds=x", "seconds="] {
            assert!(seconds(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn this_process_can_be_looked_at() {
        assert!(list(&threads().unwrap()).contains("threads"));
        assert!(memory().unwrap().contains("VmRSS"));
    }
}
