//! Which values count, and which are not known?
//!
//! A later source wins: the chart's `values.yaml`, then values files, then `--set`. Maps are merged key
//! by key, everything else is replaced, and null takes a default away. All this is Helm's.

use api::shape::nearest;
use serde_json::{Map, Number, Value};

/// Maps whose keys are the user's, besides those that are empty in `values.yaml`.
const FREE: &[&str] = &[
    "sloControllerConfig",
    "koordlet.resources",
    "manager.resources",
    "scheduler.resources",
    "monitoring.dashboardLabels",
];

/// Why an argument of `--set` is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    #[error("{argument:?} sets nothing: write PATH=VALUE")]
    NoValue { argument: String },
    #[error("{argument:?} has an empty name in its path")]
    EmptyName { argument: String },
    #[error(
        "{argument:?} sets one element of a list, which is not supported: write the whole list as {{a,b}}"
    )]
    Index { argument: String },
}

/// `over` on top of `base`.
pub fn merged(base: &Value, over: &Value) -> Value {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            let mut merged = base.clone();
            for (key, value) in over {
                match merged.get(key) {
                    _ if value.is_null() => {
                        merged.remove(key);
                    }
                    Some(below) => {
                        let value = self::merged(below, value);
                        merged.insert(key.clone(), value);
                    }
                    None => {
                        merged.insert(key.clone(), value.clone());
                    }
                }
            }
            Value::Object(merged)
        }
        _ => over.clone(),
    }
}

/// Values that the chart does not know: the path, and the nearest that it does.
pub fn unknown(defaults: &Value, values: &Value) -> Vec<(String, Option<String>)> {
    let mut known = Vec::new();
    paths(defaults, "", &mut known);
    let mut unknown = Vec::new();
    stray(defaults, values, "", &mut |path| {
        let nearest = nearest(path, known.iter().map(String::as_str)).map(str::to_owned);
        unknown.push((path.to_owned(), nearest));
    });
    unknown
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn paths(value: &Value, path: &str, out: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = below(path, key);
        if !FREE.contains(&path.as_str()) {
            paths(value, &path, out);
        }
        out.push(path);
    }
}

fn stray(defaults: &Value, values: &Value, path: &str, tell: &mut impl FnMut(&str)) {
    let (Some(defaults), Some(values)) = (defaults.as_object(), values.as_object()) else { return };
    // An empty map is the user's to fill.
    if (defaults.is_empty() && !path.is_empty()) || FREE.contains(&path) {
        return;
    }
    for (key, value) in values {
        let path = below(path, key);
        match defaults.get(key) {
            Some(default) => stray(default, value, &path, tell),
            None => tell(&path),
        }
    }
}

/// Whether values given on the command line are read as YAML or as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    Typed,
    Text,
}

/// Adds what `--set a.b=c,d={e,f}` says to `values`.
pub fn set(values: &mut Value, argument: &str, reading: Reading) -> Result<(), SetError> {
    let parts = split(argument, ',', true);
    for part in parts {
        let mut halves = split(&part, '=', false).into_iter();
        let (path, rest): (Option<String>, Vec<String>) = (halves.next(), halves.collect());
        let argument = || part.clone();
        let Some(path) = path.filter(|_| !rest.is_empty()) else {
            return Err(SetError::NoValue { argument: argument() });
        };
        let names: Vec<String> = split(&path, '.', false).iter().map(|n| plain(n)).collect();
        if names.iter().any(String::is_empty) {
            return Err(SetError::EmptyName { argument: argument() });
        }
        if names.iter().any(|name| name.contains('[')) {
            return Err(SetError::Index { argument: argument() });
        }
        let value = read(&rest.join("="), reading);
        let nested = names
            .into_iter()
            .rev()
            .fold(value, |value, name| Value::Object(Map::from_iter([(name, value)])));
        *values = kept(values, &nested);
    }
    Ok(())
}

/// Like [`merged`], but null stays: it must still take the chart's default away.
fn kept(base: &Value, over: &Value) -> Value {
    let (Some(base), Some(over)) = (base.as_object(), over.as_object()) else {
        return over.clone();
    };
    let mut merged = base.clone();
    for (key, value) in over {
        let value = merged.get(key).map_or_else(|| value.clone(), |below| kept(below, value));
        merged.insert(key.clone(), value);
    }
    Value::Object(merged)
}

/// Several values files as one, the later over the earlier.
pub fn layered(base: &Value, over: &Value) -> Value {
    kept(base, over)
}

