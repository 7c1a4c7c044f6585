//! Admission as functions of values: what comes out for which pod, and what must always hold.

mod laws;
mod objects;
mod pods;
mod refusals;
mod world;
