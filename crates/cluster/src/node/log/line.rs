//! One line of a log file.

use jiff::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// A line as it stands in the file, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// As written, so that it can be printed again unchanged.
    pub(crate) time: &'a str,
    pub(crate) stream: Stream,
    /// Does output go on with the next line?
    pub(crate) is_part: bool,
    pub(crate) content: &'a [u8],
}

impl Stream {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

impl<'a> Line<'a> {
    /// `None` for anything the shim did not write, such as the torn end of a full disk.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(fields.next()?).ok()?;
        let stream = match fields.next()? {
            b"stdout" => Stream::Stdout,
            b"stderr" => Stream::Stderr,
            _ => return None,
        };
        let is_part = match fields.next()? {
            b"P" => true,
            b"F" => false,
            _ => return None,
        };
        Some(Self { time, stream, is_part, content: fields.next()? })
    }

    pub(crate) fn timestamp(&self) -> Option<Timestamp> {
        self.time.parse().ok()
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.time.as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.stream.name().as_bytes());
        out.extend_from_slice(if self.is_part { b" P " } else { b" F " });
        out.extend_from_slice(self.content);
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_others_are_refused() {
        let good = b"2026-11-15T08:00:00.5Z stderr P a b  c";
        let line = Line::parse(good).unwrap();
        assert_eq!(
            (line.stream, line.is_part, line.content),
            (Stream::Stderr, true, &b"a b  c"[..])
        );
        assert_eq!(line.timestamp(), "2026-11-15T08:00:00.5Z".parse().ok());
        for bad in ["", "x", "t stdout", "t stdout F", "t stdin F x", "t stdout Q x", "\u{0}"] {
            assert_eq!(Line::parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert!(Line::parse(b"t stdout F ").is_some(), "an empty line is a line");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(content in proptest::collection::vec(any::<u8>(), 0..64), is_part: bool) {
            prop_assume!(!content.contains(&b'\n'));
            let line = Line {
                time: "2026-11-15T08:00:00Z",
                stream: Stream::Stdout,
                is_part,
                content: &content,
            };
            let mut out = Vec::new();
            line.write(&mut out);
            prop_assert_eq!(out.pop(), Some(b'\n'));
            prop_assert_eq!(Line::parse(&out), Some(line));
        }
    }
}
