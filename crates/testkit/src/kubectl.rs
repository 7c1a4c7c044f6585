//! What does a person with `kubectl` see?
//!
//! Sessions are transcripts: commands and what they print. A player runs the commands against any
//! server and tells which printed something else.
//!
//! | line | meaning |
//! |---|---|
//! | `@file name` | a file of the working directory, indented |
//! | `$ command` | runs in a shell; what it prints follows |
//! | `$? command` | the same, repeated until it prints what follows |
//! | `$& command` | runs until `$. n`, after which its first n lines follow |
//!
//! Ages, times and ids are replaced before comparing; runs of spaces count as two. `{ns}` is a
//! namespace that each session has for itself. `TIDEPOOL_BLESS=1` writes down what was printed.
//!
//! Pages for people have sessions too, in fences marked `shell-session`: see [`steps`]. There, what
//! only looks at things is repeated until it prints what the page says.

#![expect(clippy::unwrap_used, reason = "a transcript that cannot be played fails its test")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use regex::Regex;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The program named by `TIDEPOOL_KUBECTL`, or the one on the path.
pub fn find() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("TIDEPOOL_KUBECTL") {
        return Some(PathBuf::from(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join("kubectl")).find(|file| file.is_file())
}

/// The transcripts in a folder, in order.
pub fn sessions(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Plays the sessions under `fixtures/kubectl`, or the one named; returns what printed something
/// else.
pub async fn play_all(kubectl: &Path, config: &str, only: &str) -> Vec<Difference> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kubectl");
    let mut surprises = Vec::new();
    let mut commands = 0;
    for path in sessions(&folder).into_iter().filter(|path| path.ends_with(only) || only.is_empty())
    {
        let (played, differences) = Session::start(kubectl, config, &path).await.play().await;
        commands += played;
        surprises.extend(differences);
    }
    println!("{commands} commands");
    surprises
}

/// Fails the test when commands printed something else.
///
/// # Panics
///
/// When there is a difference.
pub fn judge(differences: &[Difference]) {
    let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "{} commands differ\n{}", told.len(), told.join("\n\n"));
}

/// A command on a page for people, and what the page says it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    pub output: String,
}

/// The commands of a page in Markdown.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_inside = line == "```shell-session";
        } else if !is_inside {
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), output: String::new() });
        } else if let Some(step) = steps.last_mut() {
            step.output.push_str(line);
            step.output.push('\n');
        }
    }
    // An empty line before the next command is for the eye.
    for step in &mut steps {
        step.output.truncate(step.output.trim_end().len());
        if !step.output.is_empty() {
            step.output.push('\n');
        }
    }
    steps
}

/// Does the command leave everything as it is?
fn only_looks(command: &str) -> bool {
    const LOOKING: [&str; 5] =
        ["kubectl get ", "kubectl logs ", "kubectl top ", "tidepool get ", "tidepool explain "];
    LOOKING.iter().any(|start| command.starts_with(start))
}

/// A transcript that is being played.
#[derive(Debug)]
pub struct Session {
    path: PathBuf,
    name: String,
    namespace: String,
    home: tempfile::TempDir,
    background: Option<(Child, Lines<BufReader<ChildStdout>>)>,
    variables: Vec<(String, OsString)>,
}

/// A command that printed something else.
#[derive(Debug)]
pub struct Difference {
    pub session: String,
    pub command: String,
    pub want: String,
    pub got: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { session, command, want, got } = self;
        write!(f, "{session}: {command}\n--- want\n{want}\n--- got\n{got}")
    }
}

