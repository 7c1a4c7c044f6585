//! `tidepool admit`: what would the webhooks answer for an object, given these other objects?
//!
//! The functions are the manager's; the cluster is a few files.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use api::config::Options as ConfigOptions;
use api::document::object_name;
use api::kind::{ClusterColocationProfile, ElasticQuota};
use api::metadata::quota::quota_of;
use api::priority::PriorityClass;
use api::protocol::gate::{Gate, Gates, ManagerGate};
use api::protocol::name::{NAMESPACE, config_map};
use api::protocol::quota::NAME;
use clap::Args;
use control::admission::answer::{Admission, Context, admit};
use control::admission::config_map::Nodes;
use control::admission::profile::{Dice, PriorityClasses, PriorityFacts, Profile, labels_of};
use control::admission::review::{Operation, Request, User};
use control::admission::validate::Demands;
use control::admission::{Admitted, Denied};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::scheduling::v1;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use crate::saved::SavedObjects;
use crate::{Outcome, output};

/// Show what the webhooks would answer for an object, without a cluster
///
/// The object is judged as the manager would judge it if the cluster held the objects of the files
/// that --from names: profiles, quotas, namespaces, nodes, priority classes and ConfigMaps, as
/// `kubectl get -o yaml` saves them. An object that is among them is changed, any other one is
/// created. Files without any PriorityClass stand for a cluster with the four that an install brings.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Objects to judge, each by itself; - reads standard input
    #[arg(short, long, value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// Objects of the cluster
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Namespace of objects that name none
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// Judge the deletion of the objects
    #[arg(long)]
    delete: bool,
    /// Judge a write of this part of the objects, such as status
    #[arg(long, value_name = "PART")]
    subresource: Option<String>,
    /// Who writes
    #[arg(long = "as", value_name = "USER", default_value = "kubernetes-admin")]
    user: String,
    /// The manager's feature gates, as A=true,B=false
    #[arg(long, value_name = "GATES", default_value = "")]
    feature_gates: String,
    /// Refuse pairs of QoS and priority class that the reference admits
    #[arg(long)]
    strict_qos_priority_matrix: bool,
    /// Namespace of the ConfigMap slo-controller-config
    #[arg(long, default_value = NAMESPACE)]
    config_namespace: String,
    /// Print for programs
    #[arg(short, long, value_enum)]
    output: Option<output::Format>,
}

const EXAMPLES: &str = "\
Examples:
  tidepool admit -f pod.yaml --from profiles.yaml namespaces.yaml
  kubectl get elasticquotas -A -o yaml | tidepool admit -f quota.yaml --from - -o json

Exit codes: 0 admitted, 1 refused, 2 a file cannot be read.";

#[derive(Debug, Serialize)]
struct Report {
    answers: Vec<Answer>,
}

/// The answer about one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    object: String,
    operation: &'static str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    warnings: Vec<String>,
    /// Edits as a JSON patch.
    patch: Vec<Value>,
    /// Webhooks that were asked, in order.
    webhooks: Vec<&'static str>,
    /// Webhooks that look at such objects and are off, with their gates.
    off: Vec<Off>,
    /// For pods: which profiles match, and why others do not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    profiles: Vec<ProfileMatch>,
}

#[derive(Debug, Serialize)]
struct Off {
    webhook: &'static str,
    gate: &'static str,
}

