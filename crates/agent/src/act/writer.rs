//! How is a target brought where it should be, whatever kind it is?
//!
//! 1. Read the target. A value that is neither ours nor the original is somebody else's: the target is let go.
//! 2. Fold the claims over the original; without claims that is the original itself.
//! 3. Order the writes so that the kernel accepts them, keep original and value in the ledger, write, read back.
//! 4. A target that has its original again leaves the ledger.
//!
//! What differs from kind to kind is a [`Backend`].

use std::collections::BTreeMap;

use host::cgroup::Tree;
use host::cookies::{Cookies, FakeCookies, KernelCookies};
use host::qdisc::{FakeQdiscs, Qdiscs, Tc};
use qos::claim::{Bound, Claim, Value, resolve};
use qos::cookies::CookieHolders;
use qos::wish::Target;
use qos::writes::{self, in_order};
use rustix::io::Errno;

use super::backend::cookie::CookieBackend;
use super::backend::file::FileBackend;
use super::backend::knob::{self, KnobBackend};
use super::backend::qdisc::QdiscBackend;
use super::backend::reclaim::ReclaimBackend;
use super::backend::resctrl::ResctrlBackend;
use super::backend::terway::TerwayBackend;
use super::backend::{Aim, Announcer, Backend, Job, Limit, Observation, ReadFailure, Refusal};
use super::ledger::{Entry, LedgerError, OriginalValue, SharedLedger};
use crate::object::chain;

/// A target to bring where its claims say.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) target: Target,
    pub(super) claims: Vec<Claim>,
    /// Somebody else changed the target: it is only looked whether it is still there.
    pub(super) is_theirs: bool,
}

/// What came of an order.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) target: Target,
    /// Whose claim decided; `None` restores the original.
    pub(super) owner: Option<&'static str>,
    pub(super) result: WriteOutcome,
}

/// How a target was left.
#[derive(Debug, Clone)]
pub(super) enum WriteOutcome {
    /// As it should be, and what was written for that.
    Done {
        original: Value,
        value: Value,
        wrote: Option<(String, String)>,
        holders: Option<CookieHolders>,
    },
    /// Somebody else's, and still there.
    Theirs,
    /// A wish that is carried out once was.
    Asked {
        value: String,
    },
    Refused {
        value: String,
        error: String,
        is_unfinished: bool,
    },
    Unsupported(String),
    /// The target does not exist any more.
    Gone,
    Overridden {
        ours: String,
        theirs: String,
    },
    LedgerFailed(String),
}

/// The machine besides its files.
#[derive(Debug)]
pub(super) struct Devices {
    pub(super) cookies: Box<dyn Cookies>,
    pub(super) qdiscs: Box<dyn Qdiscs>,
}

impl Devices {
    /// Those of the kernel; a recorded host has none.
    pub(super) fn of(tree: &Tree) -> Self {
        match tree.fs().real_path(std::path::Path::new("/")) {
            Some(_) => Self { cookies: Box::new(KernelCookies), qdiscs: Box::new(Tc::default()) },
            None => Self {
                cookies: Box::new(FakeCookies::refusing(Errno::OPNOTSUPP)),
                qdiscs: Box::new(FakeQdiscs::default()),
            },
        }
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    ledger: SharedLedger,
    backends: Vec<Box<dyn Backend>>,
    /// What was last written, and what the target showed then: the kernel rounds some values.
    shown: BTreeMap<Target, (Value, Value)>,
}

/// A target that was read, with what it should become.
struct Case {
    order: Order,
    now: Observation,
    original: Value,
    wanted: Value,
    owner: Option<&'static str>,
}

impl Writer {
    /// For targets that are written in no time.
    pub(super) fn quick(tree: &Tree, ledger: &SharedLedger) -> Self {
        let backends: Vec<Box<dyn Backend>> = vec![
            Box::new(KnobBackend::new(tree.clone(), ledger.clone())),
            Box::new(FileBackend::new(tree.shared_fs())),
        ];
        Self { ledger: ledger.clone(), backends, shown: BTreeMap::new() }
    }

