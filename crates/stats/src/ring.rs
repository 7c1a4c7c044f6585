//! How are the last samples of one series kept in bounded memory?
//!
//! A point is eight bytes: the value in single precision and its time as milliseconds after the
//! ring's base. The base moves forward when an offset would no longer fit (after 49 days), so a
//! ring can live as long as the process. The buffer grows by doubling up to its capacity and then
//! forgets the oldest point for each new one: short-lived objects stay cheap, and a full ring never
//! allocates again.

use std::collections::VecDeque;
use std::time::Duration;

use crate::summary::Summary;

/// A value and the time it was taken, counted from the start of the process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    pub value: f64,
    pub at: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    /// Milliseconds after the ring's base.
    offset: u32,
    value: f32,
}

/// The newest points of one series, in the order of time.
#[derive(Debug, Clone)]
pub struct Ring {
    base_ms: u64,
    capacity: usize,
    points: VecDeque<Point>,
}

/// Length of the first allocation, in points.
const FIRST_CHUNK: usize = 32;

impl Ring {
    /// A ring that remembers the last `capacity` points.
    pub fn new(capacity: usize) -> Self {
        Self { base_ms: 0, capacity: capacity.max(1), points: VecDeque::new() }
    }

    /// A ring for samples taken every `interval` that covers `window`, with one point to spare
    /// because both ends of a window count.
    pub fn covering(window: Duration, interval: Duration) -> Self {
        let points = window.as_millis() / interval.as_millis().max(1) + 1;
        Self::new(usize::try_from(points).unwrap_or(usize::MAX).min(1 << 16))
    }

    pub fn len(&self) -> usize {
        self.points.len()
    }

    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Adds a point. Values that are not finite and times before the newest point are refused,
    /// which `false` tells.
    #[expect(clippy::cast_possible_truncation, reason = "samples are kept in single precision")]
    pub fn push(&mut self, at: Duration, value: f64) -> bool {
        let at_ms = millis(at);
        let single = value as f32;
        if !single.is_finite() || self.newest_ms().is_some_and(|newest| at_ms < newest) {
            return false;
        }
        if self.points.len() == self.capacity {
            self.points.pop_front();
        }
        let offset = self.offset(at_ms);
        self.make_room();
        self.points.push_back(Point { offset, value: single });
        true
    }

    /// The newest point.
    pub fn last(&self) -> Option<Sample> {
        self.points.back().map(|point| self.sample(point))
    }

    /// When the oldest point was taken.
    pub fn oldest(&self) -> Option<Duration> {
        self.points.front().map(|point| self.sample(point).at)
    }

    /// Points taken between `from` and `to`, both included.
    pub fn between(&self, from: Duration, to: Duration) -> impl Iterator<Item = Sample> + '_ {
        let (from, to) = (millis(from), millis(to));
        let start = self.points.partition_point(|point| self.time_ms(point) < from);
        let end = self.points.partition_point(|point| self.time_ms(point) <= to);
        self.points.range(start..end.max(start)).map(|point| self.sample(point))
    }

    /// What the points of the last `window` before `now` say together; `None` without points.
    /// `scratch` is overwritten; reusing it keeps queries free of allocations.
    pub fn summary(
        &self,
        now: Duration,
        window: Duration,
        scratch: &mut Vec<f32>,
    ) -> Option<Summary> {
        Summary::of(self.between(now.saturating_sub(window), now), scratch)
    }

    /// Forgets points older than `at` and tells how many those were.
    pub fn forget_before(&mut self, at: Duration) -> usize {
        let at = millis(at);
        let end = self.points.partition_point(|point| self.time_ms(point) < at);
        self.points.drain(..end);
        end
    }

    fn newest_ms(&self) -> Option<u64> {
        self.points.back().map(|point| self.time_ms(point))
    }

    fn time_ms(&self, point: &Point) -> u64 {
        self.base_ms.saturating_add(u64::from(point.offset))
    }

    fn sample(&self, point: &Point) -> Sample {
        Sample { value: f64::from(point.value), at: Duration::from_millis(self.time_ms(point)) }
    }

    /// The offset of `at_ms`, after moving the base if it has become too old to tell.
    fn offset(&mut self, at_ms: u64) -> u32 {
        if self.points.is_empty() {
            self.base_ms = at_ms;
        }
        if let Ok(offset) = u32::try_from(at_ms.saturating_sub(self.base_ms)) {
            return offset;
        }
        let oldest_kept = at_ms.saturating_sub(u64::from(u32::MAX / 2));
        let base = self.base_ms;
        self.points.retain(|point| base.saturating_add(u64::from(point.offset)) >= oldest_kept);
        for point in &mut self.points {
            let time = base.saturating_add(u64::from(point.offset));
            point.offset = u32::try_from(time.saturating_sub(oldest_kept)).unwrap_or(u32::MAX);
        }
        self.base_ms = oldest_kept;
        u32::MAX / 2
    }

    fn make_room(&mut self) {
        let len = self.points.len();
        if len == self.points.capacity() {
            let left = self.capacity - len.min(self.capacity);
            self.points.reserve_exact(len.max(FIRST_CHUNK).min(left));
        }
    }
}

fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn filled(seconds: u32, capacity: usize) -> Ring {
        let mut ring = Ring::new(capacity);
        for second in 0..seconds {
            assert!(ring.push(SECOND * second, f64::from(second)));
        }
        ring
    }

    #[test]
    fn a_full_ring_forgets_the_oldest_and_stops_allocating() {
        let mut ring = filled(10, 10);
        let allocated = ring.points.capacity();
        assert!(ring.push(SECOND * 10, 10.0));
        assert_eq!((ring.len(), ring.oldest()), (10, Some(SECOND)));
        assert_eq!(ring.points.capacity(), allocated);
    }

    #[test]
    fn both_ends_of_a_window_count() {
        let ring = filled(10, 100);
        let values: Vec<f64> =
            ring.between(SECOND * 2, SECOND * 4).map(|sample| sample.value).collect();
        assert_eq!(values, [2.0, 3.0, 4.0]);
        assert_eq!(ring.between(SECOND * 20, SECOND * 30).count(), 0);
        assert_eq!(ring.between(SECOND * 4, SECOND * 2).count(), 0, "an inverted window is empty");
    }

    #[test]
    fn bad_points_are_refused() {
        let mut ring = filled(3, 100);
        assert!(!ring.push(SECOND, 1.0), "time went backwards");
        assert!(!ring.push(SECOND * 4, f64::NAN));
        assert!(!ring.push(SECOND * 4, f64::INFINITY));
        assert!(!ring.push(SECOND * 4, f64::MAX), "does not fit single precision");
        assert!(ring.push(SECOND * 2, 1.0), "the same moment again is fine");
        assert_eq!(ring.len(), 4);
    }

    #[test]
    fn a_ring_outlives_its_base() {
        let day = Duration::from_secs(86_400);
        let mut ring = Ring::new(1000);
        for number in 0..200u32 {
            assert!(ring.push(day * number, f64::from(number)));
        }
        let last = ring.last().unwrap();
        assert_eq!((last.value, last.at), (199.0, day * 199));
        let recent: Vec<f64> = ring.between(day * 196, day * 199).map(|s| s.value).collect();
        assert_eq!(recent, [196.0, 197.0, 198.0, 199.0]);
    }

    #[test]
    fn covering_a_window_includes_both_ends() {
        assert_eq!(Ring::covering(SECOND * 1800, SECOND).capacity, 1801);
        assert_eq!(Ring::covering(SECOND * 1800, Duration::ZERO).capacity, 1 << 16);
    }

    #[test]
    fn forgetting_tells_how_much() {
        let mut ring = filled(10, 100);
        assert_eq!(ring.forget_before(SECOND * 4), 4);
        assert_eq!(ring.forget_before(SECOND * 4), 0);
        assert_eq!(ring.oldest(), Some(SECOND * 4));
    }

    proptest! {
        /// However points arrive, the ring is bounded, ordered and ends with the newest one.
        #[test]
        fn a_ring_is_bounded_and_ordered(
            steps in proptest::collection::vec((0u64..10_000_000_000, -1e9f64..1e9), 1..200),
            capacity in 1usize..50,
        ) {
            let mut ring = Ring::new(capacity);
            let mut at = Duration::ZERO;
            for (step, value) in steps {
                at += Duration::from_millis(step);
                prop_assert!(ring.push(at, value));
                prop_assert!(ring.len() <= capacity);
                prop_assert_eq!(ring.last().map(|last| last.at), Some(at));
            }
            let times: Vec<Duration> =
                ring.between(Duration::ZERO, Duration::MAX).map(|sample| sample.at).collect();
            prop_assert!(times.is_sorted());
            prop_assert_eq!(times.len(), ring.len());
        }
    }
}
