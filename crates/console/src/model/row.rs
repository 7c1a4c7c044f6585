//! How is this node?
//!
//! One line for each node; the overview is the sum of them, the tables show them.

use std::cmp::Ordering;

use api::decisions::Page;
use api::qos::QosClass;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use units::{Bytes, MilliCpu, Percent, Rounding};

use super::decisions;
use super::facts::{MetricFacts, NodeFacts, PodFacts, PodKey, Usage};

/// A report that is older is not trusted.
pub const STALE_SECONDS: i64 = 180;
/// Above this share of its CPU a node has no room for a burst of online work.
const FULL: Percent = Percent(95);

/// CPU by class. What no pod and no application accounts for is the system's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Classes {
    pub system: MilliCpu,
    pub lse: MilliCpu,
    pub lsr: MilliCpu,
    pub ls: MilliCpu,
    pub be: MilliCpu,
}

impl Classes {
    fn add(&mut self, class: QosClass, milli: MilliCpu) {
        let place = match class {
            QosClass::System => &mut self.system,
            QosClass::Lse => &mut self.lse,
            QosClass::Lsr => &mut self.lsr,
            QosClass::Ls => &mut self.ls,
            QosClass::Be => &mut self.be,
        };
        *place += milli;
    }

    pub fn sum(&self) -> MilliCpu {
        self.system + self.lse + self.lsr + self.ls + self.be
    }

    /// Usage by class, from the report and from what is known of its pods.
    pub fn of(metric: &MetricFacts, class_of: impl Fn(&PodKey) -> Option<QosClass>) -> Self {
        let mut classes = Self::default();
        for (key, (class, usage)) in &metric.pods {
            let class = class.or_else(|| class_of(key)).unwrap_or(QosClass::Ls);
            classes.add(class, usage.milli_cpu);
        }
        for (class, usage) in &metric.host_applications {
            classes.add(class.unwrap_or(QosClass::Ls), usage.milli_cpu);
        }
        let rest = metric.used.milli_cpu - classes.sum();
        classes.system += rest.max(MilliCpu::ZERO);
        classes
    }
}

/// Whether one has to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Someone should look.
    Unsafe,
    /// Nothing is known.
    Unknown,
    /// Nothing is done there.
    Off,
    /// Best-effort work waits for online work, as it should.
    Held,
    Safe,
}

impl State {
    pub const ALL: [Self; 5] = [Self::Safe, Self::Held, Self::Unsafe, Self::Unknown, Self::Off];

    pub fn word(self) -> &'static str {
        match self {
            Self::Unsafe => "unsafe",
            Self::Unknown => "unknown",
            Self::Off => "off",
            Self::Held => "held",
            Self::Safe => "safe",
        }
    }
}

/// One node in a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    pub name: String,
    pub state: State,
    /// The reason of the state, in one sentence.
    pub why: String,
    pub capacity: Usage,
    /// `None` when nothing, or nothing recent, is known.
    pub used: Option<Usage>,
    pub classes: Option<Classes>,
    /// What best-effort pods may use at this moment; `None` while the agent says nothing of it.
    pub best_effort_limit: Option<MilliCpu>,
    pub batch_lent: Option<MilliCpu>,
    pub batch_requested: MilliCpu,
    pub batch_memory_lent: Option<Bytes>,
    pub pods: usize,
    pub best_effort_pods: usize,
    pub measured: Option<Timestamp>,
}

impl NodeRow {
    pub fn used_percent(&self) -> Option<Percent> {
        Percent::of(self.used?.milli_cpu, self.capacity.milli_cpu, Rounding::Nearest)
    }
}

/// All that is known of one node.
#[derive(Debug, Clone, Copy)]
pub struct Known<'w> {
    pub node: &'w NodeFacts,
    pub metric: Option<&'w MetricFacts>,
    pub pods: &'w [(&'w PodKey, &'w PodFacts)],
    /// What the agent says.
    pub agent: Option<&'w Page>,
}

