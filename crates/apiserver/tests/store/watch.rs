//! What watchers see, and what they cost.

use std::sync::Arc;

use apiserver::store::{
    Event, EventKind, Lagged, Limits, Revision, Store, Watch, WatchError, WriteError,
};
use serde_json::json;
use tokio::task::JoinSet;

use crate::random::Random;
use crate::support::{Plain, in_memory, object, plain, pod, pods, replay};

async fn next(watch: &mut Watch) -> Arc<Event> {
    watch.next().await.expect("the store is open").expect("the watch keeps up")
}

#[tokio::test]
async fn a_namespaced_watch_sees_only_its_namespace() {
    let store = in_memory();
    let mut shop = store.watch(&pods(), Some("shop"), Revision(1)).unwrap();
    let mut all = store.watch(&pods(), None, Revision(1)).unwrap();
    store.create(pod("other", "a"), object(1)).await.unwrap();
    let mine = store.create(pod("shop", "a"), object(2)).await.unwrap();
    store.create(pod("shop-2", "a"), object(3)).await.unwrap();
    let gone = store.remove(pod("shop", "a"), object(2), mine.revision).await.unwrap();

    let first = next(&mut shop).await;
    assert_eq!((first.kind, &first.object), (EventKind::Added, &mine));
    assert_eq!(shop.progress(), None, "the removal is still to come");
    let second = next(&mut shop).await;
    assert_eq!((second.kind, &second.object), (EventKind::Deleted, &gone));
    assert_eq!(shop.progress(), Some(Revision(5)));

    let mut revisions = Vec::new();
    while all.progress().is_none() {
        revisions.push(next(&mut all).await.revision().0);
    }
    assert_eq!(revisions, [2, 3, 4, 5]);
    assert!(Arc::ptr_eq(&first.object.json, &mine.json), "bytes are shared, not copied");
}

#[tokio::test]
async fn a_quiet_collection_makes_progress_with_the_store() {
    let store = in_memory();
    let nodes = apiserver::store::Collection::new("", "nodes");
    let watch = store.watch(&nodes, None, Revision(1)).unwrap();
    assert_eq!(watch.progress(), Some(Revision(1)));
    store.create(pod("ns", "a"), object(1)).await.unwrap();
    assert_eq!(watch.progress(), Some(Revision(2)));
}

#[tokio::test]
async fn history_is_bounded_by_count_and_by_bytes() {
    struct Case {
        name: &'static str,
        limits: Limits,
        oldest: u64,
    }
    let size = in_memory().create(pod("ns", "a"), object(1)).await.unwrap().json.len();
    let cases = [
        Case { name: "no bound in reach", limits: Limits::default(), oldest: 0 },
        Case {
            name: "three events",
            limits: Limits { history_events: 3, ..Limits::default() },
            oldest: 3,
        },
        Case {
            name: "bytes of three objects",
            limits: Limits { history_bytes: 3 * size, ..Limits::default() },
            oldest: 3,
        },
        Case {
            name: "a byte less",
            limits: Limits { history_bytes: 3 * size - 1, ..Limits::default() },
            oldest: 4,
        },
        Case {
            name: "nothing",
            limits: Limits { history_events: 0, ..Limits::default() },
            oldest: 6,
        },
    ];
    for Case { name, limits, oldest } in cases {
        let store = Store::in_memory(limits).unwrap();
        for pod_name in ["a", "b", "c", "d", "e"] {
            store.create(pod("ns", pod_name), object(1)).await.unwrap();
        }
        for from in 0..=6 {
            let watch = store.watch(&pods(), None, Revision(from));
            if from < oldest {
                let oldest = Revision(oldest);
                assert_eq!(watch.unwrap_err(), WatchError::Compacted { oldest }, "{name} {from}");
                continue;
            }
            let mut watch = watch.unwrap();
            for want in (from + 1).max(2)..=6 {
                assert_eq!(next(&mut watch).await.revision().0, want, "{name} {from}");
            }
            assert_eq!(watch.progress(), Some(Revision(6)), "{name} {from}");
        }
        let future = store.watch(&pods(), None, Revision(7)).unwrap_err();
        assert_eq!(future, WatchError::Future { current: Revision(6) }, "{name}");
    }
}

