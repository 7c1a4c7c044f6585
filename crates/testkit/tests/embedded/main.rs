//! Is the embedded server one that Kubernetes clients cannot tell from the real one?

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod abuse;
mod clients;
mod conformance;
mod gaps;
mod kubectl;