#[derive(Debug, Serialize)]
struct ProfileMatch {
    name: String,
    matches: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<&'static str>,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let (gates, errors) = Gates::<ManagerGate>::parse(&self.feature_gates);
        if let Some(error) = errors.first() {
            bail!("--feature-gates: {error}");
        }
        let sent = SavedObjects::read(&self.filename)?;
        let cluster = Cluster::read(&SavedObjects::read(&self.from)?, &self.config_namespace)?;
        let answers: Vec<Answer> =
            sent.values().map(|object| self.judge(object, &cluster, &gates)).collect();
        if answers.is_empty() {
            bail!("the files hold no object to judge");
        }
        let is_admitted = answers.iter().all(|answer| answer.allowed);
        match self.output {
            Some(format) => output::print_as(format, &Report { answers })?,
            None => output::print(&answers.iter().map(for_people).collect::<Vec<_>>().join("\n"))?,
        }
        Ok(Outcome::of(is_admitted))
    }

    fn judge(&self, object: &Value, cluster: &Cluster, gates: &Gates<ManagerGate>) -> Answer {
        let kind = object["kind"].as_str().unwrap_or_default();
        let mut request = Request::create(&self.namespace, object.clone());
        if let Some(namespace) = object["metadata"]["namespace"].as_str() {
            namespace.clone_into(&mut request.namespace);
        }
        request.user_info = User { username: self.user.clone() };
        let old = cluster.objects.value(kind, &request.namespace, &request.name);
        if self.delete {
            request.operation = Operation::Delete;
            request.old_object = old.unwrap_or(object).clone();
            request.object = Value::Null;
        } else if let Some(old) = old {
            request.operation = Operation::Update;
            request.old_object = old.clone();
        }
        let namespace = cluster.namespaces.iter().find(|one| one.name_any() == request.namespace);
        let labels = namespace.map(|one| one.labels());
        let pods = cluster.pods_of(&request);
        let context = Context {
            profiles: &cluster.profiles,
            namespace: labels,
            priority_classes: &cluster.priority_classes,
            quotas: &cluster.quotas,
            recent_quotas: &[],
            quota_profiles: &cluster.quota_profiles,
            pods_of_quota: &pods,
            nodes: &cluster.nodes,
            configuration: &cluster.configuration,
            demands: &cluster.demands,
            gates,
            config_map: (&self.config_namespace, config_map::SLO, ConfigOptions::default()),
            is_strict: self.strict_qos_priority_matrix,
            // A profile that applies by chance is taken to apply.
            dice: Dice(&|_| 0),
        };
        let resource = match &self.subresource {
            Some(part) => format!("{}/{part}", plural(kind)),
            None => plural(kind),
        };
        let admission = admit(&resource, &request, &context);
        let profiles = match (kind, request.operation) {
            ("Pod", Operation::Create) => cluster.matches(object, &context),
            _ => Vec::new(),
        };
        Answer::new(object_name(object), request.operation, admission, profiles)
    }
}

/// The plural of a kind whose objects a webhook may look at.
fn plural(kind: &str) -> String {
    kind.to_lowercase() + "s"
}

/// The objects of the files, as webhooks know them.
struct Cluster {
    objects: SavedObjects,
    profiles: Vec<Profile>,
    namespaces: Vec<Namespace>,
    priority_classes: PriorityClasses,
    quotas: Vec<ElasticQuota>,
    quota_profiles: Vec<api::kind::ElasticQuotaProfile>,
    nodes: Nodes,
    configuration: control::admission::config_map::Data,
    demands: Demands,
}

impl Cluster {
    fn read(objects: &SavedObjects, config_namespace: &str) -> anyhow::Result<Self> {
        let profiles: Vec<ClusterColocationProfile> = objects.all("ClusterColocationProfile")?;
        let mut profiles: Vec<Profile> = profiles.into_iter().map(Profile::new).collect();
        profiles.sort_by(|a, b| a.name().cmp(b.name()));
        let nodes: Vec<Node> = objects.all("Node")?;
        let data = |namespace: &str, name: &str| -> anyhow::Result<_> {
            let found = objects.config_map(namespace, name)?;
            Ok(found.and_then(|found| found.data).unwrap_or_default())
        };
        let demands = data(NAMESPACE, config_map::ENHANCED_VALIDATOR)?;
        Ok(Self {
            profiles,
            namespaces: objects.all("Namespace")?,
            priority_classes: priority_classes(objects.all("PriorityClass")?),
            quotas: objects.all("ElasticQuota")?,
            quota_profiles: objects.all("ElasticQuotaProfile")?,
            nodes: nodes.iter().map(|node| (node.name_any(), node.labels().clone())).collect(),
            configuration: data(config_namespace, config_map::SLO)?,
            demands: Demands::parse(&demands).with_context(|| {
                format!("cannot read ConfigMap {}", config_map::ENHANCED_VALIDATOR)
            })?,
            objects: objects.clone(),
        })
    }

