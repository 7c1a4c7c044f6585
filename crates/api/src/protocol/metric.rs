//! Prometheus metrics: name, type, labels, buckets and help.
//!
//! Names are kept to the letter, the counters without `_total` too, because
//! published dashboards query them. Metrics of our own start with `tidepool_`.

pub mod agent;
pub mod descheduler;
pub mod manager;
pub mod scheduler;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram(Buckets),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Buckets {
    /// `start`, `start * factor`, ...: `count` upper bounds.
    Exponential {
        start: f64,
        factor: f64,
        count: usize,
    },
    Explicit(&'static [f64]),
}

impl Buckets {
    pub fn upper_bounds(self) -> Vec<f64> {
        match self {
            Self::Exponential { start, factor, count } => {
                std::iter::successors(Some(start), |bound| Some(bound * factor))
                    .take(count)
                    .collect()
            }
            Self::Explicit(bounds) => bounds.to_vec(),
        }
    }
}

/// Which of the agent's endpoints shows a metric; the merged one shows all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    Internal,
    External,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub endpoint: Endpoint,
}

/// Values of the `unit` label.
pub mod unit {
    pub const CORE: &str = "core";
    pub const BYTE: &str = "byte";
    pub const INTEGER: &str = "integer";
}

/// Values of `status` labels. The reference uses two words for the good one:
/// counters of reconciles and collections say `succeeded`, durations `success`.
pub mod status {
    pub const SUCCEEDED: &str = "succeeded";
    pub const SUCCESS: &str = "success";
    pub const FAILED: &str = "failed";
}

/// Buckets most histograms share.
const fn doubling(start: f64, count: usize) -> Kind {
    Kind::Histogram(Buckets::Exponential { start, factor: 2.0, count })
}

/// Defines metrics, one constant each, and `ALL`. Names get the prefix; the doc
/// comment is the help text.
macro_rules! metrics {
    ($endpoint:expr, $prefix:literal;
     $(#[doc = $help:literal] $id:ident: $kind:expr, $name:literal, [$($label:tt),*];)*) => {
        $(
            #[doc = $help]
            pub const $id: $crate::protocol::metric::Metric = $crate::protocol::metric::Metric {
                name: concat!($prefix, $name),
                help: $help.trim_ascii(),
                kind: $kind,
                labels: &[$(stringify!($label)),*],
                endpoint: $endpoint,
            };
        )*
        pub const ALL: &[$crate::protocol::metric::Metric] = &[$($id),*];
    };
}
pub(crate) use metrics;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_speak_prometheus() {
        let tables = [
            agent::internal::ALL,
            agent::external::ALL,
            manager::ALL,
            scheduler::ALL,
            scheduler::inherited::ALL,
            scheduler::own::ALL,
            descheduler::ALL,
        ];
        let mut names = BTreeSet::new();
        for metric in tables.into_iter().flatten() {
            assert!(names.insert(metric.name), "{} is defined twice", metric.name);
            let words = [metric.name].into_iter().chain(metric.labels.iter().copied());
            for word in words {
                let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
                assert!(word.chars().all(legal), "{}: {word}", metric.name);
            }
            assert!(metric.help.ends_with('.'), "{}: {:?}", metric.name, metric.help);
            if let Kind::Histogram(buckets) = metric.kind {
                let bounds = buckets.upper_bounds();
                assert!(bounds.is_sorted() && bounds.len() > 1, "{}", metric.name);
            }
        }
        assert!(names.contains("descheduler_pods_evicted"), "without _total");
        assert!(names.contains("koord_manager_webhook_webhook_duration_milliseconds"));
    }

    #[test]
    fn exponential_buckets_start_where_they_say() {
        let Kind::Histogram(buckets) = agent::internal::KUBELET_REQUEST_DURATION.kind else {
            panic!("a histogram");
        };
        assert_eq!(buckets.upper_bounds(), [0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096]);
    }
}
