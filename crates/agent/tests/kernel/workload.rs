//! A process that uses as much as it is told, and says how much that was.
//!
//! It is this test binary once more, running one test, because there may be no other program: the
//! guest has none. It obeys lines on its standard input until that ends:
//!
//! ```text
//! spin 500       uses 500 ms of CPU time; answers with the microseconds it really used
//! hold 1048576   allocates and touches a MiB and keeps it; answers with the bytes
//! write 1048576  writes a MiB to a disk, past the page cache; answers with the bytes
//! ```

use std::env;
use std::fs::{self, OpenOptions};
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};

const ROLE: &str = "TIDEPOOL_TEST_WORKLOAD";
const TEST: &str = "workload::it_uses_what_it_is_told";
/// The test harness talks on the same pipe.
const ANSWER: &str = "workload used ";

#[derive(Debug)]
pub(crate) struct Workload {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Workload {
    /// Idle, in the group of this process.
    pub(crate) fn start() -> Self {
        let mut child = Command::new("/proc/self/exe")
            .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
            .env(ROLE, "yes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut workload = Self { child, orders, answers };
        // Once it answers it has started up, which is not the test's business.
        workload.order("spin 0");
        workload
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the CPU time that the process used for this, by the kernel's account of its threads.
    pub(crate) fn spin(&mut self, time: Duration) -> Duration {
        let before = self.cpu_time();
        let spun = Duration::from_micros(self.order(&format!("spin {}", time.as_millis())));
        // Hearing the order and answering it are not free, least of all on an emulated processor.
        let used = self.cpu_time() - before;
        assert!(used >= spun && spun >= time, "{used:?} for {spun:?}");
        used
    }

    /// CPU time of the process once it is idle.
    fn cpu_time(&self) -> Duration {
        let mut last = Duration::MAX;
        loop {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
            let times = tasks.map(|task| {
                let text = fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
                Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
            });
            let now = times.sum();
            if now == last {
                return now;
            }
            last = now;
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Uses a CPU until it is dropped.
    pub(crate) fn burn(&mut self) {
        writeln!(self.orders, "spin {}", Duration::from_secs(3_600).as_millis()).unwrap();
    }

    pub(crate) fn hold(&mut self, bytes: u64) -> u64 {
        self.order(&format!("hold {bytes}"))
    }

    pub(crate) fn write(&mut self, bytes: u64) -> u64 {
        self.order(&format!("write {bytes}"))
    }

    fn order(&mut self, order: &str) -> u64 {
        writeln!(self.orders, "{order}").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.answers.read_line(&mut line).unwrap(), 0, "it ended at {order:?}");
            // The harness does not end its line before a test has.
            if let Some((_, used)) = line.trim_end().split_once(ANSWER) {
                return used.parse().unwrap();
            }
        }
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This is the workload's own `main`. Run as a test, it obeys a short list.
#[test]
fn it_uses_what_it_is_told() {
    if env::var_os(ROLE).is_some() {
        return obey(io::stdin().lock(), |used| println!("{ANSWER}{used}"));
    }
    let mut used = Vec::new();
    obey(&b"hold 8192\nspin 20\nspin 0\n"[..], |amount| used.push(amount));
    let [held, spun, idle] = used.as_slice() else { panic!("{used:?}") };
    assert_eq!(*held, 8192);
    assert!(*spun >= 20_000, "{spun}");
    assert!(*idle < 20_000, "{idle}");
}

fn obey(orders: impl BufRead, mut answer: impl FnMut(u128)) {
    let mut held = Vec::new();
    for line in orders.lines() {
        let line = line.unwrap();
        let (order, amount) = line.split_once(' ').unwrap();
        let amount: u64 = amount.parse().unwrap();
        match order {
            "spin" => answer(spin(Duration::from_millis(amount)).as_micros()),
            "hold" => {
                held.push(vec![1_u8; usize::try_from(amount).unwrap()]);
                black_box(&held);
                answer(amount.into());
            }
            "write" => {
                write(usize::try_from(amount).unwrap());
                answer(amount.into());
            }
            _ => panic!("{order:?} is no order"),
        }
    }
}

fn spin(time: Duration) -> Duration {
    let start = own_cpu_time();
    loop {
        let used = own_cpu_time() - start;
        if used >= time {
            return used;
        }
        (0..10_000).for_each(|number| {
            black_box(number);
        });
    }
}

/// The guest's disk, which forgets. Elsewhere a file beside the test binary is on some disk.
const GUEST_DISK: &str = "/dev/nvme0n1";
pub(crate) const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");
/// What every disk wants direct writes to be a multiple of.
const BLOCK: usize = 4096;

fn write(bytes: usize) {
    let is_guest = !Path::new(FOLDER).exists();
    let path = match is_guest {
        true => PathBuf::from(GUEST_DISK),
        false => Path::new(FOLDER).join(format!("workload-{}", std::process::id())),
    };
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap();
    let mut options = OpenOptions::new();
    let file = options.write(true).create(!is_guest).custom_flags(direct).open(&path).unwrap();
    // Direct writes come from whole blocks of memory.
    let buffer = vec![1_u8; bytes + BLOCK];
    let start = buffer.as_ptr().align_offset(BLOCK);
    file.write_all_at(&buffer[start..start + bytes], 0).unwrap();
    if !is_guest {
        fs::remove_file(&path).unwrap();
    }
}

fn own_cpu_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
}
