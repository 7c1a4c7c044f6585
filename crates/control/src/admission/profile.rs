//! ClusterColocationProfile: which profiles mean an object, and what do they set?
//!
//! Profiles are chosen once, by the labels the object came with, and applied
//! in the order of their names, so the last name wins:
//!
//! ```text
//! labels -> annotations -> copied keys -> suffixes -> scheduler
//!        -> QoS class -> priority class -> priority -> patch
//! ```
//!
//! A selector that cannot be evaluated matches nothing. A profile with a
//! probability of p applies in p of 100 cases, to the point.
//!
//! An API server may ask twice about one object. Setting a label twice is
//! harmless; appending a suffix twice, rolling the die twice, or copying a key
//! that has changed in between is not. Where the second time would differ from
//! the first, the object gets an annotation with the names of the profiles
//! that were applied, and the second time leaves it as it is. The annotation
//! counts only while the object has what its profiles enforce (scheduler, QoS
//! class, priority), so nobody gets around a profile by writing it.

use std::collections::BTreeMap;
use std::fmt;

use api::check::probability;
use api::config::selector::{Labels, Selector};
use api::kind::ClusterColocationProfile;
use api::metadata::Wire;
use api::protocol::object::{APPLIED_PROFILES, SKIP_UPDATE_RESOURCES};
use api::protocol::pod::{PRIORITY_CLASS, QOS_CLASS, SUB_PRIORITY};
use api::protocol::quota::PREEMPTIBLE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value};

use super::{Denied, map_at, merge};

/// A profile that is ready to be asked.
#[derive(Debug, Clone)]
pub struct Profile {
    name: String,
    object: ClusterColocationProfile,
    objects: Match,
    namespaces: Match,
    /// `None` when the probability cannot be read; the profile is never applied then.
    percent: Option<u8>,
}

/// Which labels a selector means.
#[derive(Debug, Clone)]
enum Match {
    Everything,
    Some(Selector),
    /// The selector cannot be evaluated.
    Nothing,
}

impl Match {
    fn new(selector: Option<&LabelSelector>) -> Self {
        match selector.map(Selector::compile) {
            None => Self::Everything,
            Some(Ok(selector)) if selector.is_empty() => Self::Everything,
            Some(Ok(selector)) => Self::Some(selector),
            Some(Err(_)) => Self::Nothing,
        }
    }

    /// `None` stands for labels that are not known.
    fn matches(&self, labels: Option<&Labels>) -> bool {
        match self {
            Self::Everything => true,
            Self::Some(selector) => labels.is_some_and(|labels| selector.matches(labels)),
            Self::Nothing => false,
        }
    }
}

/// What a PriorityClass gives to pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityFacts {
    pub value: i32,
    pub preemption_policy: Option<String>,
}

pub type PriorityClasses = BTreeMap<String, PriorityFacts>;

/// What profiles are applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Pod,
    /// Labels are the reservation's own, scheduler and priority its template's.
    Reservation,
}

impl Target {
    fn pod_spec(self) -> &'static [&'static str] {
        match self {
            Self::Pod => &["spec"],
            Self::Reservation => &["spec", "template", "spec"],
        }
    }
}

impl Profile {
    pub fn new(object: ClusterColocationProfile) -> Self {
        Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            objects: Match::new(object.spec.selector.as_ref()),
            namespaces: Match::new(object.spec.namespace_selector.as_ref()),
            percent: probability(object.spec.probability.as_ref()).0,
            object,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn object(&self) -> &ClusterColocationProfile {
        &self.object
    }

    /// A selector of the profile cannot be evaluated.
    pub fn is_broken(&self) -> bool {
        matches!((&self.objects, &self.namespaces), (Match::Nothing, _) | (_, Match::Nothing))
    }

    /// `namespace` holds the labels of the pod's namespace, if they are known.
    pub fn matches_pod(&self, labels: &Labels, namespace: Option<&Labels>) -> bool {
        self.objects.matches(Some(labels)) && self.namespaces.matches(namespace)
    }

    /// Why the profile does not mean a pod; `None` when it does.
    pub fn mismatch(&self, labels: &Labels, namespace: Option<&Labels>) -> Option<&'static str> {
        if self.is_broken() {
            return Some("a selector of the profile cannot be evaluated");
        }
        if !self.objects.matches(Some(labels)) {
            return Some("its selector does not match the pod's labels");
        }
        if self.namespaces.matches(namespace) {
            return None;
        }
        Some(match namespace {
            None => "the pod's namespace is not known",
            Some(_) => "its namespaceSelector does not match the namespace's labels",
        })
    }

