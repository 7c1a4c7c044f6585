//! What the kernel does with a value that is written to one of its files.
//!
//! | file | rule |
//! |---|---|
//! | `cpu.max`, `cpu.cfs_quota_us` | at least 1 ms or none; never below the burst; on v1 a child may not exceed its parent's share of a CPU, checked both ways |
//! | `cpu.max.burst`, `cpu.cfs_burst_us` | at most the quota |
//! | `cpu.weight`, `cpu.shares` | refused while `cpu.idle` is 1; shares are clamped, weights refused |
//! | `cpu.idle` | puts the weight below the least, and back to the default |
//! | `cpuset.cpus` | v1: within the parent, around the children, not empty with tasks; v2: any, the effective set follows, but no longer empty once set and with processes in or below |
//! | `memory.*` limits | whole pages; `max` or -1 for none |
//! | `cgroup.procs` | the process leaves every other group of the hierarchy |
//! | `cgroup.subtree_control` | words with `+` or `-`; only controllers the group itself has |
//! | resctrl `schemata` | a line changes the domains it names, and only of a resource that is there |
//! | resctrl `tasks` | the thread leaves every other group |
//! | `sched_features` | a word switches one feature of the list |
//!
//! Everything else is kept as written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use units::CpuSet;

use super::{Tree, group};

const DEBUG: &str = "sys/kernel/debug";
const PAGE: u64 = 4096;
const LEAST_QUOTA: i64 = 1_000;
const PERIODS: std::ops::RangeInclusive<i64> = 1_000..=1_000_000;
/// What v1 shows for a memory limit that is none.
const V1_NO_LIMIT: u64 = 0x7FFF_FFFF_FFFF_F000;

pub(super) fn write(tree: &mut Tree, path: &Path, value: &str) -> Result<(), Errno> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
    else {
        return Err(Errno::INVAL);
    };
    let (dir, value) = (dir.to_owned(), value.trim());
    if dir.starts_with(group::RESCTRL_ROOT) && name == "schemata" {
        return schemata(tree, path, value);
    }
    if dir.starts_with(group::RESCTRL_ROOT) && name == "tasks" {
        return move_to(tree, Path::new(group::RESCTRL_ROOT), &dir, name, value);
    }
    if dir.starts_with(DEBUG) && ["features", "sched_features"].contains(&name) {
        return feature(tree, path, value);
    }
    if !dir.starts_with(group::CGROUP_ROOT) {
        tree.put(path.to_owned(), value);
        return Ok(());
    }
    let shown = match name {
        "cpu.max" => cpu_max(tree, &dir, value)?,
        "cpu.cfs_quota_us" | "cpu.cfs_period_us" => cfs(tree, &dir, name, value)?,
        "cpu.max.burst" | "cpu.cfs_burst_us" => burst(tree, &dir, value)?,
        "cpu.weight" | "cpu.shares" => weight(tree, &dir, name, value)?,
        "cpu.idle" => idle(tree, &dir, value)?,
        "cpu.bvt_warp_ns" => {
            signed(value).filter(|bvt| (-2..=2).contains(bvt)).ok_or(Errno::INVAL)?.to_string()
        }
        "cpuset.cpus" => return cpuset(tree, &dir, value),
        "memory.min" | "memory.low" | "memory.high" | "memory.max" | "memory.limit_in_bytes" => {
            memory_limit(name, value)?
        }
        "cgroup.procs" | "tasks" | "cgroup.threads" => return enter(tree, &dir, name, value),
        "cgroup.subtree_control" => return subtree_control(tree, &dir, value),
        "cpuset.cpus.effective" | "cpu.stat" | "memory.stat" | "memory.current" => {
            return Err(Errno::INVAL);
        }
        _ => value.to_owned(),
    };
    tree.put(path.to_owned(), shown);
    Ok(())
}

