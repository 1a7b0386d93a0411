//! The paths, as an axum router, behind one gate.
//!
//! The gate (token, `Origin`, a storage that failed) lies around the routes *and* around what answers
//! for a missing path or method, so that 401 and 403 come before 404 and 405. Handlers take the request
//! whole and read it through `extract`: axum has nothing to reject by itself.
//!
//! `HEAD` is served wherever `GET` is, without a body; `OPTIONS` nowhere, since no browser may call.
//! axum cannot split a segment at a colon, so that `/tasks/{task}` is one route for all that is done
//! with a task: what stands after the *last* colon says what, and an id may have colons of its own.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri};

use super::auth::{self, Token};
use super::backend::Backend;
use super::card::Card;
use super::error::Error;
use super::reply::Reply;
use super::{a2a as operations, events, extract, health};
use crate::refusal::Refusal;

/// What the handlers share.
pub(super) struct Core<B> {
    pub(super) backend: Arc<B>,
    pub(super) token: Token,
    pub(super) card: Card,
}

type Shared<B> = State<Arc<Core<B>>>;

const READ: &str = "GET, HEAD";
const WRITE: &str = "POST";

/// All routes.
pub(super) fn router<B: Backend>(core: Arc<Core<B>>) -> Router {
    let gate = from_fn_with_state(Arc::clone(&core), gate::<B>);
    let configs = "/tasks/{task}/pushNotificationConfigs";
    let config = "/tasks/{task}/pushNotificationConfigs/{config}";
    Router::new()
        .route("/.well-known/agent-card.json", get(card::<B>).fallback(only(READ)))
        .route("/healthz", get(live::<B>).fallback(only(READ)))
        .route("/readyz", get(ready::<B>).fallback(only(READ)))
        .route("/message:send", post(send::<B>).fallback(only(WRITE)))
        .route("/message:stream", post(streaming).fallback(only(WRITE)))
        .route("/extendedAgentCard", get(extended_card).fallback(only(READ)))
        .route("/tasks", get(list::<B>).fallback(only(READ)))
        .route("/tasks/{task}", any(task::<B>))
        .route(configs, get(push).post(push).fallback(only("GET, HEAD, POST")))
        .route(config, get(push).delete(push).fallback(only("GET, HEAD, DELETE")))
        .route("/events", post(event::<B>).fallback(only(WRITE)))
        .fallback(async || Error::NoRoute)
        .layer(gate)
        .with_state(core)
}

/// Writes colons as colons: a client may send them as `%3A`, and a route is compared letter by letter.
pub(super) fn plain_colons(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    if !path.contains("%3") {
        return None;
    }
    let mut text = path.replace("%3A", ":").replace("%3a", ":");
    if let Some(query) = uri.query() {
        text.push('?');
        text.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(text).ok()?);
    Uri::from_parts(parts).ok()
}

/// Token, `Origin`, storage: before anything is looked at.
async fn gate<B: Backend>(State(core): Shared<B>, request: Request, next: Next) -> Response {
    match pass(&core, request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn pass<B: Backend>(core: &Core<B>, path: &str, headers: &HeaderMap) -> Result<(), Error> {
    let public = matches!(path, "/.well-known/agent-card.json" | "/healthz" | "/readyz");
    if !public {
        auth::authenticate(headers, &core.token)?;
    }
    auth::refuse_origin(headers)?;
    if !public && core.backend.failed() {
        return Err(Refusal::Internal.into());
    }
    Ok(())
}

/// What answers for another method.
fn only<S: Clone + Send + Sync + 'static>(allow: &'static str) -> impl Handler<((),), S> {
    move || async move { Error::Method { allow } }
}

async fn card<B: Backend>(State(core): Shared<B>, request: Request) -> Reply {
    core.card.get(request.headers())
}

async fn live<B: Backend>(State(core): Shared<B>) -> Reply {
    health::live(&*core.backend)
}

async fn ready<B: Backend>(State(core): Shared<B>) -> Reply {
    health::ready(&*core.backend)
}

async fn send<B: Backend>(State(core): Shared<B>, request: Request) -> Result<Reply, Error> {
    let (parts, body) = request.into_parts();
    extract::need_version(&parts)?;
    let body = extract::body(&parts.headers, body).await?;
    operations::send(&*core.backend, &body, extract::trace(&parts.headers)).await
}

async fn list<B: Backend>(State(core): Shared<B>, request: Request) -> Result<Reply, Error> {
    let (parts, _body) = request.into_parts();
    extract::need_version(&parts)?;
    operations::list(&*core.backend, parts.uri.query().unwrap_or_default()).await
}

async fn task<B: Backend>(State(core): Shared<B>, request: Request) -> Result<Reply, Error> {
    let (parts, body) = request.into_parts();
    let segment = parts.uri.path().strip_prefix("/tasks/").and_then(decode);
    let wish = wish(&parts.method, &segment.ok_or(Error::NoRoute)?)?;
    extract::need_version(&parts)?;
    match wish {
        Wish::Get(id) => {
            let query = parts.uri.query().unwrap_or_default();
            operations::get(&*core.backend, &id, query).await
        }
        Wish::Cancel(id) => {
            let body = extract::body(&parts.headers, body).await?;
            operations::cancel(&*core.backend, &id, &body).await
        }
        Wish::Subscribe => Err(Error::Unsupported("subscribing to a task")),
    }
}

async fn event<B: Backend>(State(core): Shared<B>, request: Request) -> Result<Reply, Error> {
    let (parts, body) = request.into_parts();
    extract::allow_version(&parts)?;
    let body = extract::body(&parts.headers, body).await?;
    events::post(&*core.backend, &body, extract::trace(&parts.headers)).await
}

async fn streaming(request: Request) -> Error {
    not_offered(request, Error::Unsupported("streaming"))
}

async fn extended_card(request: Request) -> Error {
    not_offered(request, Error::Unsupported("an extended agent card"))
}

async fn push(request: Request) -> Error {
    not_offered(request, Error::Push)
}

/// An operation of A2A that is not offered; one of another version is told so first.
fn not_offered(request: Request, error: Error) -> Error {
    let (parts, _body) = request.into_parts();
    extract::need_version(&parts).err().unwrap_or(error)
}

/// What a caller wants with a task.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Get(String),
    Cancel(String),
    Subscribe,
}

/// Splits a segment at its last colon.
fn wish(method: &Method, segment: &str) -> Result<Wish, Error> {
    match (segment.rsplit_once(':'), method.as_str()) {
        (Some((id, "cancel")), method) if !id.is_empty() => match method {
            "POST" => Ok(Wish::Cancel(id.to_owned())),
            _ => Err(Error::Method { allow: WRITE }),
        },
        // The proto says GET, the text says POST, and clients do either.
        (Some((id, "subscribe")), method) if !id.is_empty() => match method {
            "GET" | "HEAD" | "POST" => Ok(Wish::Subscribe),
            _ => Err(Error::Method { allow: "GET, HEAD, POST" }),
        },
        // Another operation, which does not exist; to a reader it is an id that does not.
        (Some(_), "POST") => Err(Error::NoRoute),
        (_, "GET" | "HEAD") => Ok(Wish::Get(segment.to_owned())),
        _ => Err(Error::Method { allow: READ }),
    }
}

/// Decodes `%XX`; none when it is no UTF-8 then, or a percent sign stands for nothing.
fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
            let high = digit(rest.next()?)?;
            bytes.push((high << 4) | digit(rest.next()?)?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
