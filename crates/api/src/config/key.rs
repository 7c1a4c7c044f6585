//! The keys and the shape of their texts.
//!
//! Four keys of the reference wrap their fields (`clusterStrategy`,
//! `nodeStrategies`), and so do Tidepool's own; four have them inline next to
//! `nodeConfigs`. An entry of either list is a name, a node selector and the
//! strategy's own fields inline.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde_json::Value as Json;

use crate::finding::Code;
use crate::json::Node;
use crate::protocol::name::config_map;
use crate::shape::{Shape, schema_of};
use crate::strategy::{
    ColocationStrategy, CpuBurstStrategy, CpuNormalizationStrategy, HostApplicationSpec,
    KernelStrategy, ReactionStrategy, ResourceAmplificationStrategy, ResourceQosStrategy,
    ResourceThresholdStrategy, SwitchStrategy, SystemStrategy,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Colocation,
    Threshold,
    Qos,
    Burst,
    System,
    HostApplication,
    Normalization,
    Amplification,
    Kernel,
    Reaction,
    Switch,
}

impl Key {
    pub const ALL: [Self; 11] = [
        Self::Colocation,
        Self::Threshold,
        Self::Qos,
        Self::Burst,
        Self::System,
        Self::HostApplication,
        Self::Normalization,
        Self::Amplification,
        Self::Kernel,
        Self::Reaction,
        Self::Switch,
    ];

    /// Tidepool's own keys.
    pub const OWN: [Self; 3] = [Self::Kernel, Self::Reaction, Self::Switch];

    /// Own keys are strict: what is not known in them is refused, not ignored.
    pub fn is_own(self) -> bool {
        Self::OWN.contains(&self)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Colocation => config_map::COLOCATION,
            Self::Threshold => config_map::RESOURCE_THRESHOLD,
            Self::Qos => config_map::RESOURCE_QOS,
            Self::Burst => config_map::CPU_BURST,
            Self::System => config_map::SYSTEM,
            Self::HostApplication => config_map::HOST_APPLICATION,
            Self::Normalization => config_map::CPU_NORMALIZATION,
            Self::Amplification => config_map::RESOURCE_AMPLIFICATION,
            Self::Kernel => config_map::KERNEL,
            Self::Reaction => config_map::REACTION,
            Self::Switch => config_map::SWITCH,
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// The key that a bare text probably belongs to: the only one that knows most
    /// of its fields. `None` when that is unclear.
    pub fn guess(text: &Node) -> Option<Self> {
        let mut scores: Vec<(usize, Self)> = Self::ALL
            .into_iter()
            .map(|key| {
                let mut findings = Vec::new();
                key.document().fit(text, &mut findings);
                (findings.iter().filter(|f| f.code == Code::UnknownField).count(), key)
            })
            .collect();
        scores.sort_unstable();
        // An own key is meant where it knows more than all keys of the reference.
        if scores.first().is_some_and(|(best, _)| {
            scores.iter().any(|(score, key)| score == best && !key.is_own())
        }) {
            scores.retain(|(_, key)| !key.is_own());
        }
        match scores.as_slice() {
            [(best, key), (next, _), ..] if best < next => Some(*key),
            _ => None,
        }
    }

    /// The field that holds the cluster's strategy; `None` when it is inline.
    pub fn cluster_field(self) -> Option<&'static str> {
        self.is_wrapped().then_some("clusterStrategy")
    }

    /// The field that lists the node entries.
    pub fn entries_field(self) -> &'static str {
        if self.is_wrapped() { "nodeStrategies" } else { "nodeConfigs" }
    }

    fn is_wrapped(self) -> bool {
        matches!(self, Self::Threshold | Self::Qos | Self::Burst | Self::System) || self.is_own()
    }

    /// Outline of one strategy: the fields of a cluster layer or of an entry.
    pub fn strategy(self) -> &'static Shape {
        &self.shapes().strategy
    }

    /// JSON schema of one strategy, with the description of every field.
    pub(super) fn schema(self) -> Json {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct HostApplications {
            /// Processes outside of pods whose usage is accounted for by name.
            applications: Vec<HostApplicationSpec>,
        }
        match self {
            Self::Colocation => schema_of::<ColocationStrategy>(),
            Self::Threshold => schema_of::<ResourceThresholdStrategy>(),
            Self::Qos => schema_of::<ResourceQosStrategy>(),
            Self::Burst => schema_of::<CpuBurstStrategy>(),
            Self::System => schema_of::<SystemStrategy>(),
            Self::HostApplication => schema_of::<HostApplications>(),
            Self::Normalization => schema_of::<CpuNormalizationStrategy>(),
            Self::Amplification => schema_of::<ResourceAmplificationStrategy>(),
            Self::Kernel => schema_of::<KernelStrategy>(),
            Self::Reaction => schema_of::<ReactionStrategy>(),
            Self::Switch => schema_of::<SwitchStrategy>(),
        }
    }

    /// Outline of the whole text.
    pub fn document(self) -> &'static Shape {
        &self.shapes().document
    }

    fn shapes(self) -> &'static Shapes {
        static SHAPES: LazyLock<BTreeMap<Key, Shapes>> =
            LazyLock::new(|| Key::ALL.into_iter().map(|key| (key, Shapes::of(key))).collect());
        SHAPES.get(&self).expect("every key is in ALL")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug)]
struct Shapes {
    strategy: Shape,
    document: Shape,
}

impl Shapes {
    fn of(key: Key) -> Self {
        let strategy = Shape::from_schema(&key.schema());
        let Shape::Object(fields) = strategy.clone() else {
            return Self { document: strategy.clone(), strategy };
        };

        let mut entry = fields.clone();
        entry.insert("name".to_owned(), Shape::Text);
        entry.insert("nodeSelector".to_owned(), Shape::of::<LabelSelector>());
        let entries = Shape::List(Box::new(Shape::Object(entry)));

        let mut document = match key.cluster_field() {
            Some(field) => BTreeMap::from([(field.to_owned(), strategy.clone())]),
            None => fields,
        };
        document.insert(key.entries_field().to_owned(), entries);
        Self { strategy, document: Shape::Object(document) }
    }
}