#[tokio::test]
async fn a_watcher_that_lags_is_dropped_and_the_others_are_not() {
    struct Case {
        name: &'static str,
        limits: Limits,
        /// How many events a watcher may be behind.
        room: u64,
    }
    let size = in_memory().create(pod("ns", "1"), object(1)).await.unwrap().json.len();
    // No history, so that only watchers keep events alive.
    let tight = Limits { history_events: 0, ..Limits::default() };
    let cases = [
        Case { name: "by count", limits: Limits { watch_events: 3, ..tight.clone() }, room: 3 },
        Case {
            name: "by bytes",
            limits: Limits { watch_bytes: 2 * size, ..tight.clone() },
            room: 2,
        },
        Case { name: "one event always fits", limits: Limits { watch_bytes: 0, ..tight }, room: 1 },
    ];
    for Case { name, limits, room } in cases {
        let store = Store::in_memory(limits).unwrap();
        let mut quick = store.watch(&pods(), None, Revision(1)).unwrap();
        let mut slow = store.watch(&pods(), None, Revision(1)).unwrap();
        let mut elsewhere = store.watch(&pods(), Some("elsewhere"), Revision(1)).unwrap();
        let mut events = Vec::new();
        for value in 1..=room {
            store.create(pod("ns", &value.to_string()), object(1)).await.unwrap();
            events.push(next(&mut quick).await);
        }
        assert!(events.iter().all(|event| Arc::strong_count(event) == 2), "{name}: slow has them");

        store.create(pod("ns", "straw"), object(1)).await.unwrap();
        next(&mut quick).await;
        assert!(events.iter().all(|event| Arc::strong_count(event) == 1), "{name}: let go at once");
        assert_eq!(slow.progress(), None, "{name}");
        assert_eq!(slow.next().await, Some(Err(Lagged)), "{name}");
        assert_eq!(slow.next().await, None, "{name}");

        store.create(pod("elsewhere", "a"), object(1)).await.unwrap();
        assert!(next(&mut quick).await.revision() == next(&mut elsewhere).await.revision());
    }
}

#[tokio::test]
async fn history_that_is_replayed_does_not_count_as_lag() {
    let limits = Limits { watch_events: 2, ..Limits::default() };
    let store = Store::in_memory(limits).unwrap();
    for value in 0..10u64 {
        store.create(pod("ns", &value.to_string()), object(value)).await.unwrap();
    }
    let mut watch = store.watch(&pods(), None, Revision(1)).unwrap();
    for value in 10..12u64 {
        store.create(pod("ns", &value.to_string()), object(value)).await.unwrap();
    }
    for want in 2..=13 {
        assert_eq!(next(&mut watch).await.revision().0, want);
    }
    for value in 12..15u64 {
        store.create(pod("ns", &value.to_string()), object(value)).await.unwrap();
    }
    assert_eq!(watch.next().await, Some(Err(Lagged)), "three behind, two allowed");
}

#[tokio::test]
async fn a_hundred_watchers_share_one_copy_of_every_event() {
    let store = in_memory();
    let mut watches: Vec<Watch> =
        (0..100).map(|_| store.watch(&pods(), None, Revision(1)).unwrap()).collect();
    let stored = store.create(pod("ns", "a"), json!({"x": "y".repeat(10_000)})).await.unwrap();
    let first = next(&mut watches[0]).await;
    for watch in &mut watches[1..] {
        assert!(Arc::ptr_eq(&first, &next(watch).await));
    }
    assert!(Arc::ptr_eq(&first.object.json, &stored.json));
}

