//! The only writer of kernel files.
//!
//! A round ([`Arbiter::settle`]) looks at every place somebody has a wish for, or that still carries a
//! value of ours:
//!
//! 1. Fold the wishes over what was found there; without wishes that is what was found.
//! 2. Skip what is already so. Files are read again only when their target changes, when a minute has
//!    passed, or when somebody is known to reset them, so a quiet round costs no system call.
//! 3. Order the writes, announce each in the ledger, write, read back.
//!
//! Somebody else's hand: a value that is neither ours nor the one found is a takeover. It is left alone,
//! reported, and the place is not managed any more until its group is made anew. A value that
//! fell back to what was found is a reset by kubelet or systemd, and is written again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use host::Reading;
use host::cgroup::{KnobError, Setting, Tree, Version};
use qos::claim::{Bound, Claim, Rank, Value, resolve};
use qos::writes::{self, in_order};

use super::ledger::{Entry, Ledger, LedgerError};
use super::place::Place;

/// How long a value is trusted to be what we wrote.
const TRUST: Duration = Duration::from_secs(60);

/// The first pause after a refused write; it doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What one owner wants of one place.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    pub place: Place,
    pub rank: Rank,
    pub bound: Bound,
    /// The sum behind it, for people.
    pub why: String,
}

/// Something that happened to a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub place: Place,
    /// Who decided; `None` when it went back to what was found.
    pub owner: Option<&'static str>,
    pub why: String,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Written {
        old: String,
        new: String,
    },
    /// The kernel would not have it; it is tried again after a pause.
    Refused {
        value: String,
        error: String,
    },
    /// This kernel has no such file; it is not tried again.
    Unsupported,
    /// Somebody changed it by hand; it is theirs now.
    TakenOver {
        ours: String,
        theirs: String,
    },
    /// The ledger cannot be written, so nothing is touched.
    Unledgered {
        error: String,
    },
}

#[derive(Debug)]
pub struct Arbiter {
    tree: Tree,
    ledger: Ledger,
    wishes: BTreeMap<&'static str, Posted>,
    known: BTreeMap<Place, Known>,
}

/// The wishes of one owner.
#[derive(Debug, Default)]
struct Posted {
    wishes: Vec<Wish>,
    /// When they lapse unless posted again.
    until: Option<Duration>,
}

/// What is known of a place.
#[derive(Debug, Default)]
struct Known {
    /// What was there before us.
    found: Option<Value>,
    /// What was there when it was last looked at.
    settled: Option<Value>,
    looked_at: Duration,
    is_unsupported: bool,
    is_taken_over: bool,
    failures: u32,
    /// No attempt before this.
    paused_until: Duration,
}

/// Everything needed to bring one place where it should be.
struct Case {
    place: Place,
    text: String,
    now: Setting,
    target: Value,
    owner: Option<&'static str>,
}

impl Arbiter {
    pub fn new(tree: Tree, ledger: Ledger) -> Self {
        Self { tree, ledger, wishes: BTreeMap::new(), known: BTreeMap::new() }
    }

    /// Replaces everything an owner wants. Without `until` it holds until posted otherwise.
    pub fn post(&mut self, owner: &'static str, wishes: Vec<Wish>, until: Option<Duration>) {
        if wishes.is_empty() {
            self.wishes.remove(owner);
        } else {
            self.wishes.insert(owner, Posted { wishes, until });
        }
    }

    /// Takes all wishes back; the next round gives every file back.
    pub fn withdraw_all(&mut self) {
        self.wishes.clear();
    }

    /// Whether every file is as it was found.
    pub fn is_clean(&self) -> bool {
        self.ledger.is_empty()
    }

    /// Why a place is as it is: the wishes for it, strongest last.
    pub fn wishes_for(&self, place: &Place) -> Vec<(&'static str, &Wish)> {
        let mut wishes: Vec<_> = self
            .wishes
            .iter()
            .flat_map(|(owner, posted)| posted.wishes.iter().map(|wish| (*owner, wish)))
            .filter(|(_, wish)| wish.place == *place)
            .collect();
        wishes.sort_by_key(|(owner, wish)| (wish.rank, *owner));
        wishes
    }

