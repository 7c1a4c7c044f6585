//! From a configuration to the engine's profiles.

use std::collections::BTreeMap;

use api::scheduler::args::Arguments;
use api::scheduler::{Configuration, Point, Profile};
use sched::profile::{Enabled, Point as EnginePoint, Profile as EngineProfile};
use serde::Serialize;
use serde_json::Value;

/// All profiles in the engine's words. Resources that an extender takes care of are not counted.
pub fn translate_all(configuration: &Configuration) -> Vec<EngineProfile> {
    let managed = configuration.extenders.iter().flat_map(|own| &own.managed_resources);
    let ignored = managed.filter(|own| own.ignored_by_scheduler).map(|own| own.name.clone());
    let ignored: Vec<String> = ignored.collect();
    let all = configuration.profiles.iter().map(|profile| {
        let mut profile = profile.clone();
        profile.arguments.fit.ignored_resources.extend(ignored.iter().cloned());
        translate(&profile)
    });
    all.collect()
}

/// The same profile in the engine's words; plugins that do nothing yet are left out.
pub fn translate(profile: &Profile) -> EngineProfile {
    let mut points = BTreeMap::new();
    for point in EnginePoint::ALL {
        let Some(named) = Point::from_word(point.key()) else { continue };
        let enabled = profile
            .points
            .active(named)
            .map(|own| Enabled { name: own.plugin.name.to_owned(), weight: own.weight });
        points.insert(point, enabled.collect());
    }
    EngineProfile {
        scheduler_name: profile.scheduler_name.clone(),
        points,
        args: arguments(&profile.arguments),
    }
}

fn arguments(all: &Arguments) -> BTreeMap<String, Value> {
    let rows = [
        ("DefaultPreemption", plain(&all.default_preemption)),
        ("InterPodAffinity", plain(&all.inter_pod_affinity)),
        ("NodeAffinity", plain(&all.node_affinity)),
        ("NodeResourcesBalancedAllocation", plain(&all.balanced_allocation)),
        ("NodeResourcesFit", plain(&all.fit)),
        ("PodTopologySpread", plain(&all.spread)),
        ("VolumeBinding", plain(&all.volume_binding)),
        ("LoadAwareScheduling", plain(&all.load_aware)),
        ("NodeNUMAResource", plain(&all.numa)),
        ("NodeResourcesFitPlus", plain(&all.fit_plus)),
        ("ScarceResourceAvoidance", plain(&all.scarce)),
        ("SchedulingHint", plain(&all.hint)),
    ];
    rows.into_iter().map(|(name, args)| (name.to_owned(), args)).collect()
}

/// Args as plain values, without what is absent.
fn plain(args: &impl Serialize) -> Value {
    // Args are maps with text keys, so that they always have a JSON form.
    let mut value = serde_json::to_value(args).unwrap_or_default();
    strip(&mut value);
    value
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use api::scheduler::load;
    use api::scheduler::plugins::PLUGINS;
    use sched::scheduler::{Options, Scheduler};

    use super::*;

    /// What the configuration offers is what the engine has.
    #[test]
    fn both_tables_of_plugins_agree() {
        for known in PLUGINS {
            let row = sched::plugins::find(known.name);
            assert_eq!(row.is_some(), known.is_implemented, "{}", known.name);
            let Some(row) = row else { continue };
            let keys: BTreeSet<&str> = row.points.iter().map(|point| point.key()).collect();
            let named: BTreeSet<&str> = known.points.iter().map(|point| point.as_str()).collect();
            assert_eq!(keys, named, "{}", known.name);
            assert_eq!(row.is_default, known.is_default, "{}", known.name);
            if known.acts_at(Point::Score) {
                assert_eq!(row.weight, known.weight, "{}", known.name);
            }
        }
        let defaults: Vec<&str> =
            PLUGINS.iter().filter(|known| known.is_default).map(|known| known.name).collect();
        let rows = sched::plugins::TABLE.iter().filter(|row| row.is_default).map(|row| row.name);
        assert_eq!(defaults, rows.collect::<Vec<_>>(), "in the order of running");
    }

    #[test]
    fn every_argument_reaches_its_plugin() {
        let text = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: LoadAwareScheduling}, {name: NodeNUMAResource}, {name: NodeResourcesFitPlus}, {name: ScarceResourceAvoidance}, {name: SchedulingHint}]}
  pluginConfig:
  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 20, minCandidateNodesAbsolute: 50}}
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 5, ignorePreferredTermsOfExistingPods: true}}
  - {name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}
  - {name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 1}]}}
  - {name: NodeResourcesFit, args: {ignoredResources: [x.y/z], ignoredResourceGroups: [x.y], scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 3}], requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}}
  - {name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 60}}
  - {name: LoadAwareScheduling, args: {filterExpiredNodeMetrics: false, nodeMetricExpirationSeconds: 300, enableScheduleWhenNodeMetricsExpired: true, resourceWeights: {cpu: 2}, dominantResourceWeight: 1, usageThresholds: {cpu: 70}, prodUsageThresholds: {cpu: 55}, prodUsageIncludeSys: true, scoreAccordingProdUsage: true, aggregated: {usageThresholds: {cpu: 70}, usageAggregationType: p95, usageAggregatedDuration: 5m, scoreAggregationType: avg, scoreAggregatedDuration: 10m}, estimatedScalingFactors: {cpu: 80}, estimatedSecondsAfterPodScheduled: 5, estimatedSecondsAfterInitialized: 6, allowCustomizeEstimation: true, supportedResources: [x.y/z]}}
  - {name: NodeNUMAResource, args: {defaultCPUBindPolicy: SpreadByPCPUs, scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}, numaScoringStrategy: {type: LeastAllocated, resources: [{name: memory, weight: 1}]}}}
  - {name: NodeResourcesFitPlus, args: {resources: {cpu: {type: MostAllocated, weight: 2}}}}
  - {name: ScarceResourceAvoidance, args: {resources: [nvidia.com/gpu]}}
  - {name: SchedulingHint, args: {maxHintNodes: 5}}
";
        let (configuration, findings) = load("file", text);
        assert_eq!(findings, []);
        let profiles = configuration.unwrap().profiles.iter().map(translate).collect::<Vec<_>>();
        let fit = &profiles[0].args["NodeResourcesFit"]["scoringStrategy"]["resources"][0];
        assert_eq!((&fit["name"], &fit["weight"]), (&"cpu".into(), &3.into()));
        Scheduler::new(profiles, Options::default()).expect("the engine reads what it is given");
    }
}
