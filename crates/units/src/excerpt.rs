//! How much of a refused text does an error message repeat?
//!
//! Enough to recognise it, never all of it: the text may be megabytes that someone put into an
//! annotation, and errors end up in logs and events.

use std::fmt;

const SHOWN_CHARS: usize = 64;

/// The beginning of a text that could not be parsed; displays quoted and escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    shown: String,
    is_cut: bool,
}

impl Excerpt {
    pub(crate) fn of(text: &str) -> Self {
        let mut chars = text.chars();
        let shown = chars.by_ref().take(SHOWN_CHARS).collect();
        Self { shown, is_cut: chars.next().is_some() }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self.shown, if self.is_cut { "..." } else { "" })
    }
}

/// What stands at `at` in a refused text: a quoted character, or its end.
pub(crate) fn found_at(text: &str, at: usize) -> String {
    match text.get(at..).and_then(|rest| rest.chars().next()) {
        Some(found) => format!("{found:?}"),
        None => "the end".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_shown_whole_and_long_text_is_cut() {
        assert_eq!(Excerpt::of("1\n").to_string(), r#""1\n""#);
        assert_eq!(Excerpt::of(&"é".repeat(64)).to_string(), format!("{:?}", "é".repeat(64)));
        assert_eq!(Excerpt::of(&"9".repeat(65)).to_string(), format!("\"{}\"...", "9".repeat(64)));
    }

    #[test]
    fn the_found_character_is_named() {
        assert_eq!(found_at("1é", 1), "'é'");
        assert_eq!(found_at("1", 1), "the end");
        assert_eq!(found_at("é", 1), "the end");
    }
}
