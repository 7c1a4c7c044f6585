//! Are the CustomResourceDefinitions we print the ones that were reviewed?
//!
//! One file for each kind under `fixtures/wire/crd/`. After an intended change run the tests with
//! `UPDATE_FIXTURES=1` and read the difference.

#![expect(clippy::unwrap_used, reason = "without its fixtures a test has to stop")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use kube::ResourceExt;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/wire/crd")
}

fn stored() -> BTreeMap<String, String> {
    let entries = fs::read_dir(directory()).unwrap();
    entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, String::from_utf8(fs::read(&path).unwrap()).unwrap())
        })
        .collect()
}

fn rendered() -> BTreeMap<String, String> {
    let names = api::kind::definitions().into_iter().map(|definition| definition.name_any());
    let yaml = api::kind::yaml();
    let documents: Vec<&str> = yaml.split("---\n").collect();
    assert_eq!(documents.len(), names.len());
    names.zip(documents).map(|(name, document)| (name, document.to_owned())).collect()
}

#[test]
fn definitions_are_the_reviewed_ones() {
    let rendered = rendered();
    if env::var_os("UPDATE_FIXTURES").is_some() {
        for (name, text) in &rendered {
            fs::write(directory().join(format!("{name}.yaml")), text).unwrap();
        }
    }
    let stored = stored();
    let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&stored), names(&rendered));
    for (name, text) in &rendered {
        assert_eq!(stored[name], *text, "{name}");
    }
}
