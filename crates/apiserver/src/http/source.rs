//! Where do time and identity come from?
//!
//! The server asks these two traits and nothing else, so that a test can hold the clock still and
//! know every uid beforehand.

use std::fmt::Debug;

use jiff::{Timestamp, Unit};

/// Tells the time.
pub trait Clock: Debug + Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Hands out what must be unique.
pub trait Ids: Debug + Send + Sync {
    fn uid(&self) -> String;
    /// Five letters that complete a `generateName`.
    fn suffix(&self) -> String;
    /// A secret nobody can guess, for tokens.
    fn secret(&self) -> String;
}

/// Ids from the system's random source.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

/// Vowels and look-alikes are left out, as Kubernetes does, so that no words appear by chance.
const SUFFIX: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Ids for RandomIds {
    fn uid(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn suffix(&self) -> String {
        let number = uuid::Uuid::new_v4().as_u128();
        (0..5u32).map(|at| letter(number, at)).collect()
    }

    fn secret(&self) -> String {
        let (a, b) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
        format!("{}{}", a.simple(), b.simple())
    }
}

fn letter(number: u128, at: u32) -> char {
    let digit = (number >> 64) / 27u128.pow(at) % 27;
    usize::try_from(digit).ok().and_then(|at| SUFFIX.get(at)).map_or('x', |b| char::from(*b))
}

/// A moment as `metav1.Time` writes it: whole seconds, UTC.
pub(super) fn seconds(moment: Timestamp) -> String {
    let whole = Timestamp::from_second(moment.as_second()).unwrap_or(moment);
    whole.to_string()
}

/// A moment as `metav1.MicroTime` writes it.
pub(super) fn micros(moment: Timestamp) -> String {
    let rounded = moment.round(Unit::Microsecond).unwrap_or(moment);
    format!("{rounded:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_kubernetes_writes_them() {
        let moment: Timestamp = "2026-01-02T03:04:05.123456789Z".parse().unwrap();
        assert_eq!(seconds(moment), "2026-01-02T03:04:05Z");
        assert_eq!(micros(moment), "2026-01-02T03:04:05.123457Z");
    }

    #[test]
    fn suffixes_are_five_unambiguous_letters() {
        for _ in 0..64 {
            let suffix = RandomIds.suffix();
            assert_eq!(suffix.len(), 5);
            assert!(suffix.bytes().all(|b| SUFFIX.contains(&b)), "{suffix}");
        }
        assert_ne!(RandomIds.suffix(), RandomIds.suffix());
    }
}
