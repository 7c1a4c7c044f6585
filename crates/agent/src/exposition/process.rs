//! What does this process itself cost? The `process_*` metrics that every dashboard knows.

use std::fmt::Write;

/// The lines; what cannot be read is left out.
pub(super) fn text() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let boot = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let mut text = String::new();
    let mut line = |kind: &str, name: &str, help: &str, value: f64| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    };
    if let Some(usage) = Usage::parse(&stat, boot_time(&boot)) {
        line(
            "counter",
            "process_cpu_seconds_total",
            "Total user and system CPU time in seconds.",
            usage.cpu_seconds,
        );
        line("gauge", "process_resident_memory_bytes", "Resident memory in bytes.", usage.resident);
        line(
            "gauge",
            "process_virtual_memory_bytes",
            "Virtual memory in bytes.",
            usage.virtual_memory,
        );
        line("gauge", "process_threads", "Threads of the process.", usage.threads);
        if let Some(start) = usage.start {
            line("gauge", "process_start_time_seconds", "Unix time of the process's start.", start);
        }
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        let open = u32::try_from(open.count()).unwrap_or(u32::MAX);
        line("gauge", "process_open_fds", "Open file descriptors.", open.into());
    }
    text
}

#[derive(Debug, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    resident: f64,
    virtual_memory: f64,
    threads: f64,
    start: Option<f64>,
}

impl Usage {
    /// Reads `/proc/self/stat`. The name in parentheses may hold anything, so fields count after it.
    fn parse(stat: &str, boot: Option<f64>) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let ticks = f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).ok()?);
        let page = f64::from(u32::try_from(rustix::param::page_size()).ok()?);
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            threads: field(20)?,
            start: boot.zip(field(22)).map(|(boot, start)| boot + start / ticks),
            virtual_memory: field(23)?,
            resident: field(24)? * page,
        })
    }
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_confuse() {
        let stat = "7 (a ) (b) S 1 2 3 4 5 6 7 8 9 10 300 100 0 0 20 0 4 0 1000 4096 2 0";
        let usage = Usage::parse(stat, Some(5.0)).unwrap();
        let ticks = f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).unwrap());
        assert_eq!(usage.cpu_seconds, 400.0 / ticks);
        assert_eq!((usage.threads, usage.virtual_memory), (4.0, 4096.0));
        assert_eq!(usage.start, Some(5.0 + 1000.0 / ticks));
    }

    #[test]
    fn what_is_cut_off_is_not_guessed() {
        for stat in ["", "7 (a", "7 (a) S 1 2"] {
            assert_eq!(Usage::parse(stat, None), None, "{stat:?}");
        }
    }

    #[test]
    fn this_process_has_memory_and_descriptors() {
        let text = text();
        for name in
            ["process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"]
        {
            assert!(
                text.lines().any(|line| line.starts_with(&format!("{name} "))),
                "{name}: {text}"
            );
        }
    }
}
