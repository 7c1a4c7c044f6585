//! How does a request body get in without taking more than its share?
//!
//! A body is read before its request waits for a turn, so that an upload that crawls keeps nobody
//! from being served. Each body has a size limit and a deadline. The start of a body is free, since
//! connections are limited; the rest draws on one budget as it arrives, and a request that finds
//! the budget spent is told to come back. So large uploads that crawl do not keep small ones out.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::status::Status;

/// Longest wait for a body, from its first byte to its last.
const DEADLINE: Duration = Duration::from_secs(30);

/// What every body may take without asking.
const FREE: usize = 16 << 10;

/// The budget that bodies draw on, one permit a byte.
#[derive(Debug)]
pub(super) struct Intake {
    budget: Arc<Semaphore>,
    largest: usize,
}

/// A whole body; its share of the budget is given back when this goes.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) bytes: Bytes,
    _share: Option<OwnedSemaphorePermit>,
}

impl Intake {
    /// Bodies of up to `largest` bytes, and `budget` bytes of large ones at once.
    pub(super) fn new(largest: usize, budget: usize) -> Self {
        let budget = budget.min(Semaphore::MAX_PERMITS);
        Self { budget: Arc::new(Semaphore::new(budget)), largest }
    }

    pub(super) async fn read(&self, body: Body) -> Result<Received, Status> {
        timeout(DEADLINE, self.collect(body)).await.unwrap_or_else(|_| {
            let message = "the request body did not arrive in time";
            Err(Status::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message))
        })
    }

    async fn collect(&self, body: Body) -> Result<Received, Status> {
        let mut body = pin!(Limited::new(body, self.largest));
        let mut bytes = BytesMut::new();
        let mut share: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| self.broken(&*error))?.into_data() else {
                continue;
            };
            let free = FREE.saturating_sub(bytes.len());
            bytes.extend_from_slice(&data);
            if data.len() > free {
                let more = self.draw(data.len() - free)?;
                match &mut share {
                    Some(share) => share.merge(more),
                    None => share = Some(more),
                }
            }
        }
        Ok(Received { bytes: bytes.freeze(), _share: share })
    }

    /// Waiting for others here would keep what was drawn already: two could wait for each other.
    fn draw(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Status> {
        let refused = || Status::too_many_requests("too many bytes are on their way", Some(1));
        let permits = u32::try_from(bytes).map_err(|_| refused())?;
        self.budget.clone().try_acquire_many_owned(permits).map_err(|_| refused())
    }

    fn broken(&self, error: &(dyn std::error::Error + Send + Sync + 'static)) -> Status {
        match error.downcast_ref::<LengthLimitError>() {
            Some(_) => Status::too_large(self.largest),
            None => Status::bad_request(format!("cannot read the body: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt, stream};

    use super::*;

    fn of(chunks: &[usize]) -> Body {
        let chunks: Vec<_> =
            chunks.iter().map(|size| Ok::<_, Infallible>(vec![b'x'; *size])).collect();
        Body::from_stream(stream::iter(chunks))
    }

    fn without_end(size: usize) -> Body {
        let first = stream::iter([Ok::<_, Infallible>(vec![b'x'; size])]);
        Body::from_stream(first.chain(stream::pending()))
    }

    #[tokio::test]
    async fn large_bodies_share_one_budget_and_give_it_back() {
        let intake = Intake::new(FREE + 60, 100);
        for (name, chunks, want) in [
            ("nothing", &[][..], Ok(0)),
            ("what is free", &[FREE][..], Ok(FREE)),
            ("the largest", &[20, FREE, 40][..], Ok(FREE + 60)),
            ("a byte too many", &[20, FREE, 41][..], Err(413)),
        ] {
            let got = intake.read(of(chunks)).await;
            assert_eq!(got.map(|got| got.bytes.len()).map_err(|error| error.code), want, "{name}");
            assert_eq!(intake.budget.available_permits(), 100, "{name}");
        }
        let held = intake.read(of(&[FREE + 60])).await.unwrap();
        let refused = intake.read(of(&[FREE, 20, 30])).await.unwrap_err();
        assert_eq!(refused.code, 429);
        assert_eq!(intake.read(of(&[FREE, 20, 20])).await.unwrap().bytes.len(), FREE + 40);
        assert_eq!(intake.read(of(&[50])).await.unwrap().bytes.len(), 50, "small ones get through");
        drop(held);
        assert_eq!(intake.read(of(&[FREE, 20, 30])).await.unwrap().bytes.len(), FREE + 50);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_is_given_up() {
        let intake = Intake::new(FREE + 60, 100);
        let late = intake.read(without_end(FREE + 10)).await.unwrap_err();
        assert_eq!(late.code, 408);
        assert_eq!(intake.budget.available_permits(), 100);
    }
}