    /// For all others.
    pub(super) fn slow(tree: &Tree, devices: Devices, ledger: &SharedLedger) -> Self {
        let backends: Vec<Box<dyn Backend>> = vec![
            Box::new(ResctrlBackend::new(tree.clone())),
            Box::new(CookieBackend::new(devices.cookies, tree.clone(), ledger.clone())),
            Box::new(QdiscBackend::new(devices.qdiscs)),
            Box::new(TerwayBackend::new(tree.shared_fs())),
            Box::new(ReclaimBackend::new(tree.clone())),
        ];
        Self { ledger: ledger.clone(), backends, shown: BTreeMap::new() }
    }

    fn backend(&mut self, target: &Target) -> Option<&mut Box<dyn Backend>> {
        self.backends.iter_mut().find(|backend| backend.serves(target))
    }

    fn entry(&self, target: &Target) -> Option<Entry> {
        self.ledger.lock().entry(target).cloned()
    }

    /// Carries orders out together, each as far as it goes.
    pub(super) fn settle(&mut self, orders: Vec<Order>, limit: &Limit) -> Vec<Report> {
        let mut reports = Vec::new();
        let mut cases = BTreeMap::new();
        for order in orders {
            let target = order.target.clone();
            let (owner, result) = if target.is_one_shot() {
                self.ask_once(&order, limit)
            } else if order.is_theirs {
                (None, self.look_for(&target))
            } else {
                match self.look(order) {
                    Ok(case) => {
                        cases.insert(target, case);
                        continue;
                    }
                    Err(result) => (None, *result),
                }
            };
            reports.push(Report { target, owner, result });
        }
        reports.extend(self.write(cases, limit));
        reports
    }

    /// Reads a target and folds its claims; an error is where it ends.
    fn look(&mut self, order: Order) -> Result<Case, Box<WriteOutcome>> {
        let Order { target, claims, .. } = &order;
        let entry = self.entry(target);
        // Values of many parts are only ever set, so what the claims come to does not depend on the original.
        let wanted = claims.first().map(|claim| resolve(claim.bound.value(), claims).value);
        let aim = Aim { wanted: wanted.as_ref(), entry: entry.as_ref() };
        let Some(backend) = self.backend(target) else {
            return Err(WriteOutcome::Unsupported("nobody writes this".to_owned()).into());
        };
        let now = match backend.read(target, aim) {
            Ok(now) => now,
            // There is nothing to restore where there is no such thing.
            Err(ReadFailure::Unsupported(_)) if claims.is_empty() => {
                return Err(self.let_go(target, WriteOutcome::Gone).into());
            }
            Err(unread) => return Err(self.unread(target, unread).into()),
        };
        let original = match entry {
            Some(entry) if !backend.is_ours(target, &entry, &now) => {
                let ours = entry.ours.last().cloned().unwrap_or_default();
                let result = WriteOutcome::Overridden { ours, theirs: now.text };
                return Err(self.let_go(target, result).into());
            }
            Some(entry) => entry.original,
            None => match backend.inherited(target, &now) {
                Some(original) => {
                    let mut ledger = self.ledger.lock();
                    let kept = ledger.announce(target, &original, &now.text);
                    drop(ledger);
                    kept.map_err(|error| ledger_failed(&error))?;
                    original
                }
                None => now.original.clone(),
            },
        };
        let understood =
            self.backend(target).and_then(|backend| backend.original(target, &original));
        let Some(original) = understood else {
            let (value, is_unfinished) = (String::new(), false);
            let error = "the original in the ledger is not understood".to_owned();
            return Err(WriteOutcome::Refused { value, error, is_unfinished }.into());
        };
        let resolution = resolve(&original, claims);
        Ok(Case { order, now, original, wanted: resolution.value, owner: resolution.decided_by })
    }

    /// Whether a target that is somebody else's is still there.
    fn look_for(&mut self, target: &Target) -> WriteOutcome {
        let aim = Aim { wanted: None, entry: None };
        match self.backend(target).map(|backend| backend.read(target, aim)) {
            Some(Err(ReadFailure::Gone)) => WriteOutcome::Gone,
            _ => WriteOutcome::Theirs,
        }
    }

