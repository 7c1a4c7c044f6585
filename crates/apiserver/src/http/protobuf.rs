//! How is an object read that arrives as protobuf?
//!
//! Typed Go clients, kubectl's among them, send built-in kinds as protobuf and read JSON back.
//! Objects here are JSON values, so a body is turned into one: a table says which number stands
//! for which field of which message, and [`decode`] walks the wire along it.
//!
//! The table (`fields.txt`) has one line a message, taken from the field tags of Kubernetes v1.35:
//!
//! ```text
//! core.Volume name:1:s! -:2:core.VolumeSource
//!             │    │ ││ └ a field whose own fields stand in its parent's place
//!             │    │ │└ shown even when it holds the zero of its type
//!             │    │ └ s text, b boolean, i integer, f float, y bytes, or a message; * list, % map
//!             │    └ number on the wire
//!             └ name in JSON
//! ```

mod special;
mod wire;

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use self::wire::{Reader, Scalar};

/// Why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ProtobufError {
    #[error("the body is not in the Kubernetes protobuf form")]
    Envelope,
    #[error("the body ends in the middle of a field")]
    Cut,
    #[error("field {number} has wire type {wire}, which does not fit")]
    WireType { number: u64, wire: u8 },
    #[error("text is not UTF-8")]
    Text,
    #[error("messages are nested too deeply")]
    Depth,
    #[error("kind {kind:?} in version {api_version:?} has no protobuf form here")]
    Kind { api_version: String, kind: String },
    #[error("raw JSON inside the message is broken")]
    Json,
}

/// Every body starts with these.
const MAGIC: &[u8] = b"k8s\0";

/// Nesting that no real object reaches.
const MAX_DEPTH: usize = 64;

/// Reads an object with its envelope, which names version and kind.
pub(super) fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::Envelope)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(envelope);
    while let Some(field) = reader.next()? {
        match field.number {
            1 => {
                let mut inner = Reader::new(field.bytes()?);
                while let Some(field) = inner.next()? {
                    match field.number {
                        1 => api_version = field.text()?.to_owned(),
                        2 => kind = field.text()?.to_owned(),
                        _ => {}
                    }
                }
            }
            2 => raw = field.bytes()?,
            _ => {}
        }
    }
    let Some(message) = message_of(&api_version, &kind) else {
        return Err(ProtobufError::Kind { api_version, kind });
    };
    let mut object = read(message, raw, 0)?;
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    Ok(Value::Object(object))
}

type Table = HashMap<&'static str, HashMap<u64, Field>>;

