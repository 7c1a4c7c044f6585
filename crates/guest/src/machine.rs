//! What machine did the emulator make? One line, so that xtask can compare it
//! with what it asked for before it believes any test.

use std::{collections::BTreeSet, fs};

/// Text of the files that describe the machine; what is missing is empty.
pub(crate) fn describe() -> String {
    let online = read("/sys/devices/system/cpu/online");
    let packages: BTreeSet<_> =
        (0..cpu_count(&online)).map(|cpu| topology(cpu, "physical_package_id")).collect();
    let psi: Vec<_> = ["cpu", "io", "memory"]
        .into_iter()
        .filter(|resource| !read(&format!("/proc/pressure/{resource}")).is_empty())
        .collect();
    format!(
        "cpus={online} packages={} siblings={} nodes={} controllers={} psi={} disks={}",
        packages.len(),
        topology(0, "thread_siblings_list"),
        read("/sys/devices/system/node/online"),
        read("/sys/fs/cgroup/cgroup.subtree_control").replace(' ', ","),
        psi.join(","),
        names("/sys/block").join(","),
    )
}

fn topology(cpu: usize, file: &str) -> String {
    read(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}"))
}

/// How many processors `0-7` is. They are numbered from zero without gaps here.
fn cpu_count(online: &str) -> usize {
    let last = online.rsplit(['-', ',']).next().unwrap_or_default();
    last.parse::<usize>().map_or(0, |last| last.saturating_add(1))
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_from_the_kernels_list() {
        for (online, want) in [("0-7", 8), ("0", 1), ("0-1", 2), ("", 0), ("none", 0)] {
            assert_eq!(cpu_count(online), want, "{online:?}");
        }
    }
}
