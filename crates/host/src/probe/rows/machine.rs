//! Kernel, processors, what can be observed, and what we may do.

use super::met;
use crate::probe::{Area, Facts, KernelVersion, Met, Need, Requirement};

/// The oldest kernel all parts have been written for.
const OLDEST: KernelVersion = KernelVersion { major: 4, minor: 18 };
/// `cpu.idle`, burst and `memory.reclaim` have come by then, or soon after.
const GOOD: KernelVersion = KernelVersion { major: 5, minor: 15 };

const SYS_ADMIN: u32 = 21;
const SYS_RESOURCE: u32 = 24;
/// A descriptor for each file of each container, and two for each CPU while counting cycles.
const OPEN_FILES: u64 = 65_536;
/// A watch for each pod and container.
const WATCHES: u64 = 8_192;
const INSTANCES: u64 = 128;

pub(super) fn rows(facts: &Facts) -> Vec<Requirement> {
    let kernel = |least: KernelVersion| facts.kernel.map_or(Met::Unknown, |is| met(is >= least));
    let machine = match &facts.topology {
        Some(topology) => format!(
            "CPUs: {}, cores: {}, sockets: {}, NUMA nodes: {}, SMT: {}",
            topology.cpus.len(),
            topology.cpus.core_count(),
            topology.cpus.socket_count(),
            topology.cpu_nodes().count().max(1),
            if facts.model.as_ref().is_some_and(|model| model.smt_active) { "on" } else { "off" },
        ),
        None => "not readable".to_owned(),
    };
    vec![
        Requirement {
            area: Area::Kernel,
            name: "kernel 4.18 or newer",
            need: Need::Required,
            met: kernel(OLDEST),
            found: facts.release.clone(),
            consequence: "control group files that every part relies on are missing",
            fix: "boot a newer kernel",
        },
        Requirement {
            area: Area::Kernel,
            name: "kernel 5.15 or newer, or group identity",
            need: Need::Recommended,
            met: if facts.has_file("cpu.bvt_warp_ns") { Met::Yes } else { kernel(GOOD) },
            found: facts.release.clone(),
            consequence: "protection falls back to weights, quotas and CPU sets",
            fix: "boot Linux 5.15 or newer, or a vendor kernel with group identity",
        },
        Requirement {
            area: Area::Kernel,
            name: "CPU topology",
            need: Need::Required,
            met: met(facts.topology.is_some()),
            found: machine,
            consequence: "CPUs cannot be divided between online and best-effort work",
            fix: "mount sysfs at /sys",
        },
    ]
}

pub(super) fn observation(facts: &Facts) -> Vec<Requirement> {
    let flags = ["cat_l3", "mba"];
    let has_flag = |flag: &&str| facts.model.as_ref().is_some_and(|model| model.has(flag));
    let resctrl = match (facts.resctrl_mounted, flags.iter().any(has_flag)) {
        (true, _) => "mounted",
        (false, true) => "the CPU can, the file system is not mounted",
        (false, false) => "this CPU, or the virtual machine, cannot",
    };
    let perf = facts.live.perf.judge("cycles and instructions are counted");
    vec![
        Requirement {
            area: Area::Observation,
            name: "pressure of the host (PSI)",
            need: Need::Recommended,
            met: met(facts.host_pressure),
            found: present(facts.host_pressure),
            consequence: "interference is seen later, from throttling and usage alone",
            fix: "boot with psi=1 (CONFIG_PSI, Linux 4.20)",
        },
        Requirement {
            area: Area::Observation,
            name: "pressure of groups (PSI)",
            need: Need::Recommended,
            met: met(facts.has_file("cpu.pressure")),
            found: present(facts.has_file("cpu.pressure")),
            consequence: "PSICollector has no data: which pod waits is not known",
            fix: "use cgroup v2, or a vendor kernel with psi_v1",
        },
        Requirement {
            area: Area::Observation,
            name: "hardware counters (PMU)",
            need: Need::Optional,
            met: perf.0,
            found: perf.1,
            consequence: "CPICollector has no data: cycles per instruction are not known",
            fix: "run on bare metal or pass the PMU through; as root or with CAP_PERFMON",
        },
        Requirement {
            area: Area::Observation,
            name: "cache and bandwidth control (resctrl)",
            need: Need::Optional,
            met: met(facts.resctrl_mounted),
            found: resctrl.to_owned(),
            consequence: "best-effort work shares the last-level cache and memory bandwidth freely",
            fix: "on a CPU with RDT or AMD QoS: mount -t resctrl resctrl /sys/fs/resctrl",
        },
        Requirement {
            area: Area::Observation,
            name: "cold memory (kidled)",
            need: Need::Optional,
            met: met(facts.kidled),
            found: present(facts.kidled),
            consequence: "memory usage is reported without a cold part",
            fix: "use an Anolis kernel; nothing is lost without the hot-page policy",
        },
    ]
}

