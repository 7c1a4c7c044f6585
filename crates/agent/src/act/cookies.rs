//! Who may share a core with whom, brought to the kernel.
//!
//! With the policy `coreSched`, or in mode C, the processes of a group of pods get one cookie. Which group
//! a pod is in, and what that means for every process, is [`qos::cookies`]'s; here processes are
//! found, steps are taken, and the cookies we made are remembered on disk, so that a later life knows
//! its own from those of others. Whether the kernel has any is asked once.
//!
//! Group identities and cookies together lock up vendor kernels. There identities are turned off first, and
//! nothing else happens before they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use api::metadata::pod::CoreSchedPolicy;
use api::protocol::gate::AgentGate;
use api::qos::QosClass;
use api::strategy::ResourceQos;
use api::why::{NODE, Resource, Sum, Why};
use host::Reading;
use host::cookies::{Cookie, Cookies, NONE};
use host::fs::HostFs;
use qos::claim::Rank;
use qos::cookies::{Class, Classes, Decision, Pod, Process, Step, Wish as Company, decide, group};
use qos::identity::{Means, Mode};
use qos::node::Pod as NodePod;
use qos::wish::{KernelFile, Wish};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::facts::Facts;
use super::strategy::identity;
use crate::durable;

/// Vendor kernels' switches; both are absent on mainline.
const IDENTITIES: &str = "/proc/sys/kernel/sched_group_identity_enabled";
const CORES: &str = "/proc/sys/kernel/sched_core";

/// A cookie of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    group: String,
    /// The process it was made for.
    maker: u32,
    /// `None` between announcing and making it.
    cookie: Option<Cookie>,
}

/// All cookies of ours.
#[derive(Debug)]
pub(super) struct Jar {
    kernel: Box<dyn Cookies>,
    path: PathBuf,
    kept: BTreeMap<String, Kept>,
    /// What the kernel said when it was asked.
    support: Option<Result<(), String>>,
    /// Processes whose refusal was told already.
    told: BTreeSet<u32>,
}

/// What came of a round.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) whys: Vec<Why>,
    pub(super) files: Vec<Wish>,
    /// Groups for which something was done, and whether it worked.
    pub(super) done: Vec<(String, bool)>,
    pub(super) shown: Vec<Shown>,
}

/// The cookie of a container, for metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) container: String,
    pub(super) id: String,
    pub(super) group: String,
    pub(super) cookie: Cookie,
}

/// Processes of pods, by the group they belong to.
#[derive(Debug, Default)]
struct Found {
    groups: BTreeMap<String, Vec<Process>>,
    others: Vec<Process>,
    pods: Vec<(String, String)>,
    containers: Vec<(Shown, Vec<u32>)>,
}

impl Jar {
    /// Reads what an earlier life made; a list that cannot be read is begun anew.
    pub(super) fn open(kernel: Box<dyn Cookies>, path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let kept: Vec<Kept> = serde_json::from_str(&text).unwrap_or_default();
        let kept = kept.into_iter().map(|kept| {
            // It was announced, and made or not; one that was not made is none.
            let cookie = kept.cookie.or_else(|| kernel.get(kept.maker).ok());
            (kept.group.clone(), Kept { cookie, ..kept })
        });
        let kept = kept.filter(|(_, kept)| kept.cookie.is_some_and(|cookie| cookie != NONE));
        Self { kept: kept.collect(), kernel, path, support: None, told: BTreeSet::new() }
    }

    /// How many groups have cookies of ours.
    pub(super) fn held(&self) -> usize {
        self.kept.len()
    }

    fn ours(&self) -> BTreeMap<String, Cookie> {
        let known =
            self.kept.iter().filter_map(|(group, kept)| Some((group.clone(), kept.cookie?)));
        known.collect()
    }

