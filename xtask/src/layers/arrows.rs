//! Does every dependency point the allowed way?

use anyhow::{Context, Result};
use serde_json::Value;

use super::table::{self, Kind, MayUse, Row};

/// A crate of the workspace as `cargo metadata` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) package: String,
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) package: String,
    pub(crate) for_tests: bool,
    pub(crate) default_features: bool,
    pub(crate) features: Vec<String>,
}

/// Reads the workspace members out of the metadata.
pub(crate) fn members(metadata: &Value) -> Result<Vec<Member>> {
    let ids: Vec<_> = list(metadata, "workspace_members")?.iter().collect();
    list(metadata, "packages")?
        .iter()
        .filter(|package| package.get("id").is_some_and(|id| ids.contains(&id)))
        .map(|package| {
            let dependencies = list(package, "dependencies")?.iter().map(dependency);
            Ok(Member {
                package: text(package, "name")?,
                manifest: text(package, "manifest_path")?,
                dependencies: dependencies.collect::<Result<_>>()?,
            })
        })
        .collect()
}

fn dependency(value: &Value) -> Result<Dependency> {
    let features = list(value, "features")?.iter().filter_map(Value::as_str);
    Ok(Dependency {
        package: text(value, "name")?,
        for_tests: value.get("kind").and_then(Value::as_str) == Some("dev"),
        default_features: value.get("uses_default_features") != Some(&Value::Bool(false)),
        features: features.map(str::to_owned).collect(),
    })
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value
        .get(field)
        .and_then(Value::as_array)
        .with_context(|| format!("cargo metadata has no list {field:?}"))
}

fn text(value: &Value, field: &str) -> Result<String> {
    let text = value.get(field).and_then(Value::as_str);
    Ok(text.with_context(|| format!("cargo metadata has no text {field:?}"))?.to_owned())
}

/// One sentence for every arrow that the table does not allow.
pub(crate) fn check(members: &[Member]) -> Vec<String> {
    let mut problems = Vec::new();
    for member in members {
        let Some(row) = table::find(&member.package) else {
            problems.push(format!(
                "{} has no row in xtask/src/layers/table.rs: say there what it may use",
                member.package
            ));
            continue;
        };
        for dependency in &member.dependencies {
            let inside = members.iter().any(|other| other.package == dependency.package)
                || table::find(&dependency.package).is_some();
            problems.extend(match inside {
                true => check_inside(row, dependency),
                false => check_outside(row, dependency),
            });
        }
    }
    problems
}

fn check_inside(row: &Row, dependency: &Dependency) -> Option<String> {
    let (user, used) = (row.package, dependency.package.as_str());
    if used == table::TESTS_ONLY || row.tests_may_use.contains(&used) {
        return (!dependency.for_tests)
            .then(|| format!("{user} uses {used} outside its tests: make it a dev-dependency"));
    }
    if row.allows(used) {
        return None;
    }
    let allowed = match &row.may_use {
        MayUse::Everything => "everything".to_owned(),
        MayUse::These(crates) => {
            let mut crates = crates.to_vec();
            crates.insert(0, table::EVERYONES);
            crates.retain(|name| *name != user);
            if crates.is_empty() { "nothing".to_owned() } else { crates.join(", ") }
        }
    };
    Some(format!("{user} must not use {used}: {user} may use {allowed}"))
}

fn check_outside(row: &Row, dependency: &Dependency) -> Option<String> {
    let (user, used) = (row.package, dependency.package.as_str());
    let is_parser = used == table::ARGUMENT_PARSER
        || used.strip_prefix(table::ARGUMENT_PARSER).is_some_and(|rest| rest.starts_with('_'));
    if is_parser && !table::MAY_PARSE_ARGUMENTS.contains(&user) {
        return Some(format!("{user} must not use {used}: only the command line parses arguments"));
    }
    if row.kind == Kind::Shell {
        return None;
    }
    if used == table::KUBE {
        return check_kube(user, dependency);
    }
    table::NOT_IN_ENGINES
        .iter()
        .find(|(_, crates)| crates.contains(&used))
        .map(|(what, _)| format!("{user} must not use {used}: engines do without {what}"))
}

