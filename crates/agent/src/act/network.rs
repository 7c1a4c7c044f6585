//! The network of the node, divided as configured: by files that terway reads, or by classes of `htb`.
//!
//! | policy | gate | carried out by |
//! |---|---|---|
//! | `terway-qos` | `TerwayQoS` | [`terway`]: two files in terway's directory |
//! | `tc` | `TCNetworkQoS` | [`tc`]: the program `tc`, on the device of the default route |
//!
//! The sums are [`qos::network`]'s. What was found is on disk before it is touched: files, or that the
//! device had the kernel's own queue. A device whose queue somebody chose is not ours to divide.

mod tc;
mod terway;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use api::protocol::gate::AgentGate;
use api::qos::{KubeQos, QosClass};
use api::strategy::{NetworkQos, ResourceQos, ResourceQosStrategy};
use api::why::{NODE, Resource, Sum, Why};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use qos::network::{BitRate, Class, Pod, Shape, Share, Tier, band, is_planned, plan};
use qos::node::Pod as NodePod;
use serde::{Deserialize, Serialize};
use tracing::warn;
use units::Quantity;

use super::facts::Facts;
use crate::durable;

pub(super) use self::tc::Tc;

const TERWAY: &str = "terway-qos";
const TC: &str = "tc";

/// Something that we changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kept {
    /// A file, with what it said.
    File { path: PathBuf, found: Option<String> },
    /// A device that had the kernel's own queue.
    Queue { device: String },
}

/// Why the network is not as configured.
#[derive(Debug, thiserror::Error)]
enum NetworkError {
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot run tc")]
    Program(#[source] io::Error),
    #[error("tc: {0}")]
    Refused(String),
    #[error("{device} has a queue that somebody chose: {queue}")]
    Taken { device: String, queue: String },
    #[error("there is no default route")]
    NoDevice,
    #[error("terway is not installed: there is no {}", dir.display())]
    NoTerway { dir: PathBuf },
}

/// Where the drivers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    /// Terway's directories, the first that is there.
    pub(super) terway: Vec<PathBuf>,
    pub(super) tc: Tc,
}

impl Default for Places {
    /// In a container of the reference's chart, or on the host itself.
    fn default() -> Self {
        let terway = ["/host-var-lib/terway", "/var/lib/terway"].map(PathBuf::from).to_vec();
        Self { terway, tc: Tc::default() }
    }
}

/// What is remembered from round to round.
#[derive(Debug)]
pub(super) struct Network {
    places: Places,
    path: PathBuf,
    kept: Vec<Kept>,
    applied: Option<(String, qos::network::Plan)>,
    told: Option<String>,
}

impl Network {
    /// Reads what an earlier life found; a list that cannot be read is begun anew.
    pub(super) fn open(places: Places, path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let kept = serde_json::from_str(&text).unwrap_or_default();
        Self { places, path, kept, applied: None, told: None }
    }

    pub(super) fn held(&self) -> usize {
        self.kept.len()
    }

    /// Divides the network as configured; what came of it.
    pub(super) fn round(&mut self, facts: &Facts<'_>) -> Vec<Why> {
        let policy = policy(facts);
        let result = match policy {
            Some(TERWAY) => self.by_terway(facts),
            Some(TC) => self.by_tc(facts),
            _ => Ok(None),
        };
        if policy != Some(TERWAY) {
            self.return_files();
        }
        if policy != Some(TC) || matches!(result, Ok(None)) {
            self.return_queues();
        }
        let headline = match result {
            Ok(None) => {
                self.told = None;
                return Vec::new();
            }
            Ok(Some(headline)) => {
                self.told = None;
                headline
            }
            Err(error) => {
                let text = crate::object::chain(&error);
                if self.told.as_ref() != Some(&text) {
                    warn!(error = text, "cannot divide the network as configured");
                    self.told = Some(text.clone());
                }
                format!("the network is not divided: {text}")
            }
        };
        let bound_by =
            facts.cluster.slo.setting("resource-qos-config.policies.netQOSPolicy").to_string();
        let about = NODE.to_owned();
        vec![Why { about, resource: Resource::Network, headline, bound_by, sum: Sum::default() }]
    }

