//! May this process write?
//!
//! Two replicas run and one of them leads. Whoever writes asks at the moment of writing, not when
//! the decision was made: between the two the lease may have gone to the other replica.

use std::sync::Arc;

use tokio::sync::watch;

/// The question, cheap to clone and to ask. Whoever holds the lease answers through the channel.
#[derive(Debug, Clone)]
pub struct Leadership {
    held: watch::Receiver<bool>,
    /// Kept by a process that is alone, so that nobody ends its leadership.
    own: Option<Arc<watch::Sender<bool>>>,
}

impl Leadership {
    /// Follows an election; a sender that is gone no longer leads.
    pub fn follow(held: watch::Receiver<bool>) -> Self {
        Self { held, own: None }
    }

    /// A process that is alone, such as `tidepool up` or a test.
    pub fn alone() -> Self {
        let (sender, held) = watch::channel(true);
        Self { held, own: Some(Arc::new(sender)) }
    }

    pub fn is_held(&self) -> bool {
        let is_answered = self.own.is_some() || self.held.has_changed().is_ok();
        is_answered && *self.held.borrow()
    }

    /// Waits until this process leads; never returns once the election is over.
    pub async fn until_held(&mut self) {
        if self.held.wait_for(|held| *held).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until this process no longer leads.
    pub async fn until_lost(&mut self) {
        // An election that is over is lost, too.
        let _ = self.held.wait_for(|held| !held).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn follows_the_election() {
        let (sender, held) = watch::channel(false);
        let mut leadership = Leadership::follow(held);
        assert!(!leadership.is_held());
        sender.send_replace(true);
        leadership.until_held().await;
        assert!(leadership.is_held());
        sender.send_replace(false);
        leadership.until_lost().await;
        assert!(!leadership.is_held());
        sender.send_replace(true);
        drop(sender);
        assert!(!leadership.is_held(), "nobody holds the lease any more");
        leadership.until_lost().await;
    }

    #[tokio::test]
    async fn one_process_alone_always_leads() {
        let mut leadership = Leadership::alone();
        leadership.until_held().await;
        assert!(leadership.is_held());
    }
}
