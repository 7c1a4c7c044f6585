//! What does a strategy want, and why?

use api::why::Why;
use qos::wish::Wish;

/// What a strategy wants, and why.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    pub wishes: Vec<Wish>,
    pub whys: Vec<Why>,
}
