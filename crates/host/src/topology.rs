//! Which CPUs, cores, sockets, caches and memory nodes does this host have?
//!
//! Read from `/sys/devices/system`. Numbers are those that `lscpu` prints, because the scheduler
//! compares them with what others publish: cores and sockets are counted in the order in which their
//! first CPU appears, so a core's number is unique on the host (sysfs `core_id` starts again in every
//! socket); NUMA nodes and L3 caches keep the kernel's ids. CPUs that are offline are not there.

mod model;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use units::{Bytes, Cpu, CpuLayout, CpuSet};

pub use self::model::CpuModel;
use crate::error::FileError;
use crate::fs::HostFs;
use groups::{ParseError, scan};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaNode {
    pub id: u16,
    /// CPUs that are online; none on nodes that only have memory.
    pub cpus: CpuSet,
    /// The node's memory file, for [`NodeReader::node_memory`](crate::proc::NodeReader::node_memory).
    pub meminfo: PathBuf,
    /// Reserved huge pages.
    pub huge_pages: Vec<HugePages>,
    /// A device with memory of its own (accelerators) rather than a place for processes.
    pub is_generic_initiator: bool,
}

/// Huge pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePages {
    pub size: Bytes,
    pub count: u64,
}

/// The host's CPUs, their caches and its memory nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub cpus: CpuLayout,
    /// The last-level cache of each CPU; 0 where the kernel does not say.
    pub l3: BTreeMap<u16, u32>,
    pub nodes: Vec<NumaNode>,
}

impl Topology {
    /// Reads it anew: CPUs may have come or gone.
    pub fn read(fs: &dyn HostFs) -> Result<Self, FileError> {
        let online = read_list(fs, &Path::new(CPUS).join("online"))?;
        let nodes = read_nodes(fs, &online)?;
        let mut cores = Numbering::default();
        let mut sockets = Numbering::default();
        let mut caches = Numbering::default();
        let (mut cpus, mut l3) = (Vec::with_capacity(online.len()), BTreeMap::new());
        for id in online.iter() {
            let dir = Path::new(CPUS).join(format!("cpu{id}"));
            let siblings = |names: [&str; 2]| match read_first(fs, &dir.join("topology"), names)? {
                Some(siblings) => Ok(siblings),
                // A kernel without topology: every CPU is a core, all are in one socket.
                None if names == CORE => Ok(CpuSet::from_iter([id])),
                None => Ok(online.clone()),
            };
            let node = nodes.iter().find(|node| node.cpus.contains(id));
            cpus.push(Cpu {
                id,
                core: cores.number(&siblings(CORE)?),
                socket: sockets.number(&siblings(SOCKET)?),
                numa: node.map_or(0, |node| node.id),
            });
            l3.insert(id, read_l3(fs, &dir, &mut caches)?);
        }
        Ok(Self { cpus: cpus.into(), l3, nodes })
    }

    /// The NUMA nodes that have CPUs.
    pub fn cpu_nodes(&self) -> impl Iterator<Item = &NumaNode> {
        self.nodes.iter().filter(|node| !node.cpus.is_empty())
    }
}

const CORE: [&str; 2] = ["core_cpus_list", "thread_siblings_list"];
const SOCKET: [&str; 2] = ["package_cpus_list", "core_siblings_list"];

/// Counts sets of CPUs in the order of their appearance.
#[derive(Debug, Default)]
struct Numbering {
    seen: Vec<CpuSet>,
}

impl Numbering {
    fn number(&mut self, cpus: &CpuSet) -> u16 {
        let at = match self.seen.iter().position(|known| known == cpus) {
            Some(at) => at,
            None => {
                self.seen.push(cpus.clone());
                self.seen.len() - 1
            }
        };
        u16::try_from(at).unwrap_or(u16::MAX)
    }
}

fn read_l3(fs: &dyn HostFs, cpu: &Path, caches: &mut Numbering) -> Result<u32, FileError> {
    let cache = cpu.join("cache");
    for entry in fs.list(&cache).unwrap_or_default() {
        let dir = cache.join(&entry.name);
        let level = read_optional(fs, &dir.join("level"), scan::only_number)?;
        if level != Some(3) {
            continue;
        }
        if let Some(id) = read_optional(fs, &dir.join("id"), scan::only_number)? {
            return Ok(u32::try_from(id).unwrap_or(u32::MAX));
        }
        let shared = read_list(fs, &dir.join("shared_cpu_list"))?;
        return Ok(u32::from(caches.number(&shared)));
    }
    Ok(0)
}

fn read_nodes(fs: &dyn HostFs, online: &CpuSet) -> Result<Vec<NumaNode>, FileError> {
    let initiators = read_optional(fs, &Path::new(NODES).join("has_generic_initiator"), cpu_list)?;
    let initiators = initiators.unwrap_or_default();
    let mut nodes = Vec::new();
    for entry in fs.list(Path::new(NODES)).unwrap_or_default() {
        let number = entry.name.strip_prefix("node").and_then(|number| number.parse().ok());
        let (Some(id), true) = (number, entry.is_dir) else { continue };
        let dir = Path::new(NODES).join(&entry.name);
        nodes.push(NumaNode {
            id,
            cpus: read_list(fs, &dir.join("cpulist"))?.intersection(online),
            meminfo: dir.join("meminfo"),
            huge_pages: read_huge_pages(fs, &dir.join("hugepages"))?,
            is_generic_initiator: initiators.contains(id),
        });
    }
    nodes.sort_by_key(|node| node.id);
    Ok(nodes)
}

fn read_huge_pages(fs: &dyn HostFs, dir: &Path) -> Result<Vec<HugePages>, FileError> {
    let mut found = Vec::new();
    for entry in fs.list(dir).unwrap_or_default() {
        let size = entry.name.strip_prefix("hugepages-").and_then(|name| name.strip_suffix("kB"));
        let Some(kib) = size.and_then(|kib| kib.parse().ok()) else { continue };
        let file = dir.join(&entry.name).join("nr_hugepages");
        if let Some(count) = read_optional(fs, &file, scan::only_number)? {
            found.push(HugePages { size: Bytes::from_kib(kib), count });
        }
    }
    found.sort_by_key(|pages| pages.size);
    Ok(found)
}

fn cpu_list(text: &[u8]) -> Result<CpuSet, ParseError> {
    let bad = || ParseError::new(1, "a list of numbers", text.trim_ascii());
    str::from_utf8(text).ok().and_then(|list| list.parse().ok()).ok_or_else(bad)
}

fn read_list(fs: &dyn HostFs, path: &Path) -> Result<CpuSet, FileError> {
    let text = fs.read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    cpu_list(&text).map_err(|error| FileError::parse(path.to_owned(), error))
}

/// The first of two files that is there: the name changed in Linux 5.4.
fn read_first(fs: &dyn HostFs, dir: &Path, names: [&str; 2]) -> Result<Option<CpuSet>, FileError> {
    for name in names {
        if let Some(cpus) = read_optional(fs, &dir.join(name), cpu_list)? {
            return Ok(Some(cpus));
        }
    }
    Ok(None)
}

pub(crate) fn read_optional<T>(
    fs: &dyn HostFs,
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
) -> Result<Option<T>, FileError> {
    match fs.read(path) {
        Ok(text) => {
            parse(&text).map(Some).map_err(|error| FileError::parse(path.to_owned(), error))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError::Read { path: path.to_owned(), source }),
    }
}
