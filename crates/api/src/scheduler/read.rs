//! From the text of a file to what it means.

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use units::GoDuration;

use super::args::{Arguments, Completed, DynamicResourcesArgs};
use super::file::{Election, File, FileProfile, PluginConfig};
use super::limits::{Limits, Out};
use super::plugins::{Known, PLUGINS};
use super::{Configuration, KIND, Lease, Point, Points, Profile, VERSIONS, extender, merge};
use crate::finding::{Code, Finding, Severity};
use crate::json::{self, Node, Step, Value};
use crate::protocol::name::SCHEDULER_PROFILE;
use crate::shape::Shape;

/// Reads a file called `object`. There is a configuration unless a finding is an error.
pub fn load(object: &str, text: &str) -> (Option<Configuration>, Vec<Finding>) {
    let mut findings = Vec::new();
    let configuration = parse(text, &mut findings).and_then(|node| read(&node, &mut findings));
    let is_usable = !findings.iter().any(Finding::is_error);
    let findings = findings.into_iter().map(|finding| finding.on(object, None)).collect();
    (configuration.filter(|_| is_usable), findings)
}

fn parse(text: &str, findings: &mut Vec<Finding>) -> Option<Node> {
    let parsed = match text.trim_start().starts_with('{') {
        true => json::parse(text).map_err(Finding::from),
        false => json::from_yaml(text).map_err(|error| {
            Finding::error(Code::Syntax, format!("not YAML: {error}"), "correct the text")
        }),
    };
    parsed.map_err(|finding| findings.push(finding)).ok()
}

fn read(node: &Node, findings: &mut Vec<Finding>) -> Option<Configuration> {
    if !is_readable(node, findings) {
        return None;
    }
    let file: File = fit(node, "", findings)?;
    check_numbers(&file, findings);
    extender::check(&file.extenders, findings);
    let lease = read_lease(&file.leader_election, findings);
    let profiles = read_profiles(node, &file.profiles, findings);
    let seconds = |seconds: Option<i64>, default| {
        Duration::from_secs(seconds.and_then(|own| u64::try_from(own).ok()).unwrap_or(default))
    };
    locate(node, findings);
    Some(Configuration {
        lease,
        kubeconfig: file.client_connection.kubeconfig.filter(|path| !path.is_empty()),
        initial_backoff: seconds(file.pod_initial_backoff_seconds, 1),
        max_backoff: seconds(file.pod_max_backoff_seconds, 10),
        profiles,
        extenders: file.extenders,
    })
}

/// Is it the right kind, in a version whose fields we know?
fn is_readable(node: &Node, findings: &mut Vec<Finding>) -> bool {
    let word = |name: &str| match node.find(&[name.into()]).map(|node| &node.value) {
        Some(Value::String(text)) => text.clone(),
        _ => String::new(),
    };
    let (version, kind) = (word("apiVersion"), word("kind"));
    if kind == KIND && VERSIONS.contains(&version.as_str()) {
        return true;
    }
    let rule = format!("must be kind {KIND} of {}", VERSIONS.join(" or "));
    let fix = format!("begin the file with apiVersion: {} and kind: {KIND}", VERSIONS[0]);
    findings.push(
        Finding::error(Code::ConfigVersion, rule, fix)
            .at(node.at)
            .value(format!("kind {kind:?} of {version:?}")),
    );
    false
}

/// A value of type `T`, strictly: what the wire would forgive is an error here.
fn fit<T: DeserializeOwned + JsonSchema>(
    node: &Node,
    path: &str,
    findings: &mut Vec<Finding>,
) -> Option<T> {
    let mut found = Vec::new();
    let value = Shape::of::<T>().fit_at(node, path, &mut found);
    for finding in &mut found {
        if finding.severity == Severity::Warning {
            finding.severity = Severity::Error;
            finding.rule = finding.rule.replace(", ignored", "").replace("; ignored", "");
        }
    }
    let is_fit = found.is_empty();
    findings.append(&mut found);
    match serde_json::from_value(value.unwrap_or_else(|| serde_json::Value::Object(<_>::default())))
    {
        Ok(value) => Some(value),
        Err(error) if is_fit => {
            let fix = "compare with the example in the documentation";
            let rule = format!("cannot be read: {error}");
            findings.push(Finding::error(Code::WrongType, rule, fix).at(node.at).path(path));
            None
        }
        // What is wrong has been said.
        Err(_) => None,
    }
}

