//! How can we change an object without losing the fields we do not know?
//!
//! An object may come from a newer version of the reference or carry a third party's fields. The
//! typed value only holds what we know, so writing it back would erase the rest. [`Kept`]
//! remembers the document a value was read from and, when asked for the result, applies to it only
//! what changed between the value as it was read and the value as it is now:
//!
//! ```text
//! document ──read──> value as read ──your changes──> value now
//!    │                     └───────── difference ────────┘
//!    └──────────────────────────> document + difference
//! ```
//!
//! What was not touched keeps even its spelling: `5m` stays `5m`. Elements of an array are paired
//! before they are compared, so that the unknown fields of an element follow it when the array is
//! reordered: first equal elements, then elements with the same identity (uid, id, namespace and
//! name, …), then elements without any identity by position. An element whose identity changed is a
//! new element.

use std::ops::{Deref, DerefMut};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A typed value that remembers the document it was read from.
#[derive(Debug, Clone)]
pub struct Kept<T> {
    document: Value,
    as_read: Value,
    value: T,
}

#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    #[error("field {path} does not hold what it should")]
    Read { path: String, source: serde_json::Error },
    #[error("the value has no JSON form")]
    Write { source: serde_json::Error },
}

impl<T: Serialize + DeserializeOwned> Kept<T> {
    /// Reads a document; an error names the field that does not fit.
    pub fn read(document: Value) -> Result<Self, KeptError> {
        let value: T = serde_path_to_error::deserialize(&document).map_err(|error| {
            let path = error.path().to_string();
            KeptError::Read { path, source: error.into_inner() }
        })?;
        let as_read = to_json(&value)?;
        Ok(Self { document, as_read, value })
    }

    /// Says whether the value differs from what was read.
    pub fn is_changed(&self) -> Result<bool, KeptError> {
        Ok(to_json(&self.value)? != self.as_read)
    }

    /// The document with the changes applied.
    pub fn to_value(&self) -> Result<Value, KeptError> {
        Ok(merged(&self.document, &self.as_read, to_json(&self.value)?))
    }

    /// The changes as an RFC 7396 patch of the document; `{}` when there are none.
    ///
    /// Such a patch cannot set a field to `null`, it removes the field instead.
    pub fn merge_patch(&self) -> Result<Value, KeptError> {
        Ok(patch(&self.document, &self.to_value()?))
    }

    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

fn to_json<T: Serialize>(value: &T) -> Result<Value, KeptError> {
    serde_json::to_value(value).map_err(|source| KeptError::Write { source })
}

/// `document` with the difference between `before` and `now` applied.
fn merged(document: &Value, before: &Value, now: Value) -> Value {
    if *before == now {
        return document.clone();
    }
    match (document, before, now) {
        (Value::Object(document), Value::Object(before), Value::Object(now)) => {
            Value::Object(merged_fields(document, before, now))
        }
        (Value::Array(document), Value::Array(before), Value::Array(now))
            if document.len() == before.len() =>
        {
            Value::Array(merged_elements(document, before, now))
        }
        (_, _, now) => now,
    }
}

fn merged_fields(
    document: &Map<String, Value>,
    before: &Map<String, Value>,
    now: Map<String, Value>,
) -> Map<String, Value> {
    let mut result = document.clone();
    for name in before.keys().filter(|name| !now.contains_key(*name)) {
        result.remove(name);
    }
    for (name, now) in now {
        let merged = match (document.get(&name), before.get(&name)) {
            (Some(document), Some(before)) => merged(document, before, now),
            // The document leaves out a field that we always write, and it still has that value.
            (None, Some(before)) if *before == now => continue,
            // The document has fields where we saw nothing worth writing.
            (Some(document @ Value::Object(_)), None) => {
                merged(document, &Value::Object(Map::new()), now)
            }
            (_, None) | (None, _) => now,
        };
        result.insert(name, merged);
    }
    result
}

fn merged_elements(document: &[Value], before: &[Value], now: Vec<Value>) -> Vec<Value> {
    let partners = pair(before, &now);
    now.into_iter()
        .zip(partners)
        .map(|(now, partner)| {
            match partner.and_then(|at| Some((document.get(at)?, before.get(at)?))) {
                Some((document, before)) => merged(document, before, now),
                None => now,
            }
        })
        .collect()
}

/// For each element of `now`, the position of the element of `before` it came from.
fn pair(before: &[Value], now: &[Value]) -> Vec<Option<usize>> {
    let mut pairing =
        Pairing { before, taken: vec![false; before.len()], of: vec![None; now.len()] };
    // An equal element at the same place comes first: of several equal ones it is the likeliest.
    pairing.add(now, |at, then, here, element| at == then && here == element);
    pairing.add(now, |_, _, here, element| here == element);
    pairing.add(now, |_, _, here, element| compare(here, element) == Identity::Same);
    pairing.add(now, |at, then, here, element| {
        at == then && compare(here, element) == Identity::Unknown
    });
    pairing.of
}

struct Pairing<'a> {
    before: &'a [Value],
    taken: Vec<bool>,
    of: Vec<Option<usize>>,
}

