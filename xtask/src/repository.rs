//! Where is the repository, and which files belong to it?

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::child;

/// The repository this program was started from.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    pub(crate) root: PathBuf,
}

impl Repository {
    /// `cargo run` names the manifest of the tree it runs in, which also holds
    /// when several work trees share one target directory.
    pub(crate) fn find() -> Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().context("xtask has no parent directory")?.to_owned();
        Ok(Self { root })
    }

    /// Files under version control, relative to the root, sorted.
    pub(crate) fn tracked(&self) -> Result<Vec<PathBuf>> {
        self.git_files(&["ls-files", "-z"])
    }

    /// Tracked files and those that could be added: what a build would see.
    pub(crate) fn sources(&self) -> Result<Vec<PathBuf>> {
        self.git_files(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    }

    fn git_files(&self, arguments: &[&str]) -> Result<Vec<PathBuf>> {
        let mut git = child::leashed("git");
        git.args(arguments).current_dir(&self.root);
        let output = child::stdout_of(git)?;
        let mut files: Vec<_> = output
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(PathBuf::from)
            // A file that was deleted but not yet committed is still listed.
            .filter(|file| self.root.join(file).is_file())
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    pub(crate) fn read(&self, file: &Path) -> Result<Vec<u8>> {
        fs::read(self.root.join(file)).with_context(|| format!("cannot read {}", file.display()))
    }

    /// What `cargo metadata` says about this workspace, without its dependencies.
    pub(crate) fn metadata(&self) -> Result<serde_json::Value> {
        let mut cargo = child::leashed("cargo");
        cargo.args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(&self.root);
        serde_json::from_str(&child::stdout_of(cargo)?)
            .context("cannot read the output of cargo metadata")
    }
}
