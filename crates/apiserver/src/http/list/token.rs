//! The continue token: which moment, and after which object.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::http::status::Status;
use crate::store::{Key, Revision};

/// Where a list goes on. Clients see it as opaque text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// `None` goes on with whatever is there now.
    pub(super) revision: Option<Revision>,
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
}

const VERSION: &str = "meta.k8s.io/v1";

impl Token {
    pub(super) fn after(revision: Revision, key: &Key) -> Self {
        Self {
            revision: Some(revision),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wire = Wire {
            v: VERSION.to_owned(),
            rv: self.revision.and_then(|revision| i64::try_from(revision.0).ok()).unwrap_or(-1),
            start: format!("{}/{}", self.namespace, self.name),
        };
        let text = serde_json::to_vec(&wire).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(text))
    }
}

impl FromStr for Token {
    type Err = Status;

    fn from_str(text: &str) -> Result<Self, Status> {
        let invalid = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|error| invalid(&error.to_string()))?;
        let wire: Wire =
            serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
        if wire.v != VERSION {
            return Err(invalid(&format!(
                "server does not recognize this encoded version {:?}",
                wire.v
            )));
        }
        let (namespace, name) =
            wire.start.split_once('/').ok_or_else(|| invalid("encoded start key is not valid"))?;
        Ok(Self {
            revision: u64::try_from(wire.rv).ok().filter(|rv| *rv > 0).map(Revision),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_round_trip() {
        for revision in [Some(Revision(7)), None] {
            let token = Token { revision, namespace: "a".into(), name: "b".into() };
            assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        }
        for wrong in ["", "x", "e30", "bm90IGpzb24"] {
            assert_eq!(wrong.parse::<Token>().unwrap_err().code, 400, "{wrong}");
        }
    }
}
