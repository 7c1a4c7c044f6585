//! Limits and weights of disks, for the best-effort class and for pods that ask for them.
//!
//! Disks are named by their device; a block that cannot be found is left out, and the others count.

use std::collections::BTreeMap;

use crate::block::{Latency, Model, Throttle, latency_words, model_words, weight};
use crate::claim::{Rank, Value};
use crate::wish::Wish;
use api::qos::QosClass;
use api::strategy::{BlkioQos, Block, BlockIo};
use groups::{CgroupPath, DeviceNumber, Disk, Knob, Limit, Setting, Version};

use super::Decision;
use super::set;
use crate::node::State;

/// `None` before the disks are known.
pub fn decide(state: &State) -> Option<Decision> {
    let disks = state.machine.disks.as_ref()?;
    let strategy = state.slo().resource_qos_strategy.as_ref()?;
    let mut decision = Decision::default();
    let class = strategy.be_class.as_ref().and_then(|class| class.blkio_qos.as_ref());
    if let Some(class) = class.filter(|class| class.enable == Some(true)) {
        decision.wishes.extend(limits(state, &state.tier(), &resolve(class, disks)));
    }
    let root = strategy.cgroup_root.as_ref().and_then(|root| root.blkio_qos.as_ref());
    if let Some(root) = root.filter(|root| root.enable == Some(true)) {
        decision.wishes.extend(cost(state, &resolve(root, disks)));
    }
    for pod in state.pods().filter(|pod| pod.raw_qos.is_some_and(|qos| qos != QosClass::System)) {
        if let Some(own) = &pod.annotations.blkio_qos {
            let group = pod.cgroup.clone();
            decision.wishes.extend(limits(state, &group, &resolve(own, disks)));
        }
    }
    Some(decision)
}

type Found<'b> = BTreeMap<DeviceNumber, &'b BlockIo>;

fn resolve<'b>(blocks: &'b BlkioQos, disks: &[Disk]) -> Found<'b> {
    let known = blocks.blocks.iter().flatten().filter_map(|block: &Block| {
        let io = block.io_cfg.as_ref()?;
        let is_device = matches!(block.type_.as_deref(), Some("device") | None);
        let name = block.name.as_deref()?.trim_start_matches("/dev/");
        let disk = disks.iter().find(|disk| {
            disk.name == name || disk.partitions.iter().any(|partition| partition.name == name)
        });
        Some((disk.filter(|_| is_device)?.number, io))
    });
    known.collect()
}

/// What the kernel's own words for a value are, as the file would show them.
fn text(state: &State, knob: Knob, setting: &Setting) -> Option<Value> {
    let lines = knob.encode(state.kernel.version, setting).ok()?;
    Some(Value::Text(lines.join("\n")))
}

fn limits(state: &State, group: &CgroupPath, found: &Found<'_>) -> Vec<Wish> {
    let count = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    let throttle = |io: &BlockIo| {
        Throttle {
            read_iops: count(io.read_iops),
            write_iops: count(io.write_iops),
            read_bps: count(io.read_bps),
            write_bps: count(io.write_bps),
        }
        .without_zeros()
    };
    type Read = fn(&Throttle) -> Option<u64>;
    let knobs: [(Knob, Read); 4] = [
        (Knob::ReadIops, |throttle| throttle.read_iops),
        (Knob::WriteIops, |throttle| throttle.write_iops),
        (Knob::ReadBps, |throttle| throttle.read_bps),
        (Knob::WriteBps, |throttle| throttle.write_bps),
    ];
    let why = "limits of its disks";
    let mut wishes = Vec::new();
    for (knob, read) in knobs {
        let rates: BTreeMap<_, _> = found
            .iter()
            .filter_map(|(device, io)| Some((*device, Limit::At(read(&throttle(io))?))))
            .collect();
        if !rates.is_empty()
            && let Some(value) = text(state, knob, &Setting::Rates(rates))
        {
            wishes.push(set(group, knob, Rank::POD, value, why));
        }
    }
    let weights: BTreeMap<_, _> = found
        .iter()
        .filter(|(_, io)| io.io_weight_percent.is_some())
        .map(|(device, io)| (*device, weight(io.io_weight_percent)))
        .collect();
    if !weights.is_empty()
        && let Some(value) = text(state, Knob::IoWeight, &Setting::Weights(weights))
    {
        wishes.push(set(group, Knob::IoWeight, Rank::POD, value, why));
    }
    wishes
}

/// The cost controller of the whole node.
fn cost(state: &State, found: &Found<'_>) -> Vec<Wish> {
    let default = Latency::default();
    let words = |say: &dyn Fn(&BlockIo) -> String| {
        Setting::Words(found.iter().map(|(device, io)| (*device, say(io))).collect())
    };
    let latency = words(&|io| {
        latency_words(Some(&Latency {
            read_percent: io.read_latency_percent.unwrap_or(default.read_percent),
            read_micros: io.read_latency.unwrap_or(default.read_micros),
            write_percent: io.write_latency_percent.unwrap_or(default.write_percent),
            write_micros: io.write_latency.unwrap_or(default.write_micros),
        }))
    });
    let model = words(&|io| model_words(model(io).as_ref()));
    let root = CgroupPath::root();
    let why = "the cost controller of the node";
    let knobs = [(Knob::IoCostQos, latency), (Knob::IoCostModel, model)];
    let is_root_file = state.kernel.version == Version::V2 || state.kernel.has_identity;
    knobs
        .into_iter()
        .filter(|_| is_root_file && !found.is_empty())
        .filter_map(|(knob, setting)| {
            Some(set(&root, knob, Rank::POD, text(state, knob, &setting)?, why))
        })
        .collect()
}

fn model(io: &BlockIo) -> Option<Model> {
    if io.enable_user_model != Some(true) {
        return None;
    }
    Some(Model {
        read_bps: io.model_read_bps?,
        read_seq_iops: io.model_read_seq_iops?,
        read_rand_iops: io.model_read_rand_iops?,
        write_bps: io.model_write_bps?,
        write_seq_iops: io.model_write_seq_iops?,
        write_rand_iops: io.model_write_rand_iops?,
    })
}
