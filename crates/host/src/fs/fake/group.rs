//! Making and removing directories in a fake kernel file system.
//!
//! A new cgroup gets the files of the controllers it has: on v1 those of the hierarchy it is in, on v2
//! those its parent hands down in `cgroup.subtree_control`. Vendor files appear where the parent has
//! them. A resctrl group gets `schemata` and `tasks`.

use std::path::Path;

use rustix::io::Errno;

use super::Tree;

pub(super) const CGROUP_ROOT: &str = "sys/fs/cgroup";
pub(super) const RESCTRL_ROOT: &str = "sys/fs/resctrl";

/// A file of a new v1 cgroup, with what it says.
const V1_FILES: &[(&str, &str, &str)] = &[
    ("cpu", "cpu.shares", "1024"),
    ("cpu", "cpu.cfs_quota_us", "-1"),
    ("cpu", "cpu.cfs_period_us", "100000"),
    ("cpu", "cpu.cfs_burst_us", "0"),
    ("cpu", "cpu.idle", "0"),
    ("cpu", "cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0"),
    ("cpuacct", "cpuacct.usage", "0"),
    ("cpuset", "cpuset.cpus", ""),
    ("cpuset", "cpuset.mems", ""),
    ("memory", "memory.limit_in_bytes", "9223372036854771712"),
    ("memory", "memory.usage_in_bytes", "0"),
    ("memory", "memory.stat", V1_MEMORY_STAT),
    ("blkio", "blkio.throttle.read_bps_device", ""),
    ("blkio", "blkio.throttle.write_bps_device", ""),
    ("blkio", "blkio.throttle.read_iops_device", ""),
    ("blkio", "blkio.throttle.write_iops_device", ""),
    ("pids", "pids.current", "0"),
    ("pids", "pids.max", "max"),
    ("freezer", "freezer.state", "THAWED"),
];

const V1_MEMORY_STAT: &str = "cache 0\nrss 0\ninactive_anon 0\nactive_anon 0\ninactive_file 0\n\
    active_file 0\nunevictable 0\ntotal_cache 0\ntotal_rss 0\ntotal_inactive_anon 0\n\
    total_active_anon 0\ntotal_inactive_file 0\ntotal_active_file 0\ntotal_unevictable 0";

/// A file of a new v2 cgroup, with the controller that brings it.
const V2_FILES: &[(&str, &str, &str)] = &[
    ("", "cgroup.controllers", ""),
    ("", "cgroup.freeze", "0"),
    ("", "cgroup.subtree_control", ""),
    ("", "cpu.stat", "usage_usec 0\nuser_usec 0\nsystem_usec 0"),
    ("cpu", "cpu.max", "max 100000"),
    ("cpu", "cpu.max.burst", "0"),
    ("cpu", "cpu.weight", "100"),
    ("cpu", "cpu.idle", "0"),
    ("cpuset", "cpuset.cpus", ""),
    ("cpuset", "cpuset.cpus.effective", ""),
    ("cpuset", "cpuset.mems", ""),
    ("io", "io.max", ""),
    ("io", "io.stat", ""),
    ("memory", "memory.current", "0"),
    ("memory", "memory.min", "0"),
    ("memory", "memory.low", "0"),
    ("memory", "memory.high", "max"),
    ("memory", "memory.max", "max"),
    ("memory", "memory.oom.group", "0"),
    ("memory", "memory.stat", V2_MEMORY_STAT),
    ("pids", "pids.current", "0"),
    ("pids", "pids.max", "max"),
];

const V2_MEMORY_STAT: &str = "anon 0\nfile 0\ninactive_anon 0\nactive_anon 0\ninactive_file 0\n\
    active_file 0\nunevictable 0";

