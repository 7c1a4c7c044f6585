//! The shell kit: what every process around an API server needs besides its decisions.
//!
//! ```text
//!  server ──watch──> cache ──changes──> queue ──key──> drive: look ─> plan ─> write ──> server
//!                      └───────────── indexed objects ─────────┘          └─> record
//! ```
//!
//! | module | question |
//! |---|---|
//! | [`mod@watch`] | how does a process learn of objects, and does it know all of them? |
//! | [`queue`] | which key comes next, and when is a failed one tried again? |
//! | [`drive`] | how does a controller run? |
//! | [`mod@write`] | how do decisions reach the API server? |
//! | [`merge`] | which patch turns one object into another? |
//! | [`record`] | what happened, for the owner of an object to read? |
//! | [`elect`] | may this process write? |
//! | [`mod@listen`] | how are HTTP requests answered, and who may hold on to what? |
//! | [`metrics`] | what does a process count, and how is it shown? |
//! | [`key`] | which object is it, and in which version? |
//! | [`clock`] | what time is it? |
//! | [`mod@file`] | how is a small file replaced whole? |
//! | [`error`] | how is an error told in one line? |
//!
//! A controller is a pure function from what was observed to what shall be done, and a short file
//! around it: it subscribes its queue to caches, looks an object up, plans and writes.

pub mod clock;
pub mod drive;
pub mod elect;
pub mod error;
pub mod key;
pub mod listen;
pub mod merge;
pub mod metrics;
pub mod queue;
pub mod record;
pub mod watch;
pub mod write;

pub use host::durable as file;
