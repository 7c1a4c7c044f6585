//! Where a pod's things are on disk.
//!
//! ```text
//! pods/<uid>/containers/<name>/<restart count>/   one run, see `record`
//! pods/<uid>/logs/<name>/<restart count>.log      its output, and rotated files
//! pods/<uid>/volumes/<name>/
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::record::RunDir;

/// The directory of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodDir(PathBuf);

impl PodDir {
    /// `None` for a uid that is no file name.
    pub(crate) fn new(state_dir: &Path, uid: &str) -> Option<Self> {
        let is_name = !uid.is_empty() && !uid.starts_with('.') && !uid.contains(['/', '\0']);
        is_name.then(|| Self(pods(state_dir).join(uid)))
    }

    /// Every pod that has a directory, by uid.
    pub(crate) fn all(state_dir: &Path) -> Vec<(String, Self)> {
        let uids = names(&pods(state_dir));
        let found =
            uids.into_iter().filter_map(|uid| Some((uid.clone(), Self::new(state_dir, &uid)?)));
        found.collect()
    }

    /// Makes the directory. Whatever else the pod gets on this machine comes later: what is to be
    /// removed one day is found by the directories there are.
    pub(crate) fn make(&self) -> io::Result<()> {
        fs::create_dir_all(&self.0)
    }

    pub(crate) fn volumes(&self) -> PathBuf {
        self.0.join("volumes")
    }

    pub(crate) fn run(&self, container: &str, restarts: u32) -> RunDir {
        RunDir::new(self.0.join("containers").join(container).join(restarts.to_string()))
    }

    pub(crate) fn log(&self, container: &str, restarts: u32) -> PathBuf {
        self.0.join("logs").join(container).join(format!("{restarts}.log"))
    }

    /// Containers that were ever started.
    pub(crate) fn containers(&self) -> Vec<String> {
        names(&self.0.join("containers"))
    }

    /// The numbers of the runs that are kept, oldest first.
    pub(crate) fn runs(&self, container: &str) -> Vec<u32> {
        let mut runs: Vec<u32> = names(&self.0.join("containers").join(container))
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect();
        runs.sort_unstable();
        runs
    }

    /// Removes runs and logs before the previous one.
    pub(crate) fn forget_before(&self, container: &str, restarts: u32) -> io::Result<()> {
        let Some(previous) = restarts.checked_sub(1) else { return Ok(()) };
        for run in self.runs(container).into_iter().filter(|run| *run < previous) {
            fs::remove_dir_all(self.run(container, run).path())?;
        }
        let logs = self.0.join("logs").join(container);
        for name in fs::read_dir(&logs).into_iter().flatten().flatten() {
            let name = name.file_name();
            let run = name.to_str().and_then(|name| name.split('.').next()?.parse::<u32>().ok());
            if run.is_some_and(|run| run < previous) {
                fs::remove_file(logs.join(name))?;
            }
        }
        Ok(())
    }

    /// Removes everything; nothing of the pod runs any more.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn pods(state_dir: &Path) -> PathBuf {
    state_dir.join("pods")
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_must_be_a_file_name() {
        for uid in ["", ".", "..", "a/b", "../x", "a\0"] {
            assert_eq!(PodDir::new(Path::new("/state"), uid), None, "{uid:?}");
        }
        let dir = PodDir::new(Path::new("/state"), "8a2c-1").unwrap();
        assert_eq!(dir.run("web", 3).path(), Path::new("/state/pods/8a2c-1/containers/web/3"));
    }

    #[test]
    fn only_this_run_and_the_one_before_are_kept() {
        let state = tempfile::tempdir().unwrap();
        let dir = PodDir::new(state.path(), "u").unwrap();
        for run in [2, 9, 10] {
            fs::create_dir_all(dir.run("web", run).path()).unwrap();
            fs::create_dir_all(dir.log("web", run).parent().unwrap()).unwrap();
            fs::write(dir.log("web", run), "").unwrap();
        }
        fs::write(dir.log("web", 2).with_extension("log.1"), "").unwrap();
        assert_eq!(dir.runs("web"), [2, 9, 10]);
        dir.forget_before("web", 10).unwrap();
        assert_eq!(dir.runs("web"), [9, 10]);
        assert_eq!(names(&state.path().join("pods/u/logs/web")), ["10.log", "9.log"]);
        assert_eq!(dir.containers(), ["web"]);
        assert_eq!(PodDir::all(state.path()).len(), 1);
        dir.remove().unwrap();
        dir.remove().unwrap();
        assert_eq!(PodDir::all(state.path()).len(), 0);
    }
}
