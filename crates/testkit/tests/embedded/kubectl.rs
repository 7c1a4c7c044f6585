//! What does a person with `kubectl` see?
//!
//! The sessions under `fixtures/kubectl` are transcripts recorded from a real kube-apiserver;
//! the embedded server must answer in the same words. `kubectl` is found through
//! `TIDEPOOL_KUBECTL` or on the path; without it the test says so and passes.
//! `TIDEPOOL_CONFORMANCE_SERVER` and `_TOKEN` name another server, and `TIDEPOOL_BLESS=1` records.
//!
//! | line | meaning |
//! |---|---|
//! | `@file name` | a file of the working directory, indented |
//! | `$ command` | runs in a shell; what it prints follows |
//! | `$& command` | runs until `$. n`, after which its first n lines follow |
//!
//! Ages, times and ids are replaced before comparing; runs of spaces count as two.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use apiserver::http::Options;
use regex::Regex;
use serde_json::json;
use testkit::embedded::Embedded;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::gaps::KUBECTL_GAPS;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_sees_what_it_would_see_on_kubernetes() {
    let Some(kubectl) = find_kubectl() else {
        assert!(std::env::var_os("CI").is_none(), "no kubectl, and CI must not go without");
        println!("SKIPPED: no kubectl; name one with TIDEPOOL_KUBECTL");
        return;
    };
    let foreign = std::env::var("TIDEPOOL_CONFORMANCE_SERVER").ok();
    let embedded = match foreign {
        Some(_) => None,
        None => Some(Embedded::start(Options::default()).await.unwrap()),
    };
    let config = match &embedded {
        Some(server) => server.credentials.kubeconfig(&server.url),
        None => foreign_config(&foreign.unwrap_or_default()),
    };
    let only = std::env::var("TIDEPOOL_CONFORMANCE_ONLY").unwrap_or_default();
    let mut surprises = Vec::new();
    let mut commands = 0;
    for path in sessions().into_iter().filter(|path| path.ends_with(&only) || only.is_empty()) {
        let session = Session::start(&kubectl, &config, &path).await;
        let (played, differences) = session.play().await;
        commands += played;
        surprises.extend(differences);
    }
    println!("{commands} commands");
    let name = |difference: &Difference| format!("{}: {}", difference.session, difference.command);
    if embedded.is_some() {
        for (session, command, why) in KUBECTL_GAPS {
            let gap = format!("{session}: {command}");
            let before = surprises.len();
            surprises.retain(|difference| name(difference) != gap);
            assert!(before > surprises.len() || !only.is_empty(), "works now: {gap} ({why})");
        }
    }
    let told: Vec<String> = surprises
        .iter()
        .map(|d| format!("{}\n--- want\n{}\n--- got\n{}", name(d), d.want, d.got))
        .collect();
    assert!(told.is_empty(), "{} commands differ\n{}", told.len(), told.join("\n\n"));
    if let Some(server) = embedded {
        server.stop().await;
    }
}

