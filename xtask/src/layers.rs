//! Is the workspace still built the way its map says?
//!
//! Three questions, all answered from the tree as it is: do dependencies point
//! the allowed way, does code stay where it belongs (`unsafe`, names), and is
//! anything outgrowing its place?

mod arrows;
mod source;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use self::{
    arrows::Member,
    source::{Source, Tests},
};
use crate::repository::Repository;

/// Files and functions above this are a question, not an error.
const LONG_FILE: usize = 600;
const LONG_FUNCTION: usize = 60;

/// Share of a crate's ceiling, in percent, above which we warn.
const NEAR_CEILING_PERCENT: usize = 90;

/// What is wrong, and what only deserves a look.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) problems: Vec<String>,
    pub(crate) warnings: Vec<String>,
    crates: usize,
    files: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        for problem in &self.problems {
            writeln!(f, "error: {problem}")?;
        }
        write!(
            f,
            "layers: {} crates, {} files: {} errors, {} warnings",
            self.crates,
            self.files,
            self.problems.len(),
            self.warnings.len()
        )
    }
}

/// Looks at the dependency graph and at every source file.
pub(crate) fn inspect(repository: &Repository) -> Result<Report> {
    let members = arrows::members(&repository.metadata()?)?;
    let mut files = BTreeMap::new();
    for path in repository.sources()? {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = String::from_utf8(repository.read(&path)?)
                .with_context(|| format!("{} is not UTF-8", path.display()))?;
            files.insert(path, Source::new(&text));
        }
    }

    let mut report = Report { crates: members.len(), files: files.len(), ..Report::default() };
    report.problems.extend(arrows::check(&members));
    report.problems.extend(check_names(&members, &files));
    report.problems.extend(check_keyword(&files));
    report.problems.extend(check_engines(&members));
    check_ceilings(&members, &files, &repository.root, &mut report);
    report.warnings.extend(long_pieces(&files));
    Ok(report)
}

type Files = BTreeMap<PathBuf, Source>;

fn check_names(members: &[Member], files: &Files) -> Vec<String> {
    let crates = members
        .iter()
        .filter(|member| table::NO_NAMES.contains(&member.package.as_str()))
        .map(|member| format!("a crate called {} has no subject: name it", member.package));
    let old_style = files
        .keys()
        .filter(|path| path.file_name().is_some_and(|name| name == "mod.rs"))
        .map(|path| format!("{}: use name.rs beside name/ instead of mod.rs", path.display()));
    let modules = files.iter().flat_map(|(path, source)| {
        source
            .modules()
            .into_iter()
            .filter(|(name, _)| table::NO_NAMES.contains(&name.as_str()))
            .map(move |(name, line)| {
                format!("{}:{line}: a module called {name} has no subject: name it", path.display())
            })
    });
    crates.chain(old_style).chain(modules).collect()
}

fn check_keyword(files: &Files) -> Vec<String> {
    let home = Path::new("crates").join(table::MAY_BE_UNSAFE);
    files
        .iter()
        .filter(|(path, _)| !path.starts_with(&home))
        .flat_map(|(path, source)| {
            source.lines_with_word("unsafe").into_iter().map(move |line| {
                let only = table::MAY_BE_UNSAFE;
                format!("{}:{line}: unsafe code belongs into crate {only}", path.display())
            })
        })
        .collect()
}

/// What no engine may call; every engine's `clippy.toml` is this.
const ENGINE_LINTS: &str = include_str!("layers/engine-clippy.toml");

/// Clippy looks for its settings beside a crate's manifest.
fn check_engines(members: &[Member]) -> Vec<String> {
    let engines = members.iter().filter(|member| {
        table::find(&member.package).is_some_and(|row| row.kind == table::Kind::Engine)
    });
    let differs = |member: &&Member| {
        let settings = Path::new(&member.manifest).with_file_name("clippy.toml");
        std::fs::read_to_string(settings).ok().as_deref() != Some(ENGINE_LINTS)
    };
    engines
        .filter(differs)
        .map(|member| {
            let name = &member.package;
            format!("crates/{name}/clippy.toml is not xtask/src/layers/engine-clippy.toml: copy it")
        })
        .collect()
}

fn check_ceilings(members: &[Member], files: &Files, root: &Path, report: &mut Report) {
    for member in members {
        let Some(ceiling) = table::find(&member.package).and_then(|row| row.ceiling) else {
            continue;
        };
        let Some(folder) = Path::new(&member.manifest).parent() else { continue };
        let folder = folder.strip_prefix(root).unwrap_or(folder).join("src");
        let lines = lines_without_tests(files, &folder);
        let text = format!("{} has {lines} of at most {ceiling} lines", member.package);
        if lines > ceiling {
            report.problems.push(format!("{text}: split or simplify"));
        } else if lines * 100 > ceiling * NEAR_CEILING_PERCENT {
            report.warnings.push(text);
        }
    }
}

