//! A directory that is gone with the measurement.

use std::path::{Path, PathBuf};

use anyhow::Context;

#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("tidepool-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-overs in the temporary directory harm nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
