//! A corner of this machine's control groups that a test may do as it likes with.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use groups::CgroupPath;
use host::FileError;
use host::Reading;
use host::cgroup::Tree;
use host::fs::{Mounts, RealFs};

/// How long the kernel may take to let go of a group whose processes were killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// One group below the root with a name of its own. It goes with the value, and everything in it.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) tree: Tree,
    pub(crate) root: CgroupPath,
}

impl Sandbox {
    /// The error is the reason for skipping: a user who is not root has no groups to try.
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let tree =
            Tree::find(Arc::new(RealFs::new(Mounts::host()))).map_err(|error| error.to_string())?;
        let root = CgroupPath::new(&format!("tidepool-test-{}-{name}", std::process::id()));
        match tree.make(&root) {
            Ok(()) => Ok(Self { tree, root }),
            Err(FileError::Make { source, .. } | FileError::Write { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Err("not root".to_owned())
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Makes a group and every group above it, below the sandbox.
    pub(crate) fn make(&self, path: &str) -> CgroupPath {
        let mut group = self.root.clone();
        for part in CgroupPath::new(path).parts() {
            group = group.child(part);
            self.tree.make(&group).expect("a group of our own takes groups");
        }
        group
    }

    /// Removes a group and every group below it. Its processes must have ended.
    pub(crate) fn remove(&self, group: &CgroupPath) -> Result<(), FileError> {
        if let Reading::Value(children) = self.tree.children(group)? {
            children.iter().try_for_each(|child| self.remove(&group.child(child)))?;
        }
        let start = Instant::now();
        loop {
            match self.tree.remove(group) {
                Err(_) if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(5)),
                removed => return removed,
            }
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // A second panic would hide the first.
        if let Err(error) = self.remove(&self.root) {
            eprintln!("{} is left behind: {error:?}", self.root);
        }
    }
}
