//! Command lines as Go programs read them.
//!
//! Manifests written for koordlet or koord-manager pass their flags to us when
//! the binary is called by such a name. Both of Go's dialects are understood:
//!
//! | written | meaning |
//! |---|---|
//! | `-name=value`, `--name=value` | the value, also for booleans |
//! | `-name value`, `--name value` | the value; not for booleans |
//! | `-name`, `--name` | true, for booleans only |
//! | `--` | the end of the flags |
//!
//! A flag given twice counts as given last, except lists, which grow. What is
//! given is checked against the kind in the table, so reading it cannot fail.
//!
//! A flag that nobody knows stops a program, or is reported and skipped, together
//! with the word after it if that looks like its value: charts of several
//! versions of the node agent are in use, and a daemon that does not start is
//! worse than one that ignores a flag.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use units::{GoDuration, Quantity};

/// What a flag holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int,
    Float,
    Duration,
    /// Bytes, plain or with a suffix.
    Size,
    Text,
    /// Texts joined by commas; every further use adds to them.
    List,
    /// `k=v,k=v`.
    Map,
}

impl Kind {
    /// What a value of this kind looks like.
    const fn example(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Int => "a whole number",
            Self::Float => "a number",
            Self::Duration => "a duration such as 10s or 1m30s",
            Self::Size => "a number of bytes such as 1048576 or 1Mi",
            Self::Text => "text",
            Self::List => "words such as a,b",
            Self::Map => "a list such as a=true,b=false",
        }
    }
}

/// One flag of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// As one would write it on the command line.
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
}

impl Flag {
    pub(crate) const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, kind, default, help }
    }
}

/// Flags of Go's logging library, which every program of the reference takes.
pub(crate) const LOGGING: &[Flag] = &[
    Flag::new("v", Kind::Int, "0", "how much to log: 0-4 info, 5-7 debug, 8 and more trace"),
    Flag::new("vmodule", Kind::Text, "", "accepted, no effect"),
    Flag::new("logtostderr", Kind::Bool, "true", "accepted; logs go to standard error"),
    Flag::new("alsologtostderr", Kind::Bool, "false", "accepted; logs go to standard error"),
    Flag::new("stderrthreshold", Kind::Text, "2", "accepted, no effect"),
    Flag::new("log_backtrace_at", Kind::Text, "", "accepted, no effect"),
    Flag::new("log_dir", Kind::Text, "", "accepted, no effect"),
    Flag::new("log_file", Kind::Text, "", "accepted, no effect"),
    Flag::new("log_file_max_size", Kind::Int, "1800", "accepted, no effect"),
    Flag::new("skip_headers", Kind::Bool, "false", "accepted, no effect"),
    Flag::new("skip_log_headers", Kind::Bool, "false", "accepted, no effect"),
    Flag::new("add_dir_header", Kind::Bool, "false", "accepted, no effect"),
    Flag::new("one_output", Kind::Bool, "false", "accepted, no effect"),
];

/// Flags of the Kubernetes client library.
pub(crate) const CLIENT: &[Flag] =
    &[Flag::new("kubeconfig", Kind::Text, "", "kubeconfig file; without one the usual places")];

/// A value of the kind its flag has.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Bool(bool),
    Int(i64),
    Float(f64),
    Duration(GoDuration),
    Text(String),
    List(Vec<String>),
}

/// What was given, and defaults for the rest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    values: BTreeMap<&'static str, Value>,
    given: BTreeSet<&'static str>,
    /// Flags and words that mean nothing here and were skipped.
    pub(crate) unknown: Vec<String>,
}

/// What becomes of a flag that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    Refused,
    Skipped,
}

/// What a command line asks for.
#[derive(Debug)]
pub(crate) enum Parsed {
    Run(Flags),
    /// The text to print.
    Help(String),
}

