//! Selectors and terms.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    self as wire, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm,
    TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::Reader;
use crate::model::{
    FieldTerm, NodeAffinity, NodeSelector, NodeTerm, Operator, PodAffinity, PodTerm,
    PreferredNodeTerm, PreferredPodTerm, Requirement, Selector, SpreadConstraint, Symbol,
    Unsatisfiable,
};

/// Whose term it is: its labels and namespace fill in what the term leaves open.
#[derive(Debug, Clone, Copy)]
pub struct PodTermOwner<'a> {
    pub namespace: Symbol,
    pub labels: Option<&'a BTreeMap<String, String>>,
}

impl PodTermOwner<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.labels?.get(key).map(String::as_str)
    }
}

impl Reader<'_> {
    pub fn selector(&mut self, selector: Option<&LabelSelector>) -> Selector {
        let Some(selector) = selector else { return Selector::nothing() };
        let mut requirements: Vec<Requirement> = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(self.equals(key, value));
        }
        for expression in selector.match_expressions.iter().flatten() {
            requirements.push(Requirement {
                key: self.names.intern(&expression.key),
                operator: operator(&expression.operator, false),
                values: self.symbols(expression.values.as_deref().unwrap_or_default()),
            });
        }
        Selector { requirements: requirements.into(), is_absent: false }
    }

    pub(super) fn equals(&mut self, key: &str, value: &str) -> Requirement {
        let (key, value) = self.pair(key, value);
        Requirement { key, operator: Operator::In, values: [value].into() }
    }

    /// A selector with some of the pod's own labels added to it.
    fn selector_with(
        &mut self,
        selector: Option<&LabelSelector>,
        owner: PodTermOwner<'_>,
        keys: Option<&Vec<String>>,
        operator: Operator,
    ) -> Selector {
        let mut read = self.selector(selector);
        if read.is_absent {
            return read;
        }
        let mut requirements = read.requirements.into_vec();
        for key in keys.into_iter().flatten() {
            if let Some(value) = owner.label(key) {
                let own = Requirement { operator, ..self.equals(key, value) };
                if !requirements.contains(&own) {
                    requirements.push(own);
                }
            }
        }
        read.requirements = requirements.into();
        read
    }

    pub fn node_affinity(
        &mut self,
        selector: Option<&BTreeMap<String, String>>,
        affinity: Option<&wire::NodeAffinity>,
    ) -> NodeAffinity {
        let required = affinity
            .and_then(|one| one.required_during_scheduling_ignored_during_execution.as_ref());
        let preferred = affinity
            .and_then(|one| one.preferred_during_scheduling_ignored_during_execution.as_ref());
        NodeAffinity {
            selector: self.labels(selector),
            required: required.map(|required| self.node_selector(required)),
            preferred: preferred
                .into_iter()
                .flatten()
                .map(|one| PreferredNodeTerm {
                    weight: i64::from(one.weight),
                    term: self.node_term(&one.preference),
                })
                .collect(),
        }
    }

    pub fn node_selector(&mut self, selector: &wire::NodeSelector) -> NodeSelector {
        let terms = selector.node_selector_terms.iter().map(|term| self.node_term(term));
        NodeSelector { terms: terms.collect() }
    }

    fn node_term(&mut self, term: &NodeSelectorTerm) -> NodeTerm {
        let expressions = term.match_expressions.iter().flatten();
        let expressions = expressions.map(|one| self.node_requirement(one)).collect();
        let fields = term.match_fields.iter().flatten();
        let fields = fields.map(|one| FieldTerm {
            operator: operator(&one.operator, true),
            names: self.symbols(one.values.as_deref().unwrap_or_default()),
            is_name: one.key == "metadata.name",
        });
        NodeTerm { expressions, fields: fields.collect() }
    }

    fn node_requirement(&mut self, one: &NodeSelectorRequirement) -> Requirement {
        Requirement {
            key: self.names.intern(&one.key),
            operator: operator(&one.operator, true),
            values: self.symbols(one.values.as_deref().unwrap_or_default()),
        }
    }

    pub fn pod_affinity(
        &mut self,
        affinity: Option<&wire::Affinity>,
        owner: PodTermOwner<'_>,
    ) -> PodAffinity {
        let near = affinity.and_then(|one| one.pod_affinity.as_ref());
        let far = affinity.and_then(|one| one.pod_anti_affinity.as_ref());
        let required =
            near.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_ref());
        let preferred =
            near.and_then(|one| one.preferred_during_scheduling_ignored_during_execution.as_ref());
        let anti_required =
            far.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_ref());
        let anti_preferred =
            far.and_then(|one| one.preferred_during_scheduling_ignored_during_execution.as_ref());
        PodAffinity {
            required: self.pod_terms(required, owner),
            preferred: self.preferred_pod_terms(preferred, owner),
            anti_required: self.pod_terms(anti_required, owner),
            anti_preferred: self.preferred_pod_terms(anti_preferred, owner),
        }
    }

    fn pod_terms(
        &mut self,
        terms: Option<&Vec<PodAffinityTerm>>,
        owner: PodTermOwner<'_>,
    ) -> Box<[PodTerm]> {
        terms.into_iter().flatten().map(|term| self.pod_term(term, owner)).collect()
    }

    fn preferred_pod_terms(
        &mut self,
        terms: Option<&Vec<wire::WeightedPodAffinityTerm>>,
        owner: PodTermOwner<'_>,
    ) -> Box<[PreferredPodTerm]> {
        let read = terms.into_iter().flatten().map(|one| PreferredPodTerm {
            weight: i64::from(one.weight),
            term: self.pod_term(&one.pod_affinity_term, owner),
        });
        read.collect()
    }

    fn pod_term(&mut self, term: &PodAffinityTerm, owner: PodTermOwner<'_>) -> PodTerm {
        let mut selector = self.selector_with(
            term.label_selector.as_ref(),
            owner,
            term.match_label_keys.as_ref(),
            Operator::In,
        );
        let unlike = self.selector_with(
            Some(&LabelSelector::default()),
            owner,
            term.mismatch_label_keys.as_ref(),
            Operator::NotIn,
        );
        if !selector.is_absent {
            let all = selector.requirements.into_vec().into_iter().chain(unlike.requirements);
            selector.requirements = all.collect();
        }
        let namespace_selector =
            term.namespace_selector.as_ref().map(|selector| self.selector(Some(selector)));
        let mut namespaces = self.symbols(term.namespaces.as_deref().unwrap_or_default());
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces = [owner.namespace].into();
        }
        PodTerm {
            selector,
            namespaces,
            namespace_selector,
            topology_key: self.names.intern(&term.topology_key),
        }
    }

    pub fn spread_constraint(
        &mut self,
        one: &TopologySpreadConstraint,
        owner: PodTermOwner<'_>,
    ) -> SpreadConstraint {
        let when = match one.when_unsatisfiable.as_str() {
            "ScheduleAnyway" => Unsatisfiable::ScheduleAnyway,
            _ => Unsatisfiable::DoNotSchedule,
        };
        SpreadConstraint {
            max_skew: i64::from(one.max_skew),
            topology_key: self.names.intern(&one.topology_key),
            when,
            selector: self.selector_with(
                one.label_selector.as_ref(),
                owner,
                one.match_label_keys.as_ref(),
                Operator::In,
            ),
            min_domains: i64::from(one.min_domains.unwrap_or(1)),
            honours_affinity: one.node_affinity_policy.as_deref() != Some("Ignore"),
            honours_taints: one.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}

fn operator(text: &str, is_node: bool) -> Operator {
    match text {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" if is_node => Operator::Gt,
        "Lt" if is_node => Operator::Lt,
        _ => Operator::Unknown,
    }
}
