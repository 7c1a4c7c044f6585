//! The rules of single operations.

use apiserver::store::{Collection, Expired, Key, KeyError, Limits, Revision, Store, WriteError};
use serde_json::{Value, json};

use crate::support::{in_memory, object, plain, pod, pods};

#[derive(Clone, Copy)]
enum Op {
    Create,
    Replace(u64),
    Remove(u64),
}

async fn attempt(store: &Store, key: Key, op: Op, value: Value) -> String {
    let outcome = match op {
        Op::Create => store.create(key, value).await,
        Op::Replace(expected) => store.replace(key, value, Revision(expected)).await,
        Op::Remove(expected) => store.remove(key, value, Revision(expected)).await,
    };
    match outcome {
        Ok(stored) => format!("written at {}", stored.revision),
        Err(WriteError::Conflict { current }) => format!("conflict with {}", current.revision),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_write_succeeds_only_on_what_it_expects() {
    struct Step {
        name: &'static str,
        key: Key,
        op: Op,
        want: &'static str,
        /// The revisions listed afterwards.
        left: &'static [u64],
    }
    let a = || pod("ns", "a");
    let b = || pod("ns", "b");
    let steps = [
        Step {
            name: "replacing what is not there",
            key: a(),
            op: Op::Replace(1),
            want: "the object does not exist",
            left: &[],
        },
        Step {
            name: "removing what is not there",
            key: a(),
            op: Op::Remove(1),
            want: "the object does not exist",
            left: &[],
        },
        Step { name: "creating", key: a(), op: Op::Create, want: "written at 2", left: &[2] },
        Step {
            name: "creating again",
            key: a(),
            op: Op::Create,
            want: "the object exists already",
            left: &[2],
        },
        Step {
            name: "creating another, at the next revision: refusals take none",
            key: b(),
            op: Op::Create,
            want: "written at 3",
            left: &[2, 3],
        },
        Step {
            name: "replacing at the wrong revision",
            key: a(),
            op: Op::Replace(3),
            want: "conflict with 2",
            left: &[2, 3],
        },
        Step {
            name: "replacing",
            key: a(),
            op: Op::Replace(2),
            want: "written at 4",
            left: &[4, 3],
        },
        Step {
            name: "replacing at a revision that is gone",
            key: a(),
            op: Op::Replace(2),
            want: "conflict with 4",
            left: &[4, 3],
        },
        Step {
            name: "removing at the wrong revision",
            key: a(),
            op: Op::Remove(2),
            want: "conflict with 4",
            left: &[4, 3],
        },
        Step { name: "removing", key: a(), op: Op::Remove(4), want: "written at 5", left: &[3] },
        Step {
            name: "creating what was removed",
            key: a(),
            op: Op::Create,
            want: "written at 6",
            left: &[6, 3],
        },
    ];
    let dir = tempfile::tempdir().unwrap();
    let stores = [in_memory(), Store::open(dir.path(), Limits::default()).unwrap()];
    for Step { name, key, op, want, left } in steps {
        for (store, place) in stores.iter().zip(["memory", "disk"]) {
            assert_eq!(attempt(store, key.clone(), op, object(1)).await, want, "{name}, {place}");
            let listed = store.list(&pods(), None);
            let revisions: Vec<u64> = listed.iter().map(|stored| stored.revision.0).collect();
            assert_eq!(revisions, left, "{name}, {place}");
            for stored in listed.iter() {
                assert_eq!(store.get(&stored.key), Some(stored), "{name}, {place}");
            }
        }
    }
    assert_eq!(stores.map(|store| store.revision()), [Revision(6), Revision(6)]);
}

#[tokio::test]
async fn an_object_carries_its_revision_and_nothing_else_changes() {
    struct Case {
        name: &'static str,
        given: Value,
        want: &'static str,
    }
    let cases = [
        Case {
            name: "metadata is added",
            given: json!({"kind": "Pod"}),
            want: r#"{"kind":"Pod","metadata":{"resourceVersion":"2"}}"#,
        },
        Case {
            name: "a stale revision is replaced",
            given: json!({"metadata": {"name": "a", "resourceVersion": "77", "uid": "u"}}),
            want: r#"{"metadata":{"name":"a","resourceVersion":"2","uid":"u"}}"#,
        },
        Case {
            name: "the same names elsewhere are left alone",
            given: json!({
                "metadata": {"annotations": {"x": "\"resourceVersion\":\"\""}},
                "spec": {"metadata": {"resourceVersion": ""}},
                "a": {"resourceVersion": "1"},
            }),
            want: r#"{"a":{"resourceVersion":"1"},"metadata":{"annotations":{"x":"\"resourceVersion\":\"\""},"resourceVersion":"2"},"spec":{"metadata":{"resourceVersion":""}}}"#,
        },
    ];
    for Case { name, given, want } in cases {
        let stored = in_memory().create(pod("ns", "a"), given).await.unwrap();
        assert_eq!(std::str::from_utf8(&stored.json).unwrap(), want, "{name}");
    }
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused_before_it_is_queued() {
    let store = in_memory();
    for (name, given) in [
        ("a list", json!([])),
        ("a text", json!("x")),
        ("metadata that is a list", json!({"metadata": []})),
        ("metadata that is null", json!({"metadata": null})),
    ] {
        let outcome = store.create(pod("ns", "a"), given).await;
        assert!(matches!(outcome, Err(WriteError::NotAnObject)), "{name}");
    }

    let core = |namespace: &str, name: &str| pod(namespace, name);
    let long = "x".repeat(513);
    for (name, key, want) in [
        ("no name", core("ns", ""), "name is empty"),
        ("a slash in the name", core("ns", "a/b"), "name \"a/b\" contains '/'"),
        ("a slash in the namespace", core("n/s", "a"), "namespace \"n/s\" contains '/'"),
        ("a zero byte", core("ns", "a\0b"), "name \"a\\0b\" contains '\\0'"),
        ("a line break", core("n\ns", "a"), "namespace \"n\\ns\" contains '\\n'"),
        ("a name without end", core("ns", &long), "name is 513 bytes long"),
        ("no resource", Key::new(&Collection::new("apps", ""), "", "a"), "resource is empty"),
        ("a slash in the group", Key::new(&Collection::new("a/b", "c"), "", "a"), "group \"a/b\""),
    ] {
        match store.create(key, object(1)).await {
            Err(WriteError::Key(error)) => {
                assert!(error.to_string().starts_with(want), "{name}: {error}")
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(store.revision(), Revision(1));

    for name in ["a", "system:node:x", "ünïcode", "a.b-c", &"x".repeat(512)] {
        store.create(pod("ns", name), object(1)).await.unwrap();
    }
    assert_eq!(store.list(&pods(), None).len(), 5);
    let error = KeyError::Empty { part: "name" };
    assert_eq!(WriteError::from(error).to_string(), "the object's key cannot be stored");
}

#[tokio::test]
async fn an_object_may_be_as_large_as_the_limit_and_no_larger() {
    let store = Store::in_memory(Limits { object_bytes: 100, ..Limits::default() }).unwrap();
    // The revision counts with all the digits that it may ever have.
    let object = |padding: usize| json!({"metadata": {}, "x": "y".repeat(padding)});
    let fits = 100 - r#"{"metadata":{"resourceVersion":""},"x":""}"#.len() - 20;
    store.create(pod("ns", "fits"), object(fits)).await.unwrap();
    match store.create(pod("ns", "large"), object(fits + 1)).await {
        Err(WriteError::TooLarge { bytes: 101, limit: 100 }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn listings_are_ordered_as_in_kubernetes_and_continue_after_any_name() {
    let store = in_memory();
    for key in [
        pod("team", "b"),
        pod("team-a", "z"),
        pod("team", "a"),
        pod("zoo", "a"),
        pod("a", "a.b"),
        pod("a", "a-b"),
        pod("a", "a"),
    ] {
        store.create(key, object(0)).await.unwrap();
    }
    store.create(Key::new(&Collection::new("", "pod"), "a", "x"), object(0)).await.unwrap();

    let names = |listed: &mut dyn Iterator<Item = apiserver::store::Stored>| {
        let names: Vec<_> =
            listed.map(|stored| format!("{}/{}", stored.key.namespace, stored.key.name)).collect();
        names.join(" ")
    };
    let all = store.list(&pods(), None);
    assert_eq!(names(&mut all.iter()), "a/a a/a-b a/a.b team-a/z team/a team/b zoo/a");
    assert_eq!((all.len(), all.is_empty()), (7, false));
    assert_eq!(names(&mut all.after("team-a", "z")), "team/a team/b zoo/a");
    assert_eq!(names(&mut all.after("team-a", "y")), "team-a/z team/a team/b zoo/a");
    assert_eq!(all.count_after("team-a", "z"), 3);
    assert_eq!(names(&mut all.after("zoo", "a")), "");

    let team = store.list(&pods(), Some("team"));
    assert_eq!(names(&mut team.iter()), "team/a team/b");
    assert_eq!((team.len(), team.count_after("team", "a")), (2, 1));
    assert_eq!(names(&mut team.after("team", "a")), "team/b");
    assert_eq!(names(&mut team.after("a", "a")), "team/a team/b");
    assert_eq!(names(&mut team.after("zoo", "a")), "");
    assert_eq!(names(&mut team.within(None).after("team", "b")), "zoo/a");
    for empty in ["tea", "teams", "", "zzz"] {
        assert!(store.list(&pods(), Some(empty)).is_empty(), "{empty}");
    }
    assert!(store.list(&Collection::new("apps", "pods"), None).is_empty());
}

#[tokio::test]
async fn a_listing_does_not_change_while_it_is_read() {
    let store = in_memory();
    let first = store.create(pod("ns", "a"), object(1)).await.unwrap();
    let before = store.list(&pods(), None);
    let second = store.replace(pod("ns", "a"), object(2), first.revision).await.unwrap();
    store.create(pod("ns", "b"), object(3)).await.unwrap();
    store.remove(pod("ns", "a"), object(2), second.revision).await.unwrap();
    assert_eq!(before.revision, Revision(2));
    assert_eq!(before.iter().collect::<Vec<_>>(), [first]);

    let again = store.snapshot_at(&pods(), Revision(2)).unwrap();
    assert_eq!(plain(&again), plain(&before));
    assert_eq!(store.snapshot_at(&pods(), Revision(4)).unwrap().len(), 2);
    assert!(store.snapshot_at(&pods(), Revision(1)).unwrap().is_empty());
    let future = store.snapshot_at(&pods(), Revision(6));
    assert_eq!(future.unwrap_err(), Expired::Future { current: Revision(5) });
}

#[tokio::test]
async fn after_shutdown_reads_go_on_and_writes_are_refused() {
    let store = in_memory();
    let stored = store.create(pod("ns", "a"), object(1)).await.unwrap();
    store.shutdown().await;
    store.shutdown().await;
    let refused = store.create(pod("ns", "b"), object(1)).await;
    assert!(matches!(refused, Err(WriteError::Closed)));
    assert_eq!(store.get(&stored.key), Some(stored));
    let mut watch = store.watch(&pods(), None, Revision(1)).unwrap();
    assert!(watch.next().await.unwrap().is_ok(), "history is still there");
    assert!(watch.next().await.is_none());
}
