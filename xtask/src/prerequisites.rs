//! What must be on the machine besides cargo and a C compiler, and why?
//!
//! The table below is the answer. A package is installed when the program it is
//! wanted for is missing; nothing is installed because it might be useful.

use std::{env, path::Path};

use anyhow::{Context, Result, bail, ensure};

use crate::{child, repository::Repository};

/// A Debian package that the tests cannot do without.
#[derive(Debug)]
struct Prerequisite {
    package: &'static str,
    /// The package is there when this program is.
    program: &'static str,
    reason: &'static str,
    /// Wanted only when the repository has this folder.
    folder: Option<&'static str>,
}

const PREREQUISITES: &[Prerequisite] = &[
    Prerequisite {
        package: "git",
        program: "git",
        reason: "the layer check and the repository rules look at tracked files",
        folder: None,
    },
    Prerequisite {
        package: "g++",
        program: "c++",
        reason: "the fuzz targets link libFuzzer, which is built from C++",
        folder: Some("fuzz"),
    },
    Prerequisite {
        package: "qemu-system-x86",
        program: "qemu-system-x86_64",
        reason: "tests of cgroup v2 run on a kernel of their own",
        folder: Some("crates/guest"),
    },
    Prerequisite {
        package: "nodejs",
        program: "node",
        reason: "the browser tests of the console are a script",
        folder: Some("crates/console"),
    },
    Prerequisite {
        package: "npm",
        program: "npm",
        reason: "the browser tests drive Chromium with playwright-core",
        folder: Some("crates/console"),
    },
    Prerequisite {
        package: "chromium",
        program: "chromium",
        reason: "the console is tried in a real browser",
        folder: Some("crates/console"),
    },
    Prerequisite {
        package: "openssl",
        program: "openssl",
        reason: "a real cluster has certificates of its own",
        folder: Some("xtask/src/kube"),
    },
    Prerequisite {
        package: "iproute2",
        program: "ip",
        reason: "a real cluster runs in a network of its own",
        folder: Some("xtask/src/kube"),
    },
    Prerequisite {
        package: "util-linux",
        program: "nsenter",
        reason: "a real cluster runs in namespaces of its own",
        folder: Some("xtask/src/kube"),
    },
];

/// Parts of the toolchain that rustup installs on request.
const COMPONENTS: &[Component] = &[
    Component { name: "rustfmt", subcommand: "fmt", reason: "the format check" },
    Component { name: "clippy", subcommand: "clippy", reason: "the lints" },
];

#[derive(Debug)]
struct Component {
    name: &'static str,
    subcommand: &'static str,
    reason: &'static str,
}

/// Installs what is missing and says so, one line each.
pub(crate) fn ensure_present(repository: &Repository) -> Result<()> {
    let missing = missing(PREREQUISITES, &repository.root, on_path);
    if missing.is_empty() {
        println!("all packages are present");
    } else {
        install_packages(&missing)?;
    }
    for component in COMPONENTS {
        let mut cargo = child::leashed("cargo");
        cargo.args([component.subcommand, "--version"]);
        if !child::capture(cargo)?.status.success() {
            install_component(component)?;
        }
    }
    Ok(())
}

fn missing<'a>(
    wanted: &'a [Prerequisite],
    root: &Path,
    is_present: impl Fn(&str) -> bool,
) -> Vec<&'a Prerequisite> {
    wanted
        .iter()
        .filter(|wanted| wanted.folder.is_none_or(|folder| root.join(folder).is_dir()))
        .filter(|wanted| !is_present(wanted.program))
        .collect()
}

fn on_path(program: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

fn install_packages(missing: &[&Prerequisite]) -> Result<()> {
    let names: Vec<_> = missing.iter().map(|wanted| wanted.package).collect();
    for wanted in missing {
        println!("installing {}: {}", wanted.package, wanted.reason);
    }
    if !on_path("apt-get") {
        bail!("no apt-get here; install {} with your package manager", names.join(", "));
    }
    apt_get(&["update"], &names)?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(&names);
    apt_get(&arguments, &names)
}

fn apt_get(arguments: &[&str], packages: &[&str]) -> Result<()> {
    let mut command = child::leashed("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    let text = child::spelled(&command);
    let status = child::stream(command, |_| {})?;
    ensure!(
        status.success(),
        "{text}: {status}; as root, run: apt-get update && apt-get install {}",
        packages.join(" ")
    );
    Ok(())
}

fn install_component(component: &Component) -> Result<()> {
    let Component { name, reason, .. } = component;
    println!("installing {name}: {reason}");
    let mut rustup = child::leashed("rustup");
    rustup.args(["component", "add", name]);
    let status = child::stream(rustup, |_| {}).context("cannot run rustup")?;
    ensure!(status.success(), "rustup component add {name}: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: &[Prerequisite] = &[
        Prerequisite { package: "one", program: "present", reason: "r", folder: None },
        Prerequisite { package: "two", program: "absent", reason: "r", folder: None },
        Prerequisite { package: "three", program: "absent", reason: "r", folder: Some("src") },
        Prerequisite { package: "four", program: "absent", reason: "r", folder: Some("nowhere") },
    ];

    #[test]
    fn only_what_is_wanted_here_and_absent_is_installed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let missing = missing(WANTED, root, |program| program == "present");
        let names: Vec<_> = missing.iter().map(|wanted| wanted.package).collect();
        assert_eq!(names, ["two", "three"]);
    }

    #[test]
    fn every_row_says_why_it_is_there() {
        for Prerequisite { package, reason, .. } in PREREQUISITES {
            assert!(reason.split(' ').count() > 3, "{package}: {reason}");
        }
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(on_path("sh"));
        assert!(!on_path("no-such-program-anywhere"));
    }
}