#[derive(Debug)]
struct Field {
    name: &'static str,
    kind: Kind,
    many: Many,
    /// Zero is shown too.
    explicit: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Many {
    One,
    List,
    Map,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Scalar(Scalar),
    Message(&'static str),
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| include_str!("protobuf/fields.txt").lines().filter_map(message).collect());

fn message(line: &'static str) -> Option<(&'static str, HashMap<u64, Field>)> {
    let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
    Some((name, fields.split_whitespace().filter_map(field).collect()))
}

fn field(text: &'static str) -> Option<(u64, Field)> {
    let mut parts = text.split(':');
    let (name, number, kind) = (parts.next()?, parts.next()?, parts.next()?);
    let (kind, explicit) = match kind.strip_suffix('!') {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    let (kind, many) = match (kind.strip_prefix('*'), kind.strip_prefix('%')) {
        (Some(kind), _) => (kind, Many::List),
        (_, Some(kind)) => (kind, Many::Map),
        _ => (kind, Many::One),
    };
    let kind = match kind {
        "s" => Kind::Scalar(Scalar::Text),
        "b" => Kind::Scalar(Scalar::Boolean),
        "i" => Kind::Scalar(Scalar::Integer),
        "f" => Kind::Scalar(Scalar::Float),
        "y" => Kind::Scalar(Scalar::Bytes),
        message => Kind::Message(message),
    };
    Some((number.parse().ok()?, Field { name, kind, many, explicit }))
}

/// The message that carries a kind: `core.Pod`, `apps.Deployment`.
fn message_of(api_version: &str, kind: &str) -> Option<&'static str> {
    let group = match (api_version.split_once('/'), kind) {
        (_, "DeleteOptions") => "meta",
        (Some((group, _)), _) => group.split('.').next().unwrap_or_default(),
        (None, _) => "core",
    };
    TABLE.get_key_value(format!("{group}.{kind}").as_str()).map(|(name, _)| *name)
}

fn read(message: &str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::Depth);
    }
    let mut object = Map::new();
    let Some(fields) = TABLE.get(message) else { return Ok(object) };
    let mut reader = Reader::new(bytes);
    while let Some(found) = reader.next()? {
        // Fields of a newer version than the table's are skipped, as protobuf means it.
        let Some(field) = fields.get(&found.number) else { continue };
        match field.many {
            Many::List => {
                let element = one(field, &found, depth)?.unwrap_or(Value::Null);
                let list = object.entry(field.name).or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(element);
                }
            }
            Many::Map => {
                let (key, value) = entry(field, found.bytes()?, depth)?;
                let map = object.entry(field.name).or_insert_with(|| json!({}));
                if let Some(map) = map.as_object_mut() {
                    map.insert(key, value);
                }
            }
            Many::One => {
                let Some(value) = one(field, &found, depth)? else { continue };
                match value {
                    Value::Object(inner) if field.name == "-" => object.extend(inner),
                    value if field.explicit || !is_zero(&value) => {
                        object.insert(field.name.to_owned(), value);
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(object)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// The value of one occurrence; `None` for times that are not set.
fn one(
    field: &Field,
    found: &wire::Found<'_>,
    depth: usize,
) -> Result<Option<Value>, ProtobufError> {
    match field.kind {
        Kind::Scalar(Scalar::Text) => Ok(Some(json!(found.text()?))),
        Kind::Scalar(Scalar::Boolean) => Ok(Some(json!(found.integer()? != 0))),
        Kind::Scalar(Scalar::Integer) => Ok(Some(json!(found.integer()?))),
        Kind::Scalar(Scalar::Float) => Ok(Some(json!(found.float()?))),
        Kind::Scalar(Scalar::Bytes) => Ok(Some(json!(STANDARD.encode(found.bytes()?)))),
        Kind::Message(name) => match special::read(name, found.bytes()?, depth)? {
            Some(value) => Ok(Some(value).filter(|value| !value.is_null())),
            None => Ok(Some(Value::Object(read(name, found.bytes()?, depth + 1)?))),
        },
    }
}

/// One entry of a map: key and value are fields 1 and 2 of a message.
fn entry(field: &Field, bytes: &[u8], depth: usize) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut value) = (String::new(), None);
    let mut reader = Reader::new(bytes);
    while let Some(found) = reader.next()? {
        match found.number {
            1 => key = found.text()?.to_owned(),
            2 => value = one(field, &found, depth)?,
            _ => {}
        }
    }
    let empty = match field.kind {
        Kind::Scalar(Scalar::Text | Scalar::Bytes) => json!(""),
        _ => json!({}),
    };
    Ok((key, value.unwrap_or(empty)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::kinds::Registry;

    /// A length-delimited field.
    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        out.extend(content);
        out
    }

    fn number(field: u8, value: u8) -> Vec<u8> {
        vec![field << 3, value]
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &meta), bytes(2, raw)].concat()
    }

    #[test]
    fn every_served_kind_has_a_message() {
        for served in Registry::built_in().resources() {
            let found = message_of(&served.api_version(), &served.kind);
            assert!(found.is_some(), "{} {}", served.api_version(), served.kind);
        }
        for fields in TABLE.values() {
            for field in fields.values() {
                if let Kind::Message(name) = field.kind {
                    let known = TABLE.contains_key(name) || special::knows(name);
                    assert!(known, "{name}");
                }
            }
        }
    }

    #[test]
    fn a_pod_is_read_as_its_json() {
        let quantity = bytes(1, b"500m");
        let cpu = [bytes(1, b"cpu"), bytes(2, &quantity)].concat();
        let resources = bytes(2, &cpu);
        let volume = [bytes(1, b"v"), bytes(2, &bytes(2, &[]))].concat();
        let spec = [
            bytes(1, &volume),
            bytes(2, &[bytes(1, b"main"), bytes(2, b"host"), bytes(8, &resources)].concat()),
            number(4, 0),
            bytes(6, b""),
        ]
        .concat();
        let label = [bytes(1, b"app"), bytes(2, b"web")].concat();
        let metadata = [bytes(1, b"p"), bytes(2, b""), bytes(8, &[]), bytes(11, &label)].concat();
        let pod = [bytes(1, &metadata), bytes(2, &spec)].concat();
        assert_eq!(
            decode(&envelope("v1", "Pod", &pod)).unwrap(),
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "labels": {"app": "web"}},
                "spec": {
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "containers": [
                        {"name": "main", "image": "host", "resources": {"requests": {"cpu": "500m"}}},
                    ],
                    "terminationGracePeriodSeconds": 0,
                },
            })
        );
    }

    #[test]
    fn broken_bodies_are_refused() {
        let cases = [
            ("no magic", b"{}".to_vec(), ProtobufError::Envelope),
            (
                "unknown kind",
                envelope("v1", "Nothing", &[]),
                ProtobufError::Kind { api_version: "v1".into(), kind: "Nothing".into() },
            ),
            ("cut", envelope("v1", "Pod", &[0x0a, 9, 1]), ProtobufError::Cut),
            (
                "a number where a message should be",
                envelope("v1", "Pod", &number(1, 1)),
                ProtobufError::WireType { number: 1, wire: 0 },
            ),
        ];
        for (name, body, want) in cases {
            assert_eq!(decode(&body), Err(want), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(raw in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = decode(&envelope("v1", "Pod", &raw));
            let _ = decode(&raw);
        }
    }
}
