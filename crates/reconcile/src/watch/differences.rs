//! Which objects does a new list lack?

use std::collections::HashSet;

use kube::Resource;

use super::Update;

/// Which object it was: a name may come again, a unique id may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectId {
    pub namespace: String,
    pub name: String,
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
#[derive(Debug, Default)]
pub struct Differences {
    known: HashSet<Box<str>>,
    /// The objects of the list that is arriving; none between lists.
    arriving: Option<HashSet<Box<str>>>,
}

impl Differences {
    /// Hands on what an update means for objects.
    pub fn take<K: Resource>(&mut self, update: Update<K>, mut hand: impl FnMut(Difference<K>)) {
        match update {
            Update::Relist => self.arriving = Some(HashSet::new()),
            Update::Applied(object) => {
                let id = text_of(&object);
                if let Some(arriving) = &mut self.arriving {
                    arriving.insert(id.clone());
                }
                self.known.insert(id);
                hand(Difference::Applied(object));
            }
            Update::Deleted(object) => {
                let id = text_of(&object);
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
}

/// No part of a name has a slash.
fn text_of(object: &impl Resource) -> Box<str> {
    let meta = object.meta();
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}/{}", part(&meta.namespace), part(&meta.name), part(&meta.uid)).into()
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
            Difference::Applied(node) => format!("+{}", text_of(node)),
            Difference::Gone(id) => format!("-{}/{}", id.name, id.uid),
        };
        differences.iter().map(words).collect()
    }

    #[test]
    fn what_a_second_list_lacks_is_deleted() {
        let mut differences = Differences::default();
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
}
