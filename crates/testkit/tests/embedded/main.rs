//! Is the embedded server one that Kubernetes clients cannot tell from the real one?

mod conformance;
mod gaps;
