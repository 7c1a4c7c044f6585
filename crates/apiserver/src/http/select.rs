//! Which objects does a selector pick?
//!
//! Label and field selectors are compiled into one [`Filter`]: a list of tests over a few paths
//! of the stored JSON. The paths are read by [`extract`] without building the object, because a
//! busy server evaluates filters for every watcher and every event. Names and namespaces are part
//! of an object's key and cost nothing.

mod extract;
mod field;
mod label;

use serde_json::Value;

use self::extract::Plan;
pub(super) use self::field::SelectableFields;
pub(super) use self::label::{Labels, Requirement};
use super::status::Status;
use crate::store::Key;

/// A compiled selector.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    keyed: Vec<(KeyPart, field::Term)>,
    plan: Plan,
    labels: Vec<(usize, Requirement)>,
    fields: Vec<(usize, &'static str, field::Term)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyPart {
    Name,
    Namespace,
}

impl Filter {
    /// Compiles both selectors of a list; `known` says which fields the kind offers.
    pub(super) fn parse(
        labels: &str,
        fields: &str,
        known: &SelectableFields,
    ) -> Result<Self, Status> {
        let mut filter = Self::default();
        let labels =
            Labels::parse(labels).map_err(|error| Status::bad_request(error.to_string()))?;
        filter.require_labels(&labels);
        for term in field::parse(fields).map_err(Status::bad_request)? {
            match term.field.as_str() {
                "metadata.name" => filter.keyed.push((KeyPart::Name, term)),
                "metadata.namespace" => filter.keyed.push((KeyPart::Namespace, term)),
                _ => {
                    let spec =
                        known.find(&term.field).ok_or_else(|| unknown_field(&term.field, known))?;
                    let slot = filter.plan.add(&spec.path);
                    filter.fields.push((slot, spec.default, term));
                }
            }
        }
        Ok(filter)
    }

    fn require_labels(&mut self, labels: &Labels) {
        for requirement in labels.requirements() {
            let path = ["metadata", "labels", requirement.key.as_str()].map(str::to_owned);
            let slot = self.plan.add(&path);
            self.labels.push((slot, requirement.clone()));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keyed.is_empty() && self.needs_no_object()
    }

    /// The key alone decides.
    pub(super) fn needs_no_object(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Narrows the filter to one name.
    pub(super) fn require_name(&mut self, name: &str) {
        let term =
            field::Term { field: "metadata.name".to_owned(), equal: true, value: name.to_owned() };
        self.keyed.push((KeyPart::Name, term));
    }

    pub(super) fn matches_key(&self, key: &Key) -> bool {
        self.keyed.iter().all(|(part, term)| {
            let value = match part {
                KeyPart::Name => &*key.name,
                KeyPart::Namespace => &*key.namespace,
            };
            term.holds(value)
        })
    }

    /// Whether the stored object is picked.
    pub(super) fn matches(&self, key: &Key, json: &[u8]) -> bool {
        if !self.matches_key(key) {
            return false;
        }
        if self.needs_no_object() {
            return true;
        }
        let values = self.plan.extract(json);
        let at = |slot: usize| values.get(slot).and_then(Option::as_deref);
        self.labels.iter().all(|(slot, requirement)| requirement.holds(at(*slot)))
            && self
                .fields
                .iter()
                .all(|(slot, default, term)| term.holds(at(*slot).unwrap_or(default)))
    }
}

fn unknown_field(field: &str, known: &SelectableFields) -> Status {
    Status::bad_request(if known.is_empty() {
        format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\""
        )
    } else {
        format!("field label not supported: {field}")
    })
}

/// Reads `metadata.labels` of an object in memory, for selectors held by other objects.
pub(super) fn labels_match(selector: &Labels, object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    selector
        .requirements()
        .iter()
        .all(|r| r.holds(labels.and_then(|map| map.get(&r.key)).and_then(Value::as_str)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Collection;

    fn pods() -> SelectableFields {
        SelectableFields::built_in("", "pods")
    }

    fn matches(labels: &str, fields: &str) -> bool {
        let filter = Filter::parse(labels, fields, &pods()).unwrap();
        let key = Key::new(&Collection::new("", "pods"), "a", "web-0");
        let object = json!({
            "metadata": {"name": "web-0", "labels": {"app": "web", "tier": "", "rank": "7"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "nodeName"}]},
            "status": {"phase": "Running"},
        });
        filter.matches(&key, &serde_json::to_vec(&object).unwrap())
    }

    #[test]
    fn selectors_pick_by_labels_fields_and_key() {
        let cases = [
            ("nothing asked", "", "", true),
            ("equal", "app=web", "", true),
            ("double equal", "app==web", "", true),
            ("not equal", "app!=web", "", false),
            ("not equal holds when absent", "other!=web", "", true),
            ("in", "app in (db, web)", "", true),
            ("not in", "app notin (db)", "", true),
            ("exists", "tier", "", true),
            ("absent", "!tier", "", false),
            ("greater", "rank>6", "", true),
            ("less", "rank<7", "", false),
            ("all must hold", "app=web,tier=front", "", false),
            ("empty value", "tier=", "", true),
            ("name", "", "metadata.name=web-0", true),
            ("namespace", "", "metadata.namespace!=a", false),
            ("node", "", "spec.nodeName=n1", true),
            ("unset field is empty", "", "status.podIP=", true),
            ("both kinds", "app=web", "status.phase!=Running", false),
        ];
        for (name, labels, fields, want) in cases {
            assert_eq!(matches(labels, fields), want, "{name}");
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        let error = Filter::parse("", "spec.hostname=x", &pods()).unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (400, "field label not supported: spec.hostname")
        );
        assert!(Filter::parse("a in (", "", &pods()).is_err());
        assert!(Filter::parse("", "status.phase>Running", &pods()).is_err());
    }
}
