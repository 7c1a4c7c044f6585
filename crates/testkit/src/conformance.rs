//! Does a server behave like Kubernetes?
//!
//! The cases are transcripts: text files under `fixtures/conformance`, one an area. The same files
//! run against the embedded server and against a real kube-apiserver; the latter is the judge of
//! the former.
//!
//! ```text
//! == a name is taken once
//! $ POST {core}/configmaps {metadata: {name: a}}
//! > 201 {metadata: {name: a, resourceVersion: <rv>}}
//! $ POST {core}/configmaps {metadata: {name: a}}
//! > 409 {reason: AlreadyExists}
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `== name` | a case begins |
//! | `:: name`, `@include name` | steps that several cases share |
//! | `@needs controllers` | skipped on a server that does not offer them |
//! | `$ VERB path [header: value] body` | a request; the body is YAML and sent as JSON |
//! | `$? ...` | the same, repeated until the answer is the expected one |
//! | `$*5 ...` | the same, five times, `{i}` counts from 0 |
//! | `> code pattern` | the answer |
//! | `>h name: pattern` | a header of the answer |
//! | `$ w = WATCH path` | a request whose answer is read as a stream of events |
//! | `w> TYPE pattern` | the next event; `w> END` is the end of the stream |
//! | `@hook h allow` | a webhook at `{h.url}` with authority `{ca}`; see [`hooks`] |
//! | `h> pattern` | the next review that the webhook got; `h> none` if there was none |
//!
//! Lines that begin with a space continue the line above. Each case has a namespace of its own,
//! `{ns}`, which also serves as a unique name for what is not in a namespace.

mod cases;
pub mod hooks;
mod pattern;
mod report;
mod runner;
mod script;
mod target;

pub use self::cases::{Case, all};
pub use self::report::{Outcome, Report};
pub use self::runner::run;
pub use self::target::Target;
