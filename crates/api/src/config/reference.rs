//! What can be configured at all? The page is made from the types' own field
//! docs, the defaults and the limits, so it cannot drift from them.

use serde_json::{Map, Value as Json};

use super::defaults::{agent_qos, built_in};
use super::limits::limits;
use super::{Key, Layer};
use crate::shape::{Shape, optional, type_of};

/// The configuration reference as Markdown.
pub fn page() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         The ConfigMap `koordinator-system/slo-controller-config`. Each key holds a JSON text. A key\n\
         with `clusterStrategy` lists node entries under `nodeStrategies`, the others have their\n\
         fields at the top and node entries under `nodeConfigs`. A node entry is a `name`, a\n\
         `nodeSelector` and any of the fields; the first entry that selects a node changes just the\n\
         fields it gives. Defaults of `resource-qos-config` are filled in by the node agent.\n\n\
         Keys that begin with `tidepool-` are Tidepool's own. They are strict: a field or a word that\n\
         is not known refuses the key, and what was in force before stays. The manager writes them\n\
         into the `extensions` of each NodeSLO; other components ignore them.\n",
    );
    for key in Key::ALL {
        let fields = match key.cluster_field() {
            Some(field) => format!("`{field}`, `{}`", key.entries_field()),
            None => format!("fields inline, `{}`", key.entries_field()),
        };
        page +=
            &format!("\n## {key}\n\n{fields}\n\n| field | type | default | limits | meaning |\n");
        page += "|---|---|---|---|---|\n";
        let defaults = if key == Key::Qos { agent_qos() } else { built_in(key) };
        let mut rows = Rows { key, defaults, page: String::new() };
        rows.walk(&key.schema(), &mut Vec::new());
        page += &rows.page;
    }
    page
}

struct Rows {
    key: Key,
    defaults: Layer,
    page: String,
}

impl Rows {
    fn walk(&mut self, schema: &Json, path: &mut Vec<String>) {
        let Some(schema) = schema.as_object() else { return };
        let inner = optional(schema).and_then(Json::as_object).unwrap_or(schema);
        let properties = inner.get("properties").and_then(Json::as_object);
        for (name, property) in properties.into_iter().flatten() {
            path.push(name.clone());
            self.row(property, path);
            self.descend(property, path);
            path.pop();
        }
    }

    fn descend(&mut self, schema: &Json, path: &mut Vec<String>) {
        let shape = Shape::from_schema(schema);
        let part = match shape {
            // Classes share their fields; one of them is listed.
            Shape::Object(_) if self.key == Key::Qos && is_other_class(path) => return,
            Shape::Object(_) => return self.walk(schema, path),
            Shape::List(_) => ("[]", "items"),
            Shape::Map(_) => ("*", "additionalProperties"),
            _ => return,
        };
        let Some(inner) = inner_object(schema).and_then(|schema| schema.get(part.1)) else {
            return;
        };
        path.push(part.0.to_owned());
        self.walk(inner, path);
        path.pop();
    }

    fn row(&mut self, schema: &Json, path: &[String]) {
        let shape = Shape::from_schema(schema);
        let meaning = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let default = match self.defaults.get(&names) {
            Some(leaf) => format!("`{}`", leaf.value),
            None => String::new(),
        };
        let limits = limits(self.key).iter().filter(|limit| reaches(limit.pattern, path));
        let limits: Vec<String> = limits.map(|limit| limit.rule.allowed()).collect();
        self.page += &format!(
            "| `{}` | {} | {default} | {} | {meaning} |\n",
            path.join(".").replace(".[]", "[]"),
            type_name(&shape),
            limits.join("; "),
        );
    }
}

fn inner_object(schema: &Json) -> Option<&Map<String, Json>> {
    let schema = schema.as_object()?;
    debug_assert!(optional(schema).is_some() || type_of(schema).is_some());
    Some(optional(schema).and_then(Json::as_object).unwrap_or(schema))
}

fn is_other_class(path: &[String]) -> bool {
    matches!(path, [class] if ["lsrClass", "lsClass", "systemClass", "cgroupRoot"].contains(&class.as_str()))
}

fn reaches(pattern: &str, path: &[String]) -> bool {
    let pattern: Vec<&str> = pattern.split('.').collect();
    pattern.len() == path.len()
        && pattern.iter().zip(path).all(|(wanted, name)| *wanted == "*" || *wanted == name)
}

fn type_name(shape: &Shape) -> &'static str {
    match shape {
        Shape::Any => "any",
        Shape::Bool => "boolean",
        Shape::Int { .. } => "integer",
        Shape::Float => "number",
        Shape::Text | Shape::Word(_) => "text",
        Shape::IntOrText => "percent or bandwidth",
        Shape::Duration => "duration",
        Shape::Quantity => "quantity",
        Shape::CpuSet => "CPU list",
        Shape::List(_) => "list",
        Shape::Map(_) => "map",
        Shape::Object(_) => "object",
    }
}
