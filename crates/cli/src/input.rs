//! Reading what the user named: files and standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail};

/// Larger than any object an API server would take.
const MAX_BYTES: u64 = 16 << 20;

/// A text and what to call it in messages.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Text {
    /// Reads a file, or standard input for `-`.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            let text = read_all(io::stdin().lock()).context("cannot read standard input")?;
            return Ok(Self { name: "standard input".to_owned(), text });
        }
        let name = path.display().to_string();
        let text = File::open(path)
            .map_err(anyhow::Error::from)
            .and_then(read_all)
            .with_context(|| format!("cannot read {name}"))?;
        Ok(Self { name, text })
    }
}

fn read_all(reader: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    reader.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        bail!("larger than {} MiB", MAX_BYTES >> 20);
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("not UTF-8 text: bad byte at offset {at}")
    })
}
