//! What is wrong with a pod?

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use units::{Quantity, Rounding, Scale};

use super::Report;
use crate::finding::{Code, Finding, Severity};
use crate::metadata::gang;
use crate::priority::{self, Verdict, check_combination};
use crate::protocol::gate::{Gates, ManagerGate};
use crate::protocol::pod::{
    BLKIO_QOS, CPU_BURST, CPU_QOS, EXTENDED_RESOURCE_SPEC, MEMORY_QOS, NETWORK_QOS,
    NUMA_TOPOLOGY_SPEC, OOM_SCORE_ADJ, OOM_SCORE_ADJ_SPEC, PRIORITY_CLASS, QOS_CLASS, RESCTRL,
    RESOURCE_SPEC, SUB_PRIORITY,
};
use crate::protocol::resource::{BATCH_CPU, BATCH_MEMORY, CPU, MEMORY};
use crate::protocol::{eviction, gang as gang_key, quota, reservation};
use crate::qos::{self, QosClass};
use crate::resources::{amounts, check_device_requests, pod_requests};

/// Kernel group identities that exist.
const IDENTITIES: std::ops::RangeInclusive<i64> = -1..=2;

/// Everything wrong with a pod by itself.
pub fn check_pod(pod: &Pod) -> Vec<Finding> {
    let mut findings = check_pod_admission(pod);
    findings.extend(check_pod_annotations(pod));
    findings
}

/// What admission looks at; an error refuses the pod. Device requests refuse
/// it only behind a gate, and otherwise keep it pending.
pub fn check_pod_admission(pod: &Pod) -> Vec<Finding> {
    let mut report = Report::new("Pod", &pod.metadata);
    if let Some(text) = reservation::RESERVE_POD.raw(&pod.metadata) {
        let rule = "only the scheduler's own stand-ins for reservations carry this annotation";
        let finding = Finding::error(Code::ReservePod, rule, "remove the annotation");
        report.push_at(&reservation::RESERVE_POD, finding.value(format!("{text:?}")));
    }
    classes(&mut report, pod);
    let requests = pod.spec.as_ref().map(pod_requests).unwrap_or_default();
    let asks = |name: &str| requests.get(name).copied().unwrap_or_default();
    let class = qos::raw(pod);
    for name in [BATCH_CPU, BATCH_MEMORY] {
        if asks(name) > Quantity::ZERO && class != Some(QosClass::Be) {
            let class = class.map_or("no QoS class", QosClass::as_str);
            let rule =
                format!("only pods with QoS class BE may ask for {name}; this one has {class}");
            let fix = format!("set label {} to BE, or ask for cpu and memory", QOS_CLASS.name);
            report.push(
                Finding::error(Code::BatchNeedsBestEffort, rule, fix)
                    .path(format!("spec.containers[*].resources.requests[{name}]"))
                    .value(asks(name).to_string()),
            );
        }
    }
    if let Some(class) = class.filter(|class| class.wants_cpus()) {
        whole_cpus(&mut report, class, asks(CPU));
        equal_limits(&mut report, class, pod);
    }
    for finding in check_device_requests(&requests) {
        report.push(finding);
    }
    report.findings
}

fn classes(report: &mut Report, pod: &Pod) {
    let meta = &pod.metadata;
    for finding in QOS_CLASS.read(meta).1 {
        let rule = format!("{}, so the pod has no QoS class", finding.rule);
        report.push(Finding { code: Code::UnknownQos, rule, ..finding });
    }
    for finding in PRIORITY_CLASS.read(meta).1 {
        let rule = format!("{}, and so is the pod's numeric priority", finding.rule);
        report.push(Finding { code: Code::UnknownPriorityClass, rule, ..finding });
    }
    // The reference admits any text here and reads it as no number.
    for finding in SUB_PRIORITY.read(meta).1 {
        let rule = format!("{}; the pod has no order inside its class", finding.rule);
        let (code, severity) = (Code::PodNumber, Severity::Warning);
        report.push(Finding { code, severity, rule, ..finding });
    }
    match check_combination(qos::raw(pod), priority::raw(pod)) {
        Verdict::Allowed => {}
        Verdict::AllowedWithWarning(finding) | Verdict::Rejected(finding) => report.push(finding),
    }
}

fn whole_cpus(report: &mut Report, class: QosClass, cpu: Quantity) {
    let is_whole = cpu == cpu.round(Scale::One, Rounding::Down);
    if cpu > Quantity::ZERO && is_whole {
        return;
    }
    let rule = format!("a pod with QoS class {class} must ask for a whole number of cores");
    let more = cpu.round_up(Scale::One).max(Quantity::from_int(1, cpu.format()));
    let fix = format!("ask for {more} in total, or use QoS class LS");
    report.push(
        Finding::error(Code::WholeCpus, rule, fix)
            .path("spec.containers[*].resources.requests.cpu")
            .value(cpu.to_string()),
    );
}

/// Documented for LSE and LSR and enforced by nobody.
fn equal_limits(report: &mut Report, class: QosClass, pod: &Pod) {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    for (index, container) in containers.enumerate() {
        let resources = container.resources.as_ref();
        let requests = resources.and_then(|own| own.requests.as_ref()).map(amounts);
        let limits = resources.and_then(|own| own.limits.as_ref()).map(amounts);
        let (requests, limits) = (requests.unwrap_or_default(), limits.unwrap_or_default());
        for name in
            [CPU, MEMORY].into_iter().filter(|name| requests.get(*name) != limits.get(*name))
        {
            let show =
                |amount: Option<&Quantity>| amount.map_or("none".to_owned(), Quantity::to_string);
            let (request, limit) = (show(requests.get(name)), show(limits.get(name)));
            let rule =
                format!("{class} expects request and limit to be equal, and the limit is {limit}");
            report.push(
                Finding::warning(Code::RequestIsNotLimit, rule, "make them equal")
                    .path(format!("spec.containers[{index}].resources.requests.{name}"))
                    .value(request),
            );
        }
    }
}

