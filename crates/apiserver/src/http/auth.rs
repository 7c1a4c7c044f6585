//! Who is asking?
//!
//! One bearer token belongs to the administrator; further ones are handed out to service accounts
//! on request and live in memory. Everyone who is known may do everything: this server guards a
//! machine's owner from others, not users from each other.

use std::collections::HashMap;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::server::ApiServer;
use super::status::Status;

/// Names of service accounts begin so.
const ACCOUNT: &str = "system:serviceaccount:";

/// A known client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) groups: Vec<String>,
}

impl User {
    pub(super) fn admin() -> Self {
        Self {
            name: "kubernetes-admin".to_owned(),
            uid: String::new(),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        }
    }

    fn account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            name: format!("{ACCOUNT}{namespace}:{name}"),
            uid: uid.to_owned(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
        }
    }

    /// Namespace and name of the service account; `None` for other users.
    fn account_name(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix(ACCOUNT)?.split_once(':')
    }

    /// `authentication.k8s.io` UserInfo
    pub(super) fn to_value(&self) -> Value {
        let mut user = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            user["uid"] = json!(self.uid);
        }
        user
    }
}

/// Tokens of service accounts. Bounded: the oldest make room.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    issued: Mutex<HashMap<String, (User, Timestamp)>>,
}

const MAX_TOKENS: usize = 10_000;

impl Tokens {
    pub(super) fn issue(
        &self,
        token: String,
        account: (&str, &str, &str),
        expires: Timestamp,
        now: Timestamp,
    ) {
        let (namespace, name, uid) = account;
        let mut issued = self.issued.lock();
        issued.retain(|_, (_, end)| *end > now);
        if issued.len() >= MAX_TOKENS
            && let Some(oldest) =
                issued.iter().min_by_key(|(_, (_, end))| *end).map(|(t, _)| t.clone())
        {
            issued.remove(&oldest);
        }
        issued.insert(token, (User::account(namespace, name, uid), expires));
    }

    fn find(&self, token: &str, now: Timestamp) -> Option<User> {
        let issued = self.issued.lock();
        issued.get(token).filter(|(_, end)| *end > now).map(|(user, _)| user.clone())
    }
}

/// Finds out who sent a request.
pub(super) fn authenticate(server: &ApiServer, headers: &HeaderMap) -> Result<User, Status> {
    if server.options().token.is_none() {
        return Ok(impersonated(headers).unwrap_or_else(User::admin));
    }
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let user = token.and_then(|token| user_of(server, token)).ok_or_else(Status::unauthorized)?;
    Ok(impersonated(headers).unwrap_or(user))
}

/// Whoever may do everything may also speak as somebody else (`kubectl --as`).
fn impersonated(headers: &HeaderMap) -> Option<User> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let name = text("impersonate-user")?.to_owned();
    let mut groups: Vec<String> = headers
        .get_all("impersonate-group")
        .iter()
        .filter_map(|value| value.to_str().ok().map(str::to_owned))
        .collect();
    groups.push("system:authenticated".to_owned());
    groups.dedup();
    Some(User { name, uid: text("impersonate-uid").unwrap_or_default().to_owned(), groups })
}

/// The owner of a token.
pub(super) fn user_of(server: &ApiServer, token: &str) -> Option<User> {
    let admin = server.options().token.as_deref().unwrap_or_default();
    if !admin.is_empty() && same(admin.as_bytes(), token.as_bytes()) {
        return Some(User::admin());
    }
    let owner = server.tokens().find(token, server.options().clock.now())?;
    // A token proves that its account exists: not one that is gone, nor another of the same name.
    let (namespace, name) = owner.account_name()?;
    let account: Account = server.read("", "serviceaccounts", namespace, name)?;
    (account.metadata.uid == owner.uid).then_some(owner)
}

/// As much of a service account as matters here.
#[derive(Deserialize)]
struct Account {
    metadata: AccountMetadata,
}

#[derive(Deserialize)]
struct AccountMetadata {
    uid: String,
}

/// Compares without telling by its duration where the difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    let mut difference = u8::from(a.len() != b.len());
    for (at, byte) in b.iter().enumerate() {
        let other = a.get(at % a.len().max(1)).copied().unwrap_or(0);
        difference |= byte ^ other;
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_compare_as_a_whole() {
        assert!(same(b"secret", b"secret"));
        for wrong in ["", "secre", "secrets", "secretsecret", "Secret"] {
            assert!(!same(b"secret", wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn somebody_else_has_a_name_and_groups() {
        let mut headers = HeaderMap::new();
        assert_eq!(impersonated(&headers), None);
        headers.insert("impersonate-user", "jane".parse().unwrap());
        headers.append("impersonate-group", "dev".parse().unwrap());
        let jane = impersonated(&headers).unwrap();
        assert_eq!((jane.name.as_str(), jane.groups.len()), ("jane", 2));
    }

    #[test]
    fn issued_tokens_expire() {
        let tokens = Tokens::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        tokens.issue("t".into(), ("ns", "sa", "u"), at(100), at(0));
        let user = tokens.find("t", at(99)).unwrap();
        assert_eq!(user.name, "system:serviceaccount:ns:sa");
        assert_eq!(tokens.find("t", at(100)), None);
        assert_eq!(tokens.find("x", at(0)), None);
    }
}
