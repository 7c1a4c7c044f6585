//! Is the embedded server one that Kubernetes clients cannot tell from the real one?

mod abuse;
mod clients;
mod conformance;
mod gaps;
mod kubectl;
