//! VolumeZone: a bound volume with zone or region labels is reachable from there only.
//!
//! A label value may name several zones, joined by `__`. Nodes without any such label are not
//! restricted. Claims that wait for their first consumer have no zone yet.

use std::borrow::Cow;

use serde_json::Value;

use super::claims;
use crate::model::{Class, Symbol};
use crate::plugin::{Context, Epoch, Event, Plugin, Prepared, Reads, Work};
use crate::plugins::ArgsError;
use crate::queue::{Actions, Hint, Interest, Resource, Wake};
use crate::snapshot::{NodeIx, Snapshot};
use crate::verdict::{Code, Verdict};

pub(in crate::plugins) const NAME: &str = "VolumeZone";

pub(in crate::plugins) const WAKES: Interest = Interest::Only(&[
    Wake::new(Resource::StorageClass, Actions::ADD.or(Actions::UPDATE)),
    Wake::new(Resource::PersistentVolumeClaim, Actions::ADD.or(Actions::UPDATE)),
    Wake::new(Resource::PersistentVolume, Actions::ADD.or(Actions::UPDATE)),
    Wake::new(Resource::Node, Actions::ADD.or(Actions::NODE_LABEL)),
]);

/// Labels with their successors.
const LABELS: [(&str, &str); 4] = [
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
];

#[derive(Debug)]
struct VolumeZone {
    labels: Vec<(Symbol, Symbol)>,
}

pub(in crate::plugins) fn build(
    _: &Value,
    snapshot: &mut Snapshot,
) -> Result<Box<dyn Plugin>, ArgsError> {
    let names = &mut snapshot.names;
    let labels = LABELS.iter().map(|(label, new)| (names.intern(label), names.intern(new)));
    Ok(Box::new(VolumeZone { labels: labels.collect() }))
}

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, Context { snapshot, class }: Context<'_>) -> Prepared {
        let storage = &snapshot.extras.storage;
        let mut places = Vec::new();
        for (key, _) in claims(class) {
            let Some(claim) = storage.claims.get(&key) else { continue };
            let Some(name) = claim.volume else {
                let class = claim.class.and_then(|name| storage.classes.get(&name));
                if class.is_some_and(|class| class.waits) {
                    continue;
                }
                let reason = "PersistentVolume had no name";
                return Prepared::reject(Code::Unresolvable, reason).on(&[Epoch::Storage]);
            };
            let Some(volume) = storage.volumes.get(&name) else { continue };
            places.extend(self.labels.iter().filter_map(|(label, successor)| {
                let value = volume.labels.get(*label)?;
                let zones = snapshot.names.text(value).split("__").map(str::trim);
                let zones = zones.map(|zone| snapshot.names.find(zone)).collect();
                Some(Place { label: *label, successor: *successor, zones })
            }));
        }
        let depends: &[Epoch] = if super::has_claims(class) { &[Epoch::Storage] } else { &[] };
        if places.is_empty() {
            return Prepared::skip().on(depends);
        }
        let labels = self.labels.iter().map(|(label, _)| *label).collect();
        Prepared::filter(Reads::Node, Zoned { places, labels }).on(depends)
    }

    fn hint(&self, _: &Snapshot, class: &Class, event: &Event) -> Hint {
        super::about_claims(class, event)
    }
}

#[derive(Debug)]
struct Place {
    label: Symbol,
    successor: Symbol,
    /// `None` for a zone that nothing else is named after.
    zones: Vec<Option<Symbol>>,
}

#[derive(Debug)]
struct Zoned {
    places: Vec<Place>,
    labels: Vec<Symbol>,
}

impl Work for Zoned {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        let Some(node) = snapshot.node(node) else { return Verdict::OK };
        if self.labels.iter().all(|label| node.labels.get(*label).is_none()) {
            return Verdict::OK;
        }
        let is_reachable = self.places.iter().all(|place| {
            let value = node.labels.get(place.label).or_else(|| node.labels.get(place.successor));
            value.is_some_and(|value| place.zones.contains(&Some(value)))
        });
        if is_reachable { Verdict::OK } else { Verdict::unresolvable(0) }
    }

    fn reason(&self, _bit: u32) -> Cow<'_, str> {
        "node(s) had no available volume zone".into()
    }
}
