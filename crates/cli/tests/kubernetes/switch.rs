//! Off is off: every kernel file is as the kubelet and the container runtime had set it.

use std::collections::BTreeMap;

use crate::kernel::{Kernel, difference};
use crate::rig::{NODE, Rig};
use crate::seen::until;
use crate::{classes, install};

/// How often in a row settings are the same when nobody is at work on them.
const QUIET: u32 = 8;

/// Waits until all settings stay the same: the kubelet is still at work on new pods.
fn settled(rig: &Rig) -> BTreeMap<String, String> {
    let kernel = Kernel::of(rig);
    let (mut last, mut same) = (kernel.all_settings(), 0);
    until(rig, "nobody changes anything", || {
        let now = kernel.all_settings();
        let changed = difference(&last, &now);
        same = if changed.is_empty() { same + 1 } else { 0 };
        last = now;
        if same >= QUIET { Ok(last.clone()) } else { Err(changed) }
    })
}

fn until_as(rig: &Rig, what: &str, wanted: &BTreeMap<String, String>) {
    let kernel = Kernel::of(rig);
    until(rig, what, || {
        let changed = difference(wanted, &kernel.all_settings());
        if changed.is_empty() { Ok(()) } else { Err(changed) }
    });
}

pub(crate) fn off_and_on(rig: &Rig) {
    rig.clear();
    // Made while it is off, so that their files are the kubelet's and nobody else's.
    let off = rig.tidepool(&["off", "--cluster", "--reason", "a test"]).done();
    assert_eq!(off, format!("{NODE}: off; every kernel file is as it was found\n"));
    classes::deploy(rig);
    let original = settled(rig);

    assert_eq!(rig.tidepool(&["on", "--cluster"]).done(), format!("{NODE}: on\n"));
    let arranged = classes::until_arranged(rig);
    let off = rig.tidepool(&["off", "--cluster", "--reason", "a test"]).done();
    assert_eq!(off, format!("{NODE}: off; every kernel file is as it was found\n"));
    until_as(rig, "off by the cluster gives every file back", &original);
    let node = rig.get(&["node", NODE]).unwrap();
    assert_eq!(node["metadata"]["annotations"]["tidepool.io/switch-reason"], "a test");

    rig.tidepool(&["on", "--cluster"]).done();
    assert_eq!(classes::until_arranged(rig), arranged);
    let dir = install::agent_dir(rig);
    let off = rig.tidepool(&["off", "--agent-dir", &dir, "--reason", "a test"]).done();
    assert!(off.contains("given back by the agent"), "{off}");
    until_as(rig, "off on the machine gives every file back", &original);
    assert_eq!(rig.tidepool(&["on", "--agent-dir", &dir]).done(), "on\n");
    assert_eq!(classes::until_arranged(rig), arranged);
}
