//! What do pods and host applications above batch take?
//!
//! Each pod is matched with its line in the node's report and counted three ways:
//!
//! | pod | request | usage | the larger |
//! |---|---|---|---|
//! | batch or free | – | – | – |
//! | above, not reported yet | request | request | request |
//! | above, LSE | request | request of CPU, usage of memory | max of both |
//! | above, other | request | usage | max of both |
//! | reported, but not there | – | usage | usage |
//!
//! A pod that was just started is charged its request, because nothing else is known of it. A pod
//! that is gone is charged until the next report, because its memory may not be free yet. The CPUs
//! of an LSE pod are its own whether it uses them or not.

use api::priority::PriorityClass;
use serde::Serialize;

use crate::Amounts;
use crate::facts::{PodFacts, PodUsage, Pods, is_lent_to};

/// Sums over everything above batch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    pub request: Amounts,
    pub usage: Amounts,
    pub larger: Amounts,
    /// Requests of prod pods alone, for mid resources.
    pub prod_request: Amounts,
    pub counts: Counts,
}

/// How many pods went into the sums, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Charged for.
    pub charged: usize,
    /// Of those, charged their request for want of a report.
    pub unreported: usize,
    /// Reported, but not there.
    pub gone: usize,
    /// Batch and free pods.
    pub lent_to: usize,
}

/// A pod's contribution to the sums.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Charge {
    pub(crate) request: Amounts,
    pub(crate) usage: Amounts,
    pub(crate) larger: Amounts,
}

impl Charge {
    fn of(pod: &PodFacts, reported: Option<&PodUsage>) -> Self {
        let request = pod.request;
        let Some(reported) = reported else {
            return Self { request, usage: request, larger: request };
        };
        let mut usage = reported.usage;
        if pod.is_exclusive {
            usage.cpu = request.cpu;
        }
        Self { request, usage, larger: request.max(reported.usage) }
    }

    fn gone(reported: &PodUsage) -> Self {
        Self { request: Amounts::ZERO, usage: reported.usage, larger: reported.usage }
    }
}

/// One line of the join between pods and report.
#[derive(Clone, Copy)]
pub(crate) enum Line<'a> {
    LentTo,
    /// A pod above batch, with its report if there is one.
    Present(&'a PodFacts, Option<&'a PodUsage>),
    /// A report above batch without a pod.
    Gone(&'a PodUsage),
}

impl Line<'_> {
    /// What the line is charged; nothing for what lives on lent resources.
    pub(crate) fn charge(self) -> Option<Charge> {
        match self {
            Self::LentTo => None,
            Self::Present(pod, reported) => Some(Charge::of(pod, reported)),
            Self::Gone(reported) => Some(Charge::gone(reported)),
        }
    }
}

/// Matches pods with their reports; both come in order of key.
pub(crate) fn lines<'a>(pods: &'a Pods, reports: &'a [PodUsage]) -> impl Iterator<Item = Line<'a>> {
    let mut pods = pods.iter().peekable();
    let mut reports = reports.iter().peekable();
    std::iter::from_fn(move || {
        let order = match (pods.peek(), reports.peek()) {
            (Some(pod), Some(report)) => pod.key.cmp(&report.key),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return None,
        };
        let pod = if order.is_le() { pods.next() } else { None };
        let report = if order.is_ge() { reports.next() } else { None };
        line(pod, report)
    })
}

fn line<'a>(pod: Option<&'a PodFacts>, report: Option<&'a PodUsage>) -> Option<Line<'a>> {
    Some(match (pod, report) {
        (Some(pod), _) if pod.is_lent_to() => Line::LentTo,
        (Some(pod), report) => Line::Present(pod, report),
        (None, report) => {
            let report = report?;
            if is_lent_to(report.class) { Line::LentTo } else { Line::Gone(report) }
        }
    })
}

impl Load {
    pub fn of(pods: &Pods, reports: &[PodUsage]) -> Self {
        let mut load = Self::default();
        for line in lines(pods, reports) {
            load.add(line);
        }
        load
    }

    fn add(&mut self, line: Line<'_>) {
        let counts = &mut self.counts;
        match line {
            Line::LentTo => counts.lent_to += 1,
            Line::Present(_, reported) => {
                counts.charged += 1;
                counts.unreported += usize::from(reported.is_none());
            }
            Line::Gone(_) => counts.gone += 1,
        }
        let Some(charge) = line.charge() else { return };
        self.request += charge.request;
        self.usage += charge.usage;
        self.larger += charge.larger;
        if let Line::Present(pod, _) = line
            && pod.class == PriorityClass::Prod
        {
            self.prod_request += charge.request;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pair;
    use crate::example::{N, gib};

    #[test]
    fn sums_of_the_example() {
        let node = N::new();
        let load = Load::of(&node.pods, &node.metric.pods);
        assert_eq!(load.request.counts(), Pair::new(28_000, gib(104)));
        assert_eq!(load.usage.counts(), Pair::new(22_000, gib(86)));
        assert_eq!(load.larger.counts(), Pair::new(32_000, gib(112)));
        assert_eq!(load.prod_request.counts(), Pair::new(28_000, gib(104)));
        let counts = Counts { charged: 4, unreported: 1, gone: 1, lent_to: 1 };
        assert_eq!(load.counts, counts);
    }

    #[test]
    fn reports_without_pods_count_unless_they_are_lent_to() {
        let node = N::new();
        let classes = [
            (None, 1),
            (Some(PriorityClass::Prod), 1),
            (Some(PriorityClass::Mid), 1),
            (Some(PriorityClass::Batch), 0),
            (Some(PriorityClass::Free), 0),
        ];
        for (class, want) in classes {
            let ghost = node.metric.pods.iter().find(|pod| pod.key.as_str() == "d/ghost").unwrap();
            let report = PodUsage { class, ..ghost.clone() };
            let load = Load::of(&Pods::default(), &[report]);
            assert_eq!(load.counts.gone, want, "{class:?}");
            assert_eq!(load.usage.counts().cpu, if want == 1 { 1_000 } else { 0 }, "{class:?}");
        }
    }
}
