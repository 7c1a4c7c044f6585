//! How do decisions reach the kernel, and how are they taken back?
//!
//! ```text
//! strategies, hooks ──claims──> Arbiter ──one value a file──> kernel
//!                                 │  ^
//!                             Ledger  └─ what is there now
//! ```
//!
//! No strategy writes. Each posts what it wants ([`Wish`]) and the [`Arbiter`] folds all wishes for one
//! file, orders the writes so that the kernel accepts them, reads back and remembers in the [`Ledger`]
//! what was there before. Without wishes everything goes back to that.

mod arbiter;
mod ledger;
mod place;
mod reflex;

pub use self::arbiter::{Arbiter, Change, Outcome, Wish};
pub use self::ledger::{Ledger, LedgerError};
pub use self::place::Place;
pub use self::reflex::{Grant, Reflex, TICK};
