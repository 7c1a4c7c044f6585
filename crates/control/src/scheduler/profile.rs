//! From a configuration to the engine's profiles.

use std::collections::BTreeMap;

use api::scheduler::args::Arguments;
use api::scheduler::{Point, Profile};
use sched::profile::{Enabled, Point as EnginePoint, Profile as EngineProfile};
use serde::Serialize;
use serde_json::Value;

/// The same profile in the engine's words; plugins that do nothing yet are left out.
pub fn translate(profile: &Profile) -> EngineProfile {
    let mut points = BTreeMap::new();
    for point in EnginePoint::ALL {
        let Some(named) = Point::from_word(point.key()) else { continue };
        let enabled = profile
            .points
            .active(named)
            .map(|own| Enabled { name: own.plugin.name.to_owned(), weight: own.weight });
        points.insert(point, enabled.collect());
    }
    EngineProfile {
        scheduler_name: profile.scheduler_name.clone(),
        points,
        args: arguments(&profile.arguments),
    }
}

fn arguments(all: &Arguments) -> BTreeMap<String, Value> {
    let rows = [
        ("DefaultPreemption", plain(&all.default_preemption)),
        ("InterPodAffinity", plain(&all.inter_pod_affinity)),
        ("NodeAffinity", plain(&all.node_affinity)),
        ("NodeResourcesBalancedAllocation", plain(&all.balanced_allocation)),
        ("NodeResourcesFit", plain(&all.fit)),
        ("PodTopologySpread", plain(&all.spread)),
        ("VolumeBinding", plain(&all.volume_binding)),
        ("LoadAwareScheduling", plain(&all.load_aware)),
        ("NodeNUMAResource", plain(&all.numa)),
        ("NodeResourcesFitPlus", plain(&all.fit_plus)),
        ("ScarceResourceAvoidance", plain(&all.scarce)),
        ("SchedulingHint", plain(&all.hint)),
    ];
    rows.into_iter().map(|(name, args)| (name.to_owned(), args)).collect()
}

/// Args as plain values, without what is absent.
fn plain(args: &impl Serialize) -> Value {
    // Args are maps with text keys, so that they always have a JSON form.
    let mut value = serde_json::to_value(args).unwrap_or_default();
    strip(&mut value);
    value
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
