//! Labels and annotations as typed values.
//!
//! A [`Key`] is the name of a label or annotation together with the type of
//! its value; all of them are listed in [`crate::protocol`]. Reading never
//! fails: it gives the value if there is a usable one, and findings that say
//! what is wrong with the text. Absent is no finding. Which default stands in
//! for an unusable value is said at the key.
//!
//! Writing gives the reference's text: fields in its order, empty ones left
//! out, quantities and durations canonical.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use units::{GoDuration, Percent, Quantity, Ratio};

use crate::finding::{Code, Finding};
pub use crate::kind::shape::ResourceList;

pub mod device;
pub mod eviction;
pub mod gang;
pub mod node;
pub mod pod;
pub mod quota;
mod record;
pub mod reservation;
pub mod topology;
mod word;

pub(crate) use record::records;
pub(crate) use word::words;

/// Where a key stands in an object's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Label,
    Annotation,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Label => "label",
            Self::Annotation => "annotation",
        })
    }
}

/// A value that travels as the text of a label or annotation.
pub trait Wire: Sized {
    /// The value, unless a finding says why there is none. Warnings may stand
    /// beside a value.
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>);
    fn print(&self) -> String;
}

/// The name of a label or annotation and the type of its value.
pub struct Key<T> {
    pub name: &'static str,
    pub place: Place,
    value: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    pub(crate) const fn label(name: &'static str) -> Self {
        Self { name, place: Place::Label, value: PhantomData }
    }

    pub(crate) const fn annotation(name: &'static str) -> Self {
        Self { name, place: Place::Annotation, value: PhantomData }
    }

    /// The text as it stands.
    pub fn raw<'a>(&self, meta: &'a ObjectMeta) -> Option<&'a str> {
        let map = match self.place {
            Place::Label => meta.labels.as_ref(),
            Place::Annotation => meta.annotations.as_ref(),
        };
        map?.get(self.name).map(String::as_str)
    }

    pub fn is_present(&self, meta: &ObjectMeta) -> bool {
        self.raw(meta).is_some()
    }

    /// Takes the key away and says whether it was there.
    pub fn remove(&self, meta: &mut ObjectMeta) -> bool {
        let map = match self.place {
            Place::Label => meta.labels.as_mut(),
            Place::Annotation => meta.annotations.as_mut(),
        };
        map.is_some_and(|map| map.remove(self.name).is_some())
    }

    /// Names this key in findings about its value.
    pub(crate) fn name_in(&self, findings: Vec<Finding>) -> Vec<Finding> {
        let named = |finding| Finding { key: Some(self.name.to_owned()), ..finding };
        findings.into_iter().map(named).collect()
    }
}

impl<T: Wire> Key<T> {
    /// The value and what is wrong with it; the caller names the object.
    pub fn read(&self, meta: &ObjectMeta) -> (Option<T>, Vec<Finding>) {
        self.read_text(self.raw(meta))
    }

    /// As [`Key::read`], from the one map that holds keys of this place.
    pub fn read_map(&self, map: &BTreeMap<String, String>) -> (Option<T>, Vec<Finding>) {
        self.read_text(map.get(self.name).map(String::as_str))
    }

    /// The value alone, for whoever does not report.
    pub fn get(&self, meta: &ObjectMeta) -> Option<T> {
        self.read(meta).0
    }

    pub fn set(&self, meta: &mut ObjectMeta, value: &T) {
        let map = match self.place {
            Place::Label => &mut meta.labels,
            Place::Annotation => &mut meta.annotations,
        };
        map.get_or_insert_default().insert(self.name.to_owned(), value.print());
    }

    fn read_text(&self, text: Option<&str>) -> (Option<T>, Vec<Finding>) {
        let Some(text) = text else { return (None, Vec::new()) };
        let (value, findings) = T::parse(text);
        (value, self.name_in(findings))
    }
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place, self.name)
    }
}

/// Gives types that travel as JSON their text form.
macro_rules! json_wire {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::metadata::Wire for $type {
            fn parse(text: &str) -> (Option<Self>, Vec<$crate::finding::Finding>) {
                static SHAPE: std::sync::OnceLock<$crate::shape::Shape> =
                    std::sync::OnceLock::new();
                SHAPE.get_or_init($crate::shape::Shape::of::<Self>).read(text)
            }

            fn print(&self) -> String {
                $crate::metadata::print_json(self)
            }
        }
    )*};
}
pub(crate) use json_wire;

json_wire!(Vec<String>, BTreeMap<String, i64>, ResourceList);

pub(crate) fn print_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("all keys are strings and no field refuses to serialise")
}

/// The value, or else a finding that says what was expected.
pub(crate) fn parse_or<T>(
    text: &str,
    value: Option<T>,
    expected: &str,
    example: &str,
) -> (Option<T>, Vec<Finding>) {
    let finding = value.is_none().then(|| {
        let fix = format!("use for example {example:?}, or remove it");
        let rule = format!("must be {expected}");
        Finding::error(Code::BadText, rule, fix).value(format!("{text:?}"))
    });
    (value, finding.into_iter().collect())
}

impl Wire for String {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        (Some(text.to_owned()), Vec::new())
    }

    fn print(&self) -> String {
        self.clone()
    }
}

/// `"true"` and `"false"` to the letter. Every other text counts as neither.
impl Wire for bool {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        match text {
            "true" => (Some(true), Vec::new()),
            "false" => (Some(false), Vec::new()),
            _ => {
                let rule = "only \"true\" and \"false\" count, to the letter; ignored";
                let fix = "write \"true\" or \"false\", in quotes in YAML";
                (None, vec![Finding::warning(Code::BadText, rule, fix).value(format!("{text:?}"))])
            }
        }
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

/// A boolean in any of the forms Go reads: `1`, `t`, `T`, `TRUE`, `true`, `True` and their opposites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch(pub bool);

pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

impl Wire for Switch {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        parse_or(text, parse_bool(text).map(Self), "true or false", "true")
    }

    fn print(&self) -> String {
        self.0.to_string()
    }
}

/// Gives types whose text is the one they parse and print its finding.
macro_rules! plain_wire {
    ($($type:ty: $expected:literal, $example:literal;)*) => {$(
        impl Wire for $type {
            fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
                parse_or(text, text.parse().ok(), $expected, $example)
            }

            fn print(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
plain_wire! {
    i32: "a whole number that fits into 32 bits", "10";
    i64: "a whole number that fits into 64 bits", "10";
    Quantity: "a quantity such as 500m, 2 or 10Gi", "10M";
    GoDuration: "a duration: numbers with units ns, us, ms, s, m, h", "10m";
    Ratio: "a decimal number of at least 0", "1.20";
    Timestamp: "a time in RFC 3339", "2025-05-25T03:36:38.5Z";
}

impl Wire for f64 {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        let value = text.parse().ok().filter(|value: &f64| value.is_finite());
        parse_or(text, value, "a number", "10")
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

/// A share written as a ratio: `0.6` is 60 %.
impl Wire for Percent {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        parse_or(
            text,
            Self::from_ratio_label(text).ok(),
            "a decimal number of at least 0, where 1 is the whole",
            "0.6",
        )
    }

    /// Two decimals, or three where two would read back as one percent less:
    /// readers truncate in binary, so 29 % is written `0.295`.
    fn print(&self) -> String {
        let text = format!("{}.{:02}", self.0 / 100, (self.0 % 100).abs());
        if Self::from_ratio_label(&text).ok() == Some(*self) { text } else { text + "5" }
    }
}
