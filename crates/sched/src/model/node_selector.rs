//! Which nodes does a term select?

use super::labels::{Labels, Operator, Requirement};
use super::names::{Names, Symbol};

/// A condition on `metadata.name`, the only field there is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldTerm {
    /// `In` or `NotIn`; any other matches no node.
    pub operator: Operator,
    /// Exactly one name; any other number of them matches no node.
    pub names: Box<[Symbol]>,
    /// False for a field that nodes do not have.
    pub is_name: bool,
}

impl FieldTerm {
    fn matches(&self, name: Symbol) -> bool {
        if !self.is_name {
            return false;
        }
        match (self.operator, &self.names[..]) {
            (Operator::In, [wanted]) => *wanted == name,
            (Operator::NotIn, [unwanted]) => *unwanted != name,
            _ => false,
        }
    }
}

/// Expressions and fields, all of which must hold. An empty term selects nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTerm {
    pub expressions: Box<[Requirement]>,
    pub fields: Box<[FieldTerm]>,
}

impl NodeTerm {
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, name: Symbol, labels: &Labels, names: &Names) -> bool {
        !self.is_empty()
            && self.expressions.iter().all(|one| one.matches(labels, names))
            && self.fields.iter().all(|one| one.matches(name))
    }

    /// The names this term pins, when it pins any: the intersection of its `In` fields.
    pub fn pinned(&self) -> Option<Vec<Symbol>> {
        let mut pins: Option<Vec<Symbol>> = None;
        for field in self.fields.iter().filter(|one| one.is_name && one.operator == Operator::In) {
            pins = Some(match pins {
                None => field.names.to_vec(),
                Some(pins) => pins.into_iter().filter(|pin| field.names.contains(pin)).collect(),
            });
        }
        pins
    }
}

/// Terms of which one must match. No terms match no node.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSelector {
    pub terms: Box<[NodeTerm]>,
}

impl NodeSelector {
    pub fn matches(&self, name: Symbol, labels: &Labels, names: &Names) -> bool {
        self.terms.iter().any(|term| term.matches(name, labels, names))
    }
}

/// A term that adds its weight where it matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreferredNodeTerm {
    pub weight: i64,
    pub term: NodeTerm,
}