/// A switch of the scheduler: the list shows each by its name, or `NO_` and its name.
fn feature(tree: &mut Tree, path: &Path, value: &str) -> Result<(), Errno> {
    let name = |word: &str| word.strip_prefix("NO_").unwrap_or(word).to_owned();
    let words = tree.text(path);
    if !words.split_whitespace().any(|word| name(word) == name(value)) {
        return Err(Errno::INVAL);
    }
    let new = |word| if name(word) == name(value) { value } else { word };
    let words: Vec<&str> = words.split_whitespace().map(new).collect();
    tree.put(path.to_owned(), words.join(" "));
    Ok(())
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn signed(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// Quota (-1 for none) and period of a group, on either version.
fn bandwidth(tree: &Tree, dir: &Path) -> Option<(i64, i64)> {
    let (quota, period) = match tree.files.contains_key(&dir.join("cpu.max")) {
        true => {
            let text = tree.text(&dir.join("cpu.max"));
            let (quota, period) = text.split_once(' ')?;
            (quota.parse().unwrap_or(-1), period.parse().ok()?)
        }
        false => (
            signed(&tree.text(&dir.join("cpu.cfs_quota_us")))?,
            signed(&tree.text(&dir.join("cpu.cfs_period_us")))?,
        ),
    };
    Some((quota, period))
}

fn current_burst(tree: &Tree, dir: &Path) -> i64 {
    ["cpu.max.burst", "cpu.cfs_burst_us"]
        .iter()
        .find_map(|file| signed(&tree.text(&dir.join(file))))
        .unwrap_or(0)
}

fn check_bandwidth(tree: &Tree, dir: &Path, quota: i64, period: i64) -> Result<(), Errno> {
    let is_valid = PERIODS.contains(&period) && (quota == -1 || quota >= LEAST_QUOTA);
    let has_room = quota == -1 || current_burst(tree, dir) <= quota;
    if is_valid && has_room { Ok(()) } else { Err(Errno::INVAL) }
}

fn cpu_max(tree: &Tree, dir: &Path, value: &str) -> Result<String, Errno> {
    let (_, old_period) = bandwidth(tree, dir).ok_or(Errno::INVAL)?;
    let mut words = value.split_whitespace();
    let quota = match words.next().ok_or(Errno::INVAL)? {
        "max" => -1,
        quota => number(quota).and_then(|q| q.try_into().ok()).ok_or(Errno::INVAL)?,
    };
    let period = words.next().map_or(Some(old_period), signed).ok_or(Errno::INVAL)?;
    check_bandwidth(tree, dir, quota, period)?;
    Ok(if quota == -1 { format!("max {period}") } else { format!("{quota} {period}") })
}

fn cfs(tree: &Tree, dir: &Path, name: &str, value: &str) -> Result<String, Errno> {
    let value = signed(value).ok_or(Errno::INVAL)?;
    let (mut quota, mut period) = bandwidth(tree, dir).ok_or(Errno::INVAL)?;
    if name == "cpu.cfs_quota_us" {
        quota = if value < 0 { -1 } else { value };
    } else {
        period = value;
    }
    check_bandwidth(tree, dir, quota, period)?;
    let exceeds = |(inner, outer): ((i64, i64), (i64, i64))| {
        let (inner_quota, inner_period) = inner;
        let (outer_quota, outer_period) = outer;
        inner_quota != -1
            && outer_quota != -1
            && i128::from(inner_quota) * i128::from(outer_period)
                > i128::from(outer_quota) * i128::from(inner_period)
    };
    // An ancestor without a quota passes on the one above it.
    let above = dir
        .ancestors()
        .skip(1)
        .filter_map(|above| bandwidth(tree, above))
        .find(|(quota, _)| *quota != -1);
    let below = tree.dirs.iter().filter(|below| below.starts_with(dir) && *below != dir);
    let is_refused = above.is_some_and(|above| exceeds(((quota, period), above)))
        || below
            .filter_map(|below| bandwidth(tree, below))
            .any(|below| exceeds((below, (quota, period))));
    if is_refused { Err(Errno::INVAL) } else { Ok(value.max(-1).to_string()) }
}

fn burst(tree: &Tree, dir: &Path, value: &str) -> Result<String, Errno> {
    let burst = number(value).ok_or(Errno::INVAL)?;
    let (quota, _) = bandwidth(tree, dir).ok_or(Errno::INVAL)?;
    let fits = match quota {
        -1 => burst == 0,
        quota => i64::try_from(burst).is_ok_and(|burst| burst <= quota),
    };
    if fits { Ok(burst.to_string()) } else { Err(Errno::INVAL) }
}

fn weight(tree: &Tree, dir: &Path, name: &str, value: &str) -> Result<String, Errno> {
    let value = number(value).ok_or(Errno::INVAL)?;
    if tree.text(&dir.join("cpu.idle")) == "1" {
        return Err(Errno::INVAL);
    }
    match name {
        "cpu.shares" => Ok(value.clamp(2, 262_144).to_string()),
        _ if (1..=10_000).contains(&value) => Ok(value.to_string()),
        _ => Err(Errno::RANGE),
    }
}

/// An idle group has a weight below the least; one that is no longer idle starts anew.
fn idle(tree: &mut Tree, dir: &Path, value: &str) -> Result<String, Errno> {
    let idle = number(value).filter(|idle| *idle <= 1).ok_or(Errno::INVAL)?.to_string();
    if tree.text(&dir.join("cpu.idle")) != idle {
        for (file, normal, lowest) in [("cpu.shares", "1024", "3"), ("cpu.weight", "100", "0")] {
            if tree.files.contains_key(&dir.join(file)) {
                tree.put(dir.join(file), if idle == "1" { lowest } else { normal });
            }
        }
    }
    Ok(idle)
}

fn memory_limit(name: &str, value: &str) -> Result<String, Errno> {
    let pages = |bytes: u64| bytes / PAGE * PAGE;
    if name == "memory.limit_in_bytes" {
        return match value {
            "-1" => Ok(V1_NO_LIMIT.to_string()),
            value => Ok(pages(number(value).ok_or(Errno::INVAL)?).min(V1_NO_LIMIT).to_string()),
        };
    }
    match value {
        "max" => Ok("max".to_owned()),
        value => match pages(number(value).ok_or(Errno::INVAL)?) {
            bytes if bytes >= V1_NO_LIMIT => Ok("max".to_owned()),
            bytes => Ok(bytes.to_string()),
        },
    }
}

fn cpus_of(tree: &Tree, dir: &Path) -> CpuSet {
    tree.text(&dir.join("cpuset.cpus")).parse().unwrap_or_default()
}

fn cpuset(tree: &mut Tree, dir: &Path, value: &str) -> Result<(), Errno> {
    let cpus: CpuSet = value.parse().map_err(|_| Errno::INVAL)?;
    if group::hierarchy(tree, dir).is_some() {
        return cpuset_v1(tree, dir, &cpus);
    }
    let root = Path::new(group::CGROUP_ROOT);
    let online: CpuSet = tree.text(&root.join("cpuset.cpus.effective")).parse().unwrap_or_default();
    if !online.is_empty() && cpus.is_disjoint(&online) && !cpus.is_empty() {
        return Err(Errno::INVAL);
    }
    let is_populated = || {
        let lists = tree.files.keys().filter(|file| {
            file.starts_with(dir) && file.file_name().is_some_and(|name| name == "cgroup.procs")
        });
        lists.into_iter().any(|list| !tree.text(list).is_empty())
    };
    if cpus.is_empty() && !cpus_of(tree, dir).is_empty() && is_populated() {
        return Err(Errno::NOSPC);
    }
    tree.put(dir.join("cpuset.cpus"), cpus.to_string());
    spread_effective(tree, dir.to_owned());
    Ok(())
}

fn cpuset_v1(tree: &mut Tree, dir: &Path, cpus: &CpuSet) -> Result<(), Errno> {
    let has_tasks = !tree.text(&dir.join("cgroup.procs")).is_empty();
    if cpus.is_empty() && has_tasks {
        return Err(Errno::NOSPC);
    }
    let parent = dir.parent().filter(|parent| tree.files.contains_key(&parent.join("cpuset.cpus")));
    if parent.is_some_and(|parent| !cpus.is_subset(&cpus_of(tree, parent))) {
        return Err(Errno::ACCESS);
    }
    if tree.children(dir).iter().any(|child| !cpus_of(tree, child).is_subset(cpus)) {
        return Err(Errno::BUSY);
    }
    tree.put(dir.join("cpuset.cpus"), cpus.to_string());
    Ok(())
}

/// On v2 a group runs on what it asks for within its parent's, or on all of its parent's.
fn spread_effective(tree: &mut Tree, dir: PathBuf) {
    let mut queue = vec![dir];
    while let Some(dir) = queue.pop() {
        let Some(parent) = dir.parent() else { continue };
        let above: CpuSet =
            tree.text(&parent.join("cpuset.cpus.effective")).parse().unwrap_or_default();
        let wanted = cpus_of(tree, &dir).intersection(&above);
        let effective = if wanted.is_empty() { above } else { wanted };
        if tree.files.contains_key(&dir.join("cpuset.cpus.effective")) {
            tree.put(dir.join("cpuset.cpus.effective"), effective.to_string());
            queue.extend(tree.children(&dir));
        }
    }
}

/// Moves a process or thread; the other list of the same group is not modelled.
fn enter(tree: &mut Tree, dir: &Path, name: &str, value: &str) -> Result<(), Errno> {
    let root = match group::hierarchy(tree, dir) {
        Some(hierarchy) => Path::new(group::CGROUP_ROOT).join(hierarchy),
        None => group::CGROUP_ROOT.into(),
    };
    move_to(tree, &root, dir, name, value)
}

/// Puts an id into the list of one directory, and out of those of all others below a root.
fn move_to(tree: &mut Tree, root: &Path, dir: &Path, name: &str, value: &str) -> Result<(), Errno> {
    let pid = number(value).filter(|pid| *pid > 0).ok_or(Errno::INVAL)?.to_string();
    let lists: Vec<PathBuf> = tree
        .files
        .keys()
        .filter(|file| file.starts_with(root) && file.file_name().is_some_and(|n| n == name))
        .cloned()
        .collect();
    for list in lists {
        let mut pids: Vec<String> =
            tree.text(&list).lines().filter(|line| *line != pid).map(str::to_owned).collect();
        if list.parent() == Some(dir) {
            pids.push(pid.clone());
        }
        let text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        tree.files.insert(list, text.into_bytes());
    }
    Ok(())
}

/// Each resource has its line, and each domain its value in it.
fn schemata(tree: &mut Tree, path: &Path, value: &str) -> Result<(), Errno> {
    let domains = |line: &str| -> Option<(String, BTreeMap<u32, String>)> {
        let (name, domains) = line.split_once(':')?;
        let domains = domains.split(';').map(str::trim).filter(|domain| !domain.is_empty());
        let pairs = domains.map(|domain| {
            let (id, value) = domain.split_once('=')?;
            Some((id.parse().ok()?, value.to_owned()))
        });
        // The kernel pads names to the same width.
        Some((name.to_owned(), pairs.collect::<Option<_>>()?))
    };
    let (resource, new) = domains(value).ok_or(Errno::INVAL)?;
    let mut is_known = false;
    let mut lines = Vec::new();
    for line in tree.text(path).lines() {
        let (name, mut values) = domains(line).ok_or(Errno::INVAL)?;
        if name.trim() == resource.trim() {
            is_known = true;
            values.extend(new.clone());
        }
        let values: Vec<String> =
            values.iter().map(|(id, value)| format!("{id}={value}")).collect();
        lines.push(format!("{name}:{}", values.join(";")));
    }
    if !is_known {
        return Err(Errno::INVAL);
    }
    tree.put(path.to_owned(), lines.join("\n"));
    Ok(())
}

fn subtree_control(tree: &mut Tree, dir: &Path, value: &str) -> Result<(), Errno> {
    let available = tree.text(&dir.join("cgroup.controllers"));
    let current = tree.text(&dir.join("cgroup.subtree_control"));
    let mut enabled: Vec<&str> = current.split_whitespace().collect();
    for word in value.split_whitespace() {
        let (sign, name) = word.split_at_checked(1).ok_or(Errno::INVAL)?;
        if !available.split_whitespace().any(|known| known == name) {
            return Err(Errno::NOENT);
        }
        enabled.retain(|known| *known != name);
        match sign {
            "+" => enabled.push(name),
            "-" => {}
            _ => return Err(Errno::INVAL),
        }
    }
    let enabled = enabled.join(" ");
    tree.put(dir.join("cgroup.subtree_control"), enabled);
    Ok(())
}