fn out_of_range(path: &str, value: i64, rule: &str, fix: &str) -> Finding {
    Finding::error(Code::OutOfRange, rule, fix).path(path).value(value.to_string())
}

fn check_numbers(file: &File, findings: &mut Vec<Finding>) {
    if let Some(parallelism) = file.parallelism.filter(|own| *own < 1) {
        let fix = "use 16, the default, or remove the field";
        findings.push(out_of_range("parallelism", parallelism.into(), "must be above 0", fix));
    }
    let (initial, max) =
        (file.pod_initial_backoff_seconds.unwrap_or(1), file.pod_max_backoff_seconds.unwrap_or(10));
    if initial < 1 {
        let fix = "use 1, the default, or remove the field";
        findings.push(out_of_range("podInitialBackoffSeconds", initial, "must be above 0", fix));
    }
    if max < initial {
        let rule = "must not be below podInitialBackoffSeconds";
        findings.push(out_of_range("podMaxBackoffSeconds", max, rule, "use 10, the default"));
    }
    check_percentage("percentageOfNodesToScore", file.percentage_of_nodes_to_score, findings);
}

fn check_percentage(path: &str, percentage: Option<i32>, findings: &mut Vec<Finding>) {
    let Some(percentage) = percentage else { return };
    if !(0..=100).contains(&percentage) {
        let rule = "must be between 0 and 100";
        findings.push(out_of_range(path, percentage.into(), rule, "remove the field"));
    } else if !matches!(percentage, 0 | 100) {
        let rule = "every node is scored, whatever stands here";
        findings.push(
            Finding::warning(Code::NoEffect, rule, "remove the field")
                .path(path)
                .value(percentage.to_string()),
        );
    }
}

fn read_lease(election: &Election, findings: &mut Vec<Finding>) -> Option<Lease> {
    if election.leader_elect == Some(false) {
        return None;
    }
    let default = Lease::default();
    if let Some(lock) =
        election.resource_lock.as_deref().filter(|lock| !["", "leases"].contains(lock))
    {
        findings.push(
            Finding::error(Code::BadText, "must be leases", "use leases, or remove the field")
                .path("leaderElection.resourceLock")
                .value(lock),
        );
    }
    let length = |own: Option<GoDuration>, default| {
        own.filter(|own| !own.is_zero()).map_or(Some(default), GoDuration::to_std)
    };
    let (Some(lease), Some(renew), Some(retry)) = (
        length(election.lease_duration, default.length),
        length(election.renew_deadline, default.deadline),
        length(election.retry_period, default.retry),
    ) else {
        let rule = "durations must not be negative";
        let fix = "use 15s, 10s and 2s, the defaults";
        findings.push(Finding::error(Code::OutOfRange, rule, fix).path("leaderElection"));
        return None;
    };
    if lease <= renew || renew <= retry {
        let rule =
            "leaseDuration must be longer than renewDeadline, and that longer than retryPeriod";
        let fix = "use 15s, 10s and 2s, the defaults";
        findings.push(Finding::error(Code::OutOfOrder, rule, fix).path("leaderElection"));
    }
    let name = |own: &Option<String>, default| {
        own.clone().filter(|own| !own.is_empty()).unwrap_or(default)
    };
    Some(Lease {
        namespace: name(&election.resource_namespace, default.namespace),
        name: name(&election.resource_name, default.name),
        length: lease,
        deadline: renew,
        retry,
    })
}

