//! Laws of quantities, checked against a model that shares nothing with the parser: numbers as
//! strings of decimal digits, multiplied by doubling, compared digit by digit.

use std::cmp::Ordering;
use std::num::NonZero;

use proptest::prelude::*;
use units::{Format, Quantity, Rounding, Scale};

/// A quantity as someone might write it.
#[derive(Debug, Clone)]
struct Written {
    sign: &'static str,
    whole: String,
    fraction: Option<String>,
    suffix: Suffix,
}

#[derive(Debug, Clone, Copy)]
enum Suffix {
    Named(&'static str, i64),
    Binary(&'static str, u32),
    Exponent(i64),
}

impl Written {
    fn text(&self) -> String {
        let fraction = self.fraction.as_ref().map(|digits| format!(".{digits}"));
        let suffix = match self.suffix {
            Suffix::Named(name, _) | Suffix::Binary(name, _) => name.to_owned(),
            Suffix::Exponent(exponent) => format!("e{exponent}"),
        };
        format!("{}{}{}{suffix}", self.sign, self.whole, fraction.unwrap_or_default())
    }

    /// Sign and magnitude in nano as decimal digits without leading zeros, rounded and capped.
    fn model(&self) -> (bool, Vec<u8>) {
        let fraction = self.fraction.clone().unwrap_or_default();
        let mut digits: Vec<u8> =
            self.whole.bytes().chain(fraction.bytes()).map(|d| d - b'0').collect();
        let mut places = i64::try_from(fraction.len()).expect("a few digits");
        let mut cap = pow10(38);
        match self.suffix {
            Suffix::Named(_, ten) | Suffix::Exponent(ten) => places -= ten,
            Suffix::Binary(_, two) => {
                for _ in 0..two {
                    double(&mut digits);
                }
                cap = "9223372036854775807000000000".bytes().map(|d| d - b'0').collect();
            }
        }
        while places < 9 {
            digits.push(0);
            places += 1;
        }
        let mut has_rest = false;
        while places > 9 {
            has_rest |= digits.pop().unwrap_or_default() != 0;
            places -= 1;
        }
        if has_rest {
            increment(&mut digits);
        }
        strip(&mut digits);
        if compare(&digits, &cap) == Ordering::Greater {
            digits = cap;
        }
        (self.sign == "-" && !digits.is_empty(), digits)
    }
}

fn pow10(exponent: usize) -> Vec<u8> {
    let mut digits = vec![0; exponent + 1];
    digits[0] = 1;
    digits
}

fn double(digits: &mut Vec<u8>) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let doubled = *digit * 2 + carry;
        (*digit, carry) = (doubled % 10, doubled / 10);
    }
    if carry > 0 {
        digits.insert(0, carry);
    }
}

fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
    digits.insert(0, 1);
}

fn strip(digits: &mut Vec<u8>) {
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
}