/// Why a command line cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FlagError {
    #[error("unknown flag {name:?}{}", nearest.map_or(String::new(), |n| format!("; did you mean --{n}?")))]
    Unknown { name: String, nearest: Option<&'static str> },
    #[error("flag --{name} needs a value")]
    NoValue { name: &'static str },
    #[error("flag --{name}: {value:?} is not {expected}")]
    BadValue { name: &'static str, value: String, expected: &'static str },
    #[error("{0:?} is no flag; this program takes flags only")]
    Positional(String),
    #[error("{0:?} is not a flag: a name must follow the dashes")]
    NoName(String),
}

impl Flags {
    /// Reads `arguments`, without the program's own name.
    pub(crate) fn parse(
        program: &str,
        tables: &[&[Flag]],
        unknown: Unknown,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Parsed, FlagError> {
        let mut flags = Self::defaults(tables);
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                flags.unknown.extend(arguments);
                break;
            }
            let (name, value) = match split(&argument) {
                Err(_) if unknown == Unknown::Skipped => {
                    flags.unknown.push(argument.clone());
                    continue;
                }
                split => split?,
            };
            let Some(flag) = find(tables, name) else {
                if ["h", "help"].contains(&name) {
                    return Ok(Parsed::Help(usage(program, tables)));
                }
                if unknown == Unknown::Refused {
                    return Err(FlagError::unknown(name, tables));
                }
                if value.is_none() {
                    arguments.next_if(|next| !next.starts_with('-'));
                }
                flags.unknown.push(format!("-{name}"));
                continue;
            };
            let text = match (value, flag.kind) {
                (Some(value), _) => value.to_owned(),
                (None, Kind::Bool) => "true".to_owned(),
                (None, _) => arguments.next().ok_or(FlagError::NoValue { name: flag.name })?,
            };
            flags.give(flag, read(flag, &text)?);
        }
        match flags.unknown.first() {
            Some(word) if unknown == Unknown::Refused => Err(FlagError::Positional(word.clone())),
            _ => Ok(Parsed::Run(flags)),
        }
    }

    fn give(&mut self, flag: &Flag, value: Value) {
        let is_first = self.given.insert(flag.name);
        match (self.values.get_mut(flag.name), value) {
            (Some(Value::List(list)), Value::List(more)) if !is_first => list.extend(more),
            (_, value) => {
                self.values.insert(flag.name, value);
            }
        }
    }

    /// What holds when nothing is given. A default that its own kind cannot read is left out.
    fn defaults(tables: &[&[Flag]]) -> Self {
        let flags = tables.iter().copied().flatten();
        let values = flags.filter_map(|flag| Some((flag.name, read(flag, flag.default).ok()?)));
        Self { values: values.collect(), ..Self::default() }
    }

    /// Only what was given, for programs that have their defaults elsewhere.
    pub(crate) fn given(&self) -> Given<'_> {
        Given(self)
    }

    pub(crate) fn bool(&self, name: &str) -> bool {
        matches!(self.values.get(name), Some(Value::Bool(true)))
    }

    pub(crate) fn int(&self, name: &str) -> i64 {
        match self.values.get(name) {
            Some(Value::Int(value)) => *value,
            _ => 0,
        }
    }

    pub(crate) fn float(&self, name: &str) -> f64 {
        match self.values.get(name) {
            Some(Value::Float(value)) => *value,
            _ => 0.0,
        }
    }

    pub(crate) fn duration(&self, name: &str) -> Duration {
        match self.values.get(name) {
            Some(Value::Duration(value)) => value.to_std().unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        match self.values.get(name) {
            Some(Value::Text(value)) => value,
            _ => "",
        }
    }

    pub(crate) fn list(&self, name: &str) -> &[String] {
        match self.values.get(name) {
            Some(Value::List(value)) => value,
            _ => &[],
        }
    }

    /// The word for our own log filter that `--v` stands for.
    pub(crate) fn log_level(&self) -> &'static str {
        match self.int("v") {
            ..=4 => "info",
            5..=7 => "debug",
            8.. => "trace",
        }
    }
}

impl FlagError {
    fn unknown(name: &str, tables: &[&[Flag]]) -> Self {
        let known = tables.iter().flat_map(|table| table.iter().map(|flag| flag.name));
        Self::Unknown { name: name.to_owned(), nearest: api::shape::nearest(name, known) }
    }
}

/// What was given; `None` for the rest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given<'a>(&'a Flags);

impl<'a> Given<'a> {
    fn value(self, name: &str) -> Option<&'a Value> {
        self.0.values.get(name).filter(|_| self.0.given.contains(name))
    }

    pub(crate) fn text(self, name: &str) -> Option<&'a str> {
        self.value(name).map(|_| self.0.text(name))
    }

    pub(crate) fn bool(self, name: &str) -> Option<bool> {
        self.value(name).map(|_| self.0.bool(name))
    }

    pub(crate) fn int(self, name: &str) -> Option<i64> {
        self.value(name).map(|_| self.0.int(name))
    }

    pub(crate) fn duration(self, name: &str) -> Option<GoDuration> {
        match self.value(name) {
            Some(Value::Duration(value)) => Some(*value),
            _ => None,
        }
    }

    /// Flags and words that mean nothing here and were skipped.
    pub(crate) fn unknown(self) -> &'a [String] {
        &self.0.unknown
    }
}

