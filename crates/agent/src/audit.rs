//! What did the agent change on this node, and why?
//!
//! Records go into a ring in memory, from which `/events` reads, and as JSON lines into files that
//! are bounded too. Neither may ever hold up the work that is recorded: a full disk loses lines.

mod log;
mod pages;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use log::Log;
pub use log::LogSettings;
pub use pages::{Page, PageError, Readers};

/// Records kept in memory: the largest page there can be, twice.
const RING: usize = 4096;

/// How long lines may wait before they are in the file.
const FLUSH: Duration = Duration::from_secs(5);

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    Node,
    Pod,
    Group,
    Unknown,
}

/// One record, in the reference's shape: empty fields are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub created_at: Timestamp,
    #[serde(rename = "type")]
    pub subject: Subject,
    /// Importance: 0 is an eviction, 3 is any write to a kernel file.
    pub level: u8,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Record {
    /// A record about the node.
    pub fn node(now: Timestamp, level: u8, reason: &str, message: impl Into<String>) -> Self {
        Self {
            created_at: now,
            subject: Subject::Node,
            level,
            namespace: String::new(),
            name: String::new(),
            container: String::new(),
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// How records are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--audit-verbose`: records of a higher level are dropped.
    pub verbosity: u8,
    /// Where lines are kept; `None` keeps them in memory only.
    pub log: Option<LogSettings>,
    /// `--audit-max-concurrent-readers`.
    pub max_readers: usize,
    /// `--audit-max-events-limit`.
    pub max_page: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { verbosity: 3, log: None, max_readers: 4, max_page: 2048 }
    }
}

/// The audit log. Clones write to the same one.
#[derive(Debug, Clone)]
pub struct Audit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    verbosity: u8,
    max_page: usize,
    ring: Mutex<Ring>,
    readers: Mutex<Readers>,
    log: Option<Mutex<Log>>,
}

/// The newest records, numbered from the first one ever made.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    records: VecDeque<Arc<Record>>,
    /// Number of the oldest record that is kept.
    first: u64,
}

impl Ring {
    fn push(&mut self, record: Arc<Record>) {
        if self.records.len() >= RING {
            self.records.pop_front();
            self.first += 1;
        }
        self.records.push_back(record);
    }

    /// The number the next record will have.
    fn end(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.records.len()).unwrap_or(u64::MAX))
    }

    /// Up to `size` records older than number `before`, newest first, and where to go on.
    fn older(&self, before: u64, size: usize) -> (Vec<Arc<Record>>, Option<u64>) {
        let kept = usize::try_from(before.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let kept = kept.min(self.records.len());
        let taken = size.min(kept);
        let page = self.records.iter().take(kept).rev().take(taken).cloned().collect();
        let rest = kept - taken;
        let next = self.first.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX));
        (page, (rest > 0).then_some(next))
    }
}

