//! The `format` keyword: which strings and numbers does it allow?
//!
//! A format Kubernetes does not know is ignored, as JSON schema demands. Formats of built-in kinds that have
//! their own decoder (quantities, times, base64) are here too, so that one enum describes every leaf.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use units::GoDuration;

use super::names;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Format {
    /// Absent or unknown.
    #[default]
    None,
    Int32,
    Int64,
    Float,
    Double,
    Byte,
    DateTime,
    Date,
    Duration,
    Quantity,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid {
        version: Option<char>,
    },
    HexColor,
    RgbColor,
    BsonObjectId,
    CreditCard,
    Ssn,
    Isbn {
        digits: Option<usize>,
    },
    ShortName,
    LongName,
}

/// Every format that a schema can name.
const NAMES: &[(&str, Format)] = &[
    ("int32", Format::Int32),
    ("int64", Format::Int64),
    ("float", Format::Float),
    ("double", Format::Double),
    ("byte", Format::Byte),
    ("date-time", Format::DateTime),
    ("datetime", Format::DateTime),
    ("date", Format::Date),
    ("duration", Format::Duration),
    ("quantity", Format::Quantity),
    ("uri", Format::Uri),
    ("email", Format::Email),
    ("hostname", Format::Hostname),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("cidr", Format::Cidr),
    ("mac", Format::Mac),
    ("uuid", Format::Uuid { version: None }),
    ("uuid3", Format::Uuid { version: Some('3') }),
    ("uuid4", Format::Uuid { version: Some('4') }),
    ("uuid5", Format::Uuid { version: Some('5') }),
    ("hexcolor", Format::HexColor),
    ("rgbcolor", Format::RgbColor),
    ("bsonobjectid", Format::BsonObjectId),
    ("creditcard", Format::CreditCard),
    ("ssn", Format::Ssn),
    ("isbn", Format::Isbn { digits: None }),
    ("isbn10", Format::Isbn { digits: Some(10) }),
    ("isbn13", Format::Isbn { digits: Some(13) }),
    ("k8s-short-name", Format::ShortName),
    ("k8s-long-name", Format::LongName),
];

impl Format {
    pub(super) fn from_name(name: &str) -> Self {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, format)| *format).unwrap_or_default()
    }

    pub(super) fn name(self) -> &'static str {
        let known = NAMES.iter().find(|(_, format)| *format == self);
        known.map(|(name, _)| *name).unwrap_or_default()
    }

    /// Whether a string has this format; formats of numbers allow any string.
    pub(super) fn allows_text(self, text: &str) -> bool {
        match self {
            Self::None | Self::Int32 | Self::Int64 | Self::Float | Self::Double => true,
            Self::Quantity => units::Quantity::wire_text(text).is_ok(),
            Self::Byte => is_base64(text),
            Self::DateTime => is_date_time(text),
            Self::Date => is_date(text),
            Self::Duration => is_duration(text),
            Self::Uri => is_uri(text),
            Self::Email => is_email(text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Mac => is_mac(text),
            Self::Uuid { version } => is_uuid(text, version),
            Self::HexColor => is_hex_color(text),
            Self::RgbColor => is_rgb_color(text),
            Self::BsonObjectId => text.len() == 24 && is_hex(text),
            Self::CreditCard => is_credit_card(text),
            Self::Ssn => is_ssn(text),
            Self::Isbn { digits } => is_isbn(text, digits),
            Self::ShortName => names::dns_label(text).is_empty(),
            Self::LongName => names::dns_subdomain(text).is_empty(),
        }
    }
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Standard base64 with padding, as Go's decoder accepts it (line breaks are skipped).
pub(super) fn is_base64(text: &str) -> bool {
    base64_error(text).is_none()
}

/// Offset of the first byte at which `text` stops being standard base64.
pub(super) fn base64_error(text: &str) -> Option<usize> {
    let bytes: Vec<(usize, u8)> =
        text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\n' | b'\r')).collect();
    let data = bytes.iter().take_while(|(_, byte)| *byte != b'=').count();
    let bad = |byte: u8| !(byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/');
    if let Some((at, _)) = bytes.iter().take(data).find(|(_, byte)| bad(*byte)) {
        return Some(*at);
    }
    let padding = bytes.len() - data;
    let expected = match data % 4 {
        0 => 0,
        2 => 2,
        3 => 1,
        _ => return Some(text.len()),
    };
    if padding == expected && bytes.iter().skip(data).all(|(_, byte)| *byte == b'=') {
        return None;
    }
    Some(if padding < expected { text.len() } else { bytes.get(data).map_or(data, |(at, _)| *at) })
}

fn number(text: &str) -> Option<u32> {
    if is_digits(text) { text.parse().ok() } else { None }
}

/// `2006-01-02`, and a day that exists.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return false;
    }
    let part = |range: std::ops::Range<usize>| text.get(range).and_then(number);
    let (Some(year), Some(month), Some(day)) = (part(0..4), part(5..7), part(8..10)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// RFC 3339: `2006-01-02T15:04:05.999Z` or with an offset.
pub(super) fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let (clock, zone_ok) = match time.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, true),
        None => match time.rfind(['+', '-']).and_then(|at| time.split_at_checked(at)) {
            Some((clock, zone)) => (clock, is_offset(zone)),
            None => return false,
        },
    };
    let (whole, fraction) = match clock.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (clock, None),
    };
    is_date(date) && zone_ok && is_clock(whole) && fraction.is_none_or(is_digits)
}

