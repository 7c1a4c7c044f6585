//! Where do the rings live, and when does one go?

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use stats::{Ring, Sample, Summary};

use super::{Cpi, Facts, Health, Measure, PressureSample, Subject};
use crate::collect::Task;

/// How long usage of nodes, pods and host applications is kept.
const LONG: Duration = Duration::from_secs(30 * 60);
/// How long containers' usage and throttling are kept.
const SHORT: Duration = Duration::from_secs(2 * 60);
/// By how much the horizon moves when the oldest points have to go.
const EVICTION_STEP: Duration = Duration::from_secs(10);

/// The rings of one subject; a ring appears with its first sample.
#[derive(Debug, Default)]
struct Tracks {
    rings: [Option<Box<Ring>>; Measure::COUNT],
    pressure: Option<Box<PressureSample>>,
    cpi: Option<Cpi>,
}

impl Tracks {
    fn get(&self, measure: Measure) -> Option<&Ring> {
        self.rings.get(measure.index())?.as_deref()
    }

    fn points(&self) -> usize {
        self.rings.iter().flatten().map(|ring| ring.len()).sum()
    }
}

/// How much is remembered, and how much had to go early.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreSize {
    pub series: usize,
    pub points: usize,
    /// Points that were forgotten before their window ended because all series together held
    /// more than they may.
    pub evicted: u64,
    /// Samples that were refused: not a number, or older than the newest.
    pub refused: u64,
}

/// All series of the node.
#[derive(Debug)]
pub struct Store {
    interval: Duration,
    max_points: usize,
    node: Tracks,
    system: Tracks,
    best_effort: Tracks,
    numa: BTreeMap<u32, Tracks>,
    numa_system: BTreeMap<u32, Tracks>,
    gpus: BTreeMap<u32, Tracks>,
    pods: HashMap<Box<str>, Tracks>,
    containers: HashMap<Box<str>, Tracks>,
    host_applications: HashMap<Box<str>, Tracks>,
    points: usize,
    evicted: u64,
    refused: u64,
    scratch: Vec<f32>,
    health: BTreeMap<Task, Health>,
    /// The newest objects that are not series.
    pub facts: Facts,
}

impl Store {
    /// A store for samples taken every `interval` that holds `max_points` points at most.
    pub fn new(interval: Duration, max_points: usize) -> Self {
        Self {
            interval,
            max_points,
            node: Tracks::default(),
            system: Tracks::default(),
            best_effort: Tracks::default(),
            numa: BTreeMap::new(),
            numa_system: BTreeMap::new(),
            gpus: BTreeMap::new(),
            pods: HashMap::new(),
            containers: HashMap::new(),
            host_applications: HashMap::new(),
            points: 0,
            evicted: 0,
            refused: 0,
            scratch: Vec::new(),
            health: BTreeMap::new(),
            facts: Facts::default(),
        }
    }

    /// Adds a sample.
    pub fn push(&mut self, subject: Subject<'_>, measure: Measure, at: Duration, value: f64) {
        let kept = match (subject, measure) {
            (Subject::Container(_), _) | (_, Measure::Throttled | Measure::ColdPages) => SHORT,
            _ => LONG,
        };
        let interval = self.interval;
        let tracks = self.tracks_mut(subject);
        let Some(slot) = tracks.rings.get_mut(measure.index()) else { return };
        let ring = slot.get_or_insert_with(|| Box::new(Ring::covering(kept, interval)));
        let before = ring.len();
        let accepted = ring.push(at, value);
        let after = ring.len();
        self.points = (self.points + after).saturating_sub(before);
        self.refused += u64::from(!accepted);
        if self.points > self.max_points {
            self.evict();
        }
    }

    /// The newest value of a series.
    pub fn latest(&self, subject: Subject<'_>, measure: Measure) -> Option<Sample> {
        self.ring(subject, measure)?.last()
    }

    /// The mean of a series over the last `window`.
    #[expect(clippy::cast_precision_loss, reason = "a window has a few thousand points")]
    pub fn average(
        &self,
        subject: Subject<'_>,
        measure: Measure,
        now: Duration,
        window: Duration,
    ) -> Option<f64> {
        let ring = self.ring(subject, measure)?;
        let (mut sum, mut count) = (0.0, 0_usize);
        for sample in ring.between(now.saturating_sub(window), now) {
            sum += sample.value;
            count += 1;
        }
        (count > 0).then(|| sum / count as f64)
    }

