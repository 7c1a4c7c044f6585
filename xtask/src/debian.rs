//! How do we take a file out of a Debian package without installing it?
//!
//! The package is fetched from a named suite of the archive that this machine
//! installs from already, with a state directory of its own, and unpacked below
//! the cache. The system's own list of packages stays as it is. Everything
//! happens in a folder beside the final one, which appears at once or not at all:
//!
//! ```text
//! ~/.cache/tidepool/NAME            what is kept of the unpacked tree
//! ~/.cache/tidepool/NAME.fetching   lists, package and tree; removed at the end
//! ```

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::child;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Outside of the work tree, so that a fresh clone finds it again.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(base) => PathBuf::from(base),
        None => PathBuf::from(env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(base.join("tidepool"))
}

/// A suite's packages, listed and unpacked in a folder that is removed at the end.
#[derive(Debug)]
pub(crate) struct Suite {
    folder: PathBuf,
}

impl Suite {
    /// Reads the suite's list of packages into `folder`.
    fn open(name: &str, folder: PathBuf) -> Result<Self> {
        // What an interrupted run left behind would only be in the way.
        let _ = fs::remove_dir_all(&folder);
        let suite = Self { folder };
        for part in ["lists/partial", "cache/archives/partial", "tree"] {
            let part = suite.folder.join(part);
            fs::create_dir_all(&part).with_context(|| format!("cannot make {}", part.display()))?;
        }
        let source = format!("deb [signed-by={KEYRING}] {} {name} main\n", archive()?);
        fs::write(suite.folder.join("sources.list"), source)
            .context("cannot write sources.list")?;
        fs::write(suite.folder.join("status"), "").context("cannot write an empty package list")?;
        suite.stream("apt-get", &["update"])?;
        Ok(suite)
    }

    /// The first package that `package` depends on: what a meta package stands for.
    pub(crate) fn resolve(&self, package: &str) -> Result<String> {
        let mut command = self.apt("apt-cache");
        command.args(["depends", "--important", package]);
        let text = child::stdout_of(command)?;
        let name = text.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        Ok(name.with_context(|| format!("{package} depends on nothing"))?.to_owned())
    }

    /// Downloads the package and returns the folder that it is unpacked in.
    pub(crate) fn unpack(&self, package: &str) -> Result<PathBuf> {
        self.stream("apt-get", &["download", package])?;
        let file = fs::read_dir(&self.folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .context("apt-get download left no package")?;
        let tree = self.folder.join("tree");
        let mut unpack = child::leashed("dpkg-deb");
        unpack.arg("--extract").arg(&file).arg(&tree);
        let status = child::stream(unpack, |_| {})?;
        ensure!(status.success(), "dpkg-deb --extract: {status}");
        Ok(tree)
    }

    fn stream(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let mut command = self.apt(program);
        command.arg("--quiet").args(arguments);
        let text = child::spelled(&command);
        let status = child::stream(command, |_| {})?;
        ensure!(status.success(), "{text}: {status}");
        Ok(())
    }

    /// A program of apt that neither reads nor writes the system's own state.
    fn apt(&self, program: &str) -> Command {
        let place = |name: &str| self.folder.join(name).display().to_string();
        let options = [
            format!("Dir::Etc::SourceList={}", place("sources.list")),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", place("lists")),
            format!("Dir::State::Status={}", place("status")),
            format!("Dir::Cache={}", place("cache")),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
        ];
        let mut command = child::leashed(program);
        command.current_dir(&self.folder).env("DEBIAN_FRONTEND", "noninteractive");
        for option in options {
            command.arg("-o").arg(option);
        }
        command
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Fills `folder` with what `pick` unpacks: it returns the folder to keep.
pub(crate) fn keep(
    suite: &str,
    folder: &Path,
    pick: impl FnOnce(&Suite) -> Result<PathBuf>,
) -> Result<()> {
    let suite = Suite::open(suite, folder.with_extension("fetching"))?;
    let picked = pick(&suite)?;
    let _ = fs::remove_dir_all(folder);
    fs::rename(&picked, folder)
        .with_context(|| format!("cannot move {} to {}", picked.display(), folder.display()))
}

/// The archive that this machine installs from already.
fn archive() -> Result<String> {
    let mut targets = child::leashed("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let text = child::stdout_of(targets)?;
    let first = text.lines().find(|line| !line.contains("security"));
    Ok(first.context("apt-get knows no archive")?.trim().to_owned())
}
