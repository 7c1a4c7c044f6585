//! The agent under the reference's name: what do koordlet's flags mean to us?
//!
//! Every flag of the reference is known and its value checked. Those that tune what we do not have
//! (its time series database, its profiler, its unused ConfigMap) are accepted and do nothing.

mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use agent::act::Prober;
use agent::audit;
use agent::collect::CollectSettings;
use agent::config::{Acting, Groups, KubeletAccess};
use agent::kubelet;
use agent::predict::PredictSettings;
use agent::status::cadence;
use anyhow::{Context, bail};
use api::protocol::endpoint::agent::{AUDIT_DIR, DEVICE_INFO_DIR, KUBELET_READ_ONLY_PORT};
use api::protocol::gate::{AgentGate, Gates};
use host::fs::Mounts;
use tracing::warn;
use units::GoDuration;

use super::plan::Plan;
use super::{KubeletTls, access, at_least_a_second, service_account};
use crate::go_flags::{Flags, Given, Parsed, Unknown};
use crate::{Outcome, finish, logging, output};

/// The name of a link to this program that makes it speak the reference's flags.
pub(crate) const LINK: &str = "koordlet";

/// What the process inherits.
#[derive(Debug, Default)]
struct Environment {
    node_name: String,
    /// `hostMode` or `dsMode`.
    mode: Option<String>,
    /// Whether kernel files are given back at the end.
    cleans_up: bool,
}

/// Runs the agent with the words after the program's name.
pub(crate) fn run(words: impl Iterator<Item = String>) -> ExitCode {
    let environment = Environment {
        node_name: std::env::var("NODE_NAME").unwrap_or_default(),
        mode: std::env::var("agent_mode").ok(),
        cleans_up: std::env::var("TIDEPOOL_CLEANUP_ON_EXIT").is_ok_and(|word| word == "true"),
    };
    finish(start(words, environment))
}

fn start(words: impl Iterator<Item = String>, environment: Environment) -> anyhow::Result<Outcome> {
    let flags = match Flags::parse(LINK, &[&table::flags()], Unknown::Skipped, words)? {
        Parsed::Help(text) => {
            output::print(&text)?;
            return Ok(Outcome::Done);
        }
        Parsed::Run(flags) => flags,
    };
    logging::start(verbosity(flags.given()));
    let (plan, warnings) = resolve(flags.given(), environment)?;
    for warning in warnings {
        warn!("{warning}");
    }
    plan.run()
}

/// klog's levels as ours: 0 to 3 say what is done, 4 and 5 also why nothing is.
fn verbosity(given: Given<'_>) -> u8 {
    match given.int("v").unwrap_or(0) {
        ..=3 => 1,
        4..=5 => 2,
        _ => 3,
    }
}

fn resolve(given: Given<'_>, environment: Environment) -> anyhow::Result<(Plan, Vec<String>)> {
    let mut warnings: Vec<String> =
        given.unknown().iter().map(|flag| format!("{flag} is not known and ignored")).collect();
    if environment.node_name.is_empty() {
        bail!("NODE_NAME is not set; give the pod the name of its node (fieldRef spec.nodeName)");
    }
    let (gates, errors) =
        Gates::<AgentGate>::parse(given.text("feature-gates").unwrap_or_default());
    warnings.extend(errors.iter().map(|error| format!("-feature-gates: {error}; ignored")));
    if given.bool("enable-pprof") == Some(true) {
        warnings.push("-enable-pprof: there is no profiler to serve; ignored".to_owned());
    }
    let mounts = mounts(given, environment.mode.as_deref(), &mut warnings);
    let directory = |name: &str, default: &str| PathBuf::from(given.text(name).unwrap_or(default));
    let is_audited = gates.is_on(AgentGate::AuditEvents);
    let plan = Plan {
        node_name: environment.node_name,
        kubeconfig: None,
        lock: Some(mounts.var_run.join("koordlet/agent.lock")),
        act: Some(Acting {
            cleanup_on_exit: environment.cleans_up,
            keep_quota_of_bound: given.bool("disable-unset-cpu-quota").unwrap_or_default(),
            prober: Some(Prober::this_program()),
            ..Acting::new(mounts.var_run.join("koordlet"))
        }),
        // The reference kills unless told not to; here that has to be said.
        evict: super::evictions(given.bool("only-evict-by-api") == Some(false)),
        mounts,
        listen: listen(given.text("addr").unwrap_or(":9316")),
        groups: Groups::Find { below: String::new() },
        kubelet: Some(kubelet(given)?),
        collect: collect(given)?,
        predict: predict(given)?,
        report: given
            .bool("enable-node-metric-report")
            .unwrap_or(true)
            .then(cadence::Settings::default),
        topology_interval: positive(given, "node-topology-sync-interval", Duration::from_secs(3))?,
        device_dir: directory("xpu-device-infos-dir", DEVICE_INFO_DIR),
        audit: audit::Settings {
            verbosity: number(given, "audit-verbose", 3)?,
            log: is_audited.then_some(audit::LogSettings {
                dir: directory("audit-log-dir", AUDIT_DIR),
                max_disk_mib: number(given, "audit-max-disk-space-mb", 16)?,
            }),
            max_readers: number(given, "audit-max-concurrent-readers", 4)?,
            max_page: number(given, "audit-max-events-limit", 2048)?,
        },
        gates,
    };
    Ok((plan, warnings))
}

/// Go listens everywhere when only a port is given.
fn listen(address: &str) -> String {
    if address.starts_with(':') { format!("0.0.0.0{address}") } else { address.to_owned() }
}

