//! Which rights does each account have, and which must it never get?
//!
//! `fixtures/rbac/allowed.txt` holds every right that the chart's roles give, one a line, and
//! `denied.txt` what an attacker with the account's token would like to do. `TIDEPOOL_BLESS=1` writes
//! the first anew; the second is written by hand. On a real API server both are asked for with
//! SubjectAccessReviews.

#![expect(clippy::disallowed_methods, reason = "tests read files and settings")]
#![expect(clippy::unwrap_used, reason = "rights that cannot be read fail their test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use chart::{Chart, Manifest, Release};
use serde_json::{Value, json};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/rbac").join(name)
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|item| item.as_str().unwrap()).collect()
}

/// The rows of a role's rules, for one account in one namespace.
fn rows(account: &str, role: &Value, namespace: &str) -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let names = texts(&rule["resourceNames"]);
        for (group, resource, verb) in texts(&rule["apiGroups"]).into_iter().flat_map(|group| {
            let resources = texts(&rule["resources"]).into_iter();
            resources.flat_map(move |resource| {
                texts(&rule["verbs"]).into_iter().map(move |verb| (group, resource, verb))
            })
        }) {
            let (kind, sub) = resource.split_once('/').unwrap_or((resource, ""));
            let dotted = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
            let full = if sub.is_empty() { dotted } else { format!("{dotted}/{sub}") };
            let words = |name: &str| format!("{account} {verb} {full}{name} {namespace}");
            match names.as_slice() {
                [] => rows.insert(words("")),
                names => names.iter().all(|name| rows.insert(words(&format!("={name}")))),
            };
        }
    }
    rows
}

/// Everything that the chart's bindings give to service accounts.
fn given(values: &Value) -> BTreeSet<String> {
    let manifests = Chart::embedded().unwrap().render(values, &Release::default()).unwrap();
    let mut given = BTreeSet::new();
    for binding in manifests.iter().filter(|object| object.kind().ends_with("RoleBinding")) {
        let role_of = &binding.object["roleRef"];
        let role = manifests.iter().find(|object: &&Manifest| {
            Some(object.kind()) == role_of["kind"].as_str()
                && Some(object.name()) == role_of["name"].as_str()
        });
        let namespace = if binding.namespace().is_empty() { "*" } else { binding.namespace() };
        for subject in binding.object["subjects"].as_array().unwrap() {
            assert_eq!(subject["kind"], "ServiceAccount", "{}", binding.name());
            let account = subject["name"].as_str().unwrap();
            given.extend(rows(account, &role.unwrap().object, namespace));
        }
    }
    given
}

fn lines(name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(file(name)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Does a right cover a request?
fn covers(right: &str, request: &str) -> bool {
    let (right, request): (Vec<&str>, Vec<&str>) =
        (right.split_whitespace().collect(), request.split_whitespace().collect());
    let [account, verb, resource, namespace] = right[..] else { panic!("{right:?}") };
    let [by, does, what, place] = request[..] else { panic!("{request:?}") };
    let (resource, name) = resource.split_once('=').unwrap_or((resource, ""));
    let (what, which) = what.split_once('=').unwrap_or((what, ""));
    account == by
        && verb == does
        && resource == what
        && (namespace == "*" || namespace == place)
        && (name.is_empty() || name == which)
}

#[test]
fn the_table_of_rights_is_what_the_roles_give() {
    let given = given(&json!({}));
    if std::env::var_os("TIDEPOOL_BLESS").is_some() {
        let text = fs::read_to_string(file("allowed.txt")).unwrap();
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        let rows: Vec<&str> = given.iter().map(String::as_str).collect();
        fs::write(file("allowed.txt"), format!("{}\n\n{}\n", head.join("\n"), rows.join("\n")))
            .unwrap();
    }
    assert_eq!(given, lines("allowed.txt"));
}

#[test]
fn nothing_that_must_be_denied_is_given() {
    let denied = lines("denied.txt");
    assert!(denied.len() > 20, "{denied:?}");
    // Also with the widest values.
    let values =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/chart/everything-on.yaml");
    let widest: Value = serde_saphyr::from_str(&fs::read_to_string(values).unwrap()).unwrap();
    for (name, values) in [("defaults", json!({})), ("everything on", widest)] {
        // The one right that is asked for by name, and only then given.
        let proxy = "koordlet get nodes/proxy *";
        for right in given(&values).iter().filter(|right| *right != proxy) {
            for request in &denied {
                assert!(!covers(right, request), "{name}: {right} allows {request}");
            }
        }
    }
}

#[test]
fn a_right_for_one_object_does_not_cover_another() {
    let right = "a get secrets=mine ns";
    assert!(covers(right, "a get secrets=mine ns"));
    for request in [
        "a get secrets=other ns",
        "a get secrets ns",
        "a get secrets=mine other",
        "b get secrets=mine ns",
        "a list secrets=mine ns",
    ] {
        assert!(!covers(right, request), "{request}");
    }
    assert!(covers("a get pods *", "a get pods=web default"));
}

#[test]
fn no_rule_speaks_of_everything() {
    let widest = json!({"koordlet": {"kubelet": {"proxyRight": true}}});
    for right in given(&widest) {
        let words: Vec<&str> = right.split_whitespace().collect();
        assert!(!words[..3].iter().any(|word| word.contains('*')), "{right}");
        for verb in ["escalate", "bind", "impersonate", "deletecollection"] {
            assert_ne!(words[1], verb, "{right}");
        }
        if words[2].starts_with("secrets") {
            assert_eq!(words[2], "secrets=koordinator-webhook-certs", "{right}");
        }
    }
}
