//! How does a column's JSON path find its value?
//!
//! The subset that CustomResourceDefinitions use: fields, quoted fields, indices, `[*]` and
//! filters of the form `[?(@.type=="Ready")]`. The first match is shown.

use serde_json::Value;

/// The first value a path leads to.
pub(super) fn first<'a>(path: &str, object: &'a Value) -> Option<&'a Value> {
    let steps = parse(path)?;
    walk(&steps, object)
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// Negative counts from the end.
    Index(i64),
    Each,
    /// Elements whose field compares as said.
    Where {
        field: Vec<String>,
        equal: bool,
        value: Value,
    },
}

fn walk<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Field(name) => walk(rest, value.get(name)?),
        Step::Index(at) => {
            let list = value.as_array()?;
            let at = match usize::try_from(*at) {
                Ok(at) => at,
                Err(_) => list.len().checked_sub(usize::try_from(at.unsigned_abs()).ok()?)?,
            };
            walk(rest, list.get(at)?)
        }
        Step::Each => elements(value).find_map(|element| walk(rest, element)),
        Step::Where { field, equal, value: wanted } => elements(value)
            .filter(|element| {
                let found = field.iter().try_fold(*element, |value, name| value.get(name));
                found.is_some_and(|found| (found == wanted) == *equal)
            })
            .find_map(|element| walk(rest, element)),
    }
}

fn elements(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let path = path.trim();
    let path = path.strip_prefix('{').and_then(|p| p.strip_suffix('}')).unwrap_or(path);
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            steps.push(bracket(&after[..end])?);
            rest = &after[end + 1..];
            continue;
        }
        let (field, after) = field(rest.strip_prefix('.').unwrap_or(rest));
        match field.as_str() {
            "" => return None,
            "*" => steps.push(Step::Each),
            _ => steps.push(Step::Field(field)),
        }
        rest = after;
    }
    Some(steps)
}

/// A field name up to the next dot or bracket; a backslash protects the character after it.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return (name, &text[at..]),
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            other => name.push(other),
        }
    }
    (name, "")
}

/// The position of the bracket that closes, quotes respected.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some(at),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::Each);
    }
    if let Some(name) = unquote(text) {
        return Some(Step::Field(name.to_owned()));
    }
    if let Some(inner) = text.strip_prefix("?(").and_then(|t| t.strip_suffix(')')) {
        let (left, equal, right) = match inner.split_once("==") {
            Some((left, right)) => (left, true, right),
            None => inner.split_once("!=").map(|(left, right)| (left, false, right))?,
        };
        let field = left.trim().strip_prefix('@')?.trim_start_matches('.');
        let right = right.trim();
        let value = match unquote(right) {
            Some(text) => Value::String(text.to_owned()),
            None => serde_json::from_str(right).ok()?,
        };
        let field = field.split('.').map(str::to_owned).collect();
        return Some(Step::Where { field, equal, value });
    }
    text.parse().ok().map(Step::Index)
}

fn unquote(text: &str) -> Option<&str> {
    ['\'', '"']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote).and_then(|t| t.strip_suffix(*quote)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_what_definitions_point_at() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "dotted"}},
            "spec": {"list": [1, 2, 3], "color": "red"},
            "status": {"conditions": [
                {"type": "Ready", "status": "False"},
                {"type": "Done", "status": "True"},
            ]},
        });
        let cases = [
            (".spec.color", Some(json!("red"))),
            ("{.spec.color}", Some(json!("red"))),
            (".spec.list[1]", Some(json!(2))),
            (".spec.list[-1]", Some(json!(3))),
            (".spec.list[*]", Some(json!(1))),
            (".status.conditions[?(@.type==\"Done\")].status", Some(json!("True"))),
            (".status.conditions[?(@.type != 'Ready')].status", Some(json!("True"))),
            (".status.conditions[?(@.type=='Other')].status", None),
            (".metadata.annotations['a.b/c']", Some(json!("dotted"))),
            (r".metadata.annotations.a\.b/c", Some(json!("dotted"))),
            (".spec.missing", None),
            (".spec.list[", None),
            (".spec..color", None),
            (".spec.list[9]", None),
            (".spec.list[-9]", None),
        ];
        for (path, want) in cases {
            assert_eq!(first(path, &object), want.as_ref(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(path in r#"[a\.\[\]\*\?\(\)@='"\\0-9-]{0,16}"#) {
            let _ = first(&path, &json!({"a": [{"a": 1}]}));
        }
    }
}
