//! The text form of a host.
//!
//! ```text
//! # comments before the first file
//! -- proc/meminfo --
//! MemTotal:       65536000 kB
//! -- sys/fs/cgroup/cgroup.controllers --
//! cpuset cpu io memory pids
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Why a text is not a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FixtureError {
    #[error("line {line}: text before the first `-- path --` line")]
    NoPath { line: usize },

    #[error("line {line}: {path:?} is there twice")]
    Twice { line: usize, path: String },

    #[error("line {line}: {path:?} must be relative to the root and plain")]
    BadPath { line: usize, path: String },
}

/// Files with their content, in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<(PathBuf, String)>, FixtureError> {
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        if let Some(path) = header(line) {
            let plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
            if !plain {
                return Err(FixtureError::BadPath { line: number, path: path.to_owned() });
            }
            if files.iter().any(|(known, _)| known.as_os_str() == path) {
                return Err(FixtureError::Twice { line: number, path: path.to_owned() });
            }
            files.push((path.into(), String::new()));
            continue;
        }
        match files.last_mut() {
            Some((_, content)) => {
                content.push_str(line);
                content.push('\n');
            }
            None if line.is_empty() || line.starts_with('#') => {}
            None => return Err(FixtureError::NoPath { line: number }),
        }
    }
    Ok(files)
}

fn header(line: &str) -> Option<&str> {
    line.strip_prefix("-- ")?.strip_suffix(" --")
}

pub(super) fn print(files: &BTreeMap<PathBuf, Vec<u8>>) -> String {
    let mut text = String::new();
    for (path, content) in files {
        text.push_str(&format!("-- {} --\n", path.display()));
        let content = String::from_utf8_lossy(content);
        text.push_str(&content);
        if !content.is_empty() && !content.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::FakeFs;

    #[test]
    fn a_host_reads_back_as_it_was_printed() {
        let text = "-- a/b --\none\n\ntwo\n-- a/empty --\n-- c --\n# not a comment here\n";
        let host = FakeFs::from_fixture(text).unwrap();
        assert_eq!(host.to_fixture(), text);
        assert_eq!(host.text("/a/empty").as_deref(), Some(""));
        assert_eq!(host.text("/a/b").as_deref(), Some("one\n\ntwo"));
    }

    #[test]
    fn a_broken_host_is_refused_with_its_line() {
        let cases = [
            ("# fine\n\nstray\n-- a --\n", FixtureError::NoPath { line: 3 }),
            ("-- a --\n1\n-- a --\n2\n", FixtureError::Twice { line: 3, path: "a".into() }),
            ("-- /a --\n", FixtureError::BadPath { line: 1, path: "/a".into() }),
            ("-- a/../b --\n", FixtureError::BadPath { line: 1, path: "a/../b".into() }),
        ];
        for (text, want) in cases {
            assert_eq!(FakeFs::from_fixture(text).unwrap_err(), want, "{text:?}");
        }
    }
}
