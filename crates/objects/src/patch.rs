//! What does an object look like after a patch?
//!
//! | content type | function | lists |
//! |---|---|---|
//! | `application/json-patch+json` | [`json`] (RFC 6902) | by position |
//! | `application/merge-patch+json` | [`merge()`] (RFC 7396) | replaced |
//! | `application/strategic-merge-patch+json` | [`strategic()`] | merged where the schema says so |
//! | `application/apply-patch+yaml` | [`crate::apply`] | merged, with owners |
//!
//! The functions neither default nor validate, and they do not look at who writes. Quirks of
//! kube-apiserver that clients can see are kept, and said where they are.

pub(crate) mod go_text;
mod json;
mod merge;
mod strategic;

pub use json::json;
pub use merge::merge;
pub use strategic::strategic;

#[cfg(test)]
pub(crate) use json::tests::any_json;

/// Why a patch is refused. The text says what is wrong; [`PatchError::message`] is what goes on the wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: the patch itself is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// 413: more operations than a JSON patch may have.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// 415: this kind cannot be patched this way.
    #[error(
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )]
    UnsupportedMediaType,
    /// 422: the patch does not fit the object.
    #[error("{0}")]
    Unprocessable(String),
    /// 500 without a reason, which is how the reference reports the rest.
    #[error("{0}")]
    Other(String),
}

/// Operations that one JSON patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

impl PatchError {
    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::TooManyOperations(_) => 413,
            Self::UnsupportedMediaType => 415,
            Self::Unprocessable(_) => 422,
            Self::Other(_) => 500,
        }
    }

    /// `reason` of the Status.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadRequest(_) => "BadRequest",
            Self::TooManyOperations(_) => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::Unprocessable(_) => "Invalid",
            Self::Other(_) => "",
        }
    }

    /// `message` of the Status. The reference keeps the cause of a 422 to itself.
    pub fn message(&self) -> String {
        match self {
            Self::Unprocessable(_) => {
                "the server rejected our request due to an error in our request".to_owned()
            }
            Self::TooManyOperations(_) => format!("Request entity too large: {self}"),
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
