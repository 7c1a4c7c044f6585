//! The core-scheduling cookie that the processes of a group of pods share.
//!
//! Who gets which is [`qos::cookies`]'s; here processes are found and steps are taken. A cookie cannot be
//! chosen, so the ledger has the process it is about to be made for, and then the cookie itself: a later process
//! knows its own from those of others, and takes them away from whoever has them, wherever they went.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use groups::CgroupPath;
use host::cgroup::Tree;
use host::cookies::{Cookie, Cookies, NONE};
use host::{FileError, Reading};
use qos::claim::Value;
use qos::cookies::{CookieHolders, Process, Step, decide};
use qos::wish::Target;
use rustix::io::Errno;
use tracing::{info, warn};

use super::{Aim, Announcer, Backend, Job, Limit, Observation, ReadFailure, Refusal};
use crate::act::ledger::{Entry, OriginalValue, SharedLedger};
use crate::object::chain;

/// How many processes are changed between two looks at the time.
const AT_ONCE: usize = 64;

#[derive(Debug)]
pub(in crate::act) struct CookieBackend {
    kernel: Box<dyn Cookies>,
    tree: Tree,
    ledger: SharedLedger,
    /// What the kernel said when it was asked whether it has cookies.
    support: Option<Result<(), String>>,
    /// The pods that have the cookie of a group, once all processes were looked at.
    given: BTreeMap<String, BTreeSet<CgroupPath>>,
    /// Processes whose cookie cannot be changed, each told once.
    refusing: BTreeSet<u32>,
}

/// The processes of one group of pods.
#[derive(Debug, Default)]
struct Processes {
    by_container: BTreeMap<CgroupPath, Vec<Process>>,
    /// Others with a cookie of the group.
    others: Vec<Process>,
}

impl Processes {
    fn members(&self) -> impl Iterator<Item = &Process> {
        self.by_container.values().flatten()
    }
}

impl CookieBackend {
    pub(in crate::act) fn new(kernel: Box<dyn Cookies>, tree: Tree, ledger: SharedLedger) -> Self {
        let (given, refusing) = (BTreeMap::new(), BTreeSet::new());
        Self { kernel, tree, ledger, support: None, given, refusing }
    }

    /// Whether the kernel has cookies; asked once.
    fn support(&mut self) -> Result<(), String> {
        let kernel = &self.kernel;
        let asked = || {
            let answer = kernel.probe().map_err(|error| error.to_string());
            if let Err(reason) = &answer {
                warn!(reason, "core scheduling is wanted, and this kernel has none");
            }
            answer
        };
        self.support.get_or_insert_with(asked).clone()
    }

    /// The cookie of every group that we made one for.
    fn ours(&self) -> BTreeMap<String, Cookie> {
        let entries: Vec<(String, Entry)> = {
            let ledger = self.ledger.lock();
            let all = ledger.targets().filter_map(|target| match target {
                Target::CoreCookie(group) => Some((group.clone(), ledger.entry(target)?.clone())),
                _ => None,
            });
            all.collect()
        };
        let made = entries.iter().filter_map(|(group, entry)| {
            Some((group.clone(), entry.ours.iter().rev().find_map(|text| made(text))?))
        });
        let mut ours: BTreeMap<String, Cookie> = made.collect();
        let known: BTreeSet<Cookie> = ours.values().copied().collect();
        for (group, entry) in entries {
            // The cookie was announced, and made or not: the process it is for has none or another of ours then.
            let announced = entry.ours.iter().rev().filter_map(|text| announced(text));
            let cookies = announced.filter_map(|process| self.kernel.get(process).ok());
            let new = cookies.into_iter().find(|cookie| *cookie != NONE && !known.contains(cookie));
            if let Some(cookie) = new {
                ours.insert(group, cookie);
            }
        }
        ours
    }

    /// One that has ended meanwhile has no cookie.
    fn processes_of(&self, group: &CgroupPath) -> Result<Vec<Process>, FileError> {
        let Reading::Value(ids) = self.tree.procs(group)? else { return Ok(Vec::new()) };
        Ok(self.with_cookies(&ids))
    }

    fn with_cookies(&self, ids: &[u32]) -> Vec<Process> {
        let with = |id: &u32| Some(Process { id: *id, cookie: self.kernel.get(*id).ok()? });
        ids.iter().filter_map(with).collect()
    }

    /// Every process of the machine that has the cookie.
    fn holders(&self, cookie: Cookie) -> Result<Vec<Process>, FileError> {
        let path = Path::new("/proc");
        let entries = self.tree.fs().list(path);
        let entries =
            entries.map_err(|source| FileError::Read { path: path.to_owned(), source })?;
        let ids: Vec<u32> = entries.iter().filter_map(|entry| entry.name.parse().ok()).collect();
        let mut all = self.with_cookies(&ids);
        all.retain(|process| process.cookie == cookie);
        Ok(all)
    }

