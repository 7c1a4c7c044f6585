//! In which order do the packets of a device leave? Its root queueing discipline.
//!
//! The kernel gives every device one, without a handle; whoever chooses another (`tc`, a CNI plugin, an
//! operator) gives it a handle. Taking a chosen one away brings the kernel's own back, with all classes and
//! filters below it gone.

mod fake;
mod tc;

use std::fmt::Debug;
use std::io;
use std::time::Duration;

pub use self::fake::FakeQdiscs;
pub use self::tc::Tc;

/// Why a queueing discipline could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum QdiscError {
    #[error("there is no device {device}")]
    NoDevice { device: String },

    #[error("cannot run {program}")]
    Program { program: String, source: io::Error },

    #[error("{program} did not end within {} ms and was killed", limit.as_millis())]
    TimedOut { program: String, limit: Duration },

    #[error("tc: {0}")]
    Refused(String),
}

/// What can be done to queueing disciplines.
pub trait Qdiscs: Debug + Send {
    /// The root that somebody chose for a device, in tc's words; `None` for the kernel's own.
    fn root(&self, device: &str) -> Result<Option<String>, QdiscError>;

    /// Carries out commands of tc, one a line, up to the first that fails.
    fn batch(&self, commands: &str) -> Result<(), QdiscError>;

    /// Takes a chosen root away.
    fn remove_root(&self, device: &str) -> Result<(), QdiscError>;
}

/// The chosen root among the lines of `tc qdisc show`; what nobody chose has no handle.
fn chosen_root(shown: &str) -> Option<String> {
    let mut lines = shown.lines().filter_map(|line| line.strip_prefix("qdisc "));
    let root = lines.find(|line| line.contains(" root"))?;
    (root.split(' ').nth(1) != Some("0:")).then(|| root.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_chose_has_no_handle() {
        let cases = [
            ("the kernel's own", "qdisc noqueue 0: root refcnt 2 \n", None),
            ("many queues", "qdisc mq 0: root \nqdisc fq_codel 0: parent :1\n", None),
            ("chosen", "qdisc fq 8001: root refcnt 2\n", Some("fq 8001: root refcnt 2")),
            ("below a root", "qdisc htb 1: root\nqdisc sfq 10: parent 1:10\n", Some("htb 1: root")),
            ("only ingress", "qdisc clsact ffff: parent ffff:fff1\n", None),
            ("nothing", "", None),
        ];
        for (name, shown, want) in cases {
            assert_eq!(chosen_root(shown).as_deref(), want, "{name}");
        }
    }
}
