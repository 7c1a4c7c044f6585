//! Deployments of three QoS classes, placed by our scheduler: which CPUs does the kernel give them?

use std::collections::{BTreeMap, BTreeSet};

use groups::{CgroupPath, Knob};
use serde_json::Value;
use units::CpuSet;

use crate::kernel::Kernel;
use crate::rig::{NODE, Rig, WORK};
use crate::seen::{events, pods, ready, until};

const DEPLOYMENTS: &str = include_str!("classes.yaml");
const LSR: &str = "app=web-lsr";
const LS: &str = "app=web-ls";
const BE: &str = "app=work-be";

/// Runs the three Deployments, if they do not run yet.
pub(crate) fn deploy(rig: &Rig) {
    rig.with_file(&["apply", "-n", WORK], DEPLOYMENTS).done();
    for selector in [LSR, LS, BE] {
        ready(rig, WORK, selector, 1);
    }
}

/// The settings that matter, by role: equal again after every fault.
pub(crate) fn view(rig: &Rig) -> Result<BTreeMap<String, String>, String> {
    let kernel = Kernel::of(rig);
    let mut view = BTreeMap::new();
    for selector in [LSR, LS, BE] {
        let pods = pods(rig, WORK, selector)?;
        let [pod] = pods.as_slice() else { return Err(format!("{} pods", pods.len())) };
        let groups = [("pod", kernel.pod(pod)), ("container", kernel.container(pod)?)];
        for (level, group) in groups {
            for knob in [Knob::CpusetCpus, Knob::CfsQuota, Knob::CpuShares, Knob::CpuIdle] {
                let name = format!("{selector} {level} {knob:?}");
                view.insert(name, kernel.text(&group, knob)?);
            }
        }
    }
    let tier = kernel.best_effort();
    view.insert("best-effort CPUs".to_owned(), kernel.text(&tier, Knob::CpusetCpus)?);
    Ok(view)
}

/// Waits until the agent's work shows, and returns the settings.
pub(crate) fn until_arranged(rig: &Rig) -> BTreeMap<String, String> {
    until(rig, "every class has its CPUs", || {
        let [lsr, ls, be] = [LSR, LS, BE].map(|selector| only(rig, selector));
        let (lsr, ls, be) = (lsr?, ls?, be?);
        check(rig, &lsr, &ls, &be)?;
        view(rig)
    })
}

fn only(rig: &Rig, selector: &str) -> Result<Value, String> {
    pods(rig, WORK, selector)?.pop().ok_or_else(|| format!("no pod {selector}"))
}

fn set(text: &str) -> Result<BTreeSet<u16>, String> {
    let set: CpuSet = text.trim().parse().map_err(|error| format!("{text:?}: {error}"))?;
    Ok(set.iter().collect())
}

/// What our scheduler has reserved for the pod.
fn reserved(pod: &Value) -> Result<BTreeSet<u16>, String> {
    let annotation = &pod["metadata"]["annotations"]["scheduling.koordinator.sh/resource-status"];
    let text = annotation.as_str().ok_or("no resource-status")?;
    let status: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    set(status["cpuset"].as_str().ok_or("no cpuset in resource-status")?)
}

/// LSR has a CPU of its own, LS the others, BE what suppression leaves: on a node of two CPUs its
/// floor of two.
fn check(rig: &Rig, lsr: &Value, ls: &Value, be: &Value) -> Result<(), String> {
    let kernel = Kernel::of(rig);
    let all = set(&kernel.text(&CgroupPath::root(), Knob::CpusetCpus)?)?;
    let cpus = |pod: &Value| set(&kernel.text(&kernel.container(pod)?, Knob::CpusetCpus)?);
    let own = reserved(lsr)?;
    let shared: BTreeSet<u16> = all.difference(&own).copied().collect();
    let tier = set(&kernel.text(&kernel.best_effort(), Knob::CpusetCpus)?)?;
    let seen = [cpus(lsr)?, cpus(ls)?, cpus(be)?];
    let wanted = [own, shared, tier];
    if seen != wanted || seen[0].len() != 1 || seen[2].len() < 2 {
        return Err(format!("LSR, LS and BE have {seen:?}, wanted {wanted:?}"));
    }
    Ok(())
}

pub(crate) fn cpus(rig: &Rig) {
    rig.clear();
    deploy(rig);
    let arranged = until_arranged(rig);
    assert_eq!(arranged[&format!("{LSR} container CfsQuota")], "-1", "{arranged:#?}");
    assert_eq!(arranged[&format!("{LS} container CfsQuota")], "10000", "{arranged:#?}");
    for selector in [LSR, LS, BE] {
        let pod = only(rig, selector).unwrap();
        assert_eq!(pod["spec"]["schedulerName"], "koord-scheduler");
        assert_eq!(pod["spec"]["nodeName"], NODE);
        let name = pod["metadata"]["name"].as_str().unwrap();
        let told = events(rig, WORK, name);
        let is_told = told.iter().any(|event| event.starts_with("Scheduled: "));
        assert!(is_told, "{name}: {told:?}");
    }
}
