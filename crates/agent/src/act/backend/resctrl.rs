//! Parts of the last-level cache and of memory bandwidth: groups of resctrl.
//!
//! A group that we made is removed when nobody wants it any more, and its threads fall back into the root's; one
//! that was there before gets back its lines, and loses the threads that we put in. New threads start in
//! their parent's group, so only those that come from elsewhere have to be moved.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use groups::resctrl::{Group, Resource, Schemata};
use groups::{CgroupPath, Controller, Version};
use host::cgroup::Tree;
use host::resctrl::Resctrl;
use host::{FileError, Reading};
use qos::cache::CacheAllocation;
use qos::claim::Value;
use qos::wish::Target;

use super::{Aim, Announcer, Backend, Job, Observation, ReadFailure, Refusal};
use crate::act::ledger::{Entry, OriginalValue};
use crate::object::chain;

/// How a group that is not there is called.
const ABSENT: &str = "absent";

#[derive(Debug)]
pub(in crate::act) struct ResctrlBackend {
    tree: Tree,
}

impl ResctrlBackend {
    pub(in crate::act) fn new(tree: Tree) -> Self {
        Self { tree }
    }

    fn find(&self) -> Option<Resctrl> {
        Resctrl::find(self.tree.shared_fs()).value()
    }

    /// The threads of the groups below a pod's.
    fn threads(&self, pod: &CgroupPath) -> Result<Vec<u32>, FileError> {
        let names = self.tree.children(pod)?.value().unwrap_or_default();
        let file = match self.tree.version() {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        };
        let mut threads = Vec::new();
        for name in names {
            let Some(dir) = self.tree.dir(Controller::Cpu, &pod.child(&name)) else { continue };
            // A container that ended meanwhile has no threads.
            let text = self.tree.fs().read(Path::new(&dir.join(file))).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            threads.extend(text.lines().filter_map(|line| line.trim().parse::<u32>().ok()));
        }
        Ok(threads)
    }

    /// The pods whose threads are all in the group.
    fn members(
        &self,
        wanted: &BTreeSet<CgroupPath>,
        tasks: &BTreeSet<u32>,
    ) -> Result<BTreeSet<CgroupPath>, FileError> {
        let mut inside = BTreeSet::new();
        for pod in wanted {
            if self.threads(pod)?.iter().all(|thread| tasks.contains(thread)) {
                inside.insert(pod.clone());
            }
        }
        Ok(inside)
    }

    fn observe(
        &self,
        resctrl: &Resctrl,
        group: &Group,
        aim: Aim<'_>,
    ) -> Result<Observation, FileError> {
        let Some(now) = resctrl.schemata(group)?.value() else {
            let original = OriginalValue::Absent;
            let value = Value::Cache(None);
            return Ok(Observation { text: ABSENT.to_owned(), value, original, holders: None });
        };
        let tasks = tasks(resctrl, group)?;
        let allocation = match (aim.wanted, aim.entry.map(|entry| &entry.original)) {
            (Some(Value::Cache(Some(wanted))), _) => CacheAllocation {
                schemata: only(&now, &parse(&wanted.schemata)).to_string(),
                members: self.members(&wanted.members, &tasks)?,
            },
            (_, Some(OriginalValue::CacheGroup { schemata, tasks: own })) => CacheAllocation {
                schemata: only(&now, &parse(schemata)).to_string(),
                members: strangers(&tasks, own),
            },
            _ => CacheAllocation { schemata: now.to_string(), members: BTreeSet::new() },
        };
        let text = now.to_string().trim_end().to_owned();
        let original = OriginalValue::CacheGroup { schemata: now.to_string(), tasks };
        let value = Value::Cache(Some(allocation));
        Ok(Observation { text, value, original, holders: None })
    }

