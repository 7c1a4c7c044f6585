//! How is a node's network divided between the online side, best-effort and the system?
//!
//! Operators give each class a share that it is sure of and a most, in percent of the node's bandwidth or in
//! bits a second. Two drivers carry that out: files that terway reads, and classes of the kernel's
//! `htb`. A node whose bandwidth is not known is left alone: a share of nothing would stop its network.
//!
//! ```text
//! 1:   root       what is in no class below goes to 1:2
//! 1:1  all        total
//! 1:2  system     prio 1   total - shares of the others, up to total
//! 1:3  online     prio 2   its share, up to its most
//! 1:4  behind     prio 3   its share, up to its most
//! 1:10 and on     pods with a limit of their own
//! ```

use std::net::Ipv4Addr;

/// Bits a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitRate(pub u64);

impl BitRate {
    /// The same in bytes a second.
    pub fn bytes(self) -> u64 {
        self.0 / 8
    }
}

/// A share as it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    Percent(u8),
    Rate(BitRate),
}

impl Share {
    fn of(self, total: BitRate) -> BitRate {
        match self {
            Self::Percent(percent) => {
                let share = u128::from(total.0) * u128::from(percent.min(100)) / 100;
                BitRate(u64::try_from(share).unwrap_or(u64::MAX))
            }
            Self::Rate(rate) => rate.min(total),
        }
    }
}

/// What a class is sure of in one direction, and its most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Band {
    pub least: BitRate,
    pub most: BitRate,
}

/// Nothing is sure and everything allowed unless it is configured; a most of nothing is none said.
pub fn band(request: Option<Share>, limit: Option<Share>, total: BitRate) -> Band {
    let least = request.unwrap_or(Share::Percent(0)).of(total);
    let most = limit.map(|limit| limit.of(total)).filter(|most| *most > BitRate(0));
    let most = most.unwrap_or(total);
    Band { least, most: most.max(least) }
}

/// Both directions of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Class {
    pub sent: Band,
    pub received: Band,
}

/// The network of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub total: BitRate,
    pub online: Class,
    pub behind: Class,
}

impl Shape {
    /// Terway's `global_bps_config`, in bytes a second; `l1` is the online side, `l2` best-effort.
    pub fn terway(&self) -> String {
        let total = self.total.bytes();
        let mut text = format!("hw_tx_bps_max {total}\nhw_rx_bps_max {total}\n");
        for (name, class) in [("l1", self.online), ("l2", self.behind)] {
            for (direction, band) in [("tx", class.sent), ("rx", class.received)] {
                for (bound, rate) in [("min", band.least), ("max", band.most)] {
                    let bytes = rate.bytes();
                    text += &format!("offline_{name}_{direction}_bps_{bound} {bytes}\n");
                }
            }
        }
        text
    }
}

/// Whose traffic it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    System,
    Online,
    Behind,
}

impl Tier {
    /// The number terway knows it by.
    pub fn terway(self) -> u8 {
        match self {
            Self::System => 0,
            Self::Online => 1,
            Self::Behind => 2,
        }
    }

    fn minor(self) -> u16 {
        u16::from(self.terway()) + 2
    }

    fn priority(self) -> u8 {
        self.terway() + 1
    }
}

/// A pod whose packets can be told by its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub uid: String,
    pub address: Ipv4Addr,
    pub tier: Tier,
    /// Its own most, sent.
    pub limit: Option<BitRate>,
}

/// A class of `htb` below `1:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HtbClass {
    pub minor: u16,
    pub parent: Option<u16>,
    pub priority: Option<u8>,
    pub rate: BitRate,
    pub ceil: BitRate,
}

/// Everything `htb` is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plan {
    /// Parents first.
    pub classes: Vec<HtbClass>,
    /// Which class the packets of an address go to.
    pub flows: Vec<(Ipv4Addr, u16)>,
}

impl Plan {
    /// The plan in tc's words, one command a line. Packets of a pod are told by the address they come from.
    pub fn commands(&self, device: &str) -> String {
        let mut text =
            format!("qdisc add dev {device} root handle {HANDLE} htb default {DEFAULT_MINOR:x}\n");
        for class in &self.classes {
            let parent =
                class.parent.map_or(HANDLE.to_owned(), |parent| format!("{HANDLE}{parent:x}"));
            let priority = class.priority.map(|prio| format!(" prio {prio}")).unwrap_or_default();
            let (minor, rate, ceil) = (class.minor, class.rate.0, class.ceil.0);
            text += &format!(
                "class add dev {device} parent {parent} classid {HANDLE}{minor:x} \
                 htb{priority} rate {rate}bit ceil {ceil}bit\n"
            );
        }
        for (address, minor) in &self.flows {
            text += &format!(
                "filter add dev {device} parent {HANDLE} protocol ip prio {PREFERENCE} \
                 u32 match ip src {address}/32 flowid {HANDLE}{minor:x}\n"
            );
        }
        text
    }
}

