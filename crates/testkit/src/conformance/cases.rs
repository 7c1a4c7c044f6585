//! Where do the cases come from?

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::script::{self, Step};

/// One behaviour that every server must show.
#[derive(Debug, Clone)]
pub struct Case {
    pub area: String,
    pub name: String,
    /// What not every server has; see [`Target::offers`](super::Target).
    pub needs: Vec<String>,
    pub(super) steps: Vec<Step>,
}

impl Case {
    /// The name by which reports and lists of gaps know it.
    pub fn id(&self) -> String {
        format!("{}: {}", self.area, self.name)
    }
}

/// A transcript that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    #[error("cannot read {path}")]
    Read { path: String, source: std::io::Error },
    #[error("{file}:{line}: {message}")]
    Syntax { file: String, line: usize, message: String },
}

/// Every case, by area and in the order of the files.
pub fn all() -> Result<Vec<Case>, CaseError> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/conformance");
    let unreadable = |source| CaseError::Read { path: dir.display().to_string(), source };
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let Some(area) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        if path.extension().is_some_and(|extension| extension == "txt") {
            let text = fs::read_to_string(&path).map_err(unreadable)?;
            files.insert(area.to_owned(), text);
        }
    }
    let mut cases = Vec::new();
    for (area, text) in files {
        let parsed = script::parse(&area, &text).map_err(|(line, message)| CaseError::Syntax {
            file: format!("{area}.txt"),
            line,
            message,
        })?;
        cases.extend(parsed);
    }
    Ok(cases)
}
