//! `tidepool scheduler`: which node does each pod of a cluster get?
//!
//! Two command lines lead to the same options: ours, and koord-scheduler's through a link of that
//! name (see [`koord_scheduler`]).

pub(crate) mod koord_scheduler;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::finding::Finding;
use api::protocol::endpoint::scheduler::HTTP_PORT;
use api::protocol::gate::{Gates, SchedulerGate};
use api::protocol::name::SCHEDULER;
use api::scheduler::{Configuration, load};
use clap::Args;
use control::scheduler::secure::Secure;
use control::scheduler::{Options, candidacy, run};

use crate::input::Text;
use crate::manager::{connect, identity, until_signal};
use crate::{Outcome, output};

/// Decide which node each pod of a cluster gets
///
/// Takes the place of kube-scheduler and koord-scheduler, with their configuration file. Several
/// replicas may run: all know the cluster, one of them decides. Stops on Ctrl-C, finishes what is
/// under way and gives its lease back.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// KubeSchedulerConfiguration to follow [default: one profile named koord-scheduler]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only say what is wrong with the configuration, and which plugins would run
    #[arg(long)]
    check: bool,
    /// Use this kubeconfig [default: the pod's service account, then $KUBECONFIG and ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Where `/healthz`, `/metrics` and `/apis/v1` are
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from(([0, 0, 0, 0], HTTP_PORT)))]
    address: SocketAddr,
    /// Where the same is served over TLS, to those the API server lets read it [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    secure_address: Option<SocketAddr>,
    /// Certificate for --secure-address [default: one is made at the start]
    #[arg(long, value_name = "FILE", requires = "secure_address")]
    tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "secure_address")]
    tls_private_key_file: Option<PathBuf>,
    /// Decide without holding the lease; only for a scheduler that is alone
    #[arg(long)]
    no_leader_election: bool,
    /// Switches, as `A=true,B=false`
    #[arg(long, default_value = "")]
    feature_gates: String,
}

const EXAMPLES: &str = "\
Examples:
  tidepool scheduler --kubeconfig ~/.local/state/tidepool/kubeconfig --address 127.0.0.1:0
  tidepool scheduler --config koord-scheduler.yaml --check";

/// What is meant by either command line.
#[derive(Debug)]
pub(crate) struct Plan {
    kubeconfig: Option<PathBuf>,
    options: Options,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        if self.check {
            return check(self.config.as_deref());
        }
        self.resolve()?.run()
    }

    fn resolve(self) -> anyhow::Result<Plan> {
        let mut options = Options { gates: gates(&self.feature_gates)?, ..Options::default() };
        options.configuration = configuration(self.config.as_deref())?;
        options.listen = Some(self.address);
        options.secure = self.secure_address.map(Secure::at);
        certificate(&mut options, self.tls_cert_file, self.tls_private_key_file)?;
        elect(&mut options, self.no_leader_election);
        let kubeconfig =
            self.kubeconfig.or(options.configuration.kubeconfig.clone().map(PathBuf::from));
        Ok(Plan { kubeconfig, options })
    }
}

/// The files of the certificate: both, or none.
fn certificate(
    options: &mut Options,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
) -> anyhow::Result<()> {
    let files = match (cert, key) {
        (None, None) => return Ok(()),
        (Some(cert), Some(key)) => (cert, key),
        (Some(_), None) => bail!("--tls-cert-file needs --tls-private-key-file"),
        (None, Some(_)) => bail!("--tls-private-key-file needs --tls-cert-file"),
    };
    if let Some(secure) = &mut options.secure {
        secure.files = Some(files);
    }
    Ok(())
}

/// Stands for election as the configuration says, unless told that nobody else is there.
fn elect(options: &mut Options, is_alone: bool) {
    let lease = options.configuration.lease.as_ref().filter(|_| !is_alone);
    options.election = lease.map(|lease| candidacy(lease, identity()));
}

/// The configuration in a file. What is suspicious is said; what is wrong ends it.
fn configuration(file: Option<&Path>) -> anyhow::Result<Configuration> {
    let Some(file) = file else { return Ok(Configuration::default()) };
    let (configuration, findings) = read(file)?;
    for finding in &findings {
        eprintln!("{finding}\n");
    }
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    configuration.with_context(|| format!("{}: {errors} error(s)", file.display()))
}

