//! Protection and brakes of memory, by class and by pod.
//!
//! Protection has to be carried by every ancestor, so tiers and the group of all pods get the sum of
//! their pods. What is not configured is not managed; a class that is off has neutral values.

use std::collections::BTreeMap;

use crate::claim::{Rank, Value};
use crate::memory::{Asked, High, Shares, high, protection, tier_protection};
use crate::node::{ContainerSpec, Pod};
use crate::wish::Wish;
use api::config::defaults::agent_qos;
use api::metadata::pod::MemoryQosPolicy;
use api::qos::{KubeQos, QosClass, StrategyClass};
use api::resources::Bounds;
use api::strategy::{MemoryQos, ResourceQosStrategy};
use api::why::{Resource, Sum, Why};
use groups::{CgroupPath, Knob};
use units::{Bytes, Percent, Rounding};

use super::Decision;
use super::{number, set};
use crate::node::State;

pub fn decide(state: &State) -> Decision {
    let none = ResourceQosStrategy::default();
    let strategy = state.slo().resource_qos_strategy.as_ref().unwrap_or(&none);
    let allocatable = state.cluster.node.as_ref().map(|node| node.allocatable.memory);
    let template: ResourceQosStrategy = agent_qos().typed();
    let mut decision = Decision::default();
    let mut tiers: BTreeMap<KubeQos, Vec<(Asked, Shares)>> = BTreeMap::new();
    for pod in state.pods() {
        let config = config(pod, strategy, &template);
        let shares = shares(&config);
        let whole = whole(pod);
        tiers.entry(pod.kube_qos).or_default().push((whole, shares));
        if !is_managed(&config) {
            continue;
        }
        let group = pod.cgroup.clone();
        decision.wishes.extend(protect(&group, whole, &shares));
        decision.wishes.extend(switches(&group, &config));
        decision.wishes.extend(page_cache(&group, &config, whole));
        if !pod.is_virtual_machine {
            for container in &pod.specs {
                let Some(group) = container.cgroup.clone() else {
                    continue;
                };
                let asked = asked(bounds(pod, container));
                decision.wishes.extend(protect(&group, asked, &shares));
                decision.wishes.extend(brake(&group, asked, &shares, allocatable));
                decision.wishes.extend(switches(&group, &config));
            }
        }
        decision.whys.push(explain(pod, whole, &shares));
    }
    decision.wishes.extend(tier_wishes(state, &tiers));
    decision
}

/// The class's configuration with the pod's own words over it.
fn config(pod: &Pod, strategy: &ResourceQosStrategy, template: &ResourceQosStrategy) -> MemoryQos {
    let own = pod.annotations.memory_qos.as_ref();
    let policy = own.and_then(|own| own.policy).unwrap_or_default();
    let class = pod.qos.strategy_class();
    let base = match policy {
        MemoryQosPolicy::Default => of_class(strategy, class),
        MemoryQosPolicy::None => return neutral(),
        MemoryQosPolicy::Auto => of_class(template, class),
    };
    let Some(own) = own else { return base };
    let fields = own.fields.clone();
    MemoryQos {
        enable: base.enable,
        min_limit_percent: fields.min_limit_percent.or(base.min_limit_percent),
        low_limit_percent: fields.low_limit_percent.or(base.low_limit_percent),
        throttling_percent: fields.throttling_percent.or(base.throttling_percent),
        wmark_ratio: fields.wmark_ratio.or(base.wmark_ratio),
        wmark_scale_permill: fields.wmark_scale_permill.or(base.wmark_scale_permill),
        wmark_min_adj: fields.wmark_min_adj.or(base.wmark_min_adj),
        priority_enable: fields.priority_enable.or(base.priority_enable),
        priority: fields.priority.or(base.priority),
        oom_kill_group: fields.oom_kill_group.or(base.oom_kill_group),
        page_cache_enable: fields.page_cache_enable.or(base.page_cache_enable),
        page_cache_limit_percent: fields.page_cache_limit_percent.or(base.page_cache_limit_percent),
        page_cache_limit_size: fields.page_cache_limit_size.or(base.page_cache_limit_size),
        page_cache_reclaim_sync: fields.page_cache_reclaim_sync.or(base.page_cache_reclaim_sync),
    }
}

fn of_class(strategy: &ResourceQosStrategy, class: StrategyClass) -> MemoryQos {
    let class = match class {
        StrategyClass::Lsr => &strategy.lsr_class,
        StrategyClass::Ls => &strategy.ls_class,
        StrategyClass::Be => &strategy.be_class,
        StrategyClass::System => &strategy.system_class,
    };
    class.as_ref().and_then(|class| class.memory_qos.clone()).unwrap_or_default()
}

/// Everything off.
fn neutral() -> MemoryQos {
    MemoryQos {
        min_limit_percent: Some(0),
        low_limit_percent: Some(0),
        throttling_percent: Some(0),
        ..MemoryQos::default()
    }
}

/// Whether anything differs from what the kernel does by itself.
fn is_managed(config: &MemoryQos) -> bool {
    let is_set = |value: Option<i64>, neutral| value.is_some_and(|value| value != neutral);
    is_set(config.min_limit_percent, 0)
        || is_set(config.low_limit_percent, 0)
        || is_set(config.throttling_percent, 0)
        || is_set(config.wmark_ratio, 0)
        || is_set(config.wmark_min_adj, 0)
        || is_set(config.priority_enable, 0)
        || is_set(config.oom_kill_group, 0)
        || config.page_cache_enable == Some(true)
        || is_set(config.page_cache_limit_size, 0)
        || is_set(config.page_cache_limit_percent, 0)
}

