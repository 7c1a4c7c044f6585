//! Why does a pod wait, or why is it where it is?

use serde::Serialize;

use crate::scheduler::Placement;
use crate::verdict::{Group, Rejection};

/// What the scheduler thinks of one pod now.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    pub namespace: String,
    pub name: String,
    pub state: State,
}

#[derive(Debug, Clone, Serialize)]
pub enum State {
    /// Not tried before a plugin lets it.
    Gated { plugin: &'static str, reason: String },
    /// It fits nowhere as things stand.
    Waiting(Box<Waiting>),
    /// It would be placed there if it were its turn.
    Ready(Box<Placement>),
    /// It is on a node; the placement is known when this process decided it.
    Placed { node: String, why: Option<Box<Placement>> },
}

#[derive(Debug, Clone, Serialize)]
pub struct Waiting {
    pub why: Rejection,
    /// Nodes that fail for the fewest reasons, with what they lack.
    pub nearest: Vec<(String, Group)>,
    pub nominated: Option<String>,
}