    fn unread(&mut self, target: &Target, unread: ReadFailure) -> WriteOutcome {
        match unread {
            ReadFailure::Gone => self.let_go(target, WriteOutcome::Gone),
            ReadFailure::Unsupported(reason) => WriteOutcome::Unsupported(reason),
            ReadFailure::Refused(error) => {
                WriteOutcome::Refused { value: String::new(), error, is_unfinished: false }
            }
        }
    }

    /// The ledger forgets a target, whatever it holds.
    fn let_go(&mut self, target: &Target, result: WriteOutcome) -> WriteOutcome {
        self.shown.remove(target);
        match self.ledger.lock().restored(target) {
            Ok(()) => result,
            Err(error) => ledger_failed(&error),
        }
    }

    fn write(&mut self, mut cases: BTreeMap<Target, Case>, limit: &Limit) -> Vec<Report> {
        let planned: Vec<writes::Change<Target>> =
            cases.iter().map(|(target, case)| self.plan(target, case)).collect();
        let mut reports = Vec::new();
        let mut written: BTreeMap<Target, (String, Option<CookieHolders>)> = BTreeMap::new();
        for write in in_order(&planned) {
            // One that failed is not tried again in this round.
            let Some(case) = cases.get(&write.id) else { continue };
            match self.put(case, &write.value, limit) {
                Ok(shown) => {
                    written.insert(write.id, shown);
                }
                Err(refusal) => {
                    let (target, owner) = (write.id, case.owner);
                    let result = refused(refusal, &write.value);
                    cases.remove(&target);
                    reports.push(Report { target, owner, result });
                }
            }
        }
        for (target, case) in cases {
            let shown = written.remove(&target);
            reports.push(self.finish(target, case, shown));
        }
        reports
    }

    fn plan(&mut self, target: &Target, case: &Case) -> writes::Change<Target> {
        let (depth, nature) = knob::place_in_order(target, &case.wanted);
        let entry = self.entry(target);
        let backend = self.backend(target);
        let is_restored = case.order.claims.is_empty()
            && entry.zip(backend).is_some_and(|(entry, backend)| {
                backend.is_original(target, &entry.original, &case.now)
            });
        let is_as_written = !case.order.claims.is_empty()
            && self
                .shown
                .get(target)
                .is_some_and(|(wanted, shown)| *wanted == case.wanted && *shown == case.now.value);
        // What does the same is left as it is.
        let is_so = is_restored || is_as_written;
        let from = if is_so { case.wanted.clone() } else { case.now.value.clone() };
        writes::Change { id: target.clone(), depth, nature, from, to: case.wanted.clone() }
    }

    /// Keeps, writes and reads back; what the target shows then.
    fn put(
        &mut self,
        case: &Case,
        value: &Value,
        limit: &Limit,
    ) -> Result<(String, Option<CookieHolders>), Refusal> {
        let (target, ledger) = (&case.order.target, self.ledger.clone());
        let entry = self.entry(target);
        let original = entry.as_ref().map_or(&case.now.original, |entry| &entry.original);
        let log = Announcer { ledger: &ledger, target, original };
        let job = Job { target, value, now: &case.now, entry: entry.as_ref(), limit };
        let Some(backend) = self.backend(target) else { return Ok((String::new(), None)) };
        match case.order.claims.is_empty() {
            true => backend.restore(&job, &log)?,
            false => backend.write(&job, &log)?,
        }
        let after = ledger.lock().entry(target).cloned();
        let wanted = (!case.order.claims.is_empty()).then_some(value);
        match backend.read(target, Aim { wanted, entry: after.as_ref() }) {
            Ok(shown) if wanted.is_none() && !backend.is_original(target, original, &shown) => {
                Err(Refusal::Refused(format!("it shows {} after it was restored", shown.text)))
            }
            Ok(shown) => {
                // The kernel rounds some values; what it shows is what has to be recognised.
                log.wrote(&shown.text)?;
                // Members are not rounded: one that is missing has to be found again.
                if !matches!(value, Value::Members(_)) {
                    self.shown.insert(target.clone(), (value.clone(), shown.value));
                }
                Ok((shown.text, shown.holders))
            }
            Err(ReadFailure::Gone) => Ok(("gone".to_owned(), None)),
            Err(ReadFailure::Unsupported(reason)) => Err(Refusal::Unsupported(reason)),
            Err(ReadFailure::Refused(error)) => Err(Refusal::Refused(error)),
        }
    }

