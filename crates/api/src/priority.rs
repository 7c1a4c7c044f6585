//! Which priority class does a pod have, and which QoS class goes with it?
//!
//! | class | range | PriorityClass object | default |
//! |---|---|---|---|
//! | koord-prod | 9000-9999 | 9000 | 9500 |
//! | koord-mid | 7000-7999 | 7000 | 7500 |
//! | koord-batch | 5000-5999 | 5000 | 5500 |
//! | koord-free | 3000-3999 | 3000 | 3500 |
//!
//! The *raw* class is the label's or else that of the numeric priority; it may
//! be none. The *effective* class then follows from the effective QoS class.
//! `spec.priorityClassName` is never asked.

use std::ops::RangeInclusive;

use k8s_openapi::api::core::v1::Pod;

use crate::finding::{Code, Finding};
use crate::metadata::{Wire, parse_or, words};
use crate::protocol::pod::{PRIORITY_CLASS, QOS_CLASS, SUB_PRIORITY};
use crate::qos::{self, QosClass};

words! {
    PriorityClass {
        Prod = "koord-prod",
        Mid = "koord-mid",
        Batch = "koord-batch",
        Free = "koord-free",
    }
}

impl PriorityClass {
    /// The value of the PriorityClass object, and the lowest of the range.
    pub fn object_value(self) -> i32 {
        match self {
            Self::Prod => 9000,
            Self::Mid => 7000,
            Self::Batch => 5000,
            Self::Free => 3000,
        }
    }

    pub fn range(self) -> RangeInclusive<i32> {
        self.object_value()..=self.object_value() + 999
    }

    /// The priority of a pod of this class that has none.
    pub fn default_value(self) -> i32 {
        self.object_value() + 500
    }

    /// The class whose range holds `value`; there are gaps.
    pub fn of_value(value: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|class| class.range().contains(&value))
    }
}

/// The class of pods that have no other.
impl From<QosClass> for PriorityClass {
    fn from(qos: QosClass) -> Self {
        match qos {
            QosClass::Be => Self::Batch,
            QosClass::Lse | QosClass::Lsr | QosClass::Ls | QosClass::System => Self::Prod,
        }
    }
}

/// The label's class, or without a label the class of the numeric priority.
/// An unknown label is no class and hides the number.
pub fn raw(pod: &Pod) -> Option<PriorityClass> {
    if PRIORITY_CLASS.is_present(&pod.metadata) {
        return PRIORITY_CLASS.get(&pod.metadata);
    }
    numeric(pod).and_then(PriorityClass::of_value)
}

/// The raw class, or else the one that follows from the effective QoS class.
pub fn effective(pod: &Pod) -> PriorityClass {
    raw(pod).unwrap_or_else(|| qos::effective(pod).into())
}

/// The numeric priority, even outside every range; unset or 0 gives the
/// effective class's default.
pub fn value(pod: &Pod) -> i32 {
    match numeric(pod) {
        None | Some(0) => effective(pod).default_value(),
        Some(value) => value,
    }
}

/// Order inside the class; unreadable counts as absent.
pub fn sub_priority(pod: &Pod) -> Option<SubPriority> {
    SUB_PRIORITY.get(&pod.metadata)
}

fn numeric(pod: &Pod) -> Option<i32> {
    pod.spec.as_ref().and_then(|spec| spec.priority)
}

/// Order inside a priority class. Read as Go reads integer literals: `0x10`,
/// `0b1`, `0o7`, `017` and `1_000` are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubPriority(pub i32);

impl Wire for SubPriority {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        let value = go_literal(text).and_then(|value| i32::try_from(value).ok());
        parse_or(text, value.map(Self), "a whole number that fits into 32 bits", "10")
    }

    fn print(&self) -> String {
        self.0.to_string()
    }
}

fn go_literal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = digits.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0b", 2), ("0o", 8), ("0", 8)];
    let prefixed = prefixes
        .into_iter()
        .find_map(|(prefix, radix)| Some((lower.strip_prefix(prefix)?, radix)))
        .filter(|(rest, _)| !rest.is_empty());
    let (rest, radix) = prefixed.unwrap_or((&lower, 10));
    // An underscore stands between digits, and a prefix counts as one.
    let is_spaced = !rest.contains("__")
        && !rest.ends_with('_')
        && (prefixed.is_some() || !rest.starts_with('_'));
    let plain = rest.replace('_', "");
    let is_plain = is_spaced && plain.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let value = is_plain.then(|| i64::from_str_radix(&plain, radix).ok()).flatten()?;
    Some(if text.starts_with('-') { -value } else { value })
}

/// What admission says to a pair of raw classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    AllowedWithWarning(Finding),
    Rejected(Finding),
}