fn find<'a>(tables: &[&'a [Flag]], name: &str) -> Option<&'a Flag> {
    tables.iter().copied().flatten().find(|flag| flag.name == name)
}

/// The name, and the value behind an equals sign.
fn split(argument: &str) -> Result<(&str, Option<&str>), FlagError> {
    let name = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
    let Some(name) = name.filter(|_| argument != "-") else {
        return Err(FlagError::Positional(argument.to_owned()));
    };
    if name.is_empty() || name.starts_with(['-', '=']) {
        return Err(FlagError::NoName(argument.to_owned()));
    }
    Ok(match name.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (name, None),
    })
}

fn read(flag: &Flag, text: &str) -> Result<Value, FlagError> {
    let refused =
        |expected| FlagError::BadValue { name: flag.name, value: text.to_owned(), expected };
    let bad = || refused(flag.kind.example());
    Ok(match flag.kind {
        Kind::Bool => Value::Bool(match text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
            "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
            _ => return Err(bad()),
        }),
        Kind::Int => Value::Int(text.parse().map_err(|_| bad())?),
        Kind::Float => {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            Value::Float(number.ok_or_else(bad)?)
        }
        Kind::Duration => {
            let duration = text.parse::<GoDuration>().map_err(|_| bad())?;
            duration.to_std().ok_or_else(|| refused("zero or more"))?;
            Value::Duration(duration)
        }
        Kind::Size => {
            text.parse::<Quantity>().map_err(|_| bad())?;
            Value::Text(text.to_owned())
        }
        Kind::Map => {
            let is_entry = |entry: &str| entry.trim().is_empty() || entry.contains('=');
            if !text.split(',').all(is_entry) {
                return Err(bad());
            }
            Value::Text(text.to_owned())
        }
        Kind::Text => Value::Text(text.to_owned()),
        Kind::List => {
            let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
            Value::List(entries.map(str::to_owned).collect())
        }
    })
}

