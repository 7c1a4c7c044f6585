//! This machine as a fake host.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use anyhow::{Context, Result};
use host::{
    fs::{Mounts, RealFs},
    probe::Live,
    record,
};

pub(crate) fn run(output: Option<&Path>) -> Result<()> {
    let text = record::record(&RealFs::new(Mounts::host()), &Live::ask());
    match output {
        Some(file) => {
            fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
        }
        None => Ok(io::stdout().lock().write_all(text.as_bytes())?),
    }
}
