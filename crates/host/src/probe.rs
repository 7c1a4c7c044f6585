//! What do this kernel and this host offer, and what follows from what they lack?
//!
//! [`Facts::gather`] looks, [`requirements`] judges: one row for each thing Tidepool can use, with what
//! was found, what its absence costs and how to get it. [`Tier`] says which protection of online work is
//! possible. Two facts are no files but system calls ([`Live`]); a recorded host brings their answers.

mod facts;
mod live;
mod requirement;
mod rows;
mod tier;

pub use self::facts::{CgroupFacts, Facts, KernelVersion};
pub use self::live::{Answer, Live};
pub use self::requirement::{Area, Met, Need, Requirement};
pub use self::rows::requirements;
pub use self::tier::Tier;