    /// Pods that count against the quota of a request: for a deletion those whose label names it.
    fn pods_of(&self, request: &Request) -> Vec<String> {
        let pods: Vec<Pod> = self.objects.all("Pod").unwrap_or_default();
        let is_charged = |pod: &&Pod| match request.operation {
            Operation::Delete => NAME.raw(&pod.metadata) == Some(request.name.as_str()),
            _ => {
                let quotas = self.quotas.iter().map(|quota| &quota.metadata);
                quota_of(&pod.metadata, quotas) == request.name
            }
        };
        let named =
            |pod: &Pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        pods.iter().filter(is_charged).map(named).collect()
    }

    fn matches(&self, pod: &Value, context: &Context<'_>) -> Vec<ProfileMatch> {
        let labels = labels_of(pod);
        let profiles = self.profiles.iter().map(|profile| {
            let because = profile.mismatch(&labels, context.namespace);
            ProfileMatch { name: profile.name().to_owned(), matches: because.is_none(), because }
        });
        profiles.collect()
    }
}

fn priority_classes(saved: Vec<v1::PriorityClass>) -> PriorityClasses {
    if saved.is_empty() {
        let installed = PriorityClass::ALL.iter().map(|class| {
            let facts = PriorityFacts { value: class.object_value(), preemption_policy: None };
            (class.to_string(), facts)
        });
        return installed.collect();
    }
    let facts = saved.into_iter().map(|class| {
        let name = class.name_any();
        (name, PriorityFacts { value: class.value, preemption_policy: class.preemption_policy })
    });
    facts.collect()
}

impl Answer {
    fn new(
        object: String,
        operation: Operation,
        admission: Admission,
        profiles: Vec<ProfileMatch>,
    ) -> Self {
        let (refusal, patch, warnings) = match admission.verdict {
            Ok(Admitted { patch, warnings }) => {
                (None, patch.0.iter().map(|edit| json!(edit)).collect(), warnings)
            }
            Err(Denied { code, message }) => (Some((code, message)), Vec::new(), Vec::new()),
        };
        let (code, message) = refusal.unzip();
        Self {
            object,
            operation: operation.as_str(),
            allowed: message.is_none(),
            code,
            message,
            warnings,
            patch,
            webhooks: admission.asked.iter().map(|webhook| webhook.name).collect(),
            off: admission
                .off
                .iter()
                .map(|webhook| Off { webhook: webhook.name, gate: webhook.gate.name() })
                .collect(),
            profiles,
        }
    }
}