/// May a pod have this QoS label and this raw priority class together?
pub fn check_combination(qos: Option<QosClass>, class: Option<PriorityClass>) -> Verdict {
    use PriorityClass::{Batch, Free, Mid, Prod};
    let finding = |severity: fn(Code, String, String) -> Finding, code, rule: &str, fix: &str| {
        let qos = qos.map_or("no QoS class".to_owned(), |qos| format!("QoS class {qos}"));
        let class = class.map_or("no Koordinator priority class".to_owned(), |class| {
            format!("priority class {class}")
        });
        let rule = format!("{qos} and {class}: {rule}");
        let finding = severity(code, rule, fix.to_owned());
        Finding { key: Some(QOS_CLASS.name.to_owned()), ..finding }
    };
    let rejected = |fix| {
        let rule = "combination forbidden";
        Verdict::Rejected(finding(Finding::error, Code::ForbiddenCombination, rule, fix))
    };
    let warned = |rule, fix| {
        let code = Code::PointlessCombination;
        Verdict::AllowedWithWarning(finding(Finding::warning, code, rule, fix))
    };
    match (qos, class) {
        (Some(QosClass::Lsr), Some(Mid | Batch | Free) | None) => {
            rejected("give the pod a priority from 9000 to 9999 (koord-prod), or another QoS class")
        }
        (Some(QosClass::Be), Some(Prod) | None) => rejected(
            "give the pod a priority of koord-batch, koord-mid or koord-free, or QoS class LS",
        ),
        (Some(QosClass::Lse), Some(Mid | Batch | Free)) => warned(
            "its CPUs will not be bound",
            "give the pod a priority from 9000 to 9999 (koord-prod)",
        ),
        (Some(QosClass::Ls | QosClass::System), Some(Batch | Free)) => warned(
            "it runs as an online pod at a batch priority",
            "use QoS class BE for batch work, or priority koord-prod",
        ),
        _ => Verdict::Allowed,
    }
}

