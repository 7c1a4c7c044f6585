//! Who may share a core with whom?
//!
//! Threads of one core disturb each other however CPU time is divided. Core scheduling lets only those
//! run beside each other that have the same *cookie*; here it is decided who that is, and what has to be
//! done to processes so that it becomes true.
//!
//! Pods of one group have one cookie. A group is what a label says, by default the same for everybody;
//! an exclusive pod is a group of its own; a class that expels others (the online side) has groups apart:
//!
//! ```text
//! group = label, or the pod's uid if it is exclusive        + "-expeller" for classes that expel
//! ```
//!
//! Whoever has a cookie that is not ours, a virtual machine for one, keeps it.

use std::collections::{BTreeMap, BTreeSet};

use groups::CgroupPath;

use crate::identity::Owner;

/// Switches of vendor kernels, absent on mainline: group identities, and cookies as a whole.
pub const IDENTITIES: &str = "/proc/sys/kernel/sched_group_identity_enabled";
pub const CORES: &str = "/proc/sys/kernel/sched_core";
pub const VENDOR_SWITCHES: [&str; 2] = [IDENTITIES, CORES];

/// What is added to the groups of classes that expel others from their cores.
const EXPELLER: &str = "-expeller";

/// What operators configured for a class that is on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Class {
    pub expels: bool,
}

/// The classes; `None` is off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Classes {
    pub lsr: Option<Class>,
    pub ls: Option<Class>,
    pub be: Option<Class>,
}

/// Whom a pod wants beside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wish {
    /// Its group.
    #[default]
    Group,
    /// Only itself.
    Exclusive,
    /// Anybody.
    Anybody,
}

/// A pod in the eyes of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pod<'p> {
    pub uid: &'p str,
    /// `None` for SYSTEM pods, which share with everybody.
    pub owner: Option<Owner>,
    /// What its label says.
    pub group: &'p str,
    pub wish: Wish,
}

/// The group whose cookie a pod has; `None` has none.
pub fn group(pod: &Pod<'_>, classes: &Classes) -> Option<String> {
    let class = match pod.owner? {
        Owner::Lse | Owner::Lsr => classes.lsr,
        Owner::Guaranteed => classes.lsr.or(classes.ls),
        Owner::Ls | Owner::Burstable => classes.ls,
        Owner::Be | Owner::BestEffort => classes.be,
    }?;
    let group = match pod.wish {
        Wish::Group => pod.group,
        Wish::Exclusive => pod.uid,
        Wish::Anybody => return None,
    };
    Some(format!("{group}{}", if class.expels { EXPELLER } else { "" }))
}

/// A process and the cookie it has; zero is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pub id: u32,
    pub cookie: u64,
}

/// What has to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make a cookie for a group, and give it to this process.
    Create { group: String, process: u32 },
    /// Give the group's cookie to these, from one that has it by now.
    Share { group: String, from: u32, to: Vec<u32> },
    /// Take ours away from these.
    Clear(Vec<u32>),
}

/// What to do, and whom not to touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    pub steps: Vec<Step>,
    /// Processes with cookies of somebody else.
    pub strangers: Vec<u32>,
}

