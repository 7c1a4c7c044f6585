//! Is this answer the expected one?
//!
//! A pattern is YAML. Objects may hold more than the pattern names; lists match item by item,
//! or, when they begin with `...`, by containing the rest. Text is compared as it stands, except:
//!
//! | pattern | matches |
//! |---|---|
//! | `<any>` | anything that is there |
//! | `<absent>` | nothing: the field is missing |
//! | `<name>` | anything, and `{name}` is its text from here on |
//! | `~regex` | text that the expression matches |
//! | `"!x"` | anything but the text `x` |

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

/// What the case has learned: `{name}` stands for the text.
pub(super) type Variables = BTreeMap<String, String>;

/// Puts what is known into a line.
pub(super) fn substitute(text: &str, variables: &Variables) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let (before, after) = rest.split_at(start);
        out.push_str(before);
        let known = after.find('}').and_then(|end| Some((after.get(1..end)?, end)));
        match known.and_then(|(name, end)| Some((variables.get(name)?, end))) {
            Some((value, end)) => {
                out.push_str(value);
                rest = after.get(end + 1..).unwrap_or_default();
            }
            None => {
                out.push('{');
                rest = after.get(1..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out
}

/// Reads a pattern or a body.
pub(super) fn yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| format!("{text}: {error}"))
}

/// Compares, and learns names; the error says where and what differs.
pub(super) fn check(
    pattern: &Value,
    actual: Option<&Value>,
    path: &str,
    variables: &mut Variables,
) -> Result<(), String> {
    let differs = |what: String| Err(format!("{path}: {what}"));
    let Some(found) = actual else {
        return match pattern.as_str() {
            Some("<absent>") => Ok(()),
            _ => differs(format!("want {pattern}, is absent")),
        };
    };
    match pattern {
        Value::String(text) => check_text(text, found, path, variables),
        Value::Object(fields) => {
            let Value::Object(_) = found else {
                return differs(format!("want {pattern}, is {found}"));
            };
            for (name, pattern) in fields {
                check(pattern, found.get(name), &format!("{path}.{name}"), variables)?;
            }
            Ok(())
        }
        Value::Array(items) => {
            let Value::Array(all) = found else {
                return differs(format!("want {pattern}, is {found}"));
            };
            if let Some((Value::String(first), rest)) = items.split_first()
                && first == "..."
            {
                for item in rest {
                    let hit = all.iter().any(|one| {
                        let mut trial = variables.clone();
                        let fits = check(item, Some(one), path, &mut trial).is_ok();
                        if fits {
                            *variables = trial;
                        }
                        fits
                    });
                    if !hit {
                        return differs(format!("want {item} among {found}"));
                    }
                }
                return Ok(());
            }
            if items.len() != all.len() {
                return differs(format!("want {} items, are {found}", items.len()));
            }
            for (at, (item, one)) in items.iter().zip(all).enumerate() {
                check(item, Some(one), &format!("{path}[{at}]"), variables)?;
            }
            Ok(())
        }
        _ if pattern == found => Ok(()),
        _ => differs(format!("want {pattern}, is {found}")),
    }
}

fn check_text(
    pattern: &str,
    found: &Value,
    path: &str,
    variables: &mut Variables,
) -> Result<(), String> {
    let plain = match found {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if let Some(name) = pattern.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        return match name {
            "any" => Ok(()),
            "absent" => Err(format!("{path}: want nothing, is {found}")),
            _ => {
                variables.insert(name.to_owned(), plain);
                Ok(())
            }
        };
    }
    let fits = if let Some(expression) = pattern.strip_prefix('~') {
        Regex::new(expression).map_err(|error| error.to_string())?.is_match(&plain)
    } else if let Some(other) = pattern.strip_prefix('!') {
        plain != other
    } else {
        found.as_str() == Some(pattern)
    };
    if fits { Ok(()) } else { Err(format!("{path}: want {pattern:?}, is {found}")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_accept_and_refuse() {
        let found = json!({"a": "x1", "n": 3, "l": [{"k": 1}, {"k": 2}], "e": null});
        for (pattern, fits) in [
            ("{a: x1}", true),
            ("{a: x2}", false),
            ("{a: ~^x}", true),
            ("{a: ~^y}", false),
            ("{a: '!x2'}", true),
            ("{a: '!x1'}", false),
            ("{a: <any>, b: <absent>}", true),
            ("{a: <absent>}", false),
            ("{b: <any>}", false),
            ("{n: 3}", true),
            ("{n: '3'}", false),
            ("{l: [{k: 1}, {k: 2}]}", true),
            ("{l: [{k: 2}, {k: 1}]}", false),
            ("{l: [{k: 1}]}", false),
            ("{l: ['...', {k: 2}]}", true),
            ("{l: ['...', {k: 3}]}", false),
            ("{e: null}", true),
        ] {
            let result =
                check(&yaml(pattern).unwrap(), Some(&found), "", &mut Variables::default());
            assert_eq!(result.is_ok(), fits, "{pattern}: {result:?}");
        }
    }

    #[test]
    fn what_was_learned_stands_in_later_lines() {
        let mut known = Variables::default();
        check(&yaml("{n: <rv>}").unwrap(), Some(&json!({"n": 7})), "", &mut known).unwrap();
        assert_eq!(substitute("{a: '{rv}', {b}} {", &known), "{a: '7', {b}} {");
    }
}
