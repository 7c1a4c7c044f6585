//! The way of a request: who asks, for what, how large, and which code answers.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::auth::{self, User};
use super::call::Call;
use super::openapi::{self, Ask};
use super::path::{self, PathError, Route, Target};
use super::query::Query;
use super::server::ApiServer;
use super::status::Status;
use super::{discovery, health, respond, verbs};
use crate::http::negotiate::{self, Shapes};

/// Longest wait for a turn.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers any request; this is the router's only handler.
pub(super) async fn handle(State(server): State<ApiServer>, request: Request) -> Response {
    let head = *request.method() == Method::HEAD;
    let mut response = match route(&server, request).await {
        Ok(response) => response,
        Err(status) => status.into_response(),
    };
    if head {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn route(server: &ApiServer, request: Request) -> Result<Response, Status> {
    let path = match path::parse(request.uri().path()) {
        Ok(path) => path,
        Err(PathError::NotFound) => return Ok(page_not_found()),
        Err(PathError::Malformed) => {
            return Err(Status::bad_request("the request path is malformed"));
        }
    };
    let is_open = matches!(path, Route::Health(_) | Route::Version);
    let user = match auth::authenticate(server, request.headers()) {
        Err(_) if is_open => User::admin(),
        other => other?,
    };
    let target = match path {
        Route::Resource(target) => target,
        other => return fixed(server, other, &request),
    };
    let registry = server.registry();
    let Some(served) = registry.find(&target.group, &target.version, &target.resource) else {
        // Within a built-in group the answer is a status, elsewhere a plain page.
        let own = registry.group(&target.group).is_some_and(|group| group.is_built_in());
        return if own { Err(Status::unknown_resource()) } else { Ok(page_not_found()) };
    };
    let served = served.clone();
    resource(server, user, served, target, request).await
}

async fn resource(
    server: &ApiServer,
    user: User,
    served: std::sync::Arc<super::kinds::Served>,
    target: Target,
    request: Request,
) -> Result<Response, Status> {
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let mut call = Call {
        server: server.clone(),
        user,
        method: parts.method,
        served,
        target,
        headers: parts.headers,
        query,
        body: Bytes::new(),
        warnings: Vec::new(),
    };
    if let Some(warning) = call.served.deprecation.clone() {
        call.warn(warning);
    }
    let received = server.intake().read(body).await?;
    call.body = received.bytes.clone();
    let _slot = if verbs::is_watch(&call) {
        None
    } else {
        let turn = tokio::time::timeout(QUEUE_TIMEOUT, server.in_flight().acquire()).await;
        let refusal = "Too many requests, please try again later.";
        match turn {
            Ok(Ok(slot)) => Some(slot),
            _ => return Err(Status::too_many_requests(refusal, Some(1))),
        }
    };
    // Definitions are written one at a time, so that two of them cannot claim one name.
    let _definitions = match call.served.is("apiextensions.k8s.io", "customresourcedefinitions")
        && !matches!(call.method, Method::GET | Method::HEAD)
    {
        true => Some(server.definitions_lock().lock().await),
        false => None,
    };
    let (begin, verb) = (tokio::time::Instant::now(), verbs::verb(&call));
    let result = verbs::serve(&mut call).await;
    let mut response = result.unwrap_or_else(IntoResponse::into_response);
    let subject = (&*call.served.group, &*call.served.plural, call.subresource());
    let code = response.status().as_u16();
    server.metrics().request(verb, subject, code, begin.elapsed());
    respond::add_warnings(response.headers_mut(), &call.warnings);
    Ok(response)
}

/// What does not depend on any resource.
fn fixed(server: &ApiServer, route: Route, request: &Request) -> Result<Response, Status> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Status::method_not_allowed());
    }
    let registry = server.registry();
    let headers = request.headers();
    let plain = |value: &serde_json::Value| {
        let answer = negotiate::accept(headers, false, Shapes::Plain)?;
        respond::value(answer.encoding, StatusCode::OK, value)
    };
    match route {
        Route::Root => plain(&discovery::paths(&registry)),
        Route::Version => plain(&discovery::version()),
        Route::Health(path) => {
            Ok(health::check(&path, &Query::parse(request.uri().query().unwrap_or_default())))
        }
        Route::CoreVersions => discovery::roots(&registry, headers, true),
        Route::Groups => discovery::roots(&registry, headers, false),
        Route::Group(name) => match registry.group(&name).filter(|_| !name.is_empty()) {
            Some(group) => plain(&discovery::group(group, true)),
            None => Ok(page_not_found()),
        },
        Route::GroupVersion { group, version } => match registry.version(&group, &version) {
            Some(found) => plain(&discovery::resources(&group, found)),
            None => Ok(page_not_found()),
        },
        Route::Metrics => {
            let limit = server.options().max_in_flight;
            let busy = limit.saturating_sub(server.in_flight().available_permits());
            let text = server.metrics().render(server.store(), &registry, busy);
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            Ok(respond::bytes(StatusCode::OK, kind, text.into()))
        }
        Route::OpenApiV2 => documents(server, &Ask::Version2, request),
        Route::OpenApiV3 => documents(server, &Ask::Index, request),
        Route::OpenApiV3Group(path) => documents(server, &Ask::Version3(&path), request),
        Route::Resource(_) => Ok(page_not_found()),
    }
}

fn documents(server: &ApiServer, ask: &Ask<'_>, request: &Request) -> Result<Response, Status> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let answer = openapi::serve(&server.documents(), ask, request.headers(), &query)?;
    Ok(answer.unwrap_or_else(page_not_found))
}

/// What Kubernetes says about a path it does not know.
fn page_not_found() -> Response {
    let mut response = respond::bytes(
        StatusCode::NOT_FOUND,
        "text/plain; charset=utf-8",
        Bytes::from_static(b"404 page not found\n"),
    );
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}
