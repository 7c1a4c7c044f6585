//! What may a node be called?

use std::str::FromStr;

use anyhow::Context;
use rustix::system::uname;

/// A name that the API takes for a Node: words of small letters, digits and `-`, with dots between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name has small letters, digits, '-' and '.', and begins and ends with a letter or digit"
)]
pub(super) struct NameError;

const LONGEST: usize = 253;

impl FromStr for NodeName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_word = |word: &str| {
            let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            word.starts_with(is_end)
                && word.ends_with(is_end)
                && word.chars().all(|c| is_end(c) || c == '-')
        };
        let is_name = text.len() <= LONGEST && text.split('.').all(is_word);
        is_name.then(|| Self(text.to_owned())).ok_or(NameError)
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0
    }
}

impl NodeName {
    /// The host's name in small letters.
    pub(super) fn of_host() -> anyhow::Result<Self> {
        let host = uname().nodename().to_string_lossy().to_lowercase();
        let name = host.parse().with_context(|| format!("the host is called {host:?}"));
        name.context("this machine's node needs another name: --name")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_the_api_takes() {
        for good in ["n", "node-1", "db.example", "4"] {
            assert_eq!(good.parse(), Ok(NodeName(good.to_owned())), "{good}");
        }
        let long = "n".repeat(LONGEST + 1);
        for bad in ["", "Node", "-n", "n-", "a..b", "a_b", "a/b", ".", &long] {
            assert_eq!(bad.parse::<NodeName>(), Err(NameError), "{bad}");
        }
    }
}
