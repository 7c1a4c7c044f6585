//! What do people see of a cluster?
//!
//! ```text
//! API server ── Nodes, Pods, NodeMetrics, topologies, configuration ──┐
//! agents ── decisions with their reasons ─────────────────────────────┴─> feed ─> model::World
//!                                                                                    │
//!     browser <── pages, JSON, live events ── server <── views, functions of values ─┤
//!     `tidepool top` <───────────────────────────────────────────────────────────────┘
//! ```
//!
//! [`model`] is values and functions of values; [`feed`] fills it; [`server`] shows it. The
//! console reads. The one thing it writes is the off switch, and that with the token of whoever
//! presses it.

pub mod feed;
pub mod metrics;
pub mod model;
pub mod server;

pub use feed::Feed;
pub use server::{Console, Door};