fn is_clock(text: &str) -> bool {
    let mut parts = text.split(':');
    let mut part = |below: u32| {
        parts.next().is_some_and(|text| text.len() == 2 && number(text).is_some_and(|n| n < below))
    };
    part(24) && part(60) && part(60) && parts.next().is_none()
}

fn is_offset(text: &str) -> bool {
    let Some((hours, minutes)) = text.get(1..).and_then(|text| text.split_once(':')) else {
        return false;
    };
    let fits = |text: &str, below| text.len() == 2 && number(text).is_some_and(|n| n < below);
    fits(hours, 24) && fits(minutes, 60)
}

/// Go's durations, and the spelled-out ones (`3 days`).
fn is_duration(text: &str) -> bool {
    if text.parse::<GoDuration>().is_ok() {
        return true;
    }
    let mut words = text.split_whitespace();
    let (Some(count), Some(unit), None) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    const UNITS: [&str; 8] =
        ["nanosecond", "microsecond", "millisecond", "second", "minute", "hour", "day", "week"];
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix('s').unwrap_or(&unit);
    count.parse::<f64>().is_ok() && UNITS.contains(&unit)
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return text.starts_with('/') };
    let mut letters = scheme.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        && !rest.is_empty()
        && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn is_email(text: &str) -> bool {
    let address = match (text.find('<'), text.strip_suffix('>')) {
        (Some(at), Some(inner)) => inner.get(at + 1..).unwrap_or_default(),
        _ => text,
    };
    match address.rsplit_once('@') {
        Some((local, domain)) => {
            !local.is_empty() && !domain.is_empty() && !address.contains(char::is_whitespace)
        }
        None => false,
    }
}

fn is_hostname(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    !name.is_empty()
        && name.len() <= 255
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.chars().all(|c| c.is_alphanumeric() || c == '-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

/// An address and a prefix length that fits it.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Some(length) = number(length) else { return false };
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => length <= 32,
        Ok(IpAddr::V6(_)) => length <= 128,
        Err(_) => false,
    }
}

fn is_mac(text: &str) -> bool {
    [(':', 2), ('-', 2), ('.', 4)].into_iter().any(|(separator, width)| {
        let groups: Vec<&str> = text.split(separator).collect();
        let bytes = groups.len() * width / 2;
        groups.len() > 1
            && matches!(bytes, 6 | 8 | 20)
            && groups.iter().all(|group| group.len() == width && is_hex(group))
    })
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let compact: String = text.chars().filter(|c| *c != '-').collect();
    let dashes_ok = text.len() == compact.len()
        || (text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-'));
    let digit = |at: usize| compact.chars().nth(at).map(|c| c.to_ascii_lowercase());
    let variant_ok = || digit(16).is_some_and(|c| matches!(c, '8' | '9' | 'a' | 'b'));
    compact.len() == 32
        && is_hex(&compact)
        && dashes_ok
        && version.is_none_or(|version| digit(12) == Some(version))
        && (!matches!(version, Some('4' | '5')) || variant_ok())
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && is_hex(digits)
}

fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')')) else {
        return false;
    };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    parts.len() == 3 && parts.iter().all(|part| number(part).is_some_and(|n| n <= 255))
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> =
        text.chars().filter(|c| *c != '-' && *c != ' ').filter_map(|c| c.to_digit(10)).collect();
    let only_digits = text.chars().all(|c| c.is_ascii_digit() || c == '-' || c == ' ');
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match at % 2 {
            1 if *digit > 4 => digit * 2 - 9,
            1 => digit * 2,
            _ => *digit,
        })
        .sum();
    only_digits && (12..=19).contains(&digits.len()) && sum.is_multiple_of(10)
}

