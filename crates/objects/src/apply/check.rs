//! Does an intent fit the schema?
//!
//! Server-side apply refuses what it could not assign owners to: unknown fields, wrong kinds of values, list
//! elements without keys, two elements with one key. The messages are those of Kubernetes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::shape::{Elements, Form, Shape};
use super::step::Step;
use crate::patch::go_text::{plain, syntax, type_name};
use crate::schema::{Origin, Type};

/// Strings of built-in kinds that hold a quantity, which may be written as a number.
const QUANTITIES: [&str; 3] = ["averageValue", "divisor", "sizeLimit"];

/// Maps of built-in kinds whose values are quantities.
const QUANTITY_MAPS: [&str; 13] = [
    "allocatable",
    "allocatedResources",
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "overhead",
    "requests",
    "used",
];

/// `Err` holds one line for a single problem, and a list for more.
pub(super) fn check(intent: &Value, shape: Shape<'_>) -> Result<(), String> {
    let mut problems = Vec::new();
    Checker { problems: &mut problems, path: Vec::new() }.value(intent, shape, false);
    match problems.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        _ => Err(format!("errors:\n  {}", problems.join("\n  "))),
    }
}

struct Checker<'p> {
    problems: &'p mut Vec<String>,
    path: Vec<Step>,
}

impl Checker<'_> {
    fn report(&mut self, problem: &str) {
        let path: String = self.path.iter().map(Step::to_string).collect();
        let separator = if path.is_empty() { "" } else { ": " };
        self.problems.push(format!("{path}{separator}{problem}"));
    }

    fn value(&mut self, value: &Value, shape: Shape<'_>, may_be_quantity: bool) {
        let Shape::Typed { node, .. } = shape else { return };
        match (node.kind(), value) {
            (_, Value::Null) => {}
            (Type::Object | Type::Any, Value::Object(map)) => self.map(map, shape),
            (Type::Array, Value::Array(list)) => self.list(list, shape),
            (Type::Any, _) => {}
            (Type::Object, _) => self.report(&format!("expected map, got &{{{}}}", plain(value))),
            (Type::Array, _) => self.report(&format!("expected list, got &{{{}}}", plain(value))),
            (Type::Integer | Type::Number, Value::Number(_)) => {}
            (Type::Integer | Type::Number, _) => {
                let got = type_name(value);
                self.report(&format!("expected numeric (int or float), got {got}"));
            }
            (Type::Boolean, Value::Bool(_)) => {}
            (Type::Boolean, _) => {
                self.report(&format!("expected boolean, got &{{{}}}", plain(value)));
            }
            (Type::String, Value::String(_)) => {}
            (Type::String, Value::Number(_)) if may_be_quantity => {}
            (Type::String, _) => {
                let got = syntax(value);
                self.report(&format!(
                    "expected string, got &value.valueUnstructured{{Value:{got}}}"
                ));
            }
            (Type::IntOrString, Value::Array(_) | Value::Object(_)) => {
                self.report(&format!("expected any scalar, got &{{{}}}", plain(value)));
            }
            (Type::IntOrString, _) => {}
        }
    }

    fn map(&mut self, map: &Map<String, Value>, shape: Shape<'_>) {
        let built_in = matches!(shape, Shape::Typed { origin: Origin::BuiltIn, .. });
        let of_quantities = match self.path.last() {
            Some(Step::Field(name)) => QUANTITY_MAPS.contains(&name.as_str()),
            _ => false,
        };
        for (name, value) in map {
            self.path.push(Step::field(name));
            match shape.declared(name) {
                None => self.report("field not declared in schema"),
                Some(field) => {
                    let quantity = of_quantities || QUANTITIES.contains(&name.as_str());
                    self.value(value, field.shape, built_in && quantity);
                }
            }
            self.path.pop();
        }
    }

    fn list(&mut self, list: &[Value], shape: Shape<'_>) {
        let elements = match shape.form(&Value::Null) {
            Form::List(elements) => Some(elements),
            Form::Leaf | Form::Map(_) => None,
        };
        let mut seen = BTreeSet::new();
        for (at, element) in list.iter().enumerate() {
            let Some(step) = self.element_step(at, element, elements) else { return };
            if elements.is_some() && !seen.insert(step.clone()) {
                self.report(&format!("duplicate entries for key {step}"));
            }
            self.path.push(step);
            self.value(element, shape.element(), false);
            self.path.pop();
        }
    }

    fn element_step(
        &mut self,
        at: usize,
        element: &Value,
        elements: Option<Elements<'_>>,
    ) -> Option<Step> {
        let Some(elements) = elements else {
            return Some(Step::Index(i64::try_from(at).unwrap_or(i64::MAX)));
        };
        elements
            .step(element)
            .inspect_err(|problem| self.report(&format!("element {at}: {problem}")))
            .ok()
    }
}
