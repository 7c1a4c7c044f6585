//! How is each program of the cluster started?

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};

use super::world::{NODE, NODE_ADDRESS, POD_RANGE, SERVICE_RANGE, World};

/// A program that is started again when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Component {
    Etcd,
    ApiServer,
    ControllerManager,
    Containerd,
    Kubelet,
}

/// Inside of the namespaces, where nobody else's is.
pub(crate) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

impl Component {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
        }
    }

    /// Starts it, with its log behind the one of its last life, and notes its pid.
    pub(crate) fn start(self, world: &World) -> Result<Child> {
        let name = self.name();
        let log = world.folder.join("logs").join(format!("{name}.log"));
        let log = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new(world.program(name))
            .args(self.arguments(&world.folder))
            .current_dir(&world.folder)
            .env("PATH", world.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let pid = world.folder.join("pids").join(name);
        fs::write(&pid, format!("{}\n", child.id()))
            .with_context(|| format!("cannot write {}", pid.display()))?;
        Ok(child)
    }

    /// Paths are relative to the rig's folder unless a program insists.
    fn arguments(self, folder: &Path) -> Vec<String> {
        let text = match self {
            Self::Etcd => ETCD.to_owned(),
            Self::ApiServer => format!(
                "{API_SERVER} --advertise-address={NODE_ADDRESS} \
                 --service-cluster-ip-range={SERVICE_RANGE}"
            ),
            Self::ControllerManager => CONTROLLER_MANAGER.to_owned(),
            Self::Containerd => "--config=containerd.toml".to_owned(),
            Self::Kubelet => {
                format!("{KUBELET} --hostname-override={NODE} --node-ip={NODE_ADDRESS}")
            }
        };
        let place = folder.display().to_string();
        text.split_whitespace().map(|word| word.replace("FOLDER", &place)).collect()
    }
}

/// Nothing is worth a wait for a disk here.
const ETCD: &str = "--data-dir=etcd --unsafe-no-fsync --listen-client-urls=http://127.0.0.1:2379 \
                    --advertise-client-urls=http://127.0.0.1:2379 \
                    --listen-peer-urls=http://127.0.0.1:2380";

/// Services are reached by their endpoints: there is no kube-proxy.
const API_SERVER: &str = "--etcd-servers=http://127.0.0.1:2379 --secure-port=443 \
    --tls-cert-file=apiserver.crt --tls-private-key-file=apiserver.key --client-ca-file=ca.crt \
    --token-auth-file=tokens.csv --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction --enable-aggregator-routing=true \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=sa.key \
    --service-account-signing-key-file=sa.key --allow-privileged=true \
    --kubelet-preferred-address-types=InternalIP --kubelet-certificate-authority=ca.crt \
    --kubelet-client-certificate=kubelet-client.crt --kubelet-client-key=kubelet-client.key";

const CONTROLLER_MANAGER: &str = "--kubeconfig=controller-manager.kubeconfig \
    --authentication-kubeconfig=controller-manager.kubeconfig \
    --authorization-kubeconfig=controller-manager.kubeconfig --bind-address=127.0.0.1 \
    --service-account-private-key-file=sa.key --root-ca-file=ca.crt \
    --use-service-account-credentials --leader-elect=false --allocate-node-cidrs=false";

const KUBELET: &str = "--config=FOLDER/kubelet.yaml --kubeconfig=kubelet.kubeconfig";

/// Writes what containerd and the kubelet read.
pub(crate) fn configure(world: &World) -> Result<()> {
    let network = world.folder.join("network");
    fs::create_dir_all(&network).context("cannot make a folder for the network")?;
    let files: [(PathBuf, String); 4] = [
        (world.folder.join("containerd.toml"), containerd(world)),
        (network.join("10-pods.conflist"), pod_network()),
        (world.folder.join("kubelet.yaml"), kubelet(world)),
        (world.folder.join("resolv.conf"), "nameserver 127.0.0.1\n".to_owned()),
    ];
    for (path, content) in files {
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Without CAP_SYS_RESOURCE nobody may be made harder to kill than its parent.
fn containerd(world: &World) -> String {
    let (programs, folder) = (world.program(""), world.folder.display());
    let programs = programs.display();
    format!(
        r#"version = 3
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{programs}cni"]
    conf_dir = "{folder}/network"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{programs}runc"
      SystemdCgroup = false
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{}"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
"#,
        super::image::PAUSE
    )
}

fn pod_network() -> String {
    format!(
        r#"{{"cniVersion": "0.4.0", "name": "pods", "plugins": [{{"type": "bridge", "bridge": "pods0",
  "isGateway": true, "hairpinMode": true, "ipam": {{"type": "host-local",
    "dataDir": "/run/pod-addresses", "ranges": [[{{"subnet": "{POD_RANGE}"}}]],
    "routes": [{{"dst": "0.0.0.0/0"}}]}}}}]}}
"#
    )
}

/// A kubelet in a user namespace puts up with settings of the kernel that it cannot change; ours
/// may not change those of this machine.
fn kubelet(world: &World) -> String {
    let World { folder, cgroup, .. } = world;
    let folder = folder.display();
    format!(
        r#"apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: {cgroup}
featureGates: {{KubeletInUserNamespace: true}}
authentication:
  anonymous: {{enabled: false}}
  webhook: {{enabled: true, cacheTTL: 1s}}
  x509: {{clientCAFile: {folder}/ca.crt}}
authorization: {{mode: Webhook}}
tlsCertFile: {folder}/kubelet.crt
tlsPrivateKeyFile: {folder}/kubelet.key
containerRuntimeEndpoint: unix://{CONTAINERD_SOCKET}
resolvConf: {folder}/resolv.conf
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 4s
syncFrequency: 10s
"#
    )
}