/// Creates, replaces and removes what it finds, many times, among others who do.
async fn write_at_random(store: Store, seed: u64, writes: usize) {
    let mut random = Random::new(seed);
    let mut done = 0;
    while done < writes {
        let namespace = ["a", "a-b", "b"][usize::try_from(random.below(3)).unwrap()];
        let key = pod(namespace, &random.below(6).to_string());
        let value = object(random.below(1_000_000));
        let outcome = match store.get(&key) {
            None => store.create(key, value).await,
            Some(found) if random.below(3) == 0 => store.remove(key, value, found.revision).await,
            Some(found) => store.replace(key, value, found.revision).await,
        };
        match outcome {
            Ok(_) => done += 1,
            Err(WriteError::Exists | WriteError::Missing | WriteError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Follows from a revision until the store ends; returns what it ends up with.
async fn follow(store: Store, from: Revision, namespace: Option<&str>) -> Plain {
    let start = store.snapshot_at(&pods(), from).unwrap().within(namespace);
    let mut seen = plain(&start);
    let mut watch = store.watch(&pods(), namespace, from).unwrap();
    drop(store);
    let mut last = from;
    while let Some(event) = watch.next().await {
        let event = event.unwrap();
        assert!(event.revision() > last, "in order, once");
        last = event.revision();
        replay(&mut seen, &event);
    }
    seen
}

/// No gap and no duplicate, wherever a watch starts and whoever writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_watch_ends_where_the_store_does() {
    const WRITERS: u64 = 8;
    const WRITES: usize = 400;
    const WATCHERS: u64 = 60;
    for seed in 0..4 {
        let store = in_memory();
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write_at_random(store.clone(), seed * 100 + writer, WRITES));
        }
        let mut random = Random::new(seed);
        let mut watchers = JoinSet::new();
        for watcher in 0..WATCHERS {
            // Spread over the writing: wait until the store has come so far.
            let due = Revision(watcher * WRITERS * WRITES as u64 / WATCHERS);
            while store.revision() < due {
                tokio::task::yield_now().await;
            }
            let from = Revision(1 + random.below(store.revision().0));
            let namespace = [None, Some("a"), Some("a-b")][usize::try_from(watcher % 3).unwrap()];
            let store = store.clone();
            watchers.spawn(async move { (namespace, follow(store, from, namespace).await) });
        }
        writers.join_all().await;
        let expected = store.revision();
        assert_eq!(expected.0, 1 + WRITERS * WRITES as u64, "seed {seed}: no revision is skipped");
        store.shutdown().await;
        for (namespace, seen) in watchers.join_all().await {
            let end = plain(&store.list(&pods(), namespace));
            assert_eq!(seen, end, "seed {seed}, namespace {namespace:?}");
        }
    }
}

/// The hand-over from history to live, many thousand times under fire.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watch_that_starts_among_writes_misses_none_of_them() {
    let store = in_memory();
    let mut writers = JoinSet::new();
    for seed in 0..4 {
        writers.spawn(write_at_random(store.clone(), seed, 2_500));
    }
    let mut watchers = JoinSet::new();
    for seed in 0..3 {
        let store = store.clone();
        watchers.spawn(async move {
            let mut random = Random::new(seed);
            let mut starts = 0;
            // There is one collection, so its revisions have no holes.
            loop {
                let from = store.revision().0.saturating_sub(random.below(3)).max(1);
                let mut watch = store.watch(&pods(), None, Revision(from)).unwrap();
                for want in from + 1..from + 5 {
                    match watch.next().await {
                        Some(event) => assert_eq!(event.unwrap().revision().0, want),
                        None => return starts,
                    }
                }
                starts += 1;
            }
        });
    }
    writers.join_all().await;
    store.shutdown().await;
    let starts: u64 = watchers.join_all().await.iter().sum();
    assert!(starts > 100, "only {starts} watches started among the writes");
}

/// Whoever is told of a revision finds it, and acknowledgements come in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_can_be_read_when_it_is_heard_of() {
    let store = in_memory();
    let mut watch = store.watch(&pods(), None, Revision(1)).unwrap();
    let writer = tokio::spawn(write_at_random(store.clone(), 1, 2_000));
    for _ in 0..2_000 {
        let event = next(&mut watch).await;
        assert!(store.revision() >= event.revision());
    }
    writer.await.unwrap();
}
