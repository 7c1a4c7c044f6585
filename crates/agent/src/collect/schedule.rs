//! Which collector is due?
//!
//! Each has an interval and a next due time. A collector that ran late keeps its rhythm: the due times
//! that have passed meanwhile are skipped and counted, never made up for in a burst.

use std::time::Duration;

/// Something that is done at intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Task {
    /// CPUs, caches, NUMA nodes.
    NodeInfo,
    /// Node, NUMA nodes, pods, containers, best-effort tier, host applications, system.
    Usage,
    ColdMemory,
    Pressure,
    Resctrl,
    Cpi,
    Storage,
}

impl Task {
    pub const ALL: [Self; 7] = [
        Self::NodeInfo,
        Self::Usage,
        Self::ColdMemory,
        Self::Pressure,
        Self::Resctrl,
        Self::Cpi,
        Self::Storage,
    ];

    /// As in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeInfo => "node-info",
            Self::Usage => "usage",
            Self::ColdMemory => "cold-memory",
            Self::Pressure => "psi",
            Self::Resctrl => "resctrl",
            Self::Cpi => "cpi",
            Self::Storage => "storage",
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    task: Task,
    interval: Duration,
    due: Duration,
}

/// When each task is due next.
#[derive(Debug, Default)]
pub struct Schedule {
    entries: Vec<Entry>,
    skipped: u64,
}

impl Schedule {
    /// All of `tasks` are due at once; those that are due together run in the order given.
    pub fn new(tasks: impl IntoIterator<Item = (Task, Duration)>) -> Self {
        let entries = tasks.into_iter().map(|(task, interval)| Entry {
            task,
            interval: interval.max(Duration::from_millis(1)),
            due: Duration::ZERO,
        });
        Self { entries: entries.collect(), skipped: 0 }
    }

    /// When there is something to do next; `None` when there never is.
    pub fn next_due(&self) -> Option<Duration> {
        self.entries.iter().map(|entry| entry.due).min()
    }

    /// Takes one task that is due at `now`, if there is one.
    pub fn take_due(&mut self, now: Duration) -> Option<Task> {
        let entry = self.entries.iter_mut().find(|entry| entry.due <= now)?;
        let late = now - entry.due;
        let missed = late.as_nanos() / entry.interval.as_nanos();
        let missed = u32::try_from(missed).unwrap_or(u32::MAX);
        entry.due += entry.interval.saturating_mul(missed.saturating_add(1));
        // The first run of all starts the rhythm; it has not missed what was before it.
        self.skipped += u64::from(missed);
        Some(entry.task)
    }

    /// How often a due time passed without a run.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Starts the rhythm of all tasks at `now`.
    pub fn start_at(&mut self, now: Duration) {
        for entry in &mut self.entries {
            entry.due = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn due(schedule: &mut Schedule, at: u64) -> Vec<Task> {
        std::iter::from_fn(|| schedule.take_due(ms(at))).collect()
    }

    #[test]
    fn tasks_keep_their_rhythm_and_order() {
        let mut schedule = Schedule::new([
            (Task::NodeInfo, ms(50)),
            (Task::Usage, ms(1000)),
            (Task::Pressure, ms(10_000)),
        ]);
        assert_eq!(due(&mut schedule, 0), [Task::NodeInfo, Task::Usage, Task::Pressure]);
        assert_eq!(due(&mut schedule, 49), []);
        assert_eq!(due(&mut schedule, 53), [Task::NodeInfo]);
        assert_eq!(schedule.next_due(), Some(ms(100)), "three milliseconds late do not add up");
        assert_eq!(due(&mut schedule, 1000), [Task::NodeInfo, Task::Usage]);
        assert_eq!(schedule.skipped(), 18, "the first task was not asked for");
        assert_eq!(schedule.next_due(), Some(ms(1050)));
    }

    #[test]
    fn nothing_is_never_due() {
        assert_eq!(Schedule::default().next_due(), None);
        assert_eq!(Schedule::default().take_due(Duration::MAX), None);
    }

    proptest! {
        /// However late the caller is, a task runs once a call and is due in the future then.
        #[test]
        fn no_task_runs_twice_for_the_same_moment(
            interval in 1u64..5_000,
            moments in proptest::collection::vec(0u64..100_000, 1..50),
        ) {
            let mut schedule = Schedule::new([(Task::Usage, ms(interval))]);
            let mut at = 0;
            for moment in moments {
                at += moment;
                prop_assert!(due(&mut schedule, at).len() <= 1);
                let next = schedule.next_due().unwrap();
                prop_assert!(next > ms(at) && next <= ms(at + interval));
            }
        }
    }
}
