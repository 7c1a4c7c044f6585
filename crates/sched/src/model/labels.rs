//! Labels and selectors over them.

use super::names::{Names, Symbol};

/// Labels of one object, sorted by key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Symbol, Symbol)]>);

impl Labels {
    pub fn get(&self, key: Symbol) -> Option<Symbol> {
        let at = self.0.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        self.0.get(at).map(|(_, value)| *value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Symbol, Symbol)> + '_ {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Symbol, Symbol)> for Labels {
    fn from_iter<T: IntoIterator<Item = (Symbol, Symbol)>>(pairs: T) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable();
        pairs.dedup_by_key(|(key, _)| *key);
        Self(pairs.into())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// Whole numbers; nodes only.
    Gt,
    Lt,
    /// What the API server would not have admitted; matches nothing.
    Unknown,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    pub key: Symbol,
    pub operator: Operator,
    pub values: Box<[Symbol]>,
}

impl Requirement {
    pub fn matches(&self, labels: &Labels, names: &Names) -> bool {
        let value = labels.get(self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(&value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(&value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.compares(value, names, |found, bound| found > bound),
            Operator::Lt => self.compares(value, names, |found, bound| found < bound),
            Operator::Unknown => false,
        }
    }

    fn compares(&self, value: Option<Symbol>, names: &Names, holds: fn(i64, i64) -> bool) -> bool {
        let [bound] = &self.values[..] else { return false };
        let number = |symbol| names.text(symbol).parse::<i64>().ok();
        match (value.and_then(number), number(*bound)) {
            (Some(found), Some(bound)) => holds(found, bound),
            _ => false,
        }
    }
}

/// A label selector: all requirements hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    pub requirements: Box<[Requirement]>,
    /// An absent selector matches nothing, an empty one everything.
    pub is_absent: bool,
}

impl Selector {
    /// What an absent selector means.
    pub fn nothing() -> Self {
        Self { requirements: [].into(), is_absent: true }
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn matches(&self, labels: &Labels, names: &Names) -> bool {
        !self.is_absent && self.requirements.iter().all(|one| one.matches(labels, names))
    }
}
