//! How long do pods and containers wait for CPU, memory and IO? Pressure stall information.

use host::Reading;
use host::psi::{Pressure, Resource};

use super::group::{Group, Pass};
use crate::series::{Metrics, PressureSample, Subject};

/// What a round found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) read: usize,
    pub(super) unsupported: usize,
}

/// Reads the three pressures of one group and writes them down.
pub(super) fn sample(
    subject: Subject<'_>,
    group: &mut Group,
    pass: &mut Pass<'_>,
    metrics: &Metrics,
    round: &mut Round,
) {
    let Some(reader) = group.open_reader() else { return };
    let mut read = |resource| match reader.pressure(resource, pass.buffer) {
        Ok(Reading::Value(pressure)) => {
            round.read += 1;
            Some(pressure)
        }
        Ok(Reading::Unsupported) => {
            round.unsupported += 1;
            None
        }
        Ok(Reading::Gone) | Err(_) => None,
    };
    let [cpu, memory, io]: [Option<Pressure>; 3] = Resource::ALL.map(&mut read);
    if cpu.is_some() || memory.is_some() || io.is_some() {
        let sample = PressureSample { at: pass.now, cpu, memory, io };
        metrics.lock().set_pressure(subject, sample);
    }
}
