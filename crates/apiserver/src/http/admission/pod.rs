//! What does admission add to a pod?
//!
//! - the service account it runs as;
//! - its priority, from the PriorityClass it names or from the default class;
//! - tolerations that let it stay five minutes on a node that stopped answering.

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{Attributes, Operation};
use crate::http::bootstrap::SYSTEM_CLASSES;
use crate::http::call::Call;
use crate::http::meta;
use crate::http::status::Status;
use crate::store::Collection;

/// How a default class is stored.
const DEFAULT: &[u8] = b"\"globalDefault\":true";

const GRACE_ON_LOST_NODE: i64 = 300;

pub(super) fn admit(call: &Call, attributes: &Attributes, pod: &mut Value) -> Result<(), Status> {
    if attributes.operation == Operation::Create {
        set_account(call, attributes, pod)?;
        set_priority(call, attributes, pod)?;
    }
    add_tolerations(pod);
    Ok(())
}

/// A pod runs as the account it names, or as its namespace's default one.
fn set_account(call: &Call, attributes: &Attributes, pod: &mut Value) -> Result<(), Status> {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    let name = spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default();
    let name = if name.is_empty() { "default" } else { name }.to_owned();
    let namespace = attributes.namespace.as_str();
    if call.server.read::<IgnoredAny>("", "serviceaccounts", namespace, &name).is_none() {
        return Err(Status::forbidden(
            call.served.subject(&attributes.name),
            format!(
                "error looking up service account {namespace}/{name}: serviceaccount {name:?} not \
                 found"
            ),
        ));
    }
    spec.insert("serviceAccount".into(), name.as_str().into());
    spec.insert("serviceAccountName".into(), name.into());
    Ok(())
}

/// What a priority class gives to its pods.
struct Class {
    name: String,
    value: i64,
    preemption: Option<Value>,
}

impl Class {
    fn from_object(object: &Value) -> Self {
        Self {
            name: meta::name(object).to_owned(),
            value: object.get("value").and_then(Value::as_i64).unwrap_or(0),
            preemption: object.get("preemptionPolicy").cloned(),
        }
    }
}

fn find_class(call: &Call, name: &str) -> Option<Class> {
    if let Some(object) =
        call.server.read::<Value>("scheduling.k8s.io", "priorityclasses", "", name)
    {
        return Some(Class::from_object(&object));
    }
    let (name, value, _) = SYSTEM_CLASSES.iter().find(|(known, ..)| *known == name)?;
    Some(Class { name: (*name).to_owned(), value: *value, preemption: None })
}

/// The class of pods that name none: the lowest of those marked as default.
fn default_class(call: &Call) -> Option<Class> {
    let classes = Collection::new("scheduling.k8s.io", "priorityclasses");
    call.server
        .store()
        .list(&classes, None)
        .iter()
        // Every pod comes by here: classes that cannot be the default are not even parsed.
        .filter(|stored| stored.json.windows(DEFAULT.len()).any(|text| text == DEFAULT))
        .filter_map(|stored| serde_json::from_slice::<Value>(&stored.json).ok())
        .filter(|class| class.get("globalDefault").and_then(Value::as_bool) == Some(true))
        .map(|class| Class::from_object(&class))
        .min_by_key(|class| class.value)
}

fn set_priority(call: &Call, attributes: &Attributes, pod: &mut Value) -> Result<(), Status> {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    let refuse = |why: String| Err(Status::forbidden(call.served.subject(&attributes.name), why));
    let asked = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default();
    let class = if asked.is_empty() {
        default_class(call)
    } else {
        match find_class(call, asked) {
            Some(class) => Some(class),
            None => return refuse(format!("no PriorityClass with name {asked} was found")),
        }
    };
    let (value, preemption) = match class {
        Some(class) => {
            if asked.is_empty() {
                spec.insert("priorityClassName".into(), class.name.into());
            }
            (class.value, class.preemption)
        }
        None => (0, None),
    };
    if let Some(given) = spec.get("priority").and_then(Value::as_i64)
        && given != value
    {
        return refuse(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; \
                 priority admission controller computed {value} from the given PriorityClass name"
        ));
    }
    spec.insert("priority".into(), value.into());
    let preemption = preemption.unwrap_or_else(|| json!("PreemptLowerPriority"));
    match spec.get("preemptionPolicy") {
        Some(given) if *given != preemption => refuse(format!(
            "the string value of PreemptionPolicy ({}) must not be provided in pod spec; priority \
             admission controller computed {} from the given PriorityClass name",
            given.as_str().unwrap_or_default(),
            preemption.as_str().unwrap_or_default(),
        )),
        _ => {
            spec.insert("preemptionPolicy".into(), preemption);
            Ok(())
        }
    }
}

fn add_tolerations(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if tolerations.is_null() {
        *tolerations = json!([]);
    }
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if !tolerations.iter().any(|toleration| tolerates(toleration, key)) {
            tolerations.push(json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": GRACE_ON_LOST_NODE,
            }));
        }
    }
}

fn tolerates(toleration: &Value, key: &str) -> bool {
    let text = |field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default();
    (text("key").is_empty() || text("key") == key) && matches!(text("effect"), "" | "NoExecute")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_nodes_are_tolerated_unless_the_pod_says_how() {
        let mut plain = json!({"spec": {}});
        add_tolerations(&mut plain);
        assert_eq!(plain["spec"]["tolerations"].as_array().unwrap().len(), 2);
        let again = plain.clone();
        add_tolerations(&mut plain);
        assert_eq!(plain, again);

        let own = json!([{"operator": "Exists"}]);
        let mut all = json!({"spec": {"tolerations": own}});
        add_tolerations(&mut all);
        assert_eq!(all["spec"]["tolerations"], own);

        let other = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        let mut partly = json!({"spec": {"tolerations": other}});
        add_tolerations(&mut partly);
        assert_eq!(partly["spec"]["tolerations"].as_array().unwrap().len(), 3);
    }
}