    /// Brings every process to the cookie of its group.
    pub(super) fn round(&mut self, facts: &Facts<'_>) -> Round {
        let classes = classes(facts);
        if classes == Classes::default() && self.kept.is_empty() {
            return Round::default();
        }
        let mut round = Round::default();
        if classes != Classes::default() {
            let is_ready = vendor_switches(facts, &mut round);
            if !is_ready {
                return round;
            }
            if let Err(reason) = self.support() {
                let headline = format!("cores are shared with everybody: {reason}");
                round.whys.push(why(NODE, headline, "this kernel has no core scheduling"));
                return round;
            }
        }
        let found = self.find(facts, &classes);
        let decision = decide(&found.groups, &found.others, &self.ours());
        self.take(&decision, &mut round);
        self.forget_ended(&found);
        self.explain(facts, found, &decision, &mut round);
        round
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

    fn find(&self, facts: &Facts<'_>, classes: &Classes) -> Found {
        let mut pods: Vec<&NodePod> = facts.pods().filter(|pod| !pod.is_virtual_machine).collect();
        // The oldest first: whose cookie it is must not change when pods come and go.
        pods.sort_by_key(|pod| (pod.started, pod.uid.clone()));
        let mut found = Found::default();
        for pod in pods {
            let group = group(&subject(pod), classes);
            if let Some(group) = &group {
                let about = format!("{}/{}", pod.namespace, pod.name);
                found.pods.push((about, group.clone()));
            }
            for child in facts.children(&pod.cgroup.clone()) {
                let Ok(Reading::Value(ids)) = facts.tree.procs(&child) else { continue };
                // One that has ended meanwhile has no cookie.
                let of = |id: &u32| Some(Process { id: *id, cookie: self.kernel.get(*id).ok()? });
                let processes: Vec<Process> = ids.iter().filter_map(of).collect();
                match &group {
                    Some(group) => {
                        let container = pod.containers.iter();
                        let mut same = container.filter(|one| one.cgroup == child);
                        if let Some(container) = same.next() {
                            let shown = shown(pod, &container.name, &container.id, group);
                            found.containers.push((shown, ids));
                        }
                        found.groups.entry(group.clone()).or_default().extend(processes);
                    }
                    None => found.others.extend(processes),
                }
            }
        }
        found
    }

    fn take(&mut self, decision: &Decision, round: &mut Round) {
        for step in &decision.steps {
            match step {
                Step::Create { group, process } => {
                    let made = self.create(group, *process);
                    round.done.push((group.clone(), made));
                }
                Step::Share { group, from, to } => {
                    let shared = self.share(group, *from, to);
                    round.done.extend(shared.map(|shared| (group.clone(), shared)));
                }
                Step::Clear(processes) => {
                    let failed = self.kernel.clear(processes).unwrap_or_default();
                    self.tell(failed);
                }
            }
        }
    }

    /// Announces a cookie, makes it and learns which it is.
    fn create(&mut self, group: &str, process: u32) -> bool {
        let kept = Kept { group: group.to_owned(), maker: process, cookie: None };
        let before = self.kept.insert(group.to_owned(), kept.clone());
        if let Err(error) = self.save() {
            warn!(%error, "cookies cannot be remembered on disk; none are made");
            self.put_back(group, before);
            return false;
        }
        let made = self.kernel.create(process).and_then(|()| self.kernel.get(process));
        match made {
            Ok(cookie) => {
                info!(group, "made a core-scheduling cookie");
                self.kept.insert(group.to_owned(), Kept { cookie: Some(cookie), ..kept });
                // If this is lost, the next life asks the process it was made for.
                let _ = self.save();
                true
            }
            Err(error) => {
                self.put_back(group, before);
                self.tell(vec![(process, error)])
            }
        }
    }

    /// Hands a group's cookie on. Where the first process refused one, the next that does not is the
    /// first. `None` when nobody has one to share.
    fn share(&mut self, group: &str, from: u32, to: &[u32]) -> Option<bool> {
        let (mut from, mut to) = (from, to);
        while !self.kept.contains_key(group) {
            let (next, rest) = to.split_first()?;
            (from, to) = (*next, rest);
            self.create(group, from);
        }
        let cookie = self.kept.get(group)?.cookie?;
        // One that ended meanwhile has nothing to share; the next round finds another.
        let is_there = self.kernel.get(from).is_ok_and(|now| now == cookie);
        let failed = is_there.then(|| self.kernel.share(from, to).unwrap_or_default())?;
        Some(self.tell(failed))
    }

    fn put_back(&mut self, group: &str, before: Option<Kept>) {
        match before {
            Some(before) => self.kept.insert(group.to_owned(), before),
            None => self.kept.remove(group),
        };
        let _ = self.save();
    }

    /// Says once which process cannot be changed; whether all could.
    fn tell(&mut self, failed: Vec<(u32, std::io::Error)>) -> bool {
        let is_gone = |error: &std::io::Error| Errno::from_io_error(error) == Some(Errno::SRCH);
        let failed: Vec<_> = failed.into_iter().filter(|(_, error)| !is_gone(error)).collect();
        for (process, error) in &failed {
            if self.told.insert(*process) {
                warn!(process, %error, "cannot change the core-scheduling cookie of a process");
            }
        }
        failed.is_empty()
    }

    /// A cookie that nobody has any more is the kernel's to forget, and ours.
    fn forget_ended(&mut self, found: &Found) {
        let processes = found.groups.values().flatten().chain(&found.others);
        let used: BTreeSet<Cookie> =
            processes.filter_map(|process| self.kernel.get(process.id).ok()).collect();
        let before = self.kept.len();
        self.kept.retain(|_, kept| kept.cookie.is_some_and(|cookie| used.contains(&cookie)));
        if self.kept.len() != before {
            let _ = self.save();
        }
        let processes: BTreeSet<u32> =
            found.groups.values().flatten().map(|process| process.id).collect();
        self.told.retain(|process| processes.contains(process));
    }

    fn explain(&self, facts: &Facts<'_>, found: Found, decision: &Decision, round: &mut Round) {
        let setting =
            facts.cluster.slo.setting("resource-qos-config.policies.cpuPolicy").to_string();
        let ours = self.ours();
        if !found.groups.is_empty() {
            let counts = found.groups.iter().map(|(group, processes)| {
                format!("{} processes of {}", processes.len(), named(group))
            });
            let mut headline = "cores are shared within groups only: ".to_owned();
            headline += &counts.collect::<Vec<_>>().join(", ");
            if !decision.strangers.is_empty() {
                headline += &format!("; {} have cookies of others", decision.strangers.len());
            }
            round.whys.push(why(NODE, headline, &setting));
        }
        for (about, group) in found.pods {
            let headline = format!("shares cores only with {}", named(&group));
            round.whys.push(why(&about, headline, &setting));
        }
        for (shown, ids) in found.containers {
            let cookie = ids.iter().find_map(|id| self.kernel.get(*id).ok());
            let is_ours = cookie.is_some_and(|cookie| ours.values().any(|known| *known == cookie));
            if let Some(cookie) = cookie.filter(|_| is_ours) {
                round.shown.push(Shown { cookie, ..shown });
            }
        }
    }

    /// Takes our cookies away from every process that has one, wherever it went.
    pub(super) fn give_back(&mut self, fs: &dyn HostFs) {
        if self.kept.is_empty() {
            return;
        }
        let ours: BTreeSet<Cookie> = self.ours().into_values().collect();
        let entries = fs.list(Path::new("/proc")).unwrap_or_default();
        let holders: Vec<u32> = entries
            .iter()
            .filter_map(|entry| entry.name.parse().ok())
            .filter(|id| self.kernel.get(*id).is_ok_and(|cookie| ours.contains(&cookie)))
            .collect();
        let failed = match self.kernel.clear(&holders) {
            Ok(failed) => failed,
            Err(error) => holders.iter().map(|id| (*id, error.kind().into())).collect(),
        };
        if self.tell(failed) {
            self.kept.clear();
            let _ = self.save();
        }
    }

    fn save(&self) -> std::io::Result<()> {
        let kept: Vec<&Kept> = self.kept.values().collect();
        durable::replace(&self.path, serde_json::to_string(&kept)?.as_bytes())
    }
}

fn named(group: &str) -> String {
    if group.is_empty() { "the default group".to_owned() } else { format!("group {group}") }
}

fn why(about: &str, headline: String, bound_by: &str) -> Why {
    let (about, bound_by) = (about.to_owned(), bound_by.to_owned());
    Why { about, resource: Resource::Cpu, headline, bound_by, sum: Sum::default() }
}

fn shown(pod: &NodePod, container: &str, id: &str, group: &str) -> Shown {
    Shown {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        container: container.to_owned(),
        id: id.to_owned(),
        group: group.to_owned(),
        cookie: NONE,
    }
}

fn subject(pod: &NodePod) -> Pod<'_> {
    let is_system = pod.raw_qos == Some(QosClass::System);
    Pod {
        uid: &pod.uid,
        owner: (!is_system).then(|| identity::owner(pod)),
        group: &pod.annotations.core_sched_group,
        wish: match pod.annotations.core_sched_policy {
            None => Company::Group,
            Some(CoreSchedPolicy::Exclusive) => Company::Exclusive,
            Some(CoreSchedPolicy::None) => Company::Anybody,
        },
    }
}

