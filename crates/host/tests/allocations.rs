//! Reading again costs no allocation.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]
#![expect(unsafe_code, reason = "a counting allocator is one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use groups::CgroupPath;
use host::cgroup::Tree;
use host::fs::{Buffer, FakeFs, HostFs, Mounts, RealFs};
use host::proc::{NodeReader, Stat};
use host::psi::Resource;

struct Counting;

thread_local! {
    /// Of this thread only: the test harness allocates when it likes.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `alloc` above, that is from the system.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(mut work: impl FnMut()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

fn second_round(fs: Arc<dyn HostFs>, group: CgroupPath) -> u64 {
    let tree = Tree::find(Arc::clone(&fs)).unwrap();
    let mut reader = tree.reader(group);
    let mut node = NodeReader::new(fs);
    let (mut buffer, mut stat) = (Buffer::new(), Stat::default());
    let (mut ids, mut nodes, mut devices) = (Vec::new(), Vec::new(), Vec::new());
    let mut round = || {
        node.stat(&mut buffer, &mut stat).unwrap();
        node.memory(&mut buffer).unwrap();
        let _ = node.pressure(Resource::Cpu, &mut buffer).unwrap();
        reader.cpu_stat(&mut buffer).unwrap();
        reader.memory_stat(&mut buffer).unwrap();
        reader.memory_usage(&mut buffer).unwrap();
        reader.cpu_max(&mut buffer).unwrap();
        reader.cpus(&mut buffer).unwrap();
        reader.pids(&mut buffer).unwrap();
        reader.pressure(Resource::Memory, &mut buffer).unwrap();
        reader.numa_memory(&mut buffer, &mut nodes).unwrap();
        reader.io(&mut buffer, &mut devices).unwrap();
        reader.procs(&mut buffer, &mut ids).unwrap();
    };
    assert!(allocations(&mut round) > 0, "the first round opens the files");
    allocations(round)
}

#[test]
fn reading_a_group_again_allocates_nothing() {
    let uid = "8d1b0b1e-6f4e-4a8c-9d0a-2f1c5f0a7b31";
    let hosts = [
        (
            include_str!("../../../fixtures/hosts/v1-32cpu-2numa.txt"),
            format!("kubepods/burstable/pod{uid}"),
        ),
        (
            include_str!("../../../fixtures/hosts/v2-16cpu.txt"),
            format!(
                "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice",
                uid.replace('-', "_")
            ),
        ),
    ];
    for (text, group) in hosts {
        let fake = FakeFs::from_fixture(text).unwrap();
        assert!(Tree::find(Arc::new(fake.clone())).unwrap().exists(&CgroupPath::new(&group)));
        assert_eq!(second_round(Arc::new(fake), CgroupPath::new(&group)), 0, "{group}");
    }
}

#[test]
fn nor_on_a_real_kernel() {
    let fs: Arc<dyn HostFs> = Arc::new(RealFs::new(Mounts::host()));
    if let Err(error) = Tree::find(Arc::clone(&fs)) {
        println!("skipped: {error}");
        return;
    }
    assert_eq!(second_round(fs, CgroupPath::root()), 0);
}