    /// All aggregates of a series over the last `window`.
    pub fn summary(
        &mut self,
        subject: Subject<'_>,
        measure: Measure,
        now: Duration,
        window: Duration,
    ) -> Option<Summary> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let summary =
            self.ring(subject, measure).and_then(|ring| ring.summary(now, window, &mut scratch));
        self.scratch = scratch;
        summary
    }

    /// Replaces the pressure of a pod or container.
    pub fn set_pressure(&mut self, subject: Subject<'_>, sample: PressureSample) {
        match &mut self.tracks_mut(subject).pressure {
            Some(known) => **known = sample,
            empty => *empty = Some(Box::new(sample)),
        }
    }

    pub fn pressure(&self, subject: Subject<'_>) -> Option<PressureSample> {
        self.tracks(subject)?.pressure.as_deref().copied()
    }

    /// Replaces the counters of a container.
    pub fn set_cpi(&mut self, subject: Subject<'_>, cpi: Cpi) {
        self.tracks_mut(subject).cpi = Some(cpi);
    }

    pub fn cpi(&self, subject: Subject<'_>) -> Option<Cpi> {
        self.tracks(subject)?.cpi
    }

    /// How a collector is doing.
    pub fn health(&self, task: Task) -> Option<&Health> {
        self.health.get(&task)
    }

    /// The place where a collector says how it is doing.
    pub fn health_mut(&mut self, task: Task) -> &mut Health {
        self.health.entry(task).or_default()
    }

    /// NUMA nodes that have samples.
    pub fn numa_nodes(&self) -> Vec<u32> {
        self.numa.keys().copied().collect()
    }

    /// Forgets pods that are not among `uids`.
    pub fn keep_pods(&mut self, uids: &HashSet<&str>) {
        self.points = self.points.saturating_sub(retain(&mut self.pods, uids));
    }

    /// Forgets containers that are not among `ids`.
    pub fn keep_containers(&mut self, ids: &HashSet<&str>) {
        self.points = self.points.saturating_sub(retain(&mut self.containers, ids));
    }

    /// Forgets host applications that are not among `names`.
    pub fn keep_host_applications(&mut self, names: &HashSet<&str>) {
        self.points = self.points.saturating_sub(retain(&mut self.host_applications, names));
    }

    /// How much is remembered.
    pub fn size(&self) -> StoreSize {
        let series = self.all().map(|tracks| tracks.rings.iter().flatten().count()).sum();
        StoreSize { series, points: self.points, evicted: self.evicted, refused: self.refused }
    }

    /// Lets the oldest points of all series go until the rest fits.
    fn evict(&mut self) {
        while self.points > self.max_points {
            let oldest = self
                .all()
                .flat_map(|tracks| tracks.rings.iter().flatten())
                .filter_map(|ring| ring.oldest());
            let Some(horizon) = oldest.min().map(|oldest| oldest + EVICTION_STEP) else { return };
            let mut gone = 0;
            for tracks in self.all_mut() {
                for ring in tracks.rings.iter_mut().flatten() {
                    gone += ring.forget_before(horizon);
                }
            }
            self.points = self.points.saturating_sub(gone);
            self.evicted += u64::try_from(gone).unwrap_or(u64::MAX);
        }
    }

    fn ring(&self, subject: Subject<'_>, measure: Measure) -> Option<&Ring> {
        self.tracks(subject)?.get(measure)
    }

    fn tracks(&self, subject: Subject<'_>) -> Option<&Tracks> {
        match subject {
            Subject::Node => Some(&self.node),
            Subject::System => Some(&self.system),
            Subject::BestEffort => Some(&self.best_effort),
            Subject::Numa(id) => self.numa.get(&id),
            Subject::NumaSystem(id) => self.numa_system.get(&id),
            Subject::Gpu(minor) => self.gpus.get(&minor),
            Subject::Pod(uid) => self.pods.get(uid),
            Subject::Container(id) => self.containers.get(id),
            Subject::HostApplication(name) => self.host_applications.get(name),
        }
    }

    fn tracks_mut(&mut self, subject: Subject<'_>) -> &mut Tracks {
        match subject {
            Subject::Node => &mut self.node,
            Subject::System => &mut self.system,
            Subject::BestEffort => &mut self.best_effort,
            Subject::Numa(id) => self.numa.entry(id).or_default(),
            Subject::NumaSystem(id) => self.numa_system.entry(id).or_default(),
            Subject::Gpu(minor) => self.gpus.entry(minor).or_default(),
            Subject::Pod(uid) => named(&mut self.pods, uid),
            Subject::Container(id) => named(&mut self.containers, id),
            Subject::HostApplication(name) => named(&mut self.host_applications, name),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Tracks> {
        [&self.node, &self.system, &self.best_effort]
            .into_iter()
            .chain(self.numa.values())
            .chain(self.numa_system.values())
            .chain(self.gpus.values())
            .chain(self.pods.values())
            .chain(self.containers.values())
            .chain(self.host_applications.values())
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Tracks> {
        [&mut self.node, &mut self.system, &mut self.best_effort]
            .into_iter()
            .chain(self.numa.values_mut())
            .chain(self.numa_system.values_mut())
            .chain(self.gpus.values_mut())
            .chain(self.pods.values_mut())
            .chain(self.containers.values_mut())
            .chain(self.host_applications.values_mut())
    }
}

/// The entry of `name`, which is copied only when it is new.
fn named<'a>(map: &'a mut HashMap<Box<str>, Tracks>, name: &str) -> &'a mut Tracks {
    if !map.contains_key(name) {
        map.insert(name.into(), Tracks::default());
    }
    map.get_mut(name).expect("the entry was inserted above")
}

