//! Which quota does a pod count against?

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Wire;
use crate::finding::Finding;
use crate::protocol::{name, quota as key};

/// A quota as pods look for it: its metadata.
pub fn quota_of<'a>(
    pod: &'a ObjectMeta,
    quotas: impl IntoIterator<Item = &'a ObjectMeta> + Clone,
) -> &'a str {
    if let Some(label) = key::NAME.raw(pod).filter(|label| !label.is_empty()) {
        return label;
    }
    let namespace = pod.namespace.as_deref().unwrap_or_default();
    let is_own = |quota: &ObjectMeta| {
        quota.namespace.as_deref() == Some(namespace) && quota.name.as_deref() == Some(namespace)
    };
    let lists = |quota: &ObjectMeta| {
        key::NAMESPACES.get(quota).is_some_and(|list| list.iter().any(|listed| listed == namespace))
    };
    let own = quotas.clone().into_iter().find(|quota| is_own(quota));
    let found = own.or_else(|| quotas.into_iter().find(|quota| lists(quota)));
    found.and_then(|quota| quota.name.as_deref()).unwrap_or(name::quota::DEFAULT)
}

/// The parent's name; without a label the root.
pub fn parent_of(quota: &ObjectMeta) -> &str {
    key::PARENT.raw(quota).filter(|parent| !parent.is_empty()).unwrap_or(name::quota::ROOT)
}

/// A share of a profile's nodes: a number in (0, 1]. Anything else acts as 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResourceRatio(f64);

impl ResourceRatio {
    pub const ONE: Self = Self(1.0);

    pub fn get(self) -> f64 {
        self.0
    }
}

impl Wire for ResourceRatio {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        let ratio = text.parse().ok().filter(|ratio: &f64| *ratio > 0.0 && *ratio <= 1.0);
        super::parse_or(text, ratio.map(Self), "a number above 0 and at most 1", "0.8")
    }

    fn print(&self) -> String {
        self.0.to_string()
    }
}