/// The stricter table that `--strict-qos-priority-matrix` asks for, over [`check_combination`]'s:
/// LSE only with prod, LS only with prod or mid, SYSTEM only without a class of ours.
pub fn check_strict_combination(
    qos: Option<QosClass>,
    class: Option<PriorityClass>,
) -> Option<Finding> {
    use PriorityClass::{Mid, Prod};
    let (is_allowed, wants) = match qos? {
        QosClass::Lse => (class == Some(Prod), "koord-prod"),
        QosClass::Ls => (matches!(class, Some(Prod | Mid)), "koord-prod or koord-mid"),
        QosClass::System => (class.is_none(), "no Koordinator priority class"),
        QosClass::Lsr | QosClass::Be => return None,
    };
    if is_allowed {
        return None;
    }
    let (qos, class) = (qos?, class.map_or("none".to_owned(), |class| class.to_string()));
    let rule =
        format!("combination forbidden: QoS class {qos} wants {wants}, and the pod has {class}");
    let fix = format!("give the pod {wants}, or another QoS class");
    let finding = Finding::error(Code::ForbiddenCombination, rule, fix);
    Some(Finding { key: Some(QOS_CLASS.name.to_owned()), ..finding })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pod(labels: &[(&str, &str)], priority: Option<i32>) -> Pod {
        let labels: std::collections::BTreeMap<_, _> = labels.iter().copied().collect();
        serde_json::from_value(json!({
            "metadata": {"name": "web", "labels": labels},
            "spec": {"containers": [], "priority": priority},
        }))
        .unwrap()
    }

    #[test]
    fn raw_effective_and_value_follow_label_then_number_then_qos() {
        use PriorityClass::{Batch, Free, Mid, Prod};
        const CLASS: &str = PRIORITY_CLASS.name;
        const QOS: &str = QOS_CLASS.name;
        type Row = (&'static str, Pod, Option<PriorityClass>, PriorityClass, i32);
        let cases: [Row; 14] = [
            ("prod range", pod(&[], Some(9000)), Some(Prod), Prod, 9000),
            ("end of a range", pod(&[], Some(7999)), Some(Mid), Mid, 7999),
            ("batch range", pod(&[], Some(5500)), Some(Batch), Batch, 5500),
            ("free range", pod(&[], Some(3999)), Some(Free), Free, 3999),
            ("gap falls to QoS", pod(&[(QOS, "LS")], Some(8000)), None, Prod, 8000),
            ("negative", pod(&[(QOS, "BE")], Some(-10)), None, Batch, -10),
            (
                "system critical",
                pod(&[(QOS, "SYSTEM")], Some(2_000_001_000)),
                None,
                Prod,
                2_000_001_000,
            ),
            ("unset", pod(&[(QOS, "LSE")], None), None, Prod, 9500),
            ("zero is unset", pod(&[(QOS, "BE")], Some(0)), None, Batch, 5500),
            ("label over number", pod(&[(CLASS, "koord-mid")], Some(9000)), Some(Mid), Mid, 9000),
            ("label without number", pod(&[(CLASS, "koord-free")], None), Some(Free), Free, 3500),
            (
                "unknown label hides the number",
                pod(&[(CLASS, "koord-x"), (QOS, "BE")], Some(9000)),
                None,
                Batch,
                9000,
            ),
            (
                "empty label hides the number",
                pod(&[(CLASS, ""), (QOS, "LS")], Some(5000)),
                None,
                Prod,
                5000,
            ),
            ("unlabelled without requests", pod(&[], None), None, Batch, 5500),
        ];
        for (name, pod, want_raw, want_effective, want_value) in cases {
            assert_eq!(raw(&pod), want_raw, "{name}");
            assert_eq!(effective(&pod), want_effective, "{name}");
            assert_eq!(value(&pod), want_value, "{name}");
        }
    }

    /// The table of section 4.5, cell by cell: `ok`, `warn` (admitted, with our warning) or `no`.
    #[test]
    fn combinations_are_those_of_the_table() {
        const TABLE: &str = "
            QoS    koord-prod koord-mid koord-batch koord-free none
            LSE    ok         warn      warn        warn       ok
            LSR    ok         no        no          no         no
            LS     ok         ok        warn        warn       ok
            BE     no         ok        ok          ok         no
            SYSTEM ok         ok        warn        warn       ok
            -      ok         ok        ok          ok         ok";
        let mut rows = TABLE.trim().lines().map(|line| line.split_whitespace());
        let classes: Vec<_> = rows.next().unwrap().skip(1).collect();
        let mut cells = 0;
        for mut row in rows {
            let qos = row.next().unwrap();
            for (class, want) in classes.iter().zip(row) {
                let verdict =
                    check_combination(QosClass::from_word(qos), PriorityClass::from_word(class));
                let got = match &verdict {
                    Verdict::Allowed => "ok",
                    Verdict::AllowedWithWarning(finding) => {
                        assert!(!finding.is_error());
                        "warn"
                    }
                    Verdict::Rejected(finding) => {
                        assert!(finding.is_error() && finding.rule.contains("forbidden"));
                        "no"
                    }
                };
                assert_eq!(got, want, "{qos} with {class}");
                cells += 1;
            }
        }
        assert_eq!(cells, 30);
    }

    #[test]
    fn the_strict_table_adds_to_the_plain_one() {
        const TABLE: &str = "
            QoS    koord-prod koord-mid koord-batch koord-free none
            LSE    ok         no        no          no         no
            LSR    ok         ok        ok          ok         ok
            LS     ok         ok        no          no         no
            BE     ok         ok        ok          ok         ok
            SYSTEM no         no        no          no         ok
            -      ok         ok        ok          ok         ok";
        let mut rows = TABLE.trim().lines().map(|line| line.split_whitespace());
        let classes: Vec<_> = rows.next().unwrap().skip(1).collect();
        for mut row in rows {
            let qos = row.next().unwrap();
            for (class, want) in classes.iter().zip(row) {
                let (q, c) = (QosClass::from_word(qos), PriorityClass::from_word(class));
                let found = check_strict_combination(q, c);
                assert_eq!(found.is_none(), want == "ok", "{qos} with {class}: {found:?}");
            }
        }
    }

    #[test]
    fn sub_priorities_are_read_as_go_reads_literals() {
        let cases = [
            ("10", Some(10)),
            ("+10", Some(10)),
            ("-10", Some(-10)),
            ("0x1F", Some(31)),
            ("-0b11", Some(-3)),
            ("0o17", Some(15)),
            ("017", Some(15)),
            ("0", Some(0)),
            ("1_000", Some(1000)),
            ("0x_1f", Some(31)),
            ("2147483647", Some(i32::MAX)),
            ("-2147483648", Some(i32::MIN)),
            ("2147483648", None),
            ("0x", None),
            ("08", None),
            ("_1", None),
            ("1_", None),
            ("1__0", None),
            ("+-1", None),
            ("ten", None),
            ("", None),
        ];
        for (text, want) in cases {
            assert_eq!(SubPriority::parse(text).0, want.map(SubPriority), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_sub_priority_reads_back(value in any::<i32>()) {
            let value = SubPriority(value);
            prop_assert_eq!(SubPriority::parse(&value.print()).0, Some(value));
        }

        #[test]
        fn a_value_belongs_to_the_class_whose_range_holds_it(value in any::<i32>()) {
            let holders = PriorityClass::ALL.iter().filter(|class| class.range().contains(&value));
            prop_assert_eq!(PriorityClass::of_value(value), holders.copied().next());
        }
    }
}