impl Session {
    /// Prepares a working directory and a namespace; `config` is a kubeconfig's text.
    pub async fn start(kubectl: &Path, config: &str, path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("config"), config).unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        let namespace = format!("k{:x}-{name}", std::process::id()).to_lowercase();
        let session = Self {
            path: path.to_owned(),
            name,
            namespace,
            home,
            background: None,
            variables: Vec::new(),
        };
        session.link(kubectl, "bin/kubectl");
        session.shell(&format!("kubectl create namespace {}", session.namespace)).await;
        session.reconnect(config).await;
        // Pods need one. A controller has made it, if there are any.
        session.shell("kubectl create serviceaccount default").await;
        session
    }

    /// Goes on with a server that has moved.
    pub async fn reconnect(&self, config: &str) {
        fs::write(self.home.path().join("config"), config).unwrap();
        let context =
            format!("kubectl config set-context --current --namespace={}", self.namespace);
        self.shell(&context).await;
    }

    /// Makes a file or folder visible in the working directory; programs go below `bin`.
    pub fn link(&self, target: &Path, name: &str) {
        std::os::unix::fs::symlink(target, self.home.path().join(name)).unwrap();
    }

    /// Sets a variable for all commands.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// Runs a command of a page; tells if it prints something else.
    pub async fn check(&mut self, step: &Step) -> Option<Difference> {
        let as_default = |text: String| text.replace("{ns}", "default");
        let want = as_default(self.normal(&step.output));
        let start = Instant::now();
        loop {
            let got = self.shell(&step.command).await;
            let got = as_default(self.normal(&got)).trim_end().to_owned();
            if got == want.trim_end() {
                return None;
            }
            if !only_looks(&step.command) || start.elapsed() >= PATIENCE {
                let (session, command) = (self.name.clone(), step.command.clone());
                return Some(Difference { session, command, want, got });
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
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
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
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
    pub async fn play(mut self) -> (usize, Vec<Difference>) {
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
            let Some(got) = self.run(line, &block).await else { continue };
            played += 1;
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

    /// What a line printed; `None` for comments.
    async fn run(&mut self, line: &str, want: &str) -> Option<String> {
        let filled = line.replace("{ns}", &self.namespace);
        if let Some(command) = filled.strip_prefix("$& ") {
            let first = self.begin(command).await;
            return Some(self.normal(&first));
        }
        if let Some(count) = filled.strip_prefix("$. ") {
            let rest = self.finish(count.trim().parse().unwrap()).await;
            return Some(self.normal(&rest));
        }
        if let Some(command) = filled.strip_prefix("$? ") {
            let start = Instant::now();
            loop {
                let got = self.shell(command).await;
                let got = self.normal(&got);
                if got == want || start.elapsed() >= PATIENCE {
                    return Some(got);
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
        let got = self.shell(filled.strip_prefix("$ ")?).await;
        Some(self.normal(&got))
    }

    /// Starts a command that goes on; its first line says that it does.
    async fn begin(&mut self, command: &str) -> String {
        let mut child =
            self.command(&format!("exec {command}")).stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let mut lines = BufReader::new(output).lines();
        let first = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
        self.background = Some((child, lines));
        format!("{}\n", first.unwrap_or_default())
    }

    /// The lines that the command in the background has printed meanwhile, up to `count` in all.
    async fn finish(&mut self, count: usize) -> String {
        let (mut child, mut lines) = self.background.take().unwrap();
        let mut got = String::new();
        for _ in 1..count {
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap();
            got.push_str(&line.unwrap().unwrap_or_default());
            got.push('\n');
        }
        child.kill().await.unwrap();
        got
    }

    /// The text without what differs from run to run.
    fn normal(&self, text: &str) -> String {
        let text = text.replace(&self.namespace, "{ns}");
        let home = self.home.path().to_str().unwrap();
        let mut text = text.replace(home, "~");
        for (expression, stand_in) in [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
            (r"(tidepool://)[0-9a-f]{64}", "${1}<id>"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
            (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+\d{4}", "<time>"),
            (r"\b(process )\d+", "${1}<pid>"),
            (r"\b\d+( kernel files)", "<count>${1}"),
            (r"resourceVersion: .\d+.", "resourceVersion: <revision>"),
            (r"(Resource Version: +)\d+", "${1}<revision>"),
            (
                r"-[bcdf-hj-np-tv-xz2456789]{7,10}-[bcdf-hj-np-tv-xz2456789]{5}\b",
                "-<template>-<pod>",
            ),
            (r"(pod-template-hash[=:] ?)[bcdf-hj-np-tv-xz2456789]{7,10}\b", "${1}<template>"),
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

    /// Removes the session's namespace and what is in it.
    pub async fn tidy(&self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_commands_and_what_they_print() {
        let page = "text\n```shell-session\n$ a b\none\n\n$ c\n```\n```console\n$ d\n```\n$ e\n";
        let step = |command: &str, output: &str| Step {
            command: command.to_owned(),
            output: output.to_owned(),
        };
        assert_eq!(steps(page), [step("a b", "one\n"), step("c", "")]);
    }

    #[test]
    fn only_what_looks_is_repeated() {
        for (command, want) in [
            ("kubectl get pods", true),
            ("tidepool get nodes", true),
            ("kubectl get-contexts", false),
            ("kubectl delete pod x", false),
        ] {
            assert_eq!(only_looks(command), want, "{command}");
        }
    }
}
