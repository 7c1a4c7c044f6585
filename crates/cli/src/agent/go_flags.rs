//! Flags as Go programs take them.
//!
//! One or two dashes, `-name=value` or `-name value`; a boolean needs no value and takes one only
//! after `=`. A flag that nobody knows is reported and skipped, together with the word after it if
//! that looks like its value: charts of several versions are in use, and a daemon that does not
//! start is worse than one that ignores a flag.

use std::collections::BTreeMap;
use std::fmt;

use units::{GoDuration, Quantity};

/// What a flag's value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Float,
    Duration,
    /// Bytes, plain or with a suffix.
    Size,
    Text,
    /// `k=v,k=v`.
    Map,
}

/// A flag by name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// What was typed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    values: BTreeMap<&'static str, String>,
    /// Flags and words that mean nothing here.
    pub(super) unknown: Vec<String>,
}

/// A value that its flag does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlagError {
    #[error("-{name}: {value:?} is not {expected}")]
    Value { name: &'static str, value: String, expected: Kind },
    #[error("-{name}: a value is missing; write -{name}=VALUE")]
    Missing { name: &'static str },
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "true or false",
            Self::Int => "a whole number",
            Self::Float => "a number",
            Self::Duration => "a duration such as 10s or 1m30s",
            Self::Size => "a number of bytes such as 1048576 or 1Mi",
            Self::Text => "text",
            Self::Map => "a list such as a=true,b=false",
        })
    }
}

impl Kind {
    fn takes(self, value: &str) -> bool {
        match self {
            Self::Bool => parse_bool(value).is_some(),
            Self::Int => value.parse::<i64>().is_ok(),
            Self::Float => value.parse::<f64>().is_ok_and(f64::is_finite),
            Self::Duration => value.parse::<GoDuration>().is_ok(),
            Self::Size => value.parse::<Quantity>().is_ok(),
            Self::Text => true,
            Self::Map => {
                value.split(',').all(|entry| entry.trim().is_empty() || entry.contains('='))
            }
        }
    }
}

fn parse_bool(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Reads the words after the program's name.
pub(super) fn parse(
    words: impl IntoIterator<Item = String>,
    flags: &[Flag],
) -> Result<Given, FlagError> {
    let mut given = Given::default();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let dashes = word.len() - word.trim_start_matches('-').len();
        let body = word.get(dashes..).unwrap_or_default();
        if !(1..=2).contains(&dashes) || body.is_empty() {
            given.unknown.push(word);
            continue;
        }
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (body, None),
        };
        let Some(flag) = flags.iter().find(|flag| flag.name == name) else {
            given.unknown.push(format!("-{name}"));
            if value.is_none() {
                words.next_if(|next| !next.starts_with('-'));
            }
            continue;
        };
        let name = flag.name;
        let value = match value {
            Some(value) => value,
            None if flag.kind == Kind::Bool => "true".to_owned(),
            None => words.next().ok_or(FlagError::Missing { name })?,
        };
        if !flag.kind.takes(&value) {
            return Err(FlagError::Value { name, value, expected: flag.kind });
        }
        given.values.insert(name, value);
    }
    Ok(given)
}

/// Values as their types. They were checked when they were read, so a flag that is not there, or
/// not of this kind, is the only reason for `None`.
impl Given {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub(super) fn bool(&self, name: &str) -> Option<bool> {
        self.text(name).and_then(parse_bool)
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    pub(super) fn duration(&self, name: &str) -> Option<GoDuration> {
        self.text(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[Flag] = &[
        Flag { name: "addr", kind: Kind::Text },
        Flag { name: "pprof", kind: Kind::Bool },
        Flag { name: "wait", kind: Kind::Duration },
        Flag { name: "count", kind: Kind::Int },
        Flag { name: "bytes", kind: Kind::Size },
        Flag { name: "plugins", kind: Kind::Map },
    ];

    fn read(words: &str) -> Result<Given, FlagError> {
        parse(words.split_whitespace().map(str::to_owned), FLAGS)
    }

    #[test]
    fn every_way_of_writing_a_flag_is_read() {
        let cases = [
            ("one dash", "-addr=:1", "addr", ":1"),
            ("two dashes", "--addr=:1", "addr", ":1"),
            ("apart", "-addr :1", "addr", ":1"),
            ("two dashes, apart", "--count 7", "count", "7"),
            ("a negative value", "-count -7", "count", "-7"),
            ("a boolean alone", "-pprof", "pprof", "true"),
            ("a boolean before a flag", "-pprof -count=1", "pprof", "true"),
            ("a boolean off", "--pprof=false", "pprof", "false"),
            ("the last one counts", "-count=1 -count=2", "count", "2"),
            ("a value with an equals sign", "-plugins=a=true,b=false", "plugins", "a=true,b=false"),
            ("nothing", "-addr=", "addr", ""),
            ("Go's duration", "-wait=1m30s", "wait", "1m30s"),
            ("a suffix", "-bytes=100Mi", "bytes", "100Mi"),
        ];
        for (name, words, flag, want) in cases {
            let given = read(words).unwrap();
            assert_eq!(given.text(flag), Some(want), "{name}");
            assert_eq!(given.unknown, [""; 0], "{name}");
        }
    }

    #[test]
    fn a_boolean_does_not_take_the_next_word() {
        let given = read("-pprof false -count=1").unwrap();
        assert_eq!(given.bool("pprof"), Some(true));
        assert_eq!(given.unknown, ["false"]);
        assert_eq!(given.int("count"), Some(1));
    }

    #[test]
    fn unknown_flags_are_named_and_skipped_with_their_values() {
        let given = read("--new-flag=1 -newer 2 -newest -count=3 word -- --- -").unwrap();
        assert_eq!(given.unknown, ["-new-flag", "-newer", "-newest", "word", "--", "---", "-"]);
        assert_eq!(given.int("count"), Some(3));
    }

    #[test]
    fn bad_values_say_what_is_expected() {
        let cases = [
            ("-count=many", "-count: \"many\" is not a whole number"),
            ("-wait=10", "-wait: \"10\" is not a duration such as 10s or 1m30s"),
            ("-pprof=maybe", "-pprof: \"maybe\" is not true or false"),
            ("-bytes=big", "-bytes: \"big\" is not a number of bytes such as 1048576 or 1Mi"),
            ("-plugins=a", "-plugins: \"a\" is not a list such as a=true,b=false"),
            ("-count", "-count: a value is missing; write -count=VALUE"),
        ];
        for (words, want) in cases {
            assert_eq!(read(words).unwrap_err().to_string(), want);
        }
    }
}
