//! How much of a node can be lent out, and why exactly this much?
