//! How much of each node is lent out?
//!
//! The decision is [`overcommit::plan`]; here it is fed from the caches and written:
//!
//! ```text
//! NodeResourceTopology  batch resources of each zone, from the object as it is now
//! Node                  annotations and labels
//! Node status           owned resources and the note beside them, nothing else
//! ```
//!
//! Each is a patch of owned fields only. A patch that takes a resource away names the version it
//! was decided on; others cannot undo anything and need none. After a change of leader, nodes whose
//! values barely differ are written one after the other, twenty a second.

mod pacer;
mod show;

use api::kind::node_topology::ZoneResource;
use api::kind::{Kept, KeptError, NodeResourceTopology};
use api::protocol::event::{self, source};
use api::protocol::node::ORIGIN_ALLOCATABLE;
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use overcommit::plan::{MetaWrite, Plan, StatusWrite};
use overcommit::zone::ZoneWrite;
use parking_lot::Mutex;
use reconcile::drive::Controller;
use reconcile::key::Key;
use reconcile::queue::Next;
use reconcile::record::Recorder;
use reconcile::write::{WriteError, Writer};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};
use units::Quantity;

use crate::Shared;
use crate::caches::{Kind, NodeName};
use crate::instruments::count;
use pacer::Pacer;

/// What flags say about the calculation.
pub type Options = overcommit::plan::Options;

/// Runs until told to stop; writes only while this process leads.
pub async fn run(shared: Shared, options: Options, stop: CancellationToken) {
    let writer = shared.writer().managing(source::NODE_RESOURCE);
    let (events, recording) = shared.recorder(source::NODE_RESOURCE, stop.clone());
    let (pacer, told) = (Arc::default(), Arc::default());
    let controller = NodeResources { shared: shared.clone(), options, writer, events, pacer, told };
    let needs = [Kind::Node, Kind::Pod, Kind::Metric];
    let driving = shared.drive(&controller, &shared.caches.resources, &needs, stop);
    tokio::join!(driving, recording);
}

#[derive(Clone)]
struct NodeResources {
    shared: Shared,
    options: Options,
    writer: Writer,
    events: Recorder,
    pacer: Arc<Pacer>,
    /// Findings that are on the node as events already.
    told: Arc<Mutex<HashMap<NodeName, Box<[String]>>>>,
}

impl Controller for NodeResources {
    type Key = NodeName;

    const NAME: &'static str = "noderesource";

    async fn reconcile(&mut self, name: &NodeName, now: Timestamp) -> Result<Next, WriteError> {
        let Some(in_force) = self.shared.configs.latest() else { return Ok(Next::Settled) };
        let caches = &self.shared.caches;
        let plan = caches.with(|world| world.plan(name, &in_force, &self.options, now));
        let Some(plan) = plan else {
            show::forget(&self.shared.instruments, name);
            self.told.lock().remove(name);
            return Ok(Next::Settled);
        };
        show::plan(&self.shared.instruments, name, &plan);
        show::age(&self.shared, name, now);
        self.tell(name);
        let result = self.write(name, &plan).await;
        let counter = &self.shared.instruments.node_resource_reconcile;
        match &result {
            Ok(_) => count(counter, Ok("")),
            Err(error) => count(counter, Err(error.word())),
        }
        result
    }
}

impl NodeResources {
    async fn write(&self, name: &NodeName, plan: &Plan) -> Result<Next, WriteError> {
        let (caches, key) = (&self.shared.caches, Key::new("", name));
        if plan.is_quiet() {
            debug!(node = %name, standing = ?plan.why.standing, "the node says what it should");
        }
        if !plan.zones.is_empty() {
            self.write_zones(name, &plan.zones).await?;
        }
        if let Some(meta) = &plan.meta {
            let written = self.writer.patch::<Node>(&key, &meta_patch(meta)).await?;
            caches.apply(&written);
            info!(node = %name, "changed what a core of the node is worth");
        }
        if let Some(status) = &plan.status {
            let is_first = !caches.with(|world| world.is_synced(name));
            if is_first
                && !status.is_urgent
                && let Some(delay) = self.pacer.delay(name)
            {
                return Ok(Next::After(delay));
            }
            let version = caches.with(|world| {
                let node = world.get(name).and_then(|entry| entry.node.as_ref());
                node.map(|node| node.resource_version.clone())
            });
            let patch = status_patch(status, version.as_deref());
            let written = self.writer.patch_status::<Node>(&key, &patch).await?;
            caches.apply(&written);
            let why = &plan.why;
            let (batch, mid) = (why.published.map(|batch| batch.shown), why.mid_published);
            info!(node = %name, standing = ?why.standing, ?batch, ?mid, "changed what the node lends");
        }
        if plan.is_synced || plan.status.is_some() {
            caches.with(|world| world.synced(name, self.shared.clock.now()));
        }
        Ok(Next::at(plan.look_again, self.shared.clock.now()))
    }