    /// Brings every file where it should be. `now` counts from any fixed moment and never goes back.
    pub fn settle(&mut self, now: Duration) -> Vec<Change> {
        self.wishes.retain(|_, posted| posted.until.is_none_or(|until| until > now));
        let claims = self.claims();
        let mut changes = Vec::new();
        let mut cases = BTreeMap::new();
        let places: BTreeSet<Place> =
            claims.keys().cloned().chain(self.ledger.places().cloned()).collect();
        for place in places {
            let wanted = claims.get(&place).map(Vec::as_slice).unwrap_or_default();
            if let Some(case) = self.look(&place, wanted, now, &mut changes) {
                cases.insert(place, case);
            }
        }
        self.known
            .retain(|place, _| claims.contains_key(place) || self.ledger.entry(place).is_some());
        self.write(cases, now, &mut changes);
        changes
    }

    fn claims(&self) -> BTreeMap<Place, Vec<Claim>> {
        let mut claims: BTreeMap<Place, Vec<Claim>> = BTreeMap::new();
        for (owner, posted) in &self.wishes {
            for wish in &posted.wishes {
                let claim = Claim { owner, rank: wish.rank, bound: wish.bound.clone() };
                claims.entry(wish.place.clone()).or_default().push(claim);
            }
        }
        claims
    }

    /// Reads a place if there may be something to do.
    fn look(
        &mut self,
        place: &Place,
        claims: &[Claim],
        now: Duration,
        changes: &mut Vec<Change>,
    ) -> Option<Case> {
        if !self.known.entry(place.clone()).or_default().is_due(claims, now) {
            return None;
        }
        let (text, setting) = self.read_due(place, now, changes)?;
        let version = self.tree.version();
        let known = self.known.get_mut(place)?;
        known.looked_at = now;
        if known.is_taken_over {
            return None;
        }
        let found = match self.ledger.entry(place) {
            Some(entry) if !is_ours(place, entry, version, &setting) => {
                known.is_taken_over = true;
                let ours = entry.ours.last().unwrap_or(&entry.found).clone();
                let outcome = Outcome::TakenOver { ours, theirs: text };
                changes.push(self.change(place, None, outcome));
                self.forget(place, changes);
                return None;
            }
            Some(entry) => place.read(version, &entry.found).ok()?,
            None => setting.clone(),
        };
        let found = place.value(version, &found);
        let resolution = resolve(&found, claims);
        known.found = Some(found);
        known.settled = Some(place.value(version, &setting));
        Some(Case {
            place: place.clone(),
            text,
            now: setting,
            target: resolution.value,
            owner: resolution.decided_by,
        })
    }

    /// Reads a place, and takes note when there is nothing to read.
    fn read_due(
        &mut self,
        place: &Place,
        now: Duration,
        changes: &mut Vec<Change>,
    ) -> Option<(String, Setting)> {
        let known = self.known.get_mut(place)?;
        match self.tree.get_text(&place.group, place.knob) {
            Ok(Reading::Value(read)) => return Some(read),
            Ok(Reading::Unsupported) => {
                known.is_unsupported = true;
                changes.push(self.change(place, None, Outcome::Unsupported));
            }
            Ok(Reading::Gone) => {
                self.known.remove(place);
                self.forget(place, changes);
            }
            Err(error) => {
                known.refuse(now);
                let (value, error) = (String::new(), chain(&error));
                changes.push(self.change(place, None, Outcome::Refused { value, error }));
            }
        }
        None
    }

    fn write(&mut self, cases: BTreeMap<Place, Case>, now: Duration, changes: &mut Vec<Change>) {
        let version = self.tree.version();
        let planned: Vec<writes::Change<Place>> = cases
            .values()
            .map(|case| writes::Change {
                id: case.place.clone(),
                depth: case.place.depth(),
                nature: case.place.nature(),
                from: case.place.value(version, &case.now),
                to: case.target.clone(),
            })
            .collect();
        let mut failed = BTreeSet::new();
        for write in in_order(&planned) {
            let Some(case) = cases.get(&write.id) else { continue };
            if failed.contains(&case.place) {
                continue;
            }
            let is_last = write.value == case.target;
            match self.put(case, &write.value) {
                Ok(new) if is_last => {
                    let outcome = Outcome::Written { old: case.text.clone(), new };
                    changes.push(self.change(&case.place, case.owner, outcome));
                    if let Some(known) = self.known.get_mut(&case.place) {
                        known.failures = 0;
                        known.settled = Some(write.value);
                    }
                }
                Ok(_) => {}
                Err(outcome) => {
                    failed.insert(case.place.clone());
                    self.take_failure(case, outcome, now, changes);
                }
            }
        }
        for case in cases.values().filter(|case| !failed.contains(&case.place)) {
            let is_found = self.ledger.entry(&case.place).is_some_and(|entry| {
                let found = case.place.read(version, &entry.found);
                found.is_ok_and(|found| case.place.value(version, &found) == case.target)
            });
            if is_found && case.owner.is_none() && !self.is_wanted(&case.place) {
                self.forget(&case.place, changes);
            }
        }
    }

