//! Moving from client-side to server-side apply.
//!
//! `kubectl apply` without `--server-side` keeps the last manifest in an annotation and writes with `Update`.
//! When the same person switches over, the manager `kubectl` would conflict with those updates. Fields that
//! stand in the annotation with the value they still have were kubectl's all along, so conflicts over
//! them are void. The annotation is kept current afterwards, so that the way back works too.

use serde_json::Value;

use super::compare;
use super::extract::fields;
use super::field_set::FieldSet;
use super::shape::Shape;

/// The only manager that inherits from the annotation.
pub(super) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields that client-side apply owns by its annotation on the live object.
pub(super) fn inherited(live: &Value, api_version: &str, shape: Shape<'_>) -> Option<FieldSet> {
    let manifest: Value = serde_json::from_str(annotation(live)?).ok()?;
    if manifest.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    let changes = compare::objects(&manifest, live, shape);
    let mut fields = fields(&manifest, shape);
    for changed in [changes.modified, changes.added, changes.removed] {
        fields = fields.difference(&changed);
    }
    Some(fields)
}

/// Records the intent in the annotation if the object has one.
pub(super) fn refresh(object: &mut Value, intent: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut manifest = intent.clone();
    if let Some(Value::Object(annotations)) = manifest.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        // The encoder of the reference ends the text with a newline.
        annotations.insert(ANNOTATION.to_owned(), Value::String(format!("{manifest}\n")));
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.pointer("/metadata/annotations")?;
    annotations.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}