/// Whether a root queueing discipline, in tc's words, is one that a plan makes.
pub fn is_planned(root: &str) -> bool {
    root.strip_prefix("htb ").and_then(|rest| rest.split(' ').next()) == Some(HANDLE)
}

/// The handle of the root.
const HANDLE: &str = "1:";

/// Where filters of a plan are, among those of others.
const PREFERENCE: u16 = 10;

/// The class of packets that nobody claims.
const DEFAULT_MINOR: u16 = 2;

const ALL: u16 = 1;
const FIRST_POD: u16 = 0x10;

/// The kernel refuses a class without a rate.
const LEAST_RATE: BitRate = BitRate(1_000_000);

/// `None` leaves the network alone.
pub fn plan(shape: &Shape, pods: &[Pod]) -> Option<Plan> {
    let total = shape.total;
    if total == BitRate(0) {
        return None;
    }
    let least = BitRate((total.0 / 100).max(LEAST_RATE.0)).min(total);
    let class = |minor, priority, rate: BitRate, ceil: BitRate| HtbClass {
        minor,
        parent: Some(ALL),
        priority: Some(priority),
        rate: rate.clamp(least, total),
        ceil: ceil.clamp(least, total).max(rate.clamp(least, total)),
    };
    let sure = shape.online.sent.least.0.saturating_add(shape.behind.sent.least.0);
    let rest = BitRate(total.0.saturating_sub(sure));
    let tiers = [
        (Tier::System, rest, total),
        (Tier::Online, shape.online.sent.least, shape.online.sent.most),
        (Tier::Behind, shape.behind.sent.least, shape.behind.sent.most),
    ];
    let all = HtbClass { minor: ALL, parent: None, priority: None, rate: total, ceil: total };
    let mut classes = vec![all];
    classes
        .extend(tiers.map(|(tier, rate, ceil)| class(tier.minor(), tier.priority(), rate, ceil)));
    let mut pods: Vec<&Pod> = pods.iter().collect();
    pods.sort_by(|a, b| a.uid.cmp(&b.uid));
    let mut flows = Vec::new();
    let mut minors = FIRST_POD..=u16::MAX;
    for pod in pods {
        let limit = pod.limit.filter(|limit| *limit > BitRate(0));
        let own = limit.and_then(|limit| Some((limit, minors.next()?)));
        match own {
            Some((limit, minor)) => {
                classes.push(class(minor, pod.tier.priority(), limit, limit));
                flows.push((pod.address, minor));
            }
            None => flows.push((pod.address, pod.tier.minor())),
        }
    }
    Some(Plan { classes, flows })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GBIT: BitRate = BitRate(1_000_000_000);

    fn shape(total: BitRate) -> Shape {
        let sent = |request, limit| band(Some(request), Some(limit), total);
        let class = |sent| Class { sent, received: band(None, None, total) };
        Shape {
            total,
            online: class(sent(Share::Percent(60), Share::Percent(90))),
            behind: class(sent(Share::Rate(BitRate(100_000_000)), Share::Percent(50))),
        }
    }

    #[test]
    fn bands_are_percents_or_rates() {
        let rate = |bits| Some(Share::Rate(BitRate(bits)));
        let cases = [
            ("nothing said", None, None, 0, 1_000_000_000),
            (
                "percent",
                Some(Share::Percent(30)),
                Some(Share::Percent(70)),
                300_000_000,
                700_000_000,
            ),
            ("rates", rate(50_000_000), rate(80_000_000), 50_000_000, 80_000_000),
            ("more than there is", rate(9_000_000_000), None, 1_000_000_000, 1_000_000_000),
            ("a most below the least", rate(80), rate(50), 80, 80),
            ("a most of nothing", rate(80), Some(Share::Percent(0)), 80, 1_000_000_000),
        ];
        for (name, request, limit, least, most) in cases {
            let want = Band { least: BitRate(least), most: BitRate(most) };
            assert_eq!(band(request, limit, GBIT), want, "{name}");
        }
    }

    #[test]
    fn terway_reads_bytes() {
        let want = "hw_tx_bps_max 125000000\nhw_rx_bps_max 125000000\n\
            offline_l1_tx_bps_min 75000000\noffline_l1_tx_bps_max 112500000\n\
            offline_l1_rx_bps_min 0\noffline_l1_rx_bps_max 125000000\n\
            offline_l2_tx_bps_min 12500000\noffline_l2_tx_bps_max 62500000\n\
            offline_l2_rx_bps_min 0\noffline_l2_rx_bps_max 125000000\n";
        assert_eq!(shape(GBIT).terway(), want);
    }

    fn pod(uid: &str, last: u8, tier: Tier, limit: Option<u64>) -> Pod {
        let address = Ipv4Addr::new(10, 0, 0, last);
        Pod { uid: uid.to_owned(), address, tier, limit: limit.map(BitRate) }
    }

    #[test]
    fn classes_have_the_numbers_of_the_reference() {
        let pods = [
            pod("b", 2, Tier::Online, Some(10_000_000)),
            pod("a", 1, Tier::Behind, None),
            pod("c", 3, Tier::System, Some(0)),
        ];
        let plan = plan(&shape(GBIT), &pods).unwrap();
        let shown: Vec<_> = plan
            .classes
            .iter()
            .map(|class| (class.minor, class.priority, class.rate.0, class.ceil.0))
            .collect();
        let (total, mega) = (1_000_000_000, 1_000_000);
        let want = [
            (1, None, total, total),
            (2, Some(1), 300 * mega, total),
            (3, Some(2), 600 * mega, 900 * mega),
            (4, Some(3), 100 * mega, 500 * mega),
            (0x10, Some(2), 10 * mega, 10 * mega),
        ];
        assert_eq!(shown, want, "10M is ten megabits, not an eighth of them");
        let address = |last| Ipv4Addr::new(10, 0, 0, last);
        assert_eq!(plan.flows, [(address(1), 4), (address(2), 0x10), (address(3), 2)]);
    }

    #[test]
    fn a_plan_is_one_batch_of_commands() {
        let total = GBIT;
        let class = |percent| {
            let band = band(Some(Share::Percent(percent)), None, total);
            Class { sent: band, received: band }
        };
        let shape = Shape { total, online: class(60), behind: class(10) };
        let pods = [pod("a", 1, Tier::Online, None), pod("b", 2, Tier::Behind, Some(10_000_000))];
        let want = "\
qdisc add dev eth0 root handle 1: htb default 2
class add dev eth0 parent 1: classid 1:1 htb rate 1000000000bit ceil 1000000000bit
class add dev eth0 parent 1:1 classid 1:2 htb prio 1 rate 300000000bit ceil 1000000000bit
class add dev eth0 parent 1:1 classid 1:3 htb prio 2 rate 600000000bit ceil 1000000000bit
class add dev eth0 parent 1:1 classid 1:4 htb prio 3 rate 100000000bit ceil 1000000000bit
class add dev eth0 parent 1:1 classid 1:10 htb prio 3 rate 10000000bit ceil 10000000bit
filter add dev eth0 parent 1: protocol ip prio 10 u32 match ip src 10.0.0.1/32 flowid 1:3
filter add dev eth0 parent 1: protocol ip prio 10 u32 match ip src 10.0.0.2/32 flowid 1:10
";
        assert_eq!(plan(&shape, &pods).unwrap().commands("eth0"), want);
        assert!(is_planned("htb 1: root refcnt 2 r2q 10") && !is_planned("htb 11: root"));
        assert!(!is_planned("fq 1: root"));
    }

    #[test]
    fn a_node_without_bandwidth_is_left_alone() {
        assert_eq!(plan(&shape(BitRate(0)), &[]), None);
    }

    proptest! {
        /// Whatever is configured: the kernel takes every class, and nobody gets more than there is.
        #[test]
        fn classes_are_never_empty_nor_too_large(
            total in 1..100_000_000_000u64, request: u8, limit: u8, own in 0..u64::MAX,
        ) {
            let total = BitRate(total);
            let sent = band(Some(Share::Percent(request)), Some(Share::Percent(limit)), total);
            let class = Class { sent, received: sent };
            let shape = Shape { total, online: class, behind: class };
            let plan = plan(&shape, &[pod("a", 1, Tier::Online, Some(own))]).unwrap();
            for class in plan.classes {
                prop_assert!(class.rate > BitRate(0) && class.rate <= class.ceil);
                prop_assert!(class.ceil <= total);
            }
        }
    }
}
