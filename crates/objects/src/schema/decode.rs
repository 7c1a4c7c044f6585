//! What a Go server could not decode.
//!
//! kube-apiserver reads built-in kinds into Go structures, so a value of the wrong type never reaches
//! validation: the answer is 400 with the decoder's own message. Clients and people know these messages,
//! so they are made here from the schema: the name of the innermost structure, the path without indices, and
//! the Go type of the field.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use units::Quantity;

use super::MAX_DEPTH;
use super::format::{self, Format};
use super::graph::{Node, Type};

const QUANTITY_RULE: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Fields whose Go type is a named string, as the decoder prints it.
const NAMED_STRINGS: &[(&str, &str, &str)] = &[
    ("ObjectMeta", "uid", "types.UID"),
    ("OwnerReference", "uid", "types.UID"),
    ("ObjectReference", "uid", "types.UID"),
    ("PodSpec", "restartPolicy", "v1.RestartPolicy"),
    ("PodSpec", "dnsPolicy", "v1.DNSPolicy"),
    ("PodSpec", "preemptionPolicy", "v1.PreemptionPolicy"),
    ("PodStatus", "phase", "v1.PodPhase"),
    ("PodStatus", "qosClass", "v1.PodQOSClass"),
    ("Container", "imagePullPolicy", "v1.PullPolicy"),
    ("Container", "terminationMessagePolicy", "v1.TerminationMessagePolicy"),
    ("Container", "restartPolicy", "v1.ContainerRestartPolicy"),
    ("ContainerPort", "protocol", "v1.Protocol"),
    ("ServicePort", "protocol", "v1.Protocol"),
    ("ServiceSpec", "type", "v1.ServiceType"),
    ("ServiceSpec", "sessionAffinity", "v1.ServiceAffinity"),
    ("ServiceSpec", "externalTrafficPolicy", "v1.ServiceExternalTrafficPolicy"),
    ("ServiceSpec", "internalTrafficPolicy", "v1.ServiceInternalTrafficPolicy"),
    ("Secret", "type", "v1.SecretType"),
    ("Toleration", "operator", "v1.TolerationOperator"),
    ("Toleration", "effect", "v1.TaintEffect"),
    ("Taint", "effect", "v1.TaintEffect"),
    ("TopologySpreadConstraint", "whenUnsatisfiable", "v1.UnsatisfiableConstraintAction"),
    ("HTTPGetAction", "scheme", "v1.URIScheme"),
    ("NodeSelectorRequirement", "operator", "v1.NodeSelectorOperator"),
    ("LabelSelectorRequirement", "operator", "v1.LabelSelectorOperator"),
    ("DeploymentStrategy", "type", "v1.DeploymentStrategyType"),
    ("DaemonSetUpdateStrategy", "type", "v1.DaemonSetUpdateStrategyType"),
    ("StatefulSetUpdateStrategy", "type", "v1.StatefulSetUpdateStrategyType"),
    ("StatefulSetSpec", "podManagementPolicy", "v1.PodManagementPolicyType"),
    ("JobSpec", "completionMode", "v1.CompletionMode"),
    ("CronJobSpec", "concurrencyPolicy", "v1.ConcurrencyPolicy"),
    ("PodCondition", "type", "v1.PodConditionType"),
    ("PodCondition", "status", "v1.ConditionStatus"),
    ("NodeCondition", "type", "v1.NodeConditionType"),
    ("NodeCondition", "status", "v1.ConditionStatus"),
    ("PriorityClass", "preemptionPolicy", "v1.PreemptionPolicy"),
];

/// The first value that does not fit its field, as the decoder words it.
pub(super) fn type_error(root: Node<'_>, value: &Value) -> Option<String> {
    let mut decoder = Decoder { fields: Vec::new(), structure: "" };
    decoder.node(root, value, None, 0).err()
}

