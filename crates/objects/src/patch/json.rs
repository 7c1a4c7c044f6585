//! JSON patch.
//!
//! RFC 6902 through the `json-patch` crate, one operation at a time, with the deviations of the library that
//! kube-apiserver uses:
//!
//! - `replace` sets a field that is not there yet;
//! - an absent field counts as null for `test` and `copy`, and so does a missing `value`;
//! - a negative position counts from the end of a list;
//! - the whole document can be replaced and tested, but not added, removed, moved or copied;
//! - copies may add up to a limit.

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchOperation, RemoveOperation, ReplaceOperation,
    TestOperation,
};
use serde_json::{Map, Value};

use super::{MAX_OPERATIONS, PatchError};
use crate::apply::same;
use crate::patch::go_text;

/// Bytes that all `copy` operations of a patch may add together.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Nesting that a result may have; JSON nested deeper could be stored but not be read again.
const MAX_NESTING: usize = 120;

/// The object after a JSON patch.
pub fn json(object: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let operations = decode(patch)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let mut document = Document { value: object.clone(), nesting: nesting(object), copied: 0 };
    for operation in &operations {
        document.run(operation).map_err(PatchError::Unprocessable)?;
    }
    Ok(document.value)
}

fn decode(patch: &[u8]) -> Result<Vec<Map<String, Value>>, PatchError> {
    let bad = |problem: String| PatchError::BadRequest(format!("error decoding patch: {problem}"));
    let misfit = |value: &Value, place: &str| {
        bad(format!("json: cannot unmarshal {} into Go {place}", go_text::json_kind(value)))
    };
    let patch: Value = serde_json::from_slice(patch).map_err(|error| {
        bad(if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else {
            error.to_string()
        })
    })?;
    let operations = match patch {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => return Err(misfit(&other, "value of type []handlers.jsonPatchOp")),
    };
    let mut decoded = Vec::with_capacity(operations.len());
    for operation in operations {
        let operation = match operation {
            Value::Object(operation) => operation,
            Value::Null => Map::new(),
            other => return Err(misfit(&other, "value of type handlers.jsonPatchOp")),
        };
        for name in ["op", "path", "from"] {
            if let Some(value) = operation.get(name).filter(|it| !it.is_string() && !it.is_null()) {
                return Err(misfit(
                    value,
                    &format!("struct field jsonPatchOp.{name} of type string"),
                ));
            }
        }
        decoded.push(operation);
    }
    Ok(decoded)
}

struct Document {
    value: Value,
    /// No value is nested deeper than this.
    nesting: usize,
    copied: usize,
}

impl Document {
    fn run(&mut self, operation: &Map<String, Value>) -> Result<(), String> {
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let op = text("op").unwrap_or("unknown");
        if !["add", "remove", "replace", "move", "test", "copy"].contains(&op) {
            return Err(format!("Unexpected kind: {op}"));
        }
        let path = text("path").ok_or_else(|| format!("{op} operation failed to decode path"))?;
        let value = operation.get("value").cloned().unwrap_or_default();
        if path.is_empty() && (op == "replace" || op == "test") {
            return self.run_on_root(op, value);
        }
        let adds = matches!(op, "add" | "move" | "copy");
        let operation = match op {
            "move" | "copy" => {
                let from =
                    text("from").ok_or_else(|| format!("{op} operation failed to decode from"))?;
                let from = self.pointer(op, from, false)?;
                let path = self.pointer(op, path, adds)?;
                self.admit_move(op, &from, &path)?;
                if op == "move" {
                    PatchOperation::Move(MoveOperation { from, path })
                } else if self.is_absent(&from) {
                    PatchOperation::Add(AddOperation { path, value: Value::Null })
                } else {
                    PatchOperation::Copy(CopyOperation { from, path })
                }
            }
            _ => {
                let path = self.pointer(op, path, adds)?;
                match op {
                    "remove" => PatchOperation::Remove(RemoveOperation { path }),
                    "test" => {
                        if value.is_null() && self.is_absent(&path) {
                            return Ok(());
                        }
                        PatchOperation::Test(TestOperation { path, value })
                    }
                    _ => {
                        self.admit(path.tokens().count() + nesting(&value))?;
                        self.write(op, path, value)
                    }
                }
            }
        };
        // A failed operation ends the patch, so nothing has to be undone.
        json_patch::patch_unsafe(&mut self.value, std::slice::from_ref(&operation)).map_err(
            |error| match error.kind {
                json_patch::PatchErrorKind::TestFailed => {
                    format!("testing value {path} failed: test failed")
                }
                kind => format!("{op} operation does not apply: {path}: {kind}"),
            },
        )
    }

