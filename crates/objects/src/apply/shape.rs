//! How a value at some place of an object divides into fields with owners.
//!
//! The schema answers for known places. Two rules fill its gaps: what no schema describes is divided along
//! maps and nowhere else, and the `metadata` of every object has the shape of `ObjectMeta` even where a
//! custom schema only says `type: object`.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::literal::Literal;
use super::step::Step;
use crate::schema::built_in::Schemas;
use crate::schema::{Gvk, ListKind, MapKind, Node, Origin, Schema, Type};

/// What is known about one place of an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'s> {
    /// Nothing: maps divide into their entries, everything else has one owner.
    Untyped,
    /// A plain string outside any schema (`apiVersion` and `kind` of custom objects).
    Text,
    Typed {
        node: Node<'s>,
        origin: Origin,
        /// A whole object with `apiVersion`, `kind` and `metadata`.
        object: bool,
    },
}

/// A field of a map or structure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'s> {
    pub(super) shape: Shape<'s>,
    /// The schema names it; entries of maps are not named.
    pub(super) named: bool,
}

/// How one value divides.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'s> {
    /// One owner for all of it.
    Leaf,
    /// One owner for each entry; null counts as an empty map.
    Map(Shape<'s>),
    /// One owner for each element; null counts as an empty list.
    List(Elements<'s>),
}

/// The elements of a list that is not atomic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements<'s> {
    kind: ListKind<'s>,
    pub(super) shape: Shape<'s>,
}

/// Why an element of a list has no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ElementError {
    #[error("associative list with keys may not have a null element")]
    NullElement,
    #[error("associative list with keys may not have non-map elements")]
    NotAMap,
    #[error(
        "associative list with keys has an element that omits all key fields {0} (and doesn't have default values for any key fields)"
    )]
    NoKey(String),
    #[error("associative list without keys has an element that's a map type")]
    MapInSet,
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
}

/// Parts that built-in objects always have, if only empty, because the Go types hold them by value or write
/// them even when they are empty. Their appearing or vanishing is therefore never a change.
const STANDING: [&str; 18] = [
    "acceptedNames",
    "containers",
    "daemonEndpoints",
    "deprecatedSource",
    "drivers",
    "jobTemplate",
    "kubeletEndpoint",
    "loadBalancer",
    "metadata",
    "names",
    "nodeInfo",
    "resources",
    "source",
    "spec",
    "status",
    "strategy",
    "template",
    "updateStrategy",
];

/// The exceptions: a structure with the second field holds the first by reference.
const NOT_STANDING: [(&str, &str); 3] =
    [("resources", "containers"), ("resources", "containerID"), ("resources", "containerStatuses")];

static EMPTY_MAP: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
static EMPTY_LIST: LazyLock<Value> = LazyLock::new(|| Value::Array(Vec::new()));

/// `ObjectMeta`, taken from a kind that has little else.
static OBJECT_META: LazyLock<Option<Node<'static>>> = LazyLock::new(|| {
    let config_map = Schemas::built_in().get(&Gvk::new("", "v1", "ConfigMap"))?;
    config_map.root().property("metadata")
});

impl<'s> Shape<'s> {
    /// The shape of whole objects of this kind.
    pub(super) fn of(schema: &'s Schema) -> Self {
        Self::Typed { node: schema.root(), origin: schema.origin(), object: true }
    }

    fn metadata() -> Self {
        match *OBJECT_META {
            Some(node) => Self::Typed { node, origin: Origin::BuiltIn, object: false },
            None => Self::Untyped,
        }
    }

    fn inner(node: Node<'s>, origin: Origin) -> Self {
        // Custom schemas give int-or-string no type, so apply knows nothing about it; validation does.
        if origin == Origin::Custom && node.kind() == Type::IntOrString {
            return Self::Untyped;
        }
        Self::Typed { node, origin, object: node.is_embedded_resource() }
    }

