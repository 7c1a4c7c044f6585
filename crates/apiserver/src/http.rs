//! How does one process speak the Kubernetes REST protocol?
//!
//! [`router`] turns an [`ApiServer`] into a service that a socket, a test or an in-process client
//! can call. A request takes this way:
//!
//! ```text
//! dispatch: path -> route, who, limits
//!   verbs: get list watch | create update patch apply | delete
//!     kinds: what is served      decode, negotiate, select: what was asked
//!     write: managers -> admission -> strategy -> validate -> store -> consequences
//!     respond, table: what is answered
//! ```

mod admission;
mod auth;
mod bootstrap;
mod call;
mod consequences;
mod convert;
mod decode;
mod definitions;
mod delete;
mod discovery;
mod dispatch;
mod expire;
mod health;
mod intake;
mod kinds;
mod list;
mod managers;
mod meta;
mod metrics;
mod negotiate;
mod openapi;
mod path;
mod protobuf;
mod query;
mod respond;
mod select;
mod serve;
mod server;
mod source;
mod status;
mod strategy;
mod sub;
mod table;
mod tls;
mod validate;
mod verbs;
mod watch;
mod write;

use axum::Router;

pub use self::admission::{EndpointResolver, ServiceResolver};
pub use self::serve::{ListenError, listen};
pub use self::server::{ApiServer, Options};
pub use self::source::{Clock, Ids, RandomIds, SystemClock};
pub use self::sub::{LogError, LogRequest, LogSource, LogStream};
pub use self::tls::{CredentialError, Credentials};

/// The service that answers for a server.
pub fn router(server: ApiServer) -> Router {
    Router::new().fallback(dispatch::handle).with_state(server)
}