    fn find(
        &self,
        group: &str,
        pods: &BTreeSet<CgroupPath>,
        cookie: Option<Cookie>,
    ) -> Result<Processes, FileError> {
        let mut found = Processes::default();
        for pod in pods {
            for name in self.tree.children(pod)?.value().unwrap_or_default() {
                let container = pod.child(&name);
                let processes = self.processes_of(&container)?;
                found.by_container.insert(container, processes);
            }
        }
        let Some(cookie) = cookie else { return Ok(found) };
        let has_it = |process: &Process| process.cookie == cookie;
        let mut others = match self.given.get(group) {
            Some(given) if found.members().any(has_it) => {
                let mut others = Vec::new();
                for pod in given.difference(pods) {
                    for name in self.tree.children(pod)?.value().unwrap_or_default() {
                        others.extend(self.processes_of(&pod.child(&name))?);
                    }
                }
                others
            }
            // Of an earlier process, or none of the group has it any more: who has?
            _ => self.holders(cookie)?,
        };
        let members: BTreeSet<u32> = found.members().map(|process| process.id).collect();
        others.retain(|process| has_it(process) && !members.contains(&process.id));
        found.others = others;
        Ok(found)
    }

    fn observe(&mut self, group: &str, aim: Aim<'_>) -> Result<Observation, FileError> {
        let ours = self.ours();
        let cookie = ours.get(group).copied();
        let text = cookie.map_or_else(|| "none".to_owned(), |cookie| format!("cookie {cookie}"));
        let original = OriginalValue::Absent;
        let Some(Value::Members(pods)) = aim.wanted else {
            let holders =
                cookie.map(|cookie| self.holders(cookie)).transpose()?.unwrap_or_default();
            let text = match holders.len() {
                0 => "none".to_owned(),
                count => format!("{text} of {count} processes"),
            };
            let value = Value::Members(others_marker(!holders.is_empty()));
            return Ok(Observation { text, value, original, holders: None });
        };
        let found = self.find(group, pods, cookie)?;
        let is_stranger = |process: &Process| {
            process.cookie != NONE && !ours.values().any(|ours| *ours == process.cookie)
        };
        let has_it = |process: &Process| Some(process.cookie) == cookie;
        let is_done = |process: &Process| {
            has_it(process) || is_stranger(process) || self.refusing.contains(&process.id)
        };
        let mut members = others_marker(!found.others.is_empty());
        for pod in pods {
            let mut below = found.by_container.iter();
            let is_complete = below.all(|(container, all)| {
                container.parent().as_ref() != Some(pod) || all.iter().all(is_done)
            });
            if is_complete {
                members.insert(pod.clone());
            }
        }
        let holders = CookieHolders {
            cookie,
            containers: found
                .by_container
                .iter()
                .filter(|(_, all)| all.first().is_some_and(has_it))
                .map(|(container, _)| container.clone())
                .collect(),
            processes: found.members().count(),
            strangers: found.members().filter(|process| is_stranger(process)).count(),
            refusing: found
                .members()
                .filter(|process| !has_it(process) && self.refusing.contains(&process.id))
                .count(),
        };
        // A cookie that nobody has any more is the kernel's to give to others.
        let is_used = found.members().chain(&found.others).any(has_it);
        let text = if is_used { text } else { "none".to_owned() };
        if members == *pods {
            self.given.insert(group.to_owned(), pods.clone());
        }
        Ok(Observation { text, value: Value::Members(members), original, holders: Some(holders) })
    }

    fn take_steps(
        &mut self,
        job: &Job<'_>,
        steps: &[Step],
        log: &Announcer<'_>,
    ) -> Result<(), Refusal> {
        // First, because the ledger forgets an old cookie when a new one is made.
        for step in steps {
            if let Step::Clear(processes) = step {
                self.clear(processes, job.limit)?;
            }
        }
        let mut has_cookie = true;
        for step in steps {
            match step {
                Step::Create { process, .. } => has_cookie = self.create(*process, log)?,
                Step::Share { from, to, .. } => {
                    let (mut from, mut to) = (*from, to.as_slice());
                    // Where the first process refused, the next that does not is the first.
                    while !has_cookie && let Some((next, rest)) = to.split_first() {
                        (from, to) = (*next, rest);
                        has_cookie = self.create(from, log)?;
                    }
                    if has_cookie {
                        self.share(from, to, job.limit)?;
                    }
                }
                Step::Clear(_) => {}
            }
        }
        Ok(())
    }

