//! What does one event look like on the wire?

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use serde_json::{Value, json};

use crate::http::call::Call;
use crate::http::kinds::Served;
use crate::http::negotiate::View;
use crate::http::status::Status;
use crate::http::table::{self, Included};
use crate::http::{convert, meta, respond};
use crate::store::Revision;

/// Writes events in the shape the client asked for.
pub(super) struct Frames {
    served: Arc<Served>,
    view: View,
    verbatim: bool,
    include: Included,
    clock: Arc<dyn crate::http::source::Clock>,
    /// Table columns are described once.
    described: bool,
}

impl Frames {
    pub(super) fn new(call: &Call, view: View) -> Self {
        Self {
            served: call.served.clone(),
            view,
            verbatim: view == View::Object && convert::is_verbatim(&call.served),
            include: Included::from_query(&call.query),
            clock: call.server.options().clock.clone(),
            described: false,
        }
    }

    pub(super) fn push(&mut self, chunk: &mut BytesMut, kind: &str, json: &[u8]) {
        if self.verbatim && convert::fits(&self.served, json) {
            frame(chunk, kind, json);
            return;
        }
        let Ok(mut object) = serde_json::from_slice::<Value>(json) else { return };
        convert::from_storage(&mut object, &self.served);
        self.push_value(chunk, kind, object);
    }

    /// An object that stopped matching, as it was, dated at the change.
    pub(super) fn departed(&mut self, chunk: &mut BytesMut, json: &[u8], revision: Revision) {
        let Ok(mut object) = serde_json::from_slice::<Value>(json) else { return };
        convert::from_storage(&mut object, &self.served);
        meta::set(&mut object, "resourceVersion", revision.to_string());
        self.push_value(chunk, "DELETED", object);
    }

    pub(super) fn bookmark(&mut self, chunk: &mut BytesMut, revision: Revision, initial: bool) {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({
            "kind": self.served.kind,
            "apiVersion": self.served.api_version(),
            "metadata": metadata,
        });
        self.push_value(chunk, "BOOKMARK", object);
    }

    fn push_value(&mut self, chunk: &mut BytesMut, kind: &str, object: Value) {
        let shaped = match self.view {
            View::Object | View::Discovery(_) => object,
            View::Metadata(version) => respond::metadata_only(&object, version),
            View::Table(version) => {
                let rows = table::rows(&self.served, &[object], self.include, self.clock.now());
                let columns = (!self.described).then(|| table::definitions(&self.served));
                self.described = true;
                table::assemble(version, columns, rows, &json!({}))
            }
        };
        let Ok(json) = serde_json::to_vec(&shaped) else { return };
        frame(chunk, kind, &json);
    }
}

/// A failure told inside the stream.
pub(super) fn error(status: &Status) -> BytesMut {
    let mut chunk = BytesMut::new();
    frame(&mut chunk, "ERROR", &status.to_json());
    chunk
}

fn frame(chunk: &mut BytesMut, kind: &str, json: &[u8]) {
    chunk.reserve(json.len() + 40);
    chunk.put_slice(b"{\"type\":\"");
    chunk.put_slice(kind.as_bytes());
    chunk.put_slice(b"\",\"object\":");
    chunk.put_slice(json);
    chunk.put_slice(b"}\n");
}
