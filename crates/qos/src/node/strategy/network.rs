//! The network of the node, divided as configured: by files that terway reads, or by classes of `htb`.
//!
//! | policy | gate | wants |
//! |---|---|---|
//! | `terway-qos` | `TerwayQoS` | two files in terway's directory |
//! | `tc` | `TCNetworkQoS` | classes on the device of the default route |
//!
//! The sums are [`crate::network`]'s.

mod terway;

use crate::claim::{Bound, Rank, Value};
use crate::network::{BitRate, Class, Pod, Shape, Share, Tier, band, plan};
use crate::wish::{Target, Wish};
use api::protocol::gate::AgentGate;
use api::qos::{KubeQos, QosClass};
use api::strategy::{NetworkQos, ResourceQos, ResourceQosStrategy};
use api::why::{NODE, Resource, Sum, Why};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use units::Quantity;

use crate::node::{Pod as NodePod, Readings, State};

const TERWAY: &str = "terway-qos";
const TC: &str = "tc";

/// How the network is divided, as it is wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NetworkDivision {
    /// `None` keeps what was wanted last: the machine lacks something for the moment.
    pub wishes: Option<Vec<Wish>>,
    headline: Option<Result<String, String>>,
    setting: String,
}

const ROUTES: &str = "/proc/net/route";

pub(in crate::node) fn read(state: &State, readings: &mut Readings) {
    match policy(state) {
        Some(TERWAY) => readings.directories.extend(terway::DIRS),
        Some(_) => _ = readings.files.insert(ROUTES),
        None => {}
    }
}

pub fn decide(state: &State) -> NetworkDivision {
    let divided = match (policy(state), shape(state)) {
        (Some(TERWAY), Some(shape)) => by_terway(state, &shape),
        (Some(TC), Some(shape)) => by_tc(state, &shape),
        _ => Ok(None),
    };
    let setting =
        state.cluster.slo.setting("resource-qos-config.policies.netQOSPolicy").to_string();
    match divided {
        Ok(None) => NetworkDivision { wishes: Some(Vec::new()), headline: None, setting },
        Ok(Some((wishes, headline))) => {
            NetworkDivision { wishes: Some(wishes), headline: Some(Ok(headline)), setting }
        }
        Err(lacks) => NetworkDivision { wishes: None, headline: Some(Err(lacks)), setting },
    }
}

impl NetworkDivision {
    /// What came of it, as far as it is known by now.
    pub fn explain(&self, trouble: impl Fn(&Target) -> Option<String>) -> Option<Why> {
        let trouble = self.wishes.iter().flatten().find_map(|wish| trouble(&wish.target));
        let headline = match (self.headline.as_ref()?, trouble) {
            (Ok(headline), None) => headline.clone(),
            (Ok(_), Some(trouble)) => format!("the network is not divided: {trouble}"),
            (Err(lacks), _) => format!("the network is not divided: {lacks}"),
        };
        let (about, bound_by) = (NODE.to_owned(), self.setting.clone());
        Some(Why { about, resource: Resource::Network, headline, bound_by, sum: Sum::default() })
    }
}

/// What is wanted and how that is said; an error is what the machine lacks.
type DivisionResult = Result<Option<(Vec<Wish>, String)>, String>;

fn by_terway(state: &State, shape: &Shape) -> DivisionResult {
    let dir = terway::dir(state)?;
    let files = [(terway::GLOBAL, shape.terway()), (terway::PODS, terway::pods(state))];
    let wishes = files.map(|(name, text)| Wish {
        target: Target::TerwayFile(format!("{dir}/{name}")),
        rank: Rank::POD,
        bound: Bound::Set(Value::Content(Some(text))),
        why: "the shares of the network".to_owned(),
    });
    Ok(Some((wishes.to_vec(), describe(shape, "terway"))))
}

fn by_tc(state: &State, shape: &Shape) -> DivisionResult {
    let Some(plan) = plan(shape, &pods(state)) else { return Ok(None) };
    let device =
        default_device(state.machine.files.get(ROUTES)).ok_or("there is no default route")?;
    let headline = describe(shape, &format!("htb on {device}"));
    let wish = Wish {
        target: Target::Qdisc(device),
        rank: Rank::POD,
        bound: Bound::Set(Value::Qdisc(Some(plan))),
        why: "the shares of the network".to_owned(),
    };
    Ok(Some((vec![wish], headline)))
}

/// The policy whose gate is on.
fn policy(state: &State) -> Option<&'static str> {
    let strategy = state.slo().resource_qos_strategy.as_ref();
    let policies = strategy.and_then(|strategy| strategy.policies.as_ref());
    let named = policies.and_then(|policies| policies.net_qos_policy.as_deref()).unwrap_or(TC);
    match named {
        TERWAY if state.is_on(AgentGate::TerwayQoS) => Some(TERWAY),
        TC if state.is_on(AgentGate::TCNetworkQoS) => Some(TC),
        _ => None,
    }
}

/// `None` when the node's bandwidth is not known.
fn shape(state: &State) -> Option<Shape> {
    let total = state.slo().system_strategy.as_ref()?.total_network_bandwidth;
    let total = BitRate(total.and_then(bits).filter(|total| *total > 0)?);
    let strategy = state.slo().resource_qos_strategy.as_ref();
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
fn pods(state: &State) -> Vec<Pod> {
    let limit = |pod: &NodePod| pod.annotations.network_qos.as_ref()?.egress_limit.and_then(bits);
    let shaped = |pod: &NodePod| {
        Some(Pod {
            uid: pod.uid.clone(),
            address: pod.ip.as_ref().filter(|_| !pod.host_network)?.parse().ok()?,
            tier: tier(pod.raw_qos?),
            limit: limit(pod).map(BitRate),
        })
    };
    state.pods().filter_map(shaped).collect()
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

/// The device of the default route.
fn default_device(routes: Option<&String>) -> Option<String> {
    let mut routes = routes?.lines().skip(1).map(|line| line.split_whitespace());
    routes.find_map(|mut words| {
        let (device, destination) = (words.next()?, words.next()?);
        (destination == "00000000").then(|| device.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_that_of_the_default_route() {
        let header = "Iface\tDestination\tGateway\tFlags\n";
        let find = |routes: &str| default_device(Some(&format!("{header}{routes}")));
        let route = "eth1\t000200C0\t0\t1\neth0\t00000000\t010200C0\t3\n";
        assert_eq!(find(route).as_deref(), Some("eth0"));
        assert_eq!(find("eth1\t000200C0\t0\t1\n"), None);
    }
}
