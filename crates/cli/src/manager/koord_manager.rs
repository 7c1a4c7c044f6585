//! koord-manager's flags and environment, for manifests that were written for it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use api::protocol::endpoint::manager::WEBHOOK_PORT;
use api::protocol::metric::manager::{CONTROLLERS, PLUGINS};
use api::protocol::name::env::{
    MUTATING_WEBHOOK_NAME, POD_NAMESPACE, SECRET_NAME, SERVICE_NAME, VALIDATING_WEBHOOK_NAME,
    WEBHOOK_CERT_DIR, WEBHOOK_CERT_WRITER, WEBHOOK_HOST,
};
use api::protocol::name::{NAMESPACE, env::WEBHOOK_PORT as WEBHOOK_PORT_ENV};
use control::manager::selects;
use control::webhook::{Reach, Vault};
use overcommit::plan::Plugins;
use reconcile::elect;

use super::{Choices, Plan, gated, gates, identity, place};
use crate::go_flags::{CLIENT, Flag, Flags, Kind, LOGGING, Parsed, Unknown};
use crate::{Outcome, logging, output};

/// The link by which these flags are understood.
pub(crate) const LINK: &str = "koord-manager";

const CERT_DIR: &str = "/tmp/koordinator-webhook-certs";

const FLAGS: &[Flag] = &[
    Flag::new("metrics-addr", Kind::Text, ":8080", "where metrics are served"),
    Flag::new("health-probe-addr", Kind::Text, ":8000", "where /healthz and /readyz are served"),
    Flag::new("enable-leader-election", Kind::Bool, "true", "let one of several replicas write"),
    Flag::new("leader-election-namespace", Kind::Text, NAMESPACE, "namespace of the lease"),
    Flag::new("leader-elect-resource-lock", Kind::Text, "leases", "accepted; always leases"),
    Flag::new("namespace", Kind::Text, "", "accepted; all namespaces are watched"),
    Flag::new("enable-pprof", Kind::Bool, "true", "serve CPU time, memory and threads as text"),
    Flag::new("pprof-addr", Kind::Text, ":8090", "where, under /debug/pprof"),
    Flag::new("sync-period", Kind::Text, "", "accepted; watches need no resync"),
    Flag::new("rest-config-qps", Kind::Int, "30", "accepted; requests are not throttled here"),
    Flag::new("rest-config-burst", Kind::Int, "50", "accepted; requests are not throttled here"),
    Flag::new("disable-no-deepcopy", Kind::Bool, "false", "accepted, no effect"),
    Flag::new("controllers", Kind::List, "*", "controllers to run: names, * for all, -name"),
    Flag::new("noderesource-plugins", Kind::List, "*", "parts of the node calculation to run"),
    Flag::new("slo-config-name", Kind::Text, "slo-controller-config", "ConfigMap to read"),
    Flag::new("config-namespace", Kind::Text, NAMESPACE, "namespace of the ConfigMaps"),
    Flag::new("node-strategy-name-need-check", Kind::Text, "false", "demand names of node entries"),
    Flag::new(
        "colocation-profile-reconcile-by-default",
        Kind::Bool,
        "false",
        "bring all profiles to waiting pods",
    ),
    Flag::new("colocation-profile-reconcile-interval", Kind::Duration, "30s", "how often"),
    Flag::new(
        "colocation-profile-force-update-pod-duration",
        Kind::Duration,
        "5m",
        "when a pod is looked at again",
    ),
    Flag::new(
        "colocation-profile-expire-pod-cache-duration",
        Kind::Duration,
        "10m",
        "accepted, no effect",
    ),
    Flag::new("colocation-profile-update-pod-qps", Kind::Float, "10", "pods changed a second"),
    Flag::new("colocation-profile-update-pod-qps-burst", Kind::Int, "100", "pods changed at once"),
    Flag::new(
        "pod-enhanced-validator-config-namespace",
        Kind::Text,
        NAMESPACE,
        "namespace of demands on pods",
    ),
    Flag::new(
        "pod-enhanced-validator-config-name",
        Kind::Text,
        "pod-enhanced-validator-config",
        "ConfigMap of demands on pods",
    ),
    Flag::new(
        "pod-enhanced-validator-reconcile-interval",
        Kind::Duration,
        "5m",
        "how often it is read",
    ),
    Flag::new(
        "quota-update-max-retries",
        Kind::Int,
        "3",
        "attempts to charge a quota that others write",
    ),
    Flag::new(
        "quota-update-retry-jitter",
        Kind::Duration,
        "0s",
        "longest random pause before such an attempt",
    ),
    Flag::new("quota-update-max-total-jitter", Kind::Duration, "1s", "all pauses together"),
    Flag::new("quota-update-conflict-fresh-get", Kind::Bool, "false", "accepted; always so"),
    Flag::new("binding-admission-user-name", Kind::List, "", "parts of user names that may bind"),
    Flag::new("binding-admission-dry-run", Kind::Bool, "false", "only count what would be refused"),
    Flag::new(
        "binding-admission-namespaces",
        Kind::List,
        "",
        "namespaces that are meant; * for all",
    ),
    Flag::new(
        "binding-admission-exclude-namespaces",
        Kind::List,
        "kube-system",
        "namespaces that are not",
    ),
    Flag::new(
        "binding-admission-bypass-labels",
        Kind::List,
        "koordinator.sh/binding-admission-bypass",
        "labels that free a pod",
    ),
    Flag::new(
        "binding-admission-bypass-annotations",
        Kind::List,
        "",
        "annotations that free a pod",
    ),
    Flag::new("feature-gates", Kind::Text, "", "switches, as A=true,B=false"),
    Flag::new(
        "batch-count-mid-requests",
        Kind::Bool,
        "false",
        "charge mid pods their mid requests",
    ),
    Flag::new(
        "colocation-node-enable-overrides",
        Kind::Bool,
        "false",
        "let a node enable what the cluster does not",
    ),
    Flag::new(
        "device-resources-independent",
        Kind::Bool,
        "false",
        "show devices on nodes without co-location",
    ),
    Flag::new("strict-qos-priority-matrix", Kind::Bool, "false", "refuse more pairs of classes"),
];

