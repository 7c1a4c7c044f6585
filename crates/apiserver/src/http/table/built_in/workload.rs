//! Workloads: how many are wanted, how many are there.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Head, Sheet, ago, boolean, containers, created, int_at, list_at, name, number, pairs, selector,
    str_at, text, wide,
};
use crate::http::meta;
use crate::http::table::age;

const TEMPLATE: &str = "/spec/template/spec/containers";

pub(super) const DEPLOYMENTS: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Ready"),
        text("Up-to-date"),
        text("Available"),
        text("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: |object, now| {
        let [names, images] = containers(object, TEMPLATE);
        vec![
            name(object),
            ready(object),
            json!(int_at(object, "/status/updatedReplicas")),
            json!(int_at(object, "/status/availableReplicas")),
            created(object, now),
            names,
            images,
            selector(object.pointer("/spec/selector")),
        ]
    },
};

fn ready(object: &Value) -> Value {
    let ready = int_at(object, "/status/readyReplicas");
    json!(format!("{ready}/{}", int_at(object, "/spec/replicas")))
}

pub(super) const REPLICA_SETS: Sheet = Sheet {
    columns: &[
        text("Name"),
        number("Desired"),
        number("Current"),
        number("Ready"),
        text("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: |object, now| {
        let [names, images] = containers(object, TEMPLATE);
        vec![
            name(object),
            json!(int_at(object, "/spec/replicas")),
            json!(int_at(object, "/status/replicas")),
            json!(int_at(object, "/status/readyReplicas")),
            created(object, now),
            names,
            images,
            selector(object.pointer("/spec/selector")),
        ]
    },
};

pub(super) const STATEFUL_SETS: Sheet = Sheet {
    columns: &[text("Name"), text("Ready"), text("Age"), wide("Containers"), wide("Images")],
    cells: |object, now| {
        let [names, images] = containers(object, TEMPLATE);
        vec![name(object), ready(object), created(object, now), names, images]
    },
};

pub(super) const DAEMON_SETS: Sheet = Sheet {
    columns: &[
        text("Name"),
        number("Desired"),
        number("Current"),
        number("Ready"),
        number("Up-to-date"),
        number("Available"),
        text("Node Selector"),
        text("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: |object, now| {
        let [names, images] = containers(object, TEMPLATE);
        vec![
            name(object),
            json!(int_at(object, "/status/desiredNumberScheduled")),
            json!(int_at(object, "/status/currentNumberScheduled")),
            json!(int_at(object, "/status/numberReady")),
            json!(int_at(object, "/status/updatedNumberScheduled")),
            json!(int_at(object, "/status/numberAvailable")),
            pairs(object.pointer("/spec/template/spec/nodeSelector")),
            created(object, now),
            names,
            images,
            selector(object.pointer("/spec/selector")),
        ]
    },
};

pub(super) const CONTROLLER_REVISIONS: Sheet = Sheet {
    columns: &[text("Name"), text("Controller"), text("Revision"), text("Age")],
    cells: |object, now| {
        let owner = list_at(object, "/metadata/ownerReferences")
            .iter()
            .find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
        let controller = owner.map_or_else(
            || "<none>".to_owned(),
            |owner| {
                let group = str_at(owner, "/apiVersion").split_once('/').map(|(group, _)| group);
                let kind = str_at(owner, "/kind").to_ascii_lowercase();
                let name = str_at(owner, "/name");
                group.map_or_else(
                    || format!("{kind}/{name}"),
                    |group| format!("{kind}.{group}/{name}"),
                )
            },
        );
        vec![
            name(object),
            json!(controller),
            json!(int_at(object, "/revision")),
            created(object, now),
        ]
    },
};

pub(super) const POD_TEMPLATES: Sheet = Sheet {
    columns: &[text("Name"), text("Containers"), text("Images"), text("Pod Labels")],
    cells: |object, _| {
        let [names, images] = containers(object, "/template/spec/containers");
        vec![name(object), names, images, pairs(object.pointer("/template/metadata/labels"))]
    },
};

pub(super) const JOBS: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Status"),
        text("Completions"),
        text("Duration"),
        text("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: |object, now| {
        let [names, images] = containers(object, TEMPLATE);
        vec![
            name(object),
            json!(job_status(object)),
            json!(completions(object)),
            json!(duration(object, now)),
            created(object, now),
            names,
            images,
            selector(object.pointer("/spec/selector")),
        ]
    },
};

fn job_status(job: &Value) -> &'static str {
    let has = |kind: &str| {
        list_at(job, "/status/conditions")
            .iter()
            .any(|c| str_at(c, "/type") == kind && str_at(c, "/status") == "True")
    };
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if meta::is_deleting(job) {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let succeeded = int_at(job, "/status/succeeded");
    let wanted = job.pointer("/spec/completions").and_then(Value::as_i64);
    match (wanted, int_at(job, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    let moment = |path: &str| str_at(job, path).parse::<Timestamp>().ok();
    match (moment("/status/startTime"), moment("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => {
            let end = end.unwrap_or(now);
            age::human(end.as_second().saturating_sub(start.as_second()))
        }
    }
}

pub(super) const CRON_JOBS: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Schedule"),
        text("Timezone"),
        boolean("Suspend"),
        number("Active"),
        text("Last Schedule"),
        text("Age"),
        wide("Containers"),
        wide("Images"),
        Head { name: "Selector", kind: "string", priority: 1 },
    ],
    cells: |object, now| {
        let [names, images] = containers(object, "/spec/jobTemplate/spec/template/spec/containers");
        let suspended = object.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true);
        let last = object.pointer("/status/lastScheduleTime").filter(|time| time.is_string());
        vec![
            name(object),
            json!(str_at(object, "/spec/schedule")),
            super::or_none(str_at(object, "/spec/timeZone")),
            json!(if suspended { "True" } else { "False" }),
            json!(list_at(object, "/status/active").len()),
            last.map_or_else(|| json!("<none>"), |last| json!(ago(Some(last), now))),
            created(object, now),
            names,
            images,
            selector(object.pointer("/spec/jobTemplate/spec/selector")),
        ]
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_say_how_far_they_are() {
        let cases = [
            (json!({"spec": {"completions": 3}, "status": {"succeeded": 1}}), "1/3"),
            (json!({"spec": {"parallelism": 2}, "status": {}}), "0/1 of 2"),
            (json!({"spec": {}, "status": {"succeeded": 1}}), "1/1"),
        ];
        for (job, want) in cases {
            assert_eq!(completions(&job), want, "{job}");
        }
        let done = json!({"status": {
            "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:02:30Z",
            "conditions": [{"type": "Complete", "status": "True"}],
        }});
        assert_eq!(duration(&done, Timestamp::UNIX_EPOCH), "2m30s");
        assert_eq!(job_status(&done), "Complete");
        assert_eq!(job_status(&json!({})), "Running");
    }
}
