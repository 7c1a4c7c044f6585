//! What the disk must keep when writing goes wrong.

use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use serde_json::json;

use super::{medium::Step, *};
use crate::store::{
    body::Body,
    key::Collection,
    state::{Intent, Stored},
};

fn key(resource: &str, name: &str) -> Key {
    Key::new(&Collection::new("", resource), "ns", name)
}

fn apply(state: &mut State, key: &Key, intent: Intent, value: u64) -> Change {
    let body = Body::new(json!({ "value": value }), 1_000).unwrap();
    state.apply(key, intent, &body).unwrap()
}

fn content(state: &State) -> Vec<Stored> {
    let collections = state.tables.keys();
    collections.flat_map(|name| state.snapshot(name, None).iter().collect::<Vec<_>>()).collect()
}

/// A failed sync does not say whether the batch is on disk. It was refused,
/// so the next batch must take it back.
#[test]
fn a_refused_batch_that_reached_the_disk_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, empty, _) = Disk::open(dir.path()).unwrap();
    let [kept, removed, added] = ["kept", "removed", "added"].map(|name| key("pods", name));
    let elsewhere = key("nodes", "added");
    let mut before = empty.clone();
    let first = apply(&mut before, &kept, Intent::Create, 1);
    let second = apply(&mut before, &removed, Intent::Create, 2);
    disk.commit(&empty, &before, &[first, second]).unwrap();

    let mut refused = before.clone();
    let expected = |key| before.get(key).unwrap().revision;
    let changes = [
        apply(&mut refused, &kept, Intent::Replace { expected: expected(&kept) }, 3),
        apply(&mut refused, &removed, Intent::Remove { expected: expected(&removed) }, 2),
        apply(&mut refused, &added, Intent::Create, 4),
        apply(&mut refused, &elsewhere, Intent::Create, 5),
    ];
    let open = disk.open.take().unwrap();
    layout::write(&open.database, &before, &refused, &changes, &HashSet::new()).unwrap();
    drop(open);
    disk.unsettled.extend(changes.iter().map(|change| change.event.object.key.clone()));

    let mut after = before.clone();
    let change = apply(&mut after, &key("pods", "next"), Intent::Create, 6);
    disk.commit(&before, &after, &[change]).unwrap();
    assert!(disk.unsettled.is_empty());
    drop(disk);
    let (_disk, found, _) = Disk::open(dir.path()).unwrap();
    assert_eq!((found.revision, content(&found)), (after.revision, content(&after)));
    assert_eq!(found.tables.size(), 1, "the other collection never was");
}

#[test]
fn a_file_that_lost_published_writes_stays_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, empty, _) = Disk::open(dir.path()).unwrap();
    let mut published = empty;
    apply(&mut published, &key("pods", "lost"), Intent::Create, 1);
    let mut after = published.clone();
    let change = apply(&mut after, &key("pods", "next"), Intent::Create, 2);
    disk.open = None;
    let error = disk.commit(&published, &after, &[change]).unwrap_err();
    assert!(error.source.to_string().contains("ends at revision 1"), "{}", error.source);
    assert!(disk.open.is_none());
}

/// One write of a batch: to which object, and what.
type Draft = (usize, u64);

/// Writes batches while everything that reaches the file is noted. Returns the
/// steps taken, and for each batch how many there were when it was durable.
fn record(batches: &[Vec<Draft>]) -> (Vec<Step>, Vec<(usize, State)>) {
    let medium = Medium::noting(tempfile::tempfile().unwrap()).unwrap();
    let database = builder().create_with_backend(medium.clone()).unwrap();
    layout::initialise(&database, Uuid::nil()).unwrap();
    let mut states = vec![(medium.steps().len(), State::empty())];
    for batch in batches {
        let before = states.last().unwrap().1.clone();
        let mut after = before.clone();
        let changes: Vec<Change> = batch
            .iter()
            .map(|(name, value)| {
                let key = key("pods", &name.to_string());
                let intent = match after.get(&key) {
                    None => Intent::Create,
                    Some(found) if value % 4 == 0 => Intent::Remove { expected: found.revision },
                    Some(found) => Intent::Replace { expected: found.revision },
                };
                apply(&mut after, &key, intent, *value)
            })
            .collect();
        layout::write(&database, &before, &after, &changes, &HashSet::new()).unwrap();
        states.push((medium.steps().len(), after));
    }
    let steps = medium.steps();
    medium.seal();
    (steps, states)
}

/// Takes a step as far as it is lucky, sector by sector.
fn take(step: &Step, file: &File, mut lucky: impl FnMut() -> bool) {
    match step {
        Step::SetLen(len) => file.set_len(*len).unwrap(),
        Step::Write { offset, data } => {
            for (sector, at) in data.chunks(512).zip((*offset..).step_by(512)) {
                if lucky() {
                    file.write_all_at(sector, at).unwrap();
                }
            }
        }
        Step::Sync => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// When the power fails, what was synced is on disk, and of what was written
    /// since any part may be: sectors in any order. Wherever that happens, the
    /// file opens at the end of a batch, none before the last acknowledged one.
    #[test]
    fn a_power_failure_leaves_whole_batches(
        batches in prop::collection::vec(prop::collection::vec((0..8usize, 0..1000u64), 1..5), 1..8),
        stop in any::<prop::sample::Index>(),
        luck in any::<u64>(),
    ) {
        let (steps, states) = record(&batches);
        let made = states[0].0;
        let stop = made + stop.index(steps.len() - made + 1);
        let file = tempfile::NamedTempFile::new().unwrap();
        let synced = steps[..stop]
            .iter()
            .rposition(|step| matches!(step, Step::Sync))
            .unwrap_or(0);
        let mut luck = luck;
        for (index, step) in steps[..stop].iter().enumerate() {
            take(step, file.as_file(), || {
                luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                index < synced || luck >> 63 == 0
            });
        }

        let open = verify(file.path()).unwrap();
        let (found, _) = layout::load(&open.database, file.path()).unwrap();
        let acknowledged = states.iter().rev().find(|(mark, _)| *mark <= stop).unwrap();
        prop_assert!(found.revision >= acknowledged.1.revision);
        let batch = states.iter().find(|(_, state)| state.revision == found.revision);
        let (_, want) = batch.expect("the end of a batch");
        prop_assert_eq!(content(&found), content(want));
    }
}
