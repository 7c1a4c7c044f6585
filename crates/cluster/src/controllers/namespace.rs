//! What is left in a namespace that is on its way out?
//!
//! The server marks the namespace and lets nothing new in. We delete its content: pods first,
//! because they may need what is beside them to end well, then everything else. When nothing is
//! left, the `kubernetes` finalizer in the spec goes, and the namespace with it. Until then its
//! conditions say what is in the way, so that nobody has to guess why a namespace hangs.

mod reconcile;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};

pub(crate) use self::reconcile::Namespaces;
use super::clock::{plus_seconds, stamp};
use crate::well_known::NAMESPACE_FINALIZER;

/// What a look at the content has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) remaining: Vec<Remaining>,
    /// Kinds whose content could not be listed or deleted, and what the server said.
    pub(crate) failures: Vec<String>,
    /// Why kinds could not be found out.
    pub(crate) discovery: Option<String>,
}

/// Objects of one kind that are still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remaining {
    /// `pods.` or `deployments.apps`.
    pub(crate) kind: String,
    pub(crate) count: usize,
    /// Finalizers on them, and how often.
    pub(crate) finalizers: BTreeMap<String, usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) conditions: Vec<NamespaceCondition>,
    /// Nothing is left: take our finalizer away.
    pub(crate) is_done: bool,
    pub(crate) recheck: Option<Timestamp>,
}

/// Does the namespace wait for us?
pub(crate) fn is_ours(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    namespace.metadata.deletion_timestamp.is_some()
        && finalizers.is_some_and(|all| all.iter().any(|one| one == NAMESPACE_FINALIZER))
}

pub(crate) fn plan(namespace: &Namespace, survey: &Survey, now: Timestamp) -> Plan {
    let is_done =
        survey.remaining.is_empty() && survey.failures.is_empty() && survey.discovery.is_none();
    let before = namespace.status.as_ref().and_then(|status| status.conditions.clone());
    let mut conditions = before.unwrap_or_default();
    for (kind, problem, (reason, fine)) in findings(survey) {
        set(&mut conditions, kind, problem, reason, fine, now);
    }
    let recheck = (!is_done).then(|| next_look(namespace, now));
    Plan { conditions, is_done, recheck }
}

/// Soon at first, later for a namespace that has been hanging for long.
fn next_look(namespace: &Namespace, now: Timestamp) -> Timestamp {
    let since = namespace.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    let waited = now.duration_since(since).as_secs();
    plus_seconds(now, (waited / 10).clamp(0, 30))
}

type Finding = (&'static str, Option<(&'static str, String)>, (&'static str, &'static str));

/// Each condition, its problem if there is one, and what it says otherwise.
fn findings(survey: &Survey) -> [Finding; 5] {
    let list = |texts: Vec<String>| Some(texts.join(", ")).filter(|text| !text.is_empty());
    let content = survey.remaining.iter();
    let content = list(
        content.map(|one| format!("{} has {} resource instances", one.kind, one.count)).collect(),
    );
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, count) in survey.remaining.iter().flat_map(|one| &one.finalizers) {
        *finalizers.entry(name).or_default() += count;
    }
    let finalizers = finalizers.iter();
    let finalizers = list(
        finalizers.map(|(name, count)| format!("{name} in {count} resource instances")).collect(),
    );
    let failures = list(survey.failures.clone());
    [
        (
            "NamespaceDeletionDiscoveryFailure",
            survey.discovery.as_ref().map(|text| ("DiscoveryFailed", text.clone())),
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            failures.map(|text| {
                ("ContentDeletionFailed", format!("Failed to delete all resource types: {text}"))
            }),
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        (
            "NamespaceContentRemaining",
            content.map(|text| {
                ("SomeResourcesRemain", format!("Some resources are remaining: {text}"))
            }),
            ("ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            finalizers.map(|text| {
                let message =
                    format!("Some content in the namespace has finalizers remaining: {text}");
                ("SomeFinalizersRemain", message)
            }),
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ]
}