fn read_profiles(
    node: &Node,
    written: &[FileProfile],
    findings: &mut Vec<Finding>,
) -> Vec<Profile> {
    if written.is_empty() {
        return vec![Profile::plain(SCHEDULER_PROFILE)];
    }
    let mut profiles: Vec<Profile> = Vec::new();
    for (index, profile) in written.iter().enumerate() {
        let path = format!("profiles[{index}]");
        let name = profile.scheduler_name.as_deref().unwrap_or_default();
        let scheduler_name = match name {
            "" if written.len() == 1 => SCHEDULER_PROFILE,
            name => name,
        };
        let place = format!("{path}.schedulerName");
        let shape = |rule: &str, fix: &str| Finding::error(Code::ProfileShape, rule, fix);
        if scheduler_name.is_empty() {
            let rule = "with several profiles each needs a name";
            findings.push(shape(rule, "add schedulerName").path(&place));
        } else if profiles.iter().any(|other| other.scheduler_name == scheduler_name) {
            let rule = "two profiles have the same name";
            findings.push(shape(rule, "give one of them another").path(&place).value(name));
        }
        check_percentage(
            &format!("{path}.percentageOfNodesToScore"),
            profile.percentage_of_nodes_to_score,
            findings,
        );
        let points = merge::merge(&profile.plugins, &format!("{path}.plugins"), findings);
        let arguments = read_arguments(node, index, profile, findings);
        report_missing(&points, &profile.plugin_config, &path, findings);
        let profile = Profile { scheduler_name: scheduler_name.to_owned(), points, arguments };
        if let Some(first) = profiles.first()
            && first.points.names(Point::QueueSort) != profile.points.names(Point::QueueSort)
        {
            let rule = "all profiles share one queue and must have the same queueSort";
            let place = format!("{path}.plugins.queueSort");
            findings.push(shape(rule, "use PrioritySort in all profiles").path(place));
        }
        profiles.push(profile);
    }
    profiles
}

/// Plugins that are not there yet are said once a profile.
fn report_missing(
    points: &Points,
    configs: &[PluginConfig],
    path: &str,
    findings: &mut Vec<Finding>,
) {
    for plugin in PLUGINS.iter().filter(|plugin| !plugin.is_implemented) {
        let config = configs.iter().position(|config| config.name == plugin.name);
        let place = match config {
            _ if points.has(plugin.name) => format!("{path}.plugins"),
            Some(index) => format!("{path}.pluginConfig[{index}]"),
            None => continue,
        };
        let rule = "the plugin is not implemented yet, ignored";
        let fix = "nothing to do; pods that depend on it are scheduled without it";
        findings
            .push(Finding::warning(Code::NotImplemented, rule, fix).path(place).value(plugin.name));
    }
}

fn read_arguments(
    node: &Node,
    profile: usize,
    written: &FileProfile,
    findings: &mut Vec<Finding>,
) -> Arguments {
    let mut arguments = Arguments::default();
    let mut seen: Vec<&str> = Vec::new();
    for (index, config) in written.plugin_config.iter().enumerate() {
        let path = format!("profiles[{profile}].pluginConfig[{index}]");
        let name = config.name.as_str();
        let Some(plugin) = Known::named(name) else {
            findings.push(merge::unknown(name, true).path(format!("{path}.name")));
            continue;
        };
        if seen.contains(&name) {
            let rule = "the plugin is configured twice";
            findings.push(
                Finding::error(Code::ProfileShape, rule, "keep one of the two")
                    .path(format!("{path}.name"))
                    .value(name),
            );
        }
        seen.push(plugin.name);
        let steps: [Step; 5] = [
            "profiles".into(),
            Step::Index(profile),
            "pluginConfig".into(),
            Step::Index(index),
            "args".into(),
        ];
        let Some(args) = node.find(&steps).filter(|args| args.value != Value::Null) else {
            continue;
        };
        let reader = Reader { plugin, node: args, path: format!("{path}.args") };
        reader.read(&mut arguments, findings);
    }
    arguments
}

/// The args of one plugin.
struct Reader<'a> {
    plugin: &'static Known,
    node: &'a Node,
    path: String,
}

