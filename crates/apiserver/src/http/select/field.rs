//! Which fields can be selected on, and how is a field selector read?
//!
//! Kubernetes offers two fields on every kind and a few more on some; custom resources add those
//! their definition lists. An unset field compares as its default, mostly the empty text.

/// One comparison of a field selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) field: String,
    pub(super) equal: bool,
    pub(super) value: String,
}

impl Term {
    pub(super) fn holds(&self, value: &str) -> bool {
        (self.value == value) == self.equal
    }
}

/// Reads `a=b,c!=d`; a backslash protects commas, equal signs and itself.
pub(super) fn parse(text: &str) -> Result<Vec<Term>, String> {
    let mut terms = Vec::new();
    for part in split_unescaped(text) {
        if part.is_empty() {
            continue;
        }
        let wrong = || format!("invalid selector: '{text}'; can't understand '{part}'");
        let (field, equal, value) = operator(part).ok_or_else(wrong)?;
        let value = unescape(value).ok_or_else(wrong)?;
        terms.push(Term { field: field.trim().to_owned(), equal, value });
    }
    Ok(terms)
}

fn operator(part: &str) -> Option<(&str, bool, &str)> {
    let at = part.find(['=', '!'])?;
    let (field, rest) = part.split_at(at);
    for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some(value) = rest.strip_prefix(sign) {
            return Some((field, equal, value));
        }
    }
    None
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|next| matches!(next, '\\' | ',' | '='))?),
            ',' | '=' => return None,
            other => out.push(other),
        }
    }
    Some(out)
}

/// A field a kind can be selected by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldSpec {
    pub label: String,
    pub path: Vec<String>,
    /// What an object without the field is taken to hold.
    pub default: &'static str,
}

/// The selectable fields of one kind beyond name and namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectableFields(Vec<FieldSpec>);

impl SelectableFields {
    pub fn find(&self, label: &str) -> Option<&FieldSpec> {
        self.0.iter().find(|spec| spec.label == label)
    }

    pub(in crate::http) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fields named by a CustomResourceDefinition as JSON paths (`.spec.color`).
    pub fn from_json_paths<'a>(paths: impl Iterator<Item = &'a str>) -> Self {
        Self(
            paths
                .map(|path| path.trim_start_matches('.'))
                .map(|label| FieldSpec {
                    label: label.to_owned(),
                    path: label.split('.').map(str::to_owned).collect(),
                    default: "",
                })
                .collect(),
        )
    }

    pub fn built_in(group: &str, resource: &str) -> Self {
        let mut fields = Self(Vec::new());
        match (group, resource) {
            ("", "pods") => {
                for label in [
                    "spec.nodeName",
                    "spec.restartPolicy",
                    "spec.schedulerName",
                    "spec.serviceAccountName",
                    "status.phase",
                    "status.podIP",
                    "status.nominatedNodeName",
                ] {
                    fields.add(label, label, "");
                }
                fields.add("spec.hostNetwork", "spec.hostNetwork", "false");
            }
            ("" | "events.k8s.io", "events") => fields.add_event_fields(),
            ("", "nodes") => fields.add("spec.unschedulable", "spec.unschedulable", "false"),
            ("", "secrets") => fields.add("type", "type", ""),
            ("", "namespaces") => fields.add("status.phase", "status.phase", ""),
            ("", "services") => {
                fields.add("spec.clusterIP", "spec.clusterIP", "");
                fields.add("spec.type", "spec.type", "");
            }
            ("apps", "replicasets") => fields.add("status.replicas", "status.replicas", "0"),
            ("batch", "jobs") => fields.add("status.successful", "status.succeeded", "0"),
            _ => {}
        }
        fields
    }

    fn add(&mut self, label: &str, path: &str, default: &'static str) {
        self.0.push(FieldSpec {
            label: label.to_owned(),
            path: path.split('.').map(str::to_owned).collect(),
            default,
        });
    }

    /// Both event APIs read the same stored objects, which have the core form.
    fn add_event_fields(&mut self) {
        for part in
            ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]
        {
            let path = format!("involvedObject.{part}");
            self.add(&path, &path, "");
            self.add(&format!("regarding.{part}"), &path, "");
        }
        for label in ["reason", "type", "reportingComponent"] {
            self.add(label, label, "");
        }
        self.add("reportingController", "reportingComponent", "");
        self.add("source", "source.component", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_with_escapes() {
        let term = |field: &str, equal, value: &str| Term {
            field: field.into(),
            equal,
            value: value.into(),
        };
        let cases = [
            ("", Ok(vec![])),
            ("a=b", Ok(vec![term("a", true, "b")])),
            ("a==b,c!=d", Ok(vec![term("a", true, "b"), term("c", false, "d")])),
            (r"a=b\,c\=d\\", Ok(vec![term("a", true, r"b,c=d\")])),
            ("a=", Ok(vec![term("a", true, "")])),
            ("a", Err(())),
            ("a=b=c", Err(())),
            (r"a=b\x", Err(())),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text).map_err(|_| ()), want, "{text}");
        }
    }
}
