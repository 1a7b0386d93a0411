//! What is read of a request beside its path: version, media type, body, trace context.
//!
//! Each returns our own error; nothing of a framework shows.

use std::time::Duration;

use agent_wire::a2a::list::parameter;
use agent_wire::value::TraceParent;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http_body_util::BodyExt as _;
use hyper::body::Body;

use super::error::Error;
use super::reply::A2A_VERSION;
use super::{BODY_LIMIT, BODY_SECONDS};

/// Checks the version of an A2A operation: it must be there and be served.
///
/// # Errors
/// [`Error::Version`].
pub(super) fn need_version(parts: &Parts) -> Result<(), Error> {
    check_version(parts)?.then_some(()).ok_or(Error::Version(None))
}

/// Checks the version where it may be absent.
///
/// # Errors
/// [`Error::Version`] when there is one that is not served.
pub(super) fn allow_version(parts: &Parts) -> Result<(), Error> {
    check_version(parts).map(|_present| ())
}

/// Whether a version is given; the header wins over the query parameter.
fn check_version(parts: &Parts) -> Result<bool, Error> {
    let mut headers = parts.headers.get_all(A2A_VERSION).iter().peekable();
    if headers.peek().is_some() {
        for value in headers {
            let text = String::from_utf8_lossy(value.as_bytes()).trim().to_owned();
            if !is_served(&text) {
                return Err(Error::Version(Some(text)));
            }
        }
        return Ok(true);
    }
    match parts.uri.query().and_then(|query| parameter(query, "A2A-Version")) {
        None => Ok(false),
        Some(text) if is_served(text.trim()) => Ok(true),
        Some(text) => Err(Error::Version(Some(text))),
    }
}

/// `1.0` and its patch versions.
fn is_served(version: &str) -> bool {
    version == "1.0"
        || version
            .strip_prefix("1.0.")
            .is_some_and(|patch| !patch.is_empty() && patch.bytes().all(|b| b.is_ascii_digit()))
}

/// Reads a JSON body: media type first, then at most 64 KiB within 30 s.
///
/// # Errors
/// [`Error::MediaType`], [`Error::BodyTooLarge`], [`Error::BodySlow`], [`Error::BodyBroken`].
pub(super) async fn body<B>(headers: &HeaderMap, body: B) -> Result<Bytes, Error>
where
    B: Body<Data = Bytes>,
{
    media_type(headers)?;
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok())
        .unwrap_or(0);
    if announced > BODY_LIMIT {
        return Err(Error::BodyTooLarge);
    }
    let limit = Duration::from_secs(BODY_SECONDS);
    tokio::time::timeout(limit, read(body, announced)).await.unwrap_or(Err(Error::BodySlow))
}

async fn read<B>(body: B, announced: usize) -> Result<Bytes, Error>
where
    B: Body<Data = Bytes>,
{
    let mut body = std::pin::pin!(body);
    let mut bytes = BytesMut::with_capacity(announced);
    while let Some(frame) = body.frame().await {
        // The cause is the client's connection, which nobody can do anything about here.
        let frame = frame.map_err(|_gone| Error::BodyBroken)?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len().saturating_add(data.len()) > BODY_LIMIT {
            return Err(Error::BodyTooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// JSON or nothing; parameters are allowed, the case does not matter.
fn media_type(headers: &HeaderMap) -> Result<(), Error> {
    for value in headers.get_all(CONTENT_TYPE) {
        let text = value.to_str().map_err(|_no_text| Error::MediaType)?;
        let essence = text.split(';').next().unwrap_or_default().trim();
        let known = ["application/json", "application/a2a+json"];
        if !known.iter().any(|one| essence.eq_ignore_ascii_case(one)) {
            return Err(Error::MediaType);
        }
    }
    Ok(())
}

/// The caller's trace context, if there is a well-formed one.
pub(super) fn trace(headers: &HeaderMap) -> Option<TraceParent> {
    TraceParent::parse(headers.get("traceparent")?.to_str().ok()?)
}
