//! Load-aware bookkeeping for every configuration in use.
//!
//! Profiles with equal settings share a [`Book`]. What is known of a pod (when it was scheduled,
//! when initialised, when we placed it) is kept once, with the pod, so that a dry run that lifts it
//! and puts it back changes nothing.

use std::sync::Arc;

use api::kind::NodeMetric;
use api::protocol::reservation::RESERVE_POD;
use k8s_openapi::api::core::v1 as wire;

use super::args::Settings;
use super::book::{Assigned, Book, Times};
use crate::model::{Names, Node, Resources, Symbol};
use crate::snapshot::{NodeIx, Phase, Pod, PodIx};
use crate::time::Time;

/// Which book a plugin reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BookIx(usize);

#[derive(Debug, Clone, Copy, Default)]
struct Seat {
    times: Times,
    at: Option<NodeIx>,
}

#[derive(Debug, Default)]
pub struct Loads {
    books: Vec<Book>,
    seats: Vec<Seat>,
    slots: usize,
    now: Time,
    /// Nodes that changed without a pod coming or going.
    dirty: Vec<NodeIx>,
}

impl Loads {
    /// The book for these settings; a new one knows nothing of nodes that are already there.
    pub fn open(&mut self, settings: Settings) -> BookIx {
        let found = self.books.iter().position(|book| **book.settings() == settings);
        BookIx(found.unwrap_or_else(|| {
            let mut book = Book::new(Arc::new(settings));
            book.grow(self.slots);
            self.books.push(book);
            self.books.len() - 1
        }))
    }

    pub fn book(&self, index: BookIx) -> Option<&Book> {
        self.books.get(index.0)
    }

    /// All books, for whoever shows them.
    pub fn books(&self) -> &[Book] {
        &self.books
    }

    pub fn grow(&mut self, slots: usize) {
        self.slots = slots;
        self.books.iter_mut().for_each(|book| book.grow(slots));
    }

    pub fn set_node(&mut self, at: NodeIx, node: &Node, names: &Names) {
        self.books.iter_mut().for_each(|book| book.set_node(at, node, names));
    }

    pub fn remove_node(&mut self, at: NodeIx) {
        self.books.iter_mut().for_each(|book| book.remove_node(at));
    }

    pub fn set_metric(
        &mut self,
        node: Symbol,
        metric: Option<&NodeMetric>,
        at: Option<NodeIx>,
        names: &mut Names,
    ) {
        self.books.iter_mut().for_each(|book| book.set_metric(node, metric, at, names));
    }

    pub fn attached(
        &mut self,
        at: NodeIx,
        index: PodIx,
        pod: &Pod,
        names: &Names,
        resources: &Resources,
    ) {
        let now = self.now;
        let seat = self.seat(index);
        seat.at = Some(at);
        if pod.phase != Phase::Pending && seat.times.scheduled.is_none() {
            seat.times.assigned.get_or_insert(now);
        }
        let times = seat.times;
        let reserve = names.find(RESERVE_POD.name).and_then(|key| pod.class.annotations.get(key));
        if reserve.is_some_and(|value| names.text(value) == "true") {
            return;
        }
        for book in &mut self.books {
            let estimate = book.estimate(&pod.class, names, resources);
            let (namespace, name) = (pod.namespace, Arc::clone(&pod.name));
            book.attach(at, Assigned { pod: index, namespace, name, times, estimate });
        }
    }

    pub fn detached(&mut self, at: NodeIx, index: PodIx) {
        self.seat(index).at = None;
        self.books.iter_mut().for_each(|book| book.detach(at, index));
    }

    /// Takes the times of its conditions from a pod's object.
    pub fn pod_seen(&mut self, index: PodIx, object: &wire::Pod) {
        let conditions = object.status.as_ref().and_then(|status| status.conditions.as_ref());
        let since = |kind: &str| {
            let found = conditions.into_iter().flatten().find(|one| one.type_ == kind)?;
            let time = found.last_transition_time.as_ref().filter(|_| found.status == "True");
            time.map(Time::from_wire)
        };
        let (scheduled, initialized) = (since("PodScheduled"), since("Initialized"));
        let mut times = self.seat(index).times;
        times.scheduled = scheduled.or(times.scheduled);
        times.initialized = initialized;
        self.set_times(index, times);
    }

    /// We placed the pod now.
    pub fn reserve(&mut self, index: PodIx) {
        let now = self.now;
        let mut times = self.seat(index).times;
        times.assigned = Some(now);
        self.set_times(index, times);
    }

    /// We did not place the pod after all.
    pub fn unreserve(&mut self, index: PodIx) {
        let mut times = self.seat(index).times;
        times.assigned = None;
        self.set_times(index, times);
    }

    fn set_times(&mut self, index: PodIx, times: Times) {
        let seat = self.seat(index);
        if seat.times == times {
            return;
        }
        seat.times = times;
        if let Some(at) = seat.at {
            let mut is_changed = false;
            for book in &mut self.books {
                is_changed |= book.set_times(at, index, times);
            }
            if is_changed {
                self.dirty.push(at);
            }
        }
    }

    pub fn pod_gone(&mut self, index: PodIx) {
        if let Some(seat) = self.seats.get_mut(index.index()) {
            *seat = Seat::default();
        }
    }

    /// Time has passed; pushes the nodes whose state is another now.
    pub fn expire(&mut self, now: Time, touched: &mut Vec<NodeIx>) {
        self.now = self.now.max(now);
        touched.append(&mut self.dirty);
        self.books.iter_mut().for_each(|book| book.expire(now, touched));
    }

    /// When the next report will be too old.
    pub fn wake_at(&self) -> Option<Time> {
        self.books.iter().filter_map(Book::wake_at).min()
    }

    pub fn check(&self) -> Vec<String> {
        self.books.iter().flat_map(Book::check).collect()
    }

    fn seat(&mut self, index: PodIx) -> &mut Seat {
        if self.seats.len() <= index.index() {
            self.seats.resize(index.index() + 1, Seat::default());
        }
        &mut self.seats[index.index()]
    }
}
