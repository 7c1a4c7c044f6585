use super::*;

fn plugins(yaml: &str) -> Plugins {
    serde_saphyr::from_str(yaml).unwrap()
}

fn merged(yaml: &str) -> (Points, Vec<String>) {
    let mut findings = Vec::new();
    let points = merge(&plugins(yaml), "plugins", &mut findings);
    let found = findings.iter().map(|f| format!("{} {}", f.code, f.path.clone().unwrap()));
    (points, found.collect())
}

/// Every plugin the reference runs at a point, in its order.
const WIRING: &str = "
preEnqueue: {enabled: [{name: Coscheduling}]}
queueSort: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}]}
preFilter: {enabled: [{name: SchedulingHint}, {name: Reservation}, {name: NodeNUMAResource}, {name: DeviceShare}, {name: Coscheduling}, {name: ElasticQuota}]}
filter: {enabled: [{name: LoadAwareScheduling}, {name: NodeNUMAResource}, {name: DeviceShare}, {name: Reservation}]}
postFilter: {disabled: [{name: '*'}], enabled: [{name: Reservation}, {name: Coscheduling}, {name: ElasticQuota}, {name: DefaultPreemption}]}
preScore: {enabled: [{name: Reservation}, {name: Coscheduling}]}
score: {enabled: [{name: LoadAwareScheduling, weight: 1}, {name: NodeNUMAResource, weight: 1}, {name: DeviceShare, weight: 1}, {name: Reservation, weight: 5000}, {name: Coscheduling}]}
reserve: {enabled: [{name: LoadAwareScheduling}, {name: NodeNUMAResource}, {name: DeviceShare}, {name: Reservation}, {name: Coscheduling}, {name: ElasticQuota}]}
permit: {enabled: [{name: Coscheduling}]}
preBind: {enabled: [{name: NodeNUMAResource}, {name: DeviceShare}, {name: Reservation}, {name: Coscheduling}]}
bind: {disabled: [{name: '*'}], enabled: [{name: Reservation}, {name: DefaultBinder}]}
postBind: {enabled: [{name: Coscheduling}]}
";

#[test]
fn the_references_wiring_keeps_its_order() {
    let (points, found) = merged(WIRING);
    assert_eq!(found, [""; 0]);
    let rows = [
        (Point::PreEnqueue, "SchedulingGates DefaultPreemption Coscheduling"),
        (Point::QueueSort, "PrioritySort"),
        (
            Point::PreFilter,
            "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits \
             VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources \
             SchedulingHint Reservation NodeNUMAResource DeviceShare Coscheduling ElasticQuota",
        ),
        (
            Point::Filter,
            "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit \
             VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread \
             InterPodAffinity DynamicResources LoadAwareScheduling NodeNUMAResource DeviceShare \
             Reservation",
        ),
        (Point::PostFilter, "Reservation Coscheduling ElasticQuota DefaultPreemption"),
        (
            Point::PreScore,
            "TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread InterPodAffinity \
             NodeResourcesBalancedAllocation Reservation Coscheduling",
        ),
        (
            Point::Score,
            "TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread InterPodAffinity \
             NodeResourcesBalancedAllocation ImageLocality LoadAwareScheduling NodeNUMAResource \
             DeviceShare Reservation Coscheduling",
        ),
        (
            Point::Reserve,
            "VolumeBinding LoadAwareScheduling NodeNUMAResource DeviceShare Reservation \
             Coscheduling ElasticQuota",
        ),
        (Point::Permit, "Coscheduling"),
        (
            Point::PreBind,
            "VolumeBinding NodeNUMAResource DeviceShare Reservation Coscheduling DefaultPreBind",
        ),
        (Point::Bind, "Reservation DefaultBinder"),
        (Point::PostBind, "Coscheduling"),
    ];
    for (point, want) in rows {
        assert_eq!(points.names(point).join(" "), want, "{point}");
    }
    let weights: Vec<i64> = points.all(Point::Score).iter().map(|own| own.weight).collect();
    assert_eq!(weights, [3, 2, 1, 2, 2, 1, 1, 1, 1, 1, 5000, 1]);
}