fn is_ssn(text: &str) -> bool {
    let widths = [3, 2, 4];
    let parts: Vec<&str> = text.split(['-', ' ']).collect();
    let split_ok = parts.len() == 3
        && parts.iter().zip(widths).all(|(part, width)| part.len() == width && is_digits(part));
    split_ok || (text.len() == 9 && is_digits(text))
}

fn is_isbn(text: &str, digits: Option<usize>) -> bool {
    let compact: Vec<char> = text.chars().filter(|c| *c != '-' && *c != ' ').collect();
    let value = |at: usize, c: char| match c.to_digit(10) {
        Some(digit) => Some(digit),
        None if at == 9 && matches!(c, 'X' | 'x') => Some(10),
        None => None,
    };
    let values: Option<Vec<u32>> =
        compact.iter().enumerate().map(|(at, c)| value(at, *c)).collect();
    let Some(values) = values else { return false };
    if digits.is_some_and(|wanted| wanted != values.len()) {
        return false;
    }
    match values.len() {
        10 => values.iter().zip((1..=10).rev()).map(|(v, w)| v * w).sum::<u32>().is_multiple_of(11),
        13 => values.iter().zip([1, 3].iter().cycle()).map(|(v, w)| v * w).sum::<u32>() % 10 == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_their_own_and_reject_a_neighbour() {
        let cases = [
            ("byte", "aGVsbG8=", "aGVsbG8"),
            ("byte", "", "a"),
            ("date", "2024-02-29", "2023-02-29"),
            ("date-time", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05Z"),
            ("date-time", "2024-01-02T03:04:05.5+02:00", "2024-01-02T03:04:05"),
            ("date-time", "2024-01-02T23:59:59Z", "2024-01-02T24:00:00Z"),
            ("duration", "1h30m", "1x"),
            ("duration", "3 days", "3 moons"),
            ("uri", "https://example.com/a", "://x"),
            ("email", "a@example.com", "a.example.com"),
            ("hostname", "example.com", "-example.com"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:00:5e:00:53:01", "00:00:5e:00:53"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-42661417400"),
            (
                "uuid4",
                "123e4567-e89b-42d3-a456-426614174000",
                "123e4567-e89b-12d3-a456-426614174000",
            ),
            ("hexcolor", "#ff8800", "#ff88"),
            ("rgbcolor", "rgb(1, 2,255)", "rgb(1,2,256)"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f1f77bcf86cd79943901"),
            ("creditcard", "4111111111111111", "4111111111111112"),
            ("ssn", "123-45-6789", "123-456-789"),
            ("isbn10", "0-306-40615-2", "0-306-40615-3"),
            ("isbn13", "978-0-306-40615-7", "978-0-306-40615-6"),
            ("k8s-short-name", "my-name", "my.name"),
            ("k8s-long-name", "my.name", "My.name"),
        ];
        for (name, good, bad) in cases {
            let format = Format::from_name(name);
            assert_ne!(format, Format::None, "{name}");
            assert!(format.allows_text(good), "{name} {good}");
            assert!(!format.allows_text(bad), "{name} {bad}");
        }
        assert_eq!(Format::from_name("frobnicated"), Format::None);
    }

    #[test]
    fn base64_errors_say_where() {
        let cases = [
            ("aGk=", None),
            ("aG k=", Some(2)),
            ("abc", Some(3)),
            ("ab=c", Some(2)),
            ("YQ==\n", None),
        ];
        for (text, want) in cases {
            assert_eq!(base64_error(text), want, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            for name in ["byte", "date", "date-time", "duration", "uri", "email", "hostname", "cidr",
                "mac", "uuid", "uuid4", "hexcolor", "rgbcolor", "creditcard", "ssn", "isbn"] {
                Format::from_name(name).allows_text(&text);
            }
        }
    }
}
