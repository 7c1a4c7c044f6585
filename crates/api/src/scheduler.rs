//! The scheduler's configuration file.
//!
//! `KubeSchedulerConfiguration`, YAML or JSON, of version `v1` or `v1beta3`.
//! The file is read strictly, as kube-scheduler does: a field that is not
//! known, a value of another type and a plugin that does not exist are errors
//! with their line. What remains is filled in with defaults and merged into
//! one list of plugins a point, so that whoever runs it finds no question open.
//!
//! | module | question |
//! |---|---|
//! | [`file`] | what may stand in the file? |
//! | [`plugins`] | which plugins are there? |
//! | [`merge`] | which of them run, and in which order? |
//! | [`args`] | what is each of them told? |
//! | [`extender`] | who else has a say, and where is it asked? |

pub mod args;
pub mod extender;
pub mod file;
mod limits;
pub mod merge;
pub mod plugins;
mod read;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::protocol::name::{NAMESPACE, SCHEDULER_PROFILE, lease};
use args::Arguments;
pub use extender::Extender;
pub use merge::{Enabled, Points};
pub use plugins::{Known, Point};
pub use read::load;

/// The kind of the file.
pub const KIND: &str = "KubeSchedulerConfiguration";
/// The versions that are read alike.
pub const VERSIONS: &[&str] =
    &["kubescheduler.config.k8s.io/v1", "kubescheduler.config.k8s.io/v1beta3"];

/// What a file means, with nothing left open.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// `None` when this scheduler is alone.
    pub lease: Option<Lease>,
    pub kubeconfig: Option<String>,
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
    pub profiles: Vec<Profile>,
    /// Asked in this order.
    pub extenders: Vec<Extender>,
}

/// Which lease decides who schedules, and how patiently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub namespace: String,
    pub name: String,
    pub length: Duration,
    pub deadline: Duration,
    pub retry: Duration,
}

impl Default for Lease {
    fn default() -> Self {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        Self {
            namespace: NAMESPACE.to_owned(),
            name: lease::SCHEDULER.to_owned(),
            length: seconds(lease::DURATION_SECONDS),
            deadline: seconds(lease::RENEW_SECONDS),
            retry: seconds(lease::RETRY_SECONDS),
        }
    }
}

/// How pods of one `schedulerName` are scheduled.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub scheduler_name: String,
    pub points: Points,
    pub arguments: Arguments,
}

impl Profile {
    /// The default plugins and nothing else.
    pub fn plain(scheduler_name: &str) -> Self {
        let points = merge::merge(&file::Plugins::default(), "plugins", &mut Vec::new());
        let scheduler_name = scheduler_name.to_owned();
        Self { scheduler_name, points, arguments: Arguments::default() }
    }
}

/// One profile with the default plugins, as without a file.
impl Default for Configuration {
    fn default() -> Self {
        Self {
            lease: Some(Lease::default()),
            kubeconfig: None,
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            profiles: vec![Profile::plain(SCHEDULER_PROFILE)],
            extenders: Vec::new(),
        }
    }
}
