//! Writing NodeMetric.status.
//!
//! The manager creates the object and says how often it wants to hear; we replace its status as a
//! whole. Nothing is kept for later: while the API server is away reports are skipped, and the
//! first one after it came back tells the present. A report without a measurement of the node
//! leaves the time of the last one standing, so that everyone can see how old the numbers are.

pub mod cadence;
pub mod gauges;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::kind::NodeMetric;
use api::kind::node_metric::NodeMetricStatus;
use jiff::Timestamp;
use kube::Client;
use kube::api::PostParams;
use reconcile::key::Key;
use reconcile::write::Writer;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::clock::Clock;
use crate::exposition::{Exposition, NODE_METRIC_WRITES};
use crate::health::Part;
use crate::node_state::SharedNodeState;
use crate::object::{Seen, chain};
use crate::predict::Prediction;
use crate::report::node_metric::{Inputs, Report, assemble};
use crate::series::{Measure, Metrics, Subject};
use cadence::{Cadence, Due, Load};

/// How often a conflicting write is tried again with the newer object.
const CONFLICTS: u32 = 5;

/// How long one write may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often it is looked whether a report is due.
const LOOK: Duration = Duration::from_secs(1);

/// The window in which a change of load shows.
const LOAD_WINDOW: Duration = Duration::from_secs(15);

/// What the task needs.
#[derive(Debug)]
pub struct Reporting {
    pub node_name: String,
    pub settings: cadence::Settings,
    /// Whether usage is shown as gauges too.
    pub gauges: bool,
    pub metrics: Metrics,
    pub prediction: Option<Prediction>,
    pub state: SharedNodeState,
    pub clock: Clock,
    pub object: watch::Receiver<Seen<NodeMetric>>,
    pub exposition: Exposition,
    pub part: Part,
}

/// How an attempt to write ended.
#[derive(Debug)]
enum Written {
    Done,
    /// The object went away; there is nothing to write to.
    Gone,
    Failed(String),
}

impl Written {
    fn word(&self) -> &'static str {
        match self {
            Self::Done => "written",
            Self::Gone => "gone",
            Self::Failed(_) => "failed",
        }
    }
}

/// Reports until shutdown.
pub async fn follow(mut reporting: Reporting, client: Client, shutdown: CancellationToken) {
    let writer = Writer::alone(client).waiting(TIMEOUT);
    let mut cadence = Cadence::new(reporting.settings);
    let mut failing = false;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
            Ok(()) = reporting.object.changed() => {}
        }
        reporting.part.beat(LOOK, Instant::now());
        let seen = reporting.object.borrow_and_update().clone();
        let Some(object) = seen.present() else {
            cadence.forget();
            continue;
        };
        let (load, interval) = reporting.load();
        cadence.meet(object.metadata.uid.as_deref().unwrap_or_default());
        let now = reporting.clock.now();
        let why = match cadence.due(now, interval, load) {
            Due::Now(why) => why,
            Due::Later => continue,
        };
        let report = reporting.assemble(now);
        let written = reporting.write(&writer, object.clone(), &report, &shutdown).await;
        reporting.exposition.count(&NODE_METRIC_WRITES, &[written.word()]);
        match written {
            Written::Done => {
                debug!(
                    ?why,
                    pods = report.status.pods_metric.len(),
                    "the node's usage was reported"
                );
                if std::mem::take(&mut failing) {
                    info!("the node's usage is reported again");
                }
                reporting.part.ready();
                cadence.written(reporting.clock.now(), load);
            }
            Written::Gone => cadence.forget(),
            Written::Failed(reason) => {
                if std::mem::replace(&mut failing, true) {
                    debug!(reason, "still cannot report the node's usage");
                } else {
                    warn!(reason, "cannot report the node's usage; will retry");
                }
                reporting.part.lacks(reason);
                cadence.failed(reporting.clock.now(), interval);
            }
        }
    }
}

impl Reporting {
    /// What the node uses at the moment, and how often that is to be told.
    fn load(&self) -> (Option<Load>, Duration) {
        let state = self.state.load();
        let now = self.clock.now();
        let mean = |measure| self.metrics.average(Subject::Node, measure, now, LOAD_WINDOW);
        let load = mean(Measure::Cpu).zip(mean(Measure::Memory)).map(|(cpu, memory)| {
            let capacity = state.node.as_ref().map(|node| node.capacity).unwrap_or_default();
            Load::new(cpu, memory, capacity)
        });
        (load, state.policy.report)
    }

