//! May this pod be on that node?
//!
//! Only what DaemonSets need: node selectors, required node affinity, taints. No resources, no spreading; that is the scheduler's part.

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

/// Do the pod's node selector and required node affinity accept the node?
pub(crate) fn accepts(spec: &PodSpec, node: &Node) -> bool {
    let has = |key: &String, value: &String| {
        node.metadata.labels.as_ref().is_some_and(|labels| labels.get(key) == Some(value))
    };
    spec.node_selector.iter().flatten().all(|(key, value)| has(key, value))
        && required_affinity(spec).is_none_or(|required| {
            required.node_selector_terms.iter().any(|term| term_matches(term, node))
        })
}

fn required_affinity(spec: &PodSpec) -> Option<&NodeSelector> {
    let node_affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    node_affinity.required_during_scheduling_ignored_during_execution.as_ref()
}

/// The one node that required node affinity allows by name, as DaemonSets write it.
pub(crate) fn pinned_node(spec: &PodSpec) -> Option<&str> {
    let terms = required_affinity(spec)?.node_selector_terms.iter();
    let mut fields = terms.flat_map(|term| term.match_fields.iter().flatten());
    let field = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
    match field.values.as_deref() {
        Some([name]) => Some(name),
        _ => None,
    }
}

/// A term without requirements matches nothing.
fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = || term.match_expressions.iter().flatten();
    let fields = || term.match_fields.iter().flatten();
    if expressions().next().is_none() && fields().next().is_none() {
        return false;
    }
    let labels = node.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let name = |key: &str| match key {
        "metadata.name" => node.metadata.name.as_deref(),
        _ => None,
    };
    expressions().all(|requirement| requirement_holds(requirement, label(&requirement.key)))
        && fields().all(|requirement| requirement_holds(requirement, name(&requirement.key)))
}

fn requirement_holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = value.is_some_and(|value| values.iter().any(|one| one == value));
    let compared = || {
        let has: i64 = value?.parse().ok()?;
        let bound: i64 = values.first()?.parse().ok()?;
        Some(has.cmp(&bound))
    };
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|order| order.is_gt()),
        "Lt" => compared().is_some_and(|order| order.is_lt()),
        _ => false,
    }
}

