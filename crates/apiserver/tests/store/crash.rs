//! Does an acknowledged write survive `kill -9`?
//!
//! A child process (this test binary, told by its environment) lets several
//! writers loose on the store and prints every write as it is acknowledged. The
//! parent kills it after a random number of lines, opens the store and compares.
//! The next child goes on where this one was stopped.
//!
//! Each writer owns one object and takes it through a fixed sequence of steps,
//! so a step tells exactly what the object is. After the kill the object must be
//! at the last acknowledged step, or at the one that was under way.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use apiserver::store::{Key, Limits, Revision, Store};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::random::Random;
use crate::support::pod;

const DIR: &str = "TIDEPOOL_TEST_CRASH_DIR";
const SEED: &str = "TIDEPOOL_TEST_SEED";
const WRITERS: u64 = 12;
const ROUNDS: u64 = 200;
/// Every so many steps the object is removed; in between it is replaced.
const LIFE: u64 = 5;

fn key(writer: u64) -> Key {
    pod(["a", "b"][usize::try_from(writer % 2).unwrap()], &format!("writer-{writer}"))
}

/// Objects of very different sizes, with the step at both ends.
fn object(writer: u64, step: u64) -> Value {
    let size = Random::new(writer * 1_000_003 + step).below(12_000);
    let padding = "x".repeat(usize::try_from(size).unwrap());
    json!({ "a": step, "metadata": {}, "padding": padding, "writer": writer, "z": step })
}

fn is_removal(step: u64) -> bool {
    step.is_multiple_of(LIFE)
}

/// The state after this step: nothing, if it was a removal.
fn state_after(writer: u64, step: u64) -> Option<Value> {
    (!is_removal(step)).then(|| object(writer, step))
}

/// What the store holds, without the revision.
fn found(store: &Store, writer: u64) -> Option<(Revision, Value)> {
    let stored = store.get(&key(writer))?;
    let mut value: Value = serde_json::from_slice(&stored.json).expect("objects are never torn");
    let metadata = value["metadata"].as_object_mut().unwrap();
    assert_eq!(metadata.remove("resourceVersion").unwrap(), stored.revision.to_string());
    Some((stored.revision, value))
}

/// Takes the next step, whatever it is for this object.
async fn step(store: &Store, writer: u64, step: u64) -> Revision {
    let key = key(writer);
    let current = store.get(&key).map(|stored| stored.revision);
    let stored = match current {
        None => store.create(key, object(writer, step)).await,
        Some(expected) if is_removal(step) => store.remove(key, json!({}), expected).await,
        Some(expected) => store.replace(key, object(writer, step), expected).await,
    };
    stored.unwrap().revision
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let (dir, steps) = dir.to_str().unwrap().split_once(' ').unwrap();
    println!("\nopening");
    let store = Store::open(Path::new(dir), Limits::default()).unwrap();
    let mut writers = JoinSet::new();
    for (done, writer) in steps.split(' ').zip(0..) {
        let store = store.clone();
        let mut done: u64 = done.parse().unwrap();
        writers.spawn(async move {
            loop {
                done += 1;
                let revision = step(&store, writer, done).await;
                // One write, so that lines of several writers do not mix.
                std::io::stdout()
                    .write_all(format!("{writer} {done} {revision}\n").as_bytes())
                    .unwrap();
            }
        });
    }
    writers.join_all().await;
}

/// Runs a child until it has said `lines` lines, kills it, and returns all it said.
fn run_and_kill(dir: &Path, steps: &[u64], lines: u64) -> Vec<(u64, u64, u64)> {
    let steps: Vec<String> = steps.iter().map(u64::to_string).collect();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::crash_child", "--nocapture"])
        .env(DIR, format!("{} {}", dir.display(), steps.join(" ")))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    said.find(|line| line == "opening").expect("the child starts");
    let mut acknowledged: Vec<String> =
        said.by_ref().take(usize::try_from(lines).unwrap()).collect();
    child.kill().unwrap();
    // What was in the pipe was said before the kill. The last line may be cut.
    acknowledged.extend(said);
    child.wait().unwrap();
    acknowledged
        .iter()
        .filter_map(|line| {
            let mut numbers = line.split(' ').map(|number| number.parse().ok());
            Some((numbers.next()??, numbers.next()??, numbers.next()??))
        })
        .collect()
}

#[test]
fn no_acknowledged_write_is_lost_and_no_object_is_torn() {
    let seed = std::env::var(SEED).map_or(1, |seed| seed.parse().unwrap());
    println!("{SEED}={seed}");
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut steps = vec![0; usize::try_from(WRITERS).unwrap()];
    let mut revision = 1;
    let mut total = 0;
    for round in 0..ROUNDS {
        // Some children are killed while they open the store.
        let lines = random.below(80).saturating_sub(8);
        let acknowledged = run_and_kill(dir.path(), &steps, lines);
        total += acknowledged.len();
        let mut last = vec![None; steps.len()];
        for (writer, step, at) in acknowledged {
            let writer = usize::try_from(writer).unwrap();
            assert_eq!(step, steps[writer] + 1, "round {round}: writer {writer} skipped a step");
            steps[writer] = step;
            last[writer] = Some(at);
            revision = revision.max(at);
        }

        let store = Store::open(dir.path(), Limits::default()).unwrap();
        assert!(store.revision().0 >= revision, "round {round}: revisions went back");
        revision = store.revision().0;
        for (writer, (step, at)) in (0..).zip(steps.iter_mut().zip(last)) {
            let found = found(&store, writer);
            let value = found.as_ref().map(|(_, value)| value);
            if value == state_after(writer, *step).as_ref() {
                let kept = found.as_ref().map(|(revision, _)| revision.0);
                assert!(at.is_none() || kept.is_none() || kept == at, "round {round}: {writer}");
            } else if value == state_after(writer, *step + 1).as_ref() {
                *step += 1;
            } else {
                panic!("round {round}: writer {writer} was at step {step}, found {value:?}");
            }
        }
    }
    assert!(total > 1_000, "{total} acknowledged writes are too few to tell anything");
    println!("{total} acknowledged writes, {ROUNDS} kills, revision {revision}");
}
