//! How busy is a node really, and how busy would a pod make it? (plugin LoadAwareScheduling)
//!
//! Requests say what pods reserved; NodeMetric objects say what nodes use. This plugin keeps pods
//! off nodes that use too much and prefers nodes that use little, and it counts pods that were
//! placed since the last report by estimate, so that a cold node is not overrun between two
//! reports.
//!
//! | module | question |
//! |---|---|
//! | [`args`] | how is it configured? |
//! | [`estimate`] | what will a pod use? |
//! | [`report`] | what did a node say? |
//! | [`book`] | what do reports and estimates add up to? |
//! | [`judge`] | does the pod pass, and how well does the node score? |
//! | [`loads`] | how does all of it follow pods and nodes? |
//! | [`dump`] | what does the debug endpoint show? |

mod args;
mod book;
mod dump;
mod estimate;
mod judge;
mod loads;
mod report;

pub use args::{Aggregate, Aggregated, Args, Column, Policy, Settings, Thresholds};
pub use book::{Assigned, Book, Page, Sums, Times};
pub use dump::dump;
pub use estimate::{Estimate, Subject};
pub use judge::{Refusal, filter, score};
pub use loads::{BookIx, Loads};
pub use report::{Found, Report, Usage};
