//! What does the server say about itself?
//!
//! A handful of numbers in the Prometheus text form, under the names kube-apiserver uses.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::kinds::{Registry, Storage};
use crate::store::Store;

/// Counters since the start.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    requests: Mutex<BTreeMap<Request, Tally>>,
    watches: Arc<Mutex<BTreeMap<String, u64>>>,
}

/// What requests are counted by; all parts come from the registry, so there are few of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    verb: &'static str,
    group: String,
    resource: String,
    subresource: String,
    code: u16,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    count: u64,
    seconds: f64,
}

/// Counts a watch as long as it lives.
#[derive(Debug)]
pub(super) struct Watching {
    resource: String,
    watches: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(count) = self.watches.lock().get_mut(&self.resource) {
            *count = count.saturating_sub(1);
        }
    }
}

impl Metrics {
    pub(super) fn request(
        &self,
        verb: &'static str,
        (group, resource, subresource): (&str, &str, &str),
        code: u16,
        took: Duration,
    ) {
        let request = Request {
            verb,
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            code,
        };
        let mut requests = self.requests.lock();
        let tally = requests.entry(request).or_default();
        tally.count = tally.count.saturating_add(1);
        tally.seconds += took.as_secs_f64();
    }

    pub(super) fn watching(&self, resource: &str) -> Watching {
        let mut watches = self.watches.lock();
        let count = watches.entry(resource.to_owned()).or_default();
        *count = count.saturating_add(1);
        Watching { resource: resource.to_owned(), watches: self.watches.clone() }
    }

    /// Everything as text.
    pub(super) fn render(&self, store: &Store, registry: &Registry, in_flight: usize) -> String {
        let mut text = String::new();
        family(&mut text, "apiserver_request_total", "counter", "Requests by outcome.");
        let requests = self.requests.lock().clone();
        for (request, tally) in &requests {
            line(&mut text, "apiserver_request_total", &labels(request), tally.count);
        }
        let name = "apiserver_request_duration_seconds";
        family(&mut text, name, "summary", "Time until the answer began.");
        for (request, tally) in &requests {
            line(&mut text, &format!("{name}_sum"), &labels(request), tally.seconds);
            line(&mut text, &format!("{name}_count"), &labels(request), tally.count);
        }
        let name = "apiserver_current_inflight_requests";
        family(&mut text, name, "gauge", "Requests being answered, watches apart.");
        line(&mut text, name, "", in_flight);
        let name = "apiserver_longrunning_requests";
        family(&mut text, name, "gauge", "Open watches.");
        for (resource, count) in self.watches.lock().iter() {
            line(&mut text, name, &format!("verb=\"WATCH\",resource=\"{resource}\""), count);
        }
        let name = "apiserver_storage_objects";
        family(&mut text, name, "gauge", "Objects in the store.");
        for served in registry.resources() {
            if let Storage::Stored { collection, .. } = &served.storage {
                let count = store.list(collection, None).len();
                let label = format!("group=\"{}\",resource=\"{}\"", served.group, served.plural);
                line(&mut text, name, &label, count);
            }
        }
        family(&mut text, "tidepool_store_revision", "counter", "Writes since the store was made.");
        line(&mut text, "tidepool_store_revision", "", store.revision());
        text
    }
}

fn labels(request: &Request) -> String {
    let Request { verb, group, resource, subresource, code } = request;
    format!(
        "verb=\"{}\",group=\"{group}\",resource=\"{resource}\",subresource=\"{subresource}\",code=\"{code}\"",
        verb.to_ascii_uppercase()
    )
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = match labels {
        "" => writeln!(text, "{name} {value}"),
        _ => writeln!(text, "{name}{{{labels}}} {value}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Limits;

    #[test]
    fn requests_and_watches_are_counted() {
        let metrics = Metrics::default();
        let store = Store::in_memory(Limits::default()).unwrap();
        metrics.request("get", ("", "pods", ""), 200, Duration::from_millis(500));
        metrics.request("get", ("", "pods", ""), 200, Duration::from_millis(500));
        let watching = metrics.watching("pods");
        let text = metrics.render(&store, &Registry::built_in(), 3);
        let labels = "{verb=\"GET\",group=\"\",resource=\"pods\",subresource=\"\",code=\"200\"}";
        for want in [
            format!("apiserver_request_total{labels} 2\n"),
            format!("apiserver_request_duration_seconds_sum{labels} 1\n"),
            "apiserver_current_inflight_requests 3\n".to_owned(),
            "apiserver_longrunning_requests{verb=\"WATCH\",resource=\"pods\"} 1\n".to_owned(),
            "apiserver_storage_objects{group=\"\",resource=\"pods\"} 0\n".to_owned(),
        ] {
            assert!(text.contains(&want), "{want} in {text}");
        }
        drop(watching);
        let text = metrics.render(&store, &Registry::built_in(), 0);
        assert!(text.contains("resource=\"pods\"} 0\n"));
    }
}
