//! What came of it: one table and one sentence.

use serde::Serialize;

use super::drive::Latency;
use super::machine::Machine;
use crate::output;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Phase {
    pub(super) utilisation_percent: f64,
    pub(super) batch_units: u64,
    #[serde(flatten)]
    pub(super) latency: Latency,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Phases {
    a: Phase,
    b: Phase,
    c: Phase,
}

/// The same for people and programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    cpus: u32,
    seconds: u16,
    phases: Phases,
    verdict: String,
}

impl Report {
    pub(super) fn new(machine: &Machine, seconds: u16, a: Phase, b: Phase, c: Phase) -> Self {
        let verdict = verdict(&a, &b, &c);
        Self { cpus: machine.cpus, seconds, phases: Phases { a, b, c }, verdict }
    }

    pub(super) fn to_text(&self) -> String {
        let Phases { a, b, c } = &self.phases;
        let row = |name: &str, of: &dyn Fn(&Phase) -> f64, digits: usize| {
            let cell = |phase: &Phase| {
                let ratio = match of(a) {
                    base if base > 0.0 => format!("  {:.2}x", of(phase) / base),
                    _ => String::new(),
                };
                format!("{:.digits$}{ratio}", of(phase))
            };
            [name.to_owned(), format!("{:.digits$}", of(a)), cell(b), cell(c)]
        };
        let rows = [
            row("CPU utilisation, %", &|phase| phase.utilisation_percent, 0),
            row("batch work, units", &|phase| phase.batch_units as f64, 0),
            row("latency p50, ms", &|phase| phase.latency.p50_ms, 2),
            row("latency p99, ms", &|phase| phase.latency.p99_ms, 2),
            row("latency p99.9, ms", &|phase| phase.latency.p999_ms, 2),
            row("missed deadlines, %", &|phase| phase.latency.missed_percent, 2),
        ];
        let header = ["", "A alone", "B beside batch", "C under Tidepool"];
        format!("{}\n{}\n", output::table(header, &rows), self.verdict)
    }
}

/// Plain words, also when there is nothing to boast of.
fn verdict(a: &Phase, b: &Phase, c: &Phase) -> String {
    let gain = c.utilisation_percent - a.utilisation_percent;
    let (alone, beside, held) = (a.latency.p99_ms, b.latency.p99_ms, c.latency.p99_ms);
    let share = 100.0 * c.batch_units as f64 / b.batch_units.max(1) as f64;
    let work = format!(
        "{gain:.0} more points of the machine were used and {share:.0} % of the batch work was done"
    );
    if gain <= 0.0 {
        return "Tidepool does not help on this machine: batch got no room beside the service."
            .into();
    }
    if held >= beside {
        return format!(
            "Tidepool does not help on this machine: the service's p99 is {held:.1} ms under it and \
             {beside:.1} ms without it."
        );
    }
    format!(
        "Under Tidepool {work} that ran unprotected, while the service's p99 was {held:.1} ms instead \
         of {beside:.1} ms ({alone:.1} ms alone)."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(utilisation_percent: f64, batch_units: u64, p99_ms: f64) -> Phase {
        let latency = Latency {
            requests: 10_000,
            p50_ms: 1.1,
            p99_ms,
            p999_ms: 2.0 * p99_ms,
            missed_percent: 0.0,
        };
        Phase { utilisation_percent, batch_units, latency }
    }

    fn report(a: Phase, b: Phase, c: Phase) -> Report {
        let verdict = verdict(&a, &b, &c);
        Report { cpus: 2, seconds: 25, phases: Phases { a, b, c }, verdict }
    }

    #[test]
    fn the_table_gives_every_figure_and_its_ratio() {
        let text = report(phase(24.0, 0, 3.0), phase(99.0, 30_000, 18.0), phase(64.0, 15_000, 4.5));
        let want = "                     A alone  B beside batch  C under Tidepool
CPU utilisation, %   24       99  4.12x       64  2.67x
batch work, units    0        30000           15000
latency p50, ms      1.10     1.10  1.00x     1.10  1.00x
latency p99, ms      3.00     18.00  6.00x    4.50  1.50x
latency p99.9, ms    6.00     36.00  6.00x    9.00  1.50x
missed deadlines, %  0.00     0.00            0.00

Under Tidepool 40 more points of the machine were used and 50 % of the batch work was done that ran unprotected, while the service's p99 was 4.5 ms instead of 18.0 ms (3.0 ms alone).
";
        assert_eq!(text.to_text(), want);
    }

    #[test]
    fn it_says_so_when_it_does_not_help() {
        let (a, b) = (phase(24.0, 0, 3.0), phase(99.0, 30_000, 18.0));
        let cases = [
            ("no room", phase(24.0, 0, 3.0), "no room"),
            ("slower than unprotected", phase(64.0, 15_000, 20.0), "20.0 ms under it"),
        ];
        for (name, c, want) in cases {
            let said = verdict(&a, &b, &c);
            assert!(
                said.starts_with("Tidepool does not help") && said.contains(want),
                "{name}: {said}"
            );
        }
    }
}
