//! Which controllers does a cluster of one machine need, and how do they run together?
