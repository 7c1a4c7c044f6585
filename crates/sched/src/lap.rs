//! How long do plugins take? Asked of a few attempts, never of all.
//!
//! The engine has no clock. Whoever drives it may lend one
//! ([`Scheduler::lend_clock`](crate::Scheduler::lend_clock)); what plugins do until it is taken
//! back is timed. Without one a lap costs a look at a flag.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::profile::Point;
use crate::queue::{Actions, Hint, Resource};
use crate::verdict::Code;

/// A clock that only goes forward, from wherever it begins.
pub type Clock = fn() -> Duration;

/// How a call of a plugin ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Success,
    /// The plugin has nothing to say about pods like this one.
    Skip,
    Rejected(Code),
}

/// What was timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timed {
    /// One plugin at one point; where the point is about nodes, on one of them.
    Plugin { plugin: &'static str, point: Point, ending: Ending },
    /// All plugins of a point together. Filter, preparation and score of all nodes are one.
    Point { point: Point, ending: Ending },
    /// Whether an event helps a pod the plugin rejected.
    Hint { plugin: &'static str, resource: Resource, actions: Actions, hint: Hint },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lap {
    pub what: Timed,
    pub took: Duration,
}

/// What was timed since a clock was lent.
#[derive(Debug, Default)]
pub struct Laps {
    clock: Cell<Option<Clock>>,
    taken: RefCell<Vec<Lap>>,
}

/// When a lap began; `None` while nobody lends a clock.
pub type Begun = Option<Duration>;

impl Laps {
    pub(crate) fn lend(&self, clock: Clock) {
        self.clock.set(Some(clock));
    }

    /// Hands out what was timed; nothing is timed any more.
    pub(crate) fn take(&self) -> Vec<Lap> {
        self.clock.set(None);
        self.taken.take()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.clock.get().is_some()
    }

    pub(crate) fn begin(&self) -> Begun {
        self.clock.get().map(|clock| clock())
    }

    pub(crate) fn end(&self, begun: Begun, what: Timed) {
        if let (Some(begun), Some(clock)) = (begun, self.clock.get()) {
            let took = clock().saturating_sub(begun);
            self.taken.borrow_mut().push(Lap { what, took });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static TIME: Cell<u64> = const { Cell::new(0) };
    }

    fn clock() -> Duration {
        TIME.with(|time| {
            time.set(time.get() + 5);
            Duration::from_nanos(time.get())
        })
    }

    #[test]
    fn laps_are_taken_while_a_clock_is_lent() {
        let laps = Laps::default();
        let what = Timed::Point { point: Point::Filter, ending: Ending::Success };
        laps.end(laps.begin(), what);
        assert_eq!(laps.take(), [], "nobody lends a clock");
        laps.lend(clock);
        laps.end(laps.begin(), what);
        assert_eq!(laps.take(), [Lap { what, took: Duration::from_nanos(5) }]);
        laps.end(laps.begin(), what);
        assert_eq!(laps.take(), [], "it was taken back");
    }
}
