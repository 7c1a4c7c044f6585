//! The node that the chapter's vectors are about.
//!
//! 64 cores and 256 GiB, of which the kubelet offers 62 and 248. Pods: `web` (prod, LS), `cache`
//! (prod, LSE), `new` (prod, not reported yet), `etl` (batch), `m1` (mid); `ghost` is reported, but
//! not there.

use api::priority::PriorityClass;
use jiff::{SignedDuration, Timestamp};
use units::Quantity;

use crate::batch::{self, Terms};
use crate::device::Devices;
use crate::facts::{
    MetricFacts, NodeFacts, NodeUsage, PodFacts, PodKey, PodUsage, Pods, Reserved, Shown, Switch,
    ThirdParty, TopologyFacts, ZoneFacts,
};
use crate::load::Load;
use crate::plan::{Inputs, Options, Plan, plan};
use crate::strategy::{Lending, Strategies};
use crate::{Amounts, Pair, mid};

pub(crate) fn gib(count: i64) -> i64 {
    count << 30
}

pub(crate) fn amounts(cores: i64, gibs: i64) -> Amounts {
    Amounts::from_counts(Pair::new(cores * 1_000, gib(gibs)))
}

#[derive(Debug, Clone)]
pub(crate) struct N {
    pub(crate) node: NodeFacts,
    pub(crate) pods: Pods,
    pub(crate) metric: MetricFacts,
    pub(crate) topology: Option<TopologyFacts>,
    pub(crate) strategies: Strategies,
    pub(crate) options: Options,
    pub(crate) last_sync: Option<Timestamp>,
    pub(crate) now: Timestamp,
}

pub(crate) fn pod(name: &str, class: PriorityClass, request: Amounts) -> PodFacts {
    PodFacts {
        key: PodKey::new("d", name),
        class,
        is_exclusive: false,
        request,
        numa_nodes: Box::new([]),
    }
}

pub(crate) fn usage(name: &str, class: PriorityClass, usage: Amounts) -> PodUsage {
    PodUsage { key: PodKey::new("d", name), class: Some(class), usage }
}

impl N {
    pub(crate) fn new() -> Self {
        use PriorityClass::{Batch, Mid, Prod};
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
        let nothing = Shown::default();
        let node = NodeFacts {
            capacity: Some(amounts(64, 256)),
            reserved: Reserved { kubelet: amounts(2, 8), annotation: Amounts::ZERO },
            batch: Pair::new(nothing, nothing),
            mid: Pair::new(nothing, nothing),
            devices: Vec::new(),
            origin: None,
            third_party: ThirdParty::Nothing,
            ratio: None,
            amplification: None,
            normalization: Switch::Unset,
            gpu_labels: [None, None, None],
        };
        let web = PodFacts { numa_nodes: Box::new([0]), ..pod("web", Prod, amounts(16, 64)) };
        let cache = PodFacts {
            is_exclusive: true,
            numa_nodes: Box::new([1]),
            ..pod("cache", Prod, amounts(8, 32))
        };
        let new = pod("new", Prod, amounts(4, 8));
        let etl = pod("etl", Batch, Amounts::ZERO);
        let m1 = pod("m1", Mid, Amounts::ZERO);
        let mut reports = [
            usage("web", Prod, amounts(6, 40)),
            usage("cache", Prod, amounts(2, 30)),
            usage("etl", Batch, amounts(10, 20)),
            usage("m1", Mid, amounts(3, 6)),
            usage("ghost", Prod, amounts(1, 2)),
        ];
        reports.sort_by(|a, b| a.key.cmp(&b.key));
        let system = Amounts::from_counts(Pair::new(1_500, gib(6)));
        let metric = MetricFacts {
            updated: Some(now),
            node: Some(NodeUsage { total: amounts(26, 110).map(Some), system }),
            pods: Box::new(reports),
            ..MetricFacts::default()
        };
        Self {
            node,
            pods: [web, cache, new, etl, m1].into_iter().collect(),
            metric,
            topology: None,
            strategies: Strategies {
                is_enabled: true,
                lending: Lending::default(),
                normalization: Some(Default::default()),
                amplification: Some(Default::default()),
            },
            options: Options::default(),
            last_sync: None,
            now,
        }
    }

