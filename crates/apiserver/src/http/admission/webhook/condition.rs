//! Conditions in CEL that a request must meet before a webhook is asked.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as Cel};
use serde_json::Value;

/// A compiled condition.
pub(super) struct Condition {
    name: String,
    program: Program,
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Condition {
    pub(super) fn compile(name: &str, expression: &str) -> Result<Self, String> {
        let program = Program::compile(expression)
            .map_err(|error| format!("matchConditions {name:?}: {error}"))?;
        Ok(Self { name: name.to_owned(), program })
    }
}

/// Whether all conditions hold. One that is false settles it; otherwise an error does.
pub(super) fn all_hold(
    conditions: &[Condition],
    object: Option<&Value>,
    old: Option<&Value>,
    request: &Value,
) -> Result<bool, String> {
    let mut context = Context::default();
    context.register_all();
    let or_null = |value: Option<&Value>| value.map_or(Cel::Null, to_cel);
    context.add_variable_from_value("object", or_null(object));
    context.add_variable_from_value("oldObject", or_null(old));
    context.add_variable_from_value("request", to_cel(request));
    let mut first_error = None;
    for condition in conditions {
        match condition.program.execute(&context) {
            Ok(Cel::Bool(true)) => {}
            Ok(Cel::Bool(false)) => return Ok(false),
            Ok(_) => {
                first_error.get_or_insert(format!("{:?} is not a boolean", condition.name));
            }
            Err(error) => {
                first_error.get_or_insert(format!("{:?}: {error}", condition.name));
            }
        }
    }
    match first_error {
        None => Ok(true),
        Some(error) => Err(format!("match condition {error}")),
    }
}

fn to_cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Cel::Int(integer),
            None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(list) => Cel::List(Arc::new(list.iter().map(to_cel).collect())),
        Value::Object(map) => {
            let map: HashMap<Key, Cel> = map
                .iter()
                .map(|(key, value)| (Key::String(Arc::new(key.clone())), to_cel(value)))
                .collect();
            Cel::Map(Map { map: Arc::new(map) })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_look_at_object_and_request() {
        let object =
            json!({"metadata": {"name": "a", "labels": {"tier": "web"}}, "spec": {"replicas": 3}});
        let request = json!({"operation": "CREATE", "userInfo": {"username": "me"}});
        let holds = |expressions: &[&str]| {
            let conditions: Vec<_> =
                expressions.iter().map(|text| Condition::compile("c", text).unwrap()).collect();
            all_hold(&conditions, Some(&object), None, &request)
        };
        assert_eq!(holds(&["object.spec.replicas > 2", "request.operation == 'CREATE'"]), Ok(true));
        assert_eq!(holds(&["object.metadata.labels.tier == 'db'"]), Ok(false));
        assert_eq!(holds(&["oldObject == null"]), Ok(true));
        assert_eq!(holds(&["!request.userInfo.username.startsWith('system:')"]), Ok(true));
        assert!(holds(&["object.missing.field == 1"]).is_err());
        assert_eq!(holds(&["object.missing.field == 1", "false"]), Ok(false));
        assert!(holds(&["1"]).is_err());
        assert!(Condition::compile("c", "((").is_err());
    }
}
