//! How much cache and memory bandwidth do the classes use? Counters of resctrl.
//!
//! The groups are those of the cache strategy: LSR, LS and BE. A class without a group is left out; it
//! may appear later. Bandwidth counters grow for ever, so the change since the last reading is told too.

use std::sync::Arc;
use std::time::Duration;

use api::qos::QosClass;
use groups::resctrl::Group;
use host::Reading;
use host::fs::{Buffer, HostFs};
use host::resctrl::{DomainUse, MonitorGroup, Resctrl};
use stats::{Delta, Rate, RateRule};

use super::Trouble;
use crate::series::{CacheUse, Metrics, QosCacheUse};

const CLASSES: [QosClass; 3] = [QosClass::Lsr, QosClass::Ls, QosClass::Be];

/// Two readings may be this far apart: the interval is seconds, and the counters are 32 bits and more.
const RULE_INTERVAL: Duration = Duration::from_secs(60);

/// The counters of all classes.
#[derive(Debug, Default)]
pub(super) struct CacheMonitor {
    classes: [Class; CLASSES.len()],
    uses: Vec<DomainUse>,
}

#[derive(Debug, Default)]
struct Class {
    monitor: Option<MonitorGroup>,
    /// Local and total bandwidth by cache id.
    rates: Vec<(u32, Rate, Rate)>,
}

impl CacheMonitor {
    /// Reads all classes that have a group.
    pub(super) fn tick(
        &mut self,
        fs: &Arc<dyn HostFs>,
        buffer: &mut Buffer,
        now: Duration,
        metrics: &Metrics,
    ) -> Result<(), Trouble> {
        let Reading::Value(resctrl) = Resctrl::find(fs.clone()) else {
            return Err(Trouble::Unsupported);
        };
        let mut found = Vec::with_capacity(CLASSES.len());
        for (class, state) in CLASSES.into_iter().zip(&mut self.classes) {
            if state.monitor.is_none()
                && let Some(group) = Group::new(class.as_str())
            {
                state.monitor = resctrl.monitor(&group)?.value();
            }
            let Some(monitor) = &state.monitor else { continue };
            let is_read = monitor.read(buffer, &mut self.uses).is_ok();
            let is_empty = self.uses.iter().all(|domain| domain.llc_occupancy.is_none());
            if !is_read || is_empty {
                // The group may have been removed and made again; look for it next time.
                *state = Class::default();
                continue;
            }
            let caches = self.uses.iter().map(|domain| state.follow(domain, now)).collect();
            found.push(QosCacheUse { at: now, class, caches });
        }
        metrics.lock().facts.cache = Arc::new(found);
        Ok(())
    }
}

impl Class {
    fn follow(&mut self, domain: &DomainUse, now: Duration) -> CacheUse {
        let place = match self.rates.iter().position(|(id, ..)| *id == domain.id) {
            Some(place) => place,
            None => {
                self.rates.push((domain.id, Rate::default(), Rate::default()));
                self.rates.len() - 1
            }
        };
        let mut rates = (None, None);
        if let Some((_, local, total)) = self.rates.get_mut(place) {
            let rule = RateRule::every(RULE_INTERVAL);
            let rate = |rate: &mut Rate, counter: Option<u64>| {
                rate.advance(counter?, now, rule).map(Delta::per_second)
            };
            rates = (rate(local, domain.mbm_local_bytes), rate(total, domain.mbm_total_bytes));
        }
        CacheUse {
            id: domain.id,
            occupancy: domain.llc_occupancy,
            local_bytes: domain.mbm_local_bytes,
            total_bytes: domain.mbm_total_bytes,
            local_rate: rates.0,
            total_rate: rates.1,
        }
    }
}