/// Who has cookies at all.
fn classes(facts: &Facts<'_>) -> Classes {
    let strategy = facts.slo().resource_qos_strategy.as_ref();
    let policy = strategy.and_then(|strategy| strategy.policies.as_ref()?.cpu_policy.as_deref());
    if policy == Some(identity::CORE_POLICY) && facts.is_on(AgentGate::CoreSched) {
        let class = |class: Option<&ResourceQos>| {
            let config = class?.cpu_qos.as_ref()?;
            let expels = config.core_expeller == Some(true);
            (config.enable == Some(true)).then_some(Class { expels })
        };
        return Classes {
            lsr: class(strategy.and_then(|strategy| strategy.lsr_class.as_ref())),
            ls: class(strategy.and_then(|strategy| strategy.ls_class.as_ref())),
            be: class(strategy.and_then(|strategy| strategy.be_class.as_ref())),
        };
    }
    // Mode C: best-effort among itself, and everybody else as they are.
    match identity::means(facts) {
        Some(Means::Mainline(Mode::WholeCores)) => {
            Classes { be: Some(Class { expels: false }), ..Classes::default() }
        }
        _ => Classes::default(),
    }
}

/// Asks for the vendor's switches to be set; whether they are, or are not there at all.
fn vendor_switches(facts: &Facts<'_>, round: &mut Round) -> bool {
    let read = |path: &str| {
        let text = facts.tree.fs().read(Path::new(path)).ok()?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    };
    // Stronger than what operators set these switches to: both at once lock the kernel up.
    let wish = |path: &str, text: &str, why: &str| {
        Wish::file(KernelFile::whole(path), Rank::AVOIDANCE, text, why)
    };
    if let Some(identities) = read(IDENTITIES) {
        round.files.push(wish(IDENTITIES, "0", "never beside core scheduling"));
        if identities != "0" {
            let headline = "cores are shared with everybody while group identities are on";
            round.whys.push(why(NODE, headline.to_owned(), IDENTITIES));
            return false;
        }
    }
    match read(CORES) {
        None => true,
        Some(cores) => {
            round.files.push(wish(CORES, "1", "the policy coreSched"));
            cores == "1"
        }
    }
}
