//! The lines of a `schemata` file.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ParseError, scan};

/// What a line of `schemata` divides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    L3,
    L3Code,
    L3Data,
    /// Memory bandwidth.
    Mb,
    /// A resource we do not use (`L2`, `SMBA`), kept as text.
    Other(String),
}

impl Resource {
    fn name(&self) -> &str {
        match self {
            Self::L3 => "L3",
            Self::L3Code => "L3CODE",
            Self::L3Data => "L3DATA",
            Self::Mb => "MB",
            Self::Other(name) => name,
        }
    }

    fn from_name(name: &str) -> Self {
        match name {
            "L3" => Self::L3,
            "L3CODE" => Self::L3Code,
            "L3DATA" => Self::L3Data,
            "MB" => Self::Mb,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Caches are divided by masks, printed in hexadecimal.
    fn is_mask(&self) -> bool {
        matches!(self, Self::L3 | Self::L3Code | Self::L3Data)
            || matches!(self, Self::Other(name) if name.starts_with("L2"))
    }
}

/// The value of every domain, by resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Schemata {
    lines: BTreeMap<Resource, BTreeMap<u32, u64>>,
}

impl Schemata {
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut lines = BTreeMap::new();
        for (at, line) in scan::lines(text) {
            let bad = || ParseError::new(at, "<resource>:<id>=<value>;...", line);
            let line = str::from_utf8(line).map_err(|_| bad())?.trim();
            if line.is_empty() {
                continue;
            }
            let (name, domains) = line.split_once(':').ok_or_else(bad)?;
            let resource = Resource::from_name(name.trim());
            let mut values = BTreeMap::new();
            for domain in domains.split(';').map(str::trim).filter(|domain| !domain.is_empty()) {
                let (id, value) = domain.split_once('=').ok_or_else(bad)?;
                let (id, value) = (id.trim().as_bytes(), value.trim().as_bytes());
                let id = scan::number(id).and_then(|id| u32::try_from(id).ok()).ok_or_else(bad)?;
                let value = if resource.is_mask() { scan::hex(value) } else { scan::number(value) };
                values.insert(id, value.ok_or_else(bad)?);
            }
            lines.insert(resource, values);
        }
        Ok(Self { lines })
    }

    /// The values of a resource by domain; `None` when the hardware does not divide it.
    pub fn get(&self, resource: &Resource) -> Option<&BTreeMap<u32, u64>> {
        self.lines.get(resource)
    }

    pub fn set(&mut self, resource: Resource, values: BTreeMap<u32, u64>) {
        self.lines.insert(resource, values);
    }

    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.lines.keys()
    }

    /// The line of one resource, without newline.
    pub fn line(&self, resource: &Resource) -> Option<String> {
        let values = self.lines.get(resource)?;
        let domains: Vec<String> = values
            .iter()
            .map(|(id, value)| match resource.is_mask() {
                true => format!("{id}={value:x}"),
                false => format!("{id}={value}"),
            })
            .collect();
        Some(format!("{}:{}", resource.name(), domains.join(";")))
    }
}

/// As the kernel prints it, one line a resource.
impl TryFrom<String> for Schemata {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(text.as_bytes())
    }
}

impl From<Schemata> for String {
    fn from(schemata: Schemata) -> Self {
        schemata.to_string()
    }
}

impl fmt::Display for Schemata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for resource in self.lines.keys() {
            writeln!(f, "{}", self.line(resource).unwrap_or_default())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intel_and_amd_forms_read_and_print() {
        let cases = [
            (
                "intel",
                "    L3:0=7ff;1=7ff\n    MB:0=100;1= 90\n",
                "L3:0=7ff;1=7ff\nMB:0=100;1=90\n",
            ),
            ("code and data", "L3CODE:0=f\nL3DATA:0=f0\n", "L3CODE:0=f\nL3DATA:0=f0\n"),
            (
                "amd, ids with gaps",
                "MB:0=2048;8=160\nL3:0=ffff;8=fff;\n",
                "L3:0=ffff;8=fff\nMB:0=2048;8=160\n",
            ),
            ("others are kept", "SMBA:0=2048\nL2:0=ff\n", "L2:0=ff\nSMBA:0=2048\n"),
            ("nothing", "", ""),
        ];
        for (name, text, want) in cases {
            let schemata = Schemata::parse(text.as_bytes()).unwrap();
            assert_eq!(schemata.to_string(), want, "{name}");
            assert_eq!(Schemata::parse(want.as_bytes()), Ok(schemata), "{name}");
        }
    }

    #[test]
    fn broken_lines_are_refused() {
        for text in ["L3", "L3:0", "L3:0=", "L3:0=xyz", "MB:0=ff", "L3:a=1", "L3:0=1:2"] {
            assert!(Schemata::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(Schemata::parse(b"L3:0=\xff").is_err());
    }
}
