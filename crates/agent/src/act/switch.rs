//! Who may turn acting off, and how is everything restored without an agent?
//!
//! | where | turned by | needs |
//! |---|---|---|
//! | a file in the agent's directory | `tidepool off` and `tidepool on` on the machine | nothing else |
//! | annotation `tidepool.io/switch: off` of the Node | `kubectl annotate` | the API server |
//! | `tidepool-switch-config` in the NodeSLO's extensions | the cluster's configuration | the manager |
//!
//! The first that says off wins, so that a machine in trouble can be saved by hand. A running agent
//! looks at the file a few times a second and answers with a second one: from then on it wants nothing
//! of the kernel. [`turn_off`] waits for that answer, because an agent that holds nothing yet may be about
//! to. Without an agent, [`restore`] does its work from the ledger alone.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use api::protocol::name::config_map;
use api::protocol::node::SWITCH;
use host::cgroup::Tree;
use parking_lot::Mutex;
use qos::wish::Target;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::ledger::{self, Content, Entry};
use super::wake;
use super::writer::{Devices, Writer};
use super::{Arbiter, Ledger, LedgerError};
use crate::durable::{self, PRIVATE};
use qos::node::NodeState;

/// Turns acting off while it exists.
const OFF: &str = "off";
/// Which switch the agent has obeyed: the number in the file above.
const OBEYED: &str = "off.obeyed";

/// What every target held before it was changed.
const LEDGER: &str = "ledger";

/// How long everything may take.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// What the switch's file says. One that cannot be read, or was made by hand, means off as well.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Off {
    /// For people.
    pub reason: String,
    /// Tells this turn of the switch from earlier ones.
    id: u64,
}

impl Off {
    pub fn new(reason: String) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { reason, id: u64::try_from(since.as_nanos()).unwrap_or_default() }
    }

    /// Whom the agent names while it obeys.
    pub fn by(&self) -> String {
        "this machine (tidepool off)".to_owned()
    }
}

/// A target that does not hold its original value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// The target.
    pub place: String,
    /// Its original value.
    pub found: String,
    pub now: String,
}

/// What came of turning off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restoration {
    /// Targets that had been changed, of every kind.
    pub held: usize,
    /// Those that do not hold their original value.
    pub left: Vec<Leftover>,
    /// Whether a running agent did it.
    pub by_agent: bool,
    /// An agent runs and did not answer in time: it may still act.
    pub is_unanswered: bool,
}

/// The switch of this machine; `None` while it is on.
pub fn local(dir: &Path) -> Option<Off> {
    match fs::read(dir.join(OFF)) {
        Ok(text) => Some(serde_json::from_slice(&text).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(Off::default()),
    }
}

/// Answers that this turn of the switch is obeyed: nothing is wanted of the kernel any more.
pub fn obey(dir: &Path, off: &Off) -> Result<(), SwitchError> {
    let path = dir.join(OBEYED);
    let written = durable::replace(&path, off.id.to_string().as_bytes());
    written.map_err(|source| SwitchError::File { path, source })
}

fn is_obeyed(dir: &Path, off: &Off) -> bool {
    fs::read_to_string(dir.join(OBEYED)).is_ok_and(|id| id == off.id.to_string())
}

/// Who turned acting off in the cluster.
pub fn cluster(state: &NodeState) -> Option<String> {
    if state.node.as_ref().is_some_and(|node| node.is_off) {
        return Some(format!("annotation {} of the Node", SWITCH.name));
    }
    state.slo.policy.switch.is_off.then(|| format!("{} of the NodeSLO", config_map::SWITCH))
}

/// Opens the ledger of an agent's directory.
pub fn open_ledger(dir: &Path) -> Result<Ledger, SwitchError> {
    Ok(Ledger::open(&dir.join(LEDGER))?)
}

/// Turns acting on; whether it was off.
pub fn turn_on(dir: &Path) -> Result<bool, SwitchError> {
    let path = dir.join(OFF);
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(SwitchError::File { path, source }),
    }
}

/// Turns acting off, waits until everything is restored, by the running agent or by ourselves, and reads every
/// target to be sure.
pub fn turn_off(
    dir: &Path,
    tree: &Tree,
    lock: &Path,
    off: &Off,
) -> Result<Restoration, SwitchError> {
    turn_off_with(dir, tree, lock, off, || Devices::of(tree))
}

