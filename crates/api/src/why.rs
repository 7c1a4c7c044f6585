//! Why is a decision what it is? One vocabulary for every sum and reason.
//!
//! Engines produce a [`Why`] beside each decision; the agent's page, the manager's debug page, the
//! console and `explain` show that very value. Its [`Sum`] adds up: a bound that bites and a rounding
//! are terms of their own, so a reader with a pencil reaches each result.
//!
//! ```text
//! n1: best-effort may use 10 of 16 CPUs (bound by: threshold)
//!
//!    16.0  capacity
//!  > 10.4  allowed in total         cpuSuppressThresholdPercent = 65 (built-in)
//!  -  0.5  used above best-effort   3 pods
//!  =  9.9  left
//!  +  0.1  rounded up to whole CPUs
//!  = 10.0  granted                  cpuSuppressPolicy = cpuset (built-in)
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};
use units::{Bytes, MilliCpu};

/// The subject of decisions about a whole node.
pub const NODE: &str = "node";

/// The reason behind one decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// [`NODE`], or `namespace/name` of a pod.
    pub about: String,
    pub resource: Resource,
    /// The outcome in one sentence.
    pub headline: String,
    /// The rule that had the last word.
    pub bound_by: String,
    #[serde(rename = "lines", default)]
    pub sum: Sum,
}

/// The resource that a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    Cpu,
    Memory,
    Cache,
    Io,
    Network,
    #[serde(rename = "kubernetes.io/batch-cpu")]
    BatchCpu,
    #[serde(rename = "kubernetes.io/batch-memory")]
    BatchMemory,
    #[serde(rename = "kubernetes.io/mid-cpu")]
    MidCpu,
    #[serde(rename = "kubernetes.io/mid-memory")]
    MidMemory,
}

impl Resource {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Cache => "cache",
            Self::Io => "io",
            Self::Network => "network",
            Self::BatchCpu => "kubernetes.io/batch-cpu",
            Self::BatchMemory => "kubernetes.io/batch-memory",
            Self::MidCpu => "kubernetes.io/mid-cpu",
            Self::MidMemory => "kubernetes.io/mid-memory",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Terms from top to bottom, as a reader adds them up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sum {
    pub terms: Vec<Term>,
}

/// One line of a sum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Term {
    #[serde(default)]
    pub sign: Sign,
    pub amount: i64,
    #[serde(default)]
    pub unit: Unit,
    pub label: String,
    #[serde(flatten)]
    pub source: Source,
}

impl Term {
    /// The total after this term.
    fn after(&self, total: i64) -> i64 {
        match self.sign {
            Sign::Plus => total.saturating_add(self.amount),
            Sign::Minus => total.saturating_sub(self.amount),
            Sign::Then => self.amount,
            Sign::Equals | Sign::Beside => total,
        }
    }
}

/// How a term enters the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Sign {
    /// Starts the sum, or is added to the total.
    Plus,
    /// Comes off the total.
    Minus,
    /// The total so far.
    Equals,
    /// Replaces the total: a bound that bites, a share or a scaling of the total.
    Then,
    /// Stands beside the sum and changes no total. Terms of an older agent have no sign.
    #[default]
    Beside,
}

/// The unit of an amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    MilliCores,
    Bytes,
    /// Ways of a cache, percent, and the like: the label says which.
    #[default]
    Number,
}

impl Unit {
    /// An amount as people read it: cores with as many decimals as they need, GiB with one.
    pub fn show(self, amount: i64) -> String {
        match self {
            Self::MilliCores => {
                let text = format!("{:.3}", amount as f64 / 1_000.0);
                let short = text.trim_end_matches('0');
                if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
            }
            Self::Bytes => format!("{:.1}", amount as f64 / (1_u64 << 30) as f64),
            Self::Number => amount.to_string(),
        }
    }

    /// The unit in which [`Unit::show`] counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::MilliCores => "CPUs",
            Self::Bytes => "GiB",
            Self::Number => "",
        }
    }
}

/// An amount with its unit, on its way into a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount(pub i64, pub Unit);

impl From<MilliCpu> for Amount {
    fn from(amount: MilliCpu) -> Self {
        Self(amount.0, Unit::MilliCores)
    }
}

impl From<Bytes> for Amount {
    fn from(amount: Bytes) -> Self {
        Self(amount.0, Unit::Bytes)
    }
}

/// Where an amount comes from: the object it was read from, and the setting that shaped it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// An object, a measurement or a count: `Node`, `3 pods`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<Setting>,
}

/// A setting and where it was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    pub name: String,
    /// The value and the layer of the configuration that gave it; `None` when no layer does.
    pub value: Option<SetValue>,
}

/// A value of the configuration and who gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetValue {
    pub value: String,
    /// The layer in words: `built-in`, `cluster`, `NodeSLO`, `node label ...`.
    pub set_by: String,
}

impl Source {
    /// The note and then the setting.
    #[must_use]
    pub fn and(self, setting: Setting) -> Self {
        Self { setting: Some(setting), ..self }
    }
}

impl From<&str> for Source {
    fn from(note: &str) -> Self {
        Self { note: note.to_owned(), setting: None }
    }
}

impl From<String> for Source {
    fn from(note: String) -> Self {
        Self { note, setting: None }
    }
}

impl From<Setting> for Source {
    fn from(setting: Setting) -> Self {
        Self { note: String::new(), setting: Some(setting) }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(SetValue { value, set_by }) => write!(f, "{} = {value} ({set_by})", self.name),
            None => write!(f, "{} is not set", self.name),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.note)?;
        let Some(setting) = &self.setting else { return Ok(()) };
        let gap = if self.note.is_empty() { "" } else { "; " };
        write!(f, "{gap}{setting}")
    }
}

