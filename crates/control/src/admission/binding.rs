//! May this user place pods?
//!
//! For clusters that move from one scheduler to another: while the gate
//! BindingAdmissionWebhook is on, only listed users may bind pods of the
//! listed namespaces.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Denied;

/// Who may bind what. Every list may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Parts of user names; an empty list lets everybody.
    pub users: Vec<String>,
    /// Only counts what would have been refused.
    pub is_dry_run: bool,
    /// `*` means all; an empty list means none.
    pub namespaces: Vec<String>,
    pub excluded_namespaces: Vec<String>,
    /// Labels whose presence frees a pod.
    pub bypass_labels: Vec<String>,
    /// Annotations whose presence frees a pod.
    pub bypass_annotations: Vec<String>,
}

impl Default for Rules {
    fn default() -> Self {
        use api::protocol::pod::BINDING_ADMISSION_BYPASS;
        Self {
            users: Vec::new(),
            is_dry_run: false,
            namespaces: Vec::new(),
            excluded_namespaces: vec!["kube-system".to_owned()],
            bypass_labels: vec![BINDING_ADMISSION_BYPASS.name.to_owned()],
            bypass_annotations: Vec::new(),
        }
    }
}

/// What was decided, as the metric spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    AllowedUsername,
    ExcludedNamespace,
    OutOfScope,
    BypassLabel,
    BypassAnnotation,
    DryRun,
    Denied,
}

impl Decision {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllowedUsername => "allowed_username",
            Self::ExcludedNamespace => "excluded_ns",
            Self::OutOfScope => "out_of_scope",
            Self::BypassLabel => "bypass_label",
            Self::BypassAnnotation => "bypass_annotation",
            Self::DryRun => "dry_run",
            Self::Denied => "denied",
        }
    }

    /// The denial, when it is one.
    pub fn verdict(self, user: &str, pod: &str) -> Result<(), Denied> {
        match self {
            Self::Denied => Err(Denied::forbidden(format!(
                "user {user:?} may not bind pod {pod}: it is not among the users that \
                 --binding-admission-user-name lists"
            ))),
            _ => Ok(()),
        }
    }
}

/// `pod` is what is known of the pod; an unknown one is let pass.
pub fn decide(rules: &Rules, user: &str, namespace: &str, pod: Option<&ObjectMeta>) -> Decision {
    let lists = |list: &[String]| list.iter().any(|one| one == namespace);
    if rules.users.is_empty() || rules.users.iter().any(|part| user.contains(part.as_str())) {
        return Decision::AllowedUsername;
    }
    if lists(&rules.excluded_namespaces) {
        return Decision::ExcludedNamespace;
    }
    let is_meant = rules.namespaces.iter().any(|one| one == "*") || lists(&rules.namespaces);
    let Some(pod) = pod.filter(|_| is_meant) else { return Decision::OutOfScope };
    let labels = pod.labels.as_ref();
    if rules.bypass_labels.iter().any(|key| labels.is_some_and(|map| map.contains_key(key))) {
        return Decision::BypassLabel;
    }
    let annotations = pod.annotations.as_ref();
    let frees = |key: &String| annotations.is_some_and(|map| map.contains_key(key));
    if rules.bypass_annotations.iter().any(frees) {
        return Decision::BypassAnnotation;
    }
    if rules.is_dry_run { Decision::DryRun } else { Decision::Denied }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_decides() {
        let rules = Rules {
            users: vec!["koord-scheduler".into()],
            namespaces: vec!["*".into()],
            bypass_annotations: vec!["free".into()],
            ..Rules::default()
        };
        let meta = |labels: &[&str], annotations: &[&str]| ObjectMeta {
            labels: Some(labels.iter().map(|key| ((*key).into(), String::new())).collect()),
            annotations: Some(
                annotations.iter().map(|key| ((*key).into(), String::new())).collect(),
            ),
            ..ObjectMeta::default()
        };
        let plain = meta(&[], &[]);
        let cases = [
            (
                "nobody is listed",
                Rules::default(),
                "x",
                "a",
                Some(&plain),
                Decision::AllowedUsername,
            ),
            (
                "a listed user",
                rules.clone(),
                "system:sa:koord-scheduler",
                "a",
                Some(&plain),
                Decision::AllowedUsername,
            ),
            (
                "an excluded namespace",
                rules.clone(),
                "x",
                "kube-system",
                Some(&plain),
                Decision::ExcludedNamespace,
            ),
            (
                "no namespace is meant",
                Rules { namespaces: vec![], ..rules.clone() },
                "x",
                "a",
                Some(&plain),
                Decision::OutOfScope,
            ),
            ("an unknown pod", rules.clone(), "x", "a", None, Decision::OutOfScope),
            (
                "a freed pod",
                rules.clone(),
                "x",
                "a",
                Some(&meta(&["koordinator.sh/binding-admission-bypass"], &[])),
                Decision::BypassLabel,
            ),
            (
                "freed by annotation",
                rules.clone(),
                "x",
                "a",
                Some(&meta(&[], &["free"])),
                Decision::BypassAnnotation,
            ),
            (
                "a try",
                Rules { is_dry_run: true, ..rules.clone() },
                "x",
                "a",
                Some(&plain),
                Decision::DryRun,
            ),
            ("a stranger", rules, "x", "a", Some(&plain), Decision::Denied),
        ];
        for (name, rules, user, namespace, pod, want) in cases {
            let decision = decide(&rules, user, namespace, pod);
            assert_eq!(decision, want, "{name}");
            assert_eq!(decision.verdict(user, "a/p").is_err(), want == Decision::Denied, "{name}");
        }
    }
}
