//! A real cluster, as its operator uses it: install, use, break, upgrade, turn off, uninstall.
//!
//! `TIDEPOOL_KUBE` names a running rig (`cargo xtask kube run -- ...` starts one and sets it). One
//! cluster has one state, so scenarios run one after the other, each on what the last one left; the
//! runner is ours and says what a test binary says. A filter picks scenarios: install comes along.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod batch;
mod classes;
mod evict;
mod existing;
mod faults;
mod guides;
mod install;
mod kernel;
mod metric;
mod rbac;
mod rig;
mod runner;
mod seen;
mod switch;
mod uninstall;
mod webhook;

use std::process::ExitCode;

use crate::runner::Scenario;

/// In the order in which they run. The first two prepare the cluster for all others.
const SCENARIOS: &[Scenario] = &[
    Scenario::basis("existing::koordinators_objects_are_there_first", existing::prepare),
    Scenario::basis("install::the_chart_brings_every_component_up", install::by_chart),
    Scenario::new("install::manifests_pass_a_dry_run_and_upgrade", install::by_manifests),
    Scenario::new("existing::user_data_survives_the_install", existing::survives),
    Scenario::new("rbac::rights_are_those_of_the_tables", rbac::tables),
    Scenario::new("rbac::denied_requests_are_denied", rbac::denials),
    Scenario::new("classes::every_class_gets_its_cpus", classes::cpus),
    Scenario::new("metric::reports_agree_with_the_kernel", metric::agreement),
    Scenario::new("batch::lent_resources_limit_and_suppress", batch::limits),
    Scenario::new("batch::a_profile_turns_an_unchanged_job", batch::profile),
    Scenario::new("evict::a_hog_leaves_with_notice", evict::hog),
    Scenario::new("webhook::failure_policies_hold", webhook::down),
    Scenario::new("faults::the_agent_is_killed", faults::agent),
    Scenario::new("faults::the_api_server_is_killed", faults::api_server),
    Scenario::new("faults::the_kubelet_is_killed", faults::kubelet),
    Scenario::new("faults::the_container_runtime_is_killed", faults::runtime),
    Scenario::new("faults::the_leading_manager_is_killed", faults::leader),
    Scenario::new("faults::the_node_is_reborn", faults::reboot),
    Scenario::new("switch::off_gives_every_file_back", switch::off_and_on),
    Scenario::new("guides::first_batch_job", guides::first_batch_job),
    Scenario::new("uninstall::the_guide_leaves_nothing", uninstall::nothing_left),
    Scenario::new("guides::install_on_a_cluster", guides::install_on_a_cluster),
    Scenario::new("guides::migrate_from_koordinator", guides::migrate_from_koordinator),
];

fn main() -> ExitCode {
    runner::run(SCENARIOS)
}
