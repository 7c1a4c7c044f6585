//! The kernel this process runs on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{Entry, HostFs, Source};
use crate::durable;

/// Where the host's file systems are for this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounts {
    /// The host's `/sys/fs/cgroup`.
    pub cgroup: PathBuf,
    pub proc: PathBuf,
    pub sys: PathBuf,
    /// The host's `/sys/fs`, with resctrl below.
    pub sys_fs: PathBuf,
    pub run: PathBuf,
    pub var_run: PathBuf,
}

impl Mounts {
    /// The process runs on the host itself.
    pub fn host() -> Self {
        Self {
            cgroup: "/sys/fs/cgroup".into(),
            proc: "/proc".into(),
            sys: "/sys".into(),
            sys_fs: "/sys/fs".into(),
            run: "/run".into(),
            var_run: "/var/run".into(),
        }
    }

    /// The process runs in the container of a DaemonSet, with the mounts of the reference's chart.
    pub fn container() -> Self {
        Self {
            cgroup: "/host-cgroup".into(),
            proc: "/proc".into(),
            sys: "/host-sys".into(),
            sys_fs: "/host-sys-fs".into(),
            run: "/host-run".into(),
            var_run: "/host-var-run".into(),
        }
    }

    /// Where a path of the host is for us. Paths outside the known mounts stay as they are.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        // The longer prefix first: `/sys/fs/cgroup` also starts with `/sys/fs` and `/sys`.
        let places = [
            ("/sys/fs/cgroup", &self.cgroup),
            ("/sys/fs", &self.sys_fs),
            ("/sys", &self.sys),
            ("/proc", &self.proc),
            ("/var/run", &self.var_run),
            ("/run", &self.run),
        ];
        let found = places
            .into_iter()
            .find_map(|(prefix, place)| Some((place, path.strip_prefix(prefix).ok()?)));
        match found {
            Some((place, rest)) => place.join(rest),
            None => path.to_owned(),
        }
    }
}

/// The real file system.
#[derive(Debug, Clone)]
pub struct RealFs {
    mounts: Mounts,
}

impl RealFs {
    pub fn new(mounts: Mounts) -> Self {
        Self { mounts }
    }
}

impl HostFs for RealFs {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        Ok(Box::new(Kept(File::open(self.mounts.resolve(path))?)))
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.mounts.resolve(path))?;
        // The kernel takes a value as one write, or not at all.
        let length = file.write(value.as_bytes())?;
        if length == value.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.mounts.resolve(dir))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            // No kernel name has other bytes; a foreign one is of no use to us.
            if let Ok(name) = entry.file_name().into_string() {
                found.push(Entry { name, is_dir: kind.is_dir() || kind.is_symlink() });
            }
        }
        found.sort();
        Ok(found)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir(self.mounts.resolve(dir))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(self.mounts.resolve(dir))
    }

    fn replace_file(&self, path: &Path, text: &str) -> io::Result<()> {
        durable::replace(&self.mounts.resolve(path), text.as_bytes())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(self.mounts.resolve(path))
    }

    fn exists(&self, path: &Path) -> bool {
        self.mounts.resolve(path).exists()
    }

    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        Some(self.mounts.resolve(path))
    }
}

#[derive(Debug)]
struct Kept(File);

impl Source for Kept {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.0.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_wins() {
        let mounts = Mounts::container();
        let cases = [
            ("/sys/fs/cgroup/cpu/cpu.stat", "/host-cgroup/cpu/cpu.stat"),
            ("/sys/fs/resctrl/schemata", "/host-sys-fs/resctrl/schemata"),
            ("/sys/devices/system/cpu/online", "/host-sys/devices/system/cpu/online"),
            ("/sys/fs/cgroups", "/host-sys-fs/cgroups"),
            ("/proc/stat", "/proc/stat"),
            ("/run/a", "/host-run/a"),
            ("/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/cpu_manager_state"),
        ];
        for (path, want) in cases {
            assert_eq!(mounts.resolve(Path::new(path)), Path::new(want), "{path}");
            assert_eq!(Mounts::host().resolve(Path::new(path)), Path::new(path), "{path}");
        }
    }
}
