//! What is known of a target, and when is it tried again?

use std::time::Duration;

use qos::claim::{Claim, Value, resolve};
use qos::cookies::CookieHolders;
use qos::wish::Target;

use super::Outcome;
use crate::act::writer::WriteOutcome;

/// The first pause after a refused write; it doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The longest pause of a target that is to be restored: somebody may be waiting.
const LONGEST_PAUSE_OF_RESTORE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct TargetState {
    /// What was there before us.
    original: Option<Value>,
    /// What was there when it was last looked at.
    pub(super) settled: Option<Value>,
    pub(super) looked_at: Duration,
    pub(super) is_unsupported: bool,
    pub(super) is_overridden: bool,
    /// It was not there when it was last looked at.
    pub(super) is_absent: bool,
    failures: u32,
    /// No attempt before this.
    paused_until: Duration,
    /// Why it is not as it is wanted.
    pub(super) trouble: Option<String>,
    pub(super) holders: Option<CookieHolders>,
}

impl TargetState {
    /// Whether an attempt makes sense at all.
    pub(super) fn may_try(&self, now: Duration) -> bool {
        !self.is_unsupported && self.paused_until <= now
    }

    /// Whether there may be something to do: the claims changed, or nobody looked for a while.
    pub(super) fn is_due(&self, claims: &[Claim], now: Duration, trust: Duration) -> bool {
        if !self.may_try(now) {
            return false;
        }
        let is_old = now.saturating_sub(self.looked_at) >= trust;
        if self.is_absent || self.is_overridden {
            return is_old;
        }
        let (Some(original), Some(settled)) = (&self.original, &self.settled) else { return true };
        is_old || resolve(original, claims).value != *settled
    }

    /// Whether it waits for another attempt.
    pub(super) fn is_paused(&self) -> bool {
        self.failures > 0 && !self.is_unsupported
    }

    /// Tries everything anew, and at once.
    pub(super) fn forgive(&mut self) {
        (self.failures, self.paused_until, self.is_unsupported) = (0, Duration::ZERO, false);
    }

    /// Takes in what came of an order; what is told of it.
    pub(super) fn take(
        &mut self,
        result: WriteOutcome,
        now: Duration,
        is_wanted: bool,
        target: &Target,
    ) -> Option<Outcome> {
        self.looked_at = now;
        self.is_absent = false;
        match result {
            WriteOutcome::Theirs => None,
            WriteOutcome::Done { original, value, wrote, holders } => {
                (self.original, self.settled) = (Some(original), Some(value));
                (self.failures, self.trouble, self.holders) = (0, None, holders);
                wrote.map(|(old, new)| Outcome::Written { old, new })
            }
            WriteOutcome::Asked { value } => {
                (self.failures, self.trouble) = (0, None);
                Some(Outcome::Asked { value })
            }
            WriteOutcome::Refused { value, error, is_unfinished } => {
                self.refuse(now, is_wanted, is_unfinished);
                self.trouble = Some(error.clone());
                Some(Outcome::Refused { value, error })
            }
            WriteOutcome::Unsupported(reason) => {
                self.settled = None;
                self.is_unsupported = true;
                self.trouble = Some(reason);
                Some(Outcome::Unsupported)
            }
            WriteOutcome::Gone => {
                // A group may be made anew at any moment; a file that is absent stays so for long.
                let is_knob = matches!(target, Target::Knob { .. });
                *self = Self { is_absent: !is_knob, looked_at: now, ..Self::default() };
                None
            }
            WriteOutcome::Overridden { ours, theirs } => {
                self.is_overridden = true;
                self.trouble = Some("somebody else changed it".to_owned());
                Some(Outcome::Overridden { ours, theirs })
            }
            WriteOutcome::LedgerFailed(error) => {
                self.refuse(now, is_wanted, false);
                self.trouble = Some(error.clone());
                Some(Outcome::LedgerFailed { error })
            }
        }
    }

    fn refuse(&mut self, now: Duration, is_wanted: bool, is_unfinished: bool) {
        self.settled = None;
        let longest = if is_wanted { LONGEST_PAUSE } else { LONGEST_PAUSE_OF_RESTORE };
        let doublings = if is_unfinished { 0 } else { self.failures.min(9) };
        let pause = PAUSE.saturating_mul(1 << doublings).min(longest);
        self.failures = self.failures.saturating_add(1);
        self.paused_until = now.saturating_add(pause);
    }
}
