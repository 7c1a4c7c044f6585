//! How do durations travel in JSON? As strings; a number would not say its unit.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use super::GoDuration;

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = GoDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration as a string such as \"5m\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<GoDuration, E> {
        text.parse().map_err(E::custom)
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-tidepool-kind": "duration" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn travels_as_a_canonical_string() {
        let ttl: GoDuration = serde_json::from_str(r#""24h""#).unwrap();
        assert_eq!(serde_json::to_string(&ttl).unwrap(), r#""24h0m0s""#);
    }

    #[test]
    fn anything_but_a_duration_string_is_refused() {
        let cases = [
            ("300", "expected a duration as a string such as \"5m\""),
            ("1.5", "expected a duration as a string such as \"5m\""),
            ("null", "expected a duration as a string such as \"5m\""),
            ("\"300\"", "expected one of the units ns us ms s m h at byte 3, found the end"),
        ];
        for (json, want) in cases {
            let error = serde_json::from_str::<GoDuration>(json).unwrap_err().to_string();
            assert!(error.contains(want), "{json}: {error}");
        }
    }

    #[test]
    fn schema_is_a_marked_string() {
        let schema = serde_json::to_value(SchemaGenerator::default().subschema_for::<GoDuration>());
        let want = serde_json::json!({ "type": "string", "x-tidepool-kind": "duration" });
        assert_eq!(schema.unwrap(), want);
    }
}
