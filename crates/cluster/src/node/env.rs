//! Which environment does a container get?
//!
//! First what every container has (`PATH`, `HOME`, `HOSTNAME`), then whole ConfigMaps and Secrets, then single
//! variables; a later value wins. Nothing is inherited from `tidepool`. In single values, commands and
//! arguments `$(NAME)` stands for a variable defined before, `$$` for a dollar sign, and a
//! reference to nothing stays as it is.

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, Pod};

use super::downward::{self, Facts};
use super::source::{self, SourceKey, Sources};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The longest argument or variable that the kernel takes, less its end.
const LONGEST: usize = 32 * 4096 - 1;

/// All arguments, or all variables, of a program: a quarter of its usual stack.
pub(crate) const MOST: usize = 2 << 20;

/// Variables in the order they were defined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Env(Vec<(String, String)>);

impl Env {
    /// What every container has.
    pub(crate) fn base(pod: &Pod, home: &str) -> Self {
        let spec = pod.spec.as_ref();
        let hostname = spec.and_then(|spec| spec.hostname.clone());
        let hostname = hostname.or_else(|| pod.metadata.name.clone()).unwrap_or_default();
        let mut env = Self::default();
        env.set("PATH", PATH.to_owned());
        env.set("HOME", home.to_owned());
        env.set("HOSTNAME", hostname);
        env
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, place)) => *place = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn into_vec(self) -> Vec<(String, String)> {
        self.0
    }

    /// Adds what the container asks for. The error is the message of a `CreateContainerConfigError`.
    pub(crate) fn extend(
        &mut self,
        pod: &Pod,
        container: &Container,
        sources: &Sources,
        facts: &Facts,
    ) -> Result<(), String> {
        self.extend_from(container, sources)?;
        let mut room = MOST;
        for var in container.env.iter().flatten() {
            if let Some(value) = self.value(pod, container, var, sources, facts)? {
                if value.contains('\0') {
                    return Err(format!("variable {} contains a NUL byte", var.name));
                }
                let left = room.checked_sub(value.len());
                room = left.ok_or("the variables are more than the kernel hands to a program")?;
                self.set(&var.name, value);
            }
        }
        Ok(())
    }

    fn extend_from(&mut self, container: &Container, sources: &Sources) -> Result<(), String> {
        for from in container.env_from.iter().flatten() {
            let Some(key) = source::of_env_from(from) else { continue };
            let map = from.config_map_ref.as_ref().and_then(|map| map.optional);
            let optional = map.or_else(|| from.secret_ref.as_ref()?.optional).unwrap_or(false);
            let Some(entries) = sources.get(&key) else {
                if optional {
                    continue;
                }
                return Err(key.missing());
            };
            let prefix = from.prefix.as_deref().unwrap_or_default();
            for (name, value) in entries {
                let name = format!("{prefix}{name}");
                // As kubelet does: what cannot be a variable is left out.
                if let Some(value) = text(value).filter(|_| is_name(&name)) {
                    self.set(&name, value);
                }
            }
        }
        Ok(())
    }

    fn value(
        &self,
        pod: &Pod,
        container: &Container,
        var: &EnvVar,
        sources: &Sources,
        facts: &Facts,
    ) -> Result<Option<String>, String> {
        let Some(from) = &var.value_from else {
            let value = self.expand(var.value.as_deref().unwrap_or_default());
            return value.map(Some).map_err(|why| format!("variable {}: {why}", var.name));
        };
        if let Some(selector) = &from.field_ref {
            return downward::field(pod, &selector.field_path, facts).map(Some);
        }
        if let Some(selector) = &from.resource_field_ref {
            return downward::resource(pod, Some(container), selector, facts).map(Some);
        }
        if from.file_key_ref.is_some() {
            return Err(format!("variable {}: fileKeyRef is not supported", var.name));
        }
        self.entry(pod, from, sources)
    }

    fn entry(
        &self,
        pod: &Pod,
        from: &EnvVarSource,
        sources: &Sources,
    ) -> Result<Option<String>, String> {
        let (key, entry, optional, kind) = match (&from.config_map_key_ref, &from.secret_key_ref) {
            (Some(map), _) => {
                (SourceKey::ConfigMap(map.name.clone()), &map.key, map.optional, "ConfigMap")
            }
            (None, Some(secret)) => {
                (SourceKey::Secret(secret.name.clone()), &secret.key, secret.optional, "Secret")
            }
            (None, None) => return Ok(None),
        };
        let optional = optional.unwrap_or(false);
        let Some(entries) = sources.get(&key) else {
            return if optional { Ok(None) } else { Err(key.missing()) };
        };
        let (SourceKey::ConfigMap(name) | SourceKey::Secret(name)) = &key;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        match entries.get(entry) {
            Some(value) => text(value)
                .map(Some)
                .ok_or_else(|| format!("key {entry} in {kind} {namespace}/{name} is not text")),
            None if optional => Ok(None),
            None => Err(format!("couldn't find key {entry} in {kind} {namespace}/{name}")),
        }
    }

    /// Replaces the references in a text. Variables that refer to each other multiply, so what comes of it
    /// is bounded by what the kernel hands to a program.
    pub(crate) fn expand(&self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                out.push('$');
                rest = after;
                continue;
            }
            let name = rest.strip_prefix('(').and_then(|inside| inside.split_once(')'));
            match name {
                Some((name, after)) => {
                    match self.get(name) {
                        Some(value) => out.push_str(value),
                        None => out.push_str(&format!("$({name})")),
                    }
                    rest = after;
                    if out.len() > LONGEST {
                        return Err(too_long());
                    }
                }
                None => out.push('$'),
            }
        }
        out.push_str(rest);
        if out.len() > LONGEST { Err(too_long()) } else { Ok(out) }
    }
}