    /// In how many of 100 cases it applies; `None` when that cannot be read, and it never does.
    pub fn percent(&self) -> Option<u8> {
        self.percent
    }

    /// Reservations have no namespace, so a profile that means namespaces alone does not mean them.
    pub fn matches_reservation(&self, labels: &Labels) -> bool {
        let by_labels = matches!(self.objects, Match::Some(_));
        let by_nothing = matches!(self.namespaces, Match::Everything);
        self.objects.matches(Some(labels)) && (by_labels || by_nothing)
    }

    pub(super) fn keeps_resources(&self) -> bool {
        SKIP_UPDATE_RESOURCES.is_present(&self.object.metadata)
    }

    /// `roll` is a number from 0 to 99.
    pub fn is_due(&self, roll: u8) -> bool {
        self.percent.is_some_and(|percent| roll < percent)
    }

    fn is_chancy(&self) -> bool {
        self.percent.is_some_and(|percent| (1..100).contains(&percent))
    }

    fn apply(
        &self,
        object: &mut Value,
        target: Target,
        classes: &PriorityClasses,
    ) -> Result<(), Denied> {
        self.set_texts(object)?;
        let spec = &self.object.spec;
        if let Some(scheduler) = spec.scheduler_name.as_deref().filter(|name| !name.is_empty()) {
            let fields = self.map(object, target.pod_spec())?;
            fields.insert("schedulerName".into(), scheduler.into());
        }
        if let Some(class) = spec.qos_class.as_deref().filter(|class| !class.is_empty()) {
            let labels = self.map(object, &["metadata", "labels"])?;
            labels.insert(QOS_CLASS.name.into(), class.into());
        }
        if let Some(class) = spec.priority_class_name.as_deref().filter(|name| !name.is_empty()) {
            self.set_priority(object, target, class, classes)?;
        }
        if let Some(priority) = spec.koordinator_priority {
            let labels = self.map(object, &["metadata", "labels"])?;
            labels.insert(SUB_PRIORITY.name.into(), priority.to_string().into());
        }
        self.lay_patch(object)
    }

    /// Labels, annotations, copied keys and suffixes: what an object that already exists may get too.
    fn set_texts(&self, object: &mut Value) -> Result<(), Denied> {
        let spec = &self.object.spec;
        let sets = [("labels", &spec.labels), ("annotations", &spec.annotations)];
        for (place, texts) in sets.into_iter().filter(|(_, texts)| !texts.is_empty()) {
            let map = self.map(object, &["metadata", place])?;
            map.extend(texts.iter().map(|(key, text)| (key.clone(), text.clone().into())));
        }
        let copies =
            [("labels", &spec.label_keys_mapping), ("annotations", &spec.annotation_keys_mapping)];
        for (place, keys) in copies.into_iter().filter(|(_, keys)| !keys.is_empty()) {
            let map = self.map(object, &["metadata", place])?;
            for (old, new) in keys {
                if let Some(value) = map.get(old).cloned() {
                    map.insert(new.clone(), value);
                }
            }
        }
        if !spec.label_suffixes.is_empty() {
            let map = self.map(object, &["metadata", "labels"])?;
            for (key, suffix) in &spec.label_suffixes {
                if let Some(Value::String(text)) = map.get_mut(key) {
                    text.push_str(suffix);
                }
            }
        }
        Ok(())
    }

    fn set_priority(
        &self,
        object: &mut Value,
        target: Target,
        class: &str,
        classes: &PriorityClasses,
    ) -> Result<(), Denied> {
        let Some(facts) = classes.get(class) else {
            return Err(self.impossible(&format!(
                "spec.priorityClassName: there is no PriorityClass {class}; create it, or name \
                 another one"
            )));
        };
        let fields = self.map(object, target.pod_spec())?;
        fields.insert("priorityClassName".into(), class.into());
        fields.insert("priority".into(), facts.value.into());
        if let Some(policy) = &facts.preemption_policy {
            fields.insert("preemptionPolicy".into(), policy.clone().into());
        }
        Ok(())
    }

    fn lay_patch(&self, object: &mut Value) -> Result<(), Denied> {
        let Some(patch) = &self.object.spec.patch else { return Ok(()) };
        let patch = patch.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        merge::merge(object, &patch).map_err(|error| self.impossible(&format!("spec.{error}")))
    }

