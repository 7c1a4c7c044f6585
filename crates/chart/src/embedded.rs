//! What is in the chart? Its files, as they were when the program was built.

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../deploy/chart/tidepool/", $path)))),*]
    };
}

pub const CHART: &str = include_str!("../../../deploy/chart/tidepool/Chart.yaml");
pub const VALUES: &str = include_str!("../../../deploy/chart/tidepool/values.yaml");

/// Templates, by their path in the chart.
pub const TEMPLATES: &[(&str, &str)] = files![
    "templates/_helpers.tpl",
    "templates/config-maps.yaml",
    "templates/crds.yaml",
    "templates/koord-manager.yaml",
    "templates/koord-scheduler.yaml",
    "templates/koordlet.yaml",
    "templates/monitoring.yaml",
    "templates/namespace.yaml",
    "templates/priority-classes.yaml",
    "templates/rbac-koord-manager.yaml",
    "templates/rbac-koord-scheduler.yaml",
    "templates/rbac-koordlet.yaml",
    "templates/webhooks.yaml",
];

/// What templates read, by its path in the chart.
pub const FILES: &[(&str, &str)] = files![
    "files/alerts/tidepool.yaml",
    "files/crds/clustercolocationprofiles.config.koordinator.sh.yaml",
    "files/crds/clusternetworktopologies.scheduling.koordinator.sh.yaml",
    "files/crds/devices.scheduling.koordinator.sh.yaml",
    "files/crds/elasticquotaprofiles.quota.koordinator.sh.yaml",
    "files/crds/elasticquotas.scheduling.sigs.k8s.io.yaml",
    "files/crds/nodemetrics.slo.koordinator.sh.yaml",
    "files/crds/noderesourcetopologies.topology.node.k8s.io.yaml",
    "files/crds/nodeslos.slo.koordinator.sh.yaml",
    "files/crds/podgroups.scheduling.sigs.k8s.io.yaml",
    "files/crds/podmigrationjobs.scheduling.koordinator.sh.yaml",
    "files/crds/recommendations.analysis.koordinator.sh.yaml",
    "files/crds/reservations.scheduling.koordinator.sh.yaml",
    "files/crds/scheduleexplanations.scheduling.koordinator.sh.yaml",
    "files/dashboards/co-location.json",
];

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test looks for forgotten files")]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn no_file_of_the_chart_is_forgotten() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/chart/tidepool");
        let mut found = BTreeSet::new();
        for dir in ["templates", "files/alerts", "files/crds", "files/dashboards"] {
            for entry in fs::read_dir(root.join(dir)).unwrap() {
                found.insert(format!("{dir}/{}", entry.unwrap().file_name().display()));
            }
        }
        // Helm's words after an installation.
        found.remove("templates/NOTES.txt");
        let known: BTreeSet<String> =
            TEMPLATES.iter().chain(FILES).map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(found, known);
    }
}