    /// Makes the group and sets its lines, each announced before.
    fn set_lines(
        &self,
        resctrl: &Resctrl,
        group: &Group,
        wanted: &Schemata,
        job: &Job<'_>,
        log: &Announcer<'_>,
    ) -> Result<(), Refusal> {
        let failed = |error: FileError| Refusal::of(&error);
        if job.now.text == ABSENT {
            log.announce(ABSENT)?;
            resctrl.make(group).map_err(failed)?;
            // What a new group starts with counts as ours.
            let new = resctrl.schemata(group).map_err(failed)?.value().unwrap_or_default();
            log.wrote(new.to_string().trim_end())?;
        }
        log.announce(wanted.to_string().trim_end())?;
        let now = resctrl.schemata(group).map_err(failed)?.value().unwrap_or_default();
        for part in wanted.resources() {
            if now.get(part) != wanted.get(part) {
                resctrl.set(group, part, wanted).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Moves threads into a group as long as there is time; one that ended meanwhile is gone, which is fine.
    fn move_threads(
        resctrl: &Resctrl,
        group: &Group,
        threads: impl Iterator<Item = u32>,
        job: &Job<'_>,
    ) -> Result<(), Refusal> {
        let (mut moved, mut failed) = (0_usize, None);
        for thread in threads {
            if job.limit.is_over() {
                return Err(Refusal::Unfinished(format!(
                    "the time was over after {moved} threads"
                )));
            }
            match resctrl.add_task(group, thread) {
                Ok(_) => moved = moved.saturating_add(1),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), |error| Err(Refusal::of(&error)))
    }
}

impl Backend for ResctrlBackend {
    fn serves(&self, target: &Target) -> bool {
        matches!(target, Target::CacheGroup(_))
    }

    fn read(&mut self, target: &Target, aim: Aim<'_>) -> Result<Observation, ReadFailure> {
        let group =
            group(target).ok_or_else(|| ReadFailure::Unsupported("no such group".to_owned()))?;
        let Some(resctrl) = self.find() else {
            // Whoever took the file system away took the groups with it.
            return Err(match aim.entry {
                Some(_) => ReadFailure::Gone,
                None => ReadFailure::Unsupported("resctrl is not mounted".to_owned()),
            });
        };
        let observed = self.observe(&resctrl, &group, aim);
        let observed = observed.map_err(|error| ReadFailure::Refused(chain(&error)))?;
        let was_there = aim.entry.is_some_and(|entry| entry.original != OriginalValue::Absent);
        // Whoever made the group has removed it.
        if was_there && observed.text == ABSENT { Err(ReadFailure::Gone) } else { Ok(observed) }
    }

    fn write(&mut self, job: &Job<'_>, log: &Announcer<'_>) -> Result<(), Refusal> {
        let (Some(resctrl), Some(group)) = (self.find(), group(job.target)) else {
            return Err(Refusal::Refused("resctrl is not mounted any more".to_owned()));
        };
        let failed = |error: FileError| Refusal::of(&error);
        let Value::Cache(wanted) = job.value else {
            return Err(Refusal::Refused("a group of resctrl has lines and threads".to_owned()));
        };
        let Some(wanted) = wanted else {
            log.announce(ABSENT)?;
            return resctrl.remove(&group).map_err(failed);
        };
        self.set_lines(&resctrl, &group, &parse(&wanted.schemata), job, log)?;
        let inside = tasks(&resctrl, &group).map_err(failed)?;
        let mut outside = Vec::new();
        for pod in &wanted.members {
            let threads = self.threads(pod).map_err(failed)?;
            outside.extend(threads.into_iter().filter(|thread| !inside.contains(thread)));
        }
        Self::move_threads(&resctrl, &group, outside.into_iter(), job)
    }

    fn restore(&mut self, job: &Job<'_>, log: &Announcer<'_>) -> Result<(), Refusal> {
        let original = job.entry.map(|entry| &entry.original);
        let Some(OriginalValue::CacheGroup { schemata, tasks: own }) = original else {
            return self.write(job, log);
        };
        let (Some(resctrl), Some(group)) = (self.find(), group(job.target)) else {
            return Err(Refusal::Refused("resctrl is not mounted any more".to_owned()));
        };
        self.set_lines(&resctrl, &group, &parse(schemata), job, log)?;
        let inside = tasks(&resctrl, &group).map_err(|error| Refusal::of(&error))?;
        Self::move_threads(&resctrl, &Group::root(), inside.difference(own).copied(), job)
    }

    fn original(&self, _target: &Target, original: &OriginalValue) -> Option<Value> {
        match original {
            OriginalValue::Absent => Some(Value::Cache(None)),
            OriginalValue::CacheGroup { schemata, .. } => {
                Some(Value::Cache(Some(CacheAllocation {
                    schemata: parse(schemata).to_string(),
                    members: BTreeSet::new(),
                })))
            }
            OriginalValue::Text(_) => None,
        }
    }

    /// Line by line, because each is written by itself; lines that we never wrote are nobody's.
    fn is_ours(&self, _target: &Target, entry: &Entry, now: &Observation) -> bool {
        if entry.ours.is_empty() || now.text == ABSENT {
            return true;
        }
        let mut written: BTreeMap<Resource, Vec<BTreeMap<u32, u64>>> = BTreeMap::new();
        for text in &entry.ours {
            let ours = parse(text);
            for part in ours.resources() {
                written.entry(part.clone()).or_default().extend(ours.get(part).cloned());
            }
        }
        let original = match &entry.original {
            OriginalValue::CacheGroup { schemata, .. } => parse(schemata),
            _ => Schemata::default(),
        };
        let now = parse(&now.text);
        now.resources().all(|part| {
            let is_written = |ours: &Vec<_>| ours.iter().any(|ours| now.get(part) == Some(ours));
            written.get(part).is_none_or(is_written) || now.get(part) == original.get(part)
        })
    }
}

fn group(target: &Target) -> Option<Group> {
    match target {
        Target::CacheGroup(name) => Group::new(name),
        _ => None,
    }
}

/// Lines that were read or made by us; what is no line is none.
fn parse(text: &str) -> Schemata {
    Schemata::parse(text.as_bytes()).unwrap_or_default()
}

/// The lines of those resources that the other has.
fn only(schemata: &Schemata, other: &Schemata) -> Schemata {
    let mut lines = Schemata::default();
    for part in other.resources() {
        if let Some(values) = schemata.get(part) {
            lines.set(part.clone(), values.clone());
        }
    }
    lines
}

/// Stands for threads that are not the group's own: an original has no such member.
fn strangers(tasks: &BTreeSet<u32>, own: &BTreeSet<u32>) -> BTreeSet<CgroupPath> {
    let has_any = tasks.difference(own).next().is_some();
    has_any.then(CgroupPath::root).into_iter().collect()
}

fn tasks(resctrl: &Resctrl, group: &Group) -> Result<BTreeSet<u32>, FileError> {
    match resctrl.tasks(group)? {
        Reading::Value(tasks) => Ok(tasks.into_iter().collect()),
        Reading::Unsupported | Reading::Gone => Ok(BTreeSet::new()),
    }
}
