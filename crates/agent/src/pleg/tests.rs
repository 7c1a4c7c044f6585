use std::fs::{create_dir, create_dir_all, remove_dir, remove_dir_all, write};

use tempfile::TempDir;

use super::*;

/// Directories that hold pods, as the kernel's tree would have them.
struct Host {
    root: TempDir,
}

const TIERS: [&str; 3] = ["kubepods", "kubepods/burstable", "kubepods/besteffort"];

impl Host {
    fn new() -> Self {
        let host = Self { root: tempfile::tempdir().unwrap() };
        for tier in TIERS {
            create_dir_all(host.path(tier)).unwrap();
        }
        host
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn parents(&self) -> Vec<PathBuf> {
        TIERS.iter().map(|tier| self.path(tier)).collect()
    }
}

fn came(uid: &str) -> Change {
    Change::PodCame { uid: uid.to_owned() }
}

fn went(uid: &str) -> Change {
    Change::PodWent { uid: uid.to_owned() }
}

fn started(uid: &str, container: &str) -> Change {
    Change::ContainerCame { uid: uid.to_owned(), container: container.to_owned() }
}

fn ended(uid: &str, container: &str) -> Change {
    Change::ContainerWent { uid: uid.to_owned(), container: container.to_owned() }
}

#[test]
fn a_new_pod_and_its_container_are_one_event_each() {
    let host = Host::new();
    let mut pleg = Pleg::new(host.parents());
    assert_eq!(pleg.resync(), []);
    assert!(pleg.is_watching());

    create_dir(host.path("kubepods/burstable/poda")).unwrap();
    assert_eq!(pleg.drain(), [came("a")]);
    create_dir(host.path("kubepods/burstable/poda/c1")).unwrap();
    write(host.path("kubepods/burstable/poda/cpu.shares"), "2").unwrap();
    assert_eq!(pleg.drain(), [started("a", "c1")], "files are no containers");
    assert_eq!(pleg.drain(), [], "nothing is said twice");

    remove_dir(host.path("kubepods/burstable/poda/c1")).unwrap();
    assert_eq!(pleg.drain(), [ended("a", "c1")]);
    remove_dir_all(host.path("kubepods/burstable/poda")).unwrap();
    assert_eq!(pleg.drain(), [went("a")]);
    assert!(pleg.is_watching());
}

#[test]
fn containers_made_before_the_pod_is_watched_are_seen() {
    let host = Host::new();
    let mut pleg = Pleg::new(host.parents());
    pleg.resync();
    create_dir_all(host.path("kubepods/poda/c1")).unwrap();
    create_dir(host.path("kubepods/poda/c2")).unwrap();
    let mut changes = pleg.drain();
    changes.sort();
    assert_eq!(changes, [came("a"), started("a", "c1"), started("a", "c2")]);
    assert_eq!(pleg.drain(), []);
}

#[test]
fn what_was_there_before_the_start_is_reported_once() {
    let host = Host::new();
    create_dir_all(host.path("kubepods/besteffort/podb/c1")).unwrap();
    let mut pleg = Pleg::new(host.parents());
    assert_eq!(pleg.resync(), [came("b"), started("b", "c1")]);
    assert_eq!(pleg.resync(), []);
}

#[test]
fn without_watches_the_tree_is_compared() {
    let host = Host::new();
    let mut pleg = Pleg::without_watches(host.parents());
    assert_eq!(pleg.resync(), []);
    assert!(!pleg.is_watching());
    create_dir_all(host.path("kubepods/poda/c1")).unwrap();
    assert_eq!(pleg.drain(), [came("a"), started("a", "c1")]);
    remove_dir_all(host.path("kubepods/poda")).unwrap();
    assert_eq!(pleg.resync(), [ended("a", "c1"), went("a")]);
}

#[test]
fn a_tier_that_is_missing_or_made_anew_is_found_again() {
    let host = Host::new();
    remove_dir(host.path("kubepods/besteffort")).unwrap();
    let mut pleg = Pleg::new(host.parents());
    pleg.resync();
    assert!(!pleg.is_watching(), "a missing tier must be looked for");

    create_dir(host.path("kubepods/besteffort")).unwrap();
    pleg.resync();
    assert!(pleg.is_watching());
    create_dir(host.path("kubepods/besteffort/podb")).unwrap();
    pleg.drain();

    remove_dir_all(host.path("kubepods/besteffort")).unwrap();
    let changes = pleg.drain();
    assert!(changes.contains(&went("b")), "{changes:?}");
    assert!(!pleg.is_watching());
    create_dir_all(host.path("kubepods/besteffort/podc")).unwrap();
    assert_eq!(pleg.resync(), [came("c")]);
    create_dir(host.path("kubepods/besteffort/podc/c1")).unwrap();
    assert_eq!(pleg.drain(), [started("c", "c1")]);
}

#[test]
fn a_tier_that_is_replaced_behind_our_back_is_noticed() {
    let host = Host::new();
    let mut pleg = Pleg::new(host.parents());
    pleg.resync();
    assert_eq!(pleg.verify(), []);
    std::fs::rename(host.path("kubepods"), host.path("old")).unwrap();
    for tier in TIERS {
        create_dir_all(host.path(tier)).unwrap();
    }
    create_dir(host.path("kubepods/burstable/poda")).unwrap();
    assert_eq!(pleg.drain(), [], "the watches are on what was moved away");
    assert_eq!(pleg.verify(), [came("a")]);
    assert!(pleg.is_watching());
    create_dir(host.path("kubepods/burstable/podb")).unwrap();
    assert_eq!(pleg.drain(), [came("b")]);
}

#[test]
fn pods_that_are_gone_are_not_watched() {
    let host = Host::new();
    let mut pleg = Pleg::new(host.parents());
    pleg.resync();
    for n in 0..50 {
        let pod = host.path(&format!("kubepods/pod{n}"));
        create_dir(&pod).unwrap();
        pleg.drain();
        remove_dir(&pod).unwrap();
        pleg.drain();
    }
    assert_eq!(pleg.watches.as_ref().unwrap().count(), TIERS.len());
}

#[test]
fn lost_events_are_made_up_for() {
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let host = Host::new();
    let mut pleg = Pleg::new(host.parents());
    pleg.resync();
    let busy = host.path("kubepods/busy");
    for _ in 0..=limit / 2 {
        create_dir(&busy).unwrap();
        remove_dir(&busy).unwrap();
    }
    create_dir(host.path("kubepods/poda")).unwrap();
    assert_eq!(pleg.drain(), [came("a")], "the queue was full when the pod came");
    assert_eq!(pleg.drain(), []);
}

#[tokio::test]
async fn the_thread_tells_without_being_asked() {
    let host = Host::new();
    let (mut changes, _stop) = follow(host.parents()).unwrap();
    create_dir(host.path("kubepods/poda")).unwrap();
    assert_eq!(changes.recv().await, Some(came("a")));
    create_dir(host.path("kubepods/poda/c1")).unwrap();
    assert_eq!(changes.recv().await, Some(started("a", "c1")));
}
