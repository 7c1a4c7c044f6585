//! What does a strategy want, and why?

use api::why::Why;

use super::Wish;
use super::files::FileWish;

/// What a strategy wants, and why.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    pub wishes: Vec<Wish>,
    /// For files that are no control groups.
    pub files: Vec<FileWish>,
    pub whys: Vec<Why>,
}