    /// Zones belong to the node's agent, which may be writing them too: they are changed in the
    /// object as it is now, and only if it is still that one.
    async fn write_zones(&self, name: &NodeName, writes: &[ZoneWrite]) -> Result<(), WriteError> {
        let kind = ApiResource::erase::<NodeResourceTopology>(&());
        let api: Api<DynamicObject> = Api::all_with(self.writer.client.clone(), &kind);
        let key = Key::new("", name);
        let found = self.writer.ask("get", &kind.kind, &key, api.get(name)).await?;
        let unreadable = |source: KeptError| WriteError::Unreadable {
            kind: kind.kind.clone(),
            key: key.clone(),
            source: Box::new(source),
        };
        let mut kept = Kept::<NodeResourceTopology>::read(json!(found)).map_err(unreadable)?;
        for write in writes {
            let zones = kept.zones.iter_mut().filter(|zone| *zone.name == *write.zone);
            for zone in zones {
                put(&mut zone.resources, BATCH_CPU, write.batch.cpu);
                put(&mut zone.resources, BATCH_MEMORY, write.batch.memory);
            }
        }
        let mut patch = kept.merge_patch().map_err(unreadable)?;
        if patch == json!({}) {
            return Ok(());
        }
        patch["metadata"]["resourceVersion"] = json!(found.metadata.resource_version);
        let written = self.writer.patch::<NodeResourceTopology>(&key, &patch).await?;
        self.shared.caches.apply(&written);
        info!(node = %name, zones = writes.len(), "changed what the node's zones lend");
        Ok(())
    }

    /// Tells the node's owner which of its words are not used, once.
    fn tell(&self, name: &NodeName) {
        let record = self.shared.caches.with(|world| world.get(name).and_then(|e| e.node.clone()));
        let Some(record) = record else { return };
        let known = self.told.lock().get(name).cloned().unwrap_or_default();
        if record.findings == known || !self.shared.leadership.is_held() {
            return;
        }
        self.told.lock().insert(name.clone(), record.findings.clone());
        let node = Node { metadata: (*record.meta).clone(), ..Node::default() };
        for finding in record.findings.iter().filter(|finding| !known.contains(finding)) {
            self.events.warning(&node, event::NODE_SETTING, finding.clone());
        }
    }
}

/// Sets a zone's resource, keeping entries in order of name.
fn put(resources: &mut Vec<ZoneResource>, name: &str, amount: Option<Quantity>) {
    let Some(amount) = amount else { return };
    let new = ZoneResource {
        name: name.to_owned(),
        capacity: amount,
        allocatable: amount,
        available: amount,
    };
    match resources.iter_mut().find(|resource| resource.name == name) {
        Some(resource) => *resource = new,
        None => {
            resources.push(new);
            resources.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }
}

fn meta_patch(write: &MetaWrite) -> Value {
    let map = |pairs: &[(&'static str, Option<String>)]| -> Map<String, Value> {
        pairs.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect()
    };
    let mut meta = Map::new();
    if !write.annotations.is_empty() {
        meta.insert("annotations".to_owned(), map(&write.annotations).into());
    }
    if !write.labels.is_empty() {
        meta.insert("labels".to_owned(), map(&write.labels).into());
    }
    json!({ "metadata": meta })
}

/// Owned keys of the status, and the note that rides along.
fn status_patch(write: &StatusWrite, version: Option<&str>) -> Value {
    let mut patch = json!({});
    if !write.resources.is_empty() {
        let amounts: Map<String, Value> = write
            .resources
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), json!(amount.map(|a| a.to_string()))))
            .collect();
        patch["status"] = json!({ "capacity": amounts, "allocatable": amounts });
    }
    if let Some(origin) = &write.origin {
        patch["metadata"]["annotations"] = json!({ ORIGIN_ALLOCATABLE.name: origin });
    }
    let takes_away = write.resources.iter().any(|(_, amount)| amount.is_none());
    if takes_away && let Some(version) = version {
        patch["metadata"]["resourceVersion"] = json!(version);
    }
    patch
}

#[cfg(test)]
mod tests {
    use units::Format;

    use super::*;

    #[test]
    fn a_status_patch_names_owned_keys_and_a_version_only_to_take_away() {
        let amount = Quantity::from_int(14_400, Format::DecimalSi);
        let mut write = StatusWrite {
            resources: vec![(BATCH_CPU, Some(amount))],
            origin: Some("{}".to_owned()),
            is_urgent: true,
        };
        let want = json!({
            "metadata": {"annotations": {ORIGIN_ALLOCATABLE.name: "{}"}},
            "status": {"capacity": {BATCH_CPU: "14400"}, "allocatable": {BATCH_CPU: "14400"}},
        });
        assert_eq!(status_patch(&write, Some("7")), want);
        write.resources = vec![(BATCH_CPU, None)];
        let patch = status_patch(&write, Some("7"));
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["status"]["allocatable"], json!({BATCH_CPU: null}));
    }

    #[test]
    fn zone_resources_stay_in_order() {
        let entry = |name: &str| ZoneResource {
            name: name.to_owned(),
            capacity: Quantity::ZERO,
            allocatable: Quantity::ZERO,
            available: Quantity::ZERO,
        };
        let mut resources = vec![entry("cpu"), entry("memory")];
        let one = Some(Quantity::from_int(1, Format::DecimalSi));
        put(&mut resources, BATCH_CPU, one);
        put(&mut resources, BATCH_CPU, one);
        put(&mut resources, BATCH_MEMORY, None);
        let names: Vec<&str> = resources.iter().map(|resource| resource.name.as_str()).collect();
        assert_eq!(names, ["cpu", BATCH_CPU, "memory"]);
    }
}
