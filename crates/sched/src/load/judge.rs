//! Is a node too busy for a pod, and how idle would it still be?
//!
//! ```text
//! total   = in use + estimates of pods not measured yet + estimate of this pod
//! filter  : reject when round(total / capacity * 100) > threshold, resources in order of name
//! score   : sum(weight * free%) over resources, the scarcest counted again with its own weight
//! ```
//!
//! What "in use" is depends on the path: prod pods may be measured against prod pods alone, and a
//! percentile of the node's usage may stand for the average.

use super::args::{Aggregate, Policy, Settings};
use super::book::Page;
use super::estimate::Estimate;
use super::report::{Found, Usage};

/// Why a node is too busy; columns count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Expired,
    Usage(usize),
    Aggregated(usize),
}

impl Refusal {
    /// A number below `1 + 2 * columns`, and back.
    pub fn number(self, settings: &Settings) -> usize {
        match self {
            Self::Expired => 0,
            Self::Usage(column) => 1 + column,
            Self::Aggregated(column) => 1 + settings.width() + column,
        }
    }

    pub fn from_number(number: usize, settings: &Settings) -> Self {
        match number.checked_sub(1) {
            None => Self::Expired,
            Some(column) if column < settings.width() => Self::Usage(column),
            Some(column) => Self::Aggregated(column - settings.width()),
        }
    }

    pub fn text(self, settings: &Settings) -> String {
        let name = |column: usize| settings.columns.get(column).map_or("", |own| &own.name);
        match self {
            Self::Expired => "node(s) nodeMetric expired".to_owned(),
            Self::Usage(column) => format!("node(s) {} usage exceed threshold", name(column)),
            Self::Aggregated(column) => {
                format!("node(s) {} aggregated usage exceed threshold", name(column))
            }
        }
    }
}

/// What counts as in use.
#[derive(Debug, Clone, Copy)]
enum InUse<'a> {
    /// By prod pods, with the system's usage where that is asked for.
    Prod(Option<&'a [i64]>),
    /// By everything: the average or an aggregate.
    All(&'a [i64]),
    /// Only estimates: the aggregate that was asked for is not there.
    Estimates,
}

impl InUse<'_> {
    fn at(self, page: &Page, column: usize) -> i64 {
        let of = |amounts: &[i64]| amounts.get(column).copied().unwrap_or(0);
        match self {
            Self::Prod(system) => of(&page.sums.prod_usage)
                .saturating_add(system.map_or(0, of))
                .saturating_add(of(&page.sums.prod_delta)),
            Self::All(usage) => of(usage).saturating_add(of(&page.sums.delta)),
            Self::Estimates => of(&page.sums.estimated),
        }
    }
}

/// May the pod go here? Pods of DaemonSets are not asked.
pub fn filter(settings: &Settings, page: &Page, pod: &Estimate) -> Result<(), Refusal> {
    let policy: &Policy = page.policy.as_deref().unwrap_or(&settings.policy);
    let prod = policy.prod.as_ref().filter(|_| pod.is_prod);
    let aggregated = policy.aggregated.as_ref().filter(|_| prod.is_none());
    let thresholds = match (prod, aggregated) {
        (Some(prod), _) => prod,
        (None, Some((thresholds, _))) => thresholds,
        (None, None) => &policy.plain,
    };
    if thresholds.iter().all(|threshold| *threshold == 0) {
        return Ok(());
    }
    let Some(report) = &page.report else { return Ok(()) };
    if page.is_stale && settings.filters_expired {
        return if settings.passes_expired { Ok(()) } else { Err(Refusal::Expired) };
    }
    let Some(usage) = &report.usage else { return Ok(()) };
    let in_use = match aggregated {
        _ if prod.is_some() => prod_use(settings, usage),
        Some((_, aggregate)) => aggregate_use(usage, *aggregate),
        None => InUse::All(&usage.node),
    };
    for (column, threshold) in thresholds.iter().enumerate() {
        let capacity = page.capacity.get(column).copied().unwrap_or(0);
        if *threshold <= 0 || capacity <= 0 {
            continue;
        }
        let total = total(page, in_use, pod, column);
        if percent(total, capacity) > *threshold {
            let is_aggregated = aggregated.is_some();
            let refusal = if is_aggregated { Refusal::Aggregated } else { Refusal::Usage };
            return Err(refusal(column));
        }
    }
    Ok(())
}

/// From 0 to 100; 0 for a node whose usage is not known.
pub fn score(settings: &Settings, page: &Page, pod: &Estimate) -> i64 {
    let Some(report) = &page.report else { return settings.missing_score };
    let Some(usage) = report.usage.as_ref().filter(|_| !page.is_stale) else { return 0 };
    let in_use = if settings.scores_prod_by_prod && pod.is_prod {
        prod_use(settings, usage)
    } else {
        match settings.score_aggregate {
            Some(aggregate) => aggregate_use(usage, aggregate),
            None => InUse::All(&usage.node),
        }
    };
    let (mut sum, mut weights, mut least) = (0_i128, 0_i128, None::<i128>);
    for (at, column) in settings.columns.iter().enumerate() {
        let capacity = page.capacity.get(at).copied().unwrap_or(0);
        let used = total(page, in_use, pod, at);
        let free = match capacity {
            1.. if used <= capacity => {
                (i128::from(capacity) - i128::from(used)) * 100 / i128::from(capacity)
            }
            _ => 0,
        };
        sum += i128::from(column.weight) * free;
        weights += i128::from(column.weight);
        if column.has_say {
            least = Some(least.map_or(free, |least| least.min(free)));
        }
    }
    let dominant = i128::from(settings.dominant_weight);
    sum += dominant * least.unwrap_or(0);
    weights += dominant;
    if weights == 0 { 0 } else { i64::try_from((sum / weights).clamp(0, 100)).unwrap_or(0) }
}

fn prod_use<'a>(settings: &Settings, usage: &'a Usage) -> InUse<'a> {
    InUse::Prod(settings.prod_includes_system.then_some(&usage.system[..]))
}

fn aggregate_use(usage: &Usage, aggregate: Aggregate) -> InUse<'_> {
    match usage.aggregate(aggregate) {
        Found::Amounts(amounts) => InUse::All(amounts),
        Found::Missing => InUse::Estimates,
    }
}

fn total(page: &Page, in_use: InUse<'_>, pod: &Estimate, column: usize) -> i64 {
    let own = pod.amounts.get(column).copied().unwrap_or(0);
    in_use.at(page, column).saturating_add(own)
}

/// The reference's sum in floating point, halves away from zero.
#[expect(clippy::cast_precision_loss, reason = "the reference divides floats")]
#[expect(clippy::cast_possible_truncation, reason = "a float too large for i64 saturates")]
fn percent(total: i64, capacity: i64) -> i64 {
    (total as f64 / capacity as f64 * 100.0).round() as i64
}

#[cfg(test)]
mod tests;
