//! Deployments, ReplicaSets, DaemonSets, StatefulSets, Jobs and CronJobs.

use serde_json::{Value, json};

use super::{not_negative, one_of, pod, selector, unchanged};
use crate::schema::cause::{Causes, Path};
use crate::schema::names;
use crate::schema::object::{flag, get, has, int, put, text};

/// Template and selector of a workload whose pods run for ever.
fn check_long_running(spec: &Value, kind: &str, label: &str, path: &Path<'_>, causes: &mut Causes) {
    selector::check_template(spec, label, path, causes);
    let (template, path) = (get(spec, "template"), path.field("template"));
    pod::check_template(template, &path, causes);
    let (pod, path) = (get(template, "spec"), path.field("spec"));
    let policy = text(pod, "restartPolicy");
    if !policy.is_empty() && policy != "Always" {
        causes.not_supported(&path.field("restartPolicy"), &json!(policy), &["Always"]);
    }
    if has(pod, "activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        causes.forbidden(&path.field("activeDeadlineSeconds"), &detail);
    }
}

fn same_selector(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let Some(old) = old else { return };
    let path = Path::ROOT.field("spec");
    let (new, old) = (get(get(new, "spec"), "selector"), get(get(old, "spec"), "selector"));
    unchanged(new, old, &path.field("selector"), causes);
}

pub(super) fn controller_revision(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let path = Path::ROOT.field("data");
    let data = get(new, "data");
    match old {
        Some(old) => unchanged(data, get(old, "data"), &path, causes),
        None if data.is_null() => causes.required(&path, "data is mandatory"),
        None => {}
    }
    not_negative(new, "revision", &Path::ROOT, causes);
}

pub(super) fn deployment(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"]
    {
        not_negative(spec, field, &path, causes);
    }
    check_long_running(spec, "Deployment", "deployment", &path, causes);
    deployment_strategy(get(spec, "strategy"), &path.field("strategy"), causes);
    if let Some(deadline) = int(spec, "progressDeadlineSeconds")
        && deadline <= int(spec, "minReadySeconds").unwrap_or_default()
    {
        let detail = "must be greater than minReadySeconds";
        causes.invalid(&path.field("progressDeadlineSeconds"), &json!(deadline), detail);
    }
    same_selector(new, old, causes);
}

fn deployment_strategy(strategy: &Value, path: &Path<'_>, causes: &mut Causes) {
    one_of(strategy, "type", &["Recreate", "RollingUpdate"], path, causes);
    let rolling = path.field("rollingUpdate");
    match text(strategy, "type") {
        "Recreate" if has(strategy, "rollingUpdate") => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            causes.forbidden(&rolling, detail);
        }
        "RollingUpdate" => {
            let update = get(strategy, "rollingUpdate");
            int_or_percent(update, "maxUnavailable", true, &rolling, causes);
            int_or_percent(update, "maxSurge", false, &rolling, causes);
            if is_zero(get(update, "maxUnavailable")) && is_zero(get(update, "maxSurge")) {
                let at = rolling.field("maxUnavailable");
                let detail = "may not be 0 when `maxSurge` is 0";
                causes.invalid(&at, get(update, "maxUnavailable"), detail);
            }
        }
        _ => {}
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text == "0%",
        value => value == 0,
    }
}

/// A count, or a share of the replicas.
pub(super) fn int_or_percent(
    value: &Value,
    field: &str,
    at_most_all: bool,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let (found, path) = (get(value, field), path.field(field));
    match found {
        Value::String(text) => match text.strip_suffix('%').map(str::parse::<u32>) {
            Some(Ok(percent)) if at_most_all && percent > 100 => {
                causes.invalid(&path, found, "must not be greater than 100%");
            }
            Some(Ok(_)) => {}
            _ => {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' \
                              (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                causes.invalid(&path, found, detail);
            }
        },
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            causes.invalid(&path, found, "must be greater than or equal to 0");
        }
        _ => {}
    }
}

