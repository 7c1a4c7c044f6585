//! How Go prints JSON values in error messages that clients know word for word.

use serde_json::Value;

/// Like `%v`: `map[name:web port:80]`, `[1 2]`, `<nil>`.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", plain(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// Like `%#v`: `map[string]interface {}{"name":"web"}`, `[]interface {}{1, 2}`.
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{name:?}:{}", syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// What Go's decoder calls a value that does not fit: `json: cannot unmarshal array into ...`.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Like `%T`: the Go type that holds such a value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_read_as_go_prints_them() {
        let value = json!({"name": "web", "args": ["a", 1, null], "on": true});
        assert_eq!(plain(&value), "map[args:[a 1 <nil>] name:web on:true]");
        assert_eq!(
            syntax(&value),
            r#"map[string]interface {}{"args":[]interface {}{"a", 1, interface {}(nil)}, "name":"web", "on":true}"#
        );
        assert_eq!(type_name(&json!(1)), "int64");
        assert_eq!(type_name(&json!(1.5)), "float64");
        assert_eq!(type_name(&value), "map[string]interface {}");
    }
}
