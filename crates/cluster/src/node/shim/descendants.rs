//! Killing everything that was started below this process.
//!
//! The shim is the reaper of its descendants: when a process in between dies, its children become
//! the shim's. So killing the direct children again and again reaches everyone, also those that
//! tried to get away by forking twice.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::node::record::parent;

/// A group that still forks after this many rounds is left to its control group.
const ROUNDS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

pub(super) fn kill() {
    for _ in 0..ROUNDS {
        let children = children();
        // The program itself is waited for by the pump, which wants to know how it ended.
        let alive: Vec<Pid> = children.into_iter().filter(|pid| !is_zombie(*pid)).collect();
        if alive.is_empty() {
            return;
        }
        for pid in alive {
            let _ = kill_process(pid, Signal::KILL);
        }
        thread::sleep(PAUSE);
    }
}

fn is_zombie(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.map_or(true, |stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero();
    // Not every kernel keeps this list (CONFIG_PROC_CHILDREN).
    let pids: Vec<i32> = match fs::read_to_string(format!("/proc/{own}/task/{own}/children")) {
        Ok(list) => list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        Err(_) => all_processes().filter(|pid| parent_of(*pid) == Some(own.get())).collect(),
    };
    pids.into_iter().filter_map(Pid::from_raw).collect()
}

fn all_processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent_of(pid: i32) -> Option<i32> {
    parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}
