//! The output of this node's containers, for whoever serves `kubectl logs`.

use std::path::PathBuf;

use super::dir::PodDir;
use super::log::{LogOptions, LogStream, read};
use super::process::is_over;

/// Reads logs from a node's state directory.
#[derive(Debug, Clone)]
pub struct Logs {
    state_dir: PathBuf,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    #[error("container {container:?} has not been started")]
    NotStarted { container: String },
    #[error("previous terminated container {container:?} not found")]
    NoPrevious { container: String },
}

impl Logs {
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self { state_dir: state_dir.into() }
    }

    /// The output of a container of the pod with this uid.
    pub fn open(
        &self,
        uid: &str,
        container: &str,
        options: LogOptions,
    ) -> Result<LogStream, LogError> {
        let named = || container.to_owned();
        let is_name = !container.contains(['/', '\0']) && !container.starts_with('.');
        let dir = PodDir::new(&self.state_dir, uid).filter(|_| is_name);
        let dir = dir.ok_or_else(|| LogError::NotStarted { container: named() })?;
        let runs = dir.runs(container);
        let latest = runs.last().copied();
        let latest = latest.ok_or_else(|| LogError::NotStarted { container: named() })?;
        let wanted = if options.previous {
            let previous = latest.checked_sub(1).filter(|previous| runs.contains(previous));
            previous.ok_or_else(|| LogError::NoPrevious { container: named() })?
        } else {
            latest
        };
        let run = dir.run(container, wanted);
        Ok(read(dir.log(container, wanted), options, move || is_over(&run)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn the_latest_run_or_the_one_before() {
        let state = tempfile::tempdir().unwrap();
        let dir = PodDir::new(state.path(), "u").unwrap();
        for run in [3, 4] {
            fs::create_dir_all(dir.run("web", run).path()).unwrap();
            fs::create_dir_all(dir.log("web", run).parent().unwrap()).unwrap();
            let line = format!("2026-11-15T08:00:00Z stdout F run {run}\n");
            fs::write(dir.log("web", run), line).unwrap();
        }
        let logs = Logs::new(state.path());
        let text = |previous| {
            let options = LogOptions { previous, ..LogOptions::default() };
            let stream = logs.open("u", "web", options).unwrap();
            stream
                .map(|piece| String::from_utf8(piece.unwrap().into()).unwrap())
                .collect::<String>()
        };
        assert_eq!(text(false).await, "run 4\n");
        assert_eq!(text(true).await, "run 3\n");
        let missing = |uid: &str, container: &str| {
            logs.open(uid, container, LogOptions::default()).err().unwrap().to_string()
        };
        assert_eq!(missing("u", "db"), "container \"db\" has not been started");
        assert_eq!(missing("v", "web"), "container \"web\" has not been started");
        assert_eq!(missing("u", "../web"), "container \"../web\" has not been started");
        fs::remove_dir(dir.run("web", 3).path()).unwrap();
        let options = LogOptions { previous: true, ..LogOptions::default() };
        let error = logs.open("u", "web", options).err().unwrap();
        assert_eq!(error.to_string(), "previous terminated container \"web\" not found");
    }
}
