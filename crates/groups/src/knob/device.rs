//! Settings that are made for each block device.
//!
//! v1 has a file for each rate with lines `8:0 1048576`, where 0 is no limit; v2 one file with lines
//! `8:0 rbps=1048576 wbps=max riops=max wiops=max`. Weights and cost parameters look the same on both.

use std::collections::BTreeMap;

use crate::{DeviceNumber, Limit, ParseError, Version, scan};

pub(super) fn encode_rates(
    version: Version,
    word: &str,
    rates: &BTreeMap<DeviceNumber, Limit<u64>>,
) -> Vec<String> {
    let line = |(device, rate): (&DeviceNumber, &Limit<u64>)| match (version, rate) {
        (Version::V1, Limit::Max) => format!("{device} 0"),
        (Version::V1, Limit::At(rate)) => format!("{device} {rate}"),
        // Nothing a second is no rate the kernel takes; v1 reads it as no limit, and so do we.
        (Version::V2, Limit::Max | Limit::At(0)) => format!("{device} {word}=max"),
        (Version::V2, Limit::At(rate)) => format!("{device} {word}={rate}"),
    };
    rates.iter().map(line).collect()
}

pub(super) fn decode_rates(
    version: Version,
    word: &str,
    text: &[u8],
) -> Result<BTreeMap<DeviceNumber, Limit<u64>>, ParseError> {
    let mut rates = BTreeMap::new();
    for (at, device, rest) in devices(text) {
        let device = device?;
        let value = match version {
            Version::V1 => Some(rest),
            Version::V2 => scan::words(rest)
                .find_map(|pair| pair.strip_prefix(word.as_bytes())?.strip_prefix(b"=")),
        };
        let rate = match value {
            None | Some(b"max") => Limit::Max,
            Some(value) => match (scan::pair_number(at, value)?, version) {
                (0, Version::V1) => Limit::Max,
                (rate, _) => Limit::At(rate),
            },
        };
        rates.insert(device, rate);
    }
    Ok(rates)
}

pub(super) fn decode_weights(text: &[u8]) -> Result<BTreeMap<DeviceNumber, u64>, ParseError> {
    devices(text)
        .filter(|(_, device, rest)| device.is_ok() || !is_default(rest))
        .map(|(at, device, rest)| Ok((device?, scan::pair_number(at, rest)?)))
        .collect()
}

pub(super) fn decode_words(text: &[u8]) -> Result<BTreeMap<DeviceNumber, String>, ParseError> {
    devices(text)
        .map(|(_, device, rest)| Ok((device?, String::from_utf8_lossy(rest).into_owned())))
        .collect()
}

/// `default 100` is the weight of all other devices.
fn is_default(rest: &[u8]) -> bool {
    rest == b"default"
}

type Line<'t> = (usize, Result<DeviceNumber, ParseError>, &'t [u8]);

/// The device and the rest of each line. Where there is no device the rest is the first word.
fn devices(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    scan::lines(text).filter_map(|(at, line)| {
        let line = line.trim_ascii();
        let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
        let (first, rest) = line.split_at_checked(end)?;
        if first.is_empty() {
            return None;
        }
        Some(match DeviceNumber::parse(first) {
            Some(device) => (at, Ok(device), rest.trim_ascii()),
            None => (at, Err(ParseError::new(at, "<major>:<minor>", first)), first),
        })
    })
}