    fn assemble(&self, now: Duration) -> Report {
        let state = self.state.load();
        let report = assemble(&Inputs {
            metrics: &self.metrics,
            state: &state,
            prediction: self.prediction.as_ref(),
            now,
            wall: Timestamp::now(),
        });
        if let Some(policy) = report.fell_back_to {
            debug!(?policy, "the memory policy cannot be followed on this node");
        }
        if let Some(reason) = &report.prediction_error {
            debug!(reason, "nothing is predicted");
        }
        let shown = self.gauges;
        self.exposition.publish("node-metric", |group| gauges::fill(group, &report, shown));
        report
    }

    /// Replaces the status; a conflict is tried again with the newer object.
    async fn write(
        &self,
        writer: &Writer,
        seen: Arc<NodeMetric>,
        report: &Report,
        shutdown: &CancellationToken,
    ) -> Written {
        let attempt = async {
            let mut object = NodeMetric::clone(&seen);
            let mut left = CONFLICTS;
            let (key, params) = (Key::new("", &self.node_name), PostParams::default());
            let api = writer.api::<NodeMetric>(&key);
            loop {
                object.status = Some(next_status(object.status.take(), report));
                let sending = api.replace_status(&key.name, &params, &object);
                match writer.send("replace the status of", "NodeMetric", &key, sending).await {
                    Ok(_) => return Written::Done,
                    Err(error) if error.is_missing() => return Written::Gone,
                    Err(error) if error.is_conflict() && left > 0 => left -= 1,
                    Err(error) => return Written::Failed(chain(&error)),
                }
                object = match writer.get(&key).await {
                    Ok(Some(newer)) => newer,
                    Ok(None) => return Written::Gone,
                    Err(error) => return Written::Failed(chain(&error)),
                };
            }
        };
        tokio::select! {
            written = tokio::time::timeout(TIMEOUT, attempt) => written.unwrap_or_else(|_| {
                Written::Failed(format!("no answer within {} s", TIMEOUT.as_secs()))
            }),
            () = shutdown.cancelled() => Written::Failed("stopping".to_owned()),
        }
    }
}

/// The report as the next status of an object that had `before`.
///
/// What third parties keep with a pod stays with it; the time stays when the node was not measured.
fn next_status(before: Option<NodeMetricStatus>, report: &Report) -> NodeMetricStatus {
    let mut status = report.status.clone();
    let Some(before) = before else { return status };
    if report.is_node_missing {
        status.update_time = before.update_time;
    }
    let mut extensions: BTreeMap<_, _> = before
        .pods_metric
        .into_iter()
        .filter_map(|pod| Some(((pod.namespace, pod.name), pod.extensions?)))
        .collect();
    for pod in &mut status.pods_metric {
        if pod.extensions.is_none() {
            pod.extensions = extensions.remove(&(pod.namespace.clone(), pod.name.clone()));
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(value: serde_json::Value) -> NodeMetricStatus {
        serde_json::from_value(value).unwrap()
    }

    fn report(status: NodeMetricStatus, is_node_missing: bool) -> Report {
        Report { status, is_node_missing, fell_back_to: None, prediction_error: None }
    }

    #[test]
    fn a_report_without_the_node_keeps_its_age() {
        let before = status(json!({ "updateTime": "2030-01-01T00:00:00Z" }));
        let kept = next_status(Some(before.clone()), &report(status(json!({})), true));
        assert_eq!(kept.update_time, before.update_time);
        let now = status(json!({ "updateTime": "2030-01-01T00:01:00Z" }));
        let next = next_status(Some(before), &report(now.clone(), false));
        assert_eq!(next.update_time, now.update_time);
        assert_eq!(next_status(None, &report(status(json!({})), true)).update_time, None);
    }

    #[test]
    fn what_third_parties_keep_with_a_pod_stays_with_it() {
        let before = status(json!({ "podsMetric": [
            { "namespace": "d", "name": "web", "extensions": { "vendor": 7 } },
            { "namespace": "d", "name": "gone", "extensions": { "vendor": 8 } },
        ] }));
        let now = status(json!({ "podsMetric": [
            { "namespace": "d", "name": "other" }, { "namespace": "d", "name": "web" },
        ] }));
        let next = next_status(Some(before), &report(now, false));
        let kept: Vec<_> = next.pods_metric.iter().map(|pod| pod.extensions.is_some()).collect();
        assert_eq!(kept, [false, true]);
    }
}
