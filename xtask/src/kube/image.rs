//! How does a program of ours get into a container without a registry?
//!
//! An image is a folder in a tar file with a page of description, and containerd imports that. The
//! test's image of Tidepool holds the very binary that the other tests run, with the shared
//! libraries it names; the image that users build is static (`deploy/Containerfile`).

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{
    child,
    guest::programs::{self, Program},
    repository::Repository,
};

pub(crate) const TIDEPOOL: &str = "localhost/tidepool:dev";
pub(crate) const BUSYBOX: &str = "localhost/busybox:dev";
/// What holds a pod's namespaces: it sleeps.
pub(crate) const PAUSE: &str = "localhost/pause:dev";

/// Names under which the program takes the reference's arguments.
const LINKS: &[&str] = &["koordlet", "koord-manager", "koord-scheduler"];

/// Makes the image that users run, static, as a tar file.
pub(crate) fn release(repository: &Repository, output: &Path) -> Result<()> {
    let program = programs::static_binary(repository, "tidepool")?;
    let work = output.with_extension("work");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let tree = work.join("tree");
    let name = concat!("localhost/tidepool:", env!("CARGO_PKG_VERSION"));
    let packed = tidepool(&program, &tree, &work)
        .and_then(|()| pack(&tree, name, &["/usr/bin/tidepool"], output));
    remove(&work)?;
    packed?;
    println!("{name} is in {}", output.display());
    println!("load it with: ctr --namespace k8s.io images import {}", output.display());
    Ok(())
}

/// Makes all images of the tests, as tar files in `folder`.
pub(crate) fn make(repository: &Repository, busybox: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let work = folder.with_extension("work");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let tree = work.join("tree");
    tidepool(&programs::binary(repository, "tidepool", super::suite::TEST)?, &tree, &work)?;
    pack(&tree, TIDEPOOL, &["/usr/bin/tidepool"], &folder.join("tidepool.tar"))?;
    busybox_tree(busybox, &tree)?;
    pack(&tree, BUSYBOX, &["/bin/sh"], &folder.join("busybox.tar"))?;
    pack(&tree, PAUSE, &["/bin/tail", "-f", "/dev/null"], &folder.join("pause.tar"))?;
    remove(&work)
}

fn tidepool(program: &Program, tree: &Path, work: &Path) -> Result<()> {
    remove(tree)?;
    let mut files = vec![(PathBuf::from("usr/bin/tidepool"), program.stripped(work)?)];
    for library in program.libraries()? {
        let content = fs::read(&library).with_context(|| format!("cannot read {library}"))?;
        files.push((PathBuf::from(library.trim_start_matches('/')), content));
    }
    for (name, content) in files {
        executable(&tree.join(name), &content)?;
    }
    fs::create_dir_all(tree.join("tmp")).context("cannot make /tmp of an image")?;
    for link in LINKS {
        symlink("/usr/bin/tidepool", tree.join(link))
            .with_context(|| format!("cannot link {link}"))?;
    }
    Ok(())
}

fn busybox_tree(busybox: &Path, tree: &Path) -> Result<()> {
    remove(tree)?;
    let content = fs::read(busybox).context("cannot read busybox")?;
    executable(&tree.join("bin/busybox"), &content)?;
    fs::create_dir_all(tree.join("tmp")).context("cannot make /tmp of an image")?;
    let mut list = child::leashed(busybox);
    list.arg("--list");
    for name in child::stdout_of(list)?.lines().filter(|name| *name != "busybox") {
        symlink("busybox", tree.join("bin").join(name))
            .with_context(|| format!("cannot link {name}"))?;
    }
    Ok(())
}

fn executable(path: &Path, content: &[u8]) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        fs::write(path, content)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Puts the tree into a tar file of the shape that `docker save` writes.
fn pack(tree: &Path, name: &str, entry: &[&str], output: &Path) -> Result<()> {
    let work = output.with_extension("parts");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let layer = work.join("layer.tar");
    tar(&layer, tree, &["."])?;
    let mut sum = child::leashed("sha256sum");
    sum.arg(&layer);
    let sum = child::stdout_of(sum)?;
    let sum = sum.split_whitespace().next().context("sha256sum says nothing")?;
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": entry, "Env": ["PATH=/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{sum}")]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]);
    for (name, page) in [("config.json", config), ("manifest.json", manifest)] {
        fs::write(work.join(name), page.to_string())
            .with_context(|| format!("cannot write {name}"))?;
    }
    tar(output, &work, &["manifest.json", "config.json", "layer.tar"])?;
    remove(&work)
}

/// The same tree gives the same bytes.
fn tar(output: &Path, folder: &Path, names: &[&str]) -> Result<()> {
    let mut tar = child::leashed("tar");
    tar.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "-cf"])
        .arg(output)
        .arg("-C")
        .arg(folder)
        .args(names);
    let text = child::spelled(&tar);
    let captured = child::capture(tar)?;
    ensure!(captured.status.success(), "{text}: {}", captured.stderr);
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