impl Pairing<'_> {
    /// Pairs each element that is still alone with the first free one that `belongs` to it.
    fn add(&mut self, now: &[Value], belongs: impl Fn(usize, usize, &Value, &Value) -> bool) {
        for (at, (element, partner)) in now.iter().zip(&mut self.of).enumerate() {
            if partner.is_some() {
                continue;
            }
            let free = self
                .before
                .iter()
                .zip(&mut self.taken)
                .enumerate()
                .find(|(then, (here, taken))| !**taken && belongs(at, *then, here, element));
            if let Some((then, (_, taken))) = free {
                *taken = true;
                *partner = Some(then);
            }
        }
    }
}

/// Fields that tell one element of an array from another, strongest first. Fields of one row
/// belong together.
const IDENTITIES: &[&[&str]] = &[
    &["uid"],
    &["uuid"],
    &["id"],
    &["namespace", "name"],
    &["key"],
    &["type", "minor"],
    &["containerName"],
    &["containerPort", "protocol"],
    &["nodeName"],
    &["numaNodeID"],
    &["duration"],
    &["topologyDomain"],
    &["topologyLayer"],
    &["topologyInfo"],
    &["failedPlugin", "reason"],
];

#[derive(Debug, PartialEq, Eq)]
enum Identity {
    Same,
    Different,
    /// There is nothing to tell the elements apart by.
    Unknown,
}

/// The first row that both elements have decides.
fn compare(a: &Value, b: &Value) -> Identity {
    for row in IDENTITIES {
        let has = |element: &Value| row.iter().any(|field| element.get(field).is_some());
        if has(a) && has(b) {
            let same = row.iter().all(|field| a.get(field) == b.get(field));
            return if same { Identity::Same } else { Identity::Different };
        }
    }
    Identity::Unknown
}

