//! A thread that dies takes the agent down, and says which it was.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use agent::RunError;
use host::fs::{Entry, HostFs, Source};

use crate::rig::Rig;

/// A host on which one thread of the agent panics as soon as it looks at best-effort.
#[derive(Debug)]
struct Panicking {
    host: Arc<dyn HostFs>,
    thread: &'static str,
}

impl Panicking {
    fn look(&self, path: &Path) {
        let is_it = thread::current().name() == Some(self.thread);
        assert!(!is_it || !path.ends_with("besteffort"), "a bug in a strategy");
    }
}

impl HostFs for Panicking {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        self.look(path.parent().unwrap_or(path));
        self.host.open(path)
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        self.host.write(path, value)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.look(dir);
        self.host.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.host.make_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.host.remove_dir(dir)
    }

    fn replace_file(&self, path: &Path, text: &str) -> io::Result<()> {
        self.host.replace_file(path, text)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.host.remove_file(path)
    }

    fn exists(&self, path: &Path) -> bool {
        self.host.exists(path)
    }

    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        self.host.real_path(path)
    }
}

#[tokio::test]
async fn a_panic_in_a_thread_ends_the_agent_with_the_name_of_the_thread() {
    for name in ["act", "collect"] {
        let rig = Rig::start_with(move |config| {
            let host = config.host.clone();
            config.host = Arc::new(Panicking { host, thread: name });
        })
        .await;
        let error = rig.ends().await.unwrap_err();
        assert!(matches!(&error, RunError::ThreadEnded(end) if end.name == name), "{error:?}");
        assert_eq!(error.to_string(), format!("thread {name} panicked: a bug in a strategy"));
    }
}
