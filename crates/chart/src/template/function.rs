//! What do the functions answer that the chart uses?
//!
//! Their names and the order of their arguments are Helm's: the piped value comes last.

use serde_json::{Map, Value};

use super::render::{Answer, is_true, printed};
use crate::values::merged;

pub(super) fn call(name: &str, arguments: Vec<Value>) -> Answer {
    match (name, arguments.as_slice()) {
        // There is no cluster to look into, as in `helm template`.
        ("lookup", [_, _, _, _]) => Ok(Value::Object(Map::new())),
        ("toYaml", [value]) => to_yaml(value),
        ("fromYaml", [Value::String(text)]) => {
            serde_saphyr::from_str(text).map_err(|error| error.to_string())
        }
        ("toJson", [value]) => Ok(Value::String(to_json(value))),
        ("indent", [count, text]) => indent(count, text, ""),
        ("nindent", [count, text]) => indent(count, text, "\n"),
        ("quote", [Value::Null]) => Ok(Value::String(String::new())),
        ("quote", [value]) => Ok(Value::String(Value::String(printed(value)?).to_string())),
        ("default", [default, value]) => {
            Ok(if is_true(value) { value.clone() } else { default.clone() })
        }
        ("default", [default]) => Ok(default.clone()),
        ("not", [value]) => Ok(Value::Bool(!is_true(value))),
        ("eq", [one, other]) => Ok(Value::Bool(is_equal(one, other)?)),
        ("ne", [one, other]) => Ok(Value::Bool(!is_equal(one, other)?)),
        ("ge", [one, other]) => Ok(Value::Bool(whole(one)? >= whole(other)?)),
        ("gt", [one, other]) => Ok(Value::Bool(whole(one)? > whole(other)?)),
        ("int", [value]) => Ok(Value::from(to_whole(value))),
        ("list", _) => Ok(Value::Array(arguments)),
        ("dict", _) => dict(&arguments),
        // What the first has wins.
        ("merge", [first, second]) => Ok(merged(second, first)),
        ("index", [value, key]) => index(value, key),
        ("first", [Value::Array(items)]) => Ok(items.first().cloned().unwrap_or_default()),
        ("base", [Value::String(path)]) => {
            Ok(Value::from(path.rsplit('/').next().unwrap_or_default()))
        }
        ("splitList", [Value::String(separator), Value::String(text)]) => {
            Ok(Value::Array(text.split(separator.as_str()).map(Value::from).collect()))
        }
        ("contains", [Value::String(part), Value::String(text)]) => {
            Ok(Value::Bool(text.contains(part.as_str())))
        }
        ("trimSuffix", [Value::String(suffix), Value::String(text)]) => {
            Ok(Value::from(text.strip_suffix(suffix.as_str()).unwrap_or(text)))
        }
        (known, _) if KNOWN.contains(&known) => {
            Err("these are not the arguments that it takes".to_owned())
        }
        _ => Err("this function is outside of what is understood here".to_owned()),
    }
}

const KNOWN: &[&str] = &[
    "lookup",
    "toYaml",
    "fromYaml",
    "toJson",
    "indent",
    "nindent",
    "quote",
    "default",
    "not",
    "eq",
    "ne",
    "ge",
    "gt",
    "int",
    "dict",
    "merge",
    "index",
    "first",
    "base",
    "splitList",
    "trimSuffix",
    "contains",
];

fn to_yaml(value: &Value) -> Answer {
    let text = serde_saphyr::to_string(value).map_err(|error| error.to_string())?;
    Ok(Value::from(text.trim_end_matches('\n')))
}

/// As Go prints it, which hides what HTML would read.
fn to_json(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn indent(count: &Value, text: &Value, before: &str) -> Answer {
    let (Some(count), Value::String(text)) = (count.as_u64(), text) else {
        return Err("takes a number and a text".to_owned());
    };
    let pad = " ".repeat(usize::try_from(count.min(80)).unwrap_or_default());
    Ok(Value::String(format!("{before}{pad}{}", text.replace('\n', &format!("\n{pad}")))))
}

fn is_equal(one: &Value, other: &Value) -> Result<bool, String> {
    let kind = |value: &Value| std::mem::discriminant(value);
    if one.is_array() || one.is_object() || (kind(one) != kind(other) && !one.is_null()) {
        return Err("compares two texts, two numbers or two truths".to_owned());
    }
    Ok(one == other)
}

fn whole(value: &Value) -> Result<i64, String> {
    value.as_i64().ok_or_else(|| "compares whole numbers".to_owned())
}

/// A number in a text counts as well; anything else is zero.
fn to_whole(value: &Value) -> i64 {
    match value {
        Value::Number(number) => number.as_i64().unwrap_or_default(),
        Value::String(text) => text.trim().parse().unwrap_or_default(),
        Value::Bool(bool) => i64::from(*bool),
        _ => 0,
    }
}

fn dict(arguments: &[Value]) -> Answer {
    let mut map = Map::new();
    for pair in arguments.chunks(2) {
        match pair {
            [Value::String(key), value] => map.insert(key.clone(), value.clone()),
            _ => return Err("takes names and values in turn".to_owned()),
        };
    }
    Ok(Value::Object(map))
}

fn index(value: &Value, key: &Value) -> Answer {
    let found = match (value, key) {
        (Value::Object(map), Value::String(key)) => {
            return Ok(map.get(key).cloned().unwrap_or_default());
        }
        (Value::Array(items), Value::Number(at)) => {
            at.as_u64().and_then(|at| items.get(usize::try_from(at).ok()?))
        }
        _ => return Err("takes a map and a key, or a list and a number".to_owned()),
    };
    found.cloned().ok_or_else(|| format!("there is no element {key}"))
}