struct Decoder<'a> {
    /// JSON names from the root to here; list positions and map keys do not count.
    fields: Vec<&'a str>,
    /// Go name of the structure that holds the current field.
    structure: &'a str,
}

impl<'a> Decoder<'a> {
    /// `field` is the property this value is stored in, if it is not an element or map value.
    fn node(
        &mut self,
        node: Node<'a>,
        value: &'a Value,
        field: Option<&str>,
        depth: usize,
    ) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        if value.is_null() {
            return Ok(());
        }
        let data = node.data();
        match (data.kind, data.format) {
            (Type::IntOrString, Format::Quantity) => return quantity(value),
            (Type::IntOrString, _) => return int_or_string(value),
            (Type::String, Format::DateTime) => return time(value),
            _ => {}
        }
        match (data.kind, value) {
            (Type::Any, _) if data.preserve_unknown => Ok(()),
            (Type::Object | Type::Any, Value::Object(_)) => self.object(node, value, depth),
            (Type::Array | Type::Any, Value::Array(items)) => {
                let Some(shape) = node.items() else { return Ok(()) };
                items.iter().try_for_each(|item| self.node(shape, item, None, depth + 1))
            }
            (Type::Any, _) | (Type::Boolean, Value::Bool(_)) | (Type::Number, Value::Number(_)) => {
                Ok(())
            }
            (Type::String, Value::String(text)) => match data.format {
                Format::Byte => match format::base64_error(text) {
                    Some(at) => Err(format!("illegal base64 data at input byte {at}")),
                    None => Ok(()),
                },
                _ => Ok(()),
            },
            (Type::Integer, Value::Number(number)) if fits(number, data.format) => Ok(()),
            _ => Err(self.mismatch(node, value, field)),
        }
    }

    fn object(&mut self, node: Node<'a>, value: &'a Value, depth: usize) -> Result<(), String> {
        let outer = self.structure;
        if let Some(definition) = &node.data().definition {
            self.structure = short_name(definition);
        }
        for (name, value) in value.as_object().into_iter().flatten() {
            if let Some(property) = node.property(name) {
                self.fields.push(name);
                self.node(property, value, Some(name), depth + 1)?;
                self.fields.pop();
            } else if let Some(values) = node.values() {
                self.node(values, value, None, depth + 1)?;
            }
        }
        self.structure = outer;
        Ok(())
    }

    fn mismatch(&self, node: Node<'_>, value: &Value, field: Option<&str>) -> String {
        let found = match value {
            Value::Number(number) if node.kind() == Type::Integer => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
            Value::Null => "null".to_owned(),
        };
        let kind = go_type(node, field.map(|field| (self.structure, field)), 0);
        if self.fields.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {kind}");
        }
        let path = self.fields.join(".");
        let structure = self.structure;
        format!(
            "json: cannot unmarshal {found} into Go struct field {structure}.{path} of type {kind}"
        )
    }
}

fn fits(number: &Number, format: Format) -> bool {
    match number.as_i64() {
        Some(number) => format != Format::Int32 || i32::try_from(number).is_ok(),
        None => false,
    }
}

fn quantity(value: &Value) -> Result<(), String> {
    let valid = match value {
        Value::String(text) => Quantity::wire_text(text).is_ok(),
        Value::Number(number) => Quantity::wire_text(&number.to_string()).is_ok(),
        _ => false,
    };
    if valid { Ok(()) } else { Err(QUANTITY_RULE.to_owned()) }
}

fn int_or_string(value: &Value) -> Result<(), String> {
    let found = match value {
        Value::String(_) => return Ok(()),
        Value::Number(number) if fits(number, Format::Int32) => return Ok(()),
        Value::Number(number) => format!("number {number}"),
        Value::Bool(_) => "bool".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) | Value::Null => "object".to_owned(),
    };
    Err(format!("json: cannot unmarshal {found} into Go value of type int32"))
}