    pub(crate) fn with_zones(mut self) -> Self {
        let zone = |number: i32| ZoneFacts {
            name: format!("node-{number}").into(),
            number,
            allocatable: amounts(32, 128).map(Some),
            batch: Pair::new(None, None),
        };
        let zones = Box::new([zone(0), zone(1)]);
        self.topology = Some(TopologyFacts { zones, processor: None });
        self
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&Inputs {
            node: &self.node,
            pods: &self.pods,
            metric: Some(&self.metric),
            topology: self.topology.as_ref(),
            devices: Devices::Known(None),
            strategies: &self.strategies,
            options: &self.options,
            last_sync: self.last_sync,
            now: self.now,
        })
    }

    pub(crate) fn batch(&self) -> batch::Why {
        let load = Load::of(&self.pods, &self.metric.pods);
        let capacity = self.node.capacity.unwrap();
        let system = self.metric.node.unwrap().system;
        let terms = Terms::of_node(capacity, system, &self.metric.hosts, self.node.reserved, &load);
        batch::batch(terms, self.node.reserved, &load, 0, &self.strategies.lending)
    }

    pub(crate) fn mid(&self) -> mid::Why {
        let load = Load::of(&self.pods, &self.metric.pods);
        let capacity = self.node.capacity.unwrap();
        let usage = self.metric.node.unwrap();
        let reserved = self.node.reserved;
        let batch = self.batch().left;
        mid::mid(capacity, &usage, &self.metric, reserved, &load, batch, &self.strategies.lending)
    }

    /// The node after the plan was written to it.
    pub(crate) fn write(&mut self, plan: &Plan) {
        if let Some(write) = &plan.status {
            for (name, amount) in &write.resources {
                self.show(name, *amount);
            }
            if let Some(text) = &write.origin {
                let meta = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                    annotations: Some(
                        [(api::protocol::node::ORIGIN_ALLOCATABLE.name.to_owned(), text.clone())]
                            .into(),
                    ),
                    ..Default::default()
                };
                let node =
                    k8s_openapi::api::core::v1::Node { metadata: meta, ..Default::default() };
                self.node.origin = NodeFacts::read(&node).origin;
            }
        }
        if plan.status.is_some() || plan.is_synced {
            self.last_sync = Some(self.now);
        }
        for (name, text) in plan.meta.iter().flat_map(|meta| &meta.annotations) {
            let text = text.as_deref().map(Box::from);
            if *name == api::protocol::node::CPU_NORMALIZATION_RATIO.name {
                self.node.ratio = text;
            } else {
                self.node.amplification = text;
            }
        }
        for write in &plan.zones {
            let zones = self.topology.iter_mut().flat_map(|topology| topology.zones.iter_mut());
            for zone in zones.filter(|zone| zone.name == write.zone) {
                let put = |(shown, amount): (Option<crate::facts::ZoneShown>, Option<Quantity>)| {
                    let new = amount.map(|amount| crate::facts::ZoneShown {
                        capacity: amount,
                        allocatable: amount,
                        available: amount,
                    });
                    new.or(shown)
                };
                zone.batch = zone.batch.zip(write.batch).map(put);
            }
        }
    }

    fn show(&mut self, name: &str, amount: Option<Quantity>) {
        use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY};
        let shown = Shown { capacity: amount, allocatable: amount };
        match name {
            BATCH_CPU => self.node.batch.cpu = shown,
            BATCH_MEMORY => self.node.batch.memory = shown,
            MID_CPU => self.node.mid.cpu = shown,
            MID_MEMORY => self.node.mid.memory = shown,
            other => panic!("{other} is not lent"),
        }
    }
}
