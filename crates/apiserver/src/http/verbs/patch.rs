//! PATCH, in its four dialects.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::update::claim_name;
use crate::http::call::Call;
use crate::http::decode::{self, Complaints};
use crate::http::negotiate::{self, BodyKind, Shapes};
use crate::http::query::WriteOptions;
use crate::http::status::{Cause, Status};
use crate::http::write::{Change, Part};
use crate::http::{managers, meta, respond, write};
use objects::patch::{self, PatchError};

/// Patches an object, or the part of it a subresource stands for.
pub(in crate::http) async fn patch(call: &mut Call, part: Part) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::One)?;
    let options = WriteOptions::from_query(&call.query, &call.headers, "PatchOptions")?;
    let kind = negotiate::patch_body(&call.headers, !call.served.traits.custom)?;
    check_options(&options, kind)?;
    let body = match kind {
        BodyKind::JsonPatch => Value::Null,
        _ => decode::patch(&call.body, kind)?,
    };
    let mut change = Patch { kind, body, options: options.clone(), creates: part == Part::Main };
    let outcome = write::modify(call, &options, part, &mut change).await?;
    let code = if outcome.created { StatusCode::CREATED } else { StatusCode::OK };
    respond::one(call, answer, code, &outcome.written)
}

fn check_options(options: &WriteOptions, kind: BodyKind) -> Result<(), Status> {
    let cause = match (kind == BodyKind::Apply, options.named_manager, options.force) {
        (true, false, _) => Cause::required("fieldManager", "is required for apply patch"),
        (false, _, Some(_)) => {
            Cause::forbidden("force", "may not be specified for non-apply patch")
        }
        _ => return Ok(()),
    };
    Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]))
}

struct Patch {
    kind: BodyKind,
    body: Value,
    options: WriteOptions,
    creates: bool,
}

impl Patch {
    fn patched(&self, current: &Value, call: &Call) -> Result<Value, Status> {
        let result = match self.kind {
            BodyKind::Apply => {
                return managers::apply(call, &self.options, Some(current), &self.intent(call)?);
            }
            BodyKind::JsonPatch => patch::json(current, &call.body),
            BodyKind::StrategicMergePatch => match &call.served.schema {
                Some(schema) => patch::strategic(current, &self.body, schema),
                None => Err(PatchError::UnsupportedMediaType),
            },
            _ => patch::merge(current, &self.body),
        };
        result.map_err(refusal)
    }

    /// The applied object, completed by what the path says.
    fn intent(&self, call: &Call) -> Result<Value, Status> {
        let mut intent = self.body.clone();
        meta::check_shape(&mut intent)?;
        if meta::name(&intent).is_empty() {
            meta::set(&mut intent, "name", call.name());
        }
        claim_name(call, &intent)?;
        Ok(intent)
    }

    /// A result the client did not want is the patch's fault.
    fn about_patch(&self, message: &str) -> Status {
        let why = message.split_once("cannot be handled as a ").map_or(message, |(_, rest)| rest);
        let why = why.split_once(": ").map_or(why, |(_, rest)| rest);
        let cause = Cause::invalid("patch", &json!(self.body.to_string()), why);
        Status::invalid("", "", "", vec![cause])
    }

    fn in_shape(&self, mut object: Value, call: &mut Call) -> Result<Value, Status> {
        let mut complaints = match self.kind {
            BodyKind::JsonPatch => Complaints::default(),
            kind => Complaints::about(&call.body, kind, self.options.field_validation),
        };
        decode::check_kind(&mut object, &call.served)?;
        decode::shape(&mut object, &call.served, &mut complaints)?;
        complaints
            .settle(self.options.field_validation, &call.served, &mut call.warnings)
            .map_err(|refusal| self.about_patch(&refusal.message))?;
        claim_name(call, &object)?;
        Ok(object)
    }
}

impl Change for Patch {
    fn apply(&mut self, current: &Value, call: &mut Call) -> Result<Value, Status> {
        let object = self.patched(current, call)?;
        self.in_shape(object, call)
    }

    fn tracks(&self) -> bool {
        self.kind != BodyKind::Apply
    }

    fn patches(&self) -> bool {
        true
    }

    fn create(&mut self, call: &mut Call) -> Option<Result<Value, Status>> {
        if self.kind != BodyKind::Apply || !self.creates {
            return None;
        }
        Some(self.created(call))
    }
}

impl Patch {
    fn created(&self, call: &mut Call) -> Result<Value, Status> {
        let intent = self.intent(call)?;
        let uid = meta::uid(&intent);
        if !uid.is_empty() {
            return Err(Status::conflict(
                call.subject(),
                format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing \
                     object was found"
                ),
            ));
        }
        let object = managers::apply(call, &self.options, None, &intent)?;
        self.in_shape(object, call)
    }
}

pub(in crate::http) fn refusal(error: PatchError) -> Status {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::BAD_REQUEST);
    let status = Status::new(code, error.reason(), error.message());
    match error {
        PatchError::Unprocessable(_) => status.with_causes(Vec::new()),
        _ => status,
    }
}
