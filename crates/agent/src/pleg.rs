//! Which pods and containers have just come or gone?
//!
//! The kubelet is asked every ten seconds; the control group tree knows at once. A watch on each
//! directory that holds pods, and one on each pod, turn a new directory into an event within
//! milliseconds. Three things can go wrong with watches, and all lead to reading the tree anew:
//!
//! | what | how it shows | then |
//! |---|---|---|
//! | the kernel's queue overflows | an event without a watch | read the tree, compare |
//! | a directory that holds pods goes away, or is not there yet | its parent says so, or the next look | look every second |
//! | no watches to be had (`fs.inotify.max_user_watches`, descriptors) | an error | read the tree every second |
//!
//! Events say only that something changed. Nobody may trust them to be complete or in order: the
//! kubelet's list, or the API server's, decides what runs.

mod tree;
mod watches;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

pub use tree::{Change, Tree};
use watches::{Watches, Woken};

/// How often the tree is read while watches do not do.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How often it is looked whether the watched directories are still the ones at their paths.
const VERIFY: Duration = Duration::from_secs(10);

/// Changes that wait for their reader. When full the newest are dropped: a reader that is that far
/// behind asks for the whole list anyway.
const QUEUE: usize = 128;

/// The tree of control groups together with the kernel's watches on it.
#[derive(Debug)]
pub struct Pleg {
    parents: Vec<PathBuf>,
    tree: Tree,
    watches: Option<Watches>,
    /// Whether a directory that should be watched is not.
    is_blind: bool,
    /// Whether the operator was told that watches do not work.
    told: bool,
}

impl Pleg {
    /// Looks at `parents`, the directories whose children are pods, outermost first.
    pub fn new(parents: Vec<PathBuf>) -> Self {
        let watches = match Watches::new() {
            Ok(watches) => Some(watches),
            Err(error) => {
                warn!(%error, "no watches on control groups: new containers are seen a second late");
                None
            }
        };
        let tree = Tree::new(&parents);
        Self { parents, tree, watches, is_blind: true, told: false }
    }

    /// As [`Pleg::new`], for kernels and limits that give no watches.
    pub fn without_watches(parents: Vec<PathBuf>) -> Self {
        let tree = Tree::new(&parents);
        Self { parents, tree, watches: None, is_blind: true, told: true }
    }

    /// Whether nothing can be missed until the next event.
    pub fn is_watching(&self) -> bool {
        !self.is_blind
    }

    /// Reads the whole tree and gives what changed since it was last known.
    pub fn resync(&mut self) -> Vec<Change> {
        // Watches first: what appears after the listing wakes us.
        let mut is_blind = self.watches.is_none();
        let parents = self.parents.clone();
        for parent in &parents {
            is_blind |= !self.watch(parent);
        }
        let before: Vec<PathBuf> = self.tree.pod_dirs().map(Path::to_path_buf).collect();
        let mut changes = self.tree.read(&self.parents);
        let pods: Vec<PathBuf> = self.tree.pod_dirs().map(Path::to_path_buf).collect();
        for gone in before.iter().filter(|dir| !pods.contains(dir)) {
            self.unwatch(gone);
        }
        for pod in &pods {
            is_blind |= !self.watch(pod);
        }
        // A container may have come between the listing and its pod's watch.
        changes.extend(self.tree.read(&self.parents));
        self.is_blind = is_blind;
        changes
    }

    /// Looks whether the directories that hold pods are still those that are watched.
    pub fn verify(&mut self) -> Vec<Change> {
        let Some(watches) = &mut self.watches else { return self.resync() };
        let is_same = self.parents.iter().all(|dir| watches.add(dir).is_ok_and(|is_new| !is_new));
        if is_same { Vec::new() } else { self.resync() }
    }

