//! The files of the pages, embedded in the program.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

/// One file.
#[derive(Debug)]
pub(super) struct Asset {
    pub(super) path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! asset {
    ($path:literal, $kind:expr, $file:literal) => {
        Asset { path: $path, kind: $kind, text: include_str!(concat!("../../web/", $file)) }
    };
}

pub(super) static ALL: &[Asset] = &[
    asset!("/", HTML, "index.html"),
    asset!("/style.css", CSS, "style.css"),
    asset!("/icon.svg", SVG, "icon.svg"),
    asset!("/app.js", SCRIPT, "app.js"),
    asset!("/charts.js", SCRIPT, "charts.js"),
    asset!("/elements.js", SCRIPT, "elements.js"),
    asset!("/format.js", SCRIPT, "format.js"),
    asset!("/live.js", SCRIPT, "live.js"),
    asset!("/sum.js", SCRIPT, "sum.js"),
    asset!("/switch.js", SCRIPT, "switch.js"),
    asset!("/pages/overview.js", SCRIPT, "pages/overview.js"),
    asset!("/pages/nodes.js", SCRIPT, "pages/nodes.js"),
    asset!("/pages/node.js", SCRIPT, "pages/node.js"),
    asset!("/pages/pods.js", SCRIPT, "pages/pods.js"),
    asset!("/pages/pod.js", SCRIPT, "pages/pod.js"),
    asset!("/pages/decisions.js", SCRIPT, "pages/decisions.js"),
    asset!("/pages/replay.js", SCRIPT, "pages/replay.js"),
    asset!("/pages/config.js", SCRIPT, "pages/config.js"),
    asset!("/pages/benefit.js", SCRIPT, "pages/benefit.js"),
];

impl Asset {
    /// A browser that has the file already is told so.
    pub(super) async fn answer(&self, headers: HeaderMap) -> Response {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        let tag = format!("\"{:x}\"", hasher.finish());
        let known =
            headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
        let own = [(ETAG, tag), (CACHE_CONTROL, "no-cache".to_owned())];
        match known {
            true => (StatusCode::NOT_MODIFIED, own).into_response(),
            false => (own, [(CONTENT_TYPE, self.kind)], self.text).into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_load_nothing_from_elsewhere_and_hold_no_inline_script() {
        for Asset { path, text, .. } in ALL {
            for forbidden in ["https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval("] {
                assert!(!text.contains(forbidden), "{path} has {forbidden}");
            }
            let names = text.matches("http://").count();
            let spaces = text.matches("http://www.w3.org/").count();
            assert_eq!(names, spaces, "{path} names an address");
            let scripts = text.matches("<script").count();
            assert_eq!(scripts, text.matches("<script type=\"module\" src=\"").count(), "{path}");
            assert!(!text.contains(" style=") && !text.contains(" onclick="), "{path}");
        }
    }

    #[test]
    fn every_import_is_served() {
        for Asset { path, text, .. } in ALL {
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let (_, rest) = line.split_once(" from \"").expect("an import names its file");
                let file = rest.trim_end_matches("\";");
                assert!(ALL.iter().any(|other| other.path == file), "{path} imports {file}");
            }
        }
    }
}
