//! Where does a current kubectl come from?
//!
//! The stable suite's is years old, so the package is taken from the newest suite
//! of the same archive. It is fetched once and kept.

use std::{env, path::PathBuf};

use anyhow::{Context, Result, ensure};

use crate::debian;

/// The environment variable that tells tests where it is.
pub(crate) const VARIABLE: &str = "TIDEPOOL_KUBECTL";

const SUITE: &str = "sid";
const PACKAGE: &str = "kubectl";

/// The program: the one that the user named, the cached one, or a fresh one.
pub(crate) fn ensure_present() -> Result<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Ok(PathBuf::from(named));
    }
    let folder = debian::cache()?.join("kubectl");
    let program = folder.join("usr/bin/kubectl");
    if !program.is_file() {
        println!("fetching {PACKAGE}: the embedded API is tried with a current one");
        debian::keep(SUITE, &folder, |suite| suite.unpack(PACKAGE))
            .context("name a kubectl of your own with TIDEPOOL_KUBECTL")?;
        ensure!(program.is_file(), "package {PACKAGE} has no {}", program.display());
    }
    Ok(program)
}
