//! The program as one of the two processes that measure how late threads wake up.

#![expect(clippy::unwrap_used, reason = "a test has to stop at the first surprise")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn told(line: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tidepool"))
        .arg("wake-probe")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    program.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    program.wait_with_output().unwrap()
}

/// The first CPU that this process may run on.
fn cpu() -> u16 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    cpus.trim().parse::<units::CpuSet>().unwrap().first().unwrap()
}

#[test]
fn it_wakes_up_spins_and_refuses_what_it_was_not_made_for() {
    let cpu = cpu();
    let woken = told(&format!("wake {cpu} 50\n"));
    let said = String::from_utf8(woken.stdout).unwrap();
    assert!(woken.status.success() && said.starts_with("delays "), "{said:?}");
    let spun = told(&format!("spin {cpu} 5\n"));
    assert!(spun.status.success() && spun.stdout.is_empty());
    assert!(told("").status.success(), "nobody wants anything of it");
    for line in ["spin\n", "wake 65535 50\n", "spin 0 99999\n"] {
        assert_eq!(told(line).status.code(), Some(2), "{line:?}");
    }
}
