//! One at a time for each name, and names do not wait for each other.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Locks by name; a name that nobody holds or waits for costs nothing.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits until nobody else holds the name, and holds it until the guard goes.
    pub(super) async fn take(&self, name: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(name.to_owned()).or_default().clone()
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn names_wait_for_themselves_only_and_are_forgotten() {
        let turns = Turns::default();
        let a = turns.take("a").await;
        let b = turns.take("b").now_or_never().expect("b does not wait for a");
        assert!(turns.take("a").now_or_never().is_none(), "a is taken");
        drop((a, b));
        turns.take("a").now_or_never().expect("a is free");
        turns.take("c").now_or_never().expect("c is free");
        assert_eq!(turns.0.lock().len(), 1, "only the last is remembered");
    }
}
