//! How are a few values read out of stored JSON without building the object?
//!
//! The wanted paths form a trie; a deserializer walks it beside the text and skips every branch
//! nobody asked for. Scalars come back as text, the way selectors compare them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The paths to read.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    root: Node,
    slots: usize,
}

#[derive(Debug, Clone, Default)]
struct Node {
    children: Vec<(String, Node)>,
    slot: Option<usize>,
}

impl Plan {
    /// Adds a path and says in which slot its value will be found.
    pub(super) fn add(&mut self, path: &[String]) -> usize {
        let mut node = &mut self.root;
        for step in path {
            let at = match node.children.iter().position(|(name, _)| name == step) {
                Some(at) => at,
                None => {
                    node.children.push((step.clone(), Node::default()));
                    node.children.len() - 1
                }
            };
            node = &mut node.children[at].1;
        }
        *node.slot.get_or_insert_with(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    /// The value of each slot; `None` where the object has no scalar there.
    pub(super) fn extract(&self, json: &[u8]) -> Vec<Option<String>> {
        let mut found = Found { values: vec![None; self.slots], missing: self.slots };
        let mut reader = serde_json::Deserializer::from_slice(json);
        // An error only means that the walk ended early: all found, or the text is broken.
        let _ = Walk { node: &self.root, found: &mut found }.deserialize(&mut reader);
        found.values
    }
}

struct Found {
    values: Vec<Option<String>>,
    missing: usize,
}

struct Walk<'a> {
    node: &'a Node,
    found: &'a mut Found,
}

impl Walk<'_> {
    fn scalar<E: Error>(self, text: impl FnOnce() -> String) -> Result<(), E> {
        let Some(value) = self.node.slot.and_then(|slot| self.found.values.get_mut(slot)) else {
            return Ok(());
        };
        if value.replace(text()).is_none() {
            self.found.missing -= 1;
        }
        if self.found.missing == 0 { Err(E::custom("all found")) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(at) = map.next_key_seed(Step(self.node))? {
            match at.and_then(|at| self.node.children.get(at)) {
                Some((_, node)) => map.next_value_seed(Walk { node, found: &mut *self.found })?,
                None => map.next_value::<IgnoredAny>().map(|_| ())?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.scalar(|| text.to_owned())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(|| value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(|| value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(|| value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(|| value.to_string())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Reads a key as the position of the child it names.
struct Step<'a>(&'a Node);

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Step<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.children.iter().position(|(name, _)| name == key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn scalars_come_back_as_text() {
        let object = json!({
            "a": {"b": "text", "n": 3, "t": true, "list": [1], "null": null},
            "b": "top",
        });
        let mut plan = Plan::default();
        let slots: Vec<usize> = ["a.b", "a.n", "a.t", "a.list", "a.null", "b", "a.missing", "a.b"]
            .iter()
            .map(|text| plan.add(&path(text)))
            .collect();
        let found = plan.extract(&serde_json::to_vec(&object).unwrap());
        let texts: Vec<_> = slots.iter().map(|slot| found[*slot].as_deref()).collect();
        assert_eq!(
            texts,
            [Some("text"), Some("3"), Some("true"), None, None, Some("top"), None, Some("text")]
        );
        assert_eq!(plan.extract(b"{\"b\":"), vec![None; 7]);
    }

    proptest! {
        #[test]
        fn extraction_equals_building_the_object(
            keys in proptest::collection::btree_map("[a-c]{1,2}", "[ -~]{0,6}", 0..6),
            wanted in "[a-c]{1,2}",
        ) {
            let object = json!({"metadata": {"labels": keys, "noise": [{"a": 1}]}});
            let mut plan = Plan::default();
            let slot = plan.add(&["metadata".into(), "labels".into(), wanted.clone()]);
            let found = plan.extract(&serde_json::to_vec(&object).unwrap());
            let want = object["metadata"]["labels"].get(&wanted).and_then(Value::as_str);
            prop_assert_eq!(found[slot].as_deref(), want);
        }
    }
}
