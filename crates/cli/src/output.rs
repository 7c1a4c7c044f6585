//! Printing results: text for people, JSON and YAML for programs.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

/// How a result is printed for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// Writes to standard output. A reader that went away is an error that
/// [`is_closed_pipe`] recognises, so that `tidepool ... | head` ends quietly.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

pub(crate) fn print_as(format: Format, value: &impl Serialize) -> anyhow::Result<()> {
    match format {
        Format::Json => print(&(serde_json::to_string_pretty(value)? + "\n")),
        Format::Yaml => print(&serde_saphyr::to_string(value)?),
    }
}

pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

/// Columns padded to their widest cell; the last one is left ragged.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.to_vec()).collect();
    lines(&header.map(str::to_owned), &rows)
}

/// As [`table`], for columns that are not known beforehand.
pub(crate) fn lines(header: &[String], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    line(header) + &rows.iter().map(|row| line(row)).collect::<String>()
}
