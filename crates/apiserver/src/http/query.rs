//! What did the client ask for after the question mark?
//!
//! The option structs mirror `metav1.ListOptions` and its siblings. Parsing is as lenient as
//! Kubernetes is (any boolean but `0` and `false` is true), validation as strict.

use axum::http::HeaderMap;
use axum::http::header::USER_AGENT;
use serde_json::json;

use super::path::percent_decode;
use super::status::{Cause, Status};

/// The decoded pairs of a query string.
#[derive(Debug, Clone, Default)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty())
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((form_decode(key)?, form_decode(value)?))
            })
            .collect();
        Self { pairs }
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn text(&self, key: &str) -> String {
        self.get(key).unwrap_or_default().to_owned()
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        Some(value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(super) fn integer(&self, key: &str) -> Result<Option<i64>, Status> {
        match self.get(key) {
            None | Some("") => Ok(None),
            Some(value) => value.parse().map(Some).map_err(|_| {
                Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"))
            }),
        }
    }
}

fn form_decode(text: &str) -> Option<String> {
    percent_decode(&text.replace('+', " "))
}

/// How exactly a list's revision must be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    Exact,
    NotOlderThan,
}

/// `metav1.ListOptions`, which also govern watches.
#[derive(Debug, Clone, Default)]
pub(super) struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    pub watch: bool,
    pub allow_bookmarks: bool,
    pub resource_version: String,
    pub resource_version_match: Option<Match>,
    pub timeout_seconds: Option<u64>,
    pub limit: Option<usize>,
    pub next: String,
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    pub(super) fn from_query(query: &Query, watch: bool) -> Result<Self, Status> {
        let watch = watch || query.flag("watch").unwrap_or(false);
        let mut causes = Vec::new();
        let resource_version_match = match query.get("resourceVersionMatch") {
            None | Some("") => None,
            Some("Exact") => Some(Match::Exact),
            Some("NotOlderThan") => Some(Match::NotOlderThan),
            Some(other) => {
                causes.push(Cause::unsupported(
                    "resourceVersionMatch",
                    &json!(other),
                    &["Exact", "NotOlderThan", ""],
                ));
                None
            }
        };
        let options = Self {
            label_selector: query.text("labelSelector"),
            field_selector: query.text("fieldSelector"),
            watch,
            allow_bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            resource_version: query.text("resourceVersion"),
            resource_version_match,
            timeout_seconds: query
                .integer("timeoutSeconds")?
                .and_then(|seconds| u64::try_from(seconds).ok()),
            limit: query
                .integer("limit")?
                .filter(|limit| *limit > 0)
                .and_then(|limit| usize::try_from(limit).ok()),
            next: query.text("continue"),
            send_initial_events: query.flag("sendInitialEvents"),
        };
        options.check(&mut causes);
        if causes.is_empty() {
            Ok(options)
        } else {
            Err(Status::invalid("meta.k8s.io", "ListOptions", "", causes))
        }
    }

    fn check(&self, causes: &mut Vec<Cause>) {
        let mut forbid = |field: &str, why: &str| causes.push(Cause::forbidden(field, why));
        let matching = self.resource_version_match;
        if self.watch {
            match (self.send_initial_events, matching) {
                (Some(_), Some(Match::NotOlderThan)) | (None, None) => {}
                (Some(_), None) => forbid(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ),
                (Some(_), Some(Match::Exact)) => forbid(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ),
                (None, Some(_)) => forbid(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is \
                     provided",
                ),
            }
            return;
        }
        if self.send_initial_events.is_some() {
            forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if matching.is_some() && self.resource_version.is_empty() {
            forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if matching.is_some() && !self.next.is_empty() {
            forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            );
        }
        if matching == Some(Match::Exact) && self.resource_version == "0" {
            forbid(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            );
        }
    }
}

/// What to do about fields the schema does not know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Options shared by create, update and patch.
#[derive(Debug, Clone)]
pub(super) struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: String,
    /// The client named its manager itself; apply requires it.
    pub named_manager: bool,
    pub field_validation: FieldValidation,
    pub force: Option<bool>,
}

/// Longest field manager Kubernetes accepts, in bytes.
const MAX_MANAGER: usize = 128;

