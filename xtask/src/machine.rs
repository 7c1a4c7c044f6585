//! What of this machine could the tests lean on without saying so?
//!
//! Settings of the kernel that programs of a cluster like to change, control groups that an earlier run
//! left, programs that an earlier run kept. All of it is printed before the tests. Empty groups of ended
//! runs are removed, groups in use are refused, and a setting that is another one at the end than at
//! the beginning fails the run: the next one would no longer be on the machine that it says it is on.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{debian, kube::cgroups, suite::tally::Outcome};

/// Settings that a kubelet or a container runtime changes, and what a new machine has.
const SETTINGS: [(&str, &str); 8] = [
    ("kernel/keys/root_maxbytes", "20000"),
    ("kernel/keys/root_maxkeys", "200"),
    ("kernel/panic", "0 or 1"),
    ("kernel/panic_on_oops", "0"),
    ("kernel/unprivileged_userns_clone", "1"),
    ("net/ipv4/ip_forward", "0"),
    ("vm/overcommit_memory", "0"),
    ("vm/panic_on_oom", "0"),
];

/// Control groups of tests begin so.
const GROUPS: [&str; 2] = ["tidepool-test-", "tidepool-kube-"];

/// The machine at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    settings: BTreeMap<&'static str, String>,
}

impl Machine {
    pub(crate) fn read() -> Self {
        Self::below(Path::new("/proc/sys"))
    }

    /// Settings that this kernel does not have are left out.
    fn below(root: &Path) -> Self {
        let value = |name: &str| Some(fs::read_to_string(root.join(name)).ok()?.trim().to_owned());
        let settings = SETTINGS.iter().filter_map(|(name, _)| Some((*name, value(name)?)));
        Self { settings: settings.collect() }
    }

    /// Passes when every setting is what it was.
    pub(crate) fn is_still(&self, now: &Self) -> Outcome {
        let changed: Vec<_> = SETTINGS
            .iter()
            .filter(|(name, _)| self.settings.get(name) != now.settings.get(name))
            .map(|(name, _)| {
                let value =
                    |machine: &Self| machine.settings.get(name).cloned().unwrap_or_default();
                format!("{} was {} and is {}", dotted(name), value(self), value(now))
            })
            .collect();
        match changed.is_empty() {
            true => Ok(()),
            false => Err(format!("the run has changed this machine: {}", changed.join("; "))),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, default) in SETTINGS {
            let Some(value) = self.settings.get(name) else { continue };
            let is_new = default.split(" or ").any(|default| default == value);
            let remark = if is_new { "" } else { "  (no test may need that)" };
            writeln!(f, "  {:<34} {value:<6} new machines: {default}{remark}", dotted(name))?;
        }
        Ok(())
    }
}

fn dotted(name: &str) -> String {
    name.replace('/', ".")
}

/// Removes what ended runs left behind; fails when there is something that it may not remove.
pub(crate) fn sweep_groups() -> Result<Outcome> {
    let mut in_use = Vec::new();
    for name in GROUPS.iter().flat_map(|prefix| cgroups::all_with_prefix(prefix)) {
        if cgroups::has_processes(&name) {
            in_use.push(name);
            continue;
        }
        println!("  removing the empty control group {name} of an earlier run");
        cgroups::remove(&name)?;
    }
    Ok(match in_use.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "processes of another run are in the control groups {}; wait for it or end them",
            in_use.join(", ")
        )),
    })
}

/// What earlier runs fetched or built, each named after its version.
pub(crate) fn kept_programs() -> Vec<String> {
    let Ok(entries) = debian::cache().and_then(|cache| Ok(fs::read_dir(cache)?)) else {
        return Vec::new();
    };
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir());
    let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
    let mut names: Vec<_> = folders.filter_map(name).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(overcommit: &str) -> Machine {
        Machine { settings: BTreeMap::from([("vm/overcommit_memory", overcommit.to_owned())]) }
    }

    #[test]
    fn a_setting_that_a_run_changed_is_told() {
        assert_eq!(machine("0").is_still(&machine("0")), Ok(()));
        let told = machine("0").is_still(&machine("1")).unwrap_err();
        assert!(told.ends_with("vm.overcommit_memory was 0 and is 1"), "{told}");
    }

    #[test]
    fn what_an_earlier_run_left_is_marked() {
        let shown = machine("0").to_string();
        assert!(shown.contains("vm.overcommit_memory") && !shown.contains("no test"), "{shown}");
        assert!(machine("1").to_string().contains("no test may need that"));
    }

    #[test]
    fn settings_that_the_kernel_does_not_have_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Machine::below(root.path()).to_string(), "");
        fs::create_dir(root.path().join("vm")).unwrap();
        fs::write(root.path().join("vm/overcommit_memory"), "1\n").unwrap();
        assert_eq!(Machine::below(root.path()), machine("1"));
    }
}
