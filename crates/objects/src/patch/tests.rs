//! The same patches through the libraries of kube-apiserver and through ours.

use serde_json::Value;

use super::*;
use crate::schema::Gvk;
use crate::schema::built_in::Schemas;

const PATCHES: &str = include_str!("../../../../fixtures/reference/patch.jsonl");

#[test]
fn patches_do_what_they_do_in_kubernetes() {
    let pod = Schemas::built_in().get(&Gvk::new("", "v1", "Pod")).unwrap();
    let rows: Vec<Value> =
        PATCHES.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() > 100);
    for row in rows {
        let (original, patch) = (&row["original"], &row["patch"]);
        let patched = match row["type"].as_str() {
            Some("strategic") => strategic(original, patch, pod),
            Some("json") => json(original, patch.to_string().as_bytes()),
            _ => merge(original, patch),
        };
        match (patched, row.get("result"), &row["error"]) {
            (Ok(object), Some(want), _) => assert_eq!(object, *want, "{row}"),
            (Err(error), None, Value::String(said)) => {
                assert_eq!(error.to_string(), *said, "{row}")
            }
            // The wire does not carry the wording of what a JSON patch runs into.
            (Err(error), None, _) => assert_eq!(error.code(), 422, "{row}"),
            (patched, ..) => panic!("{patched:?}: {row}"),
        }
    }
}
