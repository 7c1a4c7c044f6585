//! The store against a map, through random writes, restarts and looks back.

use std::collections::BTreeMap;

use apiserver::store::{Expired, Limits, Revision, Store, WatchError, WriteError};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::{Plain, object, plain, pod, pods, replay};

#[derive(Debug, Clone)]
enum Op {
    Create {
        name: usize,
        value: u64,
    },
    /// With the right revision, or one that is off by this much.
    Replace {
        name: usize,
        value: u64,
        off: u64,
    },
    Remove {
        name: usize,
        off: u64,
    },
    Restart {
        gracefully: bool,
    },
    /// Lists, and watches, from this many revisions ago.
    LookBack {
        by: u64,
    },
}

const NAMES: [(&str, &str); 5] =
    [("a", "x"), ("a", "y"), ("a-b", "x"), ("b", "x"), ("b", "a-rather-longer-name.example")];

fn op() -> impl Strategy<Value = Op> {
    let name = 0..NAMES.len();
    let off = prop_oneof![4 => Just(0u64), 1 => 1..3u64];
    prop_oneof![
        4 => (name.clone(), 0..1000u64).prop_map(|(name, value)| Op::Create { name, value }),
        6 => (name.clone(), 0..1000u64, off.clone())
            .prop_map(|(name, value, off)| Op::Replace { name, value, off }),
        3 => (name, off).prop_map(|(name, off)| Op::Remove { name, off }),
        1 => any::<bool>().prop_map(|gracefully| Op::Restart { gracefully }),
        3 => (0..12u64).prop_map(|by| Op::LookBack { by }),
    ]
}

/// What the store should be, at every revision there was.
struct Model {
    revision: u64,
    current: Plain,
    past: BTreeMap<u64, Plain>,
    /// Revisions of changes since the start, which history may hold.
    changes: Vec<u64>,
    /// The last change before the start.
    floor: u64,
}

impl Model {
    fn new() -> Self {
        let past = BTreeMap::from([(1, Plain::new())]);
        Self { revision: 1, current: Plain::new(), past, changes: Vec::new(), floor: 0 }
    }

    fn changed(&mut self) {
        self.past.insert(self.revision, self.current.clone());
        self.changes.push(self.revision);
    }

    /// The oldest revision to look back to, with this much history.
    fn oldest(&self, history: usize) -> u64 {
        let forgotten = self.changes.len().saturating_sub(history);
        forgotten.checked_sub(1).map_or(self.floor, |last| self.changes[last])
    }

    fn restarted(&mut self) {
        self.floor = self.changes.last().copied().unwrap_or(self.floor);
        self.changes.clear();
    }
}

fn limits(history_events: usize) -> Limits {
    Limits { history_events, ..Limits::default() }
}

async fn write(store: &Store, model: &mut Model, op: &Op) {
    let (name, off) = match op {
        Op::Create { name, .. } => (*name, 0),
        Op::Replace { name, off, .. } | Op::Remove { name, off } => (*name, *off),
        Op::Restart { .. } | Op::LookBack { .. } => return,
    };
    let (namespace, name) = NAMES[name];
    let key = pod(namespace, name);
    let id = (namespace.to_owned(), name.to_owned());
    let current = model.current.get(&id).copied();
    let expected = Revision(current.map_or(1, |(revision, _)| revision) + off);
    let outcome = match op {
        Op::Create { value, .. } => store.create(key.clone(), object(*value)).await,
        Op::Replace { value, .. } => store.replace(key.clone(), object(*value), expected).await,
        _ => store.remove(key.clone(), object(0), expected).await,
    };
    let next = model.revision + 1;
    match (op, current, outcome) {
        (Op::Create { value, .. }, None, Ok(stored))
        | (Op::Replace { value, off: 0, .. }, Some(_), Ok(stored)) => {
            assert_eq!((stored.revision, &stored.key), (Revision(next), &key));
            assert_eq!(store.get(&key), Some(stored));
            model.revision = next;
            model.current.insert(id, (next, *value));
            model.changed();
        }
        (Op::Remove { off: 0, .. }, Some(_), Ok(stored)) => {
            assert_eq!(stored.revision, Revision(next));
            assert_eq!(store.get(&key), None);
            model.revision = next;
            model.current.remove(&id);
            model.changed();
        }
        (Op::Create { .. }, Some(_), Err(WriteError::Exists)) => {}
        (Op::Replace { .. } | Op::Remove { .. }, None, Err(WriteError::Missing)) => {}
        (
            Op::Replace { .. } | Op::Remove { .. },
            Some((revision, _)),
            Err(WriteError::Conflict { current }),
        ) if off > 0 => assert_eq!(current.revision, Revision(revision)),
        (op, current, outcome) => panic!("{op:?} on {current:?}: {outcome:?}"),
    }
}

async fn look_back(store: &Store, model: &Model, by: u64, history: usize) {
    let from = model.revision.saturating_sub(by).max(1);
    let oldest = model.oldest(history);
    let then = model.past.range(..=from).next_back().map(|(_, then)| then.clone());
    if from < oldest {
        let oldest = Revision(oldest);
        let expired = store.snapshot_at(&pods(), Revision(from)).unwrap_err();
        assert_eq!(expired, Expired::Compacted { oldest });
        let refused = store.watch(&pods(), None, Revision(from)).unwrap_err();
        assert_eq!(refused, WatchError::Compacted { oldest });
        return;
    }
    let state = then.unwrap_or_default();
    assert_eq!(plain(&store.snapshot_at(&pods(), Revision(from)).unwrap()), state);
    for namespace in [None, Some("a"), Some("a-b")] {
        let matches = |id: &(String, String)| namespace.is_none_or(|wanted| id.0 == wanted);
        let mut seen = state.clone();
        let mut last = from;
        let mut watch = store.watch(&pods(), namespace, Revision(from)).unwrap();
        while watch.progress().is_none() {
            let event = watch.next().await.unwrap().unwrap();
            assert!(event.revision().0 > last);
            last = event.revision().0;
            replay(&mut seen, &event);
        }
        seen.retain(|id, _| matches(id));
        let mut want = model.current.clone();
        want.retain(|id, _| matches(id));
        assert_eq!(seen, want);
        assert_eq!(watch.progress(), Some(Revision(model.revision)));
    }
}

async fn run(ops: Vec<Op>, history: usize, dir: Option<&TempDir>) {
    let open = || match dir {
        Some(dir) => Store::open(dir.path(), limits(history)).unwrap(),
        None => Store::in_memory(limits(history)).unwrap(),
    };
    let mut store = open();
    let mut model = Model::new();
    let cluster_id = store.cluster_id();
    for op in ops {
        match op {
            Op::Restart { .. } if dir.is_none() => {}
            Op::Restart { gracefully } => {
                if gracefully {
                    store.shutdown().await;
                }
                drop(store);
                store = open();
                model.restarted();
                assert_eq!(store.cluster_id(), cluster_id);
            }
            Op::LookBack { by } => look_back(&store, &model, by, history).await,
            op => write(&store, &mut model, &op).await,
        }
        assert_eq!(store.revision(), Revision(model.revision));
        assert_eq!(plain(&store.list(&pods(), None)), model.current);
    }
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn in_memory_it_is_a_map_with_a_past(
        ops in prop::collection::vec(op(), 1..60),
        history in 1..10usize,
    ) {
        block_on(run(ops, history, None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn on_disk_it_is_the_same_map_after_any_restart(
        ops in prop::collection::vec(op(), 1..40),
        history in 1..10usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        block_on(run(ops, history, Some(&dir)));
    }
}
