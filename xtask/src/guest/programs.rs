//! What is put into the guest, and where does it come from?
//!
//! Test binaries are those that `cargo test` runs here, so nothing is built twice:
//! the shared libraries that they name go into the guest with them, under the same
//! paths. Debug information stays behind, because the guest's memory holds it all.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::initramfs::Archive;
use crate::{child, repository::Repository};

/// A program for the guest, under the name that results are reported with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Builds the guest's first process.
pub(crate) fn init(repository: &Repository) -> Result<Program> {
    let text = cargo(repository, &["build", "--package", "guest-init"])?;
    let mut built = executables(&text, false)?;
    ensure!(built.len() == 1, "guest-init is {} programs instead of one", built.len());
    built.pop().context("guest-init was not built")
}

/// The program as tests run it. It is built with one of them: alone it would have other features,
/// and so would everything that it is made of.
pub(crate) fn binary(repository: &Repository, name: &str, test: &str) -> Result<Program> {
    let text = cargo(repository, &["test", "--workspace", "--no-run", "--test", test])?;
    let built = executables(&text, false)?;
    let suffix = format!(".{name}");
    let found = built.into_iter().find(|program| program.name.ends_with(&suffix));
    found.with_context(|| format!("no {name} was built for test {test}"))
}

/// Builds a program as its users do.
pub(crate) fn release(repository: &Repository, name: &str) -> Result<Program> {
    let text = cargo(repository, &["build", "--release", "--bin", name])?;
    let mut built = executables(&text, false)?;
    built.pop().with_context(|| format!("{name} was not built"))
}

/// Builds a program for users that needs no shared library.
pub(crate) fn static_binary(repository: &Repository, name: &str) -> Result<Program> {
    let arguments = ["rustc", "--release", "--package", name, "--bin", name];
    let text = cargo_with(repository, &arguments, &["--", "-C", "target-feature=+crt-static"])?;
    let mut built = executables(&text, false)?;
    built.pop().with_context(|| format!("{name} was not built"))
}

/// Builds the named test binaries of some packages, or of all when none is named.
pub(crate) fn tests(
    repository: &Repository,
    packages: &[String],
    tests: &[String],
) -> Result<Vec<Program>> {
    let mut arguments = vec!["test", "--no-run"];
    if packages.is_empty() {
        // The same selection as in the whole suite has the same features.
        arguments.push("--workspace");
    }
    arguments.extend(packages.iter().flat_map(|package| ["--package", package]));
    arguments.extend(tests.iter().flat_map(|test| ["--test", test]));
    let built = executables(&cargo(repository, &arguments)?, true)?;
    ensure!(!built.is_empty(), "cargo built no test binary for the guest");
    Ok(built)
}

/// What cargo says about everything it built.
fn cargo(repository: &Repository, arguments: &[&str]) -> Result<String> {
    cargo_with(repository, arguments, &[])
}

fn cargo_with(repository: &Repository, arguments: &[&str], last: &[&str]) -> Result<String> {
    let mut command = child::leashed("cargo");
    command
        .args(arguments)
        .args(["--locked", "--message-format", "json-render-diagnostics"])
        .args(last)
        .current_dir(&repository.root);
    println!("{}", child::spelled(&command));
    child::stdout_of(command)
}

/// Programs in cargo's messages, named `folder.target`, in the order of names.
fn executables(messages: &str, tests: bool) -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("cannot read cargo's messages")?;
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let is_test = message.pointer("/profile/test").and_then(Value::as_bool) == Some(true);
        let (Some(path), true) = (text("/executable"), is_test == tests) else { continue };
        let manifest = Path::new(text("/manifest_path").unwrap_or_default());
        let package = manifest.parent().and_then(Path::file_name).unwrap_or_default();
        let target = text("/target/name").unwrap_or_default();
        let name = format!("{}.{target}", package.to_string_lossy());
        found.push(Program { name, path: PathBuf::from(path) });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The guest's file system. `work` is a folder for copies without debug
