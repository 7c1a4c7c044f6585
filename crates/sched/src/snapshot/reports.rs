//! What nodes say of themselves beside their own object.

use api::kind::{NodeMetric, NodeResourceTopology};
use serde_json::Value;

use super::Snapshot;
use crate::{load, numa};

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

    /// The topology object of a node came, changed or went. The node need not be there yet. Says
    /// whether that makes a difference to a node that is.
    pub fn set_topology(&mut self, node: &str, topology: Option<&NodeResourceTopology>) -> bool {
        let name = self.names.intern(node);
        let at = self.node_by_name(name);
        let is_changed = self.extras.numa.set_topology(name, topology, at, &mut self.resources);
        if let Some(at) = at.filter(|_| is_changed) {
            self.touch(at);
        }
        is_changed
    }

    /// What `/apis/v1/plugins/LoadAwareScheduling/node/:nodeName` answers: one page for each
    /// configuration in use. `None` when there is no such node.
    pub fn load_of(&self, node: &str) -> Option<Value> {
        let at = self.find_node(node)?;
        let page = |book: &load::Book| {
            Some(load::dump(node, book.settings(), book.page(at)?, &self.names))
        };
        let mut pages: Vec<Value> = self.extras.load.books().iter().filter_map(page).collect();
        match pages.len() {
            1 => pages.pop(),
            _ => Some(pages.into()),
        }
    }

    /// What `/apis/v1/plugins/NodeNUMAResource/nodes/:nodeName` answers; `None` when there is no
    /// such node.
    pub fn numa_of(&self, node: &str) -> Option<Value> {
        let state = self.extras.numa.state(self.find_node(node)?)?;
        Some(numa::dump(node, state, &self.resources))
    }
}
