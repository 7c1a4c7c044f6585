//! Does the console work in a browser?
//!
//! ```text
//! cargo ──builds──> showcase: a console over a made-up cluster
//! npm ──fetches──> playwright-core, once, into the cache
//! node console.mjs ──drives──> Chromium ──asks──> showcase
//! ```
//!
//! The script prints one line for each test. Pictures of all pages end up below the target folder:
//! look at them when pages change. `--images` renews the one that the README shows.

use std::{env, fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    child, debian,
    repository::Repository,
    suite::tally::{Note, Tally},
};

const SCRIPT: &str = "crates/console/tests/browser/console.mjs";
const PACKAGE: &str = "playwright-core";
/// Drives the Chromium of the stable suite.
const VERSION: &str = "1.65.0";
const BROWSER: &str = "chromium";
/// Pictures that the README shows.
const SHOWN: [&str; 1] = ["console-node.png"];

/// Runs the browser tests.
pub(crate) fn run(repository: &Repository) -> Result<Tally> {
    let playwright = ensure_playwright()?;
    let showcase = build(repository)?;
    let pictures = pictures(repository)?;
    let mut node = child::leashed("node");
    node.arg(SCRIPT)
        .current_dir(&repository.root)
        .env("TIDEPOOL_SHOWCASE", showcase)
        .env("TIDEPOOL_PLAYWRIGHT", playwright)
        .env("TIDEPOOL_CHROMIUM", program(BROWSER)?)
        .env("TIDEPOOL_SCREENSHOTS", &pictures);
    println!("{}", child::spelled(&node));
    let mut tally = Tally::default();
    let status = child::stream(node, |line| read(line, &mut tally))?;
    if !status.success() && tally.is_green() {
        tally.failed.push(Note::new("browser", format!("the script ended with {status}")));
    }
    println!("pictures are in {}", pictures.display());
    Ok(tally)
}

/// Puts the pictures that pages of this repository show where those pages look for them.
pub(crate) fn renew_images(repository: &Repository) -> Result<()> {
    for name in SHOWN {
        let to = repository.root.join("docs/images").join(name);
        let from = pictures(repository)?.join(name);
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        println!("wrote docs/images/{name}");
    }
    Ok(())
}

/// One line of the script.
fn read(line: &str, tally: &mut Tally) {
    if let Some(name) = line.strip_prefix("ok ") {
        tally.record(name, Ok(()));
    } else if let Some(rest) = line.strip_prefix("failed ") {
        let (name, why) = rest.split_once(": ").unwrap_or((rest, "no reason given"));
        tally.record(name, Err(why.to_owned()));
    }
}

/// The folder with playwright-core in it, from the cache or fresh.
fn ensure_playwright() -> Result<PathBuf> {
    let folder = debian::cache()?.join(format!("{PACKAGE}-{VERSION}"));
    if folder.join("node_modules").join(PACKAGE).join("package.json").is_file() {
        return Ok(folder);
    }
    println!("fetching {PACKAGE}: browser tests are written with it");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(folder.join("package.json"), "{\"private\":true}\n")?;
    let mut npm = child::leashed("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
        .arg(format!("{PACKAGE}@{VERSION}"))
        .current_dir(&folder);
    let status = child::stream(npm, |_| {})?;
    ensure!(status.success(), "npm install {PACKAGE}@{VERSION}: {status}");
    Ok(folder)
}

/// Builds the made-up cluster, with the features of the whole suite so that nothing is built twice.
fn build(repository: &Repository) -> Result<PathBuf> {
    let mut cargo = child::leashed("cargo");
    cargo
        .args(["build", "--workspace", "--example", "showcase", "--locked"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(&repository.root);
    println!("{}", child::spelled(&cargo));
    let text = child::stdout_of(cargo)?;
    let built = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut paths = built.filter_map(|message| {
        let is_ours = message.pointer("/target/name").and_then(Value::as_str) == Some("showcase");
        let path = message.get("executable")?.as_str()?;
        is_ours.then(|| PathBuf::from(path))
    });
    paths.next().context("cargo built no showcase")
}

fn pictures(repository: &Repository) -> Result<PathBuf> {
    let metadata = repository.metadata()?;
    let target = metadata.get("target_directory").and_then(Value::as_str);
    Ok(PathBuf::from(target.context("cargo metadata has no target_directory")?).join("screenshots"))
}

fn program(name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("there is no {name}; install the package of that name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_lines_are_counted() {
        let mut tally = Tally::default();
        for line in ["ok one", "failed two: too late: by far", "(node:1) a warning", "ok three"] {
            read(line, &mut tally);
        }
        assert_eq!((tally.passed, tally.failed), (2, vec![Note::new("two", "too late: by far")]));
    }
}
