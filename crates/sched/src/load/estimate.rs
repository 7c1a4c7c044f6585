//! How much will a pod use that has not been measured yet?
//!
//! For each resource with a factor, under the name the pod's priority class has for it:
//!
//! ```text
//! q = max(limit, request)
//! estimate = q = 0 ? a small default : min(round(q * factor%), limit)
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use api::metadata::Wire;
use api::priority::PriorityClass;
use api::protocol::pod::{
    LOAD_SCALING_FACTORS, LOAD_SECONDS_AFTER_INITIALIZED, LOAD_SECONDS_AFTER_SCHEDULED,
};
use api::protocol::resource::{CPU, MEMORY};
use api::resources::name_for;

use super::args::{Column, Settings};
use crate::model::{Class, Names, Requests, Resources};

/// What a pod without any request is taken to use.
const DEFAULT_MILLI_CPU: i64 = 250;
const DEFAULT_MEMORY: i64 = 200 << 20;

/// What is asked of a pod to estimate it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// With the default that follows from the QoS class.
    pub class: PriorityClass,
    pub requests: &'a Requests,
    pub limits: &'a Requests,
}

/// What is expected of a pod, and how long it counts over what is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Estimate {
    /// By column.
    pub amounts: Box<[i64]>,
    pub after_scheduled: Option<Duration>,
    pub after_initialized: Option<Duration>,
    pub is_prod: bool,
}

impl Estimate {
    /// The estimate for pods of a class, with factors and times of their own where that is allowed.
    pub fn of(settings: &Settings, class: &Class, names: &Names, resources: &Resources) -> Self {
        let subject = Subject {
            class: class.effective_priority_class,
            requests: &class.requests,
            limits: &class.limits,
        };
        let text = |name: &str| {
            let value = class.annotations.get(names.find(name)?)?;
            Some(names.text(value)).filter(|_| settings.honours_pods)
        };
        let own: BTreeMap<String, i64> = text(LOAD_SCALING_FACTORS.name)
            .and_then(|text| BTreeMap::parse(text).0)
            .unwrap_or_default();
        let seconds = |name| {
            let seconds = text(name).and_then(|text| i64::parse(text).0);
            seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs)
        };
        Self {
            amounts: subject.amounts(&settings.columns, &own, resources),
            after_scheduled: seconds(LOAD_SECONDS_AFTER_SCHEDULED.name)
                .or(settings.after_scheduled),
            after_initialized: seconds(LOAD_SECONDS_AFTER_INITIALIZED.name)
                .or(settings.after_initialized),
            is_prod: class.effective_priority_class == PriorityClass::Prod,
        }
    }
}

impl Subject<'_> {
    /// Estimates by column; `own` factors between 1 and 100 count over the configured ones.
    pub fn amounts(
        &self,
        columns: &[Column],
        own: &BTreeMap<String, i64>,
        resources: &Resources,
    ) -> Box<[i64]> {
        let amount = |column: &Column| {
            let own = own.get(&column.name).copied().filter(|own| (1..=100).contains(own));
            own.or(column.factor).map_or(0, |factor| self.amount(column, factor, resources))
        };
        columns.iter().map(amount).collect()
    }

    fn amount(&self, column: &Column, factor: i64, resources: &Resources) -> i64 {
        let is_native = column.name == CPU || column.name == MEMORY;
        if self.class == PriorityClass::Free && is_native {
            return 0;
        }
        let id = match name_for(self.class, &column.name) {
            Some(name) => resources.find(name),
            None => Some(column.id),
        };
        let (request, limit) = id.map_or((0, 0), |id| (self.requests.get(id), self.limits.get(id)));
        let asked = request.max(limit);
        if asked <= 0 {
            let has_default = matches!(self.class, PriorityClass::Prod | PriorityClass::Batch);
            return match column.name.as_str() {
                CPU if has_default => DEFAULT_MILLI_CPU,
                MEMORY if has_default => DEFAULT_MEMORY,
                _ => 0,
            };
        }
        let scaled = (i128::from(asked) * i128::from(factor) + 50) / 100;
        let scaled = i64::try_from(scaled).unwrap_or(i64::MAX);
        if limit > 0 { scaled.min(limit) } else { scaled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::args::Args;
    use crate::model::ResourceId;

    const GIB: i64 = 1 << 30;

    #[test]
    fn estimates_follow_class_limit_and_factor() {
        let mut resources = Resources::default();
        let settings = Settings::new(&Args::default().completed(), &mut resources);
        let batch_cpu = resources.intern("kubernetes.io/batch-cpu");
        let batch_memory = resources.intern("kubernetes.io/batch-memory");
        let list = |pairs: &[(ResourceId, i64)]| pairs.iter().copied().collect::<Requests>();
        let (cpu, memory) = (ResourceId::CPU, ResourceId::MEMORY);
        let none = list(&[]);
        use PriorityClass::{Batch, Free, Mid, Prod};
        let both = |cores, gib| list(&[(cpu, cores), (memory, gib * GIB)]);
        let cases = [
            ("L1 B", Prod, both(4_000, 8), both(8_000, 8), [6_800, 6_012_954_214]),
            (
                "L1 C",
                Batch,
                list(&[(batch_cpu, 4_000), (batch_memory, 8 * GIB)]),
                none.clone(),
                [3_400, 6_012_954_214],
            ),
            ("L1 D", Prod, both(2_000, 4), both(4_000, 4), [3_400, 3_006_477_107]),
            ("L10 prod", Prod, none.clone(), none.clone(), [250, 209_715_200]),
            ("L10 batch", Batch, none.clone(), none.clone(), [250, 209_715_200]),
            ("L10 mid", Mid, none.clone(), none.clone(), [0, 0]),
            ("free", Free, both(1_000, 1), none.clone(), [0, 0]),
            ("batch with native names", Batch, both(1_000, 1), none.clone(), [250, 209_715_200]),
        ];
        for (name, class, requests, limits, want) in cases {
            let subject = Subject { class, requests: &requests, limits: &limits };
            let got = subject.amounts(&settings.columns, &BTreeMap::new(), &resources);
            assert_eq!(got[..], want, "{name}");
        }
    }

    #[test]
    fn own_factors_count_within_bounds_and_never_exceed_the_limit() {
        let mut resources = Resources::default();
        let settings = Settings::new(&Args::default().completed(), &mut resources);
        let (requests, limits) = (
            [(ResourceId::CPU, 1_001)].into_iter().collect::<Requests>(),
            [(ResourceId::CPU, 1)].into_iter().collect::<Requests>(),
        );
        let subject = Subject {
            class: PriorityClass::Prod,
            requests: &requests,
            limits: &Requests::default(),
        };
        let amounts = |subject: Subject<'_>, factor| {
            let own = [("cpu".to_owned(), factor)].into();
            subject.amounts(&settings.columns, &own, &resources)[0]
        };
        assert_eq!(amounts(subject, 50), 501, "halves go up");
        assert_eq!(amounts(subject, 0), 851, "out of bounds: the configured one");
        assert_eq!(amounts(subject, 101), 851);
        assert_eq!(amounts(Subject { limits: &limits, ..subject }, 50), 1, "capped");
    }
}
