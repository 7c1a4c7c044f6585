//! What can a kernel file answer besides a value?

/// A value that may be missing for a reason that is not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading<T> {
    Value(T),
    /// This kernel, or this cgroup version, has no such file.
    Unsupported,
    /// The cgroup or process went away while we were reading it.
    Gone,
}

impl<T> Reading<T> {
    pub fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Unsupported | Self::Gone => None,
        }
    }

    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported)
    }

    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Value(value) => Reading::Value(f(value)),
            Self::Unsupported => Reading::Unsupported,
            Self::Gone => Reading::Gone,
        }
    }
}
