//! Namespaces, services and controllers: whose labels and selectors decide which pods belong
//! together.

use std::collections::{BTreeMap, HashMap};

use crate::model::{Labels, Names, Requirement, Selector, Symbol, Template};

/// A kind of controller whose selector says which pods are replicas of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    ReplicationController,
    ReplicaSet,
    StatefulSet,
}

impl Controller {
    pub fn of_kind(kind: &str) -> Option<Self> {
        match kind {
            "ReplicationController" => Some(Self::ReplicationController),
            "ReplicaSet" => Some(Self::ReplicaSet),
            "StatefulSet" => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub struct Workloads {
    namespaces: HashMap<Symbol, Labels>,
    /// Selectors of services by namespace; a service without one selects nothing.
    services: HashMap<Symbol, BTreeMap<Symbol, Selector>>,
    controllers: HashMap<(Controller, Symbol, Symbol), Selector>,
}

impl Workloads {
    /// The labels of a namespace, when it exists.
    pub fn namespace(&self, name: Symbol) -> Option<&Labels> {
        self.namespaces.get(&name)
    }

    /// Says whether anything is different now.
    pub fn set_namespace(&mut self, name: Symbol, labels: Option<Labels>) -> bool {
        replace(&mut self.namespaces, name, labels)
    }

    pub fn set_service(&mut self, namespace: Symbol, name: Symbol, to: Option<Selector>) -> bool {
        let services = self.services.entry(namespace).or_default();
        match to {
            Some(selector) if services.get(&name) == Some(&selector) => false,
            Some(selector) => {
                services.insert(name, selector);
                true
            }
            None => services.remove(&name).is_some(),
        }
    }

    pub fn set_controller(
        &mut self,
        kind: Controller,
        namespace: Symbol,
        name: Symbol,
        to: Option<Selector>,
    ) -> bool {
        replace(&mut self.controllers, (kind, namespace, name), to)
    }

    /// The pods that belong with this one: what its services and its controller select, all of
    /// them at once. `None` when none of them says anything.
    pub fn selector_of(&self, pod: &Template, names: &Names) -> Option<Selector> {
        let mut requirements: Vec<Requirement> = Vec::new();
        let services = self.services.get(&pod.namespace).into_iter().flat_map(BTreeMap::values);
        let matching = services.filter(|selector| selector.matches(&pod.labels, names));
        for selector in matching.chain(self.controller_of(pod, names)) {
            for requirement in &selector.requirements {
                if !requirements.contains(requirement) {
                    requirements.push(requirement.clone());
                }
            }
        }
        let requirements = requirements.into_boxed_slice();
        (!requirements.is_empty()).then_some(Selector { requirements, is_absent: false })
    }

    fn controller_of(&self, pod: &Template, names: &Names) -> Option<&Selector> {
        let owner = pod.owner.as_ref()?;
        let kind = Controller::of_kind(names.text(owner.kind))?;
        self.controllers.get(&(kind, pod.namespace, owner.name))
    }
}

fn replace<K: std::hash::Hash + Eq, V: PartialEq>(
    map: &mut HashMap<K, V>,
    key: K,
    to: Option<V>,
) -> bool {
    match to {
        Some(value) if map.get(&key) == Some(&value) => false,
        Some(value) => {
            map.insert(key, value);
            true
        }
        None => map.remove(&key).is_some(),
    }
}
