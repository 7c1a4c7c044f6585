//! Which fields does the schema not know?

use std::fmt::Write;

use serde_json::Value;

use super::MAX_DEPTH;
use super::graph::{Additional, Node, Type};

/// Drops unknown fields below `node` and returns where they were.
pub(super) fn prune(node: Node<'_>, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), dropped: Vec::new() };
    pruner.walk(node, object, 0);
    pruner.dropped
}

struct Pruner {
    path: String,
    dropped: Vec<String>,
}

impl Pruner {
    fn walk(&mut self, node: Node<'_>, value: &mut Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::Object(fields) => {
                let data = node.data();
                let keeps_unknown =
                    data.preserve_unknown || data.additional == Additional::Open || is_free(node);
                let length = self.path.len();
                fields.retain(|name, value| {
                    self.enter_field(name);
                    let kept = match node.field(name) {
                        Some(field) => {
                            self.walk(field, value, depth + 1);
                            true
                        }
                        None => keeps_unknown,
                    };
                    if !kept {
                        self.dropped.push(self.path.clone());
                    }
                    self.path.truncate(length);
                    kept
                });
            }
            Value::Array(items) => {
                let Some(shape) = node.items() else { return };
                let length = self.path.len();
                for (index, item) in items.iter_mut().enumerate() {
                    // Writing to a String cannot fail.
                    let _ = write!(self.path, "[{index}]");
                    self.walk(shape, item, depth + 1);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn enter_field(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }
}

/// A node without any statement about its content.
fn is_free(node: Node<'_>) -> bool {
    let data = node.data();
    data.kind == Type::Any && data.properties.is_empty() && data.items.is_none()
}
