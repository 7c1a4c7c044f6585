//! The kinds that are always there.
//!
//! One row a resource; what the row does not say follows from the kind's name and from the rules
//! below the table. Groups appear in the order in which kubectl should prefer them.

use super::{
    ALL_VERBS, Action, CREATE, Columns, Conversion, GET, NO_DELETE_COLLECTION, READ_WRITE,
    ScalePaths, Served, Storage, Subresource, Traits, api_version,
};
use crate::http::select::SelectableFields;
use crate::store::Collection;
use objects::schema::Gvk;
use objects::schema::built_in::Schemas;

struct Row {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    scope: Scope,
    subresources: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Cluster,
    Namespaced,
    /// Answers a question and stores nothing.
    Question,
    NamespacedQuestion,
}

const fn row(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    scope: Scope,
    subresources: &'static [&'static str],
) -> Row {
    Row { group, kind, plural, short, scope, subresources }
}

use Scope::{Cluster, Namespaced, NamespacedQuestion, Question};

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const POD_SUBRESOURCES: &[&str] =
    &["attach", "binding", "eviction", "exec", "log", "portforward", "status"];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("", "Binding", "bindings", &[], NamespacedQuestion, &[]),
    row("", "ConfigMap", "configmaps", &["cm"], Namespaced, &[]),
    row("", "Endpoints", "endpoints", &["ep"], Namespaced, &[]),
    row("", "Event", "events", &["ev"], Namespaced, &[]),
    row("", "LimitRange", "limitranges", &["limits"], Namespaced, &[]),
    row("", "Namespace", "namespaces", &["ns"], Cluster, &["finalize", "status"]),
    row("", "Node", "nodes", &["no"], Cluster, &["status"]),
    row("", "PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"], Namespaced, &["status"]),
    row("", "PersistentVolume", "persistentvolumes", &["pv"], Cluster, &["status"]),
    row("", "Pod", "pods", &["po"], Namespaced, POD_SUBRESOURCES),
    row("", "PodTemplate", "podtemplates", &[], Namespaced, &[]),
    row("", "ResourceQuota", "resourcequotas", &["quota"], Namespaced, &["status"]),
    row("", "Secret", "secrets", &[], Namespaced, &[]),
    row("", "ServiceAccount", "serviceaccounts", &["sa"], Namespaced, &["token"]),
    row("", "Service", "services", &["svc"], Namespaced, &["status"]),
    row("apps", "ControllerRevision", "controllerrevisions", &[], Namespaced, &[]),
    row("apps", "DaemonSet", "daemonsets", &["ds"], Namespaced, &["status"]),
    row("apps", "Deployment", "deployments", &["deploy"], Namespaced, &["scale", "status"]),
    row("apps", "ReplicaSet", "replicasets", &["rs"], Namespaced, &["scale", "status"]),
    row("apps", "StatefulSet", "statefulsets", &["sts"], Namespaced, &["scale", "status"]),
    row("events.k8s.io", "Event", "events", &["ev"], Namespaced, &[]),
    row(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", &[], Question, &[]),
    row(AUTHENTICATION, "TokenReview", "tokenreviews", &[], Question, &[]),
    row(AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", &[], NamespacedQuestion, &[]),
    row(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", &[], Question, &[]),
    row(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", &[], Question, &[]),
    row(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", &[], Question, &[]),
    row("batch", "CronJob", "cronjobs", &["cj"], Namespaced, &["status"]),
    row("batch", "Job", "jobs", &[], Namespaced, &["status"]),
    row("policy", "PodDisruptionBudget", "poddisruptionbudgets", &["pdb"], Namespaced, &["status"]),
    row(RBAC, "ClusterRoleBinding", "clusterrolebindings", &[], Cluster, &[]),
    row(RBAC, "ClusterRole", "clusterroles", &[], Cluster, &[]),
    row(RBAC, "RoleBinding", "rolebindings", &[], Namespaced, &[]),
    row(RBAC, "Role", "roles", &[], Namespaced, &[]),
    row(STORAGE, "CSIDriver", "csidrivers", &[], Cluster, &[]),
    row(STORAGE, "CSINode", "csinodes", &[], Cluster, &[]),
    row(STORAGE, "CSIStorageCapacity", "csistoragecapacities", &[], Namespaced, &[]),
    row(STORAGE, "StorageClass", "storageclasses", &["sc"], Cluster, &[]),
    row(STORAGE, "VolumeAttachment", "volumeattachments", &[], Cluster, &["status"]),
    row(ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", &[], Cluster, &[]),
    row(ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", &[], Cluster, &[]),
    row("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", &["crd", "crds"], Cluster, &["status"]),
    row("scheduling.k8s.io", "PriorityClass", "priorityclasses", &["pc"], Cluster, &[]),
    row("coordination.k8s.io", "Lease", "leases", &[], Namespaced, &[]),
];

pub(super) fn all() -> impl Iterator<Item = Served> {
    ROWS.iter().map(served)
}

fn served(row: &Row) -> Served {
    let question = matches!(row.scope, Question | NamespacedQuestion);
    let gvk = Gvk::new(row.group, "v1", row.kind);
    Served {
        group: row.group.to_owned(),
        version: "v1".to_owned(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        plural: row.plural.to_owned(),
        singular: row.kind.to_ascii_lowercase(),
        short_names: row.short.iter().map(|s| (*s).to_owned()).collect(),
        categories: categories(row),
        namespaced: matches!(row.scope, Namespaced | NamespacedQuestion),
        verbs: match row.plural {
            _ if question => CREATE,
            "namespaces" => NO_DELETE_COLLECTION,
            _ => ALL_VERBS,
        },
        subresources: row.subresources.iter().filter_map(|name| subresource(name)).collect(),
        storage: if question { Storage::Virtual } else { storage(row) },
        schema: Schemas::built_in().get(&gvk).cloned(),
        columns: Columns::BuiltIn,
        fields: SelectableFields::built_in(row.group, row.plural),
        traits: traits(row),
        deprecation: (row.plural == "endpoints").then(|| {
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()
        }),
    }
}

fn storage(row: &Row) -> Storage {
    if (row.group, row.plural) == ("events.k8s.io", "events") {
        return Storage::Stored {
            collection: Collection::new("", "events"),
            api_version: "v1".to_owned(),
            view: Conversion::Event,
        };
    }
    Storage::Stored {
        collection: Collection::new(row.group, row.plural),
        api_version: api_version(row.group, "v1"),
        view: Conversion::Rename,
    }
}

fn categories(row: &Row) -> Vec<String> {
    let category = match (row.group, row.plural) {
        ("", "pods" | "services") | ("apps" | "batch", _)
            if row.plural != "controllerrevisions" =>
        {
            "all"
        }
        (ADMISSION | "apiextensions.k8s.io", _) => "api-extensions",
        _ => return Vec::new(),
    };
    vec![category.to_owned()]
}

fn subresource(name: &str) -> Option<Subresource> {
    let (name, verbs, action) = match name {
        "status" => ("status", READ_WRITE, Action::Status),
        "scale" => ("scale", READ_WRITE, Action::Scale(scale_paths())),
        "binding" => ("binding", CREATE, Action::Binding),
        "eviction" => ("eviction", CREATE, Action::Eviction),
        "log" => ("log", GET, Action::Log),
        "token" => ("token", CREATE, Action::Token),
        "finalize" => ("finalize", &["update"][..], Action::Finalize),
        "attach" => ("attach", &["create", "get"][..], Action::Stream("PodAttachOptions")),
        "exec" => ("exec", &["create", "get"][..], Action::Stream("PodExecOptions")),
        "portforward" => {
            ("portforward", &["create", "get"][..], Action::Stream("PodPortForwardOptions"))
        }
        _ => return None,
    };
    Some(Subresource { name, verbs, action })
}

/// The workloads publish their selector as an object in `spec`, not as text in `status`.
fn scale_paths() -> ScalePaths {
    ScalePaths {
        spec_replicas: vec!["spec".into(), "replicas".into()],
        status_replicas: vec!["status".into(), "replicas".into()],
        selector: None,
    }
}

fn traits(row: &Row) -> Traits {
    let create_on_update = matches!(
        (row.group, row.plural),
        ("", "endpoints" | "events" | "limitranges" | "services")
            | ("events.k8s.io", "events")
            | ("coordination.k8s.io", "leases")
            | (RBAC, _)
    );
    let unconditional_update = !matches!(
        (row.group, row.plural),
        (ADMISSION | "apiextensions.k8s.io" | "coordination.k8s.io", _)
            | ("policy", "poddisruptionbudgets")
            | (STORAGE, "csidrivers" | "csinodes" | "volumeattachments")
    );
    let generation = matches!(
        (row.group, row.plural),
        ("", "pods")
            | ("apps" | "batch", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
            | ("batch", "cronjobs" | "jobs")
            | ("policy", _)
            | (ADMISSION | "apiextensions.k8s.io", _)
            | (STORAGE, "csidrivers")
    );
    Traits {
        custom: false,
        status: row.subresources.contains(&"status"),
        create_on_update,
        unconditional_update,
        generation: generation || row.plural == "priorityclasses",
        terminating: false,
    }
}