pub(super) fn rights(facts: &Facts) -> Vec<Requirement> {
    let capability = |bit| match facts.capabilities {
        Some(_) => met(facts.has_capability(bit)),
        None => Met::Unknown,
    };
    let held = |bit| if facts.has_capability(bit) { "held" } else { "not held" }.to_owned();
    vec![
        Requirement {
            area: Area::Rights,
            name: "root",
            need: Need::Required,
            met: met(facts.is_root),
            found: if facts.is_root { "yes" } else { "no" }.to_owned(),
            consequence: "control groups cannot be written",
            fix: "run as root; in Kubernetes as a privileged DaemonSet",
        },
        Requirement {
            area: Area::Rights,
            name: "CAP_SYS_ADMIN",
            need: Need::Required,
            met: capability(SYS_ADMIN),
            found: held(SYS_ADMIN),
            consequence: "control groups, resctrl and counters are refused",
            fix: "give the container CAP_SYS_ADMIN",
        },
        Requirement {
            area: Area::Rights,
            name: "CAP_SYS_RESOURCE",
            need: Need::Recommended,
            met: capability(SYS_RESOURCE),
            found: held(SYS_RESOURCE),
            consequence: "limits cannot be raised and online work cannot be kept from the OOM killer",
            fix: "give the container CAP_SYS_RESOURCE",
        },
    ]
}

pub(super) fn limits(facts: &Facts) -> Vec<Requirement> {
    let at_least = |value: Option<u64>, least| value.map_or(Met::Unknown, |is| met(is >= least));
    let shown = |value: Option<u64>| match value {
        Some(u64::MAX) => "unlimited".to_owned(),
        Some(value) => value.to_string(),
        None => "not readable".to_owned(),
    };
    vec![
        Requirement {
            area: Area::Rights,
            name: "65536 open files",
            need: Need::Recommended,
            met: at_least(facts.open_files, OPEN_FILES),
            found: shown(facts.open_files),
            consequence: "fewer containers can be sampled, and counters run for fewer at a time",
            fix: "raise LimitNOFILE of the service, or ulimit -Hn",
        },
        Requirement {
            area: Area::Rights,
            name: "8192 inotify watches",
            need: Need::Recommended,
            met: at_least(facts.inotify_watches, WATCHES),
            found: shown(facts.inotify_watches),
            consequence: "new containers are found by listing, up to a second later",
            fix: "sysctl fs.inotify.max_user_watches=524288",
        },
        Requirement {
            area: Area::Rights,
            name: "128 inotify instances",
            need: Need::Recommended,
            met: at_least(facts.inotify_instances, INSTANCES),
            found: shown(facts.inotify_instances),
            consequence: "new containers are found by listing, up to a second later",
            fix: "sysctl fs.inotify.max_user_instances=8192",
        },
    ]
}

fn present(is_present: bool) -> String {
    if is_present { "present" } else { "absent" }.to_owned()
}
