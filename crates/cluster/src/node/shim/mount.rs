//! A view of the file system for one container: its volumes where it expects them.
//!
//! The process gets a mount namespace of its own, so nothing of this is seen outside and everything
//! vanishes with it. A volume is bound over the directory it is meant for. If there is no such directory, the
//! machine's is not touched: the nearest directory that exists is replaced, for this process only, by an
//! empty one in memory into which everything that was there is bound again, and the missing
//! one is made inside. For `/` that is a new root.

use std::error::Error;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_move, mount_remount,
};
use rustix::process::{chdir, chroot};
use rustix::thread::UnshareFlags;

use crate::node::record::{Mount, RunSpec};

type Failure = Box<dyn Error>;

/// A directory with more entries is not copied entry by entry.
const MAX_ENTRIES: usize = 4_096;

/// Can this process have mounts of its own? It has them afterwards.
pub(super) fn check() -> Result<(), Failure> {
    own_mounts().map_err(|error| format!("cannot have own mounts: {error}"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(mount_change("/", private)
        .map_err(|error| format!("cannot make mounts private: {error}"))?)
}

/// Sets the view up. `scratch` is an existing or missing directory of ours.
pub(super) fn private(spec: &RunSpec, scratch: &Path) -> Result<(), Failure> {
    check()?;
    fs::create_dir_all(scratch)?;

    let mut view = View {
        root: PathBuf::from("/"),
        scratch: scratch.to_owned(),
        copies: 0,
        own: Vec::new(),
        bound: Vec::new(),
    };
    match &spec.root {
        Some(root) => view.use_root(root)?,
        None if spec.mounts.iter().any(|mount| view.lacks_top(&mount.target)) => {
            view.copy_root()?
        }
        None => {}
    }
    for mount in &spec.mounts {
        view.bind(mount)
            .map_err(|error| format!("cannot mount {}: {error}", mount.target.display()))?;
    }
    if view.root != Path::new("/") {
        chdir(&view.root)?;
        chroot(".")?;
        chdir("/")?;
    }
    Ok(())
}

#[expect(
    deprecated,
    reason = "only separating file descriptors is unsafe, and nothing else is safe"
)]
fn own_mounts() -> rustix::io::Result<()> {
    rustix::thread::unshare(UnshareFlags::NEWNS)
}

#[derive(Debug)]
struct View {
    /// What will be `/`.
    root: PathBuf,
    scratch: PathBuf,
    copies: usize,
    /// Devices of the file systems in memory that we have made.
    own: Vec<u64>,
    /// Where volumes are already mounted.
    bound: Vec<PathBuf>,
}

impl View {
    /// A directory given as image: with the kernel's file systems if it has places for them.
    fn use_root(&mut self, root: &Path) -> Result<(), Failure> {
        // Bound over itself, so that volumes can be mounted below whatever it is on.
        let inside = self.scratch.join("image");
        fs::create_dir_all(&inside)?;
        mount_bind_recursive(root, &inside)
            .map_err(|error| format!("cannot use {} as root: {error}", root.display()))?;
        for name in ["proc", "sys", "dev"] {
            let place = inside.join(name);
            if place.is_dir() {
                mount_bind_recursive(Path::new("/").join(name), &place)?;
            }
        }
        self.root = inside;
        Ok(())
    }

