//! What nodes say of themselves beside their own object.

use api::kind::{NodeMetric, NodeResourceTopology};

use super::Snapshot;

impl Snapshot {
    /// The load report of a node came, changed or went. The node need not be there yet.
    pub fn set_metric(&mut self, node: &str, metric: Option<&NodeMetric>) {
        let name = self.names.intern(node);
        let at = self.node_by_name(name);
        self.extras.load.set_metric(name, metric, at, &mut self.names);
        if let Some(at) = at {
            self.touch(at);
        }
    }

    /// The topology object of a node came, changed or went. The node need not be there yet.
    pub fn set_topology(&mut self, node: &str, topology: Option<&NodeResourceTopology>) {
        let name = self.names.intern(node);
        let at = self.node_by_name(name);
        let is_changed = self.extras.numa.set_topology(name, topology, at, &mut self.resources);
        if let Some(at) = at.filter(|_| is_changed) {
            self.touch(at);
        }
    }
}
