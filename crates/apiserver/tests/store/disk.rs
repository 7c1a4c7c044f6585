//! Files: who may open them, what damage does, what a full disk does.

use std::{
    error::Error,
    fs,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    panic,
    path::Path,
    process::Command,
};

use apiserver::store::{
    Collection, Key, Limits, OpenError, Revision, Store, WatchError, WriteError,
};
use redb::{Database, TableDefinition};
use serde_json::json;
use tokio::task::JoinSet;

use crate::random::Random;
use crate::support::{object, plain, pod, pods};

fn open(dir: &Path) -> Result<Store, OpenError> {
    Store::open(dir, Limits::default())
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += ": ";
        text += &cause.to_string();
        source = cause.source();
    }
    text
}

#[tokio::test]
async fn everything_is_there_again_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("made/when/needed");
    let store = open(&dir).unwrap();
    let cluster_id = store.cluster_id();
    let keys = [
        pod("ns", "a"),
        pod("ns", "b"),
        Key::new(&Collection::new("", "nodes"), "", "n1"),
        Key::new(&Collection::new("", "node"), "", "s/1".replace('/', ":")),
        Key::new(&Collection::new("apps", "deployments"), "ns", "a"),
    ];
    let mut written = Vec::new();
    for (key, value) in keys.iter().zip(0..) {
        written.push(store.create(key.clone(), object(value)).await.unwrap());
    }
    let b = &written[1];
    let last = store.remove(b.key.clone(), object(1), b.revision).await.unwrap();
    written.remove(1);
    drop(store);

    for file in ["objects.redb", "lock"] {
        let mode = fs::metadata(dir.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);

    let store = open(&dir).unwrap();
    assert_eq!((store.cluster_id(), store.revision()), (cluster_id, last.revision));
    for stored in &written {
        assert_eq!(store.get(&stored.key).as_ref(), Some(stored));
    }
    assert_eq!(store.list(&pods(), None).len(), 1);
}

#[tokio::test]
async fn after_a_restart_a_watch_starts_at_its_collections_last_change() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let nodes = Collection::new("", "nodes");
    store.create(Key::new(&nodes, "", "n1"), object(1)).await.unwrap();
    let a = store.create(pod("ns", "a"), object(1)).await.unwrap();
    store.remove(pod("ns", "a"), object(1), a.revision).await.unwrap();
    drop(store);

    let store = open(dir.path()).unwrap();
    let nothing_missed = store.watch(&nodes, None, Revision(2)).unwrap();
    assert_eq!(nothing_missed.progress(), Some(Revision(4)));
    let too_old = store.watch(&nodes, None, Revision(1)).unwrap_err();
    assert_eq!(too_old, WatchError::Compacted { oldest: Revision(2) });
    let removal_missed = store.watch(&pods(), None, Revision(3)).unwrap_err();
    assert_eq!(removal_missed, WatchError::Compacted { oldest: Revision(4) });
    assert!(store.watch(&pods(), None, Revision(4)).is_ok());
    assert!(store.snapshot_at(&nodes, Revision(3)).is_ok());
    assert!(store.snapshot_at(&pods(), Revision(3)).is_err());
}

