//! What did the guest say on its console?
//!
//! Lines that start with `guest:` come from its first process, which tells the
//! machine, each binary's begin and end, and that all is done. Everything else is
//! said by the binaries. Silence is a failure: a machine that is not the one we
//! asked for, a binary that reports no test, a run that does not reach its end.

use std::collections::{BTreeMap, VecDeque};

use crate::suite::{
    tally::{Note, Tally},
    transcript::Transcript,
};

const KEPT_LINES: usize = 5;
const GOOD_END: &str = "exit code 0";

/// The console so far.
#[derive(Debug, Default)]
pub(crate) struct Console {
    transcript: Transcript,
    machine: Option<String>,
    /// Of the binary that is running.
    before: (u64, usize),
    /// What is wrong beyond failed tests, for each binary that ended.
    ends: BTreeMap<String, Option<String>>,
    is_done: bool,
    last_lines: VecDeque<String>,
}

impl Console {
    pub(crate) fn read(&mut self, line: &str) {
        if !line.is_empty() {
            self.last_lines.truncate(KEPT_LINES - 1);
            self.last_lines.push_front(line.to_owned());
        }
        let Some(words) = line.strip_prefix("guest: ") else {
            return self.transcript.read(line);
        };
        if let Some(machine) = words.strip_prefix("machine ") {
            self.machine = Some(machine.to_owned());
        } else if let Some(name) = words.strip_prefix("begin ") {
            self.before = self.counts();
            self.transcript.begin(in_guest(name));
        } else if let Some((name, end)) =
            words.strip_prefix("end ").and_then(|words| words.split_once(": "))
        {
            let problem = self.problem(end);
            self.ends.insert(name.to_owned(), problem);
        } else if words == "done" {
            self.is_done = true;
        }
    }

    fn counts(&self) -> (u64, usize) {
        let tally = self.transcript.tally();
        (tally.total(), tally.failed.len())
    }

    fn problem(&self, end: &str) -> Option<String> {
        let (total, failed) = self.counts();
        if total == self.before.0 {
            Some(format!("reported no test: {end}"))
        } else if end != GOOD_END && failed == self.before.1 {
            Some(end.to_owned())
        } else {
            None
        }
    }

    /// The results. `emulator` is how the emulator ended if not well.
    pub(crate) fn finish(
        self,
        machine: &str,
        binaries: &[String],
        emulator: Option<String>,
    ) -> Tally {
        let lines: Vec<_> = self.last_lines.into_iter().rev().collect();
        let mut tally = Tally::default();
        tally.record(
            "guest machine",
            match self.machine {
                Some(got) if got == machine => Ok(()),
                Some(got) => Err(format!("asked for {machine}, got {got}")),
                None => Err("never described itself".to_owned()),
            },
        );
        tally.add(self.transcript.into_tally());
        for binary in binaries {
            match self.ends.get(binary) {
                Some(None) => {}
                Some(Some(problem)) => tally.failed.push(Note::new(in_guest(binary), problem)),
                None => tally.failed.push(Note::new(in_guest(binary), "did not end")),
            }
        }
        if !self.is_done || emulator.is_some() {
            let how = emulator.unwrap_or_else(|| "stopped before it was done".to_owned());
            let why = format!("{how}; the last lines of its console: {}", lines.join(" | "));
            tally.failed.push(Note::new("guest", why));
        }
        tally
    }
}

fn in_guest(binary: &str) -> String {
    format!("guest {binary}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "cpus=0-7";

    fn tally_of(console: &str, emulator: Option<&str>) -> Tally {
        let mut reader = Console::default();
        console.lines().for_each(|line| reader.read(line));
        reader.finish(MACHINE, &["host.kernel".into()], emulator.map(Into::into))
    }

    fn console(body: &str) -> String {
        format!("guest: machine {MACHINE}\nguest: begin host.kernel\n{body}\nguest: done\n")
    }

    const GOOD: &str = "running 2 tests
test a ... ok
test b ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s
guest: end host.kernel: exit code 0";

    #[test]
    fn a_good_run_counts_its_tests_and_the_machine() {
        let tally = tally_of(&console(GOOD), None);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (3, vec![], vec![]));
    }

    #[test]
    fn a_failed_test_is_named_with_its_reason() {
        let body = "test a ... FAILED
---- a stdout ----
thread 'a' (7) panicked at crates/host/tests/kernel.rs:12:9:
no such file
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s
guest: end host.kernel: exit code 101";
        let tally = tally_of(&console(body), None);
        let why = "crates/host/tests/kernel.rs:12:9: no such file";
        assert_eq!(tally.failed, [Note::new("guest host.kernel: a", why)]);
        assert_eq!(tally.passed, 2);
    }

    /// Everything that is not a good run, and what is said about it.
    #[test]
    fn silence_is_a_failure() {
        let other_machine = console(GOOD).replace("0-7", "0-3");
        let no_machine = console(GOOD).replace("guest: machine", "machine");
        let not_done = console(GOOD).replace("guest: done", "");
        let cases = [
            ("no output at all", String::new(), None, 3),
            ("another machine", other_machine, None, 1),
            ("no machine", no_machine, None, 1),
            ("no last line", not_done, None, 1),
            ("an emulator that was ended", console(GOOD), Some("no end within 9 s"), 1),
            ("no binary", format!("guest: machine {MACHINE}\nguest: done"), None, 1),
            ("a binary of another name", console(&GOOD.replace("host.", "most.")), None, 1),
            ("no result", console("guest: end host.kernel: exit code 0"), None, 1),
            ("a killed binary", console("test a ... guest: end host.kernel: signal 9"), None, 1),
            ("no test", console(&GOOD.replace("2 passed", "0 passed")), None, 1),
            ("a bad end after good tests", console(&GOOD.replace("code 0", "code 1")), None, 1),
        ];
        for (name, text, emulator, want) in cases {
            let tally = tally_of(&text, emulator);
            assert_eq!(tally.failed.len(), want, "{name}: {tally}");
        }
    }

    #[test]
    fn the_last_lines_are_quoted_when_the_guest_does_not_end() {
        let text = "one\ntwo\n\nthree\nfour\nfive\nKernel panic\n";
        let tally = tally_of(text, Some("no end within 9 s"));
        let why = "no end within 9 s; the last lines of its console: \
                   two | three | four | five | Kernel panic";
        assert_eq!(tally.failed.last(), Some(&Note::new("guest", why)));
    }
}
