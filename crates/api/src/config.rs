//! The `slo-controller-config` ConfigMap: which strategy does a node get, and why?
//!
//! Eleven keys, eight of the reference and three of Tidepool, each a JSON text
//! with a cluster strategy and a list of node entries. For one node the layers are, lowest first:
//!
//! ```text
//! built-in defaults  <-  cluster strategy  <-  first matching node entry
//!                    <-  node annotation   <-  node labels
//! ```
//!
//! A layer is a set of leaves (see [`layer`]); laying one over another replaces
//! exactly the leaves that the upper one has, so a partial entry changes only
//! its own fields, and every leaf remembers the layer it came from.
//!
//! | file | question |
//! |---|---|
//! | [`key`] | which keys are there, and what shape has each? |
//! | [`defaults`] | what holds when nothing is configured? |
//! | [`layer`] | how do layers combine? |
//! | [`selector`], [`overlap`] | which nodes does an entry mean, and which mean the same? |
//! | [`limits`] | which values are allowed? |
//! | [`check`] | what is wrong with a text? |
//! | [`load`] | what is in force after an update, good or bad? |
//! | [`node`] | what does this node get? |
//! | [`reference`] | what can be configured at all? |

pub mod check;
pub mod defaults;
pub mod key;
pub mod layer;
pub mod limits;
pub mod load;
mod network;
pub mod node;
mod overlap;
pub mod reference;
pub mod selector;

pub use check::{Options, check, check_config_map, check_key, data_of, is_readable};
pub use key::Key;
pub use layer::{Layer, Leaf, Path, Source};
pub use load::{Config, Status};
pub use node::NodeView;
pub use overlap::first_overlap;
