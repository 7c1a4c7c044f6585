//! koord-scheduler's flags, for manifests that were written for it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context;
use control::scheduler::secure::Secure;
use control::scheduler::{Options, barrier};

use super::{Plan, certificate, configuration, elect, gates};
use crate::go_flags::{Flag, Flags, Kind, LOGGING, Parsed, Unknown};
use crate::{Outcome, logging, output};

/// The link by which these flags are understood.
pub(crate) const LINK: &str = "koord-scheduler";

const FLAGS: &[Flag] = &[
    Flag::new("config", Kind::Text, "", "KubeSchedulerConfiguration to follow"),
    Flag::new("kubeconfig", Kind::Text, "", "kubeconfig file; without one the usual places"),
    Flag::new("master", Kind::Text, "", "accepted; the kubeconfig says where the API server is"),
    Flag::new("address", Kind::Text, "0.0.0.0", "where health, metrics and /apis/v1 are served"),
    Flag::new("port", Kind::Int, "10251", "port of --address; 0 serves nothing"),
    Flag::new("leader-elect", Kind::Text, "", "let one of several replicas decide"),
    Flag::new("leader-elect-lease-duration", Kind::Text, "", "how long a holder's word counts"),
    Flag::new("leader-elect-renew-deadline", Kind::Text, "", "when a holder gives up"),
    Flag::new("leader-elect-retry-period", Kind::Text, "", "how often everybody looks"),
    Flag::new("leader-elect-resource-lock", Kind::Text, "leases", "accepted; always leases"),
    Flag::new("leader-elect-resource-name", Kind::Text, "", "name of the lease"),
    Flag::new("leader-elect-resource-namespace", Kind::Text, "", "namespace of the lease"),
    Flag::new("scheduler-monitor-period", Kind::Duration, "10s", "how often late pods are said"),
    Flag::new("scheduling-timeout", Kind::Duration, "30s", "when a pod on its way is late"),
    Flag::new("feature-gates", Kind::Text, "", "switches, as A=true,B=false"),
    Flag::new("kube-api-qps", Kind::Float, "50", "accepted; requests are not throttled here"),
    Flag::new("kube-api-burst", Kind::Int, "100", "accepted; requests are not throttled here"),
    Flag::new("kube-api-content-type", Kind::Text, "", "accepted; always JSON"),
    Flag::new("controller-plugins", Kind::List, "*", "accepted, no effect yet"),
    Flag::new("scheduling-drop-unhandled-timeout", Kind::Duration, "5s", "accepted, no effect"),
    Flag::new("s", Kind::Int, "0", "accepted, no effect yet"),
    Flag::new("debug-scores", Kind::Int, "0", "accepted, no effect yet"),
    Flag::new("f", Kind::Bool, "false", "accepted, no effect yet"),
    Flag::new("debug-filters", Kind::Bool, "false", "accepted, no effect yet"),
    Flag::new("d", Kind::Bool, "false", "accepted, no effect yet"),
    Flag::new("debug-diagnosis", Kind::Bool, "false", "accepted, no effect yet"),
    Flag::new("debug-diagnosis-blocking", Kind::Bool, "false", "accepted, no effect yet"),
    Flag::new("debug-diagnosis-queue-size", Kind::Int, "1000", "accepted, no effect yet"),
    Flag::new("debug-diagnosis-worker-count", Kind::Int, "10", "accepted, no effect yet"),
    Flag::new("enable-network-topology-manager", Kind::Bool, "false", "accepted, no effect yet"),
    Flag::new(
        "sync-barrier-pod-namespace",
        Kind::Text,
        "kube-system",
        "namespace of the pod that a new leader waits to see (gate SyncBarrier)",
    ),
    Flag::new(
        "sync-barrier-pod-name",
        Kind::Text,
        "koord-scheduler-sync-barrier",
        "name of that pod",
    ),
    Flag::new("sync-hard-timeout", Kind::Duration, "1m", "how long a new leader waits for it"),
    Flag::new("enable-workload-auditor", Kind::Bool, "false", "accepted, no effect yet"),
    Flag::new("bind-address", Kind::Text, "0.0.0.0", "where the same is served over TLS"),
    Flag::new("secure-port", Kind::Int, "10259", "port of --bind-address; 0 serves nothing"),
    Flag::new("cert-dir", Kind::Text, "", "accepted; name the files, or none"),
    Flag::new("tls-cert-file", Kind::Text, "", "certificate to show; without one it is made"),
    Flag::new("tls-private-key-file", Kind::Text, "", "key of --tls-cert-file"),
    Flag::new("authentication-kubeconfig", Kind::Text, "", "accepted; --kubeconfig is used"),
    Flag::new("authorization-kubeconfig", Kind::Text, "", "accepted; --kubeconfig is used"),
    Flag::new("authentication-skip-lookup", Kind::Bool, "false", "accepted; nothing is looked up"),
    Flag::new(
        "authorization-always-allow-paths",
        Kind::List,
        "/healthz,/readyz,/livez",
        "what everybody may read over TLS",
    ),
    Flag::new("profiling", Kind::Bool, "true", "accepted, no effect"),
    Flag::new("contention-profiling", Kind::Bool, "true", "accepted, no effect"),
    Flag::new("show-hidden-metrics-for-version", Kind::Text, "", "accepted, no effect"),
];