pub(super) fn turn_off_with(
    dir: &Path,
    tree: &Tree,
    lock: &Path,
    off: &Off,
    devices: impl Fn() -> Devices,
) -> Result<Restoration, SwitchError> {
    let path = dir.join(OFF);
    let failed = |source| SwitchError::File { path: path.clone(), source };
    fs::create_dir_all(dir).map_err(failed)?;
    let text = serde_json::to_string(off).map_err(|error| failed(error.into()))?;
    let before = held(dir);
    durable::replace(&path, (text + "\n").as_bytes()).map_err(failed)?;
    let before = before?;
    let count = before.len();
    let end = Instant::now() + PATIENCE;
    let by_agent = loop {
        if let Some(_lock) = try_lock(lock) {
            restore(dir, tree, devices(), end)?;
            break false;
        }
        let is_clean = is_obeyed(dir, off) && held(dir)?.entries.is_empty();
        if is_clean || Instant::now() >= end {
            break true;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let is_unanswered = by_agent && !is_obeyed(dir, off);
    let left = leftovers(tree, devices(), before, &held(dir)?).map_err(failed)?;
    Ok(Restoration { held: count, left, by_agent, is_unanswered })
}

/// Restores everything from the ledger alone.
pub(super) fn restore(
    dir: &Path,
    tree: &Tree,
    devices: Devices,
    end: Instant,
) -> Result<(), SwitchError> {
    let start = Instant::now();
    let mut arbiter = Arbiter::with_devices(tree.clone(), open_ledger(dir)?, devices);
    wake::sweep_everywhere(tree);
    loop {
        arbiter.settle(start.elapsed());
        if arbiter.is_clean() || Instant::now() >= end {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Targets that may not hold their original value, for people.
pub fn held_places(dir: &Path) -> Result<Vec<String>, SwitchError> {
    let Content { entries, unknown } = held(dir)?;
    Ok(entries.keys().map(ToString::to_string).chain(unknown).collect())
}

/// What the ledger says, without touching it.
fn held(dir: &Path) -> Result<Content, SwitchError> {
    Ok(ledger::peek(&dir.join(LEDGER))?)
}

/// Reads every target that was held; those that are gone are as good as restored.
fn leftovers(
    tree: &Tree,
    devices: Devices,
    before: Content,
    after: &Content,
) -> io::Result<Vec<Leftover>> {
    let mut held: BTreeMap<Target, Entry> = before.entries.clone();
    held.extend(after.entries.clone());
    let ledger = Arc::new(Mutex::new(Ledger::detached(before)?));
    let mut quick = Writer::quick(tree, &ledger);
    let mut slow = Writer::slow(tree, devices, &ledger);
    let mut left: Vec<Leftover> = Vec::new();
    for (target, entry) in &held {
        let writer = if target.is_slow() { &mut slow } else { &mut quick };
        let now = writer.leftover(target, entry);
        left.extend(now.map(|now| Leftover {
            place: target.to_string(),
            found: entry.original.to_string(),
            now,
        }));
    }
    left.extend(after.unknown.iter().map(|line| Leftover {
        place: line.clone(),
        found: "known to another version".to_owned(),
        now: "unknown".to_owned(),
    }));
    Ok(left)
}

/// The lock of the agent, when nobody holds it.
fn try_lock(path: &Path) -> Option<File> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).ok()?;
    }
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(PRIVATE)
        .open(path)
        .ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use host::fs::FakeFs;

    use super::*;

    fn tree() -> Tree {
        let fixture = "-- sys/fs/cgroup/cgroup.controllers --\ncpu\n\
                       -- sys/fs/cgroup/cgroup.subtree_control --\ncpu\n";
        Tree::find(Arc::new(FakeFs::from_fixture(fixture).unwrap())).unwrap()
    }

    /// An agent that holds nothing when it is turned off may be in the middle of a round.
    #[test]
    fn an_agent_that_holds_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, lock) = (dir.path(), dir.path().join("agent.lock"));
        let _agent = try_lock(&lock).unwrap();
        let is_acting = AtomicBool::new(true);
        let earlier = Off::new("an earlier turn".to_owned());
        obey(dir, &earlier).unwrap();
        let given = thread::scope(|scope| {
            scope.spawn(|| {
                while local(dir).is_none() {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_millis(100));
                is_acting.store(false, Ordering::Release);
                obey(dir, &local(dir).unwrap()).unwrap();
            });
            let given = turn_off(dir, &tree(), &lock, &Off::new(String::new())).unwrap();
            assert!(!is_acting.load(Ordering::Acquire), "off before the agent obeyed");
            given
        });
        assert_eq!(
            given,
            Restoration { held: 0, left: Vec::new(), by_agent: true, is_unanswered: false }
        );
    }

    #[test]
    fn an_agent_that_does_not_answer_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("agent.lock");
        let _agent = try_lock(&lock).unwrap();
        let given = turn_off(dir.path(), &tree(), &lock, &Off::new(String::new())).unwrap();
        assert!(given.by_agent && given.is_unanswered);
    }

    #[test]
    fn a_switch_made_by_hand_is_one() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(local(dir.path()), None);
        fs::write(dir.path().join(OFF), "").unwrap();
        let off = local(dir.path()).unwrap();
        obey(dir.path(), &off).unwrap();
        assert!(is_obeyed(dir.path(), &off));
        assert!(!is_obeyed(dir.path(), &Off::new(String::new())));
        assert!(turn_on(dir.path()).unwrap());
    }
}
