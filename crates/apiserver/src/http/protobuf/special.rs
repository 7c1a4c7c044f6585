//! Messages whose JSON form is not an object: times, quantities, numbers-or-text, raw JSON.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::wire::Reader;
use super::{ProtobufError, read as read_message};
use crate::http::source::{micros, seconds};

const SCHEMA: &str = "apiextensions.JSONSchemaProps";

const KNOWN: [&str; 11] = [
    "meta.Time",
    "meta.MicroTime",
    "meta.FieldsV1",
    "resource.Quantity",
    "intstr.IntOrString",
    "runtime.RawExtension",
    "apiextensions.JSON",
    "apiextensions.JSONSchemaPropsOrArray",
    "apiextensions.JSONSchemaPropsOrBool",
    "apiextensions.JSONSchemaPropsOrStringArray",
    "authentication.ExtraValue",
];

/// Whether this module reads a message.
#[cfg(test)]
pub(super) fn knows(message: &str) -> bool {
    KNOWN.contains(&message) || message == "authorization.ExtraValue"
}

/// The JSON form of a special message, `null` when it is unset; `None` for ordinary messages.
pub(super) fn read(
    message: &str,
    bytes: &[u8],
    depth: usize,
) -> Result<Option<Value>, ProtobufError> {
    if !KNOWN.contains(&message) && message != "authorization.ExtraValue" {
        return Ok(None);
    }
    let value = match message {
        "meta.Time" => time(bytes)?.map_or(Value::Null, |moment| json!(seconds(moment))),
        "meta.MicroTime" => time(bytes)?.map_or(Value::Null, |moment| json!(micros(moment))),
        "resource.Quantity" => text(bytes)?,
        "intstr.IntOrString" => int_or_string(bytes)?,
        "meta.FieldsV1" | "runtime.RawExtension" | "apiextensions.JSON" => raw(bytes)?,
        "apiextensions.JSONSchemaPropsOrArray" => either(bytes, depth, |number| number == 2)?,
        "apiextensions.JSONSchemaPropsOrBool" => schema_or_bool(bytes, depth)?,
        "apiextensions.JSONSchemaPropsOrStringArray" => schema_or_texts(bytes, depth)?,
        _ => texts(bytes)?,
    };
    Ok(Some(value))
}

fn time(bytes: &[u8]) -> Result<Option<Timestamp>, ProtobufError> {
    let (mut whole, mut nanos, mut any) = (0, 0, false);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        any = true;
        match field.number {
            1 => whole = field.integer()?,
            2 => nanos = field.integer()?,
            _ => {}
        }
    }
    let nanos = i32::try_from(nanos).unwrap_or(0);
    Ok(Timestamp::new(whole, nanos).ok().filter(|_| any))
}

/// The text of field 1.
fn text(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut value = json!("");
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        if field.number == 1 {
            value = json!(field.text()?);
        }
    }
    Ok(value)
}

fn texts(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut list = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        if field.number == 1 {
            list.push(field.text()?);
        }
    }
    Ok(json!(list))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match field.number {
            1 => is_text = field.integer()? == 1,
            2 => number = field.integer()?,
            3 => text = field.text()?,
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

/// JSON text in field 1.
fn raw(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut value = Value::Null;
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        if field.number == 1 && !field.bytes()?.is_empty() {
            value = serde_json::from_slice(field.bytes()?).map_err(|_| ProtobufError::Json)?;
        }
    }
    Ok(value)
}

/// A schema in field 1, or a list of them in the field that `many` names.
fn either(bytes: &[u8], depth: usize, many: impl Fn(u64) -> bool) -> Result<Value, ProtobufError> {
    let (mut single, mut list) = (Value::Null, Vec::new());
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        let schema = Value::Object(read_message(SCHEMA, field.bytes()?, depth + 1)?);
        if many(field.number) {
            list.push(schema);
        } else {
            single = schema;
        }
    }
    Ok(if list.is_empty() { single } else { json!(list) })
}

fn schema_or_bool(bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let mut value = json!(false);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match field.number {
            1 if !value.is_object() => value = json!(field.integer()? != 0),
            2 => value = Value::Object(read_message(SCHEMA, field.bytes()?, depth + 1)?),
            _ => {}
        }
    }
    Ok(value)
}

fn schema_or_texts(bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let mut value = json!([]);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, value.as_array_mut()) {
            (1, _) => value = Value::Object(read_message(SCHEMA, field.bytes()?, depth + 1)?),
            (2, Some(list)) => list.push(json!(field.text()?)),
            _ => {}
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_messages_have_their_json_form() {
        let cases: [(&str, &[u8], Value); 7] = [
            ("meta.Time", &[0x08, 0x01], json!("1970-01-01T00:00:01Z")),
            ("meta.Time", &[], Value::Null),
            (
                "meta.MicroTime",
                &[0x08, 0x01, 0x10, 0xe8, 0x07],
                json!("1970-01-01T00:00:01.000001Z"),
            ),
            ("intstr.IntOrString", &[0x08, 0x00, 0x10, 0x07], json!(7)),
            ("intstr.IntOrString", &[0x08, 0x01, 0x1a, 0x03, b'5', b'0', b'%'], json!("50%")),
            ("resource.Quantity", &[0x0a, 0x02, b'1', b'k'], json!("1k")),
            ("runtime.RawExtension", &[0x0a, 0x02, b'{', b'}'], json!({})),
        ];
        for (message, bytes, want) in cases {
            assert_eq!(read(message, bytes, 0), Ok(Some(want)), "{message}");
        }
        assert_eq!(read("core.Pod", &[], 0), Ok(None));
        assert_eq!(read("apiextensions.JSON", &[0x0a, 0x01, b'{'], 0), Err(ProtobufError::Json));
    }
}
