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
