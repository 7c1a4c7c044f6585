//! How does one stored object serve several API versions?
//!
//! Versions of custom resources differ in `apiVersion` only. Events are the one built-in kind
//! served by two groups: `events.k8s.io` renamed most of the fields.

use serde_json::{Map, Value};

use super::kinds::{Conversion, Served, Storage};

/// Field names of core events and their `events.k8s.io` counterparts.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Stored bytes can be sent as they are.
pub(super) fn is_verbatim(served: &Served) -> bool {
    match &served.storage {
        Storage::Stored { api_version, view: Conversion::Rename, .. } => {
            *api_version == served.api_version()
        }
        Storage::Stored { view: Conversion::Event, .. } | Storage::Virtual => false,
    }
}

/// These bytes can: custom objects may still be stored in an earlier version.
pub(super) fn fits(served: &Served, json: &[u8]) -> bool {
    if !served.traits.custom {
        return true;
    }
    let start = format!("{{\"apiVersion\":\"{}\",", served.api_version());
    json.starts_with(start.as_bytes())
}

/// Turns an object read from the store into the served version.
pub(super) fn from_storage(object: &mut Value, served: &Served) {
    let Storage::Stored { view, .. } = &served.storage else { return };
    let Some(fields) = object.as_object_mut() else { return };
    fields.insert("apiVersion".into(), served.api_version().into());
    if *view == Conversion::Event {
        rename(fields, EVENT_FIELDS.map(|(core, other)| (core, other)));
    }
}

/// Turns an object of the served version into the one that is stored.
pub(super) fn to_storage(object: &mut Value, served: &Served) {
    let Storage::Stored { view, api_version, .. } = &served.storage else { return };
    let Some(fields) = object.as_object_mut() else { return };
    fields.insert("apiVersion".into(), api_version.as_str().into());
    if *view == Conversion::Event {
        rename(fields, EVENT_FIELDS.map(|(core, other)| (other, core)));
    }
}

fn rename(fields: &mut Map<String, Value>, names: [(&str, &str); 7]) {
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::kinds::Registry;

    #[test]
    fn events_survive_the_round_trip() {
        let registry = Registry::built_in();
        let served = registry.find("events.k8s.io", "v1", "events").unwrap();
        let stored = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p"},
            "message": "hello",
            "reason": "Started",
            "reportingComponent": "me",
        });
        let mut object = stored.clone();
        from_storage(&mut object, served);
        assert_eq!(object["apiVersion"], "events.k8s.io/v1");
        assert_eq!(object["note"], "hello");
        assert_eq!(object["regarding"]["name"], "p");
        assert!(object.get("message").is_none());
        to_storage(&mut object, served);
        assert_eq!(object, stored);
        assert!(!is_verbatim(served));
        assert!(is_verbatim(registry.find("", "v1", "events").unwrap()));
    }
}