fn usage(program: &str, tables: &[&[Flag]]) -> String {
    let mut text = format!("Usage of {program}:\n");
    for flag in tables.iter().copied().flatten() {
        let default = match flag.default {
            "" => String::new(),
            default => format!(" (default {default})"),
        };
        let help = if flag.help.is_empty() { flag.kind.example() } else { flag.help };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  --{}\n        {help}{default}", flag.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Flag] = &[
        Flag::new("addr", Kind::Text, ":9316", "where to listen"),
        Flag::new("enable", Kind::Bool, "true", "on or off"),
        Flag::new("interval", Kind::Duration, "30s", "how often"),
        Flag::new("qps", Kind::Int, "10", "how many"),
        Flag::new("factor", Kind::Float, "2", "how much"),
        Flag::new("controllers", Kind::List, "*", "which"),
        Flag::new("bytes", Kind::Size, "0", ""),
        Flag::new("plugins", Kind::Map, "", ""),
    ];

    fn parse(line: &str) -> Result<Parsed, FlagError> {
        let words = line.split_whitespace().map(str::to_owned);
        Flags::parse("prog", &[TABLE, LOGGING], Unknown::Refused, words)
    }

    fn lenient(line: &str) -> Flags {
        let words = line.split_whitespace().map(str::to_owned);
        match Flags::parse("prog", &[TABLE], Unknown::Skipped, words) {
            Ok(Parsed::Run(flags)) => flags,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn run(line: &str) -> Flags {
        match parse(line) {
            Ok(Parsed::Run(flags)) => flags,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn both_dialects_are_understood() {
        type Row = (&'static str, &'static str, fn(&Flags) -> bool);
        let cases: &[Row] = &[
            ("defaults", "", |f| f.text("addr") == ":9316" && f.bool("enable") && f.int("v") == 0),
            ("one dash", "-addr=:1", |f| f.text("addr") == ":1"),
            ("two dashes", "--addr=:1", |f| f.text("addr") == ":1"),
            ("value in the next word", "-addr :1 --qps 5", |f| {
                f.text("addr") == ":1" && f.int("qps") == 5
            }),
            ("a bare boolean", "--enable=false -enable", |f| f.bool("enable")),
            ("Go's booleans", "-enable=F", |f| !f.bool("enable")),
            ("durations", "--interval=1m30s", |f| {
                f.duration("interval") == Duration::from_secs(90)
            }),
            ("the last one counts", "--qps=1 --qps=2", |f| f.int("qps") == 2),
            ("lists replace the default", "--controllers=a,b", |f| {
                f.list("controllers") == ["a", "b"]
            }),
            ("lists grow", "--controllers=a --controllers=-b", |f| {
                f.list("controllers") == ["a", "-b"]
            }),
            ("floats", "--factor=1.5", |f| (f.float("factor") - 1.5).abs() < 1e-9),
            ("an equals sign in the value", "--addr=a=b", |f| f.text("addr") == "a=b"),
            ("an empty value", "--addr=", |f| f.text("addr").is_empty()),
            ("the end of flags", "--qps=3 --", |f| f.int("qps") == 3),
            ("log flags", "--logtostderr=true -v=4", |f| f.log_level() == "info"),
            ("more logs", "--v 6", |f| f.log_level() == "debug"),
        ];
        for (name, line, holds) in cases {
            assert!(holds(&run(line)), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_named() {
        let cases = [
            ("--adr=x", "unknown flag \"adr\"; did you mean --addr?"),
            ("--zzzzzzzz", "unknown flag \"zzzzzzzz\""),
            ("--addr", "flag --addr needs a value"),
            ("--qps=ten", "flag --qps: \"ten\" is not a whole number"),
            ("--enable=maybe", "flag --enable: \"maybe\" is not true or false"),
            ("--interval=30", "flag --interval: \"30\" is not a duration such as 10s or 1m30s"),
            ("--interval=-1s", "flag --interval: \"-1s\" is not zero or more"),
            ("--factor=NaN", "flag --factor: \"NaN\" is not a number"),
            (
                "--bytes=big",
                "flag --bytes: \"big\" is not a number of bytes such as 1048576 or 1Mi",
            ),
            ("--plugins=a", "flag --plugins: \"a\" is not a list such as a=true,b=false"),
            ("--enable false", "\"false\" is no flag; this program takes flags only"),
            ("---addr=x", "\"---addr=x\" is not a flag: a name must follow the dashes"),
            ("-", "\"-\" is no flag; this program takes flags only"),
            ("-- x", "\"x\" is no flag; this program takes flags only"),
        ];
        for (line, want) in cases {
            match parse(line) {
                Err(error) => assert_eq!(error.to_string(), want, "{line}"),
                Ok(parsed) => panic!("{line}: {parsed:?}"),
            }
        }
    }

    #[test]
    fn what_nobody_knows_may_be_skipped_with_its_value() {
        let flags = lenient("--new-flag=1 -newer 2 -newest -qps=3 word --- - -- -qps=4");
        let want = ["-new-flag", "-newer", "-newest", "word", "---", "-", "-qps=4"];
        assert_eq!(flags.unknown, want);
        assert_eq!(flags.int("qps"), 3);
        let given = lenient("-enable false -bytes=100Mi -plugins=a=true,b=false");
        assert_eq!(given.unknown, ["false"], "a boolean does not take the next word");
        assert_eq!(given.given().bool("enable"), Some(true));
        assert_eq!(given.given().text("bytes"), Some("100Mi"));
        assert_eq!(given.given().text("plugins"), Some("a=true,b=false"));
        assert_eq!(given.given().int("qps"), None, "only what was typed");
        assert_eq!(given.given().duration("interval"), None);
    }

    #[test]
    fn help_lists_every_flag() {
        let Ok(Parsed::Help(text)) = parse("--help") else { panic!("help") };
        assert!(text.starts_with("Usage of prog:\n"));
        for flag in TABLE.iter().chain(LOGGING) {
            assert!(text.contains(&format!("--{}\n", flag.name)), "{}", flag.name);
        }
    }

    #[test]
    fn every_default_reads_as_its_kind() {
        for flag in TABLE.iter().chain(LOGGING).chain(CLIENT) {
            assert!(read(flag, flag.default).is_ok(), "{}", flag.name);
        }
    }
}