/// Brings every process to the cookie of its group. `others` are processes that should have none, and
/// `ours` the cookie of every group we made one for.
pub fn decide(
    groups: &BTreeMap<String, Vec<Process>>,
    others: &[Process],
    ours: &BTreeMap<String, u64>,
) -> Decision {
    let known: BTreeSet<u64> = ours.values().copied().collect();
    let is_stranger = |process: &Process| process.cookie != 0 && !known.contains(&process.cookie);
    let mut decision = Decision::default();
    for (group, processes) in groups {
        let strangers = processes.iter().filter(|process| is_stranger(process));
        decision.strangers.extend(strangers.map(|process| process.id));
        let members = || processes.iter().filter(|process| !is_stranger(process));
        let cookie = ours.get(group).copied();
        let has_it = |process: &&Process| Some(process.cookie) == cookie;
        let from = match members().find(has_it) {
            Some(process) => process.id,
            None => {
                let Some(first) = members().next() else { continue };
                decision.steps.push(Step::Create { group: group.clone(), process: first.id });
                first.id
            }
        };
        let lacks_it = |process: &&Process| process.id != from && !has_it(process);
        let to: Vec<u32> = members().filter(lacks_it).map(|process| process.id).collect();
        if !to.is_empty() {
            decision.steps.push(Step::Share { group: group.clone(), from, to });
        }
    }
    let cleared: Vec<u32> = others
        .iter()
        .filter(|process| process.cookie != 0 && !is_stranger(process))
        .map(|process| process.id)
        .collect();
    if !cleared.is_empty() {
        decision.steps.push(Step::Clear(cleared));
    }
    decision
}

