//! The only writer of kernel files.
//!
//! A round ([`Arbiter::settle`]) looks at every place somebody has a wish for, or that still carries a
//! value of ours:
//!
//! 1. Fold the wishes over what was found there; without wishes that is what was found.
//! 2. Skip what is already so. A place is looked at when somebody's wish for it changed, and otherwise
//!    once a minute, so a quiet round costs next to nothing, twenty times a second if need be.
//! 3. Order the writes, announce each in the ledger, write, read back.
//!
//! Somebody else's hand: a value that is neither ours nor the one found is a takeover. It is left alone,
//! reported, and the place is not managed any more until its group is made anew. A value that
//! fell back to what was found is a reset by kubelet or systemd, and is written again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use groups::{CgroupPath, Knob, KnobError, Setting, Version};
use host::Reading;
use host::cgroup::Tree;
use qos::claim::{Claim, Value, resolve};
use qos::wish::{Target, Wish};
use qos::writes::{self, in_order};

use super::ledger::{Entry, Ledger, LedgerError};
use super::place::KnobRef;

/// How long a value is trusted to be what we wrote.
const TRUST: Duration = Duration::from_secs(60);

/// How often all places are looked through.
const SCAN: Duration = Duration::from_secs(1);

/// The first pause after a refused write; it doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Something that happened to a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub target: Target,
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
    owners: BTreeMap<&'static str, Posted>,
    /// Every wish, by the place it is for.
    wishes: BTreeMap<KnobRef, Vec<(&'static str, Wish)>>,
    known: BTreeMap<KnobRef, Known>,
    /// Places whose wishes changed, or that have to be tried again.
    dirty: BTreeSet<KnobRef>,
    /// When all places are looked through for what is due.
    next_scan: Duration,
    /// Places that are not trusted to stay as they are.
    watched: BTreeSet<KnobRef>,
}

/// What one owner posted.
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
    place: KnobRef,
    text: String,
    now: Setting,
    target: Value,
    owner: Option<&'static str>,
}

impl Arbiter {
    pub fn new(tree: Tree, ledger: Ledger) -> Self {
        Self {
            tree,
            ledger,
            owners: BTreeMap::new(),
            wishes: BTreeMap::new(),
            known: BTreeMap::new(),
            dirty: BTreeSet::new(),
            next_scan: Duration::ZERO,
            watched: BTreeSet::new(),
        }
    }

    /// Replaces everything an owner wants. Without `until` it holds until posted otherwise.
    pub fn post(&mut self, owner: &'static str, wishes: Vec<Wish>, until: Option<Duration>) {
        let posted = self.owners.entry(owner).or_default();
        posted.until = until;
        if posted.wishes == wishes {
            return;
        }
        let old = std::mem::replace(&mut posted.wishes, wishes.clone());
        for place in old.iter().filter_map(knob) {
            if let Some(wanted) = self.wishes.get_mut(&place) {
                wanted.retain(|(name, _)| *name != owner);
            }
            self.dirty.insert(place);
        }
        for wish in wishes {
            let Some(place) = knob(&wish) else { continue };
            self.dirty.insert(place.clone());
            self.wishes.entry(place).or_default().push((owner, wish));
        }
        self.wishes.retain(|_, wanted| !wanted.is_empty());
        self.owners.retain(|_, posted| !posted.wishes.is_empty());
    }

    /// Takes all wishes back; the next round gives every file back, however often it was refused.
    pub fn withdraw_all(&mut self) {
        self.dirty.extend(std::mem::take(&mut self.wishes).into_keys());
        self.dirty.extend(self.ledger.places().cloned());
        self.owners.clear();
        for known in self.known.values_mut() {
            (known.failures, known.paused_until) = (0, Duration::ZERO);
        }
    }

    /// From now on this place is looked at in every scan: others are known to reset it.
    pub fn watch(&mut self, group: CgroupPath, knob: Knob) {
        self.watched.insert(KnobRef::new(group, knob));
    }

