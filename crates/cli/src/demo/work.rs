//! Work that can be counted: what batch pods do, and what a request costs.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::Outcome;

/// Work without end, and keep count of it in a file
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where the count is kept, in a file named after the host
    #[arg(long)]
    dir: PathBuf,
    /// Rounds of one unit of work
    #[arg(long)]
    rounds: u64,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let name = std::env::var("HOSTNAME").context("a pod has a host name")?;
        let path = self.dir.join(name);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.with_context(|| format!("cannot count in {}", path.display()))?;
        let mut done = 0_u64;
        loop {
            spin(self.rounds);
            done += 1;
            file.write_all_at(&done.to_le_bytes(), 0)?;
        }
    }
}

/// Units done so far by all workers that ever counted in this directory.
pub(super) fn units(dir: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        // A worker that has just begun has counted nothing yet.
        if let Ok(count) = <[u8; 8]>::try_from(fs::read(entry?.path())?) {
            sum += u64::from_le_bytes(count);
        }
    }
    Ok(sum)
}

/// A chain of dependent steps that no compiler shortens.
pub(super) fn spin(rounds: u64) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_workers_are_added_and_half_written_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("w1"), 40_u64.to_le_bytes()).unwrap();
        fs::write(dir.path().join("w2"), 2_u64.to_le_bytes()).unwrap();
        fs::write(dir.path().join("w3"), b"").unwrap();
        assert_eq!(units(dir.path()).unwrap(), 42);
    }
}