    fn is_wanted(&self, place: &Place) -> bool {
        self.wishes.values().any(|posted| posted.wishes.iter().any(|wish| wish.place == *place))
    }

    /// Announces a value, writes it and reads it back; what the file says then.
    fn put(&mut self, case: &Case, value: &Value) -> Result<String, Outcome> {
        let unledgered = |error: LedgerError| Outcome::Unledgered { error: chain(&error) };
        let refused = |error: String| Outcome::Refused { value: format!("{value:?}"), error };
        let (place, version) = (&case.place, self.tree.version());
        let Some(setting) = place.setting(version, &case.now, value) else {
            return Err(refused("the file holds another kind of value".to_owned()));
        };
        let words = self.words(case, value, &setting).map_err(|error| refused(chain(&error)))?;
        self.ledger.found(place, &case.text).map_err(unledgered)?;
        self.ledger.writes(place, &words.join("\n")).map_err(unledgered)?;
        for words in words {
            match self.tree.set_text(&place.group, place.knob, &words) {
                Ok(Reading::Value(())) => {}
                Ok(Reading::Unsupported) => return Err(Outcome::Unsupported),
                Ok(Reading::Gone) => return Err(refused("the group is gone".to_owned())),
                Err(error) => return Err(refused(chain(&error))),
            }
        }
        match self.tree.get_text(&place.group, place.knob) {
            Ok(Reading::Value((shown, _))) => {
                // The kernel rounds some values; what it shows is what we must recognise.
                self.ledger.wrote(place, &shown).map_err(unledgered)?;
                Ok(shown)
            }
            Ok(_) => Err(refused("the group went away".to_owned())),
            Err(error) => Err(refused(chain(&error))),
        }
    }

    /// What to write, in order. What was found goes back in the very words in which it was found:
    /// shares, for one, lose a little on their way to a weight.
    fn words(
        &self,
        case: &Case,
        value: &Value,
        setting: &Setting,
    ) -> Result<Vec<String>, KnobError> {
        let (place, version) = (&case.place, self.tree.version());
        if !matches!(value, Value::Text(_))
            && let Some(entry) = self.ledger.entry(place)
            && let Ok(found) = place.read(version, &entry.found)
            && place.value(version, &found) == *value
        {
            return Ok(vec![entry.found.clone()]);
        }
        place.knob.encode(version, setting)
    }

    fn take_failure(
        &mut self,
        case: &Case,
        outcome: Outcome,
        now: Duration,
        changes: &mut Vec<Change>,
    ) {
        if let Some(known) = self.known.get_mut(&case.place) {
            known.settled = None;
            known.is_unsupported = outcome == Outcome::Unsupported;
            known.refuse(now);
        }
        changes.push(self.change(&case.place, case.owner, outcome));
    }

    fn forget(&mut self, place: &Place, changes: &mut Vec<Change>) {
        if let Err(error) = self.ledger.returned(place) {
            let outcome = Outcome::Unledgered { error: chain(&error) };
            changes.push(self.change(place, None, outcome));
        }
    }

    fn change(&self, place: &Place, owner: Option<&'static str>, outcome: Outcome) -> Change {
        let wish = self.wishes_for(place).into_iter().rfind(|(name, _)| Some(*name) == owner);
        let why = match (wish, owner) {
            (Some((_, wish)), _) => wish.why.clone(),
            (None, _) => "nobody wants it otherwise".to_owned(),
        };
        Change { place: place.clone(), owner, why, outcome }
    }
}

impl Known {
    /// Whether there may be something to do: the target changed, or nobody looked for a while.
    fn is_due(&self, claims: &[Claim], now: Duration) -> bool {
        if self.is_unsupported || self.paused_until > now {
            return false;
        }
        let (Some(found), Some(settled)) = (&self.found, &self.settled) else { return true };
        let is_old = now.saturating_sub(self.looked_at) >= TRUST;
        is_old || !self.is_taken_over && resolve(found, claims).value != *settled
    }

    fn refuse(&mut self, now: Duration) {
        let pause = PAUSE.saturating_mul(1 << self.failures.min(9)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.paused_until = now.saturating_add(pause);
    }
}

/// Whether what is there came from us, or is what was there before us.
fn is_ours(place: &Place, entry: &Entry, version: Version, now: &Setting) -> bool {
    let texts = entry.ours.iter().chain([&entry.found]);
    let mut settings = texts.filter_map(|text| place.read(version, text).ok());
    settings.any(|setting| setting == *now)
}

/// An error and everything below it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
