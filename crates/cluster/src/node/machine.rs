//! What is this machine, and how much of everything does it have?

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;

use k8s_openapi::api::core::v1::NodeSystemInfo;
use rustix::fs::statvfs;
use rustix::system::uname;
use units::{Bytes, CpuSet, MilliCpu};

/// Facts that do not change while we run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Machine {
    pub(crate) cpu: MilliCpu,
    pub(crate) memory: Bytes,
    /// Of the file system that holds our state, and with it logs and volumes.
    pub(crate) storage: Bytes,
    /// Reserved huge pages by size, such as `2Mi`.
    pub(crate) huge_pages: BTreeMap<String, Bytes>,
    pub(crate) info: NodeSystemInfo,
}

/// What is short right now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pressure {
    pub(crate) memory: bool,
    pub(crate) disk: bool,
    pub(crate) pids: bool,
}

impl Machine {
    pub(crate) fn look(state_dir: &Path) -> Self {
        Self {
            cpu: MilliCpu::from_cores(cpus()),
            memory: meminfo("MemTotal").unwrap_or_default(),
            storage: storage(state_dir).map_or(Bytes::ZERO, |(total, _)| total),
            huge_pages: huge_pages(),
            info: info(),
        }
    }
}

impl Pressure {
    /// Below 100 MiB of memory, 5 % of the process numbers, or 5 % and 5 GiB of the disk: a large disk
    /// that is nearly full still has room for pods.
    pub(crate) fn look(state_dir: &Path) -> Self {
        const LEAST_MEMORY: Bytes = Bytes::from_mib(100);
        let memory = meminfo("MemAvailable").is_some_and(|available| available < LEAST_MEMORY);
        let disk = storage(state_dir).is_some_and(|(total, free)| is_short(total, free));
        let pids = pid_numbers().is_some_and(|(used, most)| used > most - most / 20);
        Self { memory, disk, pids }
    }
}

fn is_short(total: Bytes, free: Bytes) -> bool {
    const LEAST_DISK: Bytes = Bytes::from_gib(5);
    free.0 < total.0 / 20 && free < LEAST_DISK
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn cpus() -> i64 {
    let online = read("/sys/devices/system/cpu/online");
    let online = online.parse::<CpuSet>().ok().map(|set| set.len());
    let count = online.filter(|count| *count > 0);
    let count = count.or_else(|| thread::available_parallelism().ok().map(usize::from));
    count.and_then(|count| i64::try_from(count).ok()).unwrap_or(1)
}

fn meminfo(name: &str) -> Option<Bytes> {
    parse_meminfo(&read("/proc/meminfo"), name)
}

fn parse_meminfo(text: &str, name: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(Bytes::from_kib(line.trim().strip_suffix("kB")?.trim().parse().ok()?))
}

/// All of it, and what is free for us.
fn storage(dir: &Path) -> Option<(Bytes, Bytes)> {
    let found = statvfs(dir).ok()?;
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(found.f_frsize)).ok().map(Bytes);
    Some((bytes(found.f_blocks)?, bytes(found.f_bavail)?))
}

fn huge_pages() -> BTreeMap<String, Bytes> {
    let dir = Path::new("/sys/kernel/mm/hugepages");
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        let kib: i64 = entry
            .file_name()
            .to_str()?
            .strip_prefix("hugepages-")?
            .strip_suffix("kB")?
            .parse()
            .ok()?;
        let count: i64 = read(entry.path().join("nr_hugepages")).parse().ok()?;
        let size = Bytes::from_kib(kib);
        Some((size.to_string(), Bytes(size.0.saturating_mul(count))))
    });
    sizes.collect()
}

/// Processes and threads there are, and may be.
fn pid_numbers() -> Option<(i64, i64)> {
    let most = read("/proc/sys/kernel/pid_max").parse().ok()?;
    let load = read("/proc/loadavg");
    let used = load.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()?;
    Some((used, most))
}

fn info() -> NodeSystemInfo {
    let os_release = read("/etc/os-release");
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        operating_system: "linux".to_owned(),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        machine_id: read("/etc/machine-id"),
        system_uuid: read("/sys/class/dmi/id/product_uuid"),
        kernel_version: uname().release().to_string_lossy().into_owned(),
        os_image: pretty_name(&os_release).unwrap_or_else(|| "Linux".into()),
        container_runtime_version: format!("tidepool://{}", env!("CARGO_PKG_VERSION")),
        kubelet_version: format!("v1.35.0+tidepool.{}", env!("CARGO_PKG_VERSION")),
        kube_proxy_version: String::new(),
        swap: None,
    }
}

/// As Go names it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_disk_that_is_nearly_full_still_has_room() {
        let gib = Bytes::from_gib;
        assert!(!is_short(gib(2_000), gib(90)));
        assert!(is_short(gib(2_000), gib(4)));
        assert!(!is_short(gib(20), gib(2)));
        assert!(is_short(gib(20), Bytes::from_mib(900)));
    }

    #[test]
    fn meminfo_is_in_kib() {
        let text =
            "MemTotal:       65536000 kB\nMemAvailable:   40960000 kB\nHugePages_Total:   0\n";
        assert_eq!(parse_meminfo(text, "MemTotal"), Some(Bytes::from_kib(65_536_000)));
        assert_eq!(parse_meminfo(text, "Mem"), None);
        assert_eq!(parse_meminfo(text, "HugePages_Total"), None);
        assert_eq!(parse_meminfo("", "MemTotal"), None);
    }

    #[test]
    fn the_system_has_a_name() {
        let text = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(pretty_name(text).as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(pretty_name("NAME=x"), None);
    }

    #[test]
    fn this_machine_has_something_of_everything() {
        let machine = Machine::look(Path::new("/"));
        assert!(machine.cpu >= MilliCpu(1_000));
        assert!(machine.memory > Bytes::ZERO);
        assert!(machine.storage > Bytes::ZERO);
        assert!(!machine.info.kernel_version.is_empty());
    }
}
