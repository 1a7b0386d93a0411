//! Answers, and the headers that each of them has.

use agent_wire::a2a;
use axum::body::Body;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;

use super::error::Error;
use crate::refusal::Refusal;

/// An answer; the body is always whole, so that its length is known.
pub(super) type Reply = Response<Body>;

/// The header that names the version, on every answer.
pub(super) const A2A_VERSION: HeaderName = HeaderName::from_static("a2a-version");

/// An answer with the headers that every one has: not cached, and of A2A 1.0.
pub(super) fn reply(status: StatusCode, body: Bytes) -> Reply {
    let mut reply = Response::new(Body::from(body));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(A2A_VERSION, HeaderValue::from_static(a2a::VERSION));
    reply
}

/// A success.
///
/// # Errors
/// When the value cannot be printed, which no value of ours does.
pub(super) fn success(value: &impl Serialize) -> Result<Reply, Error> {
    let body = serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "an answer could not be printed");
        Refusal::Internal
    })?;
    Ok(success_json(body))
}

/// A success whose JSON is printed already.
pub(super) fn success_json(body: impl Into<Bytes>) -> Reply {
    let mut reply = reply(StatusCode::OK, body.into());
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(a2a::MEDIA_TYPE));
    reply
}