impl Reader<'_> {
    fn read(&self, arguments: &mut Arguments, findings: &mut Vec<Finding>) {
        self.check_kind(findings);
        if !self.plugin.is_implemented {
            return;
        }
        match self.plugin.name {
            "DefaultPreemption" => self.fill(&mut arguments.default_preemption, findings),
            "InterPodAffinity" => self.fill(&mut arguments.inter_pod_affinity, findings),
            "NodeAffinity" => self.fill(&mut arguments.node_affinity, findings),
            "NodeResourcesBalancedAllocation" => {
                self.fill(&mut arguments.balanced_allocation, findings);
            }
            "NodeResourcesFit" => self.fill(&mut arguments.fit, findings),
            "PodTopologySpread" => self.fill(&mut arguments.spread, findings),
            "VolumeBinding" => self.fill(&mut arguments.volume_binding, findings),
            "DynamicResources" => self.fill(&mut DynamicResourcesArgs::default(), findings),
            "LoadAwareScheduling" => self.fill(&mut arguments.load_aware, findings),
            "NodeNUMAResource" => self.fill(&mut arguments.numa, findings),
            "NodeResourcesFitPlus" => self.fill(&mut arguments.fit_plus, findings),
            "ScarceResourceAvoidance" => self.fill(&mut arguments.scarce, findings),
            "SchedulingHint" => self.fill(&mut arguments.hint, findings),
            name => {
                let rule = "the plugin takes no arguments";
                findings.push(
                    Finding::error(Code::PluginPlace, rule, "remove the entry")
                        .at(self.node.at)
                        .path(&self.path)
                        .value(name),
                );
            }
        }
    }

    /// `apiVersion` and `kind` may be missing, but must not be those of something else.
    fn check_kind(&self, findings: &mut Vec<Finding>) {
        let want = format!("{}Args", self.plugin.name);
        let rows: [(&str, Vec<&str>); 2] =
            [("kind", vec![&want]), ("apiVersion", VERSIONS.to_vec())];
        for (name, allowed) in rows {
            let Some(node) = self.node.find(&[name.into()]) else { continue };
            let is_allowed =
                matches!(&node.value, Value::String(text) if allowed.contains(&text.as_str()));
            if !is_allowed {
                let rule = format!("must be {}", allowed.join(" or "));
                let fix = format!("use {}, or remove the field", allowed.join(" or "));
                findings.push(
                    Finding::error(Code::ConfigVersion, rule, fix)
                        .at(node.at)
                        .path(format!("{}.{name}", self.path))
                        .value(node.to_string()),
                );
            }
        }
    }

    fn fill<T>(&self, into: &mut T, findings: &mut Vec<Finding>)
    where
        T: DeserializeOwned + JsonSchema + Completed + Limits,
    {
        let mut node = self.node.clone();
        if let Value::Object(members) = &mut node.value {
            members.retain(|member| !["apiVersion", "kind"].contains(&member.name.as_str()));
        }
        if let Some(mut args) = fit::<T>(&node, &self.path, findings) {
            args.complete();
            args.check(&mut Out::new(self.path.clone(), findings));
            *into = args;
        }
    }
}

/// Gives findings that know their path the place it stands at.
fn locate(root: &Node, findings: &mut [Finding]) {
    for finding in findings.iter_mut().filter(|finding| finding.at.is_none()) {
        let Some(path) = &finding.path else { continue };
        let mut steps = steps(path);
        // A field that is missing is pointed at where it would stand.
        while !steps.is_empty() {
            if let Some(node) = root.find(&steps) {
                finding.at = Some(node.at);
                break;
            }
            steps.pop();
        }
    }
}

/// `profiles[0].plugins` in steps. Names with dots are cut, so that their parent is found.
fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (name, indexes) = part.split_once('[').unwrap_or((part, ""));
        steps.push(Step::from(name));
        let indexes = indexes.split('[').filter_map(|text| text.strip_suffix(']'));
        steps.extend(indexes.filter_map(|text| text.parse().ok()).map(Step::Index));
    }
    steps
}
