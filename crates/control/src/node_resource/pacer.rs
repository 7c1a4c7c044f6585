//! When may a node be written that is in no hurry?
//!
//! A new leader finds every node a little off. Writing all of them at once would hit the API server
//! at its worst moment, so they take turns.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::caches::NodeName;

/// Twenty nodes a second.
const TURN: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Pacer {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: Option<Instant>,
    turns: HashMap<NodeName, Instant>,
}

impl Pacer {
    /// How long the node must wait; `None` when it is its turn.
    pub(super) fn delay(&self, name: &NodeName) -> Option<Duration> {
        let mut state = self.state.lock();
        let now = Instant::now();
        let turn = match state.turns.get(name) {
            Some(turn) => *turn,
            None => {
                let turn = state.free.unwrap_or(now).max(now);
                state.free = Some(turn + TURN);
                state.turns.insert(name.clone(), turn);
                turn
            }
        };
        if turn > now {
            return Some(turn - now);
        }
        state.turns.remove(name);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nodes_take_turns() {
        let pacer = Pacer::default();
        let names: Vec<NodeName> = ["a", "b", "c"].map(NodeName::from).to_vec();
        let delays: Vec<_> = names.iter().map(|name| pacer.delay(name)).collect();
        assert_eq!(delays, [None, Some(TURN), Some(2 * TURN)]);
        assert_eq!(pacer.delay(&names[2]), Some(2 * TURN), "a turn is kept");
        tokio::time::advance(2 * TURN).await;
        assert_eq!((pacer.delay(&names[1]), pacer.delay(&names[2])), (None, None));
    }
}
