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

/// A cgroup limit: a number, or `max` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit<T> {
    Max,
    At(T),
}

impl<T> Limit<T> {
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Limit<U> {
        match self {
            Self::Max => Limit::Max,
            Self::At(value) => Limit::At(f(value)),
        }
    }

    pub fn at(self) -> Option<T> {
        match self {
            Self::Max => None,
            Self::At(value) => Some(value),
        }
    }
}