    fn run_on_root(&mut self, op: &str, value: Value) -> Result<(), String> {
        if op == "test" {
            return if same(&self.value, &value) {
                Ok(())
            } else {
                Err("testing value  failed: test failed".to_owned())
            };
        }
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".to_owned());
        }
        self.nesting = nesting(&value);
        self.value = value;
        Ok(())
    }

    /// `replace` of a field that is absent is the same as `add`; positions in lists must exist.
    fn write(&self, op: &str, path: PointerBuf, value: Value) -> PatchOperation {
        let of_map = path
            .parent()
            .and_then(|parent| self.value.pointer(parent.as_str()))
            .is_some_and(Value::is_object);
        if op == "add" || of_map {
            PatchOperation::Add(AddOperation { path, value })
        } else {
            PatchOperation::Replace(ReplaceOperation { path, value })
        }
    }

    /// True when the field is missing from a map that exists.
    fn is_absent(&self, path: &PointerBuf) -> bool {
        let parent = path.parent().and_then(|parent| self.value.pointer(parent.as_str()));
        parent.is_some_and(Value::is_object) && self.value.pointer(path.as_str()).is_none()
    }

    /// Reads a path and turns negative positions into real ones.
    fn pointer(&self, op: &str, path: &str, adds: bool) -> Result<PointerBuf, String> {
        let missing = || format!("{op} operation does not apply: doc is missing path: \"{path}\"");
        let tokens: Vec<&str> = path.strip_prefix('/').ok_or_else(missing)?.split('/').collect();
        let mut place = Some(&self.value);
        let mut resolved = String::with_capacity(path.len());
        for (at, token) in tokens.iter().enumerate() {
            let mut token = (*token).to_owned();
            if let Some(Value::Array(list)) = place
                && let Some(back) = token.strip_prefix('-').and_then(|digits| digits.parse().ok())
            {
                let end = list.len() + usize::from(adds && at + 1 == tokens.len());
                let place = if back == 0 { Some(0) } else { end.checked_sub(back) };
                token = place.ok_or_else(missing)?.to_string();
            }
            resolved.push('/');
            resolved.push_str(&token);
            place = place.and_then(|place| place.pointer(&format!("/{token}")));
        }
        PointerBuf::parse(resolved).map_err(|_| missing())
    }

    fn admit(&mut self, nesting: usize) -> Result<(), String> {
        if nesting > MAX_NESTING {
            return Err(format!("the result would be nested deeper than {MAX_NESTING} levels"));
        }
        self.nesting = self.nesting.max(nesting);
        Ok(())
    }

    /// Refuses moves and copies whose result would be too deep or too large.
    fn admit_move(&mut self, op: &str, from: &PointerBuf, to: &PointerBuf) -> Result<(), String> {
        let (source, depth) = (self.value.pointer(from.as_str()), to.tokens().count());
        if op == "copy" {
            let size = source.map_or(0, |source| source.to_string().len());
            self.copied += size;
            if self.copied > MAX_COPIED {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {}, \
                     exceeding the limit {MAX_COPIED}",
                    self.copied
                ));
            }
        }
        let rough = depth + self.nesting.saturating_sub(from.tokens().count());
        let nesting = if rough > MAX_NESTING { depth + source.map_or(0, nesting) } else { rough };
        self.admit(nesting)
    }
}

/// How deep lists and maps are nested: 0 for a scalar.
fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(nesting).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
pub(super) mod tests;