    /// What the kernel has queued since the last call.
    pub fn drain(&mut self) -> Vec<Change> {
        let Some(watches) = &mut self.watches else { return self.resync() };
        let woken = match watches.drain() {
            Ok(woken) => woken,
            Err(error) => {
                warn!(%error, "cannot read events of control groups; reading the tree instead");
                return self.resync();
            }
        };
        let mut changes = Vec::new();
        for event in woken {
            match event {
                Woken::Came { dir, name } | Woken::Went { dir, name }
                    if self.parents.contains(&dir.join(&name)) =>
                {
                    debug!(path = %dir.display(), name, "a directory of pods came or went");
                    changes.extend(self.resync());
                }
                Woken::Came { dir, name } => {
                    let found = self.tree.came(&dir, &name);
                    let new_pod = matches!(found, Some(Change::PodCame { .. }));
                    changes.extend(found);
                    if new_pod {
                        let pod = dir.join(&name);
                        self.is_blind |= !self.watch(&pod);
                        // Its first containers may be older than the watch.
                        changes.extend(self.tree.read_pod(&pod));
                    }
                }
                Woken::Went { dir, name } => {
                    changes.extend(self.tree.went(&dir, &name));
                    self.unwatch(&dir.join(&name));
                }
                Woken::Ended { dir } => {
                    if self.parents.contains(&dir) {
                        debug!(path = %dir.display(), "a directory of pods is gone");
                        changes.extend(self.resync());
                    }
                }
                Woken::Overflow => {
                    info!("events of control groups were lost; reading the tree");
                    changes.extend(self.resync());
                }
            }
        }
        changes
    }

    fn unwatch(&mut self, dir: &Path) {
        if let Some(watches) = &mut self.watches {
            watches.remove(dir);
        }
    }

    /// Whether `dir` is watched, or need not be because it is gone.
    fn watch(&mut self, dir: &Path) -> bool {
        let Some(watches) = &mut self.watches else { return false };
        match watches.add(dir) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A pod that is gone needs none; a parent may come.
                !self.parents.iter().any(|parent| parent == dir)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.told, true) {
                    let hint =
                        if error.raw_os_error() == Some(rustix::io::Errno::NOSPC.raw_os_error()) {
                            "raise fs.inotify.max_user_watches"
                        } else {
                            "new containers are seen a second late"
                        };
                    warn!(path = %dir.display(), %error, hint, "cannot watch a control group");
                }
                false
            }
        }
    }
}

/// Ends the thread when dropped.
#[derive(Debug)]
pub struct Stop(Arc<OwnedFd>);

impl Drop for Stop {
    fn drop(&mut self) {
        // The counter cannot overflow: it is written once.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// Follows `parents` on a thread of its own until [`Stop`] is dropped.
pub fn follow(parents: Vec<PathBuf>) -> io::Result<(mpsc::Receiver<Change>, Stop)> {
    let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, changes) = mpsc::channel(QUEUE);
    let stopped = stop.clone();
    std::thread::Builder::new().name("pleg".to_owned()).spawn(move || {
        let mut pleg = Pleg::new(parents);
        let mut found = pleg.resync();
        loop {
            for change in found {
                if let Err(mpsc::error::TrySendError::Closed(_)) = sender.try_send(change) {
                    return;
                }
            }
            found = match wait(&pleg, &stopped) {
                Wait::Stopped => return,
                Wait::Event => pleg.drain(),
                Wait::Nothing if pleg.is_watching() => pleg.verify(),
                Wait::Nothing => pleg.resync(),
            };
        }
    })?;
    Ok((changes, Stop(stop)))
}

enum Wait {
    Stopped,
    Event,
    Nothing,
}

fn wait(pleg: &Pleg, stop: &OwnedFd) -> Wait {
    let pause = if pleg.is_watching() { VERIFY } else { LOOK_AGAIN };
    let timeout = Timespec { tv_sec: pause.as_secs().cast_signed(), tv_nsec: 0 };
    let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
    fds.extend(pleg.watches.as_ref().map(|watches| PollFd::new(watches, PollFlags::IN)));
    match poll(&mut fds, Some(&timeout)) {
        Ok(0) => Wait::Nothing,
        // Interrupted, or out of memory: looking once too often is harmless.
        Err(_) => Wait::Nothing,
        Ok(_) if fds.first().is_some_and(|stop| !stop.revents().is_empty()) => Wait::Stopped,
        Ok(_) => Wait::Event,
    }
}

#[cfg(test)]
mod tests;
