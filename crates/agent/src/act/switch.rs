//! Who may turn acting off, and how is everything given back without an agent?
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
//! to. Without an agent, [`give_back`] does its work from the ledger alone.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use api::protocol::name::config_map;
use api::protocol::node::SWITCH;
use host::Reading;
use host::cgroup::Tree;
use host::fs::HostFs;
use qos::wish::Target;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::besides::{self, Besides};
use super::ledger::{self, Entry};
use super::place::KnobRef;
use super::wake;
use super::{Arbiter, Files, Ledger, LedgerError};
use crate::durable::{self, PRIVATE};
use crate::node_state::NodeState;

/// Turns acting off while it exists.
const OFF: &str = "off";
/// Which switch the agent has obeyed: the number in the file above.
const OBEYED: &str = "off.obeyed";

/// What was in files before us.
const LEDGER: &str = "ledger";
const FILES: &str = "files";

/// Which boot of the machine the ledger is about: control groups do not outlive it.
const BOOT: &str = "boot";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

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

/// A file that does not have the value that was found in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    pub place: String,
    pub found: String,
    pub now: String,
}

/// What came of turning off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Given {
    /// Files that we had changed.
    pub held: usize,
    /// Those that are not as they were found.
    pub left: Vec<Left>,
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

/// Opens the ledger of this boot; one of an earlier boot tells of groups that are gone.
pub fn open_ledger(dir: &Path) -> Result<Ledger, SwitchError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SwitchError::File { path, source }
    };
    fs::create_dir_all(dir).map_err(failed(dir))?;
    let boot = fs::read_to_string(BOOT_ID).unwrap_or_default();
    let (mark, path) = (dir.join(BOOT), dir.join(LEDGER));
    if fs::read_to_string(&mark).ok().as_deref() != Some(&boot) {
        for path in std::iter::once(path.clone()).chain(lists(dir)) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&path)(error));
                }
                _ => {}
            }
        }
        durable::replace(&mark, boot.as_bytes()).map_err(failed(&mark))?;
    }
    Ok(Ledger::open(&path)?)
}

/// Opens what was found in files that are no control groups. Call it after [`open_ledger`].
pub fn open_files(dir: &Path, fs: Arc<dyn HostFs>) -> Files {
    Files::open(fs, &dir.join(FILES))
}

/// The lists of what is kept besides the ledger: each is an array, empty when nothing is held.
fn lists(dir: &Path) -> Vec<PathBuf> {
    let files = dir.join(FILES);
    let mut lists = besides::lists(&files).to_vec();
    lists.push(files);
    lists
}

/// What those lists hold, one by one.
fn listed(dir: &Path) -> Vec<String> {
    let read = |path: &PathBuf| -> Vec<serde_json::Value> {
        let text = fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    };
    lists(dir).iter().flat_map(read).map(|kept| kept.to_string()).collect()
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

/// Turns acting off, waits until everything is given back, by the running agent or by ourselves, and
/// reads every file to be sure.
pub fn turn_off(dir: &Path, tree: &Tree, lock: &Path, off: &Off) -> Result<Given, SwitchError> {
    let path = dir.join(OFF);
    let failed = |source| SwitchError::File { path: path.clone(), source };
    let (held, listed_before) = (held(dir), listed(dir).len());
    fs::create_dir_all(dir).map_err(failed)?;
    let text = serde_json::to_string(off).map_err(|error| failed(error.into()))?;
    durable::replace(&path, (text + "\n").as_bytes()).map_err(failed)?;
    let end = Instant::now() + PATIENCE;
    let by_agent = loop {
        if let Some(_lock) = try_lock(lock) {
            give_back(dir, tree, end)?;
            break false;
        }
        let is_clean = is_obeyed(dir, off) && self::held(dir).is_empty() && listed(dir).is_empty();
        if is_clean || Instant::now() >= end {
            break true;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let count = held.len().saturating_add(listed_before);
    let is_unanswered = by_agent && !is_obeyed(dir, off);
    Ok(Given { held: count, left: not_as_found(tree, &held), by_agent, is_unanswered })
}

/// Gives everything back from the ledger alone.
pub fn give_back(dir: &Path, tree: &Tree, end: Instant) -> Result<(), SwitchError> {
    let start = Instant::now();
    let mut arbiter = Arbiter::new(tree.clone(), open_ledger(dir)?);
    let mut files = open_files(dir, tree.shared_fs());
    let mut besides = Besides::open(tree, files.path());
    wake::sweep_everywhere(tree);
    loop {
        besides.give_back(tree);
        arbiter.settle(start.elapsed());
        files.settle(start.elapsed());
        let is_clean = arbiter.is_clean() && files.held() == 0 && besides.held() == 0;
        if is_clean || Instant::now() >= end {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Files that are not as they were found, for people.
pub fn held_places(dir: &Path) -> Vec<String> {
    held(dir).into_keys().map(|knob| Target::from(knob).to_string()).chain(listed(dir)).collect()
}

/// What the ledger tells, without touching it.
fn held(dir: &Path) -> BTreeMap<KnobRef, Entry> {
    ledger::read(&dir.join(LEDGER)).unwrap_or_default()
}

/// Reads every place; those whose group is gone are as good as given back.
fn not_as_found(tree: &Tree, held: &BTreeMap<KnobRef, Entry>) -> Vec<Left> {
    let differs = |(place, entry): (&KnobRef, &Entry)| {
        let now = place.text(tree)?;
        (!place.is_as_found(tree, &now, &entry.found)).then(|| Left {
            place: Target::from(place.clone()).to_string(),
            found: entry.found.clone(),
            now,
        })
    };
    held.iter().filter_map(differs).collect()
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

impl KnobRef {
    /// What the file says; `None` when it is gone.
    fn text(&self, tree: &Tree) -> Option<String> {
        match tree.get_text(&self.group, self.knob) {
            Ok(Reading::Value((text, _))) => Some(text),
            _ => None,
        }
    }
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
            Given { held: 0, left: Vec::new(), by_agent: true, is_unanswered: false }
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