    /// The field or entry `name`; `None` where the schema does not allow it.
    pub(super) fn declared(self, name: &str) -> Option<Field<'s>> {
        let Self::Typed { node, origin, object } = self else {
            return Some(Field { shape: Self::Untyped, named: false });
        };
        if object && origin == Origin::Custom {
            match name {
                "metadata" => return Some(Field { shape: Self::metadata(), named: true }),
                "apiVersion" | "kind" => return Some(Field { shape: Self::Text, named: true }),
                _ => {}
            }
        }
        if let Some(property) = node.property(name) {
            return Some(Field { shape: Self::inner(property, origin), named: true });
        }
        if let Some(values) = node.values() {
            return Some(Field { shape: Self::inner(values, origin), named: false });
        }
        // Built-in types without any property (RawExtension, FieldsV1) hold arbitrary JSON.
        let free = node.preserves_unknown_fields()
            || node.is_open()
            || node.kind() == Type::Any
            || (origin == Origin::BuiltIn && node.properties().next().is_none());
        free.then_some(Field { shape: Self::Untyped, named: false })
    }

    /// The field or entry `name`, unknown or not.
    pub(super) fn field(self, name: &str) -> Field<'s> {
        self.declared(name).unwrap_or(Field { shape: Self::Untyped, named: false })
    }

    /// The empty value of a part that exists even when the JSON leaves it out.
    pub(super) fn standing(self, name: &str) -> Option<&'static Value> {
        let Self::Typed { node, origin: Origin::BuiltIn, .. } = self else { return None };
        let part = node.property(name).filter(|_| STANDING.contains(&name))?;
        let excepted =
            |(part, sibling): &(&str, &str)| *part == name && node.property(sibling).is_some();
        if NOT_STANDING.iter().any(excepted) {
            return None;
        }
        match part.kind() {
            Type::Array if part.list_kind() != ListKind::Atomic => Some(&*EMPTY_LIST),
            Type::Object if part.map_kind() == MapKind::Granular && !part.is_map() => {
                Some(&*EMPTY_MAP)
            }
            _ => None,
        }
    }

    /// How this value divides here.
    pub(super) fn form(self, value: &Value) -> Form<'s> {
        let Self::Typed { node, origin, .. } = self else {
            return match (self, value) {
                (Self::Untyped, Value::Object(_) | Value::Null) => Form::Map(self),
                _ => Form::Leaf,
            };
        };
        match (node.kind(), value) {
            // A built-in field without a type holds arbitrary JSON that is replaced as a whole.
            (Type::Any, _) if origin == Origin::BuiltIn => Form::Leaf,
            (Type::Any | Type::Object, Value::Object(_) | Value::Null) => match node.map_kind() {
                MapKind::Granular => Form::Map(self),
                MapKind::Atomic => Form::Leaf,
            },
            (Type::Array, Value::Array(_) | Value::Null) => match node.list_kind() {
                ListKind::Atomic => Form::Leaf,
                kind => Form::List(Elements { kind, shape: self.element() }),
            },
            _ => Form::Leaf,
        }
    }

    /// True when the schema says that whatever is here has one owner.
    pub(super) fn is_atomic(self) -> bool {
        match self {
            Self::Typed { node, .. } => match node.kind() {
                Type::Array => node.list_kind() == ListKind::Atomic,
                _ => node.map_kind() == MapKind::Atomic,
            },
            Self::Untyped | Self::Text => false,
        }
    }

    /// The shape of list elements, whether or not they have owners of their own.
    pub(super) fn element(self) -> Self {
        match self {
            Self::Typed { node, origin, .. } => {
                node.items().map_or(Self::Untyped, |items| Self::inner(items, origin))
            }
            Self::Untyped | Self::Text => Self::Untyped,
        }
    }
}

impl Elements<'_> {
    /// The step that identifies an element in its list.
    pub(super) fn step(self, element: &Value) -> Result<Step, ElementError> {
        let keys = match self.kind {
            ListKind::Map { keys } => keys,
            ListKind::Set | ListKind::Atomic => return set_step(element),
        };
        let element = match element {
            Value::Object(element) => element,
            Value::Null => return Err(ElementError::NullElement),
            _ => return Err(ElementError::NotAMap),
        };
        let mut fields = Vec::with_capacity(keys.len());
        for key in keys {
            // A key field may be left out: leaving it out is then part of what identifies the element.
            if let Some(value) = element.get(key.as_ref()).or_else(|| self.default_key(key)) {
                fields.push((key.to_string(), Literal(value.clone())));
            }
        }
        if fields.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(ElementError::NoKey(format!("[{}]", keys.join(" "))));
        }
        Ok(Step::key(fields))
    }

    /// The value of a key field that an element may leave out (`protocol` of a port).
    fn default_key(&self, key: &str) -> Option<&Value> {
        match self.shape {
            Shape::Typed { node, .. } => node.property(key)?.default_value(),
            Shape::Untyped | Shape::Text => None,
        }
    }

    /// The steps of all elements, or `None` when one of them has no key.
    pub(super) fn steps(self, list: &[Value]) -> Option<Vec<Step>> {
        list.iter().map(|element| self.step(element).ok()).collect()
    }
}

fn set_step(element: &Value) -> Result<Step, ElementError> {
    match element {
        Value::Object(_) => Err(ElementError::MapInSet),
        Value::Array(_) => Err(ElementError::ListInSet),
        Value::Null => Err(ElementError::NullInSet),
        scalar => Ok(Step::Value(Literal(scalar.clone()))),
    }
}