fn for_people(answer: &Answer) -> String {
    let Answer { object, operation, .. } = answer;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match (&answer.message, answer.patch.len()) {
        (Some(message), _) => {
            let code = answer.code.unwrap_or_default();
            writeln!(text, "{object}: {operation} refused with {code}\n\n  {message}")
        }
        (None, 0) => writeln!(text, "{object}: {operation} admitted as it is"),
        (None, 1) => writeln!(text, "{object}: {operation} admitted with 1 change\n"),
        (None, count) => writeln!(text, "{object}: {operation} admitted with {count} changes\n"),
    };
    for edit in &answer.patch {
        let (op, path) = (edit["op"].as_str(), edit["path"].as_str());
        let (op, path) = (op.unwrap_or_default(), path.unwrap_or_default());
        let value = edit.get("value").map(|value| format!(" = {value}")).unwrap_or_default();
        let _ = writeln!(text, "  {op:7}  {}{value}", path.replace("~1", "/").replace("~0", "~"));
    }
    for warning in &answer.warnings {
        let _ = writeln!(text, "\n  warning: {warning}");
    }
    for profile in &answer.profiles {
        let _ = match &profile.because {
            None => writeln!(text, "\n  profile {} matches", profile.name),
            Some(because) => writeln!(text, "\n  profile {} does not: {because}", profile.name),
        };
    }
    match (answer.webhooks.is_empty(), answer.off.as_slice()) {
        (true, []) => text.push_str("\n  no webhook looks at it\n"),
        (false, []) => {}
        (_, off) => {
            for Off { webhook, gate } in off {
                let _ =
                    writeln!(text, "\n  not asked: {webhook} is off (--feature-gates {gate}=true)");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn typed(words: &[&str]) -> Arguments {
        let words = ["admit", "-f", "x"].iter().chain(words);
        Typed::parse_from(words).arguments
    }

    fn ask(words: &[&str], object: &Value, cluster: Vec<Value>) -> Answer {
        let cluster = Cluster::read(&SavedObjects::of(cluster), NAMESPACE).unwrap();
        let arguments = typed(words);
        let (gates, errors) = Gates::parse(&arguments.feature_gates);
        assert_eq!(errors, []);
        arguments.judge(object, &cluster, &gates)
    }

    fn profile() -> Value {
        json!({"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
            "metadata": {"name": "spark"},
            "spec": {"selector": {"matchLabels": {"app": "spark"}}, "qosClass": "BE",
                "priorityClassName": "koord-batch"}})
    }

    fn pod(labels: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels},
            "spec": {"containers": [{"name": "c", "resources": {
                "requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}}]}})
    }

    #[test]
    fn edits_come_first_and_the_edited_pod_is_judged() {
        let answer = ask(&[], &pod(&json!({"app": "spark"})), vec![profile()]);
        assert!(answer.allowed, "{answer:?}");
        let text = for_people(&answer);
        assert!(text.contains("/metadata/labels/koordinator.sh/qosClass = \"BE\""), "{text}");
        assert!(text.contains("kubernetes.io/batch-cpu"), "{text}");
        assert!(text.contains("profile spark matches"), "{text}");
        let other = ask(&[], &pod(&json!({"app": "web"})), vec![profile()]);
        assert!(other.allowed && other.patch.is_empty(), "{other:?}");
        assert!(!other.profiles[0].matches && other.profiles[0].because.is_some());
        let refused = ask(&[], &pod(&json!({"koordinator.sh/qosClass": "BE"})), Vec::new());
        assert_eq!((refused.allowed, refused.code), (false, Some(400)));
    }

    #[test]
    fn an_object_of_the_files_is_changed_and_others_are_created() {
        let quota = |max: &str| {
            json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
                "metadata": {"name": "q", "namespace": "default"}, "spec": {"max": {"cpu": max}}})
        };
        assert_eq!(ask(&[], &quota("4"), Vec::new()).operation, "CREATE");
        let changed = ask(&[], &quota("4"), vec![quota("5")]);
        assert_eq!((changed.operation, changed.allowed), ("UPDATE", true), "{changed:?}");
        let deleted = ask(&["--delete"], &quota("4"), Vec::new());
        assert_eq!((deleted.operation, deleted.code), ("DELETE", Some(400)), "nobody knows it");
        assert!(ask(&["--delete"], &quota("4"), vec![quota("5")]).allowed);
    }

    #[test]
    fn webhooks_that_are_off_are_named() {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "slo-controller-config", "namespace": NAMESPACE},
            "data": {"colocation-config": "{"}});
        let off = ask(&[], &config, Vec::new());
        assert!(off.allowed && for_people(&off).contains("ConfigMapValidatingWebhook=true"));
        let on = ["--feature-gates", "ConfigMapValidatingWebhook=true"];
        assert!(!ask(&on, &config, Vec::new()).allowed);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        assert!(for_people(&ask(&[], &secret, Vec::new())).contains("no webhook looks at it"));
    }
}
