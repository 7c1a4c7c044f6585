//! How is a control group called?

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A group's path below the root of its hierarchy, without slashes at the ends; empty for the root.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct CgroupPath(String);

impl From<String> for CgroupPath {
    fn from(path: String) -> Self {
        Self::new(&path)
    }
}

impl CgroupPath {
    /// Takes a path as the kernel or people write it (`/kubepods//burstable/`).
    ///
    /// Dots have no meaning in a hierarchy and could leave it, so such parts are dropped.
    pub fn new(path: &str) -> Self {
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
        Self(parts.collect::<Vec<_>>().join("/"))
    }

    pub fn root() -> Self {
        Self::default()
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.is_root() { Self::new(name) } else { Self::new(&format!("{}/{name}", self.0)) }
    }

    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        Some(self.0.rsplit_once('/').map_or_else(Self::root, |(above, _)| Self(above.to_owned())))
    }

    /// Whether the group is inside `above`, and not `above` itself.
    pub fn is_below(&self, above: &Self) -> bool {
        let rest = self.0.strip_prefix(above.as_str());
        rest.is_some_and(|rest| !rest.is_empty() && (above.is_root() || rest.starts_with('/')))
    }

    /// The last part; `None` for the root.
    pub fn name(&self) -> Option<&str> {
        self.0.rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// The parts, from the outermost.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }
}

impl AsRef<Path> for CgroupPath {
    fn as_ref(&self) -> &Path {
        Path::new(&self.0)
    }
}

/// With a leading slash, as in `/proc/<pid>/cgroup`.
impl fmt::Display for CgroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_leave_its_hierarchy() {
        let cases = [
            ("", ""),
            ("/", ""),
            ("/a//b/", "a/b"),
            ("../../etc", "etc"),
            ("a/./b/../c", "a/b/c"),
            ("..a/b..", "..a/b.."),
        ];
        for (text, want) in cases {
            assert_eq!(CgroupPath::new(text).as_str(), want, "{text:?}");
        }
    }

    #[test]
    fn parents_end_at_the_root() {
        let path = CgroupPath::new("a/b");
        let above = path.parent().unwrap();
        assert_eq!((above.as_str(), path.name()), ("a", Some("b")));
        let root = above.parent().unwrap();
        assert!(root.is_root());
        assert_eq!((root.parent(), root.name(), root.parts().count()), (None, None, 0));
        assert_eq!(root.child("a").child("b"), path);
        assert!(path.is_below(&above) && path.is_below(&root) && !path.is_below(&path));
        assert!(!CgroupPath::new("ab/c").is_below(&above), "a name that begins alike is another");
        assert_eq!(path.to_string(), "/a/b");
    }
}
