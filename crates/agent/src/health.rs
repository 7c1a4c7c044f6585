//! Is the agent alive, and does it know enough to be of use?
//!
//! Each part says whether it is ready and why not. Loops also leave a heartbeat: one that is ten
//! times its period late is stuck, and the process deserves a restart. Not being ready is no reason
//! for one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How many periods a loop may miss.
const PATIENCE: u32 = 10;

/// No loop counts as stuck sooner: a suspended machine must not be restarted for it.
const LEAST_PATIENCE: Duration = Duration::from_secs(30);

/// What all parts have said.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<BTreeMap<&'static str, State>>>);

#[derive(Debug)]
struct State {
    /// Why the part is not ready.
    lacks: Option<String>,
    beat: Option<Beat>,
}

#[derive(Debug, Clone, Copy)]
struct Beat {
    period: Duration,
    last: Instant,
}

/// One part's voice.
#[derive(Debug, Clone)]
pub struct Part {
    health: Health,
    name: &'static str,
}

impl Health {
    /// A part that is not ready until it says so.
    pub fn part(&self, name: &'static str) -> Part {
        let state = State { lacks: Some("starting".to_owned()), beat: None };
        self.0.lock().insert(name, state);
        Part { health: self.clone(), name }
    }

    /// Names of the loops that are stuck, with the age of their last heartbeat.
    pub fn stuck(&self, now: Instant) -> Vec<(&'static str, Duration)> {
        let states = self.0.lock();
        let late = states.iter().filter_map(|(name, state)| {
            let beat = state.beat?;
            let age = now.saturating_duration_since(beat.last);
            (age > (beat.period * PATIENCE).max(LEAST_PATIENCE)).then_some((*name, age))
        });
        late.collect()
    }

    /// Age of each loop's last heartbeat.
    pub fn ages(&self, now: Instant) -> Vec<(&'static str, Duration)> {
        let states = self.0.lock();
        let beats = states.iter().filter_map(|(name, state)| Some((*name, state.beat?)));
        beats.map(|(name, beat)| (name, now.saturating_duration_since(beat.last))).collect()
    }

    /// What each part lacks; empty when the agent is ready.
    pub fn lacking(&self) -> Vec<(&'static str, String)> {
        let states = self.0.lock();
        let lacking = states.iter().filter_map(|(name, state)| Some((*name, state.lacks.clone()?)));
        lacking.collect()
    }

    /// One line for each part, as `/readyz` prints them.
    pub fn report(&self) -> String {
        let mut text = String::new();
        for (name, state) in self.0.lock().iter() {
            // Writing to a string cannot fail.
            let _ = match &state.lacks {
                None => writeln!(text, "[+]{name} ok"),
                Some(reason) => writeln!(text, "[-]{name} {reason}"),
            };
        }
        text
    }
}

impl Part {
    pub fn ready(&self) {
        self.set(None);
    }

    pub fn lacks(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    fn set(&self, lacks: Option<String>) {
        if let Some(state) = self.health.0.lock().get_mut(self.name) {
            state.lacks = lacks;
        }
    }

    /// A loop with this period is alive.
    pub fn beat(&self, period: Duration, now: Instant) {
        if let Some(state) = self.health.0.lock().get_mut(self.name) {
            state.beat = Some(Beat { period, last: now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_names_what_is_missing() {
        let health = Health::default();
        let (pods, node) = (health.part("pods"), health.part("node"));
        pods.lacks("kubelet: timeout");
        node.ready();
        assert_eq!(health.report(), "[+]node ok\n[-]pods kubelet: timeout\n");
        assert_eq!(health.lacking(), [("pods", "kubelet: timeout".to_owned())]);
        pods.ready();
        assert_eq!(health.lacking(), []);
    }

    #[test]
    fn a_loop_is_stuck_after_ten_periods() {
        let health = Health::default();
        let part = health.part("loop");
        let start = Instant::now();
        assert_eq!(health.stuck(start), [], "a loop that has not begun is not stuck");
        part.beat(Duration::from_secs(10), start);
        assert_eq!(health.stuck(start + Duration::from_secs(100)), []);
        let late = start + Duration::from_secs(101);
        assert_eq!(health.stuck(late), [("loop", Duration::from_secs(101))]);
        part.beat(Duration::from_secs(10), late);
        assert_eq!(health.stuck(late), []);
    }

    #[test]
    fn fast_loops_get_half_a_minute() {
        let health = Health::default();
        let part = health.part("loop");
        let start = Instant::now();
        part.beat(Duration::from_millis(50), start);
        assert_eq!(health.stuck(start + Duration::from_secs(29)), []);
        assert_eq!(health.stuck(start + Duration::from_secs(31)).len(), 1);
    }
}
