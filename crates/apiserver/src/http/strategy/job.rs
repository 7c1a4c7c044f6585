//! How does a Job know its pods?
//!
//! By a label with its own uid, which nobody can know before the object exists. A Job that brings
//! its own selector says so with `manualSelector`.

use serde_json::{Value, json};

use crate::http::meta;

const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

pub(super) fn prepare_create(job: &mut Value) {
    let manual = job.pointer("/spec/manualSelector").and_then(Value::as_bool) == Some(true);
    let (uid, name) = (meta::uid(job).to_owned(), meta::name(job).to_owned());
    let Some(spec) = job.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if manual {
        return;
    }
    let template = spec.entry("template").or_insert_with(|| json!({}));
    let labels = meta::metadata_mut(template).entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        for label in UID_LABELS {
            labels.insert(label.into(), uid.as_str().into());
        }
        for label in NAME_LABELS {
            labels.insert(label.into(), name.as_str().into());
        }
    }
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    if let Some(selector) = selector.as_object_mut() {
        let wanted = selector.entry("matchLabels").or_insert_with(|| json!({}));
        if let Some(wanted) = wanted.as_object_mut() {
            wanted.insert(UID_LABELS[0].into(), uid.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_selects_by_its_uid_unless_told_otherwise() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {}}});
        prepare_create(&mut job);
        assert_eq!(
            job["spec"]["selector"]["matchLabels"],
            json!({"batch.kubernetes.io/controller-uid": "u"})
        );
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");

        let manual = json!({"metadata": {"uid": "u"}, "spec": {"manualSelector": true}});
        let mut job = manual.clone();
        prepare_create(&mut job);
        assert_eq!(job, manual);
    }
}
