//! How do the sums of the ledger outlive this process?
//!
//! In one small file, which is replaced whole: every half minute when something was counted, and at
//! the end. So a process that is killed loses less than a minute, and a crash leaves the old text or
//! the new one. A file that cannot be read is set aside and told as a finding; counting begins anew.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::finding::{Code, Finding};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Feed;
use crate::model::benefit::Ledger;
use crate::model::world::Keeping;

/// Between two looks at whether there is something to write.
const PAUSE: Duration = Duration::from_secs(30);
/// No ledger is longer: a day of hours is some kilobytes.
const LONGEST: u64 = 1 << 20;
/// What a file that could not be read is called afterwards.
const ASIDE: &str = "unreadable";

/// Keeps the ledger of a feed in a file.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    /// What is in the file.
    written: Ledger,
}

impl Keeper {
    /// Puts what was kept into the view.
    pub(super) async fn open(path: PathBuf, feed: &Feed) -> Self {
        let read = path.clone();
        let (ledger, finding) = match spawn_blocking(move || read_or_set_aside(&read)).await {
            Ok((ledger, finding)) => (ledger, finding),
            Err(error) => {
                warn!(%error, "what was counted is not known: its reader crashed");
                (Ledger::default(), None)
            }
        };
        if let Some(finding) = &finding {
            warn!(%finding, "benefit is counted anew");
        }
        feed.change(|world| {
            world.restore(ledger.clone());
            world.keep(Keeping { is_kept: true, finding });
        });
        Self { path, written: ledger }
    }

    pub(super) async fn run(mut self, feed: Feed, shutdown: CancellationToken) {
        let mut looks = interval(PAUSE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            let is_last = tokio::select! {
                () = shutdown.cancelled() => true,
                _ = looks.tick() => false,
            };
            let ledger = feed.look(|world| world.ledger().clone());
            if ledger != self.written {
                match self.write(ledger).await {
                    Ok(()) => is_failing = false,
                    Err(error) if !std::mem::replace(&mut is_failing, true) => {
                        let path = self.path.display();
                        warn!(%path, %error, "cannot keep what was counted; will retry");
                    }
                    Err(_) => {}
                }
            }
            if is_last {
                return;
            }
        }
    }

    async fn write(&mut self, ledger: Ledger) -> io::Result<()> {
        let (path, text) = (self.path.clone(), ledger.to_text());
        spawn_blocking(move || reconcile::file::replace(&path, text.as_bytes()))
            .await
            .map_err(io::Error::other)??;
        self.written = ledger;
        Ok(())
    }
}

/// What was kept, or nothing and what is wrong.
fn read_or_set_aside(path: &Path) -> (Ledger, Option<Finding>) {
    let trouble = match read(path) {
        Ok(Some(text)) => match Ledger::from_text(&text) {
            Ok(ledger) => return (ledger, None),
            Err(error) => error.to_string(),
        },
        Ok(None) => return (Ledger::default(), None),
        Err(error) => format!("it cannot be read: {error}"),
    };
    let aside = path.with_added_extension(ASIDE);
    let fix = match fs::rename(path, &aside) {
        Ok(()) => format!("nothing has to be done; the old file is {}", aside.display()),
        Err(error) => format!("remove it; it cannot be set aside: {error}"),
    };
    let finding = Finding::warning(Code::LostBenefit, trouble, fix);
    (Ledger::default(), Some(finding.on(&format!("file {}", path.display()), None)))
}

/// Nothing when there is no such file.
fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(found) if found.len() > LONGEST => {
            return Err(io::Error::other(format!("{} bytes are too many", found.len())));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tempfile::tempdir;
    use units::MilliCpu;

    use super::*;
    use crate::model::benefit::Step;

    fn counted(minutes: i64) -> Ledger {
        let mut ledger = Ledger::default();
        for minute in 0..minutes {
            ledger.account(&Step {
                from: Timestamp::from_second(minute * 60).unwrap(),
                to: Timestamp::from_second(minute * 60 + 60).unwrap(),
                capacity: MilliCpu(4_000),
                used: MilliCpu(2_000),
                best_effort: MilliCpu(500),
                is_shared: true,
            });
        }
        ledger
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_process_goes_on_where_this_one_ended() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("console").join("benefit.json");
        let feed = Feed::default();
        let keeper = Keeper::open(path.clone(), &feed).await;
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(keeper.run(feed.clone(), shutdown.clone()));
        feed.change(|world| world.restore(counted(3)));
        tokio::time::sleep(PAUSE * 2).await;
        // A process that is killed now has lost nothing older than the pause.
        let after_a_kill = Feed::default();
        Keeper::open(path.clone(), &after_a_kill).await;
        assert_eq!(after_a_kill.look(|world| world.ledger().clone()), counted(3));
        feed.change(|world| world.restore(counted(4)));
        shutdown.cancel();
        running.await.unwrap();
        let next = Feed::default();
        Keeper::open(path, &next).await;
        next.look(|world| {
            assert_eq!(world.ledger(), &counted(4), "the end is written, too");
            assert_eq!(world.keeping(), &Keeping { is_kept: true, finding: None });
        });
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_a_finding_and_is_set_aside() {
        let whole = counted(2).to_text();
        let cases = [
            ("empty", String::new()),
            ("cut off", whole[..whole.len() / 2].to_owned()),
            ("noise", "\u{0}\u{1}\u{2}".to_owned()),
            ("of another version", whole.replace("\"form\":1", "\"form\":9")),
            ("endless", "x".repeat(2 << 20)),
        ];
        for (name, text) in cases {
            let dir = tempdir().unwrap();
            let path = dir.path().join("benefit.json");
            fs::write(&path, &text).unwrap();
            let feed = Feed::default();
            Keeper::open(path.clone(), &feed).await;
            feed.look(|world| {
                let finding = world.keeping().finding.as_ref().expect(name);
                assert_eq!(finding.code, Code::LostBenefit, "{name}");
                assert_eq!(world.ledger(), &Ledger::default(), "{name}");
            });
            let aside = path.with_added_extension(ASIDE);
            assert_eq!(fs::read_to_string(aside).unwrap(), text, "{name}");
        }
    }
}