    fn map<'v>(
        &self,
        object: &'v mut Value,
        path: &[&str],
    ) -> Result<&'v mut Map<String, Value>, Denied> {
        let problem = || self.impossible(&format!("{} is not a map", path.join(".")));
        map_at(object, path).ok_or_else(problem)
    }

    fn impossible(&self, why: &str) -> Denied {
        Denied::impossible(format!("ClusterColocationProfile {}: {why}", self.name))
    }
}

/// Where chance comes from: a number from 0 to 99 for each profile.
#[derive(Clone, Copy)]
pub struct Dice<'a>(pub &'a dyn Fn(&str) -> u8);

impl fmt::Debug for Dice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dice")
    }
}

/// What profiles are applied with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means<'a> {
    /// Sorted by name.
    pub(super) profiles: &'a [Profile],
    pub(super) target: Target,
    /// Labels of the object's namespace, if it has one that is known.
    pub(super) namespace: Option<&'a Labels>,
    pub(super) classes: &'a PriorityClasses,
    pub(super) dice: Dice<'a>,
}

impl<'a> Means<'a> {
    /// Applies every profile that means the object, and says which did.
    pub(super) fn apply(&self, object: &mut Value) -> Result<Vec<&'a Profile>, Denied> {
        let matched = self.matching(object);
        if let Some(names) = recorded(object) {
            let known: Vec<&Profile> =
                self.profiles.iter().filter(|profile| names.contains(&profile.name)).collect();
            let bound = matched.iter().copied().filter(|profile| {
                names.contains(&profile.name) || matches!(profile.objects, Match::Everything)
            });
            let bound: Vec<&Profile> = bound.collect();
            // One that was applied may have changed the very labels that it looks for.
            let mut causes = bound.clone();
            causes.extend(known.iter().filter(|profile| self.is_of_namespace(profile)));
            if is_in_force(&bound, &causes, object, self.target) {
                return Ok(known);
            }
        }
        self.apply_all(&matched, object)?;
        let by_chance = matched.iter().any(|profile| profile.is_chancy());
        if by_chance || self.would_change(object)? {
            let names: Vec<String> = matched.iter().map(|profile| profile.name.clone()).collect();
            if let Some(annotations) = map_at(object, &["metadata", "annotations"]) {
                annotations.insert(APPLIED_PROFILES.name.into(), names.print().into());
            }
        }
        Ok(matched)
    }

    fn is_of_namespace(&self, profile: &Profile) -> bool {
        self.target == Target::Reservation || profile.namespaces.matches(self.namespace)
    }

    fn matching(&self, object: &Value) -> Vec<&'a Profile> {
        let labels = labels_of(object);
        let means = |profile: &&Profile| match self.target {
            Target::Pod => profile.matches_pod(&labels, self.namespace),
            Target::Reservation => profile.matches_reservation(&labels),
        };
        self.profiles.iter().filter(means).collect()
    }

    fn apply_all(&self, profiles: &[&Profile], object: &mut Value) -> Result<(), Denied> {
        for profile in profiles.iter().filter(|p| p.is_due((self.dice.0)(&p.name))) {
            profile.apply(object, self.target, self.classes)?;
        }
        Ok(())
    }

    /// Asked again about its own answer, would it answer differently?
    fn would_change(&self, object: &Value) -> Result<bool, Denied> {
        let matched = self.matching(object);
        if matched.iter().any(|profile| profile.is_chancy()) {
            return Ok(true);
        }
        let mut again = object.clone();
        self.apply_all(&matched, &mut again)?;
        Ok(again != *object)
    }
}

