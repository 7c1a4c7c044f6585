//! Where do the programs of a cluster come from?
//!
//! Kubernetes' own are built from Go modules, the others are taken out of Debian packages. All are
//! kept outside of the work tree, in a folder an origin that is named after the version:
//!
//! ```text
//! ~/.cache/tidepool/kubernetes-v1.35.4    built, several minutes on two cores
//! ~/.cache/tidepool/containerd-sid        unpacked
//! ```

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::versions::{GoModule, GoProgram, HELM, KUBERNETES, PACKAGES, Package};
use crate::{child, debian, kubectl};

/// Everything that a cluster needs, by name; fetched and built where it is missing.
pub(crate) fn ensure_present() -> Result<Vec<(String, PathBuf)>> {
    let mut all = vec![("kubectl".to_owned(), kubectl::ensure_present()?)];
    for package in PACKAGES {
        all.extend(unpacked(package)?);
    }
    for module in [&KUBERNETES, &HELM] {
        all.extend(built(module)?);
    }
    Ok(all)
}

/// The helm program alone.
pub(crate) fn helm() -> Result<PathBuf> {
    let (_, helm) = built(&HELM)?.pop().context("helm's module builds helm")?;
    Ok(helm)
}

fn unpacked(package: &Package) -> Result<Vec<(String, PathBuf)>> {
    let Package { name, suite, files } = package;
    let folder = debian::cache()?.join(format!("{name}-{suite}"));
    let paths: Vec<_> =
        files.iter().map(|(name, path)| ((*name).to_owned(), folder.join(path))).collect();
    if paths.iter().any(|(_, path)| !path.is_file()) {
        println!("fetching {name}: a real cluster is made of it");
        debian::keep(suite, &folder, |suite| suite.unpack(name))?;
    }
    for (_, path) in &paths {
        ensure!(path.is_file(), "package {name} of {suite} has no {}", path.display());
    }
    Ok(paths)
}

/// Builds a module's programs in a folder beside the final one, which appears at once or not at all.
fn built(module: &GoModule) -> Result<Vec<(String, PathBuf)>> {
    let folder = debian::cache()?.join(format!("{}-{}", module.name, module.version));
    let path_of = |program: &GoProgram| (program.name.to_owned(), folder.join(program.name));
    let paths: Vec<_> = module.programs.iter().map(path_of).collect();
    if paths.iter().all(|(_, path)| path.is_file()) {
        return Ok(paths);
    }
    let work = folder.with_extension("building");
    // What an interrupted run left behind would only be in the way.
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(work.join("programs"))
        .with_context(|| format!("cannot make {}", work.display()))?;
    for (name, content) in module.files {
        fs::write(work.join(name), content).with_context(|| format!("cannot write {name}"))?;
    }
    for program in module.programs {
        build(module, program, &work)?;
    }
    let _ = fs::remove_dir_all(&folder);
    fs::rename(work.join("programs"), &folder)
        .with_context(|| format!("cannot keep {}", folder.display()))?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    Ok(paths)
}

/// On the path, or where Go's own archive puts it.
pub(crate) fn go() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/local/go/bin")]);
    folders.map(|folder| folder.join("go")).find(|program| program.is_file())
}

fn build(module: &GoModule, program: &GoProgram, work: &Path) -> Result<()> {
    let GoProgram { name, package } = program;
    println!("building {name} of {} {}: a real cluster is made of it", module.of, module.version);
    let mut flags = "-s -w".to_owned();
    for variable in module.version_variables {
        flags += &format!(" -X {variable}={}", module.version);
    }
    let go = go().context("no Go here; install 1.25 or newer")?;
    let mut go = child::leashed(go);
    go.args(["build", "-trimpath", "-mod=readonly", "-ldflags", &flags, "-o"])
        .arg(Path::new("programs").join(name))
        .arg(package)
        .current_dir(work)
        .env("CGO_ENABLED", "0");
    let text = child::spelled(&go);
    let status = child::stream(go, |_| {})?;
    ensure!(status.success(), "{text}: {status}");
    Ok(())
}
