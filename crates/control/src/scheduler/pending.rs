//! Pods without a node, and what they have been told.
//!
//! A pod that does not fit is told so in its status, and not told the same thing again. What it
//! was told is read from the pod itself as the API server shows it, so that a scheduler that has
//! just started does not repeat its predecessor.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as WireTime;
use sched::Time;
use sched::scheduler::{Key, Nominate, Update};
use serde_json::{Map, Value, json};

const CONDITION: &str = "PodScheduled";

/// One pod that waits.
#[derive(Debug)]
struct Waiting {
    /// Namespace and name.
    place: (String, String),
    /// When we first saw it.
    since: Time,
    condition: Option<Told>,
    nominated: Option<String>,
    /// Who held it back last, for the metric, and in which profile.
    held: (String, BTreeSet<&'static str>),
}

/// A `PodScheduled` condition of status `False`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    reason: String,
    message: String,
}

/// All of them, by uid.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pods: HashMap<Arc<str>, Waiting>,
    uids: HashMap<(String, String), Arc<str>>,
}

/// Whom a plugin no longer holds back, for the metric.
pub(super) type Released = Option<(String, BTreeSet<&'static str>)>;

impl Pending {
    /// Takes note of a pod as the API server shows it.
    pub(super) fn see(&mut self, update: &Update<Pod>, now: Time) -> Released {
        match update {
            Update::Delete(key) => self.drop_named(key),
            Update::Upsert(pod) => self.upsert(pod, now),
        }
    }

    fn upsert(&mut self, pod: &Pod, now: Time) -> Released {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let is_assigned = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.as_deref())
            .is_some_and(|node| !node.is_empty());
        if is_assigned {
            return self.remove(uid);
        }
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let place = (text(&pod.metadata.namespace), text(&pod.metadata.name));
        let uid: Arc<str> = uid.into();
        self.uids.insert(place.clone(), uid.clone());
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let told = conditions.iter().find(|own| own.type_ == CONDITION && own.status == "False");
        let told = told.map(|own| Told { reason: text(&own.reason), message: text(&own.message) });
        let nominated = status.and_then(|status| status.nominated_node_name.clone());
        let nominated = nominated.filter(|node| !node.is_empty());
        let waiting = self.pods.entry(uid).or_insert_with(|| Waiting {
            place,
            since: now,
            condition: None,
            nominated: None,
            held: Default::default(),
        });
        (waiting.condition, waiting.nominated) = (told, nominated);
        None
    }

    fn drop_named(&mut self, key: &Key) -> Released {
        let place = (key.namespace.clone(), key.name.clone());
        let current = self.uids.get(&place)?.clone();
        if key.uid.as_deref().is_some_and(|uid| uid != &*current) {
            return key.uid.as_deref().and_then(|uid| self.remove(uid));
        }
        self.remove(&current)
    }

    fn remove(&mut self, uid: &str) -> Released {
        let waiting = self.pods.remove(uid)?;
        if self.uids.get(&waiting.place).is_some_and(|own| &**own == uid) {
            self.uids.remove(&waiting.place);
        }
        Some(waiting.held).filter(|(_, plugins)| !plugins.is_empty())
    }

    /// How long a pod has waited.
    pub(super) fn waited(&self, uid: &str, now: Time) -> Option<std::time::Duration> {
        self.pods.get(uid).map(|waiting| now.since(waiting.since))
    }

    /// Who holds the pod back from now on; returns who did before.
    pub(super) fn hold(
        &mut self,
        uid: &str,
        profile: &str,
        plugins: &BTreeSet<&'static str>,
    ) -> Released {
        let waiting = self.pods.get_mut(uid)?;
        let held = (profile.to_owned(), plugins.clone());
        Some(std::mem::replace(&mut waiting.held, held)).filter(|(_, before)| !before.is_empty())
    }

    /// What to write into the pod's status, if anything is news to it.
    pub(super) fn news(
        &mut self,
        uid: &str,
        reason: &str,
        message: &str,
        nominate: &Nominate,
        now: Timestamp,
    ) -> Option<Value> {
        let waiting = self.pods.get_mut(uid)?;
        let mut status = Map::new();
        let told = Told { reason: reason.to_owned(), message: message.to_owned() };
        if waiting.condition.as_ref() != Some(&told) {
            let mut condition = json!({"type": CONDITION, "status": "False",
                "reason": reason, "message": message, "lastProbeTime": null});
            if waiting.condition.is_none() {
                condition["lastTransitionTime"] = json!(WireTime(now));
            }
            status.insert("conditions".to_owned(), json!([condition]));
            waiting.condition = Some(told);
        }
        let nominated = match nominate {
            Nominate::Leave => waiting.nominated.clone(),
            Nominate::Clear => None,
            Nominate::Set(node) => Some(node.clone()),
        };
        if waiting.nominated != nominated {
            status.insert("nominatedNodeName".to_owned(), json!(nominated));
            waiting.nominated = nominated;
        }
        (!status.is_empty()).then(|| status.into())
    }

    /// A pod whose nomination went to somebody else.
    pub(super) fn unnominate(&mut self, uid: &str) -> Option<Value> {
        let nominated = self.pods.get_mut(uid)?.nominated.take();
        nominated.map(|_| json!({"nominatedNodeName": null}))
    }

    /// What was told did not arrive; say it again next time.
    pub(super) fn forget(&mut self, uid: &str) {
        if let Some(waiting) = self.pods.get_mut(uid) {
            waiting.condition = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: &str, node: &str, message: Option<&str>) -> Update<Pod> {
        let conditions: Vec<Value> = message
            .map(|text| json!({"type": CONDITION, "status": "False", "reason": "Unschedulable", "message": text}))
            .into_iter()
            .collect();
        let pod = json!({"metadata": {"namespace": "d", "name": name, "uid": uid},
            "spec": {"nodeName": node, "containers": []}, "status": {"conditions": conditions}});
        Update::Upsert(Arc::new(serde_json::from_value(pod).unwrap()))
    }

    fn news(pending: &mut Pending, message: &str, nominate: &Nominate) -> Option<Value> {
        pending.news("u", "Unschedulable", message, nominate, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_pod_is_told_what_it_does_not_know() {
        let mut pending = Pending::default();
        let now = Time::from_secs(1);
        assert_eq!(news(&mut pending, "full", &Nominate::Leave), None, "nobody knows that pod");
        pending.see(&pod("p", "u", "", None), now);
        let first = news(&mut pending, "full", &Nominate::Leave).unwrap();
        assert_eq!(first["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(news(&mut pending, "full", &Nominate::Leave), None, "known");
        let second = news(&mut pending, "tainted", &Nominate::Leave).unwrap();
        assert!(second["conditions"][0].get("lastTransitionTime").is_none(), "still False");
        let nominated = news(&mut pending, "tainted", &Nominate::Set("n1".into())).unwrap();
        assert_eq!(nominated, json!({"nominatedNodeName": "n1"}));
        let cleared = news(&mut pending, "tainted", &Nominate::Clear).unwrap();
        assert_eq!(cleared, json!({"nominatedNodeName": null}));
        pending.forget("u");
        assert!(news(&mut pending, "tainted", &Nominate::Leave).is_some());
    }

    #[test]
    fn what_a_predecessor_told_counts() {
        let mut pending = Pending::default();
        pending.see(&pod("p", "u", "", Some("full")), Time::ZERO);
        assert_eq!(news(&mut pending, "full", &Nominate::Leave), None);
    }

    #[test]
    fn pods_leave_with_their_node_or_their_end() {
        let mut pending = Pending::default();
        pending.see(&pod("p", "u", "", None), Time::ZERO);
        pending.hold("u", "s", &BTreeSet::from(["NodePorts"]));
        let released = pending.see(&pod("p", "u", "n1", None), Time::ZERO);
        assert_eq!(released, Some(("s".into(), BTreeSet::from(["NodePorts"]))));
        assert_eq!(pending.pods.len(), 0);
        pending.see(&pod("p", "u2", "", None), Time::ZERO);
        pending.see(&Update::Delete(Key::new("d", "p").with_uid("u")), Time::ZERO);
        assert_eq!(pending.pods.len(), 1, "another pod of that name");
        pending.see(&Update::Delete(Key::new("d", "p")), Time::ZERO);
        assert_eq!((pending.pods.len(), pending.uids.len()), (0, 0));
    }
}
