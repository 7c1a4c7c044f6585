//! How does an object learn its revision without being serialised twice?
//!
//! The revision is known only to the writer, which must not spend its time on
//! JSON. So the caller serialises the object with a hole where
//! `metadata.resourceVersion` goes, and the writer fills the hole.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{error::WriteError, key::Revision};

const METADATA: &str = "metadata";
const RESOURCE_VERSION: &str = "resourceVersion";
/// The longest revision, in decimal digits.
const LONGEST_REVISION: usize = 20;

/// An object's compact JSON, complete except for its revision.
#[derive(Debug)]
pub(super) struct Body {
    text: Vec<u8>,
    hole: usize,
}

impl Body {
    /// Serialises an object whose JSON may take up to `limit` bytes.
    pub(super) fn new(object: Value, limit: usize) -> Result<Self, WriteError> {
        let Value::Object(mut fields) = object else { return Err(WriteError::NotAnObject) };
        let metadata = fields.entry(METADATA).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(metadata) = metadata else { return Err(WriteError::NotAnObject) };
        metadata.insert(RESOURCE_VERSION.to_owned(), Value::String(String::new()));

        let mut text = Vec::with_capacity(1024);
        let mut hole = 0;
        write_fields(&mut text, &fields, |text, name, value| match value {
            Value::Object(metadata) if name == METADATA => {
                write_fields(text, metadata, |text, name, value| {
                    if name == RESOURCE_VERSION {
                        hole = text.len().saturating_add(1);
                    }
                    write_value(text, value)
                })
            }
            other => write_value(text, other),
        })?;

        let bytes = text.len().saturating_add(LONGEST_REVISION);
        if bytes > limit {
            return Err(WriteError::TooLarge { bytes, limit });
        }
        Ok(Self { text, hole })
    }

    /// The finished object.
    pub(super) fn at(&self, revision: Revision) -> Arc<[u8]> {
        let (before, after) = self.text.split_at(self.hole.min(self.text.len()));
        [before, revision.to_string().as_bytes(), after].concat().into()
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }
}

fn write_fields(
    text: &mut Vec<u8>,
    fields: &Map<String, Value>,
    mut write: impl FnMut(&mut Vec<u8>, &str, &Value) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    text.push(b'{');
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        serde_json::to_writer(&mut *text, name).map_err(WriteError::Encoding)?;
        text.push(b':');
        write(text, name, value)?;
    }
    text.push(b'}');
    Ok(())
}

fn write_value(text: &mut Vec<u8>, value: &Value) -> Result<(), WriteError> {
    serde_json::to_writer(text, value).map_err(WriteError::Encoding)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a\"\\\\\u{e9}\n:]{0,6}".prop_map(Value::from),
        ];
        let name =
            prop_oneof![Just("metadata".to_owned()), Just("resourceVersion".to_owned()), "[a-z]"];
        leaf.prop_recursive(3, 20, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map(name.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn filling_the_hole_is_the_same_as_setting_the_field(
            mut object in json(),
            revision in any::<u64>(),
        ) {
            let body = Body::new(object.clone(), usize::MAX);
            let metadata = object.as_object_mut().and_then(|fields| {
                fields.entry(METADATA).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
            });
            let Some(metadata) = metadata else {
                prop_assert!(matches!(body, Err(WriteError::NotAnObject)));
                return Ok(());
            };
            metadata.insert(RESOURCE_VERSION.to_owned(), Value::from(revision.to_string()));
            let text = body.unwrap().at(Revision(revision));
            prop_assert_eq!(String::from_utf8(text.to_vec()).unwrap(), object.to_string());
        }
    }
}
