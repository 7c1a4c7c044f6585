//! Time of all CPUs and of each, from `/proc/stat`.

use groups::{ParseError, scan};

/// Where the time of a CPU went since boot, in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    pub user: u64,
    pub nice: u64,
    pub system: u64,
    pub idle: u64,
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    pub steal: u64,
}

impl CpuTimes {
    /// Time spent working. Guest time is part of user; stolen time was never ours.
    pub fn busy(&self) -> u64 {
        [self.user, self.nice, self.system, self.irq, self.softirq]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// Time without work.
    pub fn idle(&self) -> u64 {
        self.idle.saturating_add(self.iowait)
    }

    fn parse<'t>(at: usize, mut words: impl Iterator<Item = &'t [u8]>) -> Result<Self, ParseError> {
        let mut next = || scan::pair_number(at, words.next().unwrap_or_default());
        Ok(Self {
            user: next()?,
            nice: next()?,
            system: next()?,
            idle: next()?,
            iowait: next()?,
            irq: next()?,
            softirq: next()?,
            steal: next()?,
        })
    }
}

/// The `cpu` lines. Kept and filled again, so that reading allocates nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stat {
    pub total: CpuTimes,
    /// CPUs that are online, in ascending order.
    pub cpus: Vec<(u16, CpuTimes)>,
}

impl Stat {
    /// Replaces the content by that of a `/proc/stat`.
    pub fn fill(&mut self, text: &[u8]) -> Result<(), ParseError> {
        self.cpus.clear();
        let mut total = None;
        for (at, line) in scan::lines(text) {
            let mut words = scan::words(line);
            let Some(name) = words.next().and_then(|word| word.strip_prefix(b"cpu")) else {
                // The CPUs stand first; what follows is long on machines with many interrupts.
                if total.is_some() {
                    break;
                }
                continue;
            };
            let times = CpuTimes::parse(at, words)?;
            if name.is_empty() {
                total = Some(times);
                continue;
            }
            let cpu = scan::number(name).and_then(|cpu| u16::try_from(cpu).ok());
            self.cpus.push((cpu.ok_or_else(|| ParseError::new(at, "a cpu number", name))?, times));
        }
        self.total = total.ok_or_else(|| ParseError::missing(text, "a line with cpu"))?;
        Ok(())
    }

    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut stat = Self::default();
        stat.fill(text)?;
        Ok(stat)
    }

    /// The times of one CPU; `None` while it is offline.
    pub fn cpu(&self, cpu: u16) -> Option<&CpuTimes> {
        let at = self.cpus.binary_search_by_key(&cpu, |(cpu, _)| *cpu).ok()?;
        self.cpus.get(at).map(|(_, times)| times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"cpu  10 20 30 1000 5 6 7 8 9 0\ncpu0 4 8 12 500 2 3 3 4 4 0\n\
        cpu2 6 12 18 500 3 3 4 4 5 0\nintr 5 1 2\nctxt 1\nbtime 1\n";

    #[test]
    fn busy_time_excludes_waiting_and_stolen_time() {
        let stat = Stat::parse(TEXT).unwrap();
        assert_eq!((stat.total.busy(), stat.total.idle()), (73, 1_005));
        assert_eq!(stat.cpus.len(), 2);
        assert_eq!(stat.cpu(2).unwrap().user, 6);
        assert_eq!(stat.cpu(1), None);
    }

    #[test]
    fn broken_lines_are_refused() {
        let cases: [&[u8]; 5] = [
            b"",
            b"intr 1\n",
            b"cpu 1 2 3\n",
            b"cpu  1 2 3 4 5 6 7 x\n",
            b"cpu  1 2 3 4 5 6 7 8\ncpu99999 1 2 3 4 5 6 7 8\n",
        ];
        for text in cases {
            assert!(Stat::parse(text).is_err(), "{text:?}");
        }
    }
}
