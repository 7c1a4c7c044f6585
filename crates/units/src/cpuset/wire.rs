//! How do CPU sets travel in JSON? As strings in the list form.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use super::CpuSet;

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(CpuSetVisitor)
    }
}

struct CpuSetVisitor;

impl Visitor<'_> for CpuSetVisitor {
    type Value = CpuSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cpu set as a string such as \"0-3,8\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<CpuSet, E> {
        text.parse().map_err(E::custom)
    }
}

impl JsonSchema for CpuSet {
    fn schema_name() -> Cow<'static, str> {
        "CpuSet".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-tidepool-kind": "cpuset" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn travels_as_a_list() {
        let set: CpuSet = serde_json::from_str(r#""8,0-3""#).unwrap();
        assert_eq!(serde_json::to_string(&set).unwrap(), r#""0-3,8""#);
        assert_eq!(serde_json::to_string(&CpuSet::new()).unwrap(), r#""""#);
    }

    #[test]
    fn anything_but_a_list_is_refused() {
        let cases = [
            ("3", "expected a cpu set as a string such as \"0-3,8\""),
            ("[0, 1]", "expected a cpu set as a string such as \"0-3,8\""),
            ("null", "expected a cpu set as a string such as \"0-3,8\""),
            ("\"3-1\"", "the range 3-1 runs backwards"),
        ];
        for (json, want) in cases {
            let error = serde_json::from_str::<CpuSet>(json).unwrap_err().to_string();
            assert!(error.contains(want), "{json}: {error}");
        }
    }

    #[test]
    fn schema_is_a_marked_string() {
        let schema = serde_json::to_value(SchemaGenerator::default().subschema_for::<CpuSet>());
        let want = serde_json::json!({ "type": "string", "x-tidepool-kind": "cpuset" });
        assert_eq!(schema.unwrap(), want);
    }
}
