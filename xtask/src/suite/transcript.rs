//! What did `cargo test` say?
//!
//! The transcript is read line by line while it passes by. Cargo names each
//! test binary (`Running ...`, `Doc-tests ...`), the binary names its tests, the
//! reasons follow, and one `test result:` line closes it:
//!
//! ```text
//!      Running unittests src/lib.rs (target/debug/deps/units-0123456789abcdef)
//! test cpuset::tests::an_empty_set_prints_nothing ... FAILED
//! ---- cpuset::tests::an_empty_set_prints_nothing stdout ----
//! thread 'cpuset::tests::an_empty_set_prints_nothing' (7) panicked at src/cpuset.rs:12:9:
//! assertion `left == right` failed
//! test result: FAILED. 11 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; ...
//! ```
//!
//! The numbers come from the closing lines. A binary that died before its closing
//! line is a failure of its own, and so is a build that produced no binary.

use std::{collections::BTreeMap, mem};

use super::tally::{Note, Tally};

/// The transcript so far.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    tally: Tally,
    binary: Option<Binary>,
    /// Binaries that never printed a closing line.
    silent: Vec<String>,
    /// Cargo's or the compiler's first own error.
    first_error: Option<String>,
    closing_lines: usize,
}

/// The test binary that is talking.
#[derive(Debug, Default)]
struct Binary {
    name: String,
    failed: Vec<String>,
    ignored: Vec<(String, String)>,
    reasons: BTreeMap<String, String>,
    /// The failed test whose output is passing by.
    telling: Option<String>,
    /// Its panic was announced with this place; the message is on the next line.
    place: Option<String>,
}

impl Transcript {
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(name) = binary_name(line) {
            self.begin(name);
        } else if let Some(counts) = line.strip_prefix("test result: ").and_then(Counts::parse) {
            self.closing_lines += 1;
            self.tally.add(self.binary.take().unwrap_or_default().close(&counts));
        } else if let Some(binary) = &mut self.binary {
            binary.read(line);
        }
        if line.starts_with("error") && self.first_error.is_none() {
            self.first_error = Some(line.to_owned());
        }
    }

    /// What follows is said by this binary.
    pub(crate) fn begin(&mut self, name: String) {
        self.silent.extend(self.binary.take().map(|binary| binary.name));
        self.binary = Some(Binary { name, ..Binary::default() });
    }

    /// What the closing lines said so far.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The results without a judgement on binaries that said nothing.
    pub(crate) fn into_tally(self) -> Tally {
        self.tally
    }

    /// The results, given how cargo itself ended.
    pub(crate) fn finish(mut self, cargo_succeeded: bool, cargo_status: &str) -> Tally {
        self.silent.extend(self.binary.take().map(|binary| binary.name));
        let mut tally = mem::take(&mut self.tally);
        if cargo_succeeded {
            if self.closing_lines == 0 {
                tally.failed.push(Note::new("cargo test", "no test binary reported anything"));
            }
            return tally;
        }
        for name in self.silent {
            tally.failed.push(Note::new(name, "ended without reporting its results"));
        }
        if tally.failed.is_empty() {
            let error = self.first_error.map(|error| format!("; {error}")).unwrap_or_default();
            tally.failed.push(Note::new("cargo test", format!("{cargo_status}{error}")));
        }
        tally
    }
}

impl Binary {
    fn read(&mut self, line: &str) {
        if let Some(place) = self.place.take() {
            if let Some(test) = &self.telling {
                self.reasons.entry(test.clone()).or_insert_with(|| format!("{place} {line}"));
            }
        } else if let Some((test, result)) =
            line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        {
            if result == "FAILED" {
                self.failed.push(test.to_owned());
            } else if let Some(reason) = result.strip_prefix("ignored") {
                let reason = reason.strip_prefix(", ").unwrap_or("ignored without a reason");
                self.ignored.push((test.to_owned(), reason.to_owned()));
            }
        } else if let Some(test) = told_test(line) {
            self.telling = Some(test.to_owned());
        } else if let Some((_, place)) = line.split_once(" panicked at ") {
            self.place = Some(place.to_owned());
        } else if let (Some(test), Some(error)) = (&self.telling, line.strip_prefix("Error: ")) {
            self.reasons.entry(test.clone()).or_insert_with(|| error.to_owned());
        }
    }

    /// Turns the names into notes and the closing line into numbers. Tests that
    /// the closing line counts but whose line was torn apart by other output
    /// still count, without a name.
    fn close(mut self, counts: &Counts) -> Tally {
        let mut failed: Vec<_> = mem::take(&mut self.failed)
            .into_iter()
            .map(|test| {
                let why = self.reasons.remove(&test);
                let why = why.unwrap_or_else(|| "see its output above".into());
                Note::new(format!("{}: {test}", self.name), why)
            })
            .collect();
        let mut skipped: Vec<_> = mem::take(&mut self.ignored)
            .into_iter()
            .map(|(test, why)| Note::new(format!("{}: {test}", self.name), why))
            .collect();
        let unnamed = || Note::new(format!("{}: a test", self.name), "see the output above");
        failed.resize_with(counts.failed.max(failed.len()), unnamed);
        skipped.resize_with(counts.ignored.max(skipped.len()), unnamed);
        Tally { passed: counts.passed, failed, skipped }
    }
}

/// The numbers of a closing line.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: usize,
    ignored: usize,
}