/// Parts between separators that are neither escaped nor, if asked for, within braces.
fn split(text: &str, separator: char, spares_lists: bool) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut is_escaped) = (0usize, false);
    for letter in text.chars() {
        if !is_escaped {
            match letter {
                '{' => depth = depth.saturating_add(1),
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if letter == separator && !(spares_lists && depth > 0) {
                parts.push(String::new());
                continue;
            }
        }
        is_escaped = letter == '\\' && !is_escaped;
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    parts
}

/// Without the backslashes that protect.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut is_escaped = false;
    for letter in text.chars() {
        if letter == '\\' && !is_escaped {
            is_escaped = true;
            continue;
        }
        is_escaped = false;
        out.push(letter);
    }
    out
}

fn read(text: &str, reading: Reading) -> Value {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    if let Some(inner) = inner {
        let items = split(inner, ',', false);
        let items = items.iter().filter(|item| !(items.len() == 1 && item.is_empty()));
        return Value::Array(items.map(|item| read(item, reading)).collect());
    }
    let text = plain(text);
    if reading == Reading::Text {
        return Value::String(text);
    }
    match text.as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        // A number with a leading zero is a name.
        _ if text.len() > 1 && text.starts_with('0') => Value::String(text),
        _ => match text.parse::<i64>() {
            Ok(number) => Value::Number(Number::from(number)),
            Err(_) => Value::String(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_become_values_as_with_helm() {
        let cases = [
            ("a path", "a.b=c", json!({"a": {"b": "c"}})),
            ("several", "a=1,b=true,c=null", json!({"a": 1, "b": true, "c": null})),
            ("an escaped comma", r"gates=A=true\,B=false", json!({"gates": "A=true,B=false"})),
            ("an escaped dot", r"labels.a\.b/c=d", json!({"labels": {"a.b/c": "d"}})),
            ("a list", "a={b,c}", json!({"a": ["b", "c"]})),
            ("an empty list", "a={}", json!({"a": []})),
            ("nothing", "a=", json!({"a": ""})),
            ("leading zeros", "a=007", json!({"a": "007"})),
            ("a fraction", "a=1.5", json!({"a": "1.5"})),
        ];
        for (name, argument, want) in cases {
            let mut values = json!({});
            set(&mut values, argument, Reading::Typed).unwrap();
            assert_eq!(values, want, "{name}");
        }
        let mut values = json!({});
        set(&mut values, "a=1", Reading::Text).unwrap();
        assert_eq!(values, json!({"a": "1"}));
    }

    #[test]
    fn arguments_that_say_nothing_are_refused() {
        let mut values = json!({});
        for argument in ["a", "", "a.b"] {
            let error = set(&mut values, argument, Reading::Typed).unwrap_err();
            assert!(matches!(error, SetError::NoValue { .. }), "{argument}");
        }
        assert!(matches!(
            set(&mut values, "a..b=c", Reading::Typed),
            Err(SetError::EmptyName { .. })
        ));
        assert!(matches!(set(&mut values, "a[0]=c", Reading::Typed), Err(SetError::Index { .. })));
    }

    #[test]
    fn null_takes_a_default_away() {
        let base = json!({"a": {"b": 1, "c": 2}, "d": [1, 2]});
        assert_eq!(
            merged(&base, &json!({"a": {"b": null}, "d": [3]})),
            json!({"a": {"c": 2}, "d": [3]})
        );
    }

    #[test]
    fn strays_are_named_with_the_nearest_path() {
        let defaults = json!({"manager": {"replicas": 2, "nodeSelector": {}}, "koordlet": {"resources": {"limits": {}}}});
        let values = json!({"manager": {"replica": 3, "nodeSelector": {"a": "b"}}, "koordlet": {"resources": {"claims": []}}, "x": {"y": 1}});
        let found = unknown(&defaults, &values);
        assert_eq!(
            found,
            [
                ("manager.replica".to_owned(), Some("manager.replicas".to_owned())),
                ("x".to_owned(), None)
            ]
        );
    }

    proptest! {
        /// Saying the same twice changes nothing.
        #[test]
        fn setting_is_idempotent(path in "[a-c](\\.[a-c]){0,2}", value in "[a-z0-9{},=.\\\\]{0,8}") {
            let argument = format!("{path}={value}");
            let mut once = json!({});
            if set(&mut once, &argument, Reading::Typed).is_ok() {
                let mut twice = once.clone();
                set(&mut twice, &argument, Reading::Typed).unwrap();
                prop_assert_eq!(once, twice);
            }
        }
    }
}
