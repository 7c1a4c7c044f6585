//! Do the image and the unit run the program that there is?

#![expect(clippy::disallowed_methods, reason = "tests read files and settings")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use api::protocol::name;
use chart::{Chart, Release};
use serde_json::json;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

#[test]
fn the_image_has_what_the_chart_starts() {
    let text = fs::read_to_string(deploy().join("Containerfile")).unwrap();
    let links = format!("for name in {} {} {};", name::AGENT, name::MANAGER, name::SCHEDULER);
    assert!(text.contains(&links), "{links}");
    let manifests = Chart::embedded().unwrap().render(&json!({}), &Release::default()).unwrap();
    let mut started = 0;
    for object in manifests {
        let pod = &object.object["spec"]["template"]["spec"];
        if let Some(program) = pod["containers"][0]["command"][0].as_str() {
            assert!(text.contains(&format!("/image{program}")), "{}: {program}", object.name());
            started += 1;
        }
    }
    assert_eq!(started, 3);
    // A shell would find nobody to start it.
    assert!(text.contains("FROM scratch") && text.contains("ENTRYPOINT [\"/usr/bin/tidepool\"]"));
}

#[test]
fn systemd_understands_the_unit() {
    let unit = deploy().join("systemd/tidepool-agent.service");
    let text = fs::read_to_string(&unit).unwrap();
    let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    assert!(start.starts_with("/usr/bin/tidepool agent "), "{start}");
    // systemd wants the program to be there.
    let dir = std::env::temp_dir().join(format!("tidepool-unit-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let copy = dir.join("tidepool-agent.service");
    fs::write(&copy, text.replace("/usr/bin/tidepool", "/bin/true")).unwrap();
    let verdict = Command::new("systemd-analyze").arg("verify").arg(&copy).output();
    fs::remove_dir_all(&dir).unwrap();
    match verdict {
        Ok(verdict) => {
            let said = String::from_utf8_lossy(&verdict.stderr);
            assert!(verdict.status.success() && !said.contains("tidepool-agent"), "{said}");
        }
        // Without systemd, its keys are still pairs below sections.
        Err(_) => {
            let odd = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            let odd: Vec<&str> =
                odd.filter(|line| !line.starts_with('[') && !line.contains('=')).collect();
            assert_eq!(odd, [] as [&str; 0]);
        }
    }
}