fn read(file: &Path) -> anyhow::Result<(Option<Configuration>, Vec<Finding>)> {
    let text = Text::read(file)?;
    Ok(load(&text.name, &text.text))
}

/// Says what is wrong, and what would run.
fn check(file: Option<&Path>) -> anyhow::Result<Outcome> {
    let (configuration, findings) = match file {
        Some(file) => read(file)?,
        None => (Some(Configuration::default()), Vec::new()),
    };
    let mut text = String::new();
    for finding in &findings {
        text += &format!("{finding}\n\n");
    }
    for profile in configuration.iter().flat_map(|configuration| &configuration.profiles) {
        let rows: Vec<[String; 2]> = api::scheduler::Point::ALL
            .iter()
            .map(|point| {
                let plugins = profile.points.active(*point).map(|own| match point {
                    api::scheduler::Point::Score => format!("{}={}", own.plugin.name, own.weight),
                    _ => own.plugin.name.to_owned(),
                });
                [point.to_string(), plugins.collect::<Vec<_>>().join(" ")]
            })
            .collect();
        text += &format!(
            "{}\n{}\n",
            profile.scheduler_name,
            output::table(["POINT", "PLUGINS"], &rows)
        );
    }
    output::print(&text)?;
    Ok(match configuration {
        Some(_) => Outcome::Done,
        None => Outcome::Findings,
    })
}

/// The switches, or what cannot be followed.
fn gates(text: &str) -> anyhow::Result<Gates<SchedulerGate>> {
    let (gates, errors) = Gates::parse(text);
    if !errors.is_empty() {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        bail!("--feature-gates: {}", errors.join("; "));
    }
    Ok(gates)
}

impl Plan {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = connect(self.kubeconfig.as_deref(), SCHEDULER).await?;
            until_signal(|shutdown| run(client, self.options, shutdown)).await??;
            Ok(Outcome::Done)
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn resolve(line: &str) -> anyhow::Result<Plan> {
        let words = std::iter::once("scheduler").chain(line.split_whitespace());
        Line::try_parse_from(words)?.arguments.resolve()
    }

    #[test]
    fn our_flags_become_options() {
        let options = resolve("--address 127.0.0.1:0").unwrap().options;
        assert_eq!(options.listen, Some("127.0.0.1:0".parse().unwrap()));
        let election = options.election.expect("replicas are usual");
        assert_eq!(
            (election.namespace.as_str(), election.name.as_str()),
            ("koordinator-system", "koord-scheduler")
        );
        assert!(resolve("--no-leader-election").unwrap().options.election.is_none());
        assert_eq!(options.secure, None, "only where it is asked for");
        let secure = resolve("--secure-address 127.0.0.1:0").unwrap().options.secure.unwrap();
        assert_eq!((secure.listen, secure.files), ("127.0.0.1:0".parse().unwrap(), None));
        assert!(resolve("--tls-cert-file c").is_err(), "nothing to show it on");
        let error = resolve("--secure-address 127.0.0.1:0 --tls-cert-file c").unwrap_err();
        assert!(error.to_string().contains("--tls-private-key-file"), "{error}");
        let error = resolve("--feature-gates SyncBarier=true").unwrap_err().to_string();
        assert!(error.contains("did you mean SyncBarrier"), "{error}");
        let error = format!("{:#}", resolve("--config /nowhere").unwrap_err());
        assert!(error.contains("/nowhere"), "{error}");
    }

    #[test]
    fn a_file_is_followed_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = dir.path().join("config.yaml");
            std::fs::write(&path, text).unwrap();
            resolve(&format!("--config {}", path.display()))
        };
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        let plan = file(&format!(
            "{head}leaderElection: {{leaderElect: false}}\nclientConnection: {{kubeconfig: /k}}\n"
        ));
        let plan = plan.unwrap();
        assert!(plan.options.election.is_none());
        assert_eq!(plan.kubeconfig, Some(PathBuf::from("/k")));
        let error = file(&format!("{head}profile: []\n")).unwrap_err().to_string();
        assert!(error.contains("1 error"), "{error}");
    }
}
