//! Pages for people: does everything print what they say?

use std::fs;
use std::path::Path;

use testkit::kubectl::{Session, Step, steps};

use crate::rig::{Rig, TIDEPOOL, repository};

pub(crate) fn first_batch_job(rig: &Rig) {
    follow(rig, "docs/guides/first-batch-job.md");
}

pub(crate) fn turn_it_off(rig: &Rig) {
    follow(rig, "docs/guides/turn-it-off.md");
}

/// Images of the pages that stand for one that the rig has.
const IMAGES: [(&str, &str); 1] = [("busybox:stable", "localhost/busybox:dev")];

/// Types what a page says, and reads what it prints.
pub(crate) fn follow(rig: &Rig, page: &str) {
    rig.clear();
    let page = repository().join(page);
    let steps = steps(&fs::read_to_string(&page).unwrap());
    assert!(!steps.is_empty(), "{} has no commands", page.display());
    let examples = examples();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = fs::read_to_string(rig.kubeconfig()).unwrap();
        let mut session = Session::start(&rig.program("kubectl"), &config, &page).await;
        session.link(examples.path(), "examples");
        session.link(&repository().join("deploy"), "deploy");
        session.link(Path::new(TIDEPOOL), "bin/tidepool");
        session.link(&rig.program("helm"), "bin/helm");
        for Step { command, output } in &steps {
            let step = Step { command: here(command), output: here(output) };
            let difference = session.check(&step).await;
            assert!(difference.is_none(), "{}", difference.unwrap());
        }
        session.tidy().await;
    });
}

fn here(text: &str) -> String {
    let replace = |text: String, (theirs, ours): (&str, &str)| text.replace(theirs, ours);
    IMAGES.into_iter().fold(text.to_owned(), replace)
}

/// The examples, with images that are here.
fn examples() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(repository().join("examples")).unwrap().flatten() {
        if let Ok(text) = fs::read_to_string(entry.path()) {
            fs::write(copy.path().join(entry.file_name()), here(&text)).unwrap();
        }
    }
    copy
}
