//! The text behind `/metrics`.
//!
//! A series appears when something was observed; before that a page would not even say which
//! names there are. So every known name has its help and its type on the page, with or without
//! series.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use api::protocol::metric::{Kind, Metric};
use bytes::Bytes;
use hyper::StatusCode;
use prometheus::proto::MetricFamily;
use prometheus::{Encoder, TextEncoder};

use crate::listener::{self, Reply};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page with these families, and the names of `known` metrics that have none.
pub(crate) fn page<'m>(
    families: &[MetricFamily],
    known: impl IntoIterator<Item = &'m Metric>,
) -> Reply {
    let mut body = Vec::new();
    if let Err(error) = TextEncoder::new().encode(families, &mut body) {
        return listener::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
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
    listener::reply(StatusCode::OK, TEXT, Bytes::from(body))
}
