//! Strategic merge: laying a profile's patch over a pod.
//!
//! Maps merge and null removes. A list replaces the one below it unless its
//! elements are known by a key: then elements with the same key merge and new
//! ones are added. `$patch: delete` takes an element or a map away,
//! `$patch: replace` puts the rest of the map in the place of what was there.

use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";

/// Lists of a pod that merge, and by which field. The same names mean the same
/// lists wherever they stand in a pod.
const KEYED: &[(&str, &str)] = &[
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("env", "name"),
    ("ports", "containerPort"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("volumes", "name"),
    ("imagePullSecrets", "name"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
    ("resourceClaims", "name"),
    ("schedulingGates", "name"),
    ("ownerReferences", "uid"),
    ("conditions", "type"),
];

/// Lists of plain values that grow instead of being replaced.
const GROWING: &[&str] = &["finalizers"];

/// Why a patch cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum MergeError {
    #[error("{path}: an element without {key:?} cannot be merged")]
    NoKey { path: String, key: &'static str },
    #[error("{path}: unknown directive {directive}")]
    Directive { path: String, directive: String },
    #[error("{path}: nested deeper than any pod")]
    Depth { path: String },
}

/// Deeper than any pod; whoever nests deeper wants to see us fall.
const DEPTH: usize = 64;

/// Lays `patch` over `object`.
pub(super) fn merge(object: &mut Value, patch: &Map<String, Value>) -> Result<(), MergeError> {
    merge_map(object, patch, "patch", 0)
}

fn merge_map(
    below: &mut Value,
    patch: &Map<String, Value>,
    path: &str,
    depth: usize,
) -> Result<(), MergeError> {
    if depth > DEPTH {
        return Err(MergeError::Depth { path: path.to_owned() });
    }
    match directive(patch, path)? {
        Some(Directive::Delete) => {
            *below = Value::Object(Map::new());
            return Ok(());
        }
        Some(Directive::Replace) => *below = Value::Object(Map::new()),
        None => {}
    }
    if !below.is_object() {
        *below = Value::Object(Map::new());
    }
    let Some(fields) = below.as_object_mut() else { return Ok(()) };
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        let path = format!("{path}.{name}");
        match value {
            Value::Null => {
                fields.remove(name);
            }
            Value::Object(map) if is_delete(map) => {
                fields.remove(name);
            }
            Value::Object(map) => {
                let field = fields.entry(name.clone()).or_insert(Value::Null);
                merge_map(field, map, &path, depth + 1)?;
            }
            Value::Array(list) => {
                let field = fields.entry(name.clone()).or_insert(Value::Null);
                merge_list(field, list, name, &path, depth + 1)?;
            }
            scalar => {
                fields.insert(name.clone(), scalar.clone());
            }
        }
    }
    Ok(())
}

fn merge_list(
    below: &mut Value,
    patch: &[Value],
    name: &str,
    path: &str,
    depth: usize,
) -> Result<(), MergeError> {
    let growing = GROWING.contains(&name);
    let key = KEYED.iter().find(|(list, _)| *list == name).map(|(_, key)| *key);
    let Some(list) = below.as_array_mut().filter(|_| growing || key.is_some()) else {
        *below = Value::Array(patch.iter().filter(|element| !element.is_null()).cloned().collect());
        return Ok(());
    };
    let Some(key) = key else {
        let new: Vec<_> = patch.iter().filter(|value| !list.contains(value)).cloned().collect();
        list.extend(new);
        return Ok(());
    };
    for (index, element) in patch.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let fields = element.as_object();
        let id = fields.and_then(|fields| fields.get(key));
        let (Some(fields), Some(id)) = (fields, id) else {
            return Err(MergeError::NoKey { path, key });
        };
        let at = list.iter().position(|own| own.get(key) == Some(id));
        match (at, is_delete(fields)) {
            (Some(at), true) => {
                list.remove(at);
            }
            (None, true) => {}
            (at, false) => {
                let at = at.unwrap_or_else(|| {
                    list.push(Value::Null);
                    list.len() - 1
                });
                if let Some(own) = list.get_mut(at) {
                    merge_map(own, fields, &path, depth + 1)?;
                }
            }
        }
    }
    Ok(())
}

