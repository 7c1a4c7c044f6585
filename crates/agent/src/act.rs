//! How do decisions reach the kernel, and how are they taken back?
//!
//! ```text
//! strategies, hooks ──wishes──> Arbiter ──one value a target──> kernel
//!                                 │  ^
//!                             Ledger  └─ what is there now
//! ```
//!
//! No strategy writes. Each posts what it wants ([`qos::wish::Wish`]) and the [`Arbiter`] folds all wishes for one
//! target, orders the writes so that the kernel accepts them, reads back and remembers in the [`Ledger`]
//! what was there before. Without wishes every target goes back to that.
//!
//! | file | question |
//! |---|---|
//! | [`observe`] | what does the machine say that a round has to know? |
//! | [`rounds`], [`thread`] | who asks them, and how often? |
//! | [`arbiter`], [`writer`], [`ledger`] | how are wishes carried out and taken back? |
//! | [`backend`] | how is each kind of target read, written and restored? |
//! | [`lane`] | where is written what takes its time? |
//! | [`wake`] | what are the kernel's means worth? |
//! | [`reflex`], [`emergency`] | what happens between two rounds? |
//! | [`journal`], [`gauges`] | what was decided, and why? |
//! | [`switch`] | who may turn all this off? |

mod arbiter;
mod backend;
mod emergency;
mod gauges;
pub mod journal;
mod lane;
mod ledger;
mod observe;
mod reflex;
pub mod rounds;
pub mod switch;
pub mod thread;
pub mod wake;
mod writer;

pub use self::arbiter::{Arbiter, Change, Outcome};
pub use self::journal::Journal;
pub use self::ledger::{Ledger, LedgerError};
pub use self::reflex::{Grant, IDLE_TICK, Reflex, TICK};
pub use self::rounds::Rounds;
pub use self::thread::ActThread;
pub use self::wake::Prober;
pub use api::why::{NODE, Resource, Sum, Why};
pub use qos::node::Settings;

#[cfg(test)]
mod tests;