/// The first of the node's taints with one of these effects that nothing tolerates.
pub(crate) fn untolerated<'a>(
    node: &'a Node,
    tolerations: &[Toleration],
    effects: &[&str],
) -> Option<&'a Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// An empty effect stands for all effects, an empty key for all keys.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "Equal" | "" => !key.is_empty() && text(&toleration.value) == text(&taint.value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Affinity, NodeAffinity};

    use super::*;
    use crate::controllers::fixture::{labels, node, tainted};

    fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
        NodeSelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
        }
    }

    fn requiring(terms: Vec<NodeSelectorTerm>) -> PodSpec {
        let required = Some(NodeSelector { node_selector_terms: terms });
        PodSpec {
            affinity: Some(Affinity {
                node_affinity: Some(NodeAffinity {
                    required_during_scheduling_ignored_during_execution: required,
                    ..NodeAffinity::default()
                }),
                ..Affinity::default()
            }),
            ..PodSpec::default()
        }
    }

    fn label(requirement: NodeSelectorRequirement) -> NodeSelectorTerm {
        NodeSelectorTerm { match_expressions: Some(vec![requirement]), match_fields: None }
    }

    fn field(requirement: NodeSelectorRequirement) -> NodeSelectorTerm {
        NodeSelectorTerm { match_expressions: None, match_fields: Some(vec![requirement]) }
    }

    #[test]
    fn selectors_and_affinity_pick_nodes() {
        let mut n1 = node("n1");
        n1.metadata.labels = Some(labels(&[("zone", "a"), ("cpus", "8")]));
        let selecting = |value: &str| PodSpec {
            node_selector: Some(labels(&[("zone", value)])),
            ..PodSpec::default()
        };
        let one = |term| requiring(vec![term]);
        let cases = [
            ("nothing asked", PodSpec::default(), true),
            ("selector", selecting("a"), true),
            ("selector, other value", selecting("b"), false),
            ("In", one(label(requirement("zone", "In", &["a", "b"]))), true),
            ("In, not listed", one(label(requirement("zone", "In", &["b"]))), false),
            ("NotIn", one(label(requirement("zone", "NotIn", &["b"]))), true),
            ("NotIn, absent", one(label(requirement("disk", "NotIn", &["b"]))), true),
            ("NotIn, listed", one(label(requirement("zone", "NotIn", &["a"]))), false),
            ("Exists", one(label(requirement("zone", "Exists", &[]))), true),
            ("Exists, absent", one(label(requirement("disk", "Exists", &[]))), false),
            ("DoesNotExist", one(label(requirement("disk", "DoesNotExist", &[]))), true),
            ("Gt", one(label(requirement("cpus", "Gt", &["4"]))), true),
            ("Gt, equal", one(label(requirement("cpus", "Gt", &["8"]))), false),
            ("Lt", one(label(requirement("cpus", "Lt", &["9"]))), true),
            ("Lt, not a number", one(label(requirement("zone", "Lt", &["9"]))), false),
            ("name", one(field(requirement("metadata.name", "In", &["n1"]))), true),
            ("other name", one(field(requirement("metadata.name", "In", &["n2"]))), false),
            ("an empty term", one(NodeSelectorTerm::default()), false),
            ("no terms", requiring(vec![]), false),
            (
                "one of two terms",
                requiring(vec![
                    label(requirement("zone", "In", &["b"])),
                    label(requirement("cpus", "Exists", &[])),
                ]),
                true,
            ),
            ("unknown operator", one(label(requirement("zone", "Like", &["a"]))), false),
        ];
        for (name, spec, want) in cases {
            assert_eq!(accepts(&spec, &n1), want, "{name}");
        }
    }

    #[test]
    fn a_pod_is_pinned_by_exactly_one_name() {
        let named =
            |names: &[&str]| requiring(vec![field(requirement("metadata.name", "In", names))]);
        assert_eq!(pinned_node(&named(&["n1"])), Some("n1"));
        assert_eq!(pinned_node(&named(&["n1", "n2"])), None);
        assert_eq!(pinned_node(&PodSpec::default()), None);
    }

    #[test]
    fn tolerations_match_by_key_value_and_effect() {
        let taint = Taint {
            key: "gpu".into(),
            value: Some("yes".into()),
            effect: "NoSchedule".into(),
            time_added: None,
        };
        let toleration = |key: &str, operator: &str, value: &str, effect: &str| Toleration {
            key: Some(key.into()),
            operator: Some(operator.into()),
            value: Some(value.into()),
            effect: Some(effect.into()),
            toleration_seconds: None,
        };
        let cases = [
            ("equal", toleration("gpu", "Equal", "yes", "NoSchedule"), true),
            ("equal by default", toleration("gpu", "", "yes", "NoSchedule"), true),
            ("other value", toleration("gpu", "Equal", "no", "NoSchedule"), false),
            ("exists", toleration("gpu", "Exists", "", "NoSchedule"), true),
            ("any effect", toleration("gpu", "Exists", "", ""), true),
            ("other effect", toleration("gpu", "Exists", "", "NoExecute"), false),
            ("everything", toleration("", "Exists", "", ""), true),
            ("no key, equal", toleration("", "Equal", "yes", ""), false),
            ("other key", toleration("cpu", "Exists", "", ""), false),
            ("unknown operator", toleration("gpu", "Gt", "yes", ""), false),
        ];
        for (name, toleration, want) in cases {
            assert_eq!(tolerates(&toleration, &taint), want, "{name}");
        }
    }

    #[test]
    fn only_the_asked_effects_repel() {
        let n1 = tainted(node("n1"), "old", "PreferNoSchedule");
        assert_eq!(untolerated(&n1, &[], &["NoSchedule"]), None);
        let n1 = tainted(n1, "old", "NoSchedule");
        assert!(untolerated(&n1, &[], &["NoSchedule"]).is_some());
        let everything = Toleration { operator: Some("Exists".into()), ..Toleration::default() };
        assert_eq!(untolerated(&n1, &[everything], &["NoSchedule"]), None);
    }
}
