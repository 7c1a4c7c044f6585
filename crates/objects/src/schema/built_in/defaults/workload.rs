//! Controllers that own pods.

use serde_json::{Map, Value};

use super::pod::{claim, pod_template};
use crate::schema::object::{child, each, fill, fill_text, get, has, open, put, text};

fn template(spec: &mut Value) {
    if let Some(template) = open(spec, "template") {
        pod_template(template);
    }
}

pub(super) fn deployment(object: &mut Value) {
    let Some(spec) = open(object, "spec") else { return };
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    if let Some(strategy) = open(spec, "strategy") {
        fill_text(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = open(strategy, "rollingUpdate")
        {
            fill(rolling, "maxUnavailable", "25%");
            fill(rolling, "maxSurge", "25%");
        }
    }
    template(spec);
}

pub(super) fn replica_set(object: &mut Value) {
    let Some(spec) = open(object, "spec") else { return };
    fill(spec, "replicas", 1);
    template(spec);
}

/// The one workload whose selector and labels follow its template.
pub(super) fn replication_controller(object: &mut Value) {
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    let Some(spec) = open(object, "spec") else { return };
    fill(spec, "replicas", 1);
    template(spec);
    let Some(labels) = labels else { return };
    if !has(spec, "selector") {
        put(spec, "selector", labels.clone());
    }
    if let Some(metadata) = open(object, "metadata") {
        fill(metadata, "labels", labels);
    }
}

pub(super) fn daemon_set(object: &mut Value) {
    let Some(spec) = open(object, "spec") else { return };
    fill(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = open(spec, "updateStrategy") {
        fill_text(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = open(strategy, "rollingUpdate")
        {
            fill(rolling, "maxUnavailable", 1);
            fill(rolling, "maxSurge", 0);
        }
    }
    template(spec);
}

pub(super) fn stateful_set(object: &mut Value) {
    let Some(spec) = open(object, "spec") else { return };
    fill_text(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = open(spec, "updateStrategy") {
        fill_text(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = open(strategy, "rollingUpdate")
        {
            fill(rolling, "partition", 0);
        }
    }
    if let Some(retention) = open(spec, "persistentVolumeClaimRetentionPolicy") {
        fill_text(retention, "whenDeleted", "Retain");
        fill_text(retention, "whenScaled", "Retain");
    }
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    template(spec);
    each(spec, "volumeClaimTemplates", |template| {
        fill_text(template, "apiVersion", "v1");
        fill_text(template, "kind", "PersistentVolumeClaim");
        claim(template);
    });
}

pub(super) fn job(object: &mut Value) {
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    let Some(spec) = open(object, "spec") else { return };
    if !has(spec, "completions") && !has(spec, "parallelism") {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let retries = if has(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
    fill(spec, "backoffLimit", retries);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let replacement = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    fill(spec, "podReplacementPolicy", replacement);
    if let Some(policy) = child(spec, "podFailurePolicy") {
        each(policy, "rules", |rule| {
            each(rule, "onPodConditions", |condition| fill_text(condition, "status", "True"));
        });
    }
    template(spec);
    if let Some(labels) = labels
        && let Some(metadata) = open(object, "metadata")
        && get(metadata, "labels").as_object().is_none_or(Map::is_empty)
    {
        put(metadata, "labels", labels);
    }
}

pub(super) fn cron_job(object: &mut Value) {
    let Some(spec) = open(object, "spec") else { return };
    fill_text(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) = open(spec, "jobTemplate").and_then(|job| open(job, "spec")) {
        template(job);
    }
}
