//! Which container, of which runtime?

use std::fmt;
use std::str::FromStr;

/// Who runs the containers of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runtime {
    Containerd,
    Docker,
    CriO,
    Pouch,
    /// The node of one-machine mode.
    Tidepool,
}

impl Runtime {
    pub const ALL: [Self; 5] =
        [Self::Containerd, Self::Docker, Self::CriO, Self::Pouch, Self::Tidepool];

    /// As in `containerd://<id>` of a container status.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Docker => "docker",
            Self::CriO => "cri-o",
            Self::Pouch => "pouch",
            Self::Tidepool => "tidepool",
        }
    }

    /// What stands before the id in the name of a systemd scope; one-machine mode has no systemd.
    pub(crate) fn scope_prefix(self) -> Option<&'static str> {
        match self {
            Self::Containerd => Some("cri-containerd-"),
            Self::Docker => Some("docker-"),
            Self::CriO => Some("crio-"),
            Self::Pouch => Some("pouch-"),
            Self::Tidepool => None,
        }
    }
}

/// A container's id with its runtime, as in a pod's status: `containerd://4f1c...`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId {
    runtime: Runtime,
    id: String,
}

/// Why a text is no container id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContainerIdError {
    #[error("container id {0:?}: expected containerd, docker, cri-o, pouch or tidepool before ://")]
    Runtime(String),

    #[error("container id {0:?}: the id must be letters, digits, dots, dashes and underscores")]
    Id(String),
}

impl ContainerId {
    pub fn runtime(&self) -> Runtime {
        self.runtime
    }

    /// The id alone.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl FromStr for ContainerId {
    type Err = ContainerIdError;

    fn from_str(text: &str) -> Result<Self, ContainerIdError> {
        let found = Runtime::ALL.into_iter().find_map(|runtime| {
            Some((runtime, text.strip_prefix(runtime.scheme())?.strip_prefix("://")?))
        });
        let (runtime, id) = found.ok_or_else(|| ContainerIdError::Runtime(text.to_owned()))?;
        // The id becomes part of a path.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if id.is_empty() || id.starts_with('.') || !id.bytes().all(is_plain) {
            return Err(ContainerIdError::Id(text.to_owned()));
        }
        Ok(Self { runtime, id: id.to_owned() })
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.runtime.scheme(), self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runtime_prints_as_it_reads() {
        for runtime in Runtime::ALL {
            let text = format!("{}://4f1c", runtime.scheme());
            let id: ContainerId = text.parse().unwrap();
            assert_eq!((id.runtime(), id.id(), id.to_string()), (runtime, "4f1c", text.clone()));
        }
    }

    #[test]
    fn an_id_cannot_be_a_path() {
        for text in ["containerd://", "containerd://a/b", "containerd://..", "docker://\u{e9}"] {
            assert_eq!(text.parse::<ContainerId>(), Err(ContainerIdError::Id(text.into())));
        }
        for text in ["", "4f1c", "rkt://4f1c", "containerd:4f1c"] {
            assert_eq!(text.parse::<ContainerId>(), Err(ContainerIdError::Runtime(text.into())));
        }
    }
}
