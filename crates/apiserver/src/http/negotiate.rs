//! In which form does the client want its answer, and in which form is its body?
//!
//! JSON is spoken throughout and YAML on request. Protobuf is never produced: clients that prefer
//! it list JSON as well and get that; a client that insists gets 406, as it would for custom
//! resources on any Kubernetes server.

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};

use super::status::Status;

/// The text form of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    #[default]
    Json,
    PrettyJson,
    Yaml,
}

/// The shape of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Object,
    /// `meta.k8s.io` Table of the named version.
    Table(&'static str),
    /// PartialObjectMetadata or its list, of the named version.
    Metadata(&'static str),
    /// APIGroupDiscoveryList of the named version.
    Discovery(&'static str),
}

/// What was agreed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub encoding: Encoding,
    pub view: View,
}

/// Which transformed shapes an endpoint can produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shapes {
    /// Only the object itself.
    Plain,
    /// Tables and metadata of one object.
    One,
    /// Tables and metadata lists.
    Many,
    /// Events, whose objects clients ask for in either form.
    Watch,
    Discovery,
}

const PRODUCED: [&str; 2] = ["application/json", "application/yaml"];

struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    params: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let params: Vec<_> = parts
            .filter_map(|part| part.split_once('='))
            .map(|(key, value)| (key.trim(), value.trim().trim_matches('"')))
            .collect();
        let quality = params
            .iter()
            .find(|(key, _)| *key == "q")
            .map_or(Some(1.0), |(_, value)| value.parse().ok())
            .unwrap_or(1.0);
        Some(Self { kind: kind.trim(), subtype: subtype.trim(), params, quality })
    }

    fn param(&self, name: &str) -> &'a str {
        self.params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| *value)
    }

    fn specificity(&self) -> u8 {
        match (self.kind, self.subtype) {
            ("*", _) => 0,
            (_, "*") => 1,
            _ => 2,
        }
    }

    fn encoding(&self) -> Option<Encoding> {
        match (self.kind, self.subtype) {
            ("*", "*") | ("application", "*" | "json") if self.param("pretty") == "1" => {
                Some(Encoding::PrettyJson)
            }
            ("*", "*") | ("application", "*" | "json") => Some(Encoding::Json),
            ("application", "yaml") => Some(Encoding::Yaml),
            _ => None,
        }
    }

    fn view(&self, shapes: Shapes) -> Option<View> {
        let version = match self.param("v") {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            "v2" => "v2",
            "v2beta1" => "v2beta1",
            _ => "",
        };
        match (self.param("as"), self.param("g"), version, shapes) {
            ("", ..) => Some(View::Object),
            (
                "Table",
                "meta.k8s.io",
                "v1" | "v1beta1",
                Shapes::One | Shapes::Many | Shapes::Watch,
            ) => Some(View::Table(version)),
            (
                "PartialObjectMetadata",
                "meta.k8s.io",
                "v1" | "v1beta1",
                Shapes::One | Shapes::Watch,
            )
            | (
                "PartialObjectMetadataList",
                "meta.k8s.io",
                "v1" | "v1beta1",
                Shapes::Many | Shapes::Watch,
            ) => Some(View::Metadata(version)),
            (
                "APIGroupDiscoveryList",
                "apidiscovery.k8s.io",
                "v2" | "v2beta1",
                Shapes::Discovery,
            ) => Some(View::Discovery(version)),
            _ => None,
        }
    }
}

/// Chooses the best clause of `Accept` that this endpoint can honour.
pub(super) fn accept(headers: &HeaderMap, pretty: bool, shapes: Shapes) -> Result<Answer, Status> {
    let header = headers.get(ACCEPT).map(|value| value.to_str().unwrap_or("invalid"));
    let Some(header) = header.filter(|text| !text.trim().is_empty()) else {
        return Ok(prettier(Answer::default(), pretty));
    };
    let mut clauses: Vec<_> = header.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| {
        b.quality.total_cmp(&a.quality).then(b.specificity().cmp(&a.specificity()))
    });
    for clause in &clauses {
        if let (Some(encoding), Some(view)) = (clause.encoding(), clause.view(shapes)) {
            return Ok(prettier(Answer { encoding, view }, pretty));
        }
    }
    // Typed Go clients always list JSON too; whoever wants protobuf alone is told so.
    let known = |clause: &Clause<'_>| {
        clause.encoding().is_some() || clause.subtype == "vnd.kubernetes.protobuf"
    };
    if clauses.iter().any(known) {
        return Err(Status::not_acceptable(&PRODUCED));
    }
    Err(Status::no_such_form())
}

