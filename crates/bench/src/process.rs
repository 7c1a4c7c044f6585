//! What have other processes used so far?

use std::time::Duration;

use anyhow::{Context, ensure};

/// CPU time of the processes together, all their threads included.
pub(super) fn cpu(pids: &[u32]) -> anyhow::Result<Duration> {
    let ticks_per_s = rustix::param::clock_ticks_per_second();
    let mut ticks = 0;
    for pid in pids {
        let path = format!("/proc/{pid}/stat");
        let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        ticks += ticks_of(&stat).with_context(|| format!("no CPU time in {path}"))?;
    }
    ensure!(ticks_per_s > 0, "this kernel has no clock ticks");
    Ok(Duration::from_millis(ticks.saturating_mul(1_000) / ticks_per_s))
}

/// The fields `utime` and `stime`; the second field is a name in parentheses that may hold anything.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    user.checked_add(system)
}

/// Which memory is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Held now.
    Resident,
    /// The most ever held.
    Peak,
}

/// Memory of the processes together.
pub(super) fn memory_mib(pids: &[u32], which: Memory) -> anyhow::Result<f64> {
    let key = match which {
        Memory::Resident => "VmRSS:",
        Memory::Peak => "VmHWM:",
    };
    let mut kib = 0.0;
    for pid in pids {
        let path = format!("/proc/{pid}/status");
        let status =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let value = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kib += value.with_context(|| format!("no {key} in {path}"))?;
    }
    Ok(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_found_behind_any_name() {
        let stat = |name: &str| format!("7 ({name}) S 1 7 7 0 -1 4194560 10 0 0 0 31 11 0 0 20 0");
        assert_eq!(ticks_of(&stat("etcd")), Some(42));
        assert_eq!(ticks_of(&stat("a) S (b 1 2")), Some(42));
        assert_eq!(ticks_of("7 (short) S 1 7"), None);
    }

    #[test]
    fn this_process_has_used_something() {
        let pids = [std::process::id()];
        let [now, most] =
            [Memory::Resident, Memory::Peak].map(|which| memory_mib(&pids, which).unwrap());
        assert!(now > 0.0 && most >= now, "{now} {most}");
        assert!(cpu(&pids).is_ok());
        assert!(cpu(&[u32::MAX]).is_err());
    }
}