#[tokio::test]
async fn a_second_owner_is_told_who_the_first_is() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    let error = open(dir.path()).unwrap_err();
    let lock = dir.path().join("lock");
    let want = format!("{} is held by process {}", lock.display(), std::process::id());
    assert_eq!(error.to_string(), want);

    first.shutdown().await;
    let second = open(dir.path()).expect("shutdown releases, although a handle remains");
    drop(first);
    assert!(open(dir.path()).is_err());
    drop(second);
    open(dir.path()).expect("dropping the last handle releases");
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let path = dir.path().join("objects.redb");
    let meta: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
    let set = |name: &str, value: &str| {
        let database = Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(meta).unwrap().insert(name, value).unwrap();
        transaction.commit().unwrap();
    };
    set("format", "2");
    let error = open(dir.path()).unwrap_err().to_string();
    assert_eq!(error, format!("{} has format 2: this version reads up to 1", path.display()));
    set("format", "one");
    let error = chain(&open(dir.path()).unwrap_err());
    assert!(error.ends_with(r#"is damaged; it was left as it is: format is "one""#), "{error}");
    set("format", "1");
    set("revision", "-1");
    let error = chain(&open(dir.path()).unwrap_err());
    assert!(error.contains("damaged") && error.contains("no revision"), "{error}");
    set("revision", "1");
    open(dir.path()).unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.redb");
    for (name, content) in [
        ("empty", Vec::new()),
        ("short", b"redb".to_vec()),
        ("text", b"not a database\n".repeat(1000)),
        ("zeros", vec![0; 1 << 20]),
    ] {
        fs::write(&path, &content).unwrap();
        match open(dir.path()) {
            Err(OpenError::Damaged { path: named, .. }) => assert_eq!(named, path, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(fs::read(&path).unwrap(), content, "{name}");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::Io { .. })), "a directory");
}

#[tokio::test]
async fn a_file_that_lost_acknowledged_writes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.redb");
    let store = open(dir.path()).unwrap();
    store.create(pod("ns", "a"), object(1)).await.unwrap();
    drop(store);
    let old = fs::read(&path).unwrap();
    let store = open(dir.path()).unwrap();
    store.create(pod("ns", "b"), object(1)).await.unwrap();
    drop(store);
    let new = fs::read(&path).unwrap();

    fs::write(&path, &old).unwrap();
    let error = open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("ends at revision 2, but revision 3 was acknowledged"), "{error}");
    assert!(fs::read(&path).unwrap() == old, "left as it was");
    fs::remove_file(&path).unwrap();
    let error = open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("is missing, but revision 3 was acknowledged"), "{error}");
    assert!(!path.exists(), "not made anew");
    fs::write(&path, &new).unwrap();
    assert_eq!(open(dir.path()).unwrap().revision(), Revision(3));
}

