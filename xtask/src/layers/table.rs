//! Which crate may use which, and how large may it grow?
//!
//! Dependencies point one way:
//!
//! ```text
//! units <- api <- { qos, overcommit, sched, desched } <- { agent, control, sim } <- cli
//! units <- stats; api <- groups <- { host, qos }           ^
//!                               runtime, apiserver, console
//! ```
//!
//! `units` is everyone's vocabulary and is not repeated in the rows. `testkit` is
//! for tests: every crate may have it as a development dependency, none otherwise.

/// One crate of the workspace.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) package: &'static str,
    /// Workspace crates it may depend on, besides `units`.
    pub(crate) may_use: MayUse,
    /// Workspace crates it may have as development dependencies only.
    pub(crate) tests_may_use: &'static [&'static str],
    /// Engines decide on values: no runtime, client, kernel, clock or log.
    pub(crate) kind: Kind,
    /// Lines of Rust without tests.
    pub(crate) ceiling: Option<usize>,
}

#[derive(Debug)]
pub(crate) enum MayUse {
    These(&'static [&'static str]),
    Everything,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Values in, values out.
    Engine,
    /// Talks to the world.
    Shell,
}

use Kind::{Engine, Shell};
use MayUse::{Everything, These};

pub(crate) const TABLE: &[Row] = &[
    row("units", These(&[]), Engine, 2_500),
    // Every shape that crosses a process boundary: decisions 0003 and 0013.
    row("api", These(&[]), Engine, 16_000),
    row("stats", These(&[]), Engine, 3_000),
    row("groups", These(&["api"]), Engine, 2_000),
    row("host", These(&["groups"]), Shell, 8_000).and_for_tests(&["api"]),
    row("qos", These(&["api", "groups", "stats"]), Engine, 9_000),
    row("overcommit", These(&["api", "stats"]), Engine, 4_000),
    row("sched", These(&["api"]), Engine, 20_000),
    row("desched", These(&["api", "sched"]), Engine, 7_000),
    row("runtime", These(&["api"]), Shell, 6_000),
    // The shell kit: what a process around an API server needs besides its decisions.
    row("reconcile", These(&["api", "host"]), Shell, 4_000),
    // Clients of the API server must not reach into it: it is there for their tests alone.
    // Sees and acts: a shell for each of the twenty strategies and hooks of the reference.
    row(
        "agent",
        These(&["groups", "host", "qos", "overcommit", "stats", "runtime", "api", "reconcile"]),
        Shell,
        19_000,
    )
    .and_for_tests(&["apiserver"]),
    row("control", These(&["sched", "desched", "overcommit", "api", "reconcile"]), Shell, 16_000)
        .and_for_tests(&["apiserver"]),
    row("objects", These(&[]), Engine, 14_000),
    row("apiserver", These(&["api", "objects", "reconcile"]), Shell, 18_000),
    row("cluster", These(&["api", "groups", "host", "reconcile"]), Shell, 20_000)
        .and_for_tests(&["apiserver"]),
    row("sim", These(&["qos", "overcommit", "sched", "desched", "api", "apiserver"]), Shell, 8_000),
    row("tidepool-console", These(&["api", "reconcile"]), Shell, 5_000)
        .and_for_tests(&["apiserver"]),
    // The chart's templates, and the part of Go's templates that they are written in.
    row("chart", These(&["api"]), Engine, 2_000),
    // Measures every process from outside and from inside.
    row(
        "bench",
        These(&[
            "agent",
            "api",
            "apiserver",
            "control",
            "groups",
            "host",
            "overcommit",
            "qos",
            "reconcile",
            "sched",
        ]),
        Shell,
        5_000,
    ),
    row("tidepool", Everything, Shell, 10_000),
    row("guest-init", These(&[]), Shell, 400),
    row("testkit", These(&["host", "api", "apiserver"]), Shell, 4_000),
    // It records hosts.
    Row { ceiling: None, ..row("xtask", These(&["host"]), Shell, 0) },
];

const fn row(package: &'static str, may_use: MayUse, kind: Kind, ceiling: usize) -> Row {
    Row { package, may_use, tests_may_use: &[], kind, ceiling: Some(ceiling) }
}

/// The vocabulary that every crate shares.
pub(crate) const EVERYONES: &str = "units";

/// Only for tests.
pub(crate) const TESTS_ONLY: &str = "testkit";

/// Crates that parse arguments, and the prefix by which their parser is known.
pub(crate) const MAY_PARSE_ARGUMENTS: &[&str] = &["tidepool", "bench", "xtask"];
pub(crate) const ARGUMENT_PARSER: &str = "clap";

/// The only crate that may contain the keyword.
pub(crate) const MAY_BE_UNSAFE: &str = "host";

/// The one engine that may use the Kubernetes crate, and for what.
pub(crate) const KUBE: &str = "kube";
pub(crate) const MAY_USE_KUBE: &str = "api";
pub(crate) const KUBE_FEATURES: &[&str] = &["derive"];

/// What engines must not reach for, and what it would let them do.
pub(crate) const NOT_IN_ENGINES: &[(&str, &[&str])] = &[
    (
        "an async runtime",
        &["tokio", "tokio-util", "tokio-stream", "async-std", "smol", "futures", "futures-util"],
    ),
    (
        "a network client or server",
        &[
            "kube-client",
            "kube-runtime",
            "kube-lease-manager",
            "hyper",
            "hyper-util",
            "axum",
            "tower",
            "tower-http",
            "tonic",
            "ttrpc",
            "reqwest",
            "rustls",
            "tokio-rustls",
        ],
    ),
    (
        "the kernel or the file system",
        &["rustix", "nix", "libc", "procfs", "inotify", "notify", "perf-event-open-sys", "redb"],
    ),
    ("logs and metrics", &["tracing", "tracing-subscriber", "log", "env_logger", "prometheus"]),
];

/// Rooms without a name: a function belongs with its argument's type.
pub(crate) const NO_NAMES: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "misc", "core"];

pub(crate) fn find(package: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.package == package)
}

impl Row {
    const fn and_for_tests(self, tests_may_use: &'static [&'static str]) -> Self {
        Self { tests_may_use, ..self }
    }

    pub(crate) fn allows(&self, other: &str) -> bool {
        match &self.may_use {
            Everything => true,
            These(crates) => other == EVERYONES || crates.contains(&other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_itself_has_no_cycle() {
        // A crate may only use crates whose rows come to rest before its own.
        let mut settled: Vec<&str> = Vec::new();
        while settled.len() < TABLE.len() {
            let ready: Vec<_> = TABLE
                .iter()
                .filter(|row| !settled.contains(&row.package))
                .filter(|row| {
                    TABLE
                        .iter()
                        .filter(|other| other.package != row.package && row.allows(other.package))
                        .all(|other| settled.contains(&other.package))
                })
                .map(|row| row.package)
                .collect();
            assert!(!ready.is_empty(), "cycle outside of {settled:?}");
            settled.extend(ready);
        }
    }

    #[test]
    fn rows_only_name_crates_that_have_a_row() {
        for row in TABLE {
            if let These(crates) = &row.may_use {
                for used in crates.iter().chain(row.tests_may_use) {
                    assert!(find(used).is_some(), "{} uses {used}", row.package);
                }
            }
        }
    }
}
