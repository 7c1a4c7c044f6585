//! A host with two CPUs and control groups of version 2, whose counters run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use host::fs::FakeFs;

/// Bytes of anonymous memory of each pod.
pub(crate) const POD_MEMORY: i64 = 64 << 20;

const FIXTURE: &str = "\
-- proc/meminfo --
MemTotal:        4194304 kB
MemFree:         2097152 kB
MemAvailable:    3145728 kB
Buffers:               0 kB
Cached:           524288 kB
SReclaimable:          0 kB
Active(file):          0 kB
Inactive(file):        0 kB
-- proc/cpuinfo --
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Some CPU
flags\t\t: fpu
-- sys/devices/system/cpu/online --
0-1
-- sys/devices/system/cpu/cpu0/topology/core_cpus_list --
0
-- sys/devices/system/cpu/cpu0/topology/package_cpus_list --
0-1
-- sys/devices/system/cpu/cpu1/topology/core_cpus_list --
1
-- sys/devices/system/cpu/cpu1/topology/package_cpus_list --
0-1
-- sys/devices/system/node/node0/cpulist --
0-1
-- sys/devices/system/node/node0/meminfo --
Node 0 MemTotal:        4194304 kB
Node 0 MemFree:         3145728 kB
Node 0 Active(file):          0 kB
Node 0 Inactive(file):        0 kB
Node 0 SReclaimable:          0 kB
-- sys/fs/cgroup/cgroup.controllers --
cpuset cpu io memory pids
-- sys/fs/cgroup/tidepool/kubepods/cgroup.procs --
-- sys/fs/cgroup/tidepool/kubepods/burstable/cgroup.procs --
-- sys/fs/cgroup/tidepool/kubepods/besteffort/cgroup.procs --
-- sys/fs/cgroup/tidepool/kubepods/besteffort/cpu.max --
max 100000
-- sys/fs/cgroup/tidepool/kubepods/besteffort/cpuset.cpus.effective --
0-1
";

/// The host; its clock stops when it is dropped.
pub(crate) struct Host {
    pub(crate) fs: FakeFs,
    /// Thousandths of a core that the node uses.
    cores: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    pub(crate) fn start() -> Self {
        let fs = FakeFs::from_fixture(FIXTURE).expect("the text is a host");
        let cores = Arc::new(AtomicU64::new(500));
        let stop = Arc::new(AtomicBool::new(false));
        let mut host = Self { fs, cores, stop, thread: None };
        host.run(0.0);
        let (fs, cores, stop) = (host.fs.clone(), host.cores.clone(), host.stop.clone());
        host.thread = Some(std::thread::spawn(move || {
            let host = Self { fs, cores, stop: stop.clone(), thread: None };
            let (mut last, mut used) = (Instant::now(), 0.0);
            while !stop.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(50));
                let millis =
                    f64::from(u32::try_from(host.cores.load(Ordering::Relaxed)).unwrap_or(0));
                used += last.elapsed().as_secs_f64() * millis / 1000.0;
                last = Instant::now();
                host.run(used);
            }
            std::mem::forget(host);
        }));
        host
    }

    /// Sets all counters to `used` seconds of CPU.
    fn run(&self, used: f64) {
        let ticks = used * 100.0;
        self.fs.set("proc/stat", format!("cpu  {ticks:.0} 0 0 100000 0 0 0 0 0 0\ncpu0 {ticks:.0} 0 0 100000 0 0 0 0 0 0\ncpu1 0 0 0 100000 0 0 0 0 0 0\nbtime 1700000000\n"));
        let micros = used * 1e6 / 2.0;
        let stat = format!(
            "usage_usec {micros:.0}\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"
        );
        for file in self.files("cpu.stat") {
            self.fs.set(file, stat.clone());
        }
    }

    fn files(&self, name: &str) -> Vec<String> {
        let fixture = self.fs.to_fixture();
        let files =
            fixture.lines().filter_map(|line| line.strip_prefix("-- ")?.strip_suffix(" --"));
        files.filter(|file| file.ends_with(name)).map(str::to_owned).collect()
    }

    /// Changes the load of the node.
    pub(crate) fn use_cores(&self, millis: u64) {
        self.cores.store(millis, Ordering::Relaxed);
    }

    /// Makes the control group of a pod, given below the cgroup root.
    pub(crate) fn add_pod(&self, dir: &str) {
        let dir = format!("sys/fs/cgroup/{dir}");
        let memory = format!(
            "anon {POD_MEMORY}\nunevictable 0\ninactive_file 0\nactive_file 0\nfile 0\ninactive_anon 0\nactive_anon {POD_MEMORY}\n"
        );
        for (name, text) in [
            ("cpu.stat", "usage_usec 0\nuser_usec 0\nsystem_usec 0\n"),
            ("memory.stat", memory.as_str()),
            ("memory.current", "67108864\n"),
            ("cpu.max", "max 100000\n"),
            ("cpuset.cpus.effective", "0-1\n"),
            ("cgroup.procs", ""),
        ] {
            self.fs.set(format!("{dir}/{name}"), text);
        }
    }

    /// Bytes of memory that a pod holds.
    pub(crate) fn set_memory(&self, dir: &str, bytes: i64) {
        let stat = format!(
            "anon {bytes}\nunevictable 0\ninactive_file 0\nactive_file 0\nfile 0\ninactive_anon 0\nactive_anon {bytes}\n"
        );
        self.fs.set(format!("sys/fs/cgroup/{dir}/memory.stat"), stat);
    }

    pub(crate) fn remove_pod(&self, dir: &str) {
        self.fs.remove(format!("sys/fs/cgroup/{dir}"));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
