//! What does a person read once everything runs?

use std::env;
use std::fmt;
use std::path::PathBuf;

use api::protocol::node::ISOLATION_CONDITION;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use units::Quantity;

use super::Plan;
use super::api::Access;

/// The one block that `tidepool up` prints. Its first line is what programs wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Welcome {
    url: String,
    console: String,
    kubeconfig: PathBuf,
    node: String,
    milli_cpu: i64,
    memory_bytes: i64,
    hollow: u32,
    /// What pods do not get on this machine.
    missing: Option<String>,
    has_kubectl: bool,
    in_memory: bool,
}

impl Welcome {
    pub(super) async fn look(
        plan: &Plan,
        access: &Access,
        console: String,
        client: &Client,
    ) -> anyhow::Result<Self> {
        let node = Api::<Node>::all(client.clone()).get(&plan.node).await?;
        let status = node.status.unwrap_or_default();
        let amount = |name: &str| {
            let amount = status.allocatable.as_ref().and_then(|all| all.get(name));
            amount.and_then(|amount| amount.0.parse::<Quantity>().ok())
        };
        let isolation =
            status.conditions.iter().flatten().find(|own| own.type_ == ISOLATION_CONDITION);
        let missing = isolation.filter(|own| own.status == "False");
        Ok(Self {
            url: access.url.clone(),
            console,
            kubeconfig: access.kubeconfig.clone(),
            node: plan.node.clone(),
            milli_cpu: amount("cpu").map_or(0, Quantity::milli_value),
            memory_bytes: amount("memory").map_or(0, Quantity::value),
            hollow: plan.hollow,
            missing: missing.and_then(|own| own.message.clone()),
            has_kubectl: is_on_path("kubectl"),
            in_memory: plan.in_memory,
        })
    }
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// One decimal, cut off: nobody is promised more than there is.
fn tenths(amount: i64, unit: i64) -> String {
    let tenths = amount / (unit / 10);
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

impl fmt::Display for Welcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, console, node, hollow, .. } = self;
        let kubeconfig = self.kubeconfig.display();
        let (cpu, memory) = (tenths(self.milli_cpu, 1_000), tenths(self.memory_bytes, 1 << 30));
        writeln!(f, "ready at {url}\n")?;
        writeln!(f, "  console     {console}")?;
        writeln!(f, "  kubeconfig  {kubeconfig}")?;
        writeln!(f, "  node        {node}: {cpu} CPUs and {memory} GiB for pods, as processes")?;
        if *hollow > 0 {
            writeln!(f, "  hollow      {hollow} nodes that only pretend to run pods")?;
        }
        if let Some(missing) = &self.missing {
            writeln!(f, "  missing     {missing}")?;
        }
        writeln!(f, "\nNext:\n  export KUBECONFIG={kubeconfig}")?;
        f.write_str(match self.has_kubectl {
            true => {
                "  kubectl create deployment hello --image=host -- \
                 sh -c 'echo hello; exec sleep 1d'\n  kubectl get pods\n"
            }
            false => "  tidepool get nodes\n  tidepool get pods -A\n",
        })?;
        let fate = match self.in_memory {
            true => "objects and pods end with it",
            false => {
                "objects are kept and pods run on.\n`tidepool down --purge` ends and removes them"
            }
        };
        write!(f, "\nStop with Ctrl-C or `tidepool down`; {fate}.\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome() -> Welcome {
        Welcome {
            url: "https://127.0.0.1:6480".into(),
            console: "http://127.0.0.1:6481".into(),
            kubeconfig: "/state/kubeconfig".into(),
            node: "n1".into(),
            milli_cpu: 1_990,
            memory_bytes: 8 << 30,
            hollow: 0,
            missing: None,
            has_kubectl: true,
            in_memory: false,
        }
    }

    #[test]
    fn it_says_what_is_there_and_what_to_type() {
        let want = "\
ready at https://127.0.0.1:6480

  console     http://127.0.0.1:6481
  kubeconfig  /state/kubeconfig
  node        n1: 1.9 CPUs and 8 GiB for pods, as processes

Next:
  export KUBECONFIG=/state/kubeconfig
  kubectl create deployment hello --image=host -- sh -c 'echo hello; exec sleep 1d'
  kubectl get pods

Stop with Ctrl-C or `tidepool down`; objects are kept and pods run on.
`tidepool down --purge` ends and removes them.
";
        assert_eq!(welcome().to_string(), want);
    }

    #[test]
    fn what_is_special_is_said() {
        let special = Welcome {
            hollow: 200,
            missing: Some("memory: not mounted".into()),
            has_kubectl: false,
            in_memory: true,
            ..welcome()
        };
        let said = special.to_string();
        for line in [
            "  hollow      200 nodes that only pretend to run pods",
            "  missing     memory: not mounted",
            "  tidepool get nodes",
            "Stop with Ctrl-C or `tidepool down`; objects and pods end with it.",
        ] {
            assert!(said.lines().any(|own| own == line), "{line:?} is not in\n{said}");
        }
        assert!(!said.contains("kubectl"), "{said}");
    }
}