/// The RFC 7396 patch that turns `from` into `to`.
fn patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let removed = from.keys().filter(|name| !to.contains_key(*name));
    let removed = removed.map(|name| (name.clone(), Value::Null));
    let changed = to.iter().filter(|(name, to)| from.get(*name) != Some(to));
    let changed = changed.map(|(name, to)| {
        let change = from.get(name).map_or_else(|| to.clone(), |from| patch(from, to));
        (name.clone(), change)
    });
    Value::Object(removed.chain(changed).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::node_metric::PodUsage;
    use crate::kind::{NodeMetric, Reservation};

    #[test]
    fn untouched_text_keeps_its_spelling() {
        let document = json!({
            "metadata": { "name": "r", "annotations": null },
            "spec": {
                "ttl": "30m",
                "owners": [{ "labelSelector": {}, "newer": 1 }],
                "template": { "spec": { "containers": [], "newer": true } },
                "taints": [],
            },
            "extra": "kept",
        });
        let mut reservation = Kept::<Reservation>::read(document.clone()).unwrap();
        assert!(!reservation.is_changed().unwrap());
        assert_eq!(reservation.to_value().unwrap(), document);

        reservation.spec.allocate_once = Some(false);
        let mut wanted = document;
        wanted["spec"]["allocateOnce"] = json!(false);
        assert!(reservation.is_changed().unwrap());
        assert_eq!(reservation.to_value().unwrap(), wanted);
        assert_eq!(
            reservation.merge_patch().unwrap(),
            json!({ "spec": { "allocateOnce": false } })
        );
    }

    #[test]
    fn fields_of_a_removed_object_go_with_it() {
        let document = json!({
            "metadata": {},
            "spec": { "metricCollectPolicy": { "reportIntervalSeconds": 60, "newer": 1 } },
        });
        let mut metric = Kept::<NodeMetric>::read(document).unwrap();
        metric.spec.metric_collect_policy = None;
        assert_eq!(metric.to_value().unwrap(), json!({ "metadata": {}, "spec": {} }));
        assert_eq!(
            metric.merge_patch().unwrap(),
            json!({ "spec": { "metricCollectPolicy": null } })
        );
    }

    fn pods(pods: Value) -> Kept<NodeMetric> {
        Kept::read(json!({ "metadata": {}, "status": { "podsMetric": pods } })).unwrap()
    }

    fn written(metric: &Kept<NodeMetric>) -> Value {
        metric.to_value().unwrap()["status"]["podsMetric"].take()
    }

    fn list(metric: &mut Kept<NodeMetric>) -> &mut Vec<PodUsage> {
        &mut metric.status.as_mut().unwrap().pods_metric
    }

    #[test]
    fn an_element_takes_its_unknown_fields_along() {
        let mut metric = pods(json!([
            { "namespace": "a", "name": "x", "newer": 1 },
            { "namespace": "b", "name": "x", "newer": 2 },
            { "namespace": "b", "name": "y", "newer": 3 },
        ]));
        let pods = list(&mut metric);
        pods.remove(0);
        pods.reverse();
        pods[1].qos = Some("BE".to_owned());
        assert_eq!(
            written(&metric),
            json!([
                { "namespace": "b", "name": "y", "newer": 3 },
                { "namespace": "b", "name": "x", "qos": "BE", "newer": 2 },
            ])
        );
    }

    #[test]
    fn another_identity_is_another_element() {
        let mut metric = pods(json!([{ "namespace": "a", "name": "x", "newer": 1 }]));
        list(&mut metric)[0].namespace = Some("b".to_owned());
        assert_eq!(written(&metric), json!([{ "namespace": "b", "name": "x" }]));
    }

    #[test]
    fn elements_without_identity_stay_in_place() {
        let mut metric = pods(json!([{ "qos": "LS", "newer": 1 }, { "qos": "BE", "newer": 2 }]));
        list(&mut metric)[1].qos = Some("LSR".to_owned());
        assert_eq!(
            written(&metric),
            json!([{ "qos": "LS", "newer": 1 }, { "qos": "LSR", "newer": 2 }])
        );
    }

    #[test]
    fn equal_elements_keep_their_own_unknown_fields() {
        let mut metric = pods(json!([{ "qos": "LS", "newer": 1 }, { "qos": "LS", "newer": 2 }]));
        list(&mut metric).push(PodUsage::default());
        assert_eq!(
            written(&metric),
            json!([{ "qos": "LS", "newer": 1 }, { "qos": "LS", "newer": 2 }, {}])
        );
    }

    #[test]
    fn a_field_of_the_wrong_type_is_named() {
        let document = json!({ "metadata": {}, "status": { "podsMetric": [{ "qos": 1 }] } });
        let error = Kept::<NodeMetric>::read(document).unwrap_err();
        assert_eq!(
            error.to_string(),
            "field status.podsMetric[0].qos does not hold what it should"
        );
    }
}
