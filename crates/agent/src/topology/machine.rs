//! Reading the machine: CPUs, their make, and the memory of NUMA nodes.

use std::path::Path;
use std::sync::Arc;

use api::metadata::topology::CpuBasicInfo;
use host::FileError;
use host::fs::{Buffer, HostFs};
use host::proc::NodeReader;
use host::topology::{CpuModel, HugePages, Topology};
use units::Bytes;

use qos::topology::{Machine, NumaNode};

/// The bits of the last-level cache that can be handed out; there without resctrl hardware it is not.
const CBM_MASK: &str = "/sys/fs/resctrl/info/L3/cbm_mask";

const HUGE_2MI: Bytes = Bytes::from_mib(2);
const HUGE_1GI: Bytes = Bytes::from_gib(1);

/// Reads everything anew: CPUs may have come or gone.
pub fn read(fs: &Arc<dyn HostFs>) -> Result<Machine, FileError> {
    let topology = Topology::read(&**fs)?;
    let model = CpuModel::read(&**fs, &topology)?;
    let mut reader = NodeReader::new(fs.clone());
    let mut buffer = Buffer::new();
    let mut numa = Vec::new();
    // Nodes without CPUs are memory of devices or of CXL: no place for pods.
    for node in topology.cpu_nodes().filter(|node| !node.is_generic_initiator) {
        numa.push(NumaNode {
            id: node.id,
            memory: reader.node_capacity(&topology, node, &mut buffer)?,
            huge_2mi: huge(&node.huge_pages, HUGE_2MI),
            huge_1gi: huge(&node.huge_pages, HUGE_1GI),
        });
    }
    if numa.is_empty() {
        // A kernel without NUMA is one node.
        let memory = reader.memory(&mut buffer)?;
        let zero = Bytes::ZERO;
        numa.push(NumaNode { id: 0, memory: memory.total, huge_2mi: zero, huge_1gi: zero });
    }
    let basic = CpuBasicInfo {
        cpu_model: model.model,
        hyper_thread_enabled: model.smt_active,
        turbo_enabled: model.turbo == Some(true),
        cat_l3_cbm_mask: cbm_mask(&**fs),
        vendor_id: model.vendor,
    };
    Ok(Machine { cpus: topology.cpus, basic, numa })
}

fn huge(pages: &[HugePages], size: Bytes) -> Bytes {
    let found = pages.iter().find(|pages| pages.size == size);
    let count = found.map_or(0, |pages| i64::try_from(pages.count).unwrap_or(i64::MAX));
    Bytes(count.saturating_mul(size.0))
}

fn cbm_mask(fs: &dyn HostFs) -> String {
    let text = fs.read(Path::new(CBM_MASK)).unwrap_or_default();
    String::from_utf8_lossy(&text).trim().to_owned()
}
