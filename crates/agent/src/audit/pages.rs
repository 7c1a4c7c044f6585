//! Reading the records page by page while new ones come.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Record, Ring};

/// Records of a page when the reader does not say.
const DEFAULT_PAGE: usize = 256;

/// How long a reader may pause.
const TTL: Duration = Duration::from_secs(600);

/// Records from new to old.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub records: Vec<Arc<Record>>,
    /// What to ask with for older ones; `None` at the end.
    pub next: Option<String>,
}

/// Why there is no page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    #[error("a page has at most {most} records")]
    TooLarge { most: usize },
    #[error("the page token is unknown or has expired; start again without one")]
    UnknownToken,
}

/// Who is in the middle of reading.
#[derive(Debug)]
pub struct Readers {
    most: usize,
    made: u64,
    at: BTreeMap<String, Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// Number of the record before which the reader goes on.
    before: u64,
    used: Instant,
}

impl Readers {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), made: 0, at: BTreeMap::new() }
    }

    pub(super) fn page(
        &mut self,
        ring: &Ring,
        token: Option<&str>,
        size: Option<usize>,
        most: usize,
        now: Instant,
    ) -> Result<Page, PageError> {
        let size = size.unwrap_or(DEFAULT_PAGE.min(most));
        if size > most {
            return Err(PageError::TooLarge { most });
        }
        self.at.retain(|_, place| now.saturating_duration_since(place.used) <= TTL);
        let before = match token {
            None => ring.end(),
            Some(token) => self.at.remove(token).ok_or(PageError::UnknownToken)?.before,
        };
        let (records, next) = ring.older(before, size);
        let next = next.map(|before| self.remember(Place { before, used: now }));
        Ok(Page { records, next })
    }

    fn remember(&mut self, place: Place) -> String {
        while self.at.len() >= self.most {
            let oldest = self.at.iter().min_by_key(|(_, place)| place.used);
            let Some(oldest) = oldest.map(|(token, _)| token.clone()) else { break };
            self.at.remove(&oldest);
        }
        self.made += 1;
        // A number that is never used twice is all a token has to be: pages hold no secrets.
        let token = format!("{:x}-{:x}", self.made, place.before);
        self.at.insert(token.clone(), place);
        token
    }
}