/// Annotations and labels that cannot be used as they stand.
pub fn check_pod_annotations(pod: &Pod) -> Vec<Finding> {
    let meta = &pod.metadata;
    let mut report = Report::new("Pod", meta);
    let pending = "the pod stays pending";
    report.read(&RESOURCE_SPEC, meta, Code::SchedulingAnnotation, pending);
    report.read(&NUMA_TOPOLOGY_SPEC, meta, Code::SchedulingAnnotation, pending);

    let instead = "the node's configuration stays in force";
    let code = Code::AgentAnnotation;
    report.read(&CPU_BURST, meta, code, instead);
    report.read(&MEMORY_QOS, meta, code, instead);
    report.read(&BLKIO_QOS, meta, code, instead);
    let instead = "the annotation is ignored";
    report.read(&NETWORK_QOS, meta, code, instead);
    report.read(&RESCTRL, meta, code, instead);
    report.read(&EXTENDED_RESOURCE_SPEC, meta, code, "admission refuses the pod");
    oom_scores(&mut report, meta);
    group_identity(&mut report, meta);

    let instead = "no feature of the node agent may evict the pod";
    report.read(&eviction::POLICY, meta, Code::EvictionPolicy, instead);
    report.read(&eviction::PRIORITY, meta, Code::PodNumber, "it counts as 0");
    report.read(&eviction::COST, meta, Code::PodNumber, "it counts as 0");
    gang_numbers(&mut report, meta);
    report.findings
}

fn oom_scores(report: &mut Report, meta: &ObjectMeta) {
    let (code, instead) = (Code::AgentAnnotation, "the kernel's value stays");
    report.read(&OOM_SCORE_ADJ, meta, code, instead);
    let scores = report.read(&OOM_SCORE_ADJ_SPEC, meta, code, instead).unwrap_or_default();
    for (container, score) in scores.into_iter().filter(|(_, score)| !score.is_valid()) {
        let rule = format!("must be between -1000 and 1000; {instead}");
        let finding = Finding::error(code, rule, "use a number in that range");
        let finding = finding.path(container).value(score.0.to_string());
        report.push_at(&OOM_SCORE_ADJ_SPEC, finding);
    }
}

fn group_identity(report: &mut Report, meta: &ObjectMeta) {
    let instead = "the pod's group identity is not set";
    let qos = report.read(&CPU_QOS, meta, Code::GroupIdentity, instead);
    let identity = qos.and_then(|qos| qos.group_identity);
    if let Some(identity) = identity.filter(|identity| !IDENTITIES.contains(identity)) {
        let rule = format!("must be between -1 and 2; {instead}");
        let finding =
            Finding::error(Code::GroupIdentity, rule, "use 2 for online, -1 for batch work")
                .path("groupIdentity")
                .value(identity.to_string());
        report.push_at(&CPU_QOS, finding);
    }
}

fn gang_numbers(report: &mut Report, meta: &ObjectMeta) {
    // A PodGroup states its own minimum; only gangs by annotation or old label need it on the pod.
    if gang::gang_of(meta).is_none() || gang_key::POD_GROUP.is_present(meta) {
        return;
    }
    let (min, findings) = gang::min_available(meta);
    let instead = "the gang cannot start and its pods stay pending";
    let is_missing = min.is_none() && findings.is_empty();
    report.extend(findings, Code::GangSize, instead);
    if is_missing {
        let rule = format!("a gang needs its smallest number of pods; {instead}");
        let fix = format!("add annotation {}: \"3\"", gang_key::MIN_AVAILABLE.name);
        report.push_at(&gang_key::MIN_AVAILABLE, Finding::error(Code::GangSize, rule, fix));
    }
    let (_, findings) = gang::options(meta, min.unwrap_or_default());
    report.extend(findings, Code::PodNumber, "its default counts");
}

/// What may not change on a live pod.
pub fn check_pod_update(old: &Pod, new: &Pod, gates: &Gates<ManagerGate>) -> Vec<Finding> {
    let mut report = Report::new("Pod", &new.metadata);
    let mut compare = |key: &str, before: Option<&str>, after: Option<&str>| {
        if before == after {
            return;
        }
        let show = |value: Option<&str>| value.unwrap_or("none").to_owned();
        let rule = format!("field is immutable; it was {} when the pod was created", show(before));
        let fix = "undo the change, or delete the pod and create it anew";
        let finding = Finding::error(Code::Immutable, rule, fix).value(show(after));
        report.push(Finding { key: Some(key.to_owned()), ..finding });
    };
    let class = |pod| qos::raw(pod).map(QosClass::as_str);
    compare(QOS_CLASS.name, class(old), class(new));
    let class = |pod| priority::raw(pod).map(priority::PriorityClass::as_str);
    compare(PRIORITY_CLASS.name, class(old), class(new));
    if !gates.is_on(ManagerGate::ColocationProfileSkipValidatingPriority) {
        let order = |pod: &'_ Pod| SUB_PRIORITY.raw(&pod.metadata).map(str::to_owned);
        compare(SUB_PRIORITY.name, order(old).as_deref(), order(new).as_deref());
    }
    let (before, after) = (&old.metadata, &new.metadata);
    compare(quota::PREEMPTIBLE.name, quota::PREEMPTIBLE.raw(before), quota::PREEMPTIBLE.raw(after));
    report.findings
}
