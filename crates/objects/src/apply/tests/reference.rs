//! The same histories through Kubernetes' own implementation and through ours.

use super::*;

const HISTORIES: &str = include_str!("../../../../../fixtures/reference/apply.jsonl");

#[test]
fn histories_end_as_they_do_in_kubernetes() {
    let histories: Vec<Value> =
        HISTORIES.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(histories.len() > 40);
    for (at, history) in histories.iter().enumerate() {
        let mut server = match history["kind"].as_str() {
            Some("Pod") => Server::built_in("", "Pod"),
            _ => Server::widgets(),
        };
        for event in history["events"].as_array().unwrap() {
            let (manager, object) = (event["manager"].as_str().unwrap(), &event["object"]);
            let error = match event["op"].as_str() {
                Some("update") => {
                    server.update(manager, object);
                    String::new()
                }
                op => {
                    let applied = server.apply(manager, object, op == Some("force"));
                    applied.err().map(|error| error.to_string()).unwrap_or_default()
                }
            };
            assert_eq!(error, event["error"].as_str().unwrap(), "history {at}");
        }
        assert_eq!(end(&server), history["object"], "history {at}");
        assert_eq!(ledger(&server), history["managed"], "history {at}");
    }
}

/// The object as the recording has it.
fn end(server: &Server) -> Value {
    let mut object = server.live.clone().unwrap();
    managed::take_from(&mut object);
    let fields = object.as_object_mut().unwrap();
    fields.remove("apiVersion");
    fields.remove("kind");
    object
}

/// The managers as the recording has them: sorted by name, without times.
fn ledger(server: &Server) -> Value {
    let mut entries: Vec<Value> = entries(server.live.as_ref().unwrap()).to_vec();
    entries.sort_by_key(|entry| (entry["operation"].to_string(), entry["manager"].to_string()));
    let plain = entries.into_iter().map(|entry| {
        json!({"manager": entry["manager"], "operation": entry["operation"], "fields": entry["fieldsV1"]})
    });
    plain.collect()
}
