//! The control groups and their controllers.

use super::met;
use crate::probe::{Area, CgroupFacts, Facts, Met, Need, Requirement};
use groups::{Controller, Driver, Version};

pub(super) fn rows(facts: &Facts) -> Vec<Requirement> {
    let Some(cgroups) = &facts.cgroups else {
        return vec![hierarchy(facts, "none is mounted at /sys/fs/cgroup".to_owned())];
    };
    let version = match (cgroups.version, cgroups.is_hybrid) {
        (Version::V2, _) => "v2",
        (Version::V1, true) => "v1 (hybrid: v2 is mounted without controllers)",
        (Version::V1, false) => "v1",
    };
    let driver = match cgroups.driver {
        Some(Driver::Systemd) => "systemd",
        Some(Driver::Cgroupfs) => "cgroupfs",
        None => "no groups of a kubelet yet",
    };
    let mut rows = vec![
        hierarchy(facts, version.to_owned()),
        Requirement {
            area: Area::Cgroups,
            name: "cgroup v2",
            need: Need::Recommended,
            met: met(cgroups.version == Version::V2),
            found: version.to_owned(),
            consequence: "memory protection, pressure of groups and disk limits for buffered writes \
                          are missing",
            fix: "boot with systemd.unified_cgroup_hierarchy=1",
        },
        Requirement {
            area: Area::Cgroups,
            name: "cgroup driver",
            need: Need::Optional,
            met: if cgroups.driver.is_some() { Met::Yes } else { Met::Unknown },
            found: driver.to_owned(),
            consequence: "kubelet's configuration is asked instead; one-machine mode needs neither",
            fix: "start kubelet first",
        },
    ];
    rows.extend(controllers(cgroups));
    rows
}

fn controllers(cgroups: &CgroupFacts) -> Vec<Requirement> {
    let mut rows = Vec::new();
    let mut needed = vec![
        (Controller::Cpu, "cpu controller", Need::Required, "best-effort CPU cannot be limited"),
        (Controller::Cpuset, "cpuset controller", Need::Required, "CPUs cannot be divided"),
        (Controller::Memory, "memory controller", Need::Required, "memory is not seen by pod"),
        (Controller::Blkio, "io controller", Need::Recommended, "disk use cannot be limited"),
        (Controller::Pids, "pids controller", Need::Optional, "tasks are not counted by pod"),
    ];
    if cgroups.version == Version::V1 {
        let cpuacct = Controller::Cpuacct;
        needed.insert(1, (cpuacct, "cpuacct controller", Need::Required, "CPU is not seen by pod"));
    }
    for (controller, name, need, consequence) in needed {
        let has = cgroups.controllers.contains(&controller);
        rows.push(Requirement {
            area: Area::Cgroups,
            name,
            need,
            met: met(has),
            found: if has { "available" } else { "not available" }.to_owned(),
            consequence,
            fix: match cgroups.version {
                Version::V1 => "mount its hierarchy, and do not boot with cgroup_disable",
                Version::V2 => "take it out of cgroup_disable and of v1 mounts",
            },
        });
    }
    rows
}

fn hierarchy(facts: &Facts, found: String) -> Requirement {
    Requirement {
        area: Area::Cgroups,
        name: "control groups",
        need: Need::Required,
        met: met(facts.cgroups.is_some()),
        found,
        consequence: "nothing can be measured or limited",
        fix: "mount the control groups at /sys/fs/cgroup",
    }
}
