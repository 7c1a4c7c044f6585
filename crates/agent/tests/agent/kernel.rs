//! Control groups of the kernel this test runs on; without the right to make one there is nothing to see.

use std::fs::{create_dir, remove_dir};
use std::path::PathBuf;

use agent::pleg::{Change, Pleg};

/// A control group of our own, removed in the end.
struct Group(PathBuf);

impl Group {
    fn make() -> Option<Self> {
        let places = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"];
        let name = format!("tidepool-pleg-{}", std::process::id());
        let dirs = places.into_iter().map(|place| PathBuf::from(place).join(&name));
        dirs.into_iter().find(|dir| create_dir(dir).is_ok()).map(Self)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for below in ["tier/poda/c1", "tier/poda", "tier", ""] {
            let _ = remove_dir(self.0.join(below));
        }
    }
}

#[test]
fn pods_come_and_go_as_the_kernel_tells() {
    let Some(group) = Group::make() else {
        eprintln!("no control group can be made here");
        return;
    };
    let tier = group.0.join("tier");
    let pod = tier.join("poda");
    create_dir(&tier).unwrap();
    let mut pleg = Pleg::new(vec![group.0.clone(), tier.clone()]);
    pleg.resync();
    assert!(pleg.is_watching());
    let (uid, container) = ("a".to_owned(), "c1".to_owned());
    for _ in 0..3 {
        create_dir(&pod).unwrap();
        assert_eq!(pleg.drain(), [Change::PodCame { uid: uid.clone() }]);
        create_dir(pod.join("c1")).unwrap();
        let started = Change::ContainerCame { uid: uid.clone(), container: container.clone() };
        assert_eq!(pleg.drain(), [started]);
        remove_dir(pod.join("c1")).unwrap();
        remove_dir(&pod).unwrap();
        let ended = Change::ContainerWent { uid: uid.clone(), container: container.clone() };
        assert_eq!(pleg.drain(), [ended, Change::PodWent { uid: uid.clone() }]);
    }
    remove_dir(&tier).unwrap();
    pleg.drain();
    assert!(!pleg.is_watching(), "the kernel told that the tier is gone");
    create_dir(&tier).unwrap();
    create_dir(&pod).unwrap();
    assert!(pleg.drain().contains(&Change::PodCame { uid }));
    assert!(pleg.is_watching());
}