    /// Files that may not be as they were found.
    pub fn held(&self) -> impl ExactSizeIterator<Item = Target> {
        self.ledger.places().cloned().map(Target::from)
    }

    /// Whether every file is as it was found.
    pub fn is_clean(&self) -> bool {
        self.ledger.is_empty()
    }

    /// Why a place is as it is: the wishes for it, strongest last.
    fn wishes_for(&self, place: &KnobRef) -> Vec<(&'static str, &Wish)> {
        let wanted = self.wishes.get(place).into_iter().flatten();
        let mut wishes: Vec<_> = wanted.map(|(owner, wish)| (*owner, wish)).collect();
        wishes.sort_by_key(|(owner, wish)| (wish.rank, *owner));
        wishes
    }

    /// Brings every file where it should be. `now` counts from any fixed moment and never goes back.
    pub fn settle(&mut self, now: Duration) -> Vec<Change> {
        self.lapse(now);
        if now >= self.next_scan {
            self.next_scan = now.saturating_add(SCAN);
            self.scan(now);
        }
        let mut changes = Vec::new();
        let mut cases = BTreeMap::new();
        for place in std::mem::take(&mut self.dirty) {
            let claims = self.claims(&place);
            if let Some(case) = self.look(&place, &claims, now, &mut changes) {
                cases.insert(place, case);
            }
        }
        self.write(cases, now, &mut changes);
        changes
    }

    /// Drops the wishes of owners who did not renew them.
    fn lapse(&mut self, now: Duration) {
        let has_lapsed = |posted: &Posted| posted.until.is_some_and(|until| until <= now);
        let lapsed: Vec<&'static str> = self
            .owners
            .iter()
            .filter(|(_, posted)| has_lapsed(posted))
            .map(|(owner, _)| *owner)
            .collect();
        for owner in lapsed {
            self.post(owner, Vec::new(), None);
        }
    }

    /// Marks what nobody looked at for a while, and forgets what nobody cares about.
    fn scan(&mut self, now: Duration) {
        let (wishes, ledger) = (&self.wishes, &self.ledger);
        self.known.retain(|place, _| wishes.contains_key(place) || ledger.entry(place).is_some());
        let all = self.wishes.keys().chain(self.ledger.places());
        let is_due = |place: &&KnobRef| {
            self.known.get(*place).is_none_or(|known| {
                known.settled.is_none()
                    || now.saturating_sub(known.looked_at) >= TRUST
                    || self.watched.contains(*place)
            })
        };
        self.dirty.extend(all.filter(is_due).cloned());
    }

    fn claims(&self, place: &KnobRef) -> Vec<Claim> {
        let wanted = self.wishes.get(place).into_iter().flatten();
        wanted
            .map(|(owner, wish)| Claim { owner, rank: wish.rank, bound: wish.bound.clone() })
            .collect()
    }