    /// Is not even the first directory of the path there?
    fn lacks_top(&self, target: &Path) -> bool {
        let top = target.components().find_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        });
        top.is_some_and(|top| !self.root.join(top).exists())
    }

    fn copy_root(&mut self) -> Result<(), Failure> {
        let copy = self.scratch.join("top");
        self.make_copy(Path::new("/"), &copy)?;
        self.root = copy;
        Ok(())
    }

    fn bind(&mut self, volume: &Mount) -> Result<(), Failure> {
        let target = self.inside(&volume.target)?;
        if !target.exists() {
            self.make_place(&target, volume.source.is_dir())?;
        }
        mount_bind_recursive(&volume.source, &target)?;
        if volume.read_only {
            mount_remount(&target, MountFlags::BIND | MountFlags::RDONLY, c"")?;
        }
        self.bound.push(target);
        Ok(())
    }

    /// The target below our root, with symbolic links followed inside of it.
    fn inside(&self, target: &Path) -> Result<PathBuf, Failure> {
        const MAX_LINKS: usize = 40;
        let mut path = self.root.clone();
        let mut left: Vec<PathBuf> = parts(target);
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == Path::new("..") {
                if path != self.root {
                    path.pop();
                }
                continue;
            }
            let next = path.join(part);
            let Ok(link) = fs::read_link(&next) else {
                path = next;
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return Err("too many symbolic links".into());
            }
            if link.is_absolute() {
                path = self.root.clone();
            }
            left.extend(parts(&link));
        }
        Ok(path)
    }

    /// Makes a missing mount point without changing a directory of the machine.
    fn make_place(&mut self, target: &Path, is_dir: bool) -> Result<(), Failure> {
        let nearest = target.ancestors().skip(1).find(|dir| dir.is_dir());
        let nearest = nearest.ok_or("no directory above it exists")?;
        let is_ours = self.own.contains(&fs::metadata(nearest)?.dev())
            || self.bound.iter().any(|volume| nearest.starts_with(volume));
        if !is_ours {
            self.replace(nearest)?;
        }
        if is_dir {
            return Ok(fs::create_dir_all(target)?);
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(File::create(target).map(drop)?)
    }

    fn replace(&mut self, dir: &Path) -> Result<(), Failure> {
        self.copies += 1;
        let original = self.scratch.join(format!("original-{}", self.copies));
        let copy = self.scratch.join(format!("copy-{}", self.copies));
        fs::create_dir_all(&original)?;
        mount_bind_recursive(dir, &original)?;
        self.make_copy(&original, &copy)?;
        Ok(mount_move(&copy, dir)?)
    }

    fn make_copy(&mut self, from: &Path, copy: &Path) -> Result<(), Failure> {
        fs::create_dir_all(copy)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", copy, "tmpfs", flags, c"mode=755")?;
        self.own.push(fs::metadata(copy)?.dev());
        copy_entries(from, copy)
    }
}

/// The names in a path, last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    });
    let mut names: Vec<PathBuf> = names.collect();
    names.reverse();
    names
}

/// Makes everything in `from` visible in the empty directory `to`.
fn copy_entries(from: &Path, to: &Path) -> Result<(), Failure> {
    let entries: Vec<_> = fs::read_dir(from)?.collect::<Result<_, _>>()?;
    if entries.len() > MAX_ENTRIES {
        return Err(format!("{} has more than {MAX_ENTRIES} entries", from.display()).into());
    }
    for entry in entries {
        let (path, place) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            rustix::fs::symlinkat(fs::read_link(&path)?, CWD, &place)?;
        } else if kind.is_dir() {
            fs::create_dir(&place)?;
            mount_bind_recursive(&path, &place)?;
        } else {
            File::create(&place)?;
            mount_bind(&path, &place)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_below_the_root_and_never_out_of_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("run/lock")).unwrap();
        fs::create_dir_all(dir.path().join("var")).unwrap();
        symlink("/run", dir.path().join("var/run")).unwrap();
        symlink("../../../../etc", dir.path().join("var/out")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        let view = View {
            root: dir.path().to_owned(),
            scratch: PathBuf::new(),
            copies: 0,
            own: Vec::new(),
            bound: Vec::new(),
        };
        let cases = [
            ("/data", "data"),
            ("/var/run/lock", "run/lock"),
            ("/var/run/../x", "x"),
            ("/var/out/passwd", "etc/passwd"),
            ("/../../a", "a"),
            ("relative/path", "relative/path"),
        ];
        for (target, want) in cases {
            assert_eq!(view.inside(Path::new(target)).unwrap(), dir.path().join(want), "{target}");
        }
        assert!(view.inside(Path::new("/loop/x")).is_err());
    }
}
