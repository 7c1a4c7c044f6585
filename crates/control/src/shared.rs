//! What do all controllers of the process hold?

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use reconcile::clock::Clock;
use reconcile::drive::{Controller, Counters, Driver};
use reconcile::elect::Leadership;
use reconcile::queue::Queue;
use reconcile::record::{Form, Recorder, Recording};
use reconcile::write::Writer;
use tokio_util::sync::CancellationToken;

use crate::caches::{Caches, Kind, NodeName};
use crate::instruments::Instruments;
use crate::intake::Configs;

/// Nodes of one controller that are worked on together.
const WORKERS: usize = 16;

/// Handles that every controller needs; cheap to clone.
#[derive(Clone)]
pub struct Shared {
    pub client: Client,
    pub caches: Arc<Caches>,
    pub configs: Configs,
    pub leadership: Leadership,
    pub instruments: Instruments,
    pub clock: Clock,
    /// How long a write may take, see [`reconcile::write::PATIENCE`].
    pub patience: Duration,
}

impl Shared {
    pub(crate) fn writer(&self) -> Writer {
        Writer::new(self.client.clone(), self.leadership.clone()).waiting(self.patience)
    }

    /// Tells owners of objects what happened, in the name of `component`; and the task that does.
    pub(crate) fn recorder(
        &self,
        component: &'static str,
        stop: CancellationToken,
    ) -> (Recorder, impl Future<Output = ()> + Send + use<>) {
        let (client, leadership) = (self.client.clone(), self.leadership.clone());
        let form = Form::Events { instance: None };
        Recording::new(client, leadership, self.clock.clone(), form).start(component, stop)
    }

    /// Runs a controller of nodes until told to stop, once the kinds it `needs` are known. Every
    /// node is looked at again when the configuration changes.
    pub(crate) async fn drive<C: Controller<Key = NodeName> + Clone>(
        &self,
        controller: &C,
        queue: &Queue<NodeName>,
        needs: &[Kind],
        stop: CancellationToken,
    ) {
        let driver = Driver {
            clock: self.clock.clone(),
            leadership: self.leadership.clone(),
            counters: Some(Counters {
                total: self.instruments.reconcile_total.clone(),
                depth: self.instruments.workqueue_depth.clone(),
            }),
        };
        let workers = vec![controller.clone(); WORKERS];
        let reconfigured = async {
            let mut configs = self.configs.clone();
            loop {
                configs.changed().await;
                let names: Vec<NodeName> =
                    self.caches.with(|world| world.names().cloned().collect());
                names.into_iter().for_each(|name| queue.add(name));
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = self.caches.until_listed(needs) => {}
        }
        tokio::select! {
            () = driver.run(workers, queue, &stop) => {}
            () = reconfigured => {}
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