fn prettier(mut answer: Answer, pretty: bool) -> Answer {
    if pretty && answer.encoding == Encoding::Json {
        answer.encoding = Encoding::PrettyJson;
    }
    answer
}

/// The format of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    Json,
    Yaml,
    Protobuf,
    JsonPatch,
    MergePatch,
    StrategicMergePatch,
    Apply,
}

/// Forms of whole objects; custom resources have no protobuf form.
const OBJECTS: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Patch types of custom resources, which know no strategic merge patch.
const PATCHES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The format of a whole object in a body; absent means JSON.
pub(super) fn object_body(headers: &HeaderMap, custom: bool) -> Result<BodyKind, Status> {
    match media_type(headers).as_str() {
        "" | "application/json" => Ok(BodyKind::Json),
        "application/yaml" | "application/x-yaml" => Ok(BodyKind::Yaml),
        "application/vnd.kubernetes.protobuf" if !custom => Ok(BodyKind::Protobuf),
        _ => {
            let accepted = if custom { &OBJECTS[..2] } else { &OBJECTS[..] };
            Err(Status::unsupported_media_type(accepted))
        }
    }
}

pub(super) fn patch_body(headers: &HeaderMap, strategic: bool) -> Result<BodyKind, Status> {
    match media_type(headers).as_str() {
        "application/json-patch+json" => Ok(BodyKind::JsonPatch),
        "application/merge-patch+json" => Ok(BodyKind::MergePatch),
        "application/apply-patch+yaml" => Ok(BodyKind::Apply),
        "application/strategic-merge-patch+json" if strategic => Ok(BodyKind::StrategicMergePatch),
        "application/strategic-merge-patch+json" => Err(Status::unsupported_media_type(&PATCHES)),
        _ => Err(Status::no_such_patch()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clause_we_can_honour_wins() {
        let json = |view| Answer { encoding: Encoding::Json, view };
        let cases = [
            ("none given", "", Shapes::One, Some(json(View::Object))),
            ("anything", "*/*", Shapes::One, Some(json(View::Object))),
            (
                "protobuf with a fallback",
                "application/vnd.kubernetes.protobuf, application/json",
                Shapes::One,
                Some(json(View::Object)),
            ),
            ("only protobuf", "application/vnd.kubernetes.protobuf", Shapes::One, None),
            (
                "kubectl get",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Shapes::Many,
                Some(json(View::Table("v1"))),
            ),
            (
                "a table where none exists",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Shapes::Plain,
                Some(json(View::Object)),
            ),
            (
                "a list of metadata asked of one object",
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                Shapes::One,
                None,
            ),
            (
                "quality orders clauses",
                "application/yaml;q=0.5,application/json",
                Shapes::One,
                Some(json(View::Object)),
            ),
            (
                "yaml",
                "application/yaml",
                Shapes::One,
                Some(Answer { encoding: Encoding::Yaml, view: View::Object }),
            ),
            (
                "aggregated discovery",
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,*/*",
                Shapes::Discovery,
                Some(json(View::Discovery("v2"))),
            ),
            ("html", "text/html", Shapes::One, None),
            ("nonsense", ";;,/", Shapes::One, None),
        ];
        for (name, header, shapes, want) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, header.parse().unwrap());
            assert_eq!(accept(&headers, false, shapes).ok(), want, "{name}");
        }
    }

    #[test]
    fn bodies_are_known_by_their_type() {
        let cases = [
            ("", Some(BodyKind::Json)),
            ("application/json; charset=utf-8", Some(BodyKind::Json)),
            ("application/yaml", Some(BodyKind::Yaml)),
            ("application/vnd.kubernetes.protobuf", Some(BodyKind::Protobuf)),
            ("application/cbor", None),
            ("application/x-www-form-urlencoded", None),
        ];
        for (text, want) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, text.parse().unwrap());
            assert_eq!(object_body(&headers, false).ok(), want, "{text}");
            let custom = want.filter(|kind| *kind != BodyKind::Protobuf);
            assert_eq!(object_body(&headers, true).ok(), custom, "{text}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "application/strategic-merge-patch+json".parse().unwrap());
        assert_eq!(patch_body(&headers, true).ok(), Some(BodyKind::StrategicMergePatch));
        assert!(patch_body(&headers, false).is_err());
    }
}