impl Counts {
    /// Reads `ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn parse(text: &str) -> Option<Self> {
        let (_, counts) = text.split_once(". ")?;
        let count = |label: &str| {
            counts.split("; ").find_map(|count| count.strip_suffix(label)?.strip_suffix(' '))
        };
        Some(Self {
            passed: count("passed")?.parse().ok()?,
            failed: count("failed")?.parse().ok()?,
            ignored: count("ignored")?.parse().ok()?,
        })
    }
}

/// `Running unittests src/lib.rs (target/debug/deps/units-0123)` is
/// `units unittests src/lib.rs`, `Doc-tests units` is `units doc tests`.
fn binary_name(line: &str) -> Option<String> {
    let words = line.strip_prefix("   ")?.trim_start();
    if let Some(package) = words.strip_prefix("Doc-tests ") {
        return Some(format!("{package} doc tests"));
    }
    let (source, path) = words.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
    let file = path.rsplit('/').next().unwrap_or(path);
    let program = file.rsplit_once('-').map_or(file, |(program, _hash)| program);
    Some(format!("{program} {source}"))
}

/// The name in `---- NAME stdout ----`.
fn told_test(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" ----")?.strip_suffix(" stdout")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of(transcript: &str, cargo_succeeded: bool) -> Tally {
        let mut reader = Transcript::default();
        transcript.lines().for_each(|line| reader.read(line));
        reader.finish(cargo_succeeded, "exit status: 101")
    }

    const GREEN: &str = "
   Compiling units v0.1.0
     Running unittests src/lib.rs (target/debug/deps/units-0123456789abcdef)

running 3 tests
test cpuset::tests::a ... ok
test cpuset::tests::b ... ok
test cpuset::tests::c ... ignored, needs a cgroup root

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests units

running 1 test
test crates/units/src/lib.rs - parse (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

    #[test]
    fn results_are_summed_over_binaries_and_doc_tests() {
        let tally = tally_of(GREEN, true);
        assert_eq!(tally.passed, 3);
        assert_eq!(tally.failed, []);
        let skip = Note::new("units unittests src/lib.rs: cpuset::tests::c", "needs a cgroup root");
        assert_eq!(tally.skipped, [skip]);
    }

    #[test]
    fn a_failed_test_is_named_with_the_place_and_the_message() {
        let transcript = "
     Running tests/wire.rs (target/debug/deps/wire-0123456789abcdef)
running 3 tests
test round_trip ... FAILED
test refused ... FAILED
test silent ... FAILED
failures:
---- round_trip stdout ----

thread 'round_trip' (77) panicked at crates/api/tests/wire.rs:12:9:
assertion `left == right` failed: empty
  left: 1
thread 'other' (78) panicked at elsewhere.rs:1:1:
a second panic does not replace the first reason
---- refused stdout ----
Error: cannot read fixture

failures:
    round_trip
test result: FAILED. 4 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s
error: test failed, to rerun pass `-p api --test wire`
";
        let tally = tally_of(transcript, false);
        assert_eq!(tally.passed, 4);
        let want = [
            (
                "round_trip",
                "crates/api/tests/wire.rs:12:9: assertion `left == right` failed: empty",
            ),
            ("refused", "cannot read fixture"),
            ("silent", "see its output above"),
        ];
        let want = want.map(|(test, why)| Note::new(format!("wire tests/wire.rs: {test}"), why));
        assert_eq!(tally.failed, want);
    }

    #[test]
    fn a_torn_line_does_not_lose_a_failure_or_a_skip() {
        let transcript = "
     Running unittests src/lib.rs (target/debug/deps/host-0123456789abcdef)
test a ... chatter of a child
FAILED
test result: FAILED. 0 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0s
";
        let tally = tally_of(transcript, false);
        assert_eq!((tally.failed.len(), tally.skipped.len()), (1, 2));
    }

    #[test]
    fn a_binary_that_dies_is_a_failure_of_its_own() {
        let transcript = "
     Running unittests src/lib.rs (target/debug/deps/host-0123456789abcdef)
running 9 tests
test a ... ok
error: test failed, to rerun pass `-p host --lib`
  process didn't exit successfully: ... (signal: 6, SIGABRT: process abort signal)
     Running unittests src/lib.rs (target/debug/deps/units-0123456789abcdef)
test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        let tally = tally_of(transcript, false);
        assert_eq!(tally.passed, 5);
        let want = Note::new("host unittests src/lib.rs", "ended without reporting its results");
        assert_eq!(tally.failed, [want]);
    }

    #[test]
    fn a_build_error_is_one_failure_with_the_first_error() {
        let transcript = "   Compiling api v0.1.0\nerror[E0425]: cannot find value `x`\n\
                          error: could not compile `api`";
        let tally = tally_of(transcript, false);
        let why = "exit status: 101; error[E0425]: cannot find value `x`";
        assert_eq!(tally.failed, [Note::new("cargo test", why)]);
    }

    #[test]
    fn a_run_without_any_test_binary_is_not_green() {
        assert!(!tally_of("    Finished `test` profile", true).is_green());
    }

    #[test]
    fn lines_that_only_look_like_results_are_left_alone() {
        let cases = [
            ("indented", "  test result: ok. 1 passed; 0 failed; 0 ignored"),
            ("not numbers", "test result: ok. many passed; 0 failed; 0 ignored"),
            ("incomplete", "test result: ok. 1 passed; 0 failed"),
        ];
        for (name, line) in cases {
            let tally = tally_of(&format!("{GREEN}{line}\n"), true);
            assert_eq!(tally.passed, 3, "{name}");
        }
    }
}