pub(super) fn replica_set(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    for field in ["replicas", "minReadySeconds"] {
        not_negative(spec, field, &path, causes);
    }
    check_long_running(spec, "ReplicaSet", "deployment", &path, causes);
    same_selector(new, old, causes);
}

pub(super) fn replication_controller(new: &Value, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    for field in ["replicas", "minReadySeconds"] {
        not_negative(spec, field, &path, causes);
    }
    if !has(spec, "selector") {
        causes.required(&path.field("selector"), "");
    }
    pod::check_template(get(spec, "template"), &path.field("template"), causes);
}

pub(super) fn daemon_set(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    for field in ["minReadySeconds", "revisionHistoryLimit"] {
        not_negative(spec, field, &path, causes);
    }
    check_long_running(spec, "DaemonSet", "daemonset", &path, causes);
    let strategy = get(spec, "updateStrategy");
    let at = path.field("updateStrategy");
    one_of(strategy, "type", &["OnDelete", "RollingUpdate"], &at, causes);
    if text(strategy, "type") == "RollingUpdate" {
        let (update, at) = (get(strategy, "rollingUpdate"), at.field("rollingUpdate"));
        int_or_percent(update, "maxUnavailable", true, &at, causes);
        int_or_percent(update, "maxSurge", true, &at, causes);
        if is_zero(get(update, "maxUnavailable")) && is_zero(get(update, "maxSurge")) {
            causes.required(&at.field("maxUnavailable"), "cannot be 0 when maxSurge is 0");
        }
    }
    same_selector(new, old, causes);
}

pub(super) fn stateful_set(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        not_negative(spec, field, &path, causes);
    }
    one_of(spec, "podManagementPolicy", &["OrderedReady", "Parallel"], &path, causes);
    let strategies = ["OnDelete", "RollingUpdate"];
    one_of(get(spec, "updateStrategy"), "type", &strategies, &path.field("updateStrategy"), causes);
    check_long_running(spec, "StatefulSet", "statefulset", &path, causes);
    let Some(old) = old else { return };
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|name, _| !MUTABLE.contains(&name.as_str()));
        }
        spec
    };
    if fixed(spec) != fixed(get(old, "spec")) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                      'template', 'updateStrategy', 'revisionHistoryLimit', \
                      'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        causes.forbidden(&path, detail);
    }
}

pub(super) fn job(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    job_spec(spec, &path, causes);
    if let Some(old) = old {
        job_change(spec, get(old, "spec"), get(old, "status"), &path, causes);
    }
}

fn job_spec(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(spec, field, path, causes);
    }
    let modes = ["NonIndexed", "Indexed"];
    super::maybe_one_of(spec, "completionMode", &modes, path, causes);
    if text(spec, "completionMode") == "Indexed" {
        if !has(spec, "completions") {
            causes.required(&path.field("completions"), "when completion mode is Indexed");
        }
    } else if has(spec, "backoffLimitPerIndex") {
        let detail = "requires indexed completion mode";
        let limit = get(spec, "backoffLimitPerIndex");
        causes.invalid(&path.field("backoffLimitPerIndex"), limit, detail);
    }
    let (template, at) = (get(spec, "template"), path.field("template"));
    pod::check_template(template, &at, causes);
    let (pod, at) = (get(template, "spec"), at.field("spec"));
    if !matches!(text(pod, "restartPolicy"), "OnFailure" | "Never") {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        causes.required(&at.field("restartPolicy"), detail);
    }
    if has(spec, "podFailurePolicy") && text(pod, "restartPolicy") != "Never" {
        let detail = "only \"Never\" is supported when podFailurePolicy is specified";
        causes.invalid_text(&at.field("restartPolicy"), text(pod, "restartPolicy"), detail);
    }
}