fn mounts(given: Given<'_>, mode: Option<&str>, warnings: &mut Vec<String>) -> Mounts {
    let default = match mode {
        Some("hostMode") => Mounts::host(),
        None | Some("dsMode" | "") => Mounts::container(),
        Some(other) => {
            warnings.push(format!(
                "agent_mode {other:?} is neither hostMode nor dsMode; taken for dsMode"
            ));
            Mounts::container()
        }
    };
    let place = |name: &str, default: PathBuf| given.text(name).map_or(default, PathBuf::from);
    Mounts {
        cgroup: place("cgroup-root-dir", default.cgroup),
        proc: place("proc-root-dir", default.proc),
        sys: place("sys-root-dir", default.sys),
        sys_fs: place("sys-fs-root-dir", default.sys_fs),
        run: place("run-root-dir", default.run),
        var_run: place("var-run-root-dir", default.var_run),
    }
}

fn kubelet(given: Given<'_>) -> anyhow::Result<KubeletAccess> {
    let default = kubelet::Settings::default();
    // The reference's `insecure` is the read-only port. Ours is a flag of its own.
    let tls = match (given.bool("kubelet-insecure-tls"), given.text("kubelet-tls")) {
        (Some(true), _) | (_, Some("read-only")) => KubeletTls::ReadOnly,
        (_, Some("unverified")) => KubeletTls::Unverified,
        (_, None | Some("verified")) => KubeletTls::Verified,
        (_, Some(other)) => {
            bail!("-kubelet-tls: {other:?} is not verified, unverified or read-only")
        }
    };
    let ca = given.text("kubelet-ca-file").map(PathBuf::from);
    let port = number(given, "kubelet-read-only-port", KUBELET_READ_ONLY_PORT)?;
    let address_type = given.text("kubelet-preferred-address-type");
    Ok(KubeletAccess {
        settings: kubelet::Settings {
            address_type: address_type.map_or(default.address_type, str::to_owned),
            access: access(tls, ca, service_account(), port),
            interval: positive(given, "kubelet-sync-interval", default.interval)?,
            timeout: positive(given, "kubelet-sync-timeout", default.timeout)?,
        },
        root: PathBuf::from(given.text("var-lib-kubelet-dir").unwrap_or("/var/lib/kubelet/")),
        ask_config: !given.bool("disable-query-kubelet-config").unwrap_or(false),
    })
}

fn collect(given: Given<'_>) -> anyhow::Result<CollectSettings> {
    let default = CollectSettings::default();
    let usage_interval = match given.duration("collect-res-used-interval") {
        Some(value) => at_least_a_second("-collect-res-used-interval", value)?,
        None => default.usage_interval,
    };
    Ok(CollectSettings {
        usage_interval,
        system_outdated: positive(
            given,
            "collect-sys-metric-outdated-interval",
            default.system_outdated,
        )?,
        node_info_interval: positive(
            given,
            "collect-node-cpu-info-interval",
            default.node_info_interval,
        )?,
        storage_interval: positive(
            given,
            "collect-node-storage-info-interval",
            default.storage_interval,
        )?,
        cpi_interval: positive(given, "cpi-collector-interval", default.cpi_interval)?,
        cpi_window: positive(given, "collect-cpi-timewindow", default.cpi_window)?,
        psi_interval: positive(given, "psi-collector-interval", default.psi_interval)?,
        cold_page_interval: positive(
            given,
            "coldpage-collector-interval",
            default.cold_page_interval,
        )?,
        resctrl_interval: positive(given, "resctrl-collector-interval", default.resctrl_interval)?,
        page_cache: given.bool("enable-pagecache-collector").unwrap_or(default.page_cache),
        resctrl: given.bool("enable-resctrl-collector").unwrap_or(default.resctrl),
        ..default
    })
}

fn predict(given: Given<'_>) -> anyhow::Result<PredictSettings> {
    let default = PredictSettings::default();
    let dir = given.text("prediction-checkpoint-filepath").unwrap_or("/prediction-checkpoints");
    let models = overcommit::predict::Settings {
        cold_start: positive(given, "prediction-cold-start-duration", default.models.cold_start)?,
        safety_margin_percent: number(
            given,
            "prediction-safety-margin-percent",
            default.models.safety_margin_percent,
        )?,
        cpu_half_life: positive(
            given,
            "prediction-cpu-histogram-decay-halflife",
            default.models.cpu_half_life,
        )?,
        memory_half_life: positive(
            given,
            "prediction-memory-histogram-decay-halflife",
            default.models.memory_half_life,
        )?,
        expiration: positive(
            given,
            "prediction-model-expiration-duration",
            default.models.expiration,
        )?,
    };
    Ok(PredictSettings {
        models,
        checkpoint_dir: Some(dir).filter(|dir| !dir.is_empty()).map(PathBuf::from),
        training_interval: positive(
            given,
            "prediction-training-interval",
            default.training_interval,
        )?,
        checkpoint_interval: positive(
            given,
            "prediction-model-checkpoint-interval",
            default.checkpoint_interval,
        )?,
        checkpoints_per_step: number(
            given,
            "prediction-model-checkpoint-max-per-step",
            default.checkpoints_per_step,
        )?,
    })
}

fn positive(given: Given<'_>, name: &str, default: Duration) -> anyhow::Result<Duration> {
    let Some(value) = given.duration(name) else { return Ok(default) };
    let above_zero = |value: &Duration| !value.is_zero();
    let found: Option<Duration> = GoDuration::to_std(value).filter(above_zero);
    found.with_context(|| format!("-{name}: {value} must be above 0"))
}

fn number<T: TryFrom<i64>>(given: Given<'_>, name: &str, default: T) -> anyhow::Result<T> {
    let Some(value) = given.int(name) else { return Ok(default) };
    T::try_from(value).ok().with_context(|| format!("-{name}: {value} is out of range"))
}

#[cfg(test)]
mod tests;