    fn by_terway(&mut self, facts: &Facts<'_>) -> Result<Option<String>, NetworkError> {
        let Some(shape) = shape(facts) else { return Ok(None) };
        let dir = terway::dir(&self.places.terway)?;
        let texts = [
            (dir.join(terway::GLOBAL), shape.terway()),
            (dir.join(terway::PODS), terway::pods(facts)),
        ];
        for (path, text) in texts {
            self.replace(&path, &text)?;
        }
        Ok(Some(describe(&shape, "terway")))
    }

    /// Writes a file that differs, after what it said was kept.
    fn replace(&mut self, path: &Path, text: &str) -> Result<(), NetworkError> {
        let failed = |source| NetworkError::File { path: path.to_owned(), source };
        let now = match fs::read_to_string(path) {
            Ok(now) => Some(now),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if now.as_deref() == Some(text) {
            return Ok(());
        }
        let is_known =
            |kept: &Kept| matches!(kept, Kept::File { path: known, .. } if known == path);
        if !self.kept.iter().any(is_known) {
            self.keep(Kept::File { path: path.to_owned(), found: now }).map_err(failed)?;
        }
        durable::replace(path, text.as_bytes()).map_err(failed)
    }

    fn by_tc(&mut self, facts: &Facts<'_>) -> Result<Option<String>, NetworkError> {
        let Some(shape) = shape(facts) else { return Ok(None) };
        let Some(plan) = plan(&shape, &pods(facts)) else { return Ok(None) };
        let device = tc::default_device(facts.tree.fs()).ok_or(NetworkError::NoDevice)?;
        let wanted = (device.clone(), plan);
        if self.applied.as_ref() != Some(&wanted) {
            self.apply(&device, &wanted.1)?;
            self.applied = Some(wanted);
        }
        Ok(Some(describe(&shape, &format!("htb on {device}"))))
    }

    fn apply(&mut self, device: &str, plan: &qos::network::Plan) -> Result<(), NetworkError> {
        let queue = self.places.tc.queue(device)?;
        let is_known =
            |kept: &Kept| matches!(kept, Kept::Queue { device: known } if known == device);
        let is_ours = self.kept.iter().any(is_known);
        match queue {
            // Of an earlier life, or of an earlier plan: made anew, so that nothing stale stays.
            Some(queue) if is_ours && is_planned(&queue) => self.places.tc.remove(device)?,
            Some(queue) => return Err(NetworkError::Taken { device: device.to_owned(), queue }),
            None if !is_ours => {
                let path = self.path.clone();
                let kept = self.keep(Kept::Queue { device: device.to_owned() });
                kept.map_err(|source| NetworkError::File { path, source })?;
            }
            None => {}
        }
        let applied = self.places.tc.apply(device, plan);
        if applied.is_err() {
            // Half a plan is worse than none.
            let _ = self.places.tc.remove(device);
        }
        applied
    }

    fn keep(&mut self, kept: Kept) -> io::Result<()> {
        self.kept.push(kept);
        let saved = self.save();
        if saved.is_err() {
            self.kept.pop();
        }
        saved
    }

    /// Gives everything back.
    pub(super) fn give_back(&mut self) {
        self.return_files();
        self.return_queues();
    }

    fn return_files(&mut self) {
        self.settle(|kept, _| match kept {
            Kept::File { path, found: Some(found) } => {
                durable::replace(path, found.as_bytes()).is_ok()
            }
            Kept::File { path, found: None } => match fs::remove_file(path) {
                Ok(()) => true,
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            },
            Kept::Queue { .. } => false,
        });
    }

    fn return_queues(&mut self) {
        self.applied = None;
        self.settle(|kept, places| match kept {
            Kept::File { .. } => false,
            Kept::Queue { device } => match places.tc.queue(device) {
                Ok(Some(queue)) if is_planned(&queue) => places.tc.remove(device).is_ok(),
                // The device is as it was, or somebody else's, or gone.
                Ok(_) => true,
                Err(_) => !places.tc.has_device(device),
            },
        });
    }

    /// Forgets what was given back.
    fn settle(&mut self, gives_back: impl Fn(&Kept, &Places) -> bool) {
        let before = self.kept.len();
        self.kept.retain(|kept| !gives_back(kept, &self.places));
        if self.kept.len() != before {
            // What is listed too long is looked at when it is given back once more.
            let _ = self.save();
        }
    }

    fn save(&self) -> io::Result<()> {
        durable::replace(&self.path, serde_json::to_string(&self.kept)?.as_bytes())
    }
}

/// The policy whose gate is on.
fn policy(facts: &Facts<'_>) -> Option<&'static str> {
    let strategy = facts.slo().resource_qos_strategy.as_ref();
    let policies = strategy.and_then(|strategy| strategy.policies.as_ref());
    let named = policies.and_then(|policies| policies.net_qos_policy.as_deref()).unwrap_or(TC);
    match named {
        TERWAY if facts.is_on(AgentGate::TerwayQoS) => Some(TERWAY),
        TC if facts.is_on(AgentGate::TCNetworkQoS) => Some(TC),
        _ => None,
    }
}

/// `None` when the node's bandwidth is not known.
fn shape(facts: &Facts<'_>) -> Option<Shape> {
    let total = facts.slo().system_strategy.as_ref()?.total_network_bandwidth;
    let total = BitRate(total.and_then(bits).filter(|total| *total > 0)?);
    let strategy = facts.slo().resource_qos_strategy.as_ref();
    let class = |pick: fn(&ResourceQosStrategy) -> Option<&ResourceQos>| {
        let config = strategy.and_then(pick).and_then(|class| class.network_qos.as_ref());
        class(config.filter(|config| config.enable == Some(true)), total)
    };
    Some(Shape {
        total,
        online: class(|strategy| strategy.ls_class.as_ref()),
        behind: class(|strategy| strategy.be_class.as_ref()),
    })
}

fn class(config: Option<&NetworkQos>, total: BitRate) -> Class {
    let share = |pick: fn(&NetworkQos) -> &Option<IntOrString>| match config.map(pick)?.as_ref()? {
        IntOrString::Int(percent) => Some(Share::Percent(u8::try_from(*percent).ok()?)),
        IntOrString::String(text) => Some(Share::Rate(BitRate(bits(text.parse().ok()?)?))),
    };
    Class {
        sent: band(share(|c| &c.egress_request), share(|c| &c.egress_limit), total),
        received: band(share(|c| &c.ingress_request), share(|c| &c.ingress_limit), total),
    }
}

fn bits(quantity: Quantity) -> Option<u64> {
    u64::try_from(quantity.value()).ok()
}

/// Pods with an address of their own; others cannot be told by it.
fn pods(facts: &Facts<'_>) -> Vec<Pod> {
    let limit = |pod: &NodePod| pod.annotations.network_qos.as_ref()?.egress_limit.and_then(bits);
    let shaped = |pod: &NodePod| {
        Some(Pod {
            uid: pod.uid.clone(),
            address: pod.ip.as_ref().filter(|_| !pod.host_network)?.parse().ok()?,
            tier: tier(pod.raw_qos?),
            limit: limit(pod).map(BitRate),
        })
    };
    facts.pods().filter_map(shaped).collect()
}

fn tier(class: QosClass) -> Tier {
    match class {
        QosClass::System => Tier::System,
        QosClass::Lse | QosClass::Lsr | QosClass::Ls => Tier::Online,
        QosClass::Be => Tier::Behind,
    }
}

fn tier_of(pod: &NodePod) -> Tier {
    match (pod.raw_qos, pod.kube_qos) {
        (Some(class), _) => tier(class),
        (None, KubeQos::BestEffort) => Tier::Behind,
        (None, KubeQos::Guaranteed | KubeQos::Burstable) => Tier::Online,
    }
}

fn describe(shape: &Shape, driver: &str) -> String {
    let mega = |rate: BitRate| rate.0 / 1_000_000;
    let (online, behind) = (shape.online.sent, shape.behind.sent);
    format!(
        "{} Mbit/s by {driver}: the online side {} to {}, best-effort {} to {}",
        mega(shape.total),
        mega(online.least),
        mega(online.most),
        mega(behind.least),
        mega(behind.most)
    )
}
