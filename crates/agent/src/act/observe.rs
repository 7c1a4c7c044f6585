//! What does the machine say that a round has to know?
//!
//! Answers the [`Readings`] that a round asks for, out of kernel files and of samples.

use std::path::Path;
use std::time::Duration;

use groups::resctrl::Group;
use groups::{CgroupPath, Knob, Layout, Limit, Setting};
use host::Reading;
use host::cgroup::Tree;
use host::probe::{Answer, Live};
use host::resctrl::Resctrl;
use qos::node::{
    CacheHardware, CacheParts, ContainerUsage, CpuUsage, Kernel, Machine, Readings, State, Usage,
};
use units::Micros;

use crate::series::{Measure, Metrics, Subject};

/// Looks at the group around all pods. Whether cores can be scheduled whole is asked of the kernel
/// itself, or of a recording.
pub(super) fn kernel(tree: &Tree, layout: &Layout) -> Kernel {
    let has = |knob| {
        let groups = [layout.class(api::qos::KubeQos::BestEffort), layout.kubepods()];
        groups.iter().any(|group| matches!(tree.get(group, knob), Ok(Reading::Value(_))))
    };
    let live = match tree.fs().real_path(Path::new("/")) {
        Some(_) => Live::ask(),
        None => Live::recorded(tree.fs()),
    };
    Kernel {
        version: tree.version(),
        has_identity: has(Knob::BvtWarp),
        has_idle: has(Knob::CpuIdle),
        has_core_scheduling: live.core_scheduling == Answer::Yes,
    }
}

/// Reads the kernel files of a round.
pub(super) fn machine(tree: &Tree, metrics: &Metrics, readings: &Readings) -> Machine {
    let mut machine = Machine {
        disks: metrics.facts().storage.map(|storage| storage.disks.clone()),
        ..Machine::default()
    };
    for group in &readings.grandchildren {
        let children = children(tree, group);
        for child in &children {
            machine.children.insert(child.clone(), self::children(tree, child));
        }
        machine.children.insert(group.clone(), children);
    }
    for group in &readings.children {
        if !machine.children.contains_key(group) {
            machine.children.insert(group.clone(), children(tree, group));
        }
    }
    for group in &readings.quotas {
        let quota = match tree.get(group, Knob::CfsQuota) {
            Ok(Reading::Value(Setting::Limit(Limit::At(quota)))) => Some(Micros(quota)),
            Ok(Reading::Value(Setting::Limit(Limit::Max))) => None,
            _ => continue,
        };
        machine.quotas.insert(group.clone(), quota);
    }
    for group in &readings.cpus {
        if let Ok(Reading::Value(Setting::Cpus(cpus))) = tree.get(group, Knob::CpusetCpus) {
            machine.cpus.insert(group.clone(), cpus);
        }
    }
    for group in &readings.processes {
        if let Ok(Reading::Value(processes)) = tree.procs(group) {
            machine.processes.insert(group.clone(), processes);
        }
    }
    for path in &readings.files {
        if let Ok(text) = tree.fs().read(Path::new(path)) {
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            machine.files.insert((*path).to_owned(), text);
        }
    }
    let there = readings.directories.iter().filter(|path| tree.fs().exists(Path::new(path)));
    machine.directories.extend(there.map(|path| (*path).to_owned()));
    if readings.cache {
        machine.cache = cache(tree, metrics);
    }
    machine
}

fn children(tree: &Tree, group: &CgroupPath) -> Vec<CgroupPath> {
    match tree.children(group) {
        Ok(Reading::Value(names)) => names.iter().map(|name| group.child(name)).collect(),
        _ => Vec::new(),
    }
}

fn cache(tree: &Tree, metrics: &Metrics) -> CacheHardware {
    let Reading::Value(resctrl) = Resctrl::find(tree.shared_fs()) else {
        return CacheHardware::Absent;
    };
    let parts = || {
        let model = metrics.facts().node.and_then(|node| node.model.clone());
        Some(CacheParts {
            info: resctrl.info().ok()?,
            root: resctrl.schemata(&Group::root()).ok()?.value()?,
            groups: resctrl.groups().ok()?,
            is_amd: model.is_some_and(|model| model.vendor.contains("AMD")),
        })
    };
    parts().map_or(CacheHardware::Unread, |parts| CacheHardware::Present(Box::new(parts)))
}

/// CPU in use, from samples that are at most two rounds old.
pub(super) fn usage(metrics: &Metrics, state: &State, readings: &Readings) -> Usage {
    let (now, interval) = (state.now, state.settings.interval);
    let window = interval.saturating_mul(2).max(Duration::from_secs(2));
    let last = |subject: Subject<'_>| metrics.recent(subject, Measure::Cpu, now, window);
    let of = |subject: Subject<'_>| CpuUsage {
        last: last(subject),
        mean: readings
            .mean_over
            .and_then(|window| metrics.average(subject, Measure::Cpu, now, window)),
    };
    let throttled = |subject: Subject<'_>| {
        metrics.recent(subject, Measure::Throttled, now, interval.saturating_mul(3))
    };
    let apps = state.cluster.host_applications.iter();
    Usage {
        node: of(Subject::Node),
        pods: state.every_pod().map(|pod| (pod.uid.clone(), of(Subject::Pod(&pod.uid)))).collect(),
        containers: readings
            .containers
            .iter()
            .map(|id| {
                let subject = Subject::Container(id);
                let usage = ContainerUsage { cpu: last(subject), throttled: throttled(subject) };
                (id.clone(), usage)
            })
            .collect(),
        host_applications: apps
            .filter_map(|app| Some((app.name.clone(), last(Subject::HostApplication(&app.name))?)))
            .collect(),
    }
}