/// Runs a scheduler as koord-scheduler would.
pub(crate) fn run(words: impl Iterator<Item = String>) -> anyhow::Result<Outcome> {
    match Flags::parse(LINK, &[FLAGS, LOGGING], Unknown::Refused, words)? {
        Parsed::Help(text) => {
            output::print(&text)?;
            Ok(Outcome::Done)
        }
        Parsed::Run(flags) => {
            logging::start(match flags.log_level() {
                "trace" => 3,
                "debug" => 2,
                _ => 1,
            });
            resolve(&flags)?.run()
        }
    }
}

fn resolve(flags: &Flags) -> anyhow::Result<Plan> {
    let given = |name: &str| Some(flags.text(name)).filter(|text| !text.is_empty());
    let mut options = Options { gates: gates(flags.text("feature-gates"))?, ..Options::default() };
    options.configuration = configuration(given("config").map(std::path::Path::new))?;
    options.listen = address("address", flags.text("address"), "port", flags.int("port"))?;
    let secure = address(
        "bind-address",
        flags.text("bind-address"),
        "secure-port",
        flags.int("secure-port"),
    )?;
    options.secure = secure.map(|address| {
        let open = flags.list("authorization-always-allow-paths").to_vec();
        Secure { open, ..Secure::at(address) }
    });
    let files = (given("tls-cert-file"), given("tls-private-key-file"));
    certificate(&mut options, files.0.map(PathBuf::from), files.1.map(PathBuf::from))?;
    options.barrier = barrier::Settings {
        namespace: flags.text("sync-barrier-pod-namespace").to_owned(),
        name: flags.text("sync-barrier-pod-name").to_owned(),
        patience: flags.duration("sync-hard-timeout"),
    };
    options.scheduling_timeout = flags.duration("scheduling-timeout");
    options.monitor_period = flags.duration("scheduler-monitor-period");
    elect(&mut options, false);
    match given("leader-elect") {
        Some("true") if options.election.is_none() => {
            options.configuration.lease = Some(Default::default());
            elect(&mut options, false);
        }
        Some("false") => options.election = None,
        None | Some("true") => {}
        Some(other) => anyhow::bail!("--leader-elect={other}: write true or false"),
    }
    if let Some(election) = &mut options.election {
        let text = |name: &str, into: &mut String| {
            if let Some(text) = given(name) {
                text.clone_into(into);
            }
        };
        text("leader-elect-resource-name", &mut election.name);
        text("leader-elect-resource-namespace", &mut election.namespace);
        for (name, into) in [
            ("leader-elect-lease-duration", &mut election.length),
            ("leader-elect-renew-deadline", &mut election.deadline),
            ("leader-elect-retry-period", &mut election.retry),
        ] {
            if let Some(text) = given(name) {
                let duration = text.parse::<units::GoDuration>().ok();
                *into = duration
                    .and_then(units::GoDuration::to_std)
                    .with_context(|| format!("--{name}={text}: write a duration such as 15s"))?;
            }
        }
    }
    let kubeconfig = given("kubeconfig").map(str::to_owned);
    let kubeconfig = kubeconfig.or(options.configuration.kubeconfig.clone()).map(PathBuf::from);
    Ok(Plan { kubeconfig, options })
}

