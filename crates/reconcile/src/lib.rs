//! The shell kit: what every process around an API server needs besides its decisions.
//!
//! | module | question |
//! |---|---|
//! | [`elect`] | may this process write? |
//! | [`merge`] | which patch turns one object into another? |
//! | [`key`] | which object is it, and in which version? |
//! | [`clock`] | what time is it? |
//! | [`mod@file`] | how is a small file replaced whole? |
//! | [`error`] | how is an error told in one line? |

pub mod clock;
pub mod elect;
pub mod error;
pub mod file;
pub mod key;
pub mod merge;