    /// Reads a place if there may be something to do.
    fn look(
        &mut self,
        place: &KnobRef,
        claims: &[Claim],
        now: Duration,
        changes: &mut Vec<Change>,
    ) -> Option<Case> {
        // What nobody wants any more is looked at once, so that the ledger can let go of it.
        let is_orphan = claims.is_empty() && self.ledger.entry(place).is_some();
        let trust = match is_orphan {
            true => Duration::ZERO,
            false if self.watched.contains(place) => SCAN,
            false => TRUST,
        };
        if !self.known.entry(place.clone()).or_default().is_due(claims, now, trust) {
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
            None => match self.inherited(place, &setting) {
                Some(found) => {
                    let kept = self.ledger.found(place, &found);
                    if let Err(error) = kept.and_then(|()| self.ledger.wrote(place, &text)) {
                        let outcome = Outcome::Unledgered { error: chain(&error) };
                        changes.push(self.change(place, None, outcome));
                        return None;
                    }
                    place.read(version, &found).ok()?
                }
                None => setting.clone(),
            },
        };
        let known = self.known.get_mut(place)?;
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

    /// What a place would have had without us. On v1 a new group starts with the CPUs of its parent;
    /// one that has what we gave an ancestor would have had what was found there.
    fn inherited(&self, place: &KnobRef, now: &Setting) -> Option<String> {
        if place.knob != Knob::CpusetCpus || self.tree.version() != Version::V1 {
            return None;
        }
        let mut above = place.group.parent();
        while let Some(group) = above {
            let ancestor = KnobRef::new(group.clone(), place.knob);
            if let Some(entry) = self.ledger.entry(&ancestor) {
                let texts = entry.ours.iter();
                let mut ours = texts.filter_map(|text| ancestor.read(Version::V1, text).ok());
                return ours.any(|ours| ours == *now).then(|| entry.found.clone());
            }
            above = group.parent();
        }
        None
    }

    /// Reads a place, and takes note when there is nothing to read.
    fn read_due(
        &mut self,
        place: &KnobRef,
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
            // Some files say so while their group is still there; what was found must not be lost.
            Ok(Reading::Gone) if self.tree.exists(&place.group) => known.refuse(now),
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

    fn write(&mut self, cases: BTreeMap<KnobRef, Case>, now: Duration, changes: &mut Vec<Change>) {
        let version = self.tree.version();
        let planned: Vec<writes::Change<KnobRef>> = cases
            .values()
            .map(|case| writes::Change {
                id: case.place.clone(),
                depth: case.place.depth(),
                nature: case.place.nature_towards(&case.target),
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
            if is_found && case.owner.is_none() && !self.wishes.contains_key(&case.place) {
                self.forget(&case.place, changes);
            }
        }
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
                Err(error) => match place.instead(&self.tree, value) {
                    Some(words) if self.tree.set_text(&place.group, place.knob, &words).is_ok() => {
                    }
                    _ => return Err(refused(chain(&error))),
                },
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

    fn forget(&mut self, place: &KnobRef, changes: &mut Vec<Change>) {
        if let Err(error) = self.ledger.returned(place) {
            let outcome = Outcome::Unledgered { error: chain(&error) };
            changes.push(self.change(place, None, outcome));
        }
    }

    fn change(&self, place: &KnobRef, owner: Option<&'static str>, outcome: Outcome) -> Change {
        let wish = self.wishes_for(place).into_iter().rfind(|(name, _)| Some(*name) == owner);
        let why = match (wish, owner) {
            (Some((_, wish)), _) => wish.why.clone(),
            (None, _) => "nobody wants it otherwise".to_owned(),
        };
        Change { target: place.clone().into(), owner, why, outcome }
    }
}

impl Known {
    /// Whether there may be something to do: the target changed, or nobody looked for a while.
    fn is_due(&self, claims: &[Claim], now: Duration, trust: Duration) -> bool {
        if self.is_unsupported || self.paused_until > now {
            return false;
        }
        let (Some(found), Some(settled)) = (&self.found, &self.settled) else { return true };
        let is_old = now.saturating_sub(self.looked_at) >= trust;
        is_old || !self.is_taken_over && resolve(found, claims).value != *settled
    }

    fn refuse(&mut self, now: Duration) {
        let pause = PAUSE.saturating_mul(1 << self.failures.min(9)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.paused_until = now.saturating_add(pause);
    }
}

/// The knob a wish is for; other targets are not written here.
fn knob(wish: &Wish) -> Option<KnobRef> {
    match &wish.target {
        Target::Knob { group, knob } => Some(KnobRef::new(group.clone(), *knob)),
        _ => None,
    }
}

/// Whether what is there came from us, or is what was there before us.
fn is_ours(place: &KnobRef, entry: &Entry, version: Version, now: &Setting) -> bool {
    let texts = entry.ours.iter().chain([&entry.found]);
    let mut settings = texts.filter_map(|text| place.read(version, text).ok());
    settings.any(|setting| setting == *now)
}

/// An error and everything below it, on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
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
