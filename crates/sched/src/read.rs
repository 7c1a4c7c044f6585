//! Kubernetes objects become values of the model here, and nowhere else.
//!
//! Reading never fails: what cannot be read counts as absent and is reported as a finding with
//! the object. Deprecated resource names are replaced, node reservations are taken off.

mod node;
mod pod;
mod requests;
mod selectors;
mod storage;

pub use pod::PodFacts;
pub use selectors::PodTermOwner;

use std::collections::BTreeMap;

use api::protocol::pod::{OLD_SCHEDULING_HINT, RESOURCE_STATUS, SCHEDULING_HINT};

use crate::model::{Labels, Names, Resources, Selector, Symbol};

/// Reads objects, interning names as it goes.
#[derive(Debug)]
pub struct Reader<'a> {
    pub names: &'a mut Names,
    pub resources: &'a mut Resources,
}

impl Reader<'_> {
    pub fn labels(&mut self, map: Option<&BTreeMap<String, String>>) -> Labels {
        map.into_iter().flatten().map(|(key, value)| self.pair(key, value)).collect()
    }

    /// A selector as services and replication controllers have it: labels, nothing else.
    pub fn label_map(&mut self, map: Option<&BTreeMap<String, String>>) -> Selector {
        let Some(map) = map else { return Selector::nothing() };
        let requirements = map.iter().map(|(key, value)| self.equals(key, value)).collect();
        Selector { requirements, is_absent: false }
    }

    fn pair(&mut self, key: &str, value: &str) -> (Symbol, Symbol) {
        (self.names.intern(key), self.names.intern(value))
    }

    fn symbols(&mut self, texts: &[String]) -> Box<[Symbol]> {
        texts.iter().map(|text| self.names.intern(text)).collect()
    }

    /// Annotations of Koordinator; all others are nobody's business here. A planner's hint may
    /// come with the CPUs it chose.
    fn annotations(&mut self, map: Option<&BTreeMap<String, String>>) -> Labels {
        let is_hint = |key: &str| HINTS.contains(&key);
        let has_hint = map.is_some_and(|map| map.keys().any(|key| is_hint(key)));
        let ours = map.into_iter().flatten().filter(|(key, _)| {
            is_hint(key) || is_read(key) || (has_hint && *key == RESOURCE_STATUS.name)
        });
        ours.map(|(key, value)| self.pair(key, value)).collect()
    }
}

const HINTS: [&str; 2] = [SCHEDULING_HINT.name, OLD_SCHEDULING_HINT.name];

/// Results of scheduling are left out: with them, no two replicas would be alike.
fn is_read(annotation: &str) -> bool {
    const RESULTS: [&str; 3] = ["resource-status", "device-allocated", "reservation-allocated"];
    let Some((domain, name)) = annotation.split_once('/') else { return false };
    domain.ends_with("koordinator.sh")
        && !domain.starts_with("internal.")
        && !RESULTS.contains(&name)
}

/// `nginx` is `nginx:latest`.
fn tagged(image: &str) -> String {
    let after_slash = image.rfind('/').map_or(0, |at| at + 1);
    let has_tag = image.get(after_slash..).is_some_and(|name| name.contains(':'));
    if has_tag { image.to_owned() } else { format!("{image}:latest") }
}
