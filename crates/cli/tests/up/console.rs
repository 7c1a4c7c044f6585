//! What people see of a cluster of one: the console and `top`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::rig::{TIDEPOOL, Up, said, until};

/// Where the console is, by what `up` said.
pub(crate) fn console_of(said: &str) -> String {
    let line = said.lines().find(|line| line.contains("  console ")).unwrap();
    line.rsplit("http://").next().unwrap().trim().to_owned()
}

/// The body of a page of the console.
fn get(up: &Up, path: &str) -> String {
    fetch(&console_of(&up.said), path)
}

/// The body of a page at an address.
pub(crate) fn fetch(address: &str, path: &str) -> String {
    let (status, body) = ask(address, path);
    assert!(status.starts_with("HTTP/1.1 200"), "{path}: {status}");
    body
}

/// The first line and the body of an answer.
pub(crate) fn ask(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(!answer.contains("transfer-encoding: chunked"), "{path} is not one piece");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

#[tokio::test]
async fn console_and_top_show_the_node() {
    let up = Up::with(&["--in-memory", "--hollow", "3"]);
    assert!(get(&up, "/").contains("<title>Tidepool</title>"));
    until("the node to be measured", || async {
        let page = get(&up, "/api/nodes/n1");
        page.contains("\"used\":{").then_some(())
    })
    .await;
    until("the agent is reached", || async {
        get(&up, "/api/decisions").contains("\"agents\":1").then_some(())
    })
    .await;
    until("hollow nodes are known not to be measured", || async {
        get(&up, "/metrics").contains("tidepool_nodes{state=\"unknown\"} 3").then_some(())
    })
    .await;

    until("the agent has decided what best-effort may use", || async {
        (!get(&up, "/api/nodes/n1").contains("\"bestEffortLimit\":null")).then_some(())
    })
    .await;
    let json = up.tidepool(&["top", "-o", "json"]);
    let page: Value =
        serde_json::from_slice(&json.stdout).unwrap_or_else(|_| panic!("{}", said(&json)));
    assert_eq!(page["nodes"].as_array().unwrap().len(), 4);
    assert_eq!(page["overview"]["counts"]["nodes"], 4);
    let limit_of = |name: &str| {
        let rows = page["nodes"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()["bestEffortLimit"].clone()
    };
    assert!(limit_of("n1").is_i64(), "{page:#}");
    assert!(page["nodes"].as_array().unwrap().iter().any(|row| row["bestEffortLimit"].is_null()));

    let table = up.tidepool(&["top"]);
    assert!(table.status.success() && said(&table).contains("NODE"), "{}", said(&table));
    let missing = up.tidepool(&["top", "cpus", "--node", "n9"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(said(&missing).contains("there is no node n9"), "{}", said(&missing));

    let mut closed = Command::new(TIDEPOOL)
        .args(["top", "-o", "json"])
        .env("TIDEPOOL_STATE_DIR", up.dir())
        .env_remove("KUBECONFIG")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(closed.stdout.take());
    assert!(closed.wait().unwrap().success(), "a closed pipe is success");
}
