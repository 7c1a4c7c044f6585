//! Does a custom object fit its structural schema?
//!
//! Checks run in the order of the reference's JSON schema validator and speak its words, because tools and
//! people match on them: `spec.replicas in body must be of type integer: "string"`.
//!
//! On update a part that is equal to what is stored is not judged again (ratcheting), so that tightening a
//! schema does not lock existing objects.

#[cfg(test)]
mod tests;

use serde_json::{Number, Value};

use super::MAX_DEPTH;
use super::cause::{Causes, Path, go_float, quoted};
use super::format::Format;
use super::graph::{Node, Rules, Type};
use super::lists::Correlation;

pub(super) fn validate(node: Node<'_>, value: &Value, old: Option<&Value>, causes: &mut Causes) {
    let mut walk = Walk { causes: std::mem::take(causes), matched: 0 };
    walk.node(node, value, old, &Path::ROOT, 0);
    *causes = walk.causes;
}

struct Walk {
    causes: Causes,
    /// How many checks were made; the alternative of a union that got furthest explains the failure.
    matched: usize,
}

impl Walk {
    fn node(
        &mut self,
        node: Node<'_>,
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        depth: usize,
    ) {
        if old == Some(value) {
            return;
        }
        if depth > MAX_DEPTH {
            let detail = format!("must not be nested deeper than {MAX_DEPTH} levels");
            self.causes.invalid_text(path, "", &detail);
            return;
        }
        let data = node.data();
        self.matched += 2;
        self.type_of(node, value, path);
        let rules = data.rules.as_deref();
        if value.is_null() {
            if let Some(rules) = rules {
                self.allowed(rules, value, path);
            }
            return;
        }
        if let Some(rules) = rules {
            self.combinators(node, rules, value, old, path, depth);
        }
        match value {
            Value::String(text) => self.text(data.format, rules, text, value, path),
            Value::Number(number) => self.number(data.format, rules, number, value, path),
            Value::Array(items) => {
                if let Some(rules) = rules {
                    self.list_size(rules, items, path);
                }
            }
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        if let Some(rules) = rules {
            self.allowed(rules, value, path);
        }
        match value {
            Value::Object(_) => self.object(node, value, old, path, depth),
            Value::Array(items) => self.items(node, items, old, path, depth),
            _ => {}
        }
    }

    fn type_of(&mut self, node: Node<'_>, value: &Value, path: &Path<'_>) {
        let found = type_name(value);
        let wanted = match (node.kind(), value) {
            (Type::Any, _)
            | (Type::Object, Value::Object(_))
            | (Type::Array, Value::Array(_))
            | (Type::String, Value::String(_))
            | (Type::Boolean, Value::Bool(_))
            | (Type::Number, Value::Number(_))
            | (Type::IntOrString, Value::String(_)) => return,
            (_, Value::Null) if node.nullable() => return,
            (Type::Integer | Type::IntOrString, Value::Number(number)) if is_integer(number) => {
                return;
            }
            (Type::IntOrString, _) => "integer,string",
            (kind, _) => kind.as_str(),
        };
        let detail = format!("{path} in body must be of type {wanted}: {found:?}");
        self.causes.invalid_type(path, &Value::from(found), &detail);
    }

    fn text(
        &mut self,
        format: Format,
        rules: Option<&Rules>,
        text: &str,
        value: &Value,
        path: &Path<'_>,
    ) {
        self.matched += 1;
        if let Some(rules) = rules {
            let length = text.chars().count() as u64;
            if let Some(limit) = rules.max_length
                && length > limit
            {
                self.causes.too_long(path, limit);
                return;
            }
            if let Some(limit) = rules.min_length
                && length < limit
            {
                let detail = format!("{path} in body should be at least {limit} chars long");
                self.causes.invalid(path, value, &detail);
                return;
            }
            if let Some(pattern) = &rules.pattern
                && !pattern.is_match(text)
            {
                let detail = format!("{path} in body should match '{}'", pattern.as_str());
                self.causes.invalid(path, value, &detail);
                return;
            }
        }
        if !format.allows_text(text) {
            let name = format.name();
            let detail = format!("{path} in body must be of type {name}: {}", quoted(text));
            self.causes.invalid_type(path, value, &detail);
        }
    }

    fn number(
        &mut self,
        format: Format,
        rules: Option<&Rules>,
        number: &Number,
        value: &Value,
        path: &Path<'_>,
    ) {
        self.matched += 1;
        let found = number.as_f64().unwrap_or_default();
        if let Some(rules) = rules {
            if let Some(factor) = rules.multiple_of
                && factor > 0.0
                && !is_whole(found / factor)
            {
                let factor = go_float(factor);
                let detail = format!("{path} in body should be a multiple of {factor}");
                self.causes.invalid(path, value, &detail);
            }
            if let Some(limit) = rules.maximum
                && (found > limit.value || (limit.exclusive && found >= limit.value))
            {
                let word = if limit.exclusive { "less than" } else { "less than or equal to" };
                let detail = format!("{path} in body should be {word} {}", go_float(limit.value));
                self.causes.invalid(path, value, &detail);
            }
            if let Some(limit) = rules.minimum
                && (found < limit.value || (limit.exclusive && found <= limit.value))
            {
                let word =
                    if limit.exclusive { "greater than" } else { "greater than or equal to" };
                let detail = format!("{path} in body should be {word} {}", go_float(limit.value));
                self.causes.invalid(path, value, &detail);
            }
        }
        let fits = match format {
            Format::Int32 => number.as_i64().is_none_or(|number| i32::try_from(number).is_ok()),
            Format::Int64 => !number.is_u64() || number.is_i64(),
            Format::Float => found.abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if !fits {
            let kind = if number.is_f64() { "number" } else { "integer" };
            let format = format.name();
            let detail =
                format!("Checked value must be of type {kind} with format {format} in {path}");
            self.causes.invalid_text(&Path::ROOT, "", &detail);
        }
    }

    fn list_size(&mut self, rules: &Rules, items: &[Value], path: &Path<'_>) {
        let length = items.len() as u64;
        if let Some(limit) = rules.min_items
            && length < limit
        {
            let detail = format!("{path} in body should have at least {limit} items");
            self.causes.invalid(path, &Value::from(length), &detail);
        }
        if let Some(limit) = rules.max_items
            && length > limit
        {
            self.causes.too_many(path, items.len(), limit);
        }
        if rules.unique_items && has_twins(items) {
            let detail = format!("{path} in body shouldn't contain duplicates");
            self.causes.invalid_text(path, "", &detail);
        }
    }

    fn allowed(&mut self, rules: &Rules, value: &Value, path: &Path<'_>) {
        self.matched += 1;
        let Some(allowed) = &rules.allowed else { return };
        if allowed.iter().any(|candidate| equals(candidate, value)) {
            return;
        }
        let texts: Vec<String> = allowed
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        self.causes.not_supported(path, value, &texts);
    }

    fn object(
        &mut self,
        node: Node<'_>,
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        depth: usize,
    ) {
        let Some(fields) = value.as_object() else { return };
        self.matched += 1;
        let data = node.data();
        if let Some(rules) = data.rules.as_deref() {
            if let Some(limit) = rules.min_properties
                && (fields.len() as u64) < limit
            {
                let detail = format!("{path} in body should have at least {limit} properties");
                self.causes.invalid(path, &Value::from(limit), &detail);
                return;
            }
            if let Some(limit) = rules.max_properties
                && fields.len() as u64 > limit
            {
                self.causes.too_many(path, fields.len(), limit);
                return;
            }
        }
        for (name, field) in fields {
            if let Some(shape) = node.field(name) {
                let old = old.and_then(|old| old.get(name));
                self.node(shape, field, old, &path.field(name), depth + 1);
            }
        }
        for name in &data.required {
            if !fields.contains_key(name.as_ref()) {
                self.causes.required(&path.field(name), "");
            }
        }
    }

    fn items(
        &mut self,
        node: Node<'_>,
        items: &[Value],
        old: Option<&Value>,
        path: &Path<'_>,
        depth: usize,
    ) {
        self.matched += 1;
        let Some(shape) = node.items() else { return };
        let correlation = Correlation::new(node, old);
        for (index, item) in items.iter().enumerate() {
            self.node(shape, item, correlation.old_of(item), &path.index(index), depth + 1);
        }
    }

    fn combinators(
        &mut self,
        node: Node<'_>,
        rules: &Rules,
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        depth: usize,
    ) {
        let try_one = |id| {
            let mut walk = Walk { causes: Causes::default(), matched: 0 };
            walk.node(node.graph().node(id), value, old, path, depth + 1);
            walk
        };
        if !rules.any_of.is_empty() {
            let tried: Vec<Walk> = rules.any_of.iter().map(|id| try_one(*id)).collect();
            if !tried.iter().any(|walk| walk.causes.is_empty()) {
                self.whole(format!("\"{path}\" must validate at least one schema (anyOf)"));
                self.explain(tried);
            }
        }
        if !rules.one_of.is_empty() {
            let tried: Vec<Walk> = rules.one_of.iter().map(|id| try_one(*id)).collect();
            let valid = tried.iter().filter(|walk| walk.causes.is_empty()).count();
            let rule = "must validate one and only one schema (oneOf)";
            if valid == 0 {
                self.whole(format!("\"{path}\" {rule}. Found none valid"));
                self.explain(tried);
            } else if valid > 1 {
                self.whole(format!("\"{path}\" {rule}. Found {valid} valid alternatives"));
            }
        }
        let mut valid = 0;
        for id in &rules.all_of {
            let walk = try_one(*id);
            valid += usize::from(walk.causes.is_empty());
            self.causes.append(walk.causes);
        }
        if valid < rules.all_of.len() {
            let extra = if valid == 0 { ". None validated" } else { "" };
            self.whole(format!("\"{path}\" must validate all the schemas (allOf){extra}"));
        }
        if let Some(not) = rules.not
            && try_one(not).causes.is_empty()
        {
            self.whole(format!("\"{path}\" must not validate the schema (not)"));
        }
    }

    /// A finding that the reference reports without a field.
    fn whole(&mut self, detail: String) {
        self.causes.invalid_text(&Path::ROOT, "", &detail);
    }

    /// Adds what the most promising alternative complained about.
    fn explain(&mut self, tried: Vec<Walk>) {
        let mut best: Option<Walk> = None;
        for walk in tried {
            if best.as_ref().is_none_or(|best| walk.matched > best.matched) {
                best = Some(walk);
            }
        }
        if let Some(best) = best {
            self.causes.append(best.causes);
        }
    }
}

/// The name JSON schema has for the type of a value.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_whole(number: f64) -> bool {
    number.is_finite() && number.fract() == 0.0
}

fn is_integer(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(is_whole)
}

/// JSON equality in which `1` and `1.0` are the same number.
fn equals(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn has_twins(items: &[Value]) -> bool {
    let mut seen = std::collections::HashSet::new();
    !items.iter().all(|item| seen.insert(item.to_string()))
}
