//! What every pod's supervisor shares.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tracing::warn;
use units::{Bytes, MilliCpu};

use super::cgroup::{CgroupError, Cgroups, PodGroup, Settings};
use super::compose::Powers;
use super::dir::PodDir;
use super::downward::Facts;
use super::event::Events;
use super::plan::Host;
use super::process::Shim;
use super::record::LogFile;
use super::resource::{Amounts, QosClass};

pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) state_dir: PathBuf,
    pub(crate) shim: Shim,
    pub(crate) host: Host,
    pub(crate) facts: Facts,
    pub(crate) memory_capacity: Bytes,
    pub(crate) powers: Powers,
    pub(crate) cgroups: Option<Cgroups>,
    /// Requests of the Burstable pods, by uid: the weight of their common group.
    pub(crate) burstable: Mutex<BTreeMap<String, MilliCpu>>,
    pub(crate) pids_limit: Option<u64>,
    pub(crate) log_bytes: u64,
    pub(crate) log_files: u32,
    pub(crate) events: Events,
}

impl Context {
    pub(crate) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) fn log_file(&self, dir: &PodDir, container: &str, restarts: u32) -> LogFile {
        LogFile {
            path: dir.log(container, restarts),
            max_bytes: self.log_bytes,
            max_files: self.log_files,
        }
    }

    /// Makes the pod's group, and gives its class the weight it now needs.
    pub(crate) fn make_group(&self, pod: &Pod) -> Result<(), CgroupError> {
        let (Some(cgroups), Some(spec)) = (&self.cgroups, &pod.spec) else { return Ok(()) };
        let (class, amounts) = (QosClass::of(spec), Amounts::of_pod(spec));
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if class == QosClass::Burstable {
            self.weigh_burstable(cgroups, |pods| {
                pods.insert(uid.to_owned(), amounts.cpu_request);
            })?;
        }
        cgroups.ensure(&cgroups.pod(class, uid), &Settings::of_pod(&amounts, self.pids_limit))
    }

    /// Kills what is left of the pod and removes its group.
    pub(crate) fn remove_group(&self, pod: &Pod) -> Result<(), CgroupError> {
        let (Some(cgroups), Some(spec)) = (&self.cgroups, &pod.spec) else { return Ok(()) };
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let path = cgroups.pod(QosClass::of(spec), uid);
        cgroups.kill(&path)?;
        cgroups.remove(&path)?;
        self.weigh_burstable(cgroups, |pods| {
            pods.remove(uid);
        })
    }

    fn weigh_burstable(
        &self,
        cgroups: &Cgroups,
        change: impl FnOnce(&mut BTreeMap<String, MilliCpu>),
    ) -> Result<(), CgroupError> {
        let mut pods = match self.burstable.lock() {
            Ok(pods) => pods,
            // Every change is a single insert or remove: there is no half of it.
            Err(poisoned) => poisoned.into_inner(),
        };
        change(&mut pods);
        let total: MilliCpu = pods.values().copied().sum();
        cgroups.ensure(&cgroups.group(PodGroup::Burstable), &Settings::weighing(total))
    }

    /// Makes the groups that hold pods.
    pub(crate) fn make_groups(&self) {
        let Some(cgroups) = &self.cgroups else { return };
        let whole = Settings::of_node(self.facts.cpu, self.facts.memory);
        let groups = [
            // Beside the rest of the machine our tree weighs what its pods weigh.
            (PodGroup::Root, Settings::weighing(self.facts.cpu)),
            (PodGroup::Kubepods, whole),
            (PodGroup::Burstable, Settings::weighing(MilliCpu::ZERO)),
            (PodGroup::BestEffort, Settings::weighing(MilliCpu::ZERO)),
        ];
        for (group, settings) in groups {
            if let Err(error) = cgroups.ensure(&cgroups.group(group), &settings) {
                warn!(?group, %error, "cannot set up a control group");
            }
        }
    }
}