impl WriteOptions {
    /// `kind` names the options in errors: `CreateOptions`, `UpdateOptions`, `PatchOptions`.
    pub(super) fn from_query(
        query: &Query,
        headers: &HeaderMap,
        kind: &str,
    ) -> Result<Self, Status> {
        let mut causes = Vec::new();
        let dry_run = dry_run(query.all("dryRun"), &mut causes);
        let named = query.text("fieldManager");
        check_manager(&named, &mut causes);
        let field_validation = match query.get("fieldValidation") {
            None | Some("") | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                causes.push(Cause::unsupported(
                    "fieldValidation",
                    &json!(other),
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        if !causes.is_empty() {
            return Err(Status::invalid("meta.k8s.io", kind, "", causes));
        }
        Ok(Self {
            dry_run,
            named_manager: !named.is_empty(),
            field_manager: if named.is_empty() { manager_of(headers) } else { named },
            field_validation,
            force: query.flag("force"),
        })
    }
}

/// Reads `dryRun`, whose only value is `All`.
pub(super) fn dry_run<'a>(values: impl Iterator<Item = &'a str>, causes: &mut Vec<Cause>) -> bool {
    let mut dry = false;
    for value in values {
        match value {
            "All" => dry = true,
            other => causes.push(Cause::unsupported("dryRun", &json!([other]), &["All"])),
        }
    }
    dry
}

fn check_manager(manager: &str, causes: &mut Vec<Cause>) {
    if manager.len() > MAX_MANAGER {
        causes.push(Cause {
            reason: "FieldValueTooLong".into(),
            message: format!("Too long: may not be more than {MAX_MANAGER} bytes"),
            field: "fieldManager".into(),
        });
    }
    if let Some(bad) = manager.chars().find(|c| c.is_control()) {
        causes.push(Cause::invalid(
            "fieldManager",
            &json!(manager),
            format!("should only contain printable characters, found {bad:?}"),
        ));
    }
}

/// The manager of a client that names none: the first word of its User-Agent, up to the slash.
fn manager_of(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let product = agent.split('/').next().unwrap_or_default().trim();
    let mut end = product.len().min(MAX_MANAGER);
    while !product.is_char_boundary(end) {
        end -= 1;
    }
    match &product[..end] {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch&limit=5&x=");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert_eq!(query.flag("watch"), Some(true));
        assert_eq!(query.integer("limit").unwrap(), Some(5));
        assert_eq!(query.integer("x").unwrap(), None);
        assert_eq!(query.get("y"), None);
    }

    #[test]
    fn list_options_obey_the_matching_rules() {
        let cases = [
            ("plain", "", true),
            ("exact revision", "resourceVersion=5&resourceVersionMatch=Exact", true),
            ("match without revision", "resourceVersionMatch=Exact", false),
            ("exact zero", "resourceVersion=0&resourceVersionMatch=Exact", false),
            ("unknown match", "resourceVersion=5&resourceVersionMatch=Near", false),
            (
                "match with continue",
                "resourceVersion=5&resourceVersionMatch=Exact&continue=x",
                false,
            ),
            ("streaming list", "sendInitialEvents=true", false),
            (
                "streaming watch",
                "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                true,
            ),
            ("streaming watch without match", "watch=1&sendInitialEvents=true", false),
            ("watch with match alone", "watch=1&resourceVersionMatch=NotOlderThan", false),
            ("limit that is no number", "limit=many", false),
        ];
        for (name, text, want) in cases {
            let got = ListOptions::from_query(&Query::parse(text), false);
            assert_eq!(got.is_ok(), want, "{name}: {got:?}");
        }
    }

    #[test]
    fn the_manager_defaults_to_the_client_program() {
        let manager = |agent: &str, query: &str| {
            let mut headers = HeaderMap::new();
            if !agent.is_empty() {
                headers.insert(USER_AGENT, agent.parse().unwrap());
            }
            WriteOptions::from_query(&Query::parse(query), &headers, "CreateOptions")
                .map(|options| options.field_manager)
                .map_err(|status| status.message)
        };
        assert_eq!(manager("kubectl/v1.32.3 (linux/amd64)", ""), Ok("kubectl".into()));
        assert_eq!(manager("kubectl/v1.32.3", "fieldManager=me"), Ok("me".into()));
        assert_eq!(manager("", ""), Ok("unknown".into()));
        assert!(manager("", &format!("fieldManager={}", "x".repeat(129))).is_err());
        assert!(manager("", "dryRun=Some").is_err());
        assert!(manager("", "fieldValidation=Maybe").is_err());
    }
}