/// The pod after a profile that comes late, and the fields that it must leave
/// alone because they cannot change on a live pod. A profile that has been
/// applied and recorded is not applied again.
pub fn reapply(
    profile: &Profile,
    pod: &Value,
    keeps_order: bool,
) -> Result<(Value, Vec<&'static str>), Denied> {
    let mut names = recorded(pod).unwrap_or_default();
    if names.contains(&profile.name) {
        return Ok((pod.clone(), Vec::new()));
    }
    let mut next = pod.clone();
    profile.set_texts(&mut next)?;
    let spec = &profile.object.spec;
    let late = [
        (QOS_CLASS.name, spec.qos_class.clone()),
        (SUB_PRIORITY.name, spec.koordinator_priority.map(|priority| priority.to_string())),
    ];
    for (key, text) in late.into_iter().filter_map(|(key, text)| Some((key, text?))) {
        profile.map(&mut next, &["metadata", "labels"])?.insert(key.to_owned(), text.into());
    }
    profile.lay_patch(&mut next)?;

    let mut left_alone = Vec::new();
    let before = labels_of(pod);
    let after = labels_of(&next);
    let fixed = [QOS_CLASS.name, PRIORITY_CLASS.name, PREEMPTIBLE.name]
        .into_iter()
        .chain(keeps_order.then_some(SUB_PRIORITY.name));
    for key in fixed.filter(|key| before.get(*key) != after.get(*key)) {
        left_alone.push(key);
        let labels = profile.map(&mut next, &["metadata", "labels"])?;
        match before.get(key) {
            Some(text) => labels.insert(key.to_owned(), text.clone().into()),
            None => labels.remove(key),
        };
    }
    if next != *pod && !(spec.label_suffixes.is_empty() && spec.label_keys_mapping.is_empty()) {
        names.push(profile.name.clone());
        let annotations = profile.map(&mut next, &["metadata", "annotations"])?;
        annotations.insert(APPLIED_PROFILES.name.into(), names.print().into());
    }
    Ok((next, left_alone))
}

pub fn labels_of(object: &Value) -> Labels {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let texts = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| value.as_str().map(|value| (key.clone(), value.to_owned())));
    texts.collect()
}

fn recorded(object: &Value) -> Option<Vec<String>> {
    let annotations = object.pointer("/metadata/annotations")?;
    Vec::parse(annotations.get(APPLIED_PROFILES.name)?.as_str()?).0
}

/// Does the object have what these profiles enforce? One that is applied by
/// chance, or another of the causes that says differently, may have had the
/// last word.
fn is_in_force(profiles: &[&Profile], causes: &[&Profile], object: &Value, target: Target) -> bool {
    let holds = |found: Option<&str>, own, led_to: &dyn Fn(&Profile, &str) -> bool| {
        holds(profiles, found, own, &|found| causes.iter().any(|cause| led_to(cause, found)))
    };
    let pod_spec = format!("/{}", target.pod_spec().join("/"));
    let field = |name: &str, own: fn(&Profile) -> Option<String>| {
        let found = object.pointer(&format!("{pod_spec}/{name}")).and_then(Value::as_str);
        let in_patch = |profile: &Profile| patch_at(profile, &["spec", name]);
        holds(found, own, &|cause, found| {
            own(cause).as_deref() == Some(found) || in_patch(cause).as_deref() == Some(found)
        })
    };
    let labels = labels_of(object);
    let label = |name: &str, own: fn(&Profile) -> Option<String>| {
        let found = labels.get(name).map(String::as_str);
        holds(found, own, &|cause, found| {
            own(cause).as_deref() == Some(found) || may_label(cause, name, found)
        })
    };
    field("schedulerName", |p| p.object.spec.scheduler_name.clone())
        && field("priorityClassName", |p| p.object.spec.priority_class_name.clone())
        && label(QOS_CLASS.name, |p| p.object.spec.qos_class.clone())
        && label(SUB_PRIORITY.name, |p| {
            p.object.spec.koordinator_priority.map(|priority| priority.to_string())
        })
}

/// Can the profile have set this label, other than by the field that is made for it?
fn may_label(profile: &Profile, key: &str, found: &str) -> bool {
    let spec = &profile.object.spec;
    spec.labels.get(key).is_some_and(|text| text == found)
        || patch_at(profile, &["metadata", "labels", key]).as_deref() == Some(found)
        || spec.label_suffixes.contains_key(key)
        || spec.label_keys_mapping.values().any(|new| new == key)
}

/// Where a profile enforces a value, something must have led to what is there.
fn holds(
    profiles: &[&Profile],
    found: Option<&str>,
    own: fn(&Profile) -> Option<String>,
    is_caused: &dyn Fn(&str) -> bool,
) -> bool {
    let enforces =
        |p: &&Profile| p.percent == Some(100) && own(p).is_some_and(|text| !text.is_empty());
    !profiles.iter().any(enforces) || found.is_some_and(is_caused)
}

fn patch_at(profile: &Profile, path: &[&str]) -> Option<String> {
    let (first, rest) = path.split_first()?;
    let mut at = profile.object.spec.patch.as_ref()?.get(*first)?;
    for name in rest {
        at = at.get(*name)?;
    }
    at.as_str().map(str::to_owned)
}