fn lines_without_tests(files: &Files, folder: &Path) -> usize {
    let inside: Vec<_> = files
        .iter()
        .filter(|(path, _)| path.starts_with(folder))
        .map(|(path, source)| (path, source, source.tests()))
        .collect();
    let only_for_tests: BTreeSet<_> =
        inside.iter().flat_map(|(path, _, tests)| module_files(path, tests)).collect();
    inside
        .iter()
        .filter(|(path, ..)| {
            !only_for_tests.iter().any(|module| path.with_extension("").starts_with(module))
        })
        .map(|(_, source, tests)| source.lines_without(tests))
        .sum()
}

/// Where the test modules that a file declares live, without `.rs`: the path is
/// both the module's file and the folder of its children.
fn module_files(path: &Path, tests: &Tests) -> Vec<PathBuf> {
    let is_root = path.file_name().is_some_and(|name| name == "lib.rs" || name == "main.rs");
    let folder = match (is_root, path.parent()) {
        (true, Some(parent)) => parent.to_owned(),
        _ => path.with_extension(""),
    };
    tests.modules.iter().map(|name| folder.join(name)).collect()
}

fn long_pieces(files: &Files) -> Vec<String> {
    let long_files: Vec<_> = files
        .iter()
        .filter(|(_, source)| source.lines() > LONG_FILE)
        .map(|(path, source)| format!("{} ({})", path.display(), source.lines()))
        .collect();
    let long_functions: Vec<_> = files
        .iter()
        .filter(|(path, _)| !path.components().any(|part| part.as_os_str() == "tests"))
        .flat_map(|(path, source)| {
            source
                .functions(&source.tests())
                .into_iter()
                .filter(|function| function.lines > LONG_FUNCTION)
                .map(move |f| format!("{}:{} {} ({})", path.display(), f.line, f.name, f.lines))
        })
        .collect();
    [
        (format!("files above {LONG_FILE} lines"), long_files),
        (format!("functions above {LONG_FUNCTION} lines"), long_functions),
    ]
    .into_iter()
    .filter(|(_, pieces)| !pieces.is_empty())
    .map(|(what, pieces)| format!("{} {what}: {}", pieces.len(), pieces.join(", ")))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        list.iter().map(|(path, text)| (PathBuf::from(path), Source::new(text))).collect()
    }

    fn member(package: &str) -> Member {
        let manifest = format!("/repo/crates/{package}/Cargo.toml");
        Member { package: package.into(), manifest, dependencies: vec![] }
    }

    #[test]
    fn rooms_without_a_name_are_refused() {
        let found = check_names(
            &[member("common"), member("units")],
            &files(&[
                ("crates/units/src/lib.rs", "mod cpuset;\nmod util;\n"),
                ("crates/units/src/cpuset/mod.rs", "use core::fmt;"),
            ]),
        );
        assert_eq!(
            found,
            [
                "a crate called common has no subject: name it",
                "crates/units/src/cpuset/mod.rs: use name.rs beside name/ instead of mod.rs",
                "crates/units/src/lib.rs:2: a module called util has no subject: name it",
            ]
        );
    }

    #[test]
    fn the_keyword_is_refused_outside_its_crate() {
        let code = "// unsafe is not code here\nfn a() {\n    unsafe { b() }\n}\n";
        let found = check_keyword(&files(&[
            ("crates/host/src/perf.rs", code),
            ("crates/hostile/src/lib.rs", code),
        ]));
        assert_eq!(found, ["crates/hostile/src/lib.rs:3: unsafe code belongs into crate host"]);
    }

    #[test]
    fn ceilings_warn_first_and_then_refuse() {
        let cases = [(2_250, 0, 0), (2_251, 0, 1), (2_500, 0, 1), (2_501, 1, 0)];
        for (lines, problems, warnings) in cases {
            let text = "//\n".repeat(lines);
            let mut report = Report::default();
            let files = files(&[("crates/units/src/lib.rs", &text)]);
            check_ceilings(&[member("units")], &files, Path::new("/repo"), &mut report);
            let found = (report.problems.len(), report.warnings.len());
            assert_eq!(found, (problems, warnings), "{lines} lines");
        }
    }

    #[test]
    fn tests_do_not_count_towards_the_ceiling_wherever_they_are() {
        let files = files(&[
            ("crates/units/src/lib.rs", "mod a;\n#[cfg(test)]\nmod laws;\n"),
            ("crates/units/src/laws.rs", "//\n//\n"),
            ("crates/units/src/laws/deep.rs", "//\n"),
            ("crates/units/src/a.rs", "//\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod x {\n}\n"),
            ("crates/units/src/a/tests.rs", "//\n"),
            ("crates/units/src/a/testsuite.rs", "//\n"),
            ("crates/units/tests/golden.rs", "//\n"),
        ]);
        // `mod a;`, the comment in a.rs, and testsuite.rs.
        assert_eq!(lines_without_tests(&files, Path::new("crates/units/src")), 3);
    }

    #[test]
    fn long_files_and_functions_are_listed_with_their_number() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "//\n".repeat(lines - 2));
        let files = files(&[
            ("a.rs", &"//\n".repeat(600)),
            ("b.rs", &"//\n".repeat(601)),
            ("c.rs", &function(60)),
            ("d.rs", &function(61)),
        ]);
        assert_eq!(
            long_pieces(&files),
            ["1 files above 600 lines: b.rs (601)", "1 functions above 60 lines: d.rs:1 f (61)"]
        );
    }
}