fn too_long() -> String {
    format!("expands to more than {LONGEST} bytes, which the kernel hands to no program")
}

fn text(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    (!text.contains('\0')).then(|| text.to_owned())
}

/// Since Kubernetes 1.34 any printable ASCII but `=`.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::node::downward::facts;

    fn pod() -> Pod {
        let pod =
            json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"containers": []}});
        serde_json::from_value(pod).unwrap()
    }

    fn sources() -> Sources {
        let entries = |pairs: &[(&str, &[u8])]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())).collect()
        };
        Sources::of([
            (
                SourceKey::ConfigMap("m".into()),
                entries(&[("a", b"1"), ("b=c", b"2"), ("bin", b"\xff")]),
            ),
            (SourceKey::Secret("s".into()), entries(&[("a", b"secret")])),
        ])
    }

    fn resolve(container: Value) -> Result<Vec<(String, String)>, String> {
        let container: Container = serde_json::from_value(container).unwrap();
        let mut env = Env::default();
        env.extend(&pod(), &container, &sources(), &facts())?;
        Ok(env.into_vec())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn later_values_win() {
        let env = resolve(json!({
            "name": "c",
            "envFrom": [
                {"configMapRef": {"name": "m"}},
                {"prefix": "S_", "secretRef": {"name": "s"}},
                {"secretRef": {"name": "s"}},
                {"configMapRef": {"name": "none", "optional": true}},
            ],
            "env": [
                {"name": "X", "value": "$(a)-$(S_a)-$(Y)"},
                {"name": "Y", "value": "late"},
                {"name": "Z", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "a"}}},
                {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "X", "value": "$(X)!"},
                {"name": "O", "valueFrom": {"secretKeyRef": {"name": "s", "key": "none", "optional": true}}},
            ],
        }));
        let want = [
            ("a", "secret"),
            ("S_a", "secret"),
            ("X", "secret-secret-$(Y)!"),
            ("Y", "late"),
            ("Z", "1"),
            ("N", "web"),
        ];
        assert_eq!(env, Ok(pairs(&want)));
    }

    #[test]
    fn what_is_missing_is_named() {
        let from = |from: Value| json!({"name": "c", "env": [{"name": "V", "valueFrom": from}]});
        let cases = [
            (
                json!({"name": "c", "envFrom": [{"configMapRef": {"name": "x"}}]}),
                "configmap \"x\" not found",
            ),
            (
                json!({"name": "c", "envFrom": [{"secretRef": {"name": "x"}}]}),
                "secret \"x\" not found",
            ),
            (
                from(json!({"configMapKeyRef": {"name": "m", "key": "k"}})),
                "couldn't find key k in ConfigMap shop/m",
            ),
            (
                from(json!({"secretKeyRef": {"name": "s", "key": "k"}})),
                "couldn't find key k in Secret shop/s",
            ),
            (
                from(json!({"configMapKeyRef": {"name": "m", "key": "bin"}})),
                "key bin in ConfigMap shop/m is not text",
            ),
            (from(json!({"fieldRef": {"fieldPath": "spec.x"}})), "unsupported fieldPath: spec.x"),
            (
                json!({"name": "c", "env": [{"name": "V", "value": "a\u{0}b"}]}),
                "variable V contains a NUL byte",
            ),
        ];
        for (container, want) in cases {
            assert_eq!(resolve(container), Err(want.to_owned()));
        }
    }

    #[test]
    fn references() {
        let mut env = Env::default();
        env.set("A", "1".into());
        env.set("B", "$(A)".into());
        let cases = [
            ("plain", "plain"),
            ("$(A)", "1"),
            ("x$(A)y$(A)z", "x1y1z"),
            ("$(B)", "$(A)"),
            ("$(NONE)", "$(NONE)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$", "$"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("$()", "$()"),
            ("5$ and $$", "5$ and $"),
        ];
        for (text, want) in cases {
            assert_eq!(env.expand(text).unwrap(), want, "{text}");
        }
    }

    /// Thirty variables of two references each would be a gigabyte.
    #[test]
    fn references_do_not_multiply_without_end() {
        let mut env = Env::default();
        env.set("V0", "x".repeat(64));
        let mut refused = None;
        for level in 1..=30 {
            let before = level - 1;
            match env.expand(&format!("$(V{before})$(V{before})")) {
                Ok(value) => env.set(&format!("V{level}"), value),
                Err(why) => {
                    refused = Some((level, why));
                    break;
                }
            }
        }
        let (level, why) = refused.unwrap();
        assert_eq!(level, 11, "64 bytes double ten times");
        assert!(why.contains("131071 bytes"), "{why}");
    }

    proptest! {
        #[test]
        fn text_without_dollars_is_kept(text in "[^$]{0,40}") {
            prop_assert_eq!(Env::default().expand(&text).unwrap(), text);
        }
    }
}