    fn finish(
        &mut self,
        target: Target,
        case: Case,
        written: Option<(String, Option<CookieHolders>)>,
    ) -> Report {
        let Case { order, now, original, wanted, owner } = case;
        let kept = {
            let mut ledger = self.ledger.lock();
            match (order.claims.is_empty(), &written) {
                (true, _) => {
                    self.shown.remove(&target);
                    ledger.restored(&target)
                }
                // What an earlier process may have written is settled by now.
                (false, None) => ledger.wrote(&target, &now.text),
                (false, Some(_)) => Ok(()),
            }
        };
        if let Err(error) = kept {
            return Report { target, owner, result: ledger_failed(&error) };
        }
        let (wrote, holders) = match written {
            Some((new, holders)) => (Some((now.text, new)), holders),
            None => (None, now.holders),
        };
        let result = WriteOutcome::Done { original, value: wanted, wrote, holders };
        Report { target, owner, result }
    }

    /// Carries a wish out that leaves nothing to restore.
    fn ask_once(&mut self, order: &Order, limit: &Limit) -> (Option<&'static str>, WriteOutcome) {
        let Some(claim) = order.claims.first() else { return (None, WriteOutcome::Gone) };
        let (target, ledger) = (&order.target, self.ledger.clone());
        let (owner, Bound::Set(value)) = (Some(claim.owner), &claim.bound) else {
            return (Some(claim.owner), WriteOutcome::Gone);
        };
        let Some(backend) = self.backend(target) else { return (owner, WriteOutcome::Gone) };
        let now = match backend.read(target, Aim { wanted: Some(value), entry: None }) {
            Ok(now) => now,
            Err(unread) => return (owner, self.unread(target, unread)),
        };
        let log = Announcer { ledger: &ledger, target, original: &OriginalValue::Absent };
        let result =
            match backend.write(&Job { target, value, now: &now, entry: None, limit }, &log) {
                Ok(()) => WriteOutcome::Asked { value: shown(value) },
                Err(refusal) => refused(refusal, value),
            };
        (owner, result)
    }

    /// What a target holds that should be restored; `None` when it has its original or is gone.
    pub(super) fn leftover(&mut self, target: &Target, entry: &Entry) -> Option<String> {
        let backend = self.backend(target)?;
        match backend.read(target, Aim { wanted: None, entry: Some(entry) }) {
            Ok(now) => (!backend.is_original(target, &entry.original, &now)).then_some(now.text),
            Err(ReadFailure::Gone | ReadFailure::Unsupported(_)) => None,
            Err(ReadFailure::Refused(error)) => Some(error),
        }
    }
}

fn ledger_failed(error: &LedgerError) -> WriteOutcome {
    WriteOutcome::LedgerFailed(chain(error))
}

fn refused(refusal: Refusal, value: &Value) -> WriteOutcome {
    let value = shown(value);
    match refusal {
        Refusal::Refused(error) => WriteOutcome::Refused { value, error, is_unfinished: false },
        Refusal::Unfinished(error) => WriteOutcome::Refused { value, error, is_unfinished: true },
        Refusal::Unsupported(reason) => WriteOutcome::Unsupported(reason),
        Refusal::Ledger(error) => WriteOutcome::LedgerFailed(error),
    }
}

/// A value in a few words.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(Some(number)) => number.to_string(),
        Value::Number(None) => "no limit".to_owned(),
        Value::Cpus(cpus) => cpus.to_string(),
        Value::Text(text) => text.clone(),
        Value::Content(content) => format!("{} bytes", content.as_ref().map_or(0, String::len)),
        Value::Cache(Some(allocation)) => allocation.schemata.trim_end().replace('\n', ", "),
        Value::Cache(None) => "no group".to_owned(),
        Value::Members(members) => format!("{} pods", members.len()),
        Value::Qdisc(Some(plan)) => format!("{} classes", plan.classes.len()),
        Value::Qdisc(None) => "the kernel's own queue".to_owned(),
    }
}
