//! Does opening a store cost what is in it, and not more?
//!
//! Counted in bytes that this thread reads, as the kernel counts them, so the machine's load does
//! not matter. `tidepool bench api --start` measures the time.

use std::fs;
use std::path::Path;

use apiserver::store::{Limits, Store};
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{pod, pods};

/// Bytes read by this thread so far; `None` where the kernel does not count them.
fn bytes_read() -> Option<u64> {
    let counters = fs::read_to_string("/proc/thread-self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}

async fn fill(dir: &Path, objects: u64) {
    let store = Store::open(dir, Limits::default()).unwrap();
    let mut writes = JoinSet::new();
    for at in 0..objects {
        let store = store.clone();
        writes.spawn(async move {
            let object = json!({"metadata": {}, "padding": "x".repeat(2_000)});
            store.create(pod("ns", &format!("pod-{at:06}")), object).await.unwrap();
        });
    }
    writes.join_all().await;
}

/// Bytes read to open a store of so many objects, for each byte of its file.
async fn read_per_byte(objects: u64) -> Option<f64> {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), objects).await;
    let size = fs::metadata(dir.path().join("objects.redb")).unwrap().len();
    let before = bytes_read()?;
    let store = Store::open(dir.path(), Limits::default()).unwrap();
    let read = bytes_read()? - before;
    assert_eq!(u64::try_from(store.list(&pods(), None).len()).unwrap(), objects);
    Some(read as f64 / size as f64)
}

#[tokio::test]
async fn opening_reads_the_file_a_fixed_number_of_times() {
    for objects in [1_000, 5_000] {
        let Some(ratio) = read_per_byte(objects).await else { return };
        // The database verifies its pages in two passes, and then every object is loaded; a small
        // file stays in its cache.
        assert!((0.5..3.5).contains(&ratio), "{objects} objects: the file is read {ratio} times");
    }
}