fn set(
    conditions: &mut Vec<NamespaceCondition>,
    kind: &str,
    problem: Option<(&str, String)>,
    reason: &str,
    fine: &str,
    now: Timestamp,
) {
    let status = if problem.is_some() { "True" } else { "False" };
    let (reason, message) = problem.unwrap_or_else(|| (reason, fine.to_owned()));
    let old = conditions.iter_mut().find(|condition| condition.type_ == kind);
    let since = match &old {
        Some(old) if old.status == status => old.last_transition_time.clone(),
        _ => Some(stamp(now)),
    };
    let next = NamespaceCondition {
        type_: kind.into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message),
        last_transition_time: since,
    };
    match old {
        Some(old) => *old = next,
        None => conditions.push(next),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NamespaceSpec, NamespaceStatus};

    use super::*;
    use crate::controllers::fixture::{NOW, ago, ahead, meta};

    fn leaving(seconds: i64) -> Namespace {
        let mut namespace = Namespace { metadata: meta("shop"), ..Namespace::default() };
        namespace.metadata.deletion_timestamp = Some(stamp(ago(seconds)));
        namespace.spec = Some(NamespaceSpec { finalizers: Some(vec!["kubernetes".into()]) });
        namespace
    }

    fn pods(count: usize, finalizers: &[(&str, usize)]) -> Remaining {
        let finalizers = finalizers.iter().map(|(name, count)| ((*name).to_owned(), *count));
        Remaining { kind: "pods.".into(), count, finalizers: finalizers.collect() }
    }

    fn texts(plan: &Plan) -> Vec<(String, String)> {
        let conditions = plan.conditions.iter().filter(|condition| condition.status == "True");
        conditions.map(|one| (one.reason.clone().unwrap(), one.message.clone().unwrap())).collect()
    }

    #[test]
    fn an_empty_namespace_is_done() {
        let plan = plan(&leaving(1), &Survey::default(), NOW);
        assert!(plan.is_done && plan.recheck.is_none());
        assert_eq!((plan.conditions.len(), texts(&plan).len()), (5, 0));
    }

    #[test]
    fn what_is_in_the_way_is_said() {
        let volumes = Remaining { kind: "widgets.example.com".into(), ..pods(1, &[("a/hold", 1)]) };
        let survey = Survey {
            remaining: vec![pods(2, &[("a/hold", 2), ("b/hold", 1)]), volumes],
            failures: vec!["secrets. (forbidden)".into()],
            discovery: Some("metrics.k8s.io is away".into()),
        };
        let plan = plan(&leaving(1), &survey, NOW);
        assert!(!plan.is_done);
        let want = [
            ("DiscoveryFailed", "metrics.k8s.io is away"),
            ("ContentDeletionFailed", "Failed to delete all resource types: secrets. (forbidden)"),
            (
                "SomeResourcesRemain",
                "Some resources are remaining: pods. has 2 resource instances, \
                 widgets.example.com has 1 resource instances",
            ),
            (
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: \
                 a/hold in 3 resource instances, b/hold in 1 resource instances",
            ),
        ];
        assert_eq!(texts(&plan), want.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    #[test]
    fn any_problem_keeps_the_namespace() {
        let some = |text: &str| vec![text.to_owned()];
        let cases = [
            ("content", Survey { remaining: vec![pods(1, &[])], ..Survey::default() }),
            ("failure", Survey { failures: some("x"), ..Survey::default() }),
            ("discovery", Survey { discovery: Some("x".into()), ..Survey::default() }),
        ];
        for (name, survey) in cases {
            assert!(!plan(&leaving(1), &survey, NOW).is_done, "{name}");
        }
    }

    #[test]
    fn conditions_keep_their_time_and_looks_become_rare() {
        let survey = Survey { remaining: vec![pods(1, &[])], ..Survey::default() };
        let mut namespace = leaving(100);
        let first = plan(&namespace, &survey, ago(60));
        namespace.status =
            Some(NamespaceStatus { conditions: Some(first.conditions.clone()), phase: None });
        let second = plan(&namespace, &survey, NOW);
        assert_eq!(second.conditions, first.conditions);
        assert_eq!(second.recheck, Some(ahead(10)));
        assert_eq!(plan(&leaving(0), &survey, NOW).recheck, Some(NOW));
        assert_eq!(plan(&leaving(100_000), &survey, NOW).recheck, Some(ahead(30)));
    }

    #[test]
    fn only_a_marked_namespace_with_our_finalizer_is_ours() {
        assert!(is_ours(&leaving(1)));
        let mut alive = leaving(1);
        alive.metadata.deletion_timestamp = None;
        assert!(!is_ours(&alive));
        let mut other = leaving(1);
        other.spec = Some(NamespaceSpec { finalizers: Some(vec!["mine".into()]) });
        assert!(!is_ours(&other));
    }
}