/// Forgets what is not in `kept` and tells how many points that were.
fn retain(map: &mut HashMap<Box<str>, Tracks>, kept: &HashSet<&str>) -> usize {
    let mut gone = 0;
    map.retain(|name, tracks| {
        let keep = kept.contains(&**name);
        if !keep {
            gone += tracks.points();
        }
        keep
    });
    map.shrink_to(kept.len() * 2);
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn store(max_points: usize) -> Store {
        Store::new(SECOND, max_points)
    }

    #[test]
    fn a_series_is_kept_as_long_as_somebody_asks_for_it() {
        let mut store = store(usize::MAX);
        for second in 0..4_000u32 {
            let at = SECOND * second;
            store.push(Subject::Node, Measure::Cpu, at, 1.0);
            store.push(Subject::Pod("u"), Measure::Throttled, at, 0.1);
            store.push(Subject::Container("c"), Measure::Cpu, at, 0.1);
        }
        let size = store.size();
        assert_eq!((size.series, size.points), (3, 1801 + 121 + 121));
        assert_eq!((size.evicted, size.refused), (0, 0));
        let summary = store.summary(Subject::Node, Measure::Cpu, SECOND * 3_999, LONG).unwrap();
        assert!(summary.fills(LONG, SECOND));
    }

    #[test]
    fn the_oldest_points_of_all_series_go_first() {
        let mut store = store(100);
        for second in 0..90u32 {
            store.push(Subject::Pod("old"), Measure::Cpu, SECOND * second, 1.0);
        }
        for second in 90..120u32 {
            store.push(Subject::Pod("new"), Measure::Cpu, SECOND * second, 1.0);
        }
        let size = store.size();
        assert!(size.points <= 100, "{size:?}");
        assert_eq!(size.evicted, 20, "two steps of ten seconds");
        let count = |uid| store.ring(Subject::Pod(uid), Measure::Cpu).map(Ring::len);
        assert_eq!((count("old"), count("new")), (Some(70), Some(30)));
    }

    #[test]
    fn who_left_is_forgotten() {
        let mut store = store(usize::MAX);
        for uid in ["a", "b"] {
            store.push(Subject::Pod(uid), Measure::Cpu, SECOND, 1.0);
            store.push(Subject::Container(uid), Measure::Cpu, SECOND, 1.0);
            store.push(Subject::HostApplication(uid), Measure::Cpu, SECOND, 1.0);
        }
        store.keep_pods(&HashSet::from(["b"]));
        store.keep_containers(&HashSet::from(["a"]));
        store.keep_host_applications(&HashSet::new());
        assert_eq!(store.latest(Subject::Pod("a"), Measure::Cpu), None);
        assert!(store.latest(Subject::Pod("b"), Measure::Cpu).is_some());
        assert!(store.latest(Subject::Container("a"), Measure::Cpu).is_some());
        assert_eq!((store.size().series, store.size().points), (2, 2));
    }

    #[test]
    fn no_data_is_none_and_bad_data_is_counted() {
        let mut store = store(usize::MAX);
        assert_eq!(store.average(Subject::Node, Measure::Cpu, SECOND, LONG), None);
        store.push(Subject::Node, Measure::Cpu, SECOND, f64::NAN);
        assert_eq!(store.summary(Subject::Node, Measure::Cpu, SECOND, LONG), None);
        assert_eq!(store.size().refused, 1);
        store.push(Subject::Node, Measure::Cpu, SECOND, 2.0);
        store.push(Subject::Node, Measure::Cpu, SECOND * 2, 4.0);
        let mean = |window| store.average(Subject::Node, Measure::Cpu, SECOND * 3, window);
        assert_eq!(mean(SECOND * 2), Some(3.0));
        assert_eq!(mean(SECOND), Some(4.0));
        assert_eq!(mean(Duration::ZERO), None, "nothing newer");
    }
}
