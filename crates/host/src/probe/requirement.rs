//! One thing Tidepool can use, and whether it is there.

/// What a requirement is about, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    Kernel,
    Cgroups,
    Cpu,
    Memory,
    Io,
    Observation,
    Rights,
}

impl Area {
    pub fn title(self) -> &'static str {
        match self {
            Self::Kernel => "machine",
            Self::Cgroups => "control groups",
            Self::Cpu => "cpu protection",
            Self::Memory => "memory protection",
            Self::Io => "disk protection",
            Self::Observation => "observation",
            Self::Rights => "rights and limits",
        }
    }
}

/// How much depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Nothing works without it.
    Required,
    /// A feature is weaker without it.
    Recommended,
    /// Nice to have: there is a substitute, or few need it.
    Optional,
}

impl Need {
    pub fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Recommended => "recommended",
            Self::Optional => "optional",
        }
    }
}

/// Is it there?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    Yes,
    No,
    /// It could not be looked at.
    Unknown,
}

impl Met {
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "met",
            Self::No => "missing",
            Self::Unknown => "unknown",
        }
    }
}

/// A row of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    pub area: Area,
    pub name: &'static str,
    pub need: Need,
    pub met: Met,
    /// What was found.
    pub found: String,
    /// What its absence costs.
    pub consequence: &'static str,
    /// How to get it.
    pub fix: &'static str,
}

impl Requirement {
    /// Missing, and nothing works without it.
    pub fn is_fatal(&self) -> bool {
        self.need == Need::Required && self.met == Met::No
    }
}
