//! Which kernel does the guest run?
//!
//! The one that Debian builds for clouds, of a suite named here so that everyone
//! tests the same long-lived line. The image boots directly and is never
//! installed. Its modules are left behind: what the guest has, a serial console and
//! an NVMe disk, is driven by the image itself.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::debian;

const SUITE: &str = "bookworm";
const PACKAGE: &str = "linux-image-cloud-amd64";

/// The cached image, or a fresh one. The folder is named after the suite, so
/// that another suite means another image.
pub(crate) fn ensure_present() -> Result<PathBuf> {
    let folder = debian::cache()?.join(format!("kernel-{SUITE}"));
    if let Some(image) = image_in(&folder) {
        return Ok(image);
    }
    println!("fetching {PACKAGE}: the guest that tests cgroup v2 boots it");
    debian::keep(SUITE, &folder, |suite| {
        let image_package = suite.resolve(PACKAGE)?;
        Ok(suite.unpack(&image_package)?.join("boot"))
    })?;
    image_in(&folder).with_context(|| format!("package {PACKAGE} brought no vmlinuz"))
}

fn image_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    entries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    })
}