fn time(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) if format::is_date_time(text) => Ok(()),
        Value::String(text) => Err(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        )),
        Value::Number(_) => {
            Err("json: cannot unmarshal number into Go value of type string".to_owned())
        }
        Value::Bool(_) => {
            Err("json: cannot unmarshal bool into Go value of type string".to_owned())
        }
        Value::Array(_) => {
            Err("json: cannot unmarshal array into Go value of type string".to_owned())
        }
        _ => Err("json: cannot unmarshal object into Go value of type string".to_owned()),
    }
}

/// `PodSpec` of `io.k8s.api.core.v1.PodSpec`.
fn short_name(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// The Go type of a node; `place` is the structure and field it is declared in.
fn go_type(node: Node<'_>, place: Option<(&str, &str)>, depth: usize) -> String {
    let data = node.data();
    if depth > MAX_DEPTH {
        return String::new();
    }
    match data.kind {
        Type::Boolean => "bool".to_owned(),
        Type::Number => "float64".to_owned(),
        Type::Integer if data.format == Format::Int32 => "int32".to_owned(),
        Type::Integer => "int64".to_owned(),
        Type::String if data.format == Format::Byte => "[]uint8".to_owned(),
        Type::String => {
            let named = place.and_then(|(structure, field)| {
                NAMED_STRINGS.iter().find(|(of, name, _)| (*of, *name) == (structure, field))
            });
            named.map_or("string", |(_, _, name)| *name).to_owned()
        }
        Type::Array => {
            let items = node.items().map(|items| go_type(items, None, depth + 1));
            format!("[]{}", items.unwrap_or_default())
        }
        Type::Object | Type::Any | Type::IntOrString => {
            if let Some(definition) = &data.definition {
                let mut parts = definition.rsplit('.');
                let (name, package) = (parts.next(), parts.next());
                return format!("{}.{}", package.unwrap_or_default(), name.unwrap_or_default());
            }
            match node.values() {
                Some(values) if values.data().format == Format::Quantity => {
                    "v1.ResourceList".to_owned()
                }
                Some(values) => format!("map[string]{}", go_type(values, None, depth + 1)),
                None => "map[string]interface {}".to_owned(),
            }
        }
    }
}

/// Paths of fields that appear twice in one object (`spec.replicas`), which a parsed value cannot show.
/// Text that is not JSON has none.
pub fn duplicate_fields(json: &[u8]) -> Vec<String> {
    let mut scan = Scan { path: String::new(), found: Vec::new() };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    // A syntax error is reported by whoever parses the text for its content.
    let _ = (&mut scan).deserialize(&mut deserializer);
    scan.found
}

struct Scan {
    path: String,
    found: Vec<String>,
}

impl<'de> DeserializeSeed<'de> for &mut Scan {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Scan {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        let length = self.path.len();
        while let Some(name) = map.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            if !seen.insert(name) {
                self.found.push(self.path.clone());
            }
            map.next_value_seed(&mut *self)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let length = self.path.len();
        let mut index = 0_usize;
        loop {
            self.path.push_str(&format!("[{index}]"));
            let more = items.next_element_seed(&mut *self)?.is_some();
            self.path.truncate(length);
            if !more {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Gvk;
    use crate::schema::built_in::Schemas;

    #[test]
    fn wrong_types_read_like_the_decoder() {
        let deployment = |spec: Value| ("apps", "Deployment", json!({"spec": spec}));
        let pod = |spec: Value| ("", "Pod", json!({"spec": spec}));
        let template = |spec: Value| json!({"template": {"spec": spec}});
        let cases = [
            (deployment(json!({"replicas": 3})), None),
            (
                deployment(json!({"replicas": "3"})),
                Some(
                    "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
                ),
            ),
            (
                deployment(json!({"replicas": 1.5})),
                Some(
                    "cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
                ),
            ),
            (
                deployment(template(json!({"containers": {}}))),
                Some(
                    "cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
                ),
            ),
            (
                deployment(template(json!({"containers": [{"env": [{"name": "a", "value": 1}]}]}))),
                Some(
                    "cannot unmarshal number into Go struct field EnvVar.spec.template.spec.containers.env.value of type string",
                ),
            ),
            (pod(json!({"restartPolicy": null})), None),
            (
                pod(json!({"restartPolicy": true})),
                Some(
                    "cannot unmarshal bool into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
                ),
            ),
            (
                pod(json!({"nodeSelector": "a"})),
                Some(
                    "cannot unmarshal string into Go struct field PodSpec.spec.nodeSelector of type map[string]string",
                ),
            ),
            (
                pod(json!({"securityContext": []})),
                Some(
                    "cannot unmarshal array into Go struct field PodSpec.spec.securityContext of type v1.PodSecurityContext",
                ),
            ),
            (
                ("", "Pod", json!({"metadata": {"labels": {"a": 1}}})),
                Some(
                    "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
                ),
            ),
            (("", "Pod", json!([])), Some("cannot unmarshal array into Go value of type v1.Pod")),
            (
                pod(json!({"containers": [{"livenessProbe": {"httpGet": {"port": true}}}]})),
                Some("cannot unmarshal bool into Go value of type int32"),
            ),
        ];
        for ((group, kind, object), want) in cases {
            let schema = Schemas::built_in().get(&Gvk::new(group, "v1", kind)).unwrap();
            let want = want.map(|want| format!("json: {want}"));
            assert_eq!(type_error(schema.root(), &object), want, "{object}");
        }
    }

    #[test]
    fn own_decoders_have_own_words() {
        let pod = Schemas::built_in().get(&Gvk::new("", "v1", "Pod")).unwrap();
        let limits = |value: Value| json!({"spec": {"containers": [{"resources": {"limits": {"cpu": value}}}]}});
        assert_eq!(type_error(pod.root(), &limits(json!("1500m"))), None);
        assert_eq!(type_error(pod.root(), &limits(json!(2))), None);
        assert_eq!(type_error(pod.root(), &limits(json!("lots"))).as_deref(), Some(QUANTITY_RULE));
        let secret = Schemas::built_in().get(&Gvk::new("", "v1", "Secret")).unwrap();
        let data = |text: &str| json!({"data": {"a": text}});
        assert_eq!(type_error(secret.root(), &data("aGk=")), None);
        assert_eq!(
            type_error(secret.root(), &data("hi!")).as_deref(),
            Some("illegal base64 data at input byte 2")
        );
        let created = |value: Value| json!({"metadata": {"creationTimestamp": value}});
        assert_eq!(type_error(pod.root(), &created(json!("2024-01-01T00:00:00Z"))), None);
        assert!(
            type_error(pod.root(), &created(json!("today"))).unwrap().starts_with("parsing time")
        );
    }

    #[test]
    fn a_schema_inside_a_definition_may_be_a_boolean() {
        let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let schema = Schemas::built_in().get(&gvk).unwrap();
        let with = |inner: Value| {
            json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"additionalProperties": inner,
                "default": [1]}}}]}})
        };
        assert_eq!(type_error(schema.root(), &with(json!(true))), None);
        assert_eq!(type_error(schema.root(), &with(json!({"type": "string"}))), None);
        assert!(type_error(schema.root(), &with(json!({"type": 1}))).is_some());
    }

    #[test]
    fn fields_that_appear_twice_are_found() {
        let json = br#"{"a": 1, "b": [{"c": 1, "c": 2}, {"c": 1}], "a": {"d": 1, "d": null}}"#;
        assert_eq!(duplicate_fields(json), ["b[0].c", "a", "a.d"]);
        assert_eq!(duplicate_fields(br#"{"a": {"b": 1}, "b": 1}"#), [""; 0]);
        assert_eq!(duplicate_fields(b"{\"a\": "), [""; 0]);
    }
}
