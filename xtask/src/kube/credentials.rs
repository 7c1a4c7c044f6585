//! Who is who in the cluster?
//!
//! One authority signs the certificates of the API server and of the kubelet. People and programs
//! show a token, and the API server shows the kubelet a certificate.
//!
//! ```text
//! ca.crt  sa.key  tokens.csv  {apiserver,kubelet,kubelet-client}.{crt,key}  *.kubeconfig
//! ```

use std::{fs, io::Read, path::Path};

use anyhow::{Context, Result, ensure};

use super::world::{NODE, NODE_ADDRESS, SERVICE_ADDRESS};
use crate::child;

/// Kubeconfig, user, groups.
const USERS: &[(&str, &str, &str)] = &[
    ("admin", "admin", "system:masters"),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("kubelet", "system:node:NODE", "system:nodes"),
];

/// Fills `folder` with everything.
pub(crate) fn make(folder: &Path) -> Result<()> {
    openssl(folder, AUTHORITY)?;
    let server_names = format!(
        "subjectAltName=IP:{NODE_ADDRESS},IP:{SERVICE_ADDRESS},IP:127.0.0.1,DNS:kubernetes,\
         DNS:kubernetes.default,DNS:kubernetes.default.svc"
    );
    leaf(folder, "apiserver", "/CN=kube-apiserver", &server_names)?;
    let node_names = format!("subjectAltName=IP:{NODE_ADDRESS},DNS:{NODE}");
    leaf(folder, "kubelet", &format!("/O=system:nodes/CN=system:node:{NODE}"), &node_names)?;
    let client = "/O=system:masters/CN=kube-apiserver-kubelet-client";
    leaf(folder, "kubelet-client", client, "subjectAltName=DNS:kube-apiserver")?;
    openssl(folder, SERVICE_ACCOUNTS)?;

    let mut tokens = String::new();
    for (number, (name, user, groups)) in USERS.iter().enumerate() {
        let token = token()?;
        let user = user.replace("NODE", NODE);
        tokens += &format!("{token},{user},{number},\"{groups}\"\n");
        let path = folder.join(format!("{name}.kubeconfig"));
        fs::write(&path, kubeconfig(folder, &token))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    fs::write(folder.join("tokens.csv"), tokens).context("cannot write tokens.csv")
}

const AUTHORITY: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
                         -subj /CN=tidepool-rig -keyout ca.key -out ca.crt \
                         -addext keyUsage=critical,keyCertSign,cRLSign";
const SERVICE_ACCOUNTS: &str = "genrsa -traditional -out sa.key 2048";

fn leaf(folder: &Path, name: &str, subject: &str, names: &str) -> Result<()> {
    openssl(
        folder,
        &format!(
            "req -x509 -CA ca.crt -CAkey ca.key -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
             -days 3650 -subj {subject} -keyout {name}.key -out {name}.crt -addext {names} \
             -addext basicConstraints=critical,CA:FALSE \
             -addext extendedKeyUsage=serverAuth,clientAuth"
        ),
    )
}

/// No argument has a space in it.
fn openssl(folder: &Path, arguments: &str) -> Result<()> {
    let mut command = child::leashed("openssl");
    command.args(arguments.split_whitespace()).current_dir(folder);
    let captured = child::capture(command).context("is openssl installed?")?;
    ensure!(captured.status.success(), "openssl {arguments}: {}", captured.stderr);
    Ok(())
}

fn token() -> Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn kubeconfig(folder: &Path, token: &str) -> String {
    let authority = folder.join("ca.crt");
    format!(
        r#"apiVersion: v1
kind: Config
clusters: [{{name: rig, cluster: {{server: "https://{NODE_ADDRESS}", certificate-authority: "{}"}}}}]
users: [{{name: user, user: {{token: "{token}"}}}}]
contexts: [{{name: rig, context: {{cluster: rig, user: user}}}}]
current-context: rig
"#,
        authority.display()
    )
}
