//! Rights: does each component have what it needs and nothing more?
//!
//! The tables say what was meant, the API server says what is.

use std::fs;

use serde_json::{Value, json};

use crate::rig::{NODE, Rig, SYSTEM, repository};

/// One line of a table: `account verb resource[.group][/subresource][=name] namespace`.
struct Right {
    line: String,
    account: String,
    attributes: Value,
}

fn read(table: &str) -> Vec<Right> {
    let path = repository().join("fixtures/rbac").join(table);
    let text = fs::read_to_string(&path).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(right).collect()
}

fn right(line: &str) -> Right {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [account, verb, what, namespace] = words.as_slice() else { panic!("{line:?} is no right") };
    let (what, name) = what.split_once('=').unwrap_or((what, ""));
    let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let namespace = Some(namespace).filter(|word| **word != "*");
    let attributes = json!({"verb": verb, "group": group, "resource": resource,
        "subresource": subresource, "namespace": namespace, "name": name});
    Right { line: line.to_owned(), account: (*account).to_owned(), attributes }
}

/// Asks about many rights with one call.
fn ask(rig: &Rig, rights: &[Right]) -> Vec<bool> {
    let review = |right: &Right| {
        let user = format!("system:serviceaccount:{SYSTEM}:{}", right.account);
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": right.attributes,
                "groups": ["system:serviceaccounts", "system:authenticated"]}})
    };
    let list = json!({"apiVersion": "v1", "kind": "List",
        "items": rights.iter().map(review).collect::<Vec<_>>()});
    // Reviews are answered and not kept, so kubectl prints one after the other.
    let said = rig.with_file(&["create", "-o", "json"], &list.to_string()).done();
    let answers: Vec<Value> =
        serde_json::Deserializer::from_str(&said).into_iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(answers.len(), rights.len());
    answers.iter().map(|answer| answer["status"]["allowed"] == true).collect()
}

pub(crate) fn tables(rig: &Rig) {
    for (table, wanted) in [("allowed.txt", true), ("denied.txt", false)] {
        let rights = read(table);
        assert!(rights.len() > 10, "{table} has {} rows", rights.len());
        let answers = ask(rig, &rights);
        let wrong = rights.iter().zip(answers).filter(|(_, answer)| *answer != wanted);
        let wrong: Vec<_> = wrong.map(|(right, _)| right.line.as_str()).collect();
        assert!(wrong.is_empty(), "{table}: the API server says otherwise\n{}", wrong.join("\n"));
    }
    nobody_was_denied(rig);
}

/// No component has met a refusal so far.
pub(crate) fn nobody_was_denied(rig: &Rig) {
    for app in ["koordlet", "koord-manager", "koord-scheduler"] {
        let selector = format!("koord-app={app}");
        let words = ["logs", "-n", SYSTEM, "-l", &selector, "--tail=-1", "--all-containers"];
        let log = rig.kubectl(&words).done();
        let is_denial = |line: &&str| {
            line.contains("403") && line.contains("code")
                || line.to_lowercase().contains("forbidden")
        };
        let denials: Vec<_> = log.lines().filter(is_denial).collect();
        assert!(denials.is_empty(), "{app}: {}", denials.join("\n"));
    }
}

/// A kubeconfig in which nobody but the account speaks.
fn account(rig: &Rig, name: &str) -> String {
    let token = rig.kubectl(&["create", "token", name, "-n", SYSTEM]).done();
    let admin = rig.kubectl(&["config", "view", "--raw", "-o", "json"]).json().unwrap();
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "own",
        "clusters": [{"name": "own", "cluster": admin["clusters"][0]["cluster"]}],
        "users": [{"name": "own", "user": {"token": token.trim()}}],
        "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}]});
    let file = rig.home().join(format!("{name}.kubeconfig"));
    fs::write(&file, config.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

pub(crate) fn denials(rig: &Rig) {
    let requests: [(&str, &[&str]); 9] = [
        ("koordlet", &["get", "secrets", "-n", SYSTEM]),
        ("koordlet", &["delete", "pod", "bystander", "-n", "default"]),
        ("koordlet", &["create", "configmap", "mine", "-n", SYSTEM]),
        ("koordlet", &["get", "configmaps", "-n", "default"]),
        ("koord-manager", &["get", "secrets", "-n", "default"]),
        ("koord-manager", &["delete", "node", NODE]),
        ("koord-manager", &["delete", "pod", "bystander", "-n", "default"]),
        ("koord-scheduler", &["get", "secrets", "-n", SYSTEM]),
        ("koord-scheduler", &["create", "deployment", "mine", "--image=x", "-n", "default"]),
    ];
    for (name, request) in requests {
        let config = account(rig, name);
        let why = rig.kubectl(&[&["--kubeconfig", &config], request].concat()).refused();
        assert!(why.contains("orbidden"), "{name}: {request:?}: {why}");
    }
    // The accounts themselves are good.
    let config = account(rig, "koordlet");
    rig.kubectl(&["--kubeconfig", &config, "get", "nodemetric", NODE]).done();
}