impl Audit {
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Inner {
            verbosity: settings.verbosity,
            max_page: settings.max_page,
            ring: Mutex::default(),
            readers: Mutex::new(Readers::new(settings.max_readers)),
            log: settings.log.map(|settings| Mutex::new(Log::new(settings))),
        }))
    }

    /// Keeps a record, unless its level is too high to matter.
    pub fn record(&self, record: Record) {
        if record.level > self.0.verbosity {
            return;
        }
        let record = Arc::new(record);
        if let Some(log) = &self.0.log {
            log.lock().add(&record);
        }
        self.0.ring.lock().push(record);
    }

    /// The newest page, or the one that `token` stands for.
    pub fn page(
        &self,
        token: Option<&str>,
        size: Option<usize>,
        now: Instant,
    ) -> Result<Page, PageError> {
        let ring = self.0.ring.lock();
        self.0.readers.lock().page(&ring, token, size, self.0.max_page, now)
    }

    /// Brings lines to disk now and then, and once more at the end.
    pub async fn flush_until(self, shutdown: CancellationToken) {
        if self.0.log.is_none() {
            return;
        }
        loop {
            let ended = tokio::time::timeout(FLUSH, shutdown.cancelled()).await.is_ok();
            let audit = self.clone();
            let flushed = tokio::task::spawn_blocking(move || audit.flush()).await;
            if flushed.is_err() {
                warn!("the audit log was not flushed");
            }
            if ended {
                return;
            }
        }
    }

    fn flush(&self) {
        let Some(log) = &self.0.log else { return };
        // The lines leave the lock before the disk is touched.
        let mut batch = log.lock().take();
        let result = batch.write(Timestamp::now());
        log.lock().put_back(batch, result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(level: u8, reason: &str) -> Record {
        Record::node(Timestamp::UNIX_EPOCH, level, reason, "")
    }

    fn reasons(page: &Page) -> Vec<&str> {
        page.records.iter().map(|record| record.reason.as_str()).collect()
    }

    #[test]
    fn records_have_the_reference_s_shape() {
        let mut pod = record(0, "evict");
        pod.subject = Subject::Pod;
        pod.namespace = "d".to_owned();
        pod.name = "web".to_owned();
        assert_eq!(
            serde_json::to_string(&pod).unwrap(),
            r#"{"createdAt":"1970-01-01T00:00:00Z","type":"pod","level":0,"namespace":"d","name":"web","reason":"evict"}"#
        );
    }

    #[test]
    fn pages_go_from_new_to_old_and_end() {
        let audit = Audit::new(Settings::default());
        for reason in ["a", "b", "c", "d", "e"] {
            audit.record(record(1, reason));
        }
        let now = Instant::now();
        let first = audit.page(None, Some(2), now).unwrap();
        assert_eq!(reasons(&first), ["e", "d"]);
        audit.record(record(1, "late"));
        let second = audit.page(first.next.as_deref(), Some(2), now).unwrap();
        assert_eq!(reasons(&second), ["c", "b"], "new records do not shift a reader");
        let last = audit.page(second.next.as_deref(), Some(2), now).unwrap();
        assert_eq!((reasons(&last), &last.next), (vec!["a"], &None));
    }

    #[test]
    fn what_matters_less_than_asked_for_is_dropped() {
        let audit = Audit::new(Settings { verbosity: 1, ..Settings::default() });
        audit.record(record(1, "kept"));
        audit.record(record(2, "dropped"));
        assert_eq!(reasons(&audit.page(None, None, Instant::now()).unwrap()), ["kept"]);
    }

    #[test]
    fn the_ring_forgets_the_oldest() {
        let audit = Audit::new(Settings::default());
        for n in 0..RING + 3 {
            audit.record(record(1, &n.to_string()));
        }
        let now = Instant::now();
        let mut page = audit.page(None, Some(2048), now).unwrap();
        let mut seen = page.records.len();
        while let Some(token) = page.next.clone() {
            page = audit.page(Some(&token), Some(2048), now).unwrap();
            seen += page.records.len();
        }
        assert_eq!(seen, RING);
        assert_eq!(reasons(&page).last(), Some(&"3"));
    }

    #[test]
    fn unknown_and_expired_tokens_and_oversized_pages_are_refused() {
        let audit = Audit::new(Settings::default());
        for reason in ["a", "b", "c"] {
            audit.record(record(1, reason));
        }
        let now = Instant::now();
        assert_eq!(audit.page(None, Some(2049), now), Err(PageError::TooLarge { most: 2048 }));
        assert_eq!(audit.page(Some("nonsense"), None, now), Err(PageError::UnknownToken));
        let page = audit.page(None, Some(1), now).unwrap();
        let later = now + Duration::from_secs(601);
        assert_eq!(audit.page(page.next.as_deref(), None, later), Err(PageError::UnknownToken));
    }

    #[test]
    fn the_oldest_reader_makes_room() {
        let audit = Audit::new(Settings { max_readers: 2, ..Settings::default() });
        audit.record(record(1, "a"));
        audit.record(record(1, "b"));
        let start = Instant::now();
        let tokens: Vec<_> = (0..3)
            .map(|n| {
                audit.page(None, Some(1), start + Duration::from_secs(n)).unwrap().next.unwrap()
            })
            .collect();
        let now = start + Duration::from_secs(4);
        assert_eq!(audit.page(Some(&tokens[0]), None, now), Err(PageError::UnknownToken));
        assert!(audit.page(Some(&tokens[2]), None, now).is_ok());
    }
}
