//! The recorded hosts, read through the typed layer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

#[path = "hosts/cgroups.rs"]
mod cgroups;
#[path = "hosts/faults.rs"]
mod faults;
#[path = "hosts/machines.rs"]
mod machines;
#[path = "hosts/rules.rs"]
mod rules;

use std::sync::Arc;

use api::qos::KubeQos;
use groups::{CgroupPath, ContainerId, Driver, Layout, PodUid};
use host::cgroup::Tree;
use host::fs::FakeFs;

const V1: &str = include_str!("../../../fixtures/hosts/v1-32cpu-2numa.txt");
const V2: &str = include_str!("../../../fixtures/hosts/v2-16cpu.txt");
const RESCTRL: &str = include_str!("../../../fixtures/hosts/v2-64cpu-resctrl.txt");
const ANOLIS: &str = include_str!("../../../fixtures/hosts/v1-anolis-bvt.txt");

const WEB: &str = "8d1b0b1e-6f4e-4a8c-9d0a-2f1c5f0a7b31";
const WEB_CONTAINER: &str = "4f1c8e0d9a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d";
const WEB_SANDBOX: &str = "0aa1bb2cc3dd4ee5ff60718293a4b5c6d7e8f90112233445566778899aabbccd";

struct Machine {
    fake: FakeFs,
    tree: Tree,
    layout: Layout,
    /// The container of the Burstable pod.
    web: CgroupPath,
}

fn machine(text: &str, runtime: &str) -> Machine {
    let fake = FakeFs::from_fixture(text).unwrap();
    let tree = Tree::find(Arc::new(fake.clone())).unwrap();
    let layout = Layout::new(tree.driver().unwrap());
    let id: ContainerId = format!("{runtime}://{WEB_CONTAINER}").parse().unwrap();
    let web = layout.container(KubeQos::Burstable, &PodUid::new(WEB), &id);
    Machine { fake, tree, layout, web }
}

/// One of each version and driver, with the same two pods.
fn v1() -> Machine {
    let machine = machine(V1, "docker");
    assert_eq!(machine.layout.driver(), Driver::Cgroupfs);
    machine
}

fn v2() -> Machine {
    let machine = machine(V2, "containerd");
    assert_eq!(machine.layout.driver(), Driver::Systemd);
    machine
}
