//! What does a URL path ask for?
//!
//! Kubernetes paths are regular enough to be split by hand, which lets kinds come and go with
//! their CustomResourceDefinitions without touching a routing table:
//!
//! ```text
//! /api/v1/namespaces/NS/pods/NAME/SUB      core group
//! /apis/GROUP/VERSION/RESOURCE/NAME/SUB    every other group
//! /api/v1/watch/...                        old spelling of ?watch=1
//! ```
//!
//! Segments are decoded one by one after splitting, and anything that could climb, hide a slash or
//! stand for an empty name is refused.

/// A request's destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// `/`: the list of paths.
    Root,
    Version,
    /// `/healthz`, `/livez`, `/readyz`, optionally one check below them.
    Health(String),
    Metrics,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    Group(String),
    GroupVersion {
        group: String,
        version: String,
    },
    OpenApiV2,
    OpenApiV3,
    OpenApiV3Group(String),
    Resource(Target),
}

/// A resource, an object of it, or one of the object's subresources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// The path used the old `/watch/` prefix.
    pub watch: bool,
}

/// Why a path cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathError {
    /// Nothing lives there.
    NotFound,
    /// The text itself is broken: bad escapes, control characters.
    Malformed,
}

/// Longest path worth looking at; object names end at 253 characters.
const MAX_PATH: usize = 4096;

pub(super) fn parse(path: &str) -> Result<Route, PathError> {
    if path.len() > MAX_PATH {
        return Err(PathError::Malformed);
    }
    let rest = path.strip_prefix('/').ok_or(PathError::Malformed)?;
    if rest.is_empty() {
        return Ok(Route::Root);
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let segments = rest.split('/').map(decode).collect::<Result<Vec<String>, _>>()?;
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["version"] => Ok(Route::Version),
        ["healthz" | "livez" | "readyz", ..] if words.len() <= 3 => {
            Ok(Route::Health(words.join("/")))
        }
        ["metrics"] => Ok(Route::Metrics),
        ["openapi", "v2"] => Ok(Route::OpenApiV2),
        ["openapi", "v3"] => Ok(Route::OpenApiV3),
        ["openapi", "v3", below @ ..] => Ok(Route::OpenApiV3Group(below.join("/"))),
        ["api"] => Ok(Route::CoreVersions),
        ["api", version] => {
            Ok(Route::GroupVersion { group: String::new(), version: (*version).into() })
        }
        ["api", version, below @ ..] => resource("", version, below),
        ["apis"] => Ok(Route::Groups),
        ["apis", group] => Ok(Route::Group((*group).into())),
        ["apis", group, version] => {
            Ok(Route::GroupVersion { group: (*group).into(), version: (*version).into() })
        }
        ["apis", group, version, below @ ..] => resource(group, version, below),
        _ => Err(PathError::NotFound),
    }
}

fn resource(group: &str, version: &str, below: &[&str]) -> Result<Route, PathError> {
    let (watch, below) = match below {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, below),
    };
    let mut target =
        Target { group: group.into(), version: version.into(), watch, ..Target::default() };
    let parts = match below {
        // The namespace object itself, its status and its finalizers; everything else below a
        // namespace is a namespaced resource.
        ["namespaces", name, sub @ ("status" | "finalize")] => &["namespaces", *name, *sub][..],
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
            target.namespace = Some((*namespace).into());
            rest
        }
        _ => below,
    };
    match parts {
        [resource] => target.resource = (*resource).into(),
        [resource, name] => {
            target.resource = (*resource).into();
            target.name = Some((*name).into());
        }
        [resource, name, sub] => {
            target.resource = (*resource).into();
            target.name = Some((*name).into());
            target.subresource = Some((*sub).into());
        }
        _ => return Err(PathError::NotFound),
    }
    Ok(Route::Resource(target))
}

fn decode(segment: &str) -> Result<String, PathError> {
    let decoded = percent_decode(segment).ok_or(PathError::Malformed)?;
    // `%` is refused as well: no name may hold one, and a second decoder further on must not find
    // a new escape.
    let climbs = matches!(decoded.as_str(), "" | "." | "..");
    if climbs || decoded.contains(['/', '\\', '%']) {
        return Err(PathError::NotFound);
    }
    if decoded.chars().any(char::is_control) {
        return Err(PathError::Malformed);
    }
    Ok(decoded)
}

/// Undoes `%XX` escapes; `None` for broken ones and for text that is not UTF-8.
pub(super) fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(path: &str) -> Target {
        match parse(path) {
            Ok(Route::Resource(target)) => target,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn resource_paths_split_into_their_parts() {
        let core = Target { version: "v1".into(), ..Target::default() };
        let some = |text: &str| Some(text.to_owned());
        let cases = [
            (
                "a cluster list",
                "/api/v1/nodes",
                Target { resource: "nodes".into(), ..core.clone() },
            ),
            (
                "a pod's log",
                "/api/v1/namespaces/a/pods/p/log",
                Target {
                    resource: "pods".into(),
                    namespace: some("a"),
                    name: some("p"),
                    subresource: some("log"),
                    ..core.clone()
                },
            ),
            (
                "a namespace is an object",
                "/api/v1/namespaces/a",
                Target { resource: "namespaces".into(), name: some("a"), ..core.clone() },
            ),
            (
                "a namespace's finalizers",
                "/api/v1/namespaces/a/finalize",
                Target {
                    resource: "namespaces".into(),
                    name: some("a"),
                    subresource: some("finalize"),
                    ..core.clone()
                },
            ),
            (
                "names may hold an escaped colon",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode/",
                Target {
                    group: "rbac.authorization.k8s.io".into(),
                    version: "v1".into(),
                    resource: "clusterroles".into(),
                    name: some("system:node"),
                    ..Target::default()
                },
            ),
            (
                "the old watch prefix",
                "/api/v1/watch/namespaces/a/pods",
                Target {
                    resource: "pods".into(),
                    namespace: some("a"),
                    watch: true,
                    ..core.clone()
                },
            ),
        ];
        for (name, path, want) in cases {
            assert_eq!(target(path), want, "{name}");
        }
    }

    #[test]
    fn tricks_lead_nowhere() {
        let cases = [
            ("climbing", "/api/v1/../secrets", PathError::NotFound),
            ("escaped climbing", "/api/v1/%2e%2e/secrets", PathError::NotFound),
            ("a hidden slash", "/api/v1/namespaces/a%2fpods", PathError::NotFound),
            ("twice escaped", "/api/v1/pods/%252f", PathError::NotFound),
            ("an empty namespace", "/api/v1/namespaces//pods", PathError::NotFound),
            ("doubled slashes", "//api/v1/pods", PathError::NotFound),
            ("a broken escape", "/api/v1/pods/%zz", PathError::Malformed),
            ("a cut escape", "/api/v1/pods/%4", PathError::Malformed),
            ("not UTF-8", "/api/v1/pods/%ff", PathError::Malformed),
            ("a NUL", "/api/v1/pods/%00", PathError::Malformed),
            ("too deep", "/api/v1/namespaces/a/pods/p/log/more", PathError::NotFound),
            ("no slash at all", "api/v1/pods", PathError::Malformed),
            ("elsewhere", "/etc/passwd", PathError::NotFound),
        ];
        for (name, path, want) in cases {
            assert_eq!(parse(path), Err(want), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "(/|api|apis|%|2f|namespaces|\\.|[a-z]|\\PC){0,24}") {
            let _ = parse(&path);
        }
    }
}
