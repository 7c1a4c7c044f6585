//! How is a control group of ours called?

use std::fmt;
use std::path::Path;

use crate::node::resource::QosClass;

/// A control group's path below the hierarchy's mount, without a leading slash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CgroupPath(String);

/// The groups that hold pods, from the outermost to the innermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodGroup {
    /// Ours, around everything.
    Root,
    /// All pods; Guaranteed pods directly below.
    Kubepods,
    Burstable,
    BestEffort,
}

impl CgroupPath {
    /// A group that holds pods, below `root`.
    pub(crate) fn of_group(root: &str, group: PodGroup) -> Self {
        let root = root.trim_matches('/');
        Self(match group {
            PodGroup::Root => root.to_owned(),
            PodGroup::Kubepods => format!("{root}/kubepods"),
            PodGroup::Burstable => format!("{root}/kubepods/burstable"),
            PodGroup::BestEffort => format!("{root}/kubepods/besteffort"),
        })
    }

    pub(crate) fn of_pod(root: &str, class: QosClass, uid: &str) -> Self {
        let parent = match class {
            QosClass::Guaranteed => PodGroup::Kubepods,
            QosClass::Burstable => PodGroup::Burstable,
            QosClass::BestEffort => PodGroup::BestEffort,
        };
        Self::of_group(root, parent).child(&format!("pod{uid}"))
    }

    pub(crate) fn child(&self, name: &str) -> Self {
        Self(format!("{}/{name}", self.0))
    }

    /// This path and every one above it that is ours, outermost first.
    pub(crate) fn lineage<'a>(&'a self, root: &str) -> impl Iterator<Item = CgroupPath> + 'a {
        let root = root.trim_matches('/').len();
        let ends = self.0.match_indices('/').map(|(at, _)| at).chain([self.0.len()]);
        ends.filter(move |end| *end >= root).map(|end| CgroupPath(self.0[..end].to_owned()))
    }
}

impl AsRef<Path> for CgroupPath {
    fn as_ref(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl fmt::Display for CgroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_cgroupfs_driver() {
        let cases = [
            (QosClass::Guaranteed, "tidepool/kubepods/pod1-2"),
            (QosClass::Burstable, "tidepool/kubepods/burstable/pod1-2"),
            (QosClass::BestEffort, "tidepool/kubepods/besteffort/pod1-2"),
        ];
        for (class, want) in cases {
            assert_eq!(CgroupPath::of_pod("tidepool", class, "1-2").to_string(), want);
            assert_eq!(CgroupPath::of_pod("/tidepool/", class, "1-2").to_string(), want);
        }
        let container = CgroupPath::of_pod("t", QosClass::Guaranteed, "u").child("c0ffee");
        assert_eq!(container.to_string(), "t/kubepods/podu/c0ffee");
    }

    #[test]
    fn a_lineage_starts_at_our_root() {
        let pod = CgroupPath::of_pod("a/b", QosClass::Burstable, "u");
        let lineage: Vec<_> = pod.lineage("a/b").map(|path| path.to_string()).collect();
        assert_eq!(
            lineage,
            ["a/b", "a/b/kubepods", "a/b/kubepods/burstable", "a/b/kubepods/burstable/podu"]
        );
    }
}
