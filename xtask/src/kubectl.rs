//! Where does a current kubectl come from?
//!
//! The stable suite's is years old, so the package is taken from the newest suite
//! of the same archive, unpacked beside the work tree and never installed: the
//! system's own list of packages stays as it is. It is fetched once and kept.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::child;

/// The environment variable that tells tests where it is.
pub(crate) const VARIABLE: &str = "TIDEPOOL_KUBECTL";

const SUITE: &str = "sid";
const PACKAGE: &str = "kubectl";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The program: the one that the user named, the cached one, or a fresh one.
pub(crate) fn ensure_present() -> Result<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Ok(PathBuf::from(named));
    }
    let folder = cache()?.join("kubectl");
    let program = folder.join("usr/bin/kubectl");
    if !program.is_file() {
        println!("fetching {PACKAGE}: the embedded API is tried with a current one");
        fetch(&folder).context("name a kubectl of your own with TIDEPOOL_KUBECTL")?;
        ensure!(program.is_file(), "package {PACKAGE} has no {}", program.display());
    }
    Ok(program)
}

/// Outside of the work tree, so that a fresh clone finds it again.
fn cache() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(base) => PathBuf::from(base),
        None => PathBuf::from(env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(base.join("tidepool"))
}

fn fetch(folder: &Path) -> Result<()> {
    let apt = folder.join("apt");
    for part in ["lists/partial", "cache/archives/partial"] {
        let part = apt.join(part);
        fs::create_dir_all(&part).with_context(|| format!("cannot make {}", part.display()))?;
    }
    let source = format!("deb [signed-by={KEYRING}] {} {SUITE} main\n", archive()?);
    fs::write(apt.join("sources.list"), source).context("cannot write sources.list")?;
    fs::write(apt.join("status"), "").context("cannot write an empty package list")?;
    apt_get(&apt, &["update"])?;
    apt_get(&apt, &["download", PACKAGE])?;
    let package = fs::read_dir(&apt)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    let mut unpack = child::leashed("dpkg-deb");
    unpack.arg("--extract").arg(&package).arg(folder);
    let status = child::stream(unpack, |_| {})?;
    ensure!(status.success(), "dpkg-deb --extract: {status}");
    fs::remove_dir_all(&apt).context("cannot tidy up after apt-get")
}

/// The archive that this machine installs from already.
fn archive() -> Result<String> {
    let mut targets = child::leashed("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let text = child::stdout_of(targets)?;
    let first = text.lines().find(|line| !line.contains("security"));
    Ok(first.context("apt-get knows no archive")?.trim().to_owned())
}

/// apt-get that neither reads nor writes the system's own state.
fn apt_get(apt: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = child::leashed("apt-get");
    let place = |name: &str| apt.join(name).display().to_string();
    let options = [
        format!("Dir::Etc::SourceList={}", place("sources.list")),
        "Dir::Etc::SourceParts=/dev/null".to_owned(),
        format!("Dir::State::Lists={}", place("lists")),
        format!("Dir::State::Status={}", place("status")),
        format!("Dir::Cache={}", place("cache")),
        "APT::Sandbox::User=root".to_owned(),
        "Acquire::Languages=none".to_owned(),
    ];
    command.current_dir(apt).arg("--quiet");
    for option in options {
        command.arg("-o").arg(option);
    }
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    let text = child::spelled(&command);
    let status = child::stream(command, |_| {})?;
    ensure!(status.success(), "{text}: {status}");
    Ok(())
}