fn compare(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn compare_signed(a: &(bool, Vec<u8>), b: &(bool, Vec<u8>)) -> Ordering {
    match (a.0, b.0) {
        (false, false) => compare(&a.1, &b.1),
        (true, true) => compare(&b.1, &a.1),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

fn suffix() -> impl Strategy<Value = Suffix> {
    prop_oneof![
        prop::sample::select(vec![
            ("n", -9),
            ("u", -6),
            ("m", -3),
            ("", 0),
            ("k", 3),
            ("M", 6),
            ("G", 9),
            ("T", 12),
            ("P", 15),
            ("E", 18),
        ])
        .prop_map(|(name, ten)| Suffix::Named(name, ten)),
        prop::sample::select(vec![
            ("Ki", 10),
            ("Mi", 20),
            ("Gi", 30),
            ("Ti", 40),
            ("Pi", 50),
            ("Ei", 60),
        ])
        .prop_map(|(name, two)| Suffix::Binary(name, two)),
        (-45..45_i64).prop_map(Suffix::Exponent),
    ]
}

fn written() -> impl Strategy<Value = Written> {
    let sign = prop::sample::select(vec!["", "", "+", "-"]);
    // Long runs of zeros and nines are where carries and roundings hide.
    let digits = |range| {
        prop_oneof![
            prop::collection::vec(0..10_u8, range),
            prop::collection::vec(prop::sample::select(vec![0_u8, 0, 9, 9, 5]), 1..24),
        ]
        .prop_map(|digits| digits.iter().map(|digit| char::from(b'0' + digit)).collect::<String>())
    };
    (sign, digits(1..6), prop::option::of(digits(0..15)), suffix())
        .prop_map(|(sign, whole, fraction, suffix)| Written { sign, whole, fraction, suffix })
}

fn format() -> impl Strategy<Value = Format> {
    prop::sample::select(vec![Format::DecimalSi, Format::BinarySi, Format::DecimalExponent])
}

/// Any value, with a bias to round ones, in any format.
fn quantity() -> impl Strategy<Value = Quantity> {
    let shifted = (any::<i64>(), 0..63_u32, 0..50_u32).prop_map(|(value, right, left)| {
        Quantity::from_int((value >> right) << (left % (right + 1)), Format::DecimalSi)
    });
    prop_oneof![
        written().prop_map(|written| written.text().parse().expect("well-formed")),
        any::<i64>().prop_map(|milli| Quantity::from_milli(milli, Format::DecimalSi)),
        shifted,
    ]
    .prop_flat_map(|quantity| format().prop_map(move |format| quantity.with_format(format)))
}

/// Far enough from the limits that no sum of three saturates.
fn modest() -> impl Strategy<Value = Quantity> {
    quantity().prop_filter("sums must not saturate", |quantity| {
        let limit =
            Quantity::MAX.scale(1, NonZero::new(4).expect("four is not zero"), Rounding::Down);
        *quantity < limit && *quantity > -limit
    })
}

proptest! {
    #[test]
    fn reading_agrees_with_the_model(written in written()) {
        let quantity: Quantity = written.text().parse().unwrap();
        let (is_negative, digits) = written.model();
        let digits: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let plain = format!("{}0{digits}n", if is_negative { "-" } else { "" });
        prop_assert_eq!(quantity, plain.parse().unwrap());
        prop_assert_eq!(quantity.is_zero(), digits.is_empty());
    }

    #[test]
    fn order_agrees_with_the_model(a in written(), b in written()) {
        let (left, right): (Quantity, Quantity) = (a.text().parse().unwrap(), b.text().parse().unwrap());
        prop_assert_eq!(left.cmp(&right), compare_signed(&a.model(), &b.model()));
        prop_assert_eq!(left == right, left.cmp(&right) == Ordering::Equal);
    }

    #[test]
    fn printing_loses_nothing(quantity in quantity()) {
        let text = quantity.to_string();
        let read: Quantity = text.parse().unwrap();
        prop_assert_eq!(read, quantity);
        prop_assert!(!text.contains(['.', '+']));
        // A binary amount without a suffix is read back as decimal, where it may find one.
        if quantity.format() != Format::BinarySi {
            prop_assert_eq!(read.to_string(), text, "canonical form is stable");
        }
    }

    #[test]
    fn the_wire_text_means_the_same(written in written()) {
        let text = written.text();
        let wire = Quantity::wire_text(&text).unwrap();
        prop_assert_eq!(wire.parse::<Quantity>(), text.parse());
        if !matches!(written.suffix, Suffix::Binary(..)) {
            let again = Quantity::wire_text(&wire).unwrap();
            prop_assert_eq!(&again, &wire, "what the server sent comes back unchanged");
        }
    }

    #[test]
    fn json_loses_nothing(quantity in quantity()) {
        let json = serde_json::to_string(&quantity).unwrap();
        prop_assert_eq!(serde_json::from_str::<Quantity>(&json).unwrap(), quantity);
    }

    #[test]
    fn no_text_panics(text in "[-+.0-9eEinumkKMGTP \u{3bc}]{0,24}|\\PC*") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            prop_assert_eq!(quantity.to_string().parse(), Ok(quantity));
        }
    }

    #[test]
    fn sums_do_not_depend_on_order(a in modest(), b in modest(), c in modest()) {
        prop_assert_eq!(a + b, b + a);
        prop_assert_eq!((a + b) + c, a + (b + c));
        prop_assert_eq!(a + b - b, a);
        prop_assert_eq!(a - b, -(b - a));
        prop_assert_eq!(a + Quantity::ZERO, a);
    }

    #[test]
    fn sums_are_exact(a in any::<i32>(), b in any::<i32>()) {
        let milli = |value: i64| Quantity::from_milli(value, Format::DecimalSi);
        prop_assert_eq!(milli(a.into()) + milli(b.into()), milli(i64::from(a) + i64::from(b)));
    }

    #[test]
    fn sums_follow_order(a in quantity(), b in quantity(), c in modest()) {
        let (low, high) = (a.min(b), a.max(b));
        prop_assert!(low + c <= high + c, "saturation never reverses an order");
    }

    #[test]
    fn rounding_brackets_the_value(quantity in modest(), exponent in 0..6_usize) {
        let scale = [Scale::Nano, Scale::Micro, Scale::Milli, Scale::One, Scale::Kilo, Scale::Mega][exponent];
        let (up, down) = (quantity.round_up(scale), quantity.round(scale, Rounding::Down));
        let nearest = quantity.round(scale, Rounding::Nearest);
        let abs = |q: Quantity| if q.sign() == Ordering::Less { -q } else { q };
        prop_assert!(abs(down) <= abs(quantity) && abs(quantity) <= abs(up));
        prop_assert!(nearest == up || nearest == down);
        prop_assert!(abs(nearest - quantity) <= abs(up - quantity));
        prop_assert!(abs(nearest - quantity) <= abs(down - quantity));
        prop_assert_eq!(up.round_up(scale), up);
    }

    #[test]
    fn scaling_is_exact_before_it_rounds(
        nanos in any::<i64>(),
        numerator in any::<i32>(),
        denominator in any::<i64>().prop_filter_map("not zero", NonZero::new),
    ) {
        let quantity: Quantity = format!("{nanos}n").parse().unwrap();
        let exact = i128::from(nanos) * i128::from(numerator);
        for (rounding, want) in [
            (Rounding::Down, exact / i128::from(denominator.get())),
            (Rounding::Up, divide_away(exact, denominator.get().into())),
        ] {
            let want: Quantity = format!("{want}n").parse().unwrap();
            prop_assert_eq!(quantity.scale(numerator.into(), denominator, rounding), want);
        }
    }
}

fn divide_away(numerator: i128, denominator: i128) -> i128 {
    let (n, d) = (numerator.unsigned_abs(), denominator.unsigned_abs());
    let magnitude = i128::try_from(n.div_ceil(d)).expect("below 2^95");
    if (numerator < 0) == (denominator < 0) { magnitude } else { -magnitude }
}
