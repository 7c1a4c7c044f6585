//! How do models survive a restart?
//!
//! One JSON file a model, named by pod uid or model name, in the shape the reference writes, so that an
//! upgrade keeps the history that is there. A file is written beside its place, synced and renamed: a
//! crash leaves the old one or the new one. What cannot be read is removed by the caller; a name that
//! ends in `.tmp` is what a crash left behind.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use overcommit::predict::Model;
use serde::{Deserialize, Serialize};
use stats::{Checkpoint, CheckpointError, DecayingHistogram};

use crate::durable;

/// The shape of the files we write. Files without a version are the reference's, which is the same
/// shape.
const VERSION: u32 = 1;

/// No model is larger: some 360 buckets of 20 characters.
const LARGEST_FILE: u64 = 64 << 10;

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{}: {size} bytes are more than any model needs", path.display())]
    TooLarge { path: PathBuf, size: u64 },
    #[error("cannot parse {}", path.display())]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("{}: version {version} is newer than {VERSION}", path.display())]
    Version { path: PathBuf, version: u32 },
    #[error("{}: unusable {resource} histogram", path.display())]
    Histogram { path: PathBuf, resource: &'static str, source: CheckpointError },
}

#[derive(Serialize, Deserialize)]
struct ModelFile {
    #[serde(rename = "Version", default = "reference_version")]
    version: u32,
    /// The reference ignores it when reading, and so do we: the file's name counts.
    #[serde(rename = "UID", default)]
    uid: String,
    #[serde(rename = "CPU")]
    cpu: HistogramFile,
    #[serde(rename = "Memory")]
    memory: HistogramFile,
    #[serde(rename = "LastUpdated")]
    last_updated: Timestamp,
}

fn reference_version() -> u32 {
    VERSION
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HistogramFile {
    reference_timestamp: Option<Timestamp>,
    bucket_weights: BTreeMap<usize, u32>,
    total_weight: f64,
}

impl HistogramFile {
    fn of(histogram: &DecayingHistogram) -> Self {
        let Checkpoint { reference, weights, total } = histogram.to_checkpoint();
        Self {
            reference_timestamp: reference.and_then(|at| Timestamp::from_nanosecond(at).ok()),
            bucket_weights: weights,
            total_weight: total,
        }
    }

    fn into_checkpoint(self) -> Checkpoint {
        Checkpoint {
            reference: self.reference_timestamp.map(Timestamp::as_nanosecond),
            weights: self.bucket_weights,
            total: self.total_weight,
        }
    }
}

/// The directory of the checkpoints.
#[derive(Debug, Clone)]
pub struct CheckpointDir {
    path: PathBuf,
}

impl CheckpointDir {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Names of the files that are there; a directory that is not is empty.
    pub(super) fn names(&self) -> Result<Vec<String>, FileError> {
        let read = |source| FileError::Read { path: self.path.clone(), source };
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(read(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(read)?;
            if entry.file_type().is_ok_and(|kind| kind.is_file())
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Fills `model` from its file; on an error the model is not to be used.
    pub(super) fn read(&self, name: &str, model: &mut Model) -> Result<(), FileError> {
        let path = self.path.join(name);
        let read = |source| FileError::Read { path: path.clone(), source };
        let size = fs::metadata(&path).map_err(read)?.len();
        if size > LARGEST_FILE {
            return Err(FileError::TooLarge { path, size });
        }
        let bytes = fs::read(&path).map_err(read)?;
        let file: ModelFile = serde_json::from_slice(&bytes)
            .map_err(|source| FileError::Parse { path: path.clone(), source })?;
        if file.version > VERSION {
            return Err(FileError::Version { path, version: file.version });
        }
        model.updated = file.last_updated;
        let parts = [("CPU", &mut model.cpu, file.cpu), ("memory", &mut model.memory, file.memory)];
        for (resource, histogram, part) in parts {
            histogram.restore(&part.into_checkpoint()).map_err(|source| FileError::Histogram {
                path: path.clone(),
                resource,
                source,
            })?;
        }
        Ok(())
    }

    /// Writes a model in place of what was there.
    pub(super) fn write(&self, name: &str, model: &Model) -> Result<(), FileError> {
        let file = ModelFile {
            version: VERSION,
            uid: name.to_owned(),
            cpu: HistogramFile::of(&model.cpu),
            memory: HistogramFile::of(&model.memory),
            last_updated: model.updated,
        };
        let path = self.path.join(name);
        let text = serde_json::to_vec(&file)
            .map_err(|source| FileError::Parse { path: path.clone(), source })?;
        durable::replace(&path, &text).map_err(|source| FileError::Write { path, source })
    }

    /// Removes a file; one that is not there is fine, and so is one that stays.
    pub(super) fn remove(&self, name: &str) {
        if let Err(error) = fs::remove_file(self.path.join(name))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, model = name, "cannot remove a prediction checkpoint");
        }
    }
}