/// Who has the cookie of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CookieHolders {
    pub cookie: Option<u64>,
    /// Containers with a process that has it.
    pub containers: BTreeSet<CgroupPath>,
    /// Processes that should have it.
    pub processes: usize,
    /// Those of them that have a cookie of somebody else, and keep it.
    pub strangers: usize,
    /// Those of them that the kernel does not let us change.
    pub refusing: usize,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ON: Classes = Classes {
        lsr: Some(Class { expels: true }),
        ls: Some(Class { expels: true }),
        be: Some(Class { expels: false }),
    };

    fn pod(owner: Owner) -> Pod<'static> {
        Pod { uid: "u1", owner: Some(owner), group: "", wish: Wish::Group }
    }

    #[test]
    fn groups_follow_label_policy_and_class() {
        let no_lsr = Classes { lsr: None, ..ON };
        let labelled = Pod { group: "team-a", ..pod(Owner::Ls) };
        let exclusive = Pod { wish: Wish::Exclusive, ..labelled };
        let cases = [
            ("the online side", pod(Owner::Ls), ON, Some("-expeller")),
            ("LSE is like LSR", pod(Owner::Lse), ON, Some("-expeller")),
            ("best-effort is expelled", pod(Owner::Be), ON, Some("")),
            ("so is an unlabelled one", pod(Owner::BestEffort), ON, Some("")),
            ("a label", labelled, ON, Some("team-a-expeller")),
            ("a label of best-effort", Pod { group: "a", ..pod(Owner::Be) }, ON, Some("a")),
            ("exclusive", exclusive, ON, Some("u1-expeller")),
            ("a pod that wants none", Pod { wish: Wish::Anybody, ..labelled }, ON, None),
            ("SYSTEM", Pod { owner: None, ..labelled }, ON, None),
            ("a class that is off", pod(Owner::Lsr), no_lsr, None),
            ("guaranteed without LSR", pod(Owner::Guaranteed), no_lsr, Some("-expeller")),
            ("all off", pod(Owner::Be), Classes::default(), None),
        ];
        for (name, pod, classes, want) in cases {
            assert_eq!(group(&pod, &classes).as_deref(), want, "{name}");
        }
    }

    fn process(id: u32, cookie: u64) -> Process {
        Process { id, cookie }
    }

    fn all(group: &str, processes: &[(u32, u64)]) -> BTreeMap<String, Vec<Process>> {
        let processes = processes.iter().map(|(id, cookie)| process(*id, *cookie));
        BTreeMap::from([(group.to_owned(), processes.collect())])
    }

    #[test]
    fn a_group_is_made_joined_and_left() {
        let ours = BTreeMap::from([("be".to_owned(), 7)]);
        let none = BTreeMap::new();
        let create = |process| Step::Create { group: "be".to_owned(), process };
        let share =
            |from, to: &[u32]| Step::Share { group: "be".to_owned(), from, to: to.to_vec() };
        let cases = [
            ("a new group", all("be", &[(1, 0), (2, 0)]), &none, vec![create(1), share(1, &[2])]),
            ("one alone", all("be", &[(1, 0)]), &none, vec![create(1)]),
            ("all have it", all("be", &[(1, 7), (2, 7)]), &ours, vec![]),
            ("one comes", all("be", &[(1, 0), (2, 7)]), &ours, vec![share(2, &[1])]),
            ("all who had it ended", all("be", &[(3, 0)]), &ours, vec![create(3)]),
            ("only a stranger", all("be", &[(4, 99)]), &ours, vec![]),
            ("empty", all("be", &[]), &ours, vec![]),
        ];
        for (name, groups, ours, want) in cases {
            assert_eq!(decide(&groups, &[], ours).steps, want, "{name}");
        }
        let moved = decide(&all("ls", &[(1, 7)]), &[process(2, 7), process(3, 0)], &ours);
        let create = Step::Create { group: "ls".to_owned(), process: 1 };
        assert_eq!(moved.steps, [create, Step::Clear(vec![2])], "to another group, and out");
        let strange = decide(&all("be", &[(1, 99), (2, 7)]), &[process(3, 99)], &ours);
        assert_eq!(strange, Decision { steps: vec![], strangers: vec![1] });
    }

    /// A kernel: does the steps, and says what groups have what cookie then.
    fn apply(steps: &[Step], cookies: &mut BTreeMap<u32, u64>, ours: &mut BTreeMap<String, u64>) {
        for step in steps {
            match step {
                Step::Create { group, process } => {
                    let cookie = cookies.values().chain(ours.values()).max().unwrap_or(&0) + 1;
                    cookies.insert(*process, cookie);
                    ours.insert(group.clone(), cookie);
                }
                Step::Share { from, to, .. } => {
                    let cookie = cookies[from];
                    cookies.extend(to.iter().map(|process| (*process, cookie)));
                }
                Step::Clear(processes) => {
                    cookies.extend(processes.iter().map(|process| (*process, 0)));
                }
            }
        }
    }

    proptest! {
        /// Whatever processes and groups there were: afterwards those of one group have one cookie and
        /// of two groups two, strangers have theirs, and there is nothing left to do.
        #[test]
        fn steps_lead_there_and_deciding_twice_is_quiet(
            wanted in proptest::collection::vec(0..4usize, 1..12),
            cookies in proptest::collection::vec(0..6u64, 12),
        ) {
            let names = ["", "-expeller", "u1"];
            let mut ours = BTreeMap::from([(String::new(), 1), ("old".to_owned(), 2)]);
            let mut now: BTreeMap<u32, u64> =
                (1..).zip(cookies).take(wanted.len()).collect();
            let before = now.clone();
            let look = |now: &BTreeMap<u32, u64>| {
                let mut groups: BTreeMap<String, Vec<Process>> = BTreeMap::new();
                let mut others = Vec::new();
                for ((id, cookie), wanted) in now.iter().zip(&wanted) {
                    let process = process(*id, *cookie);
                    match names.get(*wanted) {
                        Some(name) => groups.entry((*name).to_owned()).or_default().push(process),
                        None => others.push(process),
                    }
                }
                (groups, others)
            };
            let (groups, others) = look(&now);
            let decision = decide(&groups, &others, &ours);
            apply(&decision.steps, &mut now, &mut ours);
            for (id, cookie) in &before {
                let is_stranger = *cookie > 2;
                prop_assert!(!is_stranger || now[id] == *cookie, "a stranger was touched");
            }
            let (groups, others) = look(&now);
            prop_assert_eq!(decide(&groups, &others, &ours).steps, vec![]);
            for (name, processes) in &groups {
                for process in processes.iter().filter(|process| before[&process.id] <= 2) {
                    prop_assert_eq!(process.cookie, ours[name]);
                }
            }
            let distinct: BTreeSet<u64> = ours.values().copied().collect();
            prop_assert_eq!(distinct.len(), ours.len());
            prop_assert!(others.iter().all(|process| process.cookie == 0 || process.cookie > 2));
        }
    }
}