#[test]
fn lists_are_merged_by_the_rules() {
    struct Case {
        name: &'static str,
        yaml: &'static str,
        point: Point,
        want: &'static str,
    }
    let default = "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 \
        InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1";
    let cases = [
        Case { name: "nothing written", yaml: "{}", point: Point::Score, want: default },
        Case {
            name: "a default of multiPoint is replaced in place",
            yaml: "multiPoint: {enabled: [{name: NodeAffinity, weight: 9}]}",
            point: Point::Score,
            want: "TaintToleration=3 NodeAffinity=9 NodeResourcesFit=1 PodTopologySpread=2 \
                InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
        },
        Case {
            name: "a custom plugin of multiPoint follows, everywhere it acts",
            yaml: "multiPoint: {enabled: [{name: LoadAwareScheduling}]}",
            point: Point::Filter,
            want: "NodeUnschedulable=0 NodeName=0 TaintToleration=3 NodeAffinity=2 NodePorts=0 \
                NodeResourcesFit=1 VolumeRestrictions=0 NodeVolumeLimits=0 VolumeBinding=0 \
                VolumeZone=0 PodTopologySpread=2 InterPodAffinity=2 DynamicResources=0 \
                LoadAwareScheduling=1",
        },
        Case {
            name: "all defaults can be dropped",
            yaml: "multiPoint: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}, {name: PrioritySort}, {name: DefaultBinder}]}",
            point: Point::Score,
            want: "NodeResourcesFit=1",
        },
        Case {
            name: "one default can be dropped, and comes back at the end",
            yaml: "multiPoint: {disabled: [{name: TaintToleration}], enabled: [{name: TaintToleration}]}",
            point: Point::PreScore,
            want: "NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 \
                NodeResourcesBalancedAllocation=1 TaintToleration=3",
        },
        Case {
            name: "what a point names of multiPoint comes first, as written",
            yaml: "score: {enabled: [{name: ImageLocality, weight: 7}, {name: LoadAwareScheduling}, {name: NodeAffinity}]}",
            point: Point::Score,
            want: "ImageLocality=7 NodeAffinity=2 TaintToleration=3 NodeResourcesFit=1 \
                PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 \
                LoadAwareScheduling=1",
        },
        Case {
            name: "a point disables one",
            yaml: "score: {disabled: [{name: ImageLocality}, {name: InterPodAffinity}]}",
            point: Point::Score,
            want: "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 \
                NodeResourcesBalancedAllocation=1",
        },
        Case {
            name: "and another point does not notice",
            yaml: "score: {disabled: [{name: '*'}]}",
            point: Point::PreScore,
            want: "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 \
                InterPodAffinity=2 NodeResourcesBalancedAllocation=1",
        },
        Case {
            name: "with all disabled the written order stands",
            yaml: "score: {disabled: [{name: '*'}], enabled: [{name: LoadAwareScheduling, weight: 2}, {name: ImageLocality}]}",
            point: Point::Score,
            want: "LoadAwareScheduling=2 ImageLocality=1",
        },
        Case {
            name: "disabled and enabled at once goes last",
            yaml: "score: {disabled: [{name: TaintToleration}], enabled: [{name: TaintToleration, weight: 4}]}",
            point: Point::Score,
            want: "NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 \
                NodeResourcesBalancedAllocation=1 ImageLocality=1 TaintToleration=4",
        },
        Case {
            name: "weight 0 is the default weight",
            yaml: "score: {disabled: [{name: '*'}], enabled: [{name: TaintToleration, weight: 0}, {name: NodeNUMAResource, weight: 0}]}",
            point: Point::Score,
            want: "TaintToleration=3 NodeNUMAResource=1",
        },
        Case {
            name: "the last writer is last although another follows in the file",
            yaml: "preBind: {enabled: [{name: DefaultPreBind}, {name: NodeNUMAResource}]}",
            point: Point::PreBind,
            want: "VolumeBinding=0 NodeNUMAResource=1 DefaultPreBind=1",
        },
        Case {
            name: "the last writer can be disabled",
            yaml: "preBind: {disabled: [{name: DefaultPreBind}]}",
            point: Point::PreBind,
            want: "VolumeBinding=0",
        },
    ];
    for Case { name, yaml, point, want } in cases {
        let (points, found) = merged(yaml);
        assert_eq!(found, [""; 0], "{name}");
        let list: Vec<String> = points
            .all(point)
            .iter()
            .map(|own| format!("{}={}", own.plugin.name, own.weight))
            .collect();
        assert_eq!(list.join(" "), want, "{name}");
    }
}

#[test]
fn what_cannot_run_is_refused() {
    let cases = [
        (
            "unknown",
            "filter: {enabled: [{name: NodePort}]}",
            "TP1402 plugins.filter.enabled[0].name",
        ),
        (
            "unknown and disabled",
            "filter: {disabled: [{name: Nothing}]}",
            "TP1402 plugins.filter.disabled[0].name",
        ),
        (
            "twice",
            "filter: {enabled: [{name: NodeName}, {name: NodeName}]}",
            "TP1404 plugins.filter.enabled[1].name",
        ),
        ("misplaced", "permit: {enabled: [{name: NodeName}]}", "TP1404 plugins.permit.enabled"),
        ("no binder", "bind: {disabled: [{name: '*'}]}", "TP1405 plugins.bind"),
        (
            "a binder that does not bind",
            "bind: {disabled: [{name: '*'}], enabled: [{name: Reservation}]}",
            "TP1405 plugins.bind",
        ),
        ("no order", "queueSort: {disabled: [{name: '*'}]}", "TP1405 plugins.queueSort"),
        ("two orders", "queueSort: {enabled: [{name: Coscheduling}]}", "TP1405 plugins.queueSort"),
        (
            "negative weight",
            "score: {enabled: [{name: ImageLocality, weight: -1}]}",
            "TP1004 plugins.score.enabled[0].weight",
        ),
    ];
    for (name, yaml, want) in cases {
        assert_eq!(merged(yaml).1, [want], "{name}");
    }
}