impl Known<'_> {
    pub fn row(&self, name: &str, now: Timestamp) -> NodeRow {
        let fresh = self.metric.filter(|metric| {
            metric
                .at
                .is_some_and(|at| now.as_second().saturating_sub(at.as_second()) <= STALE_SECONDS)
        });
        let classes = fresh.map(|metric| self.classes(metric));
        let best_effort = self.pods.iter().filter(|(_, pod)| pod.qos == QosClass::Be);
        let best_effort_pods = best_effort.count();
        let (state, why) = self.judge(fresh, classes, best_effort_pods, now);
        let requested: Usage = self.pods.iter().map(|(_, pod)| pod.batch_requested).sum();
        NodeRow {
            name: name.to_owned(),
            state,
            why,
            capacity: self.node.capacity,
            used: fresh.map(|metric| metric.used),
            classes,
            best_effort_limit: self.limit(),
            batch_lent: self.node.batch_cpu,
            batch_requested: requested.milli_cpu,
            batch_memory_lent: self.node.batch_memory,
            pods: self.pods.len(),
            best_effort_pods,
            measured: self.metric.and_then(|metric| metric.at),
        }
    }

    fn classes(&self, metric: &MetricFacts) -> Classes {
        Classes::of(metric, |key| {
            self.pods.iter().find(|(own, _)| *own == key).map(|(_, pod)| pod.qos)
        })
    }

    /// An agent that is off limits nothing.
    fn limit(&self) -> Option<MilliCpu> {
        let page = self.agent.filter(|page| page.switch.is_on && !self.node.is_off)?;
        decisions::limit(page).map(|(_, limit)| limit)
    }

    /// The state and its reason. What is worst is said.
    fn judge(
        &self,
        fresh: Option<&MetricFacts>,
        classes: Option<Classes>,
        best_effort_pods: usize,
        now: Timestamp,
    ) -> (State, String) {
        if let Some(page) = self.agent.filter(|page| !page.switch.is_on) {
            let who = page.switch.off_by.as_deref().unwrap_or("its agent");
            return (State::Off, format!("turned off by {who}"));
        }
        if self.node.is_off {
            return (State::Off, "turned off by the annotation of the Node".to_owned());
        }
        if !self.node.is_ready {
            return (State::Unsafe, "the node is not ready".to_owned());
        }
        let (Some(metric), Some(classes)) = (fresh, classes) else {
            let why = match self.metric.and_then(|metric| metric.at) {
                None => "nothing was measured yet".to_owned(),
                Some(at) => {
                    let minutes = now.as_second().saturating_sub(at.as_second()) / 60;
                    format!("the last report is {minutes} min old")
                }
            };
            return (State::Unknown, why);
        };
        let capacity = self.node.capacity;
        let share =
            |part: i64, whole: i64| Percent::of(part, whole, Rounding::Nearest).unwrap_or_default();
        let memory = share(metric.used.bytes.0, capacity.bytes.0);
        let total = share(metric.used.milli_cpu.0, capacity.milli_cpu.0);
        let thresholds = self.node.thresholds;
        if best_effort_pods > 0 && memory >= thresholds.memory_evict {
            let limit = thresholds.memory_evict.0;
            let why = format!("{}% of memory is used; best-effort pods go at {limit}%", memory.0);
            return (State::Unsafe, why);
        }
        if classes.be > MilliCpu::ZERO && total >= FULL {
            let why = format!("{}% of CPU is used, with best-effort work in it", total.0);
            return (State::Unsafe, why);
        }
        if best_effort_pods > 0 && total >= thresholds.suppress {
            let limit = thresholds.suppress.0;
            let why = format!("{}% of CPU is used; best-effort is held back at {limit}%", total.0);
            return (State::Held, why);
        }
        (State::Safe, format!("{}% of CPU and {}% of memory are used", total.0, memory.0))
    }
}

/// What a table is sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// Worst first.
    #[default]
    State,
    Name,
    /// Busiest first.
    Cpu,
    Memory,
    /// Most best-effort work first.
    Batch,
}

impl Sort {
    pub fn compare(self, a: &NodeRow, b: &NodeRow) -> Ordering {
        let order = match self {
            Self::State => a.state.cmp(&b.state),
            Self::Name => Ordering::Equal,
            Self::Cpu => b.used_percent().cmp(&a.used_percent()),
            Self::Memory => b.used.map(|used| used.bytes).cmp(&a.used.map(|used| used.bytes)),
            Self::Batch => b.classes.map(|one| one.be).cmp(&a.classes.map(|one| one.be)),
        };
        order.then_with(|| a.name.cmp(&b.name))
    }
}
