//! How do quantities travel in JSON, and what does a CRD schema say about them?
//!
//! Written as a string. Read from a string (surrounding white space is dropped, as Kubernetes
//! does), from a JSON number, or from `null`, which Kubernetes takes for zero.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use super::Quantity;

/// The pattern that every CRD schema of the reference carries.
const PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"1500m\", \"20Gi\" or 4")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        text.trim().parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    /// By the time a fractional JSON number arrives it is a float; its shortest text is the
    /// number that was written, up to 15 digits.
    fn visit_f64<E: Error>(self, value: f64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_unit<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": PATTERN,
            "x-kubernetes-int-or-string": true,
            "x-tidepool-kind": "quantity",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Format;

    #[test]
    fn json_forms_that_are_read() {
        let cases = [
            ("string", r#""1500m""#, "1500m"),
            ("string with white space", r#"" 20Gi\n""#, "20Gi"),
            ("escaped string", r#""\u0032k""#, "2k"),
            ("integer", "4", "4"),
            ("negative integer", "-4000", "-4k"),
            ("largest unsigned", "18446744073709551615", "18446744073709551615"),
            ("fraction", "1.5", "1500m"),
            ("fraction that binary cannot express", "0.1", "100m"),
            ("small fraction", "0.000001", "1u"),
            ("exponent", "1e3", "1k"),
            ("huge number", "1e300", "100e27"),
            ("null is zero", "null", "0"),
        ];
        for (name, json, want) in cases {
            let quantity: Quantity = serde_json::from_str(json).unwrap();
            assert_eq!(quantity.to_string(), want, "{name}");
        }
        let integer: Quantity = serde_json::from_str("2048").unwrap();
        assert_eq!(integer.format(), Format::DecimalSi);
    }

    #[test]
    fn json_forms_that_are_refused() {
        let cases = [
            ("\"\"", "expected a digit at byte 0, found the end"),
            ("\"1 k\"", "at byte 1, found ' '"),
            ("\"12GB\"", "found 'G'"),
            ("true", "expected a quantity such as \"1500m\", \"20Gi\" or 4"),
            ("[4]", "expected a quantity such as"),
            ("{}", "expected a quantity such as"),
        ];
        for (json, want) in cases {
            let error = serde_json::from_str::<Quantity>(json).unwrap_err().to_string();
            assert!(error.contains(want), "{json}: {error}");
        }
    }

    #[test]
    fn absent_null_and_zero_differ_in_an_option() {
        let read: BTreeMap<String, Option<Quantity>> =
            serde_json::from_str(r#"{"cpu": null, "memory": "0"}"#).unwrap();
        assert_eq!(read["cpu"], None);
        assert_eq!(read["memory"], Some(Quantity::ZERO));
    }

    #[test]
    fn written_as_a_string_even_when_whole() {
        let memory = Quantity::from_int(5_862_330_450, Format::BinarySi);
        assert_eq!(serde_json::to_string(&memory).unwrap(), r#""5862330450""#);
        assert_eq!(serde_json::to_string(&Quantity::ZERO).unwrap(), r#""0""#);
    }

    #[test]
    fn schema_is_the_structural_int_or_string() {
        let schema = serde_json::to_value(SchemaGenerator::default().subschema_for::<Quantity>());
        let want = serde_json::json!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
            "x-tidepool-kind": "quantity",
        });
        assert_eq!(schema.unwrap(), want);
    }
}
