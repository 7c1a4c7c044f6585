//! What is wrong with a reservation, a migration job or a quota profile?

use super::Report;
use crate::config::selector::Selector;
use crate::finding::{Code, Finding};
use crate::kind::{ElasticQuotaProfile, PodMigrationJob, Reservation};
use crate::metadata::Wire;
use crate::metadata::quota::ResourceRatio;
use crate::protocol::event::migration::INVALID_POD_REF;

/// The API server refuses what is missing; a selector that cannot be evaluated
/// is admitted and never matches.
pub fn check_reservation(reservation: &Reservation) -> Vec<Finding> {
    let mut report = Report::new("Reservation", &reservation.metadata);
    let spec = &reservation.spec;
    let mut missing = |path: String, rule: &str, fix: &str| {
        report.push(Finding::error(Code::ReservationShape, rule, fix).path(path));
    };
    if spec.template.spec.is_none() {
        let fix = "add the pod whose resources are to be kept free";
        missing("spec.template".to_owned(), "required: what to reserve", fix);
    }
    if spec.owners.is_empty() {
        let rule = "required: at least one owner that may use the reservation";
        missing(
            "spec.owners".to_owned(),
            rule,
            "add an owner with object, controller or labelSelector",
        );
    }
    for (index, owner) in spec.owners.iter().enumerate() {
        let path = format!("spec.owners[{index}]");
        if owner.object.is_none() && owner.controller.is_none() && owner.label_selector.is_none() {
            let rule = "an owner needs at least one of object, controller and labelSelector";
            missing(path, rule, "say which pods may use the reservation");
        }
    }
    for (index, owner) in spec.owners.iter().enumerate() {
        let selector = owner.label_selector.as_ref().map(Selector::compile);
        if let Some(Err(error)) = selector {
            let rule = format!("{error}; the owner never matches");
            let finding = Finding::warning(Code::OwnerSelector, rule, "correct the selector");
            report.push(finding.path(format!("spec.owners[{index}].labelSelector")));
        }
    }
    report.findings
}

/// A job that does not name its pod fails at once.
pub fn check_migration_job(job: &PodMigrationJob) -> Vec<Finding> {
    let mut report = Report::new("PodMigrationJob", &job.metadata);
    let pod = &job.spec.pod_ref;
    let is_set = |field: &Option<String>| field.as_ref().is_some_and(|text| !text.is_empty());
    let is_named = is_set(&pod.namespace) && is_set(&pod.name);
    if !is_named && !is_set(&pod.uid) {
        let rule = format!(
            "must name the pod by namespace and name, or by uid; the job fails with {INVALID_POD_REF}"
        );
        let fix = "set spec.podRef.namespace and spec.podRef.name";
        report.push(Finding::error(Code::PodRef, rule, fix).path("spec.podRef"));
    }
    report.findings
}

/// A ratio outside its limits acts as 1.
pub fn check_quota_profile(profile: &ElasticQuotaProfile) -> Vec<Finding> {
    let mut report = Report::new("ElasticQuotaProfile", &profile.metadata);
    if let Some(text) = &profile.spec.resource_ratio {
        let (_, findings) = ResourceRatio::parse(text);
        let path = "spec.resourceRatio";
        let findings = findings.into_iter().map(|finding| finding.path(path)).collect();
        report.extend(findings, Code::ResourceRatio, "it acts as 1");
    }
    if let Err(error) = Selector::compile(&profile.spec.node_selector) {
        let rule = format!("{error}; no node is summed");
        let finding = Finding::error(Code::BadSelector, rule, "correct the selector");
        report.push(finding.path("spec.nodeSelector"));
    }
    report.findings
}
