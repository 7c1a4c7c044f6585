//! Which control group hierarchies does this machine have, and where?

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::setting::Version;

/// Controllers whose v1 hierarchies get our tree, as kubelet makes its own.
const V1_CONTROLLERS: [&str; 10] = [
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "pids",
    "blkio",
    "freezer",
    "hugetlb",
    "net_cls",
    "perf_event",
];

/// Controllers switched on for our tree on v2.
pub(crate) const V2_CONTROLLERS: [&str; 6] = ["cpu", "cpuset", "memory", "pids", "io", "hugetlb"];

/// The mounted hierarchies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Mount point by controller. Controllers mounted together share one.
    V1(BTreeMap<&'static str, PathBuf>),
    /// The one mount point.
    V2(PathBuf),
}

impl Layout {
    /// Reads `/proc/self/mountinfo`; `None` if no hierarchy is mounted.
    pub(crate) fn find(mountinfo: &str) -> Option<Self> {
        let mut v1 = BTreeMap::new();
        let mut v2 = None;
        for line in mountinfo.lines() {
            let Some((kind, mount, options)) = mount(line) else { continue };
            match kind {
                "cgroup2" => {
                    v2.get_or_insert(mount);
                }
                "cgroup" => {
                    let named = options.split(',');
                    for option in named {
                        if let Some(controller) =
                            V1_CONTROLLERS.iter().find(|name| **name == option)
                        {
                            v1.entry(*controller).or_insert_with(|| mount.clone());
                        }
                    }
                }
                _ => {}
            }
        }
        if v1.contains_key("cpu") || v1.contains_key("memory") {
            return Some(Self::V1(v1));
        }
        v2.map(Self::V2)
    }

    pub(crate) fn version(&self) -> Version {
        match self {
            Self::V1(_) => Version::V1,
            Self::V2(_) => Version::V2,
        }
    }
}

/// File system type, mount point and super block options of one line.
fn mount(line: &str) -> Option<(&str, PathBuf, &str)> {
    let (place, source) = line.split_once(" - ")?;
    let mount = place.split(' ').nth(4)?;
    let mut source = source.split(' ');
    let kind = source.next()?;
    let options = source.nth(1)?;
    Some((kind, unescape(mount).into(), options))
}

/// The kernel writes space, tab, newline and backslash in a path as three octal digits.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let digits = rest.get(at + 1..at + 4);
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if byte.is_ascii() => {
                out.push(byte.into());
                rest = &rest[at + 4..];
            }
            _ => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
25 1 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
27 25 0:24 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
28 25 0:25 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
29 25 0:26 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
30 25 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn a_hybrid_machine_counts_as_v1() {
        let want = [
            ("cpu", "/sys/fs/cgroup/cpu,cpuacct"),
            ("cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
            ("memory", "/sys/fs/cgroup/memory"),
        ];
        let want = want.into_iter().map(|(name, path)| (name, PathBuf::from(path))).collect();
        assert_eq!(Layout::find(V1), Some(Layout::V1(want)));
    }

    #[test]
    fn a_machine_without_v1_controllers_is_v2() {
        let v2 = "30 25 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(Layout::find(v2), Some(Layout::V2("/sys/fs/cgroup".into())));
        let only_named = format!("29 25 0:26 / /s rw - cgroup cgroup rw,name=systemd\n{v2}");
        assert_eq!(Layout::find(&only_named), Some(Layout::V2("/sys/fs/cgroup".into())));
    }

    #[test]
    fn no_hierarchy_is_no_layout() {
        for text in
            ["", "1 2 3", "25 1 0:22 / /sys rw - tmpfs tmpfs rw", "- - -", "a b c d e - cgroup"]
        {
            assert_eq!(Layout::find(text), None, "{text:?}");
        }
    }

    #[test]
    fn escaped_mount_points_are_read() {
        let line = r"30 25 0:27 / /mnt/a\040b\134c\9 rw - cgroup2 cgroup2 rw";
        assert_eq!(Layout::find(line), Some(Layout::V2(r"/mnt/a b\c\9".into())));
    }
}
