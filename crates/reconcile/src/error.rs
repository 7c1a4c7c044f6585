//! How is an error told in one line?

use std::error::Error;

/// An error and its causes, joined by `: `.
///
/// Some libraries repeat their cause in their own message; the repetition is left out.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Layer {
        #[error("cannot write the ledger")]
        Write(#[source] io::Error),
        #[error("cannot start: {0}")]
        Repeats(#[source] Box<Layer>),
        #[error("the agent ended")]
        Ended(#[source] Box<Layer>),
    }

    #[test]
    fn causes_follow_once_each() {
        let write = || Layer::Write(io::Error::other("disk full"));
        let cases = [
            (write(), "cannot write the ledger: disk full"),
            (
                Layer::Ended(Box::new(write())),
                "the agent ended: cannot write the ledger: disk full",
            ),
            (Layer::Repeats(Box::new(write())), "cannot start: cannot write the ledger: disk full"),
        ];
        for (error, want) in cases {
            assert_eq!(chain(&error), want);
        }
    }
}