/// Files that only some kernels have; a child has what its parent has.
const VENDOR_FILES: &[(&str, &str)] = &[
    ("cpu.bvt_warp_ns", "0"),
    ("memory.wmark_ratio", "0"),
    ("memory.wmark_scale_factor", "50"),
    ("memory.wmark_min_adj", "0"),
    ("memory.priority", "0"),
    ("memory.use_priority_oom", "0"),
    ("memory.oom.group", "0"),
    ("memory.min", "0"),
    ("memory.low", "0"),
    ("memory.high", "9223372036854771712"),
    ("cpu.pressure", PRESSURE),
    ("memory.pressure", PRESSURE),
    ("io.pressure", PRESSURE),
];

const PRESSURE: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n\
    full avg10=0.00 avg60=0.00 avg300=0.00 total=0";

pub(super) fn make(tree: &mut Tree, dir: &Path) -> Result<(), Errno> {
    let parent = dir.parent().ok_or(Errno::EXIST)?;
    if tree.dirs.contains(dir) || tree.files.contains_key(dir) {
        return Err(Errno::EXIST);
    }
    if !tree.dirs.contains(parent) {
        return Err(Errno::NOENT);
    }
    let parent = parent.to_owned();
    tree.dirs.insert(dir.to_owned());
    if parent.starts_with(RESCTRL_ROOT) {
        let schemata = tree.text(&Path::new(RESCTRL_ROOT).join("schemata"));
        tree.put(dir.join("schemata"), schemata);
        tree.files.insert(dir.join("tasks"), Vec::new());
    } else if parent.starts_with(CGROUP_ROOT) {
        make_cgroup(tree, dir, &parent);
    }
    Ok(())
}

fn make_cgroup(tree: &mut Tree, dir: &Path, parent: &Path) {
    tree.files.insert(dir.join("cgroup.procs"), Vec::new());
    match hierarchy(tree, dir) {
        Some(names) => {
            tree.files.insert(dir.join("tasks"), Vec::new());
            for (controller, file, content) in V1_FILES {
                if names.split(',').any(|name| name == *controller) {
                    tree.put(dir.join(file), *content);
                }
            }
        }
        None => {
            let enabled = tree.text(&parent.join("cgroup.subtree_control"));
            tree.files.insert(dir.join("cgroup.threads"), Vec::new());
            for (controller, file, content) in V2_FILES {
                if controller.is_empty() || enabled.split(' ').any(|name| name == *controller) {
                    tree.put(dir.join(file), *content);
                }
            }
            tree.put(dir.join("cgroup.controllers"), enabled);
            if let Some(cpus) = tree.files.get(&parent.join("cpuset.cpus.effective")).cloned() {
                tree.files.insert(dir.join("cpuset.cpus.effective"), cpus);
            }
        }
    }
    for (file, content) in VENDOR_FILES {
        let is_mainline = tree.files.contains_key(&dir.join(file));
        if !is_mainline && tree.files.contains_key(&parent.join(file)) {
            tree.put(dir.join(file), *content);
        }
    }
}

/// The v1 hierarchy a cgroup directory is in (`cpu,cpuacct`); `None` on v2.
pub(super) fn hierarchy<'p>(tree: &Tree, dir: &'p Path) -> Option<&'p str> {
    if tree.files.contains_key(&Path::new(CGROUP_ROOT).join("cgroup.controllers")) {
        return None;
    }
    dir.strip_prefix(CGROUP_ROOT).ok()?.iter().next()?.to_str()
}

pub(super) fn remove(tree: &mut Tree, dir: &Path) -> Result<(), Errno> {
    if !tree.dirs.contains(dir) {
        return Err(Errno::NOENT);
    }
    let is_used =
        !tree.children(dir).is_empty() || !tree.text(&dir.join("cgroup.procs")).is_empty();
    if is_used {
        return Err(Errno::BUSY);
    }
    if dir.starts_with(RESCTRL_ROOT) {
        // Its threads fall back into the root's group.
        let root = Path::new(RESCTRL_ROOT).join("tasks");
        let moved = tree.files.get(&dir.join("tasks")).cloned().unwrap_or_default();
        if let Some(tasks) = tree.files.get_mut(&root) {
            tasks.extend(moved);
        }
    }
    tree.files.retain(|file, _| !file.starts_with(dir));
    tree.dirs.remove(dir);
    Ok(())
}