fn find_kubectl() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("TIDEPOOL_KUBECTL") {
        return Some(PathBuf::from(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join("kubectl")).find(|file| file.is_file())
}

fn foreign_config(url: &str) -> String {
    let token = std::env::var("TIDEPOOL_CONFORMANCE_TOKEN").unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": url, "insecure-skip-tls-verify": true}}],
        "users": [{"name": "x", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    })
    .to_string()
}

fn sessions() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kubectl");
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

struct Session {
    path: PathBuf,
    name: String,
    namespace: String,
    home: tempfile::TempDir,
    background: Option<(Child, Lines<BufReader<ChildStdout>>)>,
}

struct Difference {
    session: String,
    command: String,
    want: String,
    got: String,
}

impl Session {
    async fn start(kubectl: &Path, config: &str, path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("config"), config).unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        std::os::unix::fs::symlink(kubectl, home.path().join("bin/kubectl")).unwrap();
        let namespace = format!("k{:x}-{name}", std::process::id());
        let session = Self { path: path.to_owned(), name, namespace, home, background: None };
        session.shell(&format!("kubectl create namespace {}", session.namespace)).await;
        let context =
            format!("kubectl config set-context --current --namespace={}", session.namespace);
        session.shell(&context).await;
        session
    }

    fn command(&self, line: &str) -> Command {
        let mut path = self.home.path().join("bin").into_os_string();
        path.push(":/usr/bin:/bin");
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(line)
            .current_dir(self.home.path())
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("config"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn shell(&self, line: &str) -> String {
        let run = self.command(&format!("exec 2>&1; {line}")).output();
        let output = tokio::time::timeout(PATIENCE, run).await.expect("kubectl ends").unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs every command; returns how many, and those that printed something else.
    async fn play(mut self) -> (usize, Vec<Difference>) {
        let text = fs::read_to_string(&self.path).unwrap();
        let mut recorded = String::new();
        let mut differences = Vec::new();
        let mut played = 0;
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            recorded.push_str(line);
            recorded.push('\n');
            let mut block = String::new();
            while let Some(next) = lines.next_if(|next| !next.starts_with(['$', '@', '#'])) {
                block.push_str(next);
                block.push('\n');
            }
            if let Some(file) = line.strip_prefix("@file ") {
                let content: Vec<&str> =
                    block.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
                let content = content.join("\n").replace("{ns}", &self.namespace);
                fs::write(self.home.path().join(file), content).unwrap();
                recorded.push_str(&block);
                continue;
            }
            let Some(got) = self.run(line).await else { continue };
            played += 1;
            let got = self.normal(&got);
            recorded.push_str(&got);
            if got != block {
                differences.push(Difference {
                    session: self.name.clone(),
                    command: line.to_owned(),
                    want: block,
                    got,
                });
            }
        }
        if std::env::var_os("TIDEPOOL_BLESS").is_some() {
            fs::write(&self.path, recorded).unwrap();
            differences.clear();
        }
        self.tidy().await;
        (played, differences)
    }

    /// What a line printed; `None` for comments and for what runs in the background.
    async fn run(&mut self, line: &str) -> Option<String> {
        let filled = line.replace("{ns}", &self.namespace);
        if let Some(command) = filled.strip_prefix("$& ") {
            let mut child =
                self.command(&format!("exec {command}")).stdout(Stdio::piped()).spawn().unwrap();
            let output = child.stdout.take().unwrap();
            let mut lines = BufReader::new(output).lines();
            // The first line says that the watch is there.
            let first = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
            self.background = Some((child, lines));
            return Some(format!("{}\n", first.unwrap_or_default()));
        }
        if let Some(count) = filled.strip_prefix("$. ") {
            let (mut child, mut lines) = self.background.take().unwrap();
            let mut got = String::new();
            for _ in 1..count.trim().parse::<usize>().unwrap() {
                let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap();
                got.push_str(&line.unwrap().unwrap_or_default());
                got.push('\n');
            }
            child.kill().await.unwrap();
            return Some(got);
        }
        match filled.strip_prefix("$ ") {
            Some(command) => Some(self.shell(command).await),
            None => None,
        }
    }

    /// The text without what differs from run to run.
    fn normal(&self, text: &str) -> String {
        let text = text.replace(&self.namespace, "{ns}");
        let home = self.home.path().to_str().unwrap();
        let mut text = text.replace(home, "~");
        for (expression, stand_in) in [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
            (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+\d{4}", "<time>"),
            (r"resourceVersion: .\d+.", "resourceVersion: <revision>"),
            (r"(Resource Version: +)\d+", "${1}<revision>"),
            (r"\b(\d+h)?(\d+m)?\d+s\b|\b\d+[mhd](\d+[mhd])?( |$)|<invalid>", "<age>"),
            (r"(?m)(\S) {2,}", "$1  "),
            (r"(?m) +$", ""),
        ] {
            text = Regex::new(expression).unwrap().replace_all(&text, stand_in).into_owned();
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    async fn tidy(&self) {
        self.shell(&format!(
            "for kind in deployments pods configmaps secrets serviceaccounts services jobs \
             poddisruptionbudgets resourcequotas; do kubectl delete $kind --all --wait=false; done; \
             kubectl delete namespace {0} --wait=false; \
             echo '{{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{{\"name\":\"{0}\"}}}}' | \
             kubectl replace --raw /api/v1/namespaces/{0}/finalize -f -",
            self.namespace
        ))
        .await;
    }
}
