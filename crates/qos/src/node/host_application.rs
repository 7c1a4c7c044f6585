//! Where do the host applications of a NodeSLO run?

use api::priority::PriorityClass;
use api::qos::{KubeQos, QosClass};
use api::strategy::HostApplicationSpec;
use groups::{CgroupPath, Layout};
use serde::{Deserialize, Serialize};

/// An application outside Kubernetes that shares the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostApplication {
    pub name: String,
    pub priority: Option<PriorityClass>,
    pub qos: Option<QosClass>,
    pub cgroup: CgroupPath,
}

/// The applications outside Kubernetes, with the groups they run in.
pub fn host_applications(
    applications: &[HostApplicationSpec],
    layout: &Layout,
) -> Vec<HostApplication> {
    let named = applications.iter().filter_map(|application| {
        let name = application.name.as_deref().filter(|name| !name.is_empty())?;
        Some((name, application))
    });
    named
        .map(|(name, application)| {
            let qos = application.qos.as_deref().and_then(QosClass::from_word);
            HostApplication {
                name: name.to_owned(),
                priority: application.priority.as_deref().and_then(PriorityClass::from_word),
                qos,
                cgroup: application_cgroup(name, qos, application, layout),
            }
        })
        .collect()
}

fn application_cgroup(
    name: &str,
    qos: Option<QosClass>,
    application: &HostApplicationSpec,
    layout: &Layout,
) -> CgroupPath {
    let Some(path) = &application.cgroup_path else {
        let parent = match qos {
            Some(QosClass::Lse | QosClass::Lsr | QosClass::Ls) => "host-latency-sensitive",
            Some(QosClass::Be) => "host-best-effort",
            Some(QosClass::System) | None => "",
        };
        return CgroupPath::new(&format!("{parent}/{name}"));
    };
    let base = match path.base.as_deref() {
        Some("Kubepods") => layout.kubepods(),
        Some("KubepodsBurstable") => layout.class(KubeQos::Burstable),
        Some("KubepodsBesteffort") => layout.class(KubeQos::BestEffort),
        _ => CgroupPath::root(),
    };
    let parts = [path.parent_dir.as_deref(), path.relative_path.as_deref()];
    let below = parts.into_iter().flatten().collect::<Vec<_>>().join("/");
    CgroupPath::new(&format!("{}/{below}", base.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn applications_run_where_their_class_or_path_says() {
        let layout = Layout::new(groups::Driver::Cgroupfs);
        let cases = [
            (json!({ "name": "a", "qos": "LS" }), "host-latency-sensitive/a"),
            (json!({ "name": "a", "qos": "LSE" }), "host-latency-sensitive/a"),
            (json!({ "name": "a", "qos": "BE" }), "host-best-effort/a"),
            (json!({ "name": "a", "qos": "SYSTEM" }), "a"),
            (json!({ "name": "a" }), "a"),
            (
                json!({ "name": "a", "cgroupPath": { "base": "CgroupRoot", "parentDir": "/x/", "relativePath": "y" } }),
                "x/y",
            ),
            (
                json!({ "name": "a", "cgroupPath": { "base": "KubepodsBesteffort", "relativePath": "y" } }),
                "kubepods/besteffort/y",
            ),
            (
                json!({ "name": "a", "cgroupPath": { "base": "Kubepods", "relativePath": "../../y" } }),
                "kubepods/y",
            ),
        ];
        for (application, want) in cases {
            let spec = serde_json::from_value(application.clone()).unwrap();
            let found = host_applications(&[spec], &layout);
            assert_eq!(found[0].cgroup.as_str(), want, "{application}");
        }
        let nameless = serde_json::from_value(json!({ "qos": "BE" })).unwrap();
        assert_eq!(host_applications(&[nameless], &layout), []);
    }
}
