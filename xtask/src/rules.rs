//! Is anything in the repository that should not be?
//!
//! Small rules about tracked files that no compiler checks. Every violation names
//! the file and the line.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::repository::Repository;

const LARGEST_FILE: usize = 1 << 20;

/// Folders of somebody's machine. Taken apart so that this file passes.
const MACHINE_FOLDERS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Marks for unfinished work. Taken apart for the same reason.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// Text formats in which a trailing space is never meant.
const TRIMMED: &[&str] = &["rs", "md", "toml"];

/// Leftovers of a golden that nobody has looked at yet.
const UNREVIEWED: &[&str] = &[".snap.new", ".pending-snap"];

/// A broken rule and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    file: PathBuf,
    line: Option<usize>,
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.what)
    }
}

/// Checks all tracked files.
pub(crate) fn inspect(repository: &Repository) -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for file in repository.tracked()? {
        violations.extend(check(&file, &repository.read(&file)?));
    }
    Ok(violations)
}

fn check(file: &Path, content: &[u8]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut report = |line, what| violations.push(Violation { file: file.to_owned(), line, what });
    if content.len() > LARGEST_FILE {
        report(None, format!("has {} bytes: keep files below 1 MiB", content.len()));
    }
    if UNREVIEWED.iter().any(|suffix| file.to_string_lossy().ends_with(suffix)) {
        report(None, "is a golden without a review: accept or delete it".into());
    }
    let trimmed = file.extension().is_some_and(|e| TRIMMED.iter().any(|trimmed| e == *trimmed));
    // What is not UTF-8 was not typed by a person.
    for (number, line) in str::from_utf8(content).unwrap_or_default().lines().enumerate() {
        let number = Some(number + 1);
        if let Some(folder) = machine_folder(line) {
            report(number, format!("{folder} is a folder of one machine: use a relative path"));
        }
        if let Some(mark) = unnumbered_mark(line) {
            report(number, format!("{mark} without an issue number: write {mark}(#123)"));
        }
        if trimmed && line.ends_with([' ', '\t']) {
            report(number, "trailing whitespace".into());
        }
    }
    violations
}

/// A machine's folder at the start of a path; `a/work/b` is none.
fn machine_folder(line: &str) -> Option<&'static str> {
    let is_start = |before: &str| {
        before.chars().next_back().is_none_or(|c| !c.is_alphanumeric() && !"._-~})*".contains(c))
    };
    MACHINE_FOLDERS.iter().copied().find(|folder| {
        line.match_indices(folder).any(|(at, _)| line.get(..at).is_some_and(is_start))
    })
}

/// A mark that stands by itself and is not followed by `#` and a number.
fn unnumbered_mark(line: &str) -> Option<&'static str> {
    let has_number = |rest: &str| {
        rest.split('#').skip(1).any(|tail| tail.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    MARKS.iter().copied().find(|mark| {
        line.match_indices(mark).any(|(at, _)| {
            let (before, rest) = line.split_at(at);
            let rest = rest.strip_prefix(mark).unwrap_or_default();
            !before.ends_with(is_word) && !rest.starts_with(is_word) && !has_number(rest)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, content: &str) -> Vec<String> {
        check(Path::new(file), content.as_bytes()).iter().map(ToString::to_string).collect()
    }

    /// A bad line and its good neighbour.
    #[test]
    fn each_rule_refuses_a_line_and_accepts_its_neighbour() {
        let [work, root, home] = MACHINE_FOLDERS else { panic!("three folders") };
        let [to_do, fix_me] = MARKS else { panic!("two marks") };
        let cases = [
            ("a.rs", format!("let a = \"{work}x\";"), format!("let a = \"crates{work}x\";")),
            ("a.yaml", format!("path: {root}.kube"), "path: /rooted/x".into()),
            ("a.md", format!("see file://{home}me"), "see https://example.com/home/me".into()),
            ("a.rs", format!("// {to_do}: later"), format!("// {to_do}(#12): later")),
            ("a.toml", format!("# {fix_me} this"), format!("# {fix_me} #7 this")),
            ("a.rs", format!("// {to_do} # 12"), format!("// {to_do}S, MY{to_do}")),
            ("a.rs", "let a = 1; ".into(), "let a = 1;".into()),
            ("a.md", "text\t".into(), "text".into()),
            ("a.md", "text  ".into(), "text  \u{2014}".into()),
        ];
        for (file, bad, good) in cases {
            assert_eq!(found(file, &format!("\n{good}\n")), [] as [&str; 0]);
            let violations = found(file, &format!("\n{bad}\n"));
            assert_eq!(violations.len(), 1, "{bad:?}: {violations:?}");
            assert!(
                violations.iter().all(|v| v.starts_with(&format!("{file}:2: "))),
                "{violations:?}"
            );
        }
    }

    #[test]
    fn recorded_text_keeps_its_spaces() {
        assert_eq!(found("fixtures/host.txt", "MemTotal: 1 \n"), [] as [&str; 0]);
    }

    #[test]
    fn large_files_and_unreviewed_goldens_are_refused() {
        let content = "a".repeat(LARGEST_FILE);
        assert_eq!(found("a.bin", &content), [] as [&str; 0]);
        let violations = found("a.bin", &format!("{content}a"));
        assert_eq!(violations, ["a.bin: has 1048577 bytes: keep files below 1 MiB"]);
        assert_eq!(found("tests/x.snap", ""), [] as [&str; 0]);
        let violations = found("tests/x.snap.new", "");
        assert_eq!(
            violations,
            ["tests/x.snap.new: is a golden without a review: accept or delete it"]
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_only_measured() {
        let mut content = MACHINE_FOLDERS.concat().into_bytes();
        content.push(0xff);
        assert_eq!(check(Path::new("corpus/x"), &content), []);
    }
}
