//! Who waits? Online pods whose tasks stood still for want of CPU, memory or IO.
//!
//! A hint, not a proof: somebody interferes, or the pod has too little of its own. Best-effort pods
//! are left out, for they are there to wait.

use api::decisions::PodWait;
use api::why::Resource;
use host::psi::{Hundredths, Pressure};

use crate::series::{Metrics, Subject};
use qos::node::NodeState;

/// Less than this share of a minute is everyday life.
const WORTH: Hundredths = Hundredths(100);
/// Those that are told, the worst ones.
const MOST: usize = 20;

/// The worst first; `None` where nobody measures it.
pub fn waits(metrics: &Metrics, state: &NodeState) -> Option<Vec<PodWait>> {
    let mut is_measured = false;
    let mut waits = Vec::new();
    for pod in state.pods.values() {
        let Some(sample) = metrics.pressure(Subject::Pod(&pod.uid)) else { continue };
        is_measured = true;
        if pod.is_best_effort() {
            continue;
        }
        let kinds = [
            (Resource::Cpu, sample.cpu),
            (Resource::Memory, sample.memory),
            (Resource::Io, sample.io),
        ];
        for (resource, pressure) in kinds {
            if let Some(Pressure { some, .. }) = pressure
                && some.avg60 >= WORTH
            {
                let pod = format!("{}/{}", pod.namespace, pod.name);
                waits.push(PodWait { pod, resource, share: some.avg60.0 });
            }
        }
    }
    waits.sort_by(|a, b| b.share.cmp(&a.share).then_with(|| a.pod.cmp(&b.pod)));
    waits.truncate(MOST);
    is_measured.then_some(waits)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use host::psi::Stall;
    use qos::node::{Pod, next};
    use serde_json::json;

    use super::*;
    use crate::series::{PressureSample, Store};

    fn pod(name: &str, qos: &str) -> Pod {
        let pod = serde_json::from_value(json!({
            "metadata": {"namespace": "d", "name": name, "uid": name,
                "labels": {"koordinator.sh/qosClass": qos}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        }))
        .unwrap();
        Pod::read(&pod, &groups::Layout::one_machine()).unwrap()
    }

    #[test]
    fn online_pods_that_wait_are_told_and_others_are_not() {
        let metrics = Metrics::new(Store::new(Duration::from_secs(1), 1000));
        let pods = [pod("web", "LS"), pod("calm", "LS"), pod("batch", "BE"), pod("db", "LSR")];
        let state = NodeState { pods: next(&Arc::default(), pods), ..NodeState::default() };
        assert_eq!(waits(&metrics, &state), None, "nobody measures");
        let pressure = |avg60: u32| {
            let some = Stall { avg60: Hundredths(avg60), ..Stall::default() };
            Some(Pressure { some, full: None })
        };
        let at = Duration::ZERO;
        for (name, cpu, memory) in
            [("web", 1_234, 0), ("calm", 99, 0), ("batch", 9_000, 0), ("db", 100, 2_000)]
        {
            let (cpu, memory) = (pressure(cpu), pressure(memory));
            let sample = PressureSample { at, cpu, memory, io: None };
            metrics.lock().set_pressure(Subject::Pod(name), sample);
        }
        let found = waits(&metrics, &state).unwrap();
        let found: Vec<_> =
            found.iter().map(|wait| (wait.pod.as_str(), wait.resource, wait.share)).collect();
        let want = [
            ("d/db", Resource::Memory, 2_000),
            ("d/web", Resource::Cpu, 1_234),
            ("d/db", Resource::Cpu, 100),
        ];
        assert_eq!(found, want);
    }
}
