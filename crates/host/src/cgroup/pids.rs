//! How many tasks a group has and may have.

use groups::{Limit, ParseError, scan};

/// Tasks of a group and the groups below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pids {
    pub current: u64,
    pub max: Limit<u64>,
}

impl Pids {
    /// The current count and `pids.max`, the same on both versions.
    pub(super) fn new(current: u64, max: &[u8]) -> Result<Self, ParseError> {
        let max = match max.trim_ascii() {
            b"max" => Limit::Max,
            _ => Limit::At(scan::only_number(max)?),
        };
        Ok(Self { current, max })
    }
}

/// Reads `cgroup.procs`, `tasks` or `cgroup.threads`.
pub(super) fn parse_ids(text: &[u8], ids: &mut Vec<u32>) -> Result<(), ParseError> {
    ids.clear();
    for (at, line) in scan::lines(text) {
        let id = scan::number(line.trim_ascii()).and_then(|id| u32::try_from(id).ok());
        ids.push(id.ok_or_else(|| ParseError::new(at, "a process id", line))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_may_be_none() {
        assert_eq!(Pids::new(3, b"max\n"), Ok(Pids { current: 3, max: Limit::Max }));
        assert_eq!(Pids::new(3, b"9\n"), Ok(Pids { current: 3, max: Limit::At(9) }));
        assert!(Pids::new(3, b"\n").is_err());
    }

    #[test]
    fn ids_come_one_a_line() {
        let mut ids = vec![9];
        parse_ids(b"1\n4294967295\n", &mut ids).unwrap();
        assert_eq!(ids, [1, u32::MAX]);
        parse_ids(b"", &mut ids).unwrap();
        assert!(ids.is_empty());
        assert!(parse_ids(b"1\n4294967296\n", &mut ids).is_err());
        assert!(parse_ids(b"1 2\n", &mut ids).is_err());
    }
}
