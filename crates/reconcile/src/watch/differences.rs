//! Which objects does a new list lack?

use std::collections::HashSet;

use kube::Resource;

use super::Update;

/// Which object it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectId {
    pub namespace: String,
    pub name: String,
    /// Empty where objects are told apart by name alone.
    pub uid: String,
}

/// What became of an object.
#[derive(Debug)]
pub enum Difference<K> {
    Applied(K),
    Gone(ObjectId),
}

/// Turns the lists of a watch into differences, for whoever keeps no objects to compare with.
///
/// Costs one text for each object.
#[derive(Debug)]
pub struct Differences {
    is_by_uid: bool,
    known: HashSet<Box<str>>,
    /// The objects of the list that is arriving; none between lists.
    arriving: Option<HashSet<Box<str>>>,
}

impl Differences {
    /// An object that was made anew under its old name is another one, and the old one is gone.
    pub fn by_uid() -> Self {
        Self { is_by_uid: true, known: HashSet::new(), arriving: None }
    }

    /// An object that was made anew under its old name has changed.
    pub fn by_name() -> Self {
        Self { is_by_uid: false, ..Self::by_uid() }
    }

    /// Hands on what an update means for objects.
    pub fn take<K: Resource>(&mut self, update: Update<K>, mut hand: impl FnMut(Difference<K>)) {
        match update {
            Update::Relist => self.arriving = Some(HashSet::new()),
            Update::Applied(object) => {
                let id = self.text_of(&object);
                if let Some(arriving) = &mut self.arriving {
                    arriving.insert(id.clone());
                }
                self.known.insert(id);
                hand(Difference::Applied(object));
            }
            Update::Deleted(object) => {
                let id = self.text_of(&object);
                self.known.remove(&id);
                hand(Difference::Gone(id_of(&id)));
            }
            Update::Listed => {
                let Some(arriving) = self.arriving.take() else { return };
                for gone in self.known.difference(&arriving) {
                    hand(Difference::Gone(id_of(gone)));
                }
                self.known = arriving;
            }
            Update::Refused(_) => {}
        }
    }

    /// No part of a name has a slash.
    fn text_of(&self, object: &impl Resource) -> Box<str> {
        let meta = object.meta();
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        let uid = if self.is_by_uid { part(&meta.uid) } else { String::new() };
        format!("{}/{}/{uid}", part(&meta.namespace), part(&meta.name)).into()
    }
}

fn id_of(text: &str) -> ObjectId {
    let mut parts = text.splitn(3, '/');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    ObjectId { namespace: part(), name: part(), uid: part() }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    fn node(name: &str, uid: &str) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.metadata.uid = Some(uid.to_owned());
        node
    }

    fn brief(differences: &[Difference<Node>]) -> Vec<String> {
        let words = |difference: &Difference<Node>| match difference {
            Difference::Applied(node) => {
                let meta = &node.metadata;
                format!("+/{}/{}", meta.name.as_deref().unwrap(), meta.uid.as_deref().unwrap())
            }
            Difference::Gone(id) => format!("-{}/{}", id.name, id.uid),
        };
        differences.iter().map(words).collect()
    }

    #[test]
    fn what_a_second_list_lacks_is_deleted() {
        let mut differences = Differences::by_uid();
        let mut out = Vec::new();
        for update in [
            Update::Relist,
            Update::Applied(node("a", "1")),
            Update::Applied(node("b", "2")),
            Update::Listed,
            Update::Applied(node("c", "3")),
            Update::Deleted(node("b", "2")),
        ] {
            differences.take(update, |difference| out.push(difference));
        }
        assert_eq!(brief(&out), ["+/a/1", "+/b/2", "+/c/3", "-b/2"]);
        out.clear();
        // The watch was away: `a` was made anew, `c` is gone.
        for update in [Update::Relist, Update::Applied(node("a", "4")), Update::Listed] {
            differences.take(update, |difference| out.push(difference));
        }
        out[1..].sort_by_key(|difference| format!("{difference:?}"));
        assert_eq!(brief(&out), ["+/a/4", "-a/1", "-c/3"]);
    }

    #[test]
    fn an_object_made_anew_is_not_gone_for_those_who_know_names() {
        let mut differences = Differences::by_name();
        let mut out = Vec::new();
        for update in [
            Update::Relist,
            Update::Applied(node("a", "1")),
            Update::Applied(node("b", "2")),
            Update::Listed,
            Update::Relist,
            Update::Applied(node("a", "3")),
            Update::Listed,
        ] {
            differences.take(update, |difference| out.push(difference));
        }
        assert_eq!(brief(&out), ["+/a/1", "+/b/2", "+/a/3", "-b/"]);
    }
}