/// information.
pub(crate) fn pack(init: &Program, tests: &[Program], work: &Path) -> Result<Vec<u8>> {
    let mut files = BTreeMap::from([("init".to_owned(), init.stripped(work)?)]);
    let mut libraries = init.libraries()?;
    for test in tests {
        files.insert(format!("tests/{}", test.name), test.stripped(work)?);
        libraries.extend(test.libraries()?);
    }
    for library in libraries {
        let content = read(Path::new(&library))?;
        files.insert(library.trim_start_matches('/').to_owned(), content);
    }

    let mut archive = Archive::default();
    let folders: BTreeSet<_> = files.keys().flat_map(|name| folders_above(name)).collect();
    for folder in folders.into_iter().chain(["dev"]) {
        archive.folder(folder)?;
    }
    archive.console("dev/console")?;
    for (name, content) in &files {
        archive.program(name, content)?;
    }
    archive.finish()
}

impl Program {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its content without debug information; `work` is a folder for a copy.
    pub(crate) fn stripped(&self, work: &Path) -> Result<Vec<u8>> {
        let copy = work.join(&self.name);
        let mut strip = child::leashed("strip");
        strip.arg("--strip-debug").arg("-o").arg(&copy).arg(&self.path);
        child::stdout_of(strip)?;
        read(&copy)
    }

    /// Files of the shared libraries it names.
    pub(crate) fn libraries(&self) -> Result<BTreeSet<String>> {
        let mut ldd = child::leashed("ldd");
        ldd.arg(&self.path);
        libraries(&child::stdout_of(ldd)?)
    }
}

/// Files in the output of `ldd`:
///
/// ```text
///     linux-vdso.so.1 (0x00007fb941b32000)
///     libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007fb9415fe000)
///     /lib64/ld-linux-x86-64.so.2 (0x00007fb941b34000)
/// ```
fn libraries(output: &str) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for line in output.lines().map(str::trim) {
        ensure!(!line.ends_with("not found"), "a shared library is missing: {line}");
        let file = line.split_once(" => ").map_or(line, |(_, file)| file);
        if file.starts_with('/') {
            found.extend(file.split_whitespace().next().map(str::to_owned));
        }
    }
    Ok(found)
}

/// `a/b/c` is in `a` and in `a/b`.
fn folders_above(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').filter_map(|(at, _)| name.get(..at))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_cargos_messages() {
        let artifact = |folder: &str, name: &str, test: bool, executable: &str| {
            format!(
                r#"{{"manifest_path":"/r/{folder}/Cargo.toml","target":{{"name":"{name}"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let messages = [
            artifact("units", "units", false, "null"),
            artifact("host", "kernel", true, r#""/t/kernel-1""#),
            artifact("agent", "kernel", true, r#""/t/kernel-2""#),
            artifact("guest", "guest-init", false, r#""/t/guest-init""#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            "a line of something else".to_owned(),
        ]
        .join("\n");
        let names = |tests| -> Vec<_> {
            executables(&messages, tests).unwrap().into_iter().map(|found| found.name).collect()
        };
        assert_eq!(names(true), ["agent.kernel", "host.kernel"]);
        assert_eq!(names(false), ["guest.guest-init"]);
        assert!(executables("{ torn", true).is_err());
    }

    #[test]
    fn shared_libraries_are_files_and_none_may_be_missing() {
        let output = "\tlinux-vdso.so.1 (0x00007fb941b32000)\n\
                      \tlibc.so.6 => /lib/x86/libc.so.6 (0x00007fb9415fe000)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007fb941b34000)\n";
        let want = ["/lib/x86/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(libraries(output).unwrap(), want.map(str::to_owned).into());
        assert_eq!(libraries("\tstatically linked\n").unwrap(), BTreeSet::new());
        assert!(libraries("\tlibx.so.1 => not found\n").is_err());
    }

    #[test]
    fn a_file_needs_every_folder_above_it() {
        assert_eq!(folders_above("lib/x86/libc.so.6").collect::<Vec<_>>(), ["lib", "lib/x86"]);
        assert_eq!(folders_above("init").count(), 0);
    }
}
