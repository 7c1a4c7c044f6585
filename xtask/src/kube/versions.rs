//! Which programs make the cluster, and of which version?
//!
//! The Go modules beside this file repeat the versions of theirs, with the sums of all that they
//! are built from; a test holds the two together.

/// One program that is built from a Go module.
#[derive(Debug)]
pub(crate) struct GoProgram {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
}

/// A Go module that is there to build programs of others.
#[derive(Debug)]
pub(crate) struct GoModule {
    pub(crate) name: &'static str,
    /// The module that the version is of.
    pub(crate) of: &'static str,
    pub(crate) version: &'static str,
    /// `go.mod`, `go.sum` and the file that names the programs.
    pub(crate) files: [(&'static str, &'static str); 3],
    pub(crate) programs: &'static [GoProgram],
    /// Where the programs keep their own version.
    pub(crate) version_variables: &'static [&'static str],
}

pub(crate) const KUBERNETES: GoModule = GoModule {
    name: "kubernetes",
    of: "k8s.io/kubernetes",
    version: "v1.35.4",
    files: [
        ("go.mod", include_str!("go/kubernetes/go.mod")),
        ("go.sum", include_str!("go/kubernetes/go.sum")),
        ("tools.go", include_str!("go/kubernetes/tools.go")),
    ],
    programs: &[
        GoProgram { name: "kube-apiserver", package: "k8s.io/kubernetes/cmd/kube-apiserver" },
        GoProgram {
            name: "kube-controller-manager",
            package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        },
        GoProgram { name: "kube-scheduler", package: "k8s.io/kubernetes/cmd/kube-scheduler" },
        GoProgram { name: "kubelet", package: "k8s.io/kubernetes/cmd/kubelet" },
    ],
    version_variables: &["k8s.io/component-base/version.gitVersion"],
};

pub(crate) const HELM: GoModule = GoModule {
    name: "helm",
    of: "helm.sh/helm/v3",
    version: "v3.22.0",
    files: [
        ("go.mod", include_str!("go/helm/go.mod")),
        ("go.sum", include_str!("go/helm/go.sum")),
        ("tools.go", include_str!("go/helm/tools.go")),
    ],
    programs: &[GoProgram { name: "helm", package: "helm.sh/helm/v3/cmd/helm" }],
    version_variables: &["helm.sh/helm/v3/internal/version.version"],
};

/// A Debian package, fetched and unpacked, not installed.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) suite: &'static str,
    /// What is taken out of it: the name it gets, and where it lies there.
    pub(crate) files: &'static [(&'static str, &'static str)],
}

/// The newest suite where it matters, else the one whose C library everybody has: its `runc` is
/// not linked statically.
pub(crate) const PACKAGES: &[Package] = &[
    Package { name: "etcd-server", suite: "sid", files: &[("etcd", "usr/bin/etcd")] },
    Package {
        name: "containerd",
        suite: "sid",
        files: &[
            ("containerd", "usr/bin/containerd"),
            ("containerd-shim-runc-v2", "usr/bin/containerd-shim-runc-v2"),
            ("ctr", "usr/bin/ctr"),
        ],
    },
    Package { name: "runc", suite: "bookworm", files: &[("runc", "usr/sbin/runc")] },
    Package {
        name: "containernetworking-plugins",
        suite: "bookworm",
        files: &[
            ("cni/bridge", "usr/lib/cni/bridge"),
            ("cni/host-local", "usr/lib/cni/host-local"),
            ("cni/loopback", "usr/lib/cni/loopback"),
        ],
    },
    Package { name: "busybox-static", suite: "bookworm", files: &[("busybox", "bin/busybox")] },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_of_the_version_that_is_named_here() {
        for GoModule { name, of, version, files, programs, .. } in [&KUBERNETES, &HELM] {
            let [(_, module), (_, sums), (_, tools)] = files;
            assert!(module.contains(&format!("require {of} {version}\n")), "{name}: {version}");
            assert!(sums.contains(&format!("{of} {version} h1:")), "{name}: {version}");
            for GoProgram { package, .. } in *programs {
                assert!(tools.contains(&format!("_ \"{package}\"")), "{name}: {package}");
            }
        }
    }
}
