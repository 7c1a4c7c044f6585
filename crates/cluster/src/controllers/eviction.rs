//! How long may a pod stay on a node with a NoExecute taint?
//!
//! A pod that does not tolerate every such taint leaves at once. Otherwise each taint gives it the
//! `tolerationSeconds` of the toleration that matches it, counted from when the taint was added;
//! the earliest end counts. A toleration without seconds tolerates forever.

mod reconcile;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};

pub(crate) use self::reconcile::Evictions;
use super::{clock::plus_seconds, placement::tolerates, pod::PodFacts};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Stay,
    /// Leave at this time, which may have passed.
    Leave(Timestamp),
}

/// `noticed` is when the pod was first seen with these taints; it stands in for the time that a
/// taint does not carry.
pub(crate) fn verdict(pod: &Pod, node: &Node, noticed: Timestamp) -> Verdict {
    if pod.is_terminating() || pod.is_finished() {
        return Verdict::Stay;
    }
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref());
    let tolerations = tolerations.unwrap_or_default();
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let mut end = None::<Timestamp>;
    for taint in taints.filter(|taint| taint.effect == "NoExecute") {
        let Some(toleration) = tolerations.iter().find(|one| tolerates(one, taint)) else {
            return Verdict::Leave(Timestamp::MIN);
        };
        let Some(seconds) = toleration.toleration_seconds else { continue };
        let added = taint.time_added.as_ref().map_or(noticed, |time| time.0);
        let leave = plus_seconds(added, seconds.max(0));
        end = Some(end.map_or(leave, |earlier| earlier.min(leave)));
    }
    end.map_or(Verdict::Stay, Verdict::Leave)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Taint, Toleration};

    use super::*;
    use crate::controllers::{
        clock::stamp,
        fixture::{NOW, PodBuilder, ago, ahead, node, pod},
    };

    fn tolerating(list: &[(&str, Option<i64>)]) -> PodBuilder {
        let tolerations = list.iter().map(|(key, seconds)| Toleration {
            key: Some((*key).into()),
            operator: Some("Exists".into()),
            effect: Some("NoExecute".into()),
            toleration_seconds: *seconds,
            ..Toleration::default()
        });
        pod("a").on("n1").spec(|spec| spec.tolerations = Some(tolerations.collect()))
    }

    fn node_with(taints: &[(&str, &str, Option<Timestamp>)]) -> Node {
        let mut node = node("n1");
        let taints = taints.iter().map(|(key, effect, added)| Taint {
            key: (*key).into(),
            effect: (*effect).into(),
            time_added: added.map(stamp),
            value: None,
        });
        node.spec.get_or_insert_default().taints = Some(taints.collect());
        node
    }

    #[test]
    fn the_earliest_end_counts() {
        let added = Some(ago(20));
        let gone = node_with(&[("gone", "NoExecute", added)]);
        let both = node_with(&[("gone", "NoExecute", added), ("bad", "NoExecute", Some(NOW))]);
        let cases = [
            ("no taint", tolerating(&[]), node("n1"), Verdict::Stay),
            (
                "a taint that only repels",
                tolerating(&[]),
                node_with(&[("x", "NoSchedule", added)]),
                Verdict::Stay,
            ),
            ("not tolerated", tolerating(&[]), gone.clone(), Verdict::Leave(Timestamp::MIN)),
            ("tolerated forever", tolerating(&[("gone", None)]), gone.clone(), Verdict::Stay),
            (
                "tolerated for a while",
                tolerating(&[("gone", Some(300))]),
                gone.clone(),
                Verdict::Leave(ahead(280)),
            ),
            (
                "no time at all",
                tolerating(&[("gone", Some(-5))]),
                gone.clone(),
                Verdict::Leave(ago(20)),
            ),
            (
                "one of two not tolerated",
                tolerating(&[("gone", Some(300))]),
                both.clone(),
                Verdict::Leave(Timestamp::MIN),
            ),
            (
                "the shorter of two",
                tolerating(&[("gone", Some(300)), ("bad", Some(60))]),
                both.clone(),
                Verdict::Leave(ahead(60)),
            ),
            (
                "one of two forever",
                tolerating(&[("gone", None), ("bad", Some(60))]),
                both,
                Verdict::Leave(ahead(60)),
            ),
            (
                "a taint without time",
                tolerating(&[("gone", Some(30))]),
                node_with(&[("gone", "NoExecute", None)]),
                Verdict::Leave(ahead(25)),
            ),
            ("leaving already", tolerating(&[]).terminating(), gone.clone(), Verdict::Stay),
            ("finished already", tolerating(&[]).phase("Succeeded"), gone, Verdict::Stay),
        ];
        for (name, pod, node, want) in cases {
            assert_eq!(verdict(&pod.build(), &node, ago(5)), want, "{name}");
        }
    }
}
