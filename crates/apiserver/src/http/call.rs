//! One request, once it is known which resource it is about.

use std::sync::Arc;

use axum::http::header::USER_AGENT;
use axum::http::{HeaderMap, Method};
use bytes::Bytes;

use super::auth::User;
use super::kinds::Served;
use super::path::Target;
use super::query::Query;
use super::server::ApiServer;
use super::status::{Status, Subject};
use crate::store::Key;

/// What the verbs work on.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) server: ApiServer,
    pub(super) user: User,
    pub(super) method: Method,
    pub(super) served: Arc<Served>,
    pub(super) target: Target,
    pub(super) headers: HeaderMap,
    pub(super) query: Query,
    pub(super) body: Bytes,
    /// Become `Warning` headers of the answer.
    pub(super) warnings: Vec<String>,
}

impl Call {
    pub(super) fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    pub(super) fn subresource(&self) -> &str {
        self.target.subresource.as_deref().unwrap_or_default()
    }

    /// The key of the object the path names.
    pub(super) fn key(&self) -> Result<Key, Status> {
        self.key_of(self.name())
    }

    /// The key of another object beside it.
    pub(super) fn key_of(&self, name: &str) -> Result<Key, Status> {
        self.served.key(self.namespace(), name).ok_or_else(Status::method_not_allowed)
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        self.served.subject(self.name())
    }

    pub(super) fn is_pretty(&self) -> bool {
        // People at a terminal or in a browser get line breaks without asking.
        self.query.flag("pretty").unwrap_or_else(|| {
            let agent = self.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
            let by_hand = ["curl", "Wget", "Mozilla/5.0"];
            agent.is_some_and(|agent| by_hand.iter().any(|start| agent.starts_with(start)))
        })
    }

    pub(super) fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }
}
