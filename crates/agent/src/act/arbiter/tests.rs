//! Wishes for every kind of target, on a kernel that refuses, kills and is killed.

mod machine;
mod rules;
mod targets;
mod threads;

use std::time::Duration;

use groups::{CgroupPath, Knob};
use proptest::prelude::*;
use qos::claim::{Bound, Rank, Value};
use qos::wish::{Target, Wish};

use self::machine::{Machine, POD, TIER};
use super::super::writer::WriteOutcome;
use super::target_state::LONGEST_PAUSE;
use super::*;

fn wish(target: Target, rank: Rank, bound: Bound) -> Wish {
    Wish { target, rank, bound, why: "because".to_owned() }
}

fn knob(group: &str, knob: Knob) -> Target {
    Target::knob(CgroupPath::new(group), knob)
}

fn set(target: Target, value: Value) -> Wish {
    wish(target, Rank::POD, Bound::Set(value))
}

fn quota(group: &str, quota: i64) -> Wish {
    let bound = Bound::Max(Value::Number(Some(quota)));
    wish(knob(group, Knob::CfsQuota), Rank::SUPPRESSION, bound)
}

fn written(old: &str, new: &str) -> Outcome {
    Outcome::Written { old: old.to_owned(), new: new.to_owned() }
}