/// Spoils a copy of a file in one of the ways that disks and people do.
fn spoil(content: &mut Vec<u8>, random: &mut Random) -> &'static str {
    let size = content.len() as u64;
    let mut at = |limit: u64| usize::try_from(random.below(limit)).unwrap();
    let page = at(size / 4096) * 4096;
    match at(5) {
        0 => {
            content[at(size)] ^= 1 << at(8);
            "a flipped bit"
        }
        1 => {
            content[at(512)] ^= 1 << at(8);
            "a flipped bit in the header"
        }
        2 => {
            content[page..page + 4096].fill(0);
            "a page of zeros"
        }
        3 => {
            let noise: Vec<u8> = (0..64).map(|_| u8::try_from(at(256)).unwrap()).collect();
            content[page..page + 64].copy_from_slice(&noise);
            "noise over a page's head"
        }
        _ => {
            content.truncate(at(size));
            "a cut"
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_harmless_or_reported_and_never_made_worse() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.redb");
    let store = open(dir.path()).unwrap();
    for round in 0..3u64 {
        let mut writes = JoinSet::new();
        for n in 0..40u64 {
            let store = store.clone();
            let key = pod("ns", &format!("{round}-{n}"));
            let value = json!({
                "metadata": {"labels": {"a": "b"}},
                "value": n,
                "padding": "x".repeat(500),
            });
            writes.spawn(async move { store.create(key, value).await.unwrap() });
        }
        writes.join_all().await;
    }
    let want = plain(&store.list(&pods(), None));
    store.shutdown().await;
    let good = fs::read(&path).unwrap();

    let mut random = Random::new(7);
    let (mut harmless, mut reported) = (0, 0);
    for round in 0..100 {
        let mut bad = good.clone();
        let what = spoil(&mut bad, &mut random);
        fs::write(&path, &bad).unwrap();
        match panic::catch_unwind(|| open(dir.path())) {
            Ok(Ok(store)) => {
                harmless += 1;
                assert_eq!(plain(&store.list(&pods(), None)), want, "round {round}: {what}");
            }
            Ok(Err(OpenError::Damaged { .. } | OpenError::Behind { .. })) => {
                reported += 1;
                assert!(fs::read(&path).unwrap() == bad, "round {round}: {what} made worse");
            }
            other => panic!("round {round}: {what}: {other:?}"),
        }
    }
    assert!(harmless > 10 && reported > 10, "{harmless} harmless, {reported} reported");
}

const FULL_DISK: &str = "TIDEPOOL_TEST_FULL_DISK";

/// Runs with a limit on the size of files, see below.
#[tokio::test]
async fn full_disk_child() {
    let Some(dir) = std::env::var_os(FULL_DISK) else { return };
    let dir = Path::new(&dir);
    let store = open(dir).unwrap();
    let large =
        || json!({"metadata": {"labels": {"a": "b"}}, "value": 1, "x": "y".repeat(100_000)});
    let mut written = 0;
    let error = loop {
        match store.create(pod("ns", &written.to_string()), large()).await {
            Ok(_) => written += 1,
            Err(WriteError::Storage(error)) => break error,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(error.path, dir.join("objects.redb"));
    assert_eq!(error.source.kind(), io::ErrorKind::FileTooLarge);
    let refused = chain(&WriteError::Storage(error));
    assert!(
        refused.starts_with("cannot write to ") && refused.contains("(os error 27)"),
        "{refused}"
    );

    let full = Revision(1 + written);
    assert_eq!((store.revision(), store.list(&pods(), None).len() as u64), (full, written));
    let again = store.create(pod("ns", "again"), large()).await;
    assert!(matches!(again, Err(WriteError::Storage(_))), "{again:?}");
    assert_eq!(store.get(&pod("ns", "again")), None);
    let exists = store.create(pod("ns", "0"), large()).await;
    assert!(matches!(exists, Err(WriteError::Exists)), "refusals need no disk: {exists:?}");

    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize);
    let lifted = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, lifted).unwrap();
    let after = store.create(pod("ns", "after"), large()).await.unwrap();
    assert_eq!(after.revision, Revision(full.0 + 1), "failed writes take no revision");
    let mut out = io::stdout();
    writeln!(out, "written {written}").unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    // The signal would end the process before the write could fail.
    let script = r#"trap "" XFSZ; ulimit -S -f 12000; exec "$0" "$@""#;
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "disk::full_disk_child", "--nocapture"])
        .env(FULL_DISK, dir.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let written: usize = stdout
        .lines()
        .find_map(|line| line.strip_prefix("written "))
        .unwrap_or_else(|| panic!("{stdout}"))
        .parse()
        .unwrap();
    assert!(written > 5, "{written}");
    let store = open(dir.path()).unwrap();
    assert_eq!(store.list(&pods(), None).len(), written + 1);
    assert!(store.get(&pod("ns", "after")).is_some());
}

/// Prints how long a start takes; what it asserts is that everything is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_thousand_objects_are_there_after_a_start() {
    const OBJECTS: u64 = 50_000;
    const CALLERS: u64 = 256;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let store = store.clone();
        callers.spawn(async move {
            for n in (caller..OBJECTS).step_by(usize::try_from(CALLERS).unwrap()) {
                let key = pod(&format!("team-{}", n % 50), &format!("web-{n}"));
                store.create(key, object(n)).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    drop(store);
    let start = std::time::Instant::now();
    let store = open(dir.path()).unwrap();
    println!("{OBJECTS} objects are there after {:?}", start.elapsed());
    let all = store.list(&pods(), None);
    assert_eq!((all.len() as u64, store.revision().0), (OBJECTS, OBJECTS + 1));
    assert_eq!(store.list(&pods(), Some("team-7")).len() as u64, OBJECTS / 50);
}
