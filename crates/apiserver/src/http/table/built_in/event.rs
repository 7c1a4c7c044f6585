//! Events, in either of their two forms.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Sheet, ago, name, str_at, text, wide};

pub(super) const EVENTS: Sheet = Sheet {
    columns: &[
        text("Last Seen"),
        text("Type"),
        text("Reason"),
        text("Object"),
        wide("Subobject"),
        wide("Source"),
        text("Message"),
        wide("First Seen"),
        wide("Count"),
        wide("Name"),
    ],
    cells,
};

/// A field under its core name or under that of `events.k8s.io`.
fn either<'a>(event: &'a Value, core: &str, other: &str) -> Option<&'a Value> {
    event.pointer(core).or_else(|| event.pointer(other)).filter(|value| !value.is_null())
}

fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let text = |core, other| either(event, core, other).and_then(Value::as_str).unwrap_or_default();
    let time = event.get("eventTime").filter(|time| time.is_string());
    let series = event.get("series").filter(|series| series.is_object());
    let last = series
        .and_then(|series| series.get("lastObservedTime"))
        .or_else(|| either(event, "/lastTimestamp", "/deprecatedLastTimestamp"))
        .or(time);
    let first = either(event, "/firstTimestamp", "/deprecatedFirstTimestamp").or(time);
    let count = series
        .and_then(|series| series.get("count"))
        .or_else(|| either(event, "/count", "/deprecatedCount"))
        .and_then(Value::as_i64)
        .filter(|count| *count > 0)
        .unwrap_or(1);
    let kind = text("/involvedObject/kind", "/regarding/kind").to_ascii_lowercase();
    let object = match text("/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        json!(ago(last, now)),
        json!(str_at(event, "/type")),
        json!(str_at(event, "/reason")),
        json!(object),
        json!(text("/involvedObject/fieldPath", "/regarding/fieldPath")),
        json!(source(event)),
        json!(text("/message", "/note").trim()),
        json!(ago(first, now)),
        json!(count.to_string()),
        name(event),
    ]
}

fn source(event: &Value) -> String {
    let text = |core, other| either(event, core, other).and_then(Value::as_str).unwrap_or_default();
    let (mut component, mut host) = (
        text("/source/component", "/deprecatedSource/component"),
        text("/source/host", "/deprecatedSource/host"),
    );
    if component.is_empty() {
        component = text("/reportingComponent", "/reportingController");
        host = str_at(event, "/reportingInstance");
    }
    match host {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_show_the_same_line() {
        let now: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
        let core = json!({
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p"},
            "lastTimestamp": "2026-01-01T00:04:00Z",
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "count": 3,
            "source": {"component": "kubelet", "host": "n1"},
            "type": "Normal", "reason": "Started", "message": "hello\n",
        });
        let other = json!({
            "metadata": {"name": "e"},
            "regarding": {"kind": "Pod", "name": "p"},
            "deprecatedLastTimestamp": "2026-01-01T00:04:00Z",
            "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
            "deprecatedCount": 3,
            "deprecatedSource": {"component": "kubelet", "host": "n1"},
            "type": "Normal", "reason": "Started", "note": "hello",
        });
        let want = json!([
            "60s",
            "Normal",
            "Started",
            "pod/p",
            "",
            "kubelet, n1",
            "hello",
            "5m",
            "3",
            "e"
        ]);
        assert_eq!(json!(cells(&core, now)), want);
        assert_eq!(json!(cells(&other, now)), want);
    }
}