fn shares(config: &MemoryQos) -> Shares {
    Shares {
        min: config.min_limit_percent.map(Percent),
        low: config.low_limit_percent.map(Percent),
        throttling: config.throttling_percent.map(Percent),
    }
}

/// Best-effort asks in batch resources.
fn bounds(pod: &Pod, container: &ContainerSpec) -> Bounds {
    match pod.raw_qos {
        Some(QosClass::Be) => container.batch.unwrap_or_default(),
        _ => container.native,
    }
}

fn asked(bounds: Bounds) -> Asked {
    Asked {
        request: bounds.memory_request.unwrap_or_default(),
        limit: bounds.memory_limit.filter(|limit| *limit > Bytes::ZERO),
    }
}

fn whole(pod: &Pod) -> Asked {
    let all = pod.specs.iter().map(|c| asked(bounds(pod, c)));
    Asked {
        request: all.clone().map(|asked| asked.request).sum(),
        limit: all.map(|asked| asked.limit).sum(),
    }
}

fn protect(group: &CgroupPath, asked: Asked, shares: &Shares) -> Vec<Wish> {
    let protection = protection(asked, shares);
    let why = "a share of its request";
    let places = [(Knob::MemoryMin, protection.min), (Knob::MemoryLow, protection.low)];
    let given = places.into_iter().filter_map(|(knob, bytes)| Some((knob, bytes?)));
    given.map(|(knob, bytes)| set(group, knob, Rank::POD, number(bytes.0), why)).collect()
}

fn brake(
    group: &CgroupPath,
    asked: Asked,
    shares: &Shares,
    allocatable: Option<Bytes>,
) -> Option<Wish> {
    let value = match high(asked, shares, allocatable?) {
        High::Unmanaged => return None,
        High::Unlimited => Value::Number(None),
        High::At(bytes) => number(bytes.0),
    };
    Some(set(group, Knob::MemoryHigh, Rank::POD, value, "between its request and its limit"))
}

fn switches(group: &CgroupPath, config: &MemoryQos) -> Vec<Wish> {
    let why = "the configuration of its class";
    let knobs = [
        (Knob::WmarkRatio, config.wmark_ratio),
        (Knob::WmarkScaleFactor, config.wmark_scale_permill),
        (Knob::WmarkMinAdj, config.wmark_min_adj),
        (Knob::MemoryPriority, config.priority),
        (Knob::UsePriorityOom, config.priority_enable),
        (Knob::OomGroup, config.oom_kill_group),
    ];
    let given = knobs.into_iter().filter_map(|(knob, value)| Some((knob, value?)));
    given.map(|(knob, value)| set(group, knob, Rank::POD, number(value), why)).collect()
}

/// Only vendor kernels bound the page cache of a pod.
fn page_cache(group: &CgroupPath, config: &MemoryQos, asked: Asked) -> Vec<Wish> {
    let limit = asked.limit.unwrap_or_default();
    let size = match (config.page_cache_limit_size, config.page_cache_limit_percent) {
        (Some(size), _) if limit > Bytes::ZERO => size.min(limit.0),
        (Some(size), _) => size,
        (None, Some(share)) => Percent(share).apply(limit, Rounding::Down).0,
        (None, None) if config.page_cache_enable.is_none() => return Vec::new(),
        (None, None) => 0,
    };
    let is_on = config.page_cache_enable.unwrap_or(size > 0);
    let sync = config.page_cache_reclaim_sync == Some(true);
    let why = "its page cache is bounded";
    [
        (Knob::PagecacheLimitSize, size),
        (Knob::PagecacheLimitSync, i64::from(sync)),
        (Knob::PagecacheLimitEnable, i64::from(is_on)),
    ]
    .map(|(knob, value)| set(group, knob, Rank::POD, number(value), why))
    .to_vec()
}

/// What the ancestors carry. Nothing at all while no pod is protected.
fn tier_wishes(state: &State, tiers: &BTreeMap<KubeQos, Vec<(Asked, Shares)>>) -> Vec<Wish> {
    let is_protected = |shares: &Shares| {
        [shares.min, shares.low].into_iter().flatten().any(|share| share > Percent::ZERO)
    };
    if !tiers.values().flatten().any(|(_, shares)| is_protected(shares)) {
        return Vec::new();
    }
    let why = "what its pods are promised";
    let wish = |group: CgroupPath, sum: crate::memory::Protection| {
        [(Knob::MemoryMin, sum.min), (Knob::MemoryLow, sum.low)]
            .map(|(knob, bytes)| {
                set(&group, knob, Rank::POD, number(bytes.unwrap_or_default().0), why)
            })
            .to_vec()
    };
    let of = |qos| tiers.get(&qos).cloned().unwrap_or_default();
    let all = tier_protection(tiers.values().flatten().copied());
    let mut wishes = wish(state.layout.kubepods(), all);
    for qos in [KubeQos::Burstable, KubeQos::BestEffort] {
        wishes.extend(wish(state.layout.class(qos), tier_protection(of(qos))));
    }
    wishes
}

fn explain(pod: &Pod, asked: Asked, shares: &Shares) -> Why {
    let given = protection(asked, shares);
    let bytes = |bytes: Option<Bytes>| bytes.unwrap_or_default();
    Why {
        about: format!("{}/{}", pod.namespace, pod.name),
        resource: Resource::Memory,
        headline: "has memory that reclaim spares, and some that it takes last".to_owned(),
        bound_by: "its class or its annotation".to_owned(),
        sum: Sum::default()
            .beside(asked.request, "requested", "")
            .beside(bytes(given.min), "memory.min", "")
            .beside(bytes(given.low), "memory.low", ""),
    }
}