/// The address two flags name together.
fn address(
    host_flag: &str,
    host: &str,
    port_flag: &str,
    port: i64,
) -> anyhow::Result<Option<SocketAddr>> {
    if port == 0 {
        return Ok(None);
    }
    let port =
        u16::try_from(port).with_context(|| format!("--{port_flag}={port}: no such port"))?;
    let host: IpAddr =
        host.parse().with_context(|| format!("--{host_flag}={host}: write an IP address"))?;
    Ok(Some(SocketAddr::new(host, port)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn plan(line: &str) -> anyhow::Result<Plan> {
        let words = line.split_whitespace().map(str::to_owned);
        let Parsed::Run(flags) = Flags::parse(LINK, &[FLAGS, LOGGING], Unknown::Refused, words)?
        else {
            panic!("no help was asked for");
        };
        resolve(&flags)
    }

    #[test]
    fn nothing_given_means_the_references_defaults() {
        let options = plan("").unwrap().options;
        assert_eq!(options.listen, Some("0.0.0.0:10251".parse().unwrap()));
        let secure = options.secure.expect("served over TLS");
        assert_eq!((secure.listen.port(), secure.files), (10259, None));
        assert_eq!(secure.open, ["/healthz", "/readyz", "/livez"]);
        assert_eq!(options.barrier, barrier::Settings::default());
        let election = options.election.expect("replicas are usual");
        assert_eq!(election.name, "koord-scheduler");
        assert_eq!(options.configuration.profiles.len(), 1);
        assert_eq!(options.configuration.profiles[0].scheduler_name, "koord-scheduler");
    }

    #[test]
    fn a_manifests_line_is_followed() {
        let line = "--port=10252 --address 127.0.0.1 --authentication-skip-lookup=true --v=4 \
            --feature-gates= --leader-elect-resource-name=mine --leader-elect-lease-duration=30s \
            --scheduling-timeout=1m -s=5";
        let options = plan(line).unwrap().options;
        assert_eq!(options.listen, Some("127.0.0.1:10252".parse().unwrap()));
        let election = options.election.unwrap();
        assert_eq!((election.name.as_str(), election.length), ("mine", Duration::from_secs(30)));
        assert_eq!(options.scheduling_timeout, Duration::from_secs(60));
        assert!(plan("--leader-elect=false --port=0").unwrap().options.election.is_none());
        assert_eq!(plan("--secure-port=0").unwrap().options.secure, None);
        let line = "--secure-port=1 --bind-address=127.0.0.1 --tls-cert-file=c --tls-private-key-file=k \
            --sync-hard-timeout=5s --authorization-always-allow-paths=/metrics";
        let options = plan(line).unwrap().options;
        let secure = options.secure.unwrap();
        assert_eq!(secure.listen, "127.0.0.1:1".parse().unwrap());
        assert_eq!(secure.files, Some((PathBuf::from("c"), PathBuf::from("k"))));
        assert_eq!(secure.open, ["/metrics"]);
        assert_eq!(options.barrier.patience, Duration::from_secs(5));
    }

    #[test]
    fn what_cannot_be_followed_is_said() {
        for (line, want) in [
            ("--port=99999", "no such port"),
            ("--address=here", "--address=here"),
            ("--secure-port=-1", "--secure-port=-1"),
            ("--bind-address=here", "--bind-address=here"),
            ("--tls-cert-file=c", "--tls-private-key-file"),
            ("--tls-private-key-file=k", "--tls-cert-file"),
            ("--leader-elect=maybe", "true or false"),
            ("--leader-elect-retry-period=2", "a duration such as 15s"),
            ("--config=/nowhere", "/nowhere"),
            ("--configs=x", "did you mean --config"),
        ] {
            let error = format!("{:#}", plan(line).unwrap_err());
            assert!(error.contains(want), "{line}: {error}");
        }
    }
}