/// A job keeps what its pods are made from; while it waits, its scheduling may still be steered.
fn job_change(new: &Value, old: &Value, status: &Value, path: &Path<'_>, causes: &mut Causes) {
    let elastic = text(new, "completionMode") == "Indexed"
        && get(new, "completions") == get(new, "parallelism");
    for field in
        ["completions", "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"]
    {
        if field == "completions" && elastic {
            continue;
        }
        unchanged(get(new, field), get(old, field), &path.field(field), causes);
    }
    let mut template = get(new, "template").clone();
    let was_template = get(old, "template");
    if flag(old, "suspend") && !has(status, "startTime") {
        for field in ["affinity", "nodeSelector", "tolerations", "schedulingGates"] {
            take(&mut template, was_template, "spec", field);
        }
        for field in ["labels", "annotations"] {
            take(&mut template, was_template, "metadata", field);
        }
    }
    if template != *was_template {
        causes.invalid(&path.field("template"), get(new, "template"), "field is immutable");
    }
}

/// Puts the old value of a nested field in place of the new one.
fn take(new: &mut Value, old: &Value, part: &str, field: &str) {
    let value = get(get(old, part), field).clone();
    let Some(part) = new.get_mut(part) else { return };
    if value.is_null() {
        drop(part.as_object_mut().and_then(|fields| fields.remove(field)));
    } else {
        put(part, field, value);
    }
}

pub(super) fn cron_job(new: &Value, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    let name = text(get(new, "metadata"), "name");
    if name.len() > 52 {
        let at = Path::ROOT.field("metadata");
        causes.invalid_text(&at.field("name"), name, "must be no more than 52 characters");
    }
    schedule(text(spec, "schedule"), &path.field("schedule"), causes);
    one_of(spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], &path, causes);
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"]
    {
        not_negative(spec, field, &path, causes);
    }
    let at = path.field("jobTemplate");
    job_spec(get(get(spec, "jobTemplate"), "spec"), &at.field("spec"), causes);
}

/// Five fields of numbers, lists, ranges and steps, or a name such as `@daily`.
fn schedule(schedule: &str, path: &Path<'_>, causes: &mut Causes) {
    const NAMED: [&str; 7] =
        ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    if schedule.is_empty() {
        causes.required(path, "");
        return;
    }
    if schedule.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        causes.invalid_text(path, schedule, detail);
        return;
    }
    if NAMED.contains(&schedule) || schedule.starts_with("@every ") {
        return;
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != 5 {
        let found = fields.len();
        let detail = format!("expected exactly 5 fields, found {found}: [{}]", fields.join(" "));
        causes.invalid_text(path, schedule, &detail);
        return;
    }
    let bounds = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    for (field, (low, high)) in fields.iter().zip(bounds) {
        for part in field.split(',') {
            if let Some(detail) = schedule_part(part, low, high) {
                causes.invalid_text(path, schedule, &detail);
                return;
            }
        }
    }
}

/// What is wrong with `*/5`, `1-3` or `MON`.
fn schedule_part(part: &str, low: u32, high: u32) -> Option<String> {
    let (range, step) = part.split_once('/').unwrap_or((part, "1"));
    if step.parse::<u32>().is_err() || step == "0" {
        return Some(format!("failed to parse int from {step}"));
    }
    if matches!(range, "*" | "?") {
        return None;
    }
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    for end in [first, last] {
        if end.len() == 3 && end.chars().all(|c| c.is_ascii_alphabetic()) {
            continue;
        }
        match end.parse::<u32>() {
            Err(_) => return Some(format!("failed to parse int from {end}")),
            Ok(number) if number < low => {
                return Some(format!(
                    "beginning of range ({number}) below minimum ({low}): {part}"
                ));
            }
            Ok(number) if number > high => {
                return Some(format!("end of range ({number}) above maximum ({high}): {part}"));
            }
            Ok(_) => {}
        }
    }
    None
}

pub(super) fn scale(new: &Value, causes: &mut Causes) {
    let path = Path::ROOT.field("metadata");
    let name = text(get(new, "metadata"), "name");
    super::named(&names::dns_subdomain(name), name, &path.field("name"), causes);
    not_negative(get(new, "spec"), "replicas", &Path::ROOT.field("spec"), causes);
}