impl Sum {
    /// Adds a term at the bottom.
    pub fn push(
        &mut self,
        sign: Sign,
        amount: impl Into<Amount>,
        label: &str,
        source: impl Into<Source>,
    ) {
        let Amount(amount, unit) = amount.into();
        self.terms.push(Term {
            sign,
            amount,
            unit,
            label: label.to_owned(),
            source: source.into(),
        });
    }

    #[must_use]
    pub fn plus(mut self, amount: impl Into<Amount>, label: &str, from: impl Into<Source>) -> Self {
        self.push(Sign::Plus, amount, label, from);
        self
    }

    #[must_use]
    pub fn minus(
        mut self,
        amount: impl Into<Amount>,
        label: &str,
        from: impl Into<Source>,
    ) -> Self {
        self.push(Sign::Minus, amount, label, from);
        self
    }

    #[must_use]
    pub fn equals(
        mut self,
        amount: impl Into<Amount>,
        label: &str,
        from: impl Into<Source>,
    ) -> Self {
        self.push(Sign::Equals, amount, label, from);
        self
    }

    #[must_use]
    pub fn then(mut self, amount: impl Into<Amount>, label: &str, from: impl Into<Source>) -> Self {
        self.push(Sign::Then, amount, label, from);
        self
    }

    #[must_use]
    pub fn beside(
        mut self,
        amount: impl Into<Amount>,
        label: &str,
        from: impl Into<Source>,
    ) -> Self {
        self.push(Sign::Beside, amount, label, from);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The amount of the last term.
    pub fn result(&self) -> Option<i64> {
        self.terms.last().map(|term| term.amount)
    }

    /// What the terms come to, whatever their totals say.
    pub fn total(&self) -> i64 {
        self.terms.iter().fold(0, |total, term| term.after(total))
    }

    /// The first total that the terms above it do not come to; `None` when the sum adds up.
    pub fn mistake(&self) -> Option<Mistake> {
        let mut total = 0;
        for term in &self.terms {
            if term.sign == Sign::Equals && term.amount != total {
                return Some(Mistake { label: term.label.clone(), said: term.amount, total });
            }
            total = term.after(total);
        }
        None
    }
}

/// A total that is not what its terms come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub label: String,
    pub said: i64,
    /// What the terms above come to.
    pub total: i64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn granted() -> Sum {
        let threshold = Setting {
            name: "cpuSuppressThresholdPercent".to_owned(),
            value: Some(SetValue { value: "65".to_owned(), set_by: "built-in".to_owned() }),
        };
        Sum::default()
            .plus(MilliCpu(16_000), "capacity", "Node")
            .then(MilliCpu(10_400), "allowed in total", threshold)
            .minus(MilliCpu(500), "used above best-effort", "3 pods")
            .equals(MilliCpu(9_900), "left", "")
            .plus(MilliCpu(100), "rounded up to whole CPUs", "")
            .beside(MilliCpu(7), "not part of the sum", "")
            .equals(MilliCpu(10_000), "granted", "")
    }

    #[test]
    fn a_sum_adds_up_or_names_its_mistake() {
        assert_eq!(granted().mistake(), None);
        assert_eq!(granted().result(), Some(10_000));
        let wrong = granted().minus(MilliCpu(1), "x", "").equals(MilliCpu(10_000), "sum", "");
        let mistake = Mistake { label: "sum".to_owned(), said: 10_000, total: 9_999 };
        assert_eq!(wrong.mistake(), Some(mistake));
        assert_eq!(Sum::default().mistake(), None);
    }

    #[test]
    fn sources_are_said_in_words() {
        let is_unset = Setting { name: "enable".to_owned(), value: None };
        let cases = [
            (Source::from(""), ""),
            (Source::from("Node"), "Node"),
            (Source::from(is_unset.clone()), "enable is not set"),
            (Source::from("2 pods").and(is_unset), "2 pods; enable is not set"),
        ];
        for (source, want) in cases {
            assert_eq!(source.to_string(), want);
        }
        let threshold = &granted().terms[1].source;
        assert_eq!(threshold.to_string(), "cpuSuppressThresholdPercent = 65 (built-in)");
    }

    #[test]
    fn a_reason_survives_the_wire() {
        let why = Why {
            about: NODE.to_owned(),
            resource: Resource::BatchCpu,
            headline: "h".to_owned(),
            bound_by: "b".to_owned(),
            sum: granted(),
        };
        let json = serde_json::to_value(&why).unwrap();
        assert_eq!(json["resource"], "kubernetes.io/batch-cpu");
        assert_eq!(
            json["lines"][1],
            json!({ "sign": "then", "amount": 10_400, "unit": "milliCores",
                "label": "allowed in total", "setting": { "name": "cpuSuppressThresholdPercent",
                "value": { "value": "65", "setBy": "built-in" } } })
        );
        assert_eq!(json["lines"][0]["note"], "Node");
        assert_eq!(serde_json::from_value::<Why>(json).unwrap(), why);
    }

    #[test]
    fn every_resource_is_called_the_same_everywhere() {
        for resource in [
            Resource::Cpu,
            Resource::Memory,
            Resource::Cache,
            Resource::Io,
            Resource::Network,
            Resource::BatchCpu,
            Resource::BatchMemory,
            Resource::MidCpu,
            Resource::MidMemory,
        ] {
            assert_eq!(json!(resource), resource.name());
        }
    }

    #[test]
    fn terms_of_an_older_agent_are_read() {
        let old = json!({ "amount": -4000, "label": "system", "note": "reserved 4000m" });
        let term: Term = serde_json::from_value(old).unwrap();
        assert_eq!((term.sign, term.amount), (Sign::Beside, -4_000));
        assert_eq!(term.source.note, "reserved 4000m");
    }
}