    /// Announces a cookie, makes it and learns which it is; whether the process took it.
    fn create(&mut self, process: u32, log: &Announcer<'_>) -> Result<bool, Refusal> {
        log.announce(&format!("pid {process}"))?;
        match self.kernel.create(process).and_then(|()| self.kernel.get(process)) {
            Ok(cookie) => {
                info!(target = %log.target, "made a core-scheduling cookie");
                log.wrote(&format!("cookie {cookie}"))?;
                Ok(true)
            }
            Err(error) => {
                self.refuse(vec![(process, error)]);
                Ok(false)
            }
        }
    }

    fn share(&mut self, from: u32, to: &[u32], limit: &Limit) -> Result<(), Refusal> {
        for to in to.chunks(AT_ONCE) {
            end_of(limit)?;
            // One that ended meanwhile has nothing to share; the next attempt finds another.
            let failed = self.kernel.share(from, to).map_err(|error| Refusal::of(&error))?;
            self.refuse(failed);
        }
        Ok(())
    }

    fn clear(&mut self, processes: &[u32], limit: &Limit) -> Result<(), Refusal> {
        let mut refused = None;
        for processes in processes.chunks(AT_ONCE) {
            end_of(limit)?;
            let failed = self.kernel.clear(processes).map_err(|error| Refusal::of(&error))?;
            refused = refused.or(self.refuse(failed));
        }
        refused.map_or(Ok(()), |reason| Err(Refusal::Refused(reason)))
    }

    /// Says once which process cannot be changed, and why.
    fn refuse(&mut self, failed: Vec<(u32, io::Error)>) -> Option<String> {
        let mut reason = None;
        for (process, error) in failed {
            if Errno::from_io_error(&error) == Some(Errno::SRCH) {
                continue;
            }
            reason.get_or_insert_with(|| format!("process {process}: {error}"));
            if self.refusing.insert(process) {
                warn!(process, %error, "cannot change the core-scheduling cookie of a process");
            }
        }
        reason
    }
}

impl Backend for CookieBackend {
    fn serves(&self, target: &Target) -> bool {
        matches!(target, Target::CoreCookie(_))
    }

    fn read(&mut self, target: &Target, aim: Aim<'_>) -> Result<Observation, ReadFailure> {
        let Target::CoreCookie(group) = target else {
            return Err(ReadFailure::Unsupported("no cookie".to_owned()));
        };
        self.support().map_err(ReadFailure::Unsupported)?;
        self.observe(group, aim).map_err(|error| ReadFailure::Refused(chain(&error)))
    }

    fn write(&mut self, job: &Job<'_>, log: &Announcer<'_>) -> Result<(), Refusal> {
        let (Target::CoreCookie(group), Value::Members(pods)) = (job.target, job.value) else {
            return Err(Refusal::Refused("a cookie is shared by members".to_owned()));
        };
        let ours = self.ours();
        let found = self.find(group, pods, ours.get(group).copied());
        let found = found.map_err(|error| Refusal::of(&error))?;
        let alive: BTreeSet<u32> = found.members().map(|process| process.id).collect();
        self.refusing
            .retain(|process| alive.contains(process) || self.kernel.get(*process).is_ok());
        let members: Vec<Process> = found.members().copied().collect();
        let groups = BTreeMap::from([(group.clone(), members)]);
        let decision = decide(&groups, &found.others, &ours);
        self.take_steps(job, &decision.steps, log)?;
        self.given.insert(group.clone(), pods.clone());
        Ok(())
    }

    /// Takes the cookie away from every process that has it, wherever it went.
    fn restore(&mut self, job: &Job<'_>, _log: &Announcer<'_>) -> Result<(), Refusal> {
        let Target::CoreCookie(group) = job.target else { return Ok(()) };
        let Some(cookie) = self.ours().get(group).copied() else { return Ok(()) };
        let holders = self.holders(cookie).map_err(|error| Refusal::of(&error))?;
        let ids: Vec<u32> = holders.iter().map(|process| process.id).collect();
        self.given.remove(group);
        self.clear(&ids, job.limit)
    }

    fn original(&self, _target: &Target, _original: &OriginalValue) -> Option<Value> {
        Some(Value::Members(BTreeSet::new()))
    }

    /// Cookies of others are told apart process by process.
    fn is_ours(&self, _target: &Target, _entry: &Entry, _now: &Observation) -> bool {
        true
    }
}

fn made(text: &str) -> Option<Cookie> {
    text.strip_prefix("cookie ")?.parse().ok()
}

fn announced(text: &str) -> Option<u32> {
    text.strip_prefix("pid ")?.parse().ok()
}

fn end_of(limit: &Limit) -> Result<(), Refusal> {
    match limit.is_over() {
        true => Err(Refusal::Unfinished("the time was over before all processes".to_owned())),
        false => Ok(()),
    }
}

/// Stands for processes that should not have the cookie: no wish has such a member.
fn others_marker(has_any: bool) -> BTreeSet<CgroupPath> {
    has_any.then(CgroupPath::root).into_iter().collect()
}
