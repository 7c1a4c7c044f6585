//! How late does a thread wake up when another one is in its way?
//!
//! Groups hold processes, so the question takes two of them: a program of ours with two roles. It is told
//! what to do by one line on standard input, once it has been put where it belongs:
//!
//! ```text
//! spin 3 2000    uses CPU 3 for two seconds
//! wake 3 2000    sleeps a millisecond at a time on CPU 3, then answers with one line:
//! delays 61 58 4012 ...   by how many microseconds it woke up late
//! ```
//!
//! Both end by themselves, so that nothing spins on when whoever started it is killed.

use std::io::{self, BufRead, Write};
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use units::Micros;

/// How long the waking side sleeps at a time.
const SLEEP: Duration = Duration::from_millis(1);

/// Nobody is given more.
const LONGEST: Duration = Duration::from_secs(10);

const ANSWER: &str = "delays";

/// Who is in whose way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Spin,
    Wake,
}

/// What one process of the probe does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    pub role: Role,
    pub cpu: u16,
    pub time: Duration,
}

impl Task {
    /// The line that tells a process to do this.
    pub fn to_line(&self) -> String {
        let role = match self.role {
            Role::Spin => "spin",
            Role::Wake => "wake",
        };
        format!("{role} {} {}\n", self.cpu, self.time.as_millis())
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let role = match words.next()? {
            "spin" => Role::Spin,
            "wake" => Role::Wake,
            _ => return None,
        };
        let cpu = words.next()?.parse().ok()?;
        let time = Duration::from_millis(words.next()?.parse().ok()?);
        let is_all = words.next().is_none();
        (is_all && time <= LONGEST).then_some(Self { role, cpu, time })
    }
}

/// Waits for a task, does it, and answers. Ends at once when the input does.
pub fn serve(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(());
    }
    let task = Task::parse(&line)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no task of the wake probe"))?;
    stay_on(task.cpu)?;
    match task.role {
        Role::Spin => {
            spin(task.time);
            Ok(())
        }
        Role::Wake => {
            let delays = delays(task.time);
            let delays: Vec<String> = delays.iter().map(|delay| delay.0.to_string()).collect();
            writeln!(output, "{ANSWER} {}", delays.join(" "))?;
            output.flush()
        }
    }
}

/// The delays in what a waking process said; `None` when it said nothing of the kind.
pub fn read_answer(text: &str) -> Option<Vec<Micros>> {
    let line = text.lines().find_map(|line| line.strip_prefix(ANSWER)?.strip_prefix(' '))?;
    line.split_whitespace().map(|word| word.parse().ok().map(Micros)).collect()
}

fn stay_on(cpu: u16) -> io::Result<()> {
    let cpu = usize::from(cpu);
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    Ok(sched_setaffinity(None, &cpus)?)
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn delays(time: Duration) -> Vec<Micros> {
    // The kernel lets timers be late by fifty microseconds unless told otherwise, which is as much as is
    // measured here. A kernel that refuses adds the same to every mode.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let start = Instant::now();
    let mut delays = Vec::new();
    while start.elapsed() < time {
        let slept = Instant::now();
        thread::sleep(SLEEP);
        let late = slept.elapsed().saturating_sub(SLEEP);
        delays.push(Micros(i64::try_from(late.as_micros()).unwrap_or(i64::MAX)));
    }
    delays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_told_in_one_line() {
        let time = Duration::from_secs(2);
        let task = Task { role: Role::Wake, cpu: 3, time };
        assert_eq!(task.to_line(), "wake 3 2000\n");
        assert_eq!(Task::parse(&task.to_line()), Some(task));
        let spin = Task { role: Role::Spin, ..task };
        assert_eq!(Task::parse(&spin.to_line()), Some(spin));
        for line in
            ["", "wake", "wake 3", "run 3 2000", "wake 3 2000 1", "wake -1 2", "spin 3 10001"]
        {
            assert_eq!(Task::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn an_answer_is_found_among_other_lines() {
        let micros = |list: &[i64]| list.iter().copied().map(Micros).collect::<Vec<_>>();
        assert_eq!(read_answer("running 1 test\ndelays 61 4012\n"), Some(micros(&[61, 4_012])));
        assert_eq!(read_answer("delays \n"), Some(Vec::new()));
        for text in ["", "delays", "delays 61 x", "delay 61"] {
            assert_eq!(read_answer(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_waking_process_measures_and_one_without_a_task_ends() {
        // On a thread of its own, which takes the affinity with it.
        let measured = thread::spawn(|| {
            let cpus = rustix::thread::sched_getaffinity(None).unwrap();
            let cpu = (0..CpuSet::MAX_CPU).find(|cpu| cpus.is_set(*cpu)).unwrap();
            let mut said = Vec::new();
            serve(format!("wake {cpu} 20\n").as_bytes(), &mut said).unwrap();
            read_answer(&String::from_utf8(said).unwrap()).unwrap()
        });
        assert!(!measured.join().unwrap().is_empty());
        let mut said = Vec::new();
        serve(&b""[..], &mut said).unwrap();
        assert_eq!(said, b"");
        assert!(serve(&b"spin all 1\n"[..], &mut said).is_err());
    }
}