enum Directive {
    Delete,
    Replace,
}

fn directive(patch: &Map<String, Value>, path: &str) -> Result<Option<Directive>, MergeError> {
    match patch.get(DIRECTIVE).map(|directive| (directive.as_str(), directive)) {
        None | Some((Some("merge"), _)) => Ok(None),
        Some((Some("delete"), _)) => Ok(Some(Directive::Delete)),
        Some((Some("replace"), _)) => Ok(Some(Directive::Replace)),
        Some((_, other)) => {
            Err(MergeError::Directive { path: path.to_owned(), directive: other.to_string() })
        }
    }
}

fn is_delete(map: &Map<String, Value>) -> bool {
    map.get(DIRECTIVE).and_then(Value::as_str) == Some("delete")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_merge_as_kubectl_would() {
        let pod = json!({
            "metadata": {"labels": {"a": "1"}, "finalizers": ["x"]},
            "spec": {
                "containers": [{"name": "a", "image": "i", "env": [{"name": "K", "value": "1"}]},
                               {"name": "b"}],
                "tolerations": [{"key": "t"}],
                "nodeSelector": {"zone": "a"},
            },
        });
        let cases = [
            (
                "maps merge",
                json!({"metadata": {"labels": {"b": "2"}}}),
                "/metadata/labels",
                json!({"a": "1", "b": "2"}),
            ),
            (
                "null removes",
                json!({"spec": {"nodeSelector": {"zone": null}}}),
                "/spec/nodeSelector",
                json!({}),
            ),
            (
                "a map may go",
                json!({"spec": {"nodeSelector": {"$patch": "delete"}}}),
                "/spec/nodeSelector",
                Value::Null,
            ),
            (
                "a map may be replaced",
                json!({"spec": {"nodeSelector": {"$patch": "replace", "arch": "arm"}}}),
                "/spec/nodeSelector",
                json!({"arch": "arm"}),
            ),
            (
                "containers merge by name",
                json!({"spec": {"containers": [{"name": "a", "env": [{"name": "K", "value": "2"}]}]}}),
                "/spec/containers",
                json!([{"name": "a", "image": "i", "env": [{"name": "K", "value": "2"}]}, {"name": "b"}]),
            ),
            (
                "a new container is added",
                json!({"spec": {"containers": [{"name": "c"}]}}),
                "/spec/containers/2",
                json!({"name": "c"}),
            ),
            (
                "a container may go",
                json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
                "/spec/containers",
                json!([{"name": "b"}]),
            ),
            (
                "tolerations are one value",
                json!({"spec": {"tolerations": [{"key": "u"}]}}),
                "/spec/tolerations",
                json!([{"key": "u"}]),
            ),
            (
                "finalizers grow",
                json!({"metadata": {"finalizers": ["y", "x"]}}),
                "/metadata/finalizers",
                json!(["x", "y"]),
            ),
            (
                "what is missing is made",
                json!({"spec": {"dnsConfig": {"nameservers": ["1"]}}}),
                "/spec/dnsConfig/nameservers/0",
                json!("1"),
            ),
        ];
        for (name, patch, at, want) in cases {
            let mut merged = pod.clone();
            merge(&mut merged, patch.as_object().unwrap())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(merged.pointer(at).cloned().unwrap_or_default(), want, "{name}");
            let once = merged.clone();
            merge(&mut merged, patch.as_object().unwrap()).unwrap();
            assert_eq!(merged, once, "{name}, twice");
        }
    }

    #[test]
    fn what_cannot_be_followed_names_its_place() {
        let cases = [
            (
                json!({"spec": {"containers": [{"image": "i"}]}}),
                "patch.spec.containers[0]: an element without \"name\" cannot be merged",
            ),
            (
                json!({"spec": {"nodeSelector": {"$patch": "eat"}}}),
                "patch.spec.nodeSelector: unknown directive \"eat\"",
            ),
        ];
        for (patch, want) in cases {
            let mut pod =
                json!({"spec": {"containers": [{"name": "a"}], "nodeSelector": {"a": "b"}}});
            let error = merge(&mut pod, patch.as_object().unwrap()).unwrap_err();
            assert_eq!(error.to_string(), want);
        }
    }
}
