//! The words and numbers of kernel text, by bytes and without allocating.

use crate::ParseError;

/// Lines with their numbers, counted from one; the newline at the end starts no further line.
pub fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let lines = (!text.is_empty()).then(|| text.split(|byte| *byte == b'\n'));
    lines.into_iter().flatten().enumerate().map(|(at, line)| (at + 1, line))
}

/// What stands between blanks.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Decimal digits and nothing else, within 64 bits.
pub fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// Like [`number`] with an optional minus.
pub fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) => 0_i64.checked_sub_unsigned(number(digits)?),
        None => number(word)?.try_into().ok(),
    }
}

/// Hexadecimal digits, at most sixteen.
pub fn hex(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 16 {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(sum << 4 | u64::from(digit))
    })
}

/// A file that holds one number.
pub fn only_number(text: &[u8]) -> Result<u64, ParseError> {
    let word = text.trim_ascii();
    number(word).ok_or_else(|| ParseError::new(1, "a number", word))
}

/// A file that holds one number, which may be negative.
pub fn only_signed(text: &[u8]) -> Result<i64, ParseError> {
    let word = text.trim_ascii();
    signed(word).ok_or_else(|| ParseError::new(1, "a number", word))
}

/// `key value` lines: the key, and the line number with the value's text for errors.
pub fn pairs(text: &[u8]) -> impl Iterator<Item = (usize, &[u8], &[u8])> {
    lines(text).filter_map(|(at, line)| {
        let mut words = words(line);
        Some((at, words.next()?, words.next().unwrap_or_default()))
    })
}

/// The number of a `key value` line.
pub fn pair_number(at: usize, value: &[u8]) -> Result<u64, ParseError> {
    number(value).ok_or_else(|| ParseError::new(at, "a number", value))
}

/// Saturates: no kernel counts that many bytes.
pub fn bytes(count: u64) -> units::Bytes {
    units::Bytes(i64::try_from(count).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_within_64_bits() {
        let cases: [(&[u8], Option<u64>); 8] = [
            (b"0", Some(0)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"", None),
            (b"-1", None),
            (b"+1", None),
            (b"1 ", None),
            (b"\xff", None),
        ];
        for (word, want) in cases {
            assert_eq!(number(word), want, "{word:?}");
        }
    }

    #[test]
    fn a_signed_number_reaches_both_ends() {
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"-9223372036854775809"), None);
        assert_eq!(signed(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(signed(b"9223372036854775808"), None);
        assert_eq!(signed(b"--1"), None);
    }

    #[test]
    fn hex_has_no_prefix_and_at_most_sixteen_digits() {
        assert_eq!(hex(b"7fF"), Some(0x7ff));
        assert_eq!(hex(b"0x7ff"), None);
        assert_eq!(hex(b"00000000000000001"), None);
    }

    #[test]
    fn lines_are_counted_from_one_and_the_last_newline_ends() {
        let text = b"a\n\nb\n";
        let seen: Vec<_> = lines(text).collect();
        assert_eq!(seen, [(1, &b"a"[..]), (2, b""), (3, b"b")]);
        assert_eq!(lines(b"").count(), 0);
        assert_eq!(lines(b"\n").count(), 0);
    }
}
