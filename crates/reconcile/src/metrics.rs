//! What does a process count, and how is it shown?
//!
//! Names, labels, help and buckets come from rows of [`api::protocol::metric`]; the registry belongs
//! to the process. A series appears when something was observed; before that a page would not even
//! say which names there are. So every known name has its help and its type on the page, with or
//! without series.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use api::protocol::metric::{Kind, Metric};
use bytes::Bytes;
use hyper::StatusCode;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    Encoder, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder,
};

use crate::listen::{self, Reply};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page with these families, and the names of `known` metrics that have none.
pub fn page<'m>(families: &[MetricFamily], known: impl IntoIterator<Item = &'m Metric>) -> Reply {
    let mut body = Vec::new();
    if let Err(error) = TextEncoder::new().encode(families, &mut body) {
        return listen::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    }
    let shown: BTreeSet<&str> = families.iter().map(MetricFamily::name).collect();
    let mut rest = String::new();
    for metric in known.into_iter().filter(|metric| !shown.contains(metric.name)) {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let Metric { name, help, .. } = metric;
        // Writing into a text does not fail.
        let _ = writeln!(rest, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
    body.extend(rest.into_bytes());
    listen::reply(StatusCode::OK, TEXT, Bytes::from(body))
}

/// Makes the instrument of a row and registers it; fails when the registry has the name already.
#[derive(Debug, Clone, Copy)]
pub struct Registrar<'a>(pub &'a Registry);

impl Registrar<'_> {
    fn register<C: Collector + Clone + 'static>(&self, made: C) -> prometheus::Result<C> {
        self.0.register(Box::new(made.clone()))?;
        Ok(made)
    }

    pub fn counters(&self, metric: &Metric) -> prometheus::Result<IntCounterVec> {
        self.register(IntCounterVec::new(options(metric), metric.labels)?)
    }

    pub fn counter(&self, metric: &Metric) -> prometheus::Result<IntCounter> {
        self.register(IntCounter::with_opts(options(metric))?)
    }

    /// Gauges of whole numbers.
    pub fn gauges(&self, metric: &Metric) -> prometheus::Result<IntGaugeVec> {
        self.register(IntGaugeVec::new(options(metric), metric.labels)?)
    }

    /// A gauge of a whole number.
    pub fn gauge(&self, metric: &Metric) -> prometheus::Result<IntGauge> {
        self.register(IntGauge::with_opts(options(metric))?)
    }

    pub fn float_gauges(&self, metric: &Metric) -> prometheus::Result<GaugeVec> {
        self.register(GaugeVec::new(options(metric), metric.labels)?)
    }

    pub fn histograms(&self, metric: &Metric) -> prometheus::Result<HistogramVec> {
        self.register(HistogramVec::new(histogram_options(metric), metric.labels)?)
    }

    pub fn histogram(&self, metric: &Metric) -> prometheus::Result<Histogram> {
        self.register(Histogram::with_opts(histogram_options(metric))?)
    }
}

fn options(metric: &Metric) -> Opts {
    Opts::new(metric.name, metric.help)
}

fn histogram_options(metric: &Metric) -> HistogramOpts {
    let options = HistogramOpts::new(metric.name, metric.help);
    match metric.kind {
        Kind::Histogram(buckets) => options.buckets(buckets.upper_bounds()),
        Kind::Counter | Kind::Gauge => options,
    }
}