fn check_kube(user: &str, dependency: &Dependency) -> Option<String> {
    if user != table::MAY_USE_KUBE {
        return Some(format!("{user} must not use kube: among the engines only api may"));
    }
    let only = table::KUBE_FEATURES.join(", ");
    if dependency.default_features {
        return Some(format!("{user} uses kube with default features: use only {only}"));
    }
    dependency
        .features
        .iter()
        .find(|feature| !table::KUBE_FEATURES.contains(&feature.as_str()))
        .map(|feature| format!("{user} uses kube with feature {feature:?}: use only {only}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(user: &str, dependency: Value) -> Value {
        let package = |name: &str, dependencies: Value| {
            json!({
                "id": format!("path+file:///repo/crates/{name}"),
                "name": name,
                "manifest_path": format!("/repo/crates/{name}/Cargo.toml"),
                "dependencies": dependencies,
            })
        };
        json!({
            "packages": [
                package(user, json!([dependency])),
                { "id": "registry+serde", "name": "serde", "manifest_path": "x", "dependencies": [] },
            ],
            "workspace_members": [format!("path+file:///repo/crates/{user}")],
        })
    }

    fn uses(package: &str) -> Value {
        json!({ "name": package, "kind": null, "uses_default_features": true, "features": [] })
    }

    fn uses_for_tests(package: &str) -> Value {
        json!({ "name": package, "kind": "dev", "uses_default_features": true, "features": [] })
    }

    fn uses_kube(default_features: bool, features: &[&str]) -> Value {
        json!({
            "name": "kube",
            "kind": null,
            "uses_default_features": default_features,
            "features": features,
        })
    }

    #[test]
    fn arrows_that_point_the_right_way_are_silent() {
        let cases = [
            ("units", uses("serde")),
            ("api", uses("units")),
            ("api", uses_kube(false, &["derive"])),
            ("desched", uses("sched")),
            ("agent", uses("tokio")),
            ("control", uses_kube(true, &["client", "runtime"])),
            ("tidepool", uses("clap")),
            ("tidepool", uses("apiserver")),
            ("control", uses("reconcile")),
            ("control", uses_for_tests("apiserver")),
            ("xtask", uses("clap")),
            ("sched", uses_for_tests("testkit")),
            ("sched", uses_for_tests("proptest")),
        ];
        for (user, dependency) in cases {
            let members = members(&metadata(user, dependency.clone())).unwrap();
            assert_eq!(check(&members), [] as [&str; 0], "{user} {dependency}");
        }
    }

    #[test]
    fn arrows_that_point_backwards_name_both_crates() {
        let cases = [
            ("units", uses("api"), "units must not use api: units may use nothing"),
            ("qos", uses("host"), "qos must not use host: qos may use units, api, groups, stats"),
            ("sched", uses("desched"), "sched must not use desched: sched may use units, api"),
            (
                "host",
                uses_for_tests("agent"),
                "host must not use agent: host may use units, groups",
            ),
            ("xtask", uses("api"), "xtask must not use api: xtask may use units, host"),
            (
                "tidepool",
                uses("testkit"),
                "tidepool uses testkit outside its tests: make it a dev-dependency",
            ),
            (
                "control",
                uses("apiserver"),
                "control uses apiserver outside its tests: make it a dev-dependency",
            ),
            (
                "sched",
                uses("tokio"),
                "sched must not use tokio: engines do without an async runtime",
            ),
            (
                "stats",
                uses_for_tests("tracing"),
                "stats must not use tracing: engines do without logs and metrics",
            ),
            (
                "agent",
                uses("clap"),
                "agent must not use clap: only the command line parses arguments",
            ),
            (
                "agent",
                uses("clap_complete"),
                "agent must not use clap_complete: only the command line parses arguments",
            ),
            ("qos", uses_kube(false, &[]), "qos must not use kube: among the engines only api may"),
            (
                "api",
                uses_kube(false, &["derive", "client"]),
                "api uses kube with feature \"client\": use only derive",
            ),
            (
                "api",
                uses_kube(true, &["derive"]),
                "api uses kube with default features: use only derive",
            ),
            (
                "helpers",
                uses("serde"),
                "helpers has no row in xtask/src/layers/table.rs: say there what it may use",
            ),
        ];
        for (user, dependency, want) in cases {
            let members = members(&metadata(user, dependency)).unwrap();
            assert_eq!(check(&members), [want]);
        }
    }

    #[test]
    fn metadata_without_packages_is_refused() {
        let error = members(&json!({ "workspace_members": [] })).unwrap_err();
        assert_eq!(error.to_string(), "cargo metadata has no list \"packages\"");
    }
}