/// Runs a manager as koord-manager would.
pub(crate) fn run(words: impl Iterator<Item = String>) -> anyhow::Result<Outcome> {
    match Flags::parse(LINK, &[FLAGS, LOGGING, CLIENT], Unknown::Refused, words)? {
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
            resolve(&flags, &|name| std::env::var(name).ok())?.run()
        }
    }
}

/// What the flags and the environment mean together.
fn resolve(flags: &Flags, variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Plan> {
    let set = |name: &str| variable(name).filter(|text| !text.is_empty());
    let own = set(POD_NAMESPACE).unwrap_or_else(|| NAMESPACE.to_owned());
    let mut options = gated(gates(flags.text("feature-gates"))?);
    let choices = Choices {
        batch_count_mid_requests: flags.bool("batch-count-mid-requests"),
        colocation_node_enable_overrides: flags.bool("colocation-node-enable-overrides"),
        device_resources_independent: flags.bool("device-resources-independent"),
        strict_qos_priority_matrix: flags.bool("strict-qos-priority-matrix"),
    };
    choices.apply(&mut options);

    options.metrics = address("--metrics-addr", flags.text("metrics-addr"))?;
    options.health = address("--health-probe-addr", flags.text("health-probe-addr"))?;
    let profiles = if flags.bool("enable-pprof") { flags.text("pprof-addr") } else { "" };
    options.profiles = address("--pprof-addr", profiles)?;
    known("--controllers", flags.list("controllers"), CONTROLLERS)?;
    options.controllers = flags.list("controllers").to_vec();
    known("--noderesource-plugins", flags.list("noderesource-plugins"), PLUGINS)?;
    let plugins = flags.list("noderesource-plugins");
    options.node_resource.plugins = Plugins::choose(|name| selects(plugins, name));
    if flags.bool("enable-leader-election") {
        options.election = Some(elect::Settings {
            namespace: flags.text("leader-election-namespace").to_owned(),
            ..elect::Settings::manager(identity())
        });
    }
    options.config.namespace = flags.text("config-namespace").to_owned();
    options.config.name = flags.text("slo-config-name").to_owned();
    options.config.options.names_required = flags.text("node-strategy-name-need-check") == "true";

    let late = &mut options.colocation_profile;
    late.by_default = flags.bool("colocation-profile-reconcile-by-default");
    late.interval = flags.duration("colocation-profile-reconcile-interval");
    late.again_after = flags.duration("colocation-profile-force-update-pod-duration");
    late.updates_per_second = flags.float("colocation-profile-update-pod-qps");
    late.burst = u32::try_from(flags.int("colocation-profile-update-pod-qps-burst")).unwrap_or(1);

    let rules = &mut options.webhook.rules;
    rules.config_map = options.config.clone();
    rules.demands = (
        flags.text("pod-enhanced-validator-config-namespace").to_owned(),
        flags.text("pod-enhanced-validator-config-name").to_owned(),
        flags.duration("pod-enhanced-validator-reconcile-interval"),
    );
    rules.charge_retries = u32::try_from(flags.int("quota-update-max-retries")).unwrap_or(0);
    let jitter = |name: &str| flags.duration(name);
    rules.charge_jitter =
        (jitter("quota-update-retry-jitter"), jitter("quota-update-max-total-jitter"));
    rules.binding.users = flags.list("binding-admission-user-name").to_vec();
    rules.binding.is_dry_run = flags.bool("binding-admission-dry-run");
    rules.binding.namespaces = flags.list("binding-admission-namespaces").to_vec();
    rules.binding.excluded_namespaces = flags.list("binding-admission-exclude-namespaces").to_vec();
    rules.binding.bypass_labels = flags.list("binding-admission-bypass-labels").to_vec();
    rules.binding.bypass_annotations = flags.list("binding-admission-bypass-annotations").to_vec();

    webhook(&mut options.webhook, &own, &set)?;
    let kubeconfig = Some(flags.text("kubeconfig")).filter(|path| !path.is_empty());
    Ok(Plan { kubeconfig: kubeconfig.map(PathBuf::from), options, console: None })
}

/// What the environment says about the webhooks.
fn webhook(
    webhook: &mut control::webhook::Options,
    namespace: &str,
    set: &dyn Fn(&str) -> Option<String>,
) -> anyhow::Result<()> {
    let port = match set(WEBHOOK_PORT_ENV) {
        Some(text) => text.parse().with_context(|| format!("{WEBHOOK_PORT_ENV}={text}"))?,
        None => WEBHOOK_PORT,
    };
    webhook.listen = super::any(port);
    if let (Some(service), Reach::Service { name, .. }) = (set(SERVICE_NAME), &mut webhook.reach) {
        *name = service;
    }
    let host = set(WEBHOOK_HOST);
    let in_files = match set(WEBHOOK_CERT_WRITER).as_deref() {
        Some("fs") => true,
        Some(_) => false,
        None => host.is_some(),
    };
    place(webhook, namespace, host);
    if let (Some(secret), Vault::Secret { name, .. }) = (set(SECRET_NAME), &mut webhook.vault) {
        *name = secret;
    }
    if in_files {
        let dir = set(WEBHOOK_CERT_DIR).unwrap_or_else(|| CERT_DIR.to_owned());
        webhook.vault = Vault::Directory(PathBuf::from(dir));
    }
    if let Some(name) = set(MUTATING_WEBHOOK_NAME) {
        webhook.configurations.0 = name;
    }
    if let Some(name) = set(VALIDATING_WEBHOOK_NAME) {
        webhook.configurations.1 = name;
    }
    Ok(())
}

/// `:8080` is every address of the machine, and `0` none at all.
fn address(flag: &str, text: &str) -> anyhow::Result<Option<SocketAddr>> {
    if ["", "0"].contains(&text) {
        return Ok(None);
    }
    let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let address = whole
        .parse()
        .with_context(|| format!("{flag}={text}: write it as :8080 or 127.0.0.1:8080"))?;
    Ok(Some(address))
}

fn known(flag: &str, words: &[String], names: &[&str]) -> anyhow::Result<()> {
    for word in words {
        let name = word.strip_prefix('-').unwrap_or(word);
        anyhow::ensure!(
            name == "*" || names.contains(&name),
            "{flag}: {name:?} is not known; known are {}",
            names.join(", ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn plan(line: &str, variables: &[(&str, &str)]) -> anyhow::Result<Plan> {
        let words = line.split_whitespace().map(str::to_owned);
        let Parsed::Run(flags) =
            Flags::parse(LINK, &[FLAGS, LOGGING, CLIENT], Unknown::Refused, words)?
        else {
            panic!("no help was asked for");
        };
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        resolve(&flags, &variable)
    }

    #[test]
    fn nothing_given_means_the_references_defaults() {
        let options = plan("", &[]).unwrap().options;
        assert_eq!(options.health, Some("0.0.0.0:8000".parse().unwrap()));
        assert_eq!(options.metrics, Some("0.0.0.0:8080".parse().unwrap()));
        assert_eq!(options.webhook.listen, "0.0.0.0:9876".parse().unwrap());
        assert_eq!(options.profiles, Some("0.0.0.0:8090".parse().unwrap()));
        assert_eq!(options.webhook.rules.charge_jitter, (Duration::ZERO, Duration::from_secs(1)));
        assert_eq!(plan("--enable-pprof=false", &[]).unwrap().options.profiles, None);
        let jitter = plan("--quota-update-retry-jitter=20ms", &[]).unwrap().options;
        assert_eq!(jitter.webhook.rules.charge_jitter.0, Duration::from_millis(20));
        let election = options.election.expect("replicas are usual");
        assert_eq!(
            (election.namespace.as_str(), election.name.as_str()),
            (NAMESPACE, "koordinator-manager")
        );
        assert_eq!(election.length, Duration::from_secs(15));
        let own = control::webhook::Options::default();
        assert_eq!((options.webhook.reach, options.webhook.vault), (own.reach, own.vault));
        assert_eq!(options.webhook.rules.binding, own.rules.binding);
        assert_eq!(options.node_resource, Default::default());
    }

    #[test]
    fn the_charts_line_is_followed() {
        let line = "--enable-leader-election --metrics-addr=:8081 --health-probe-addr=:8001 \
            --leader-election-namespace=ns --config-namespace=ns --v=4 --logtostderr=true \
            --feature-gates=NodeMutatingWebhook=true --sync-period=0 --rest-config-qps=30 \
            --rest-config-burst=50 --controllers=*,-nodeslo --noderesource-plugins=BatchResource";
        let options =
            plan(line, &[("POD_NAMESPACE", "ns"), ("WEBHOOK_PORT", "9999")]).unwrap().options;
        assert_eq!(options.webhook.listen.port(), 9999);
        let reach =
            Reach::Service { namespace: "ns".into(), name: "koordinator-webhook-service".into() };
        assert_eq!(options.webhook.reach, reach);
        assert!(
            !selects(&options.controllers, "nodeslo")
                && selects(&options.controllers, "nodemetric")
        );
        assert_ne!(options.node_resource, Default::default());
    }

    #[test]
    fn a_host_means_urls_and_files() {
        let options = plan("", &[("WEBHOOK_HOST", "10.0.0.1")]).unwrap().options;
        assert_eq!(options.webhook.reach, Reach::Host("10.0.0.1".to_owned()));
        assert_eq!(options.webhook.vault, Vault::Directory(PathBuf::from(CERT_DIR)));
        let variables =
            [("WEBHOOK_HOST", "h"), ("WEBHOOK_CERT_WRITER", "secret"), ("SECRET_NAME", "s")];
        let options = plan("", &variables).unwrap().options;
        assert_eq!(
            options.webhook.vault,
            Vault::Secret { namespace: NAMESPACE.into(), name: "s".into() }
        );
    }

    #[test]
    fn what_cannot_be_followed_is_said() {
        let cases = [
            ("--controllers=nodeslow", "nodeslow"),
            ("--noderesource-plugins=Batch", "Batch"),
            ("--metrics-addr=here", "--metrics-addr=here"),
            ("--feature-gates=Nothing=true", "Nothing"),
            ("--metric-addr=:1", "did you mean --metrics-addr"),
        ];
        for (line, want) in cases {
            let error = format!("{:#}", plan(line, &[]).unwrap_err());
            assert!(error.contains(want), "{line}: {error}");
        }
    }
}
