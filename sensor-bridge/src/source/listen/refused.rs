//! Why a request was not taken, as its answer says: the only place that knows how one looks.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

/// When a bridge that stops may be back: it stops within 4 s, and starts at once.
const RETRY_AFTER_SECONDS: u16 = 5;

/// The closed list of reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// No token, or not that of the source.
    Unauthenticated,
    /// A path of nobody, told to who has a token.
    NoSuchSource,
    /// Another method than POST.
    Method,
    /// The body did not come in time.
    TooSlow,
    /// The body ended before its end.
    Broken,
    /// The body is over so many bytes.
    TooLarge(usize),
    /// The bridge stops, and may not send what it took now.
    Stopping,
    /// A line of the body is no JSON.
    NotJson {
        /// Which one, from 1.
        line: usize,
    },
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, message) = match &self {
            Self::Unauthenticated => (
                StatusCode::UNAUTHORIZED,
                "send `Authorization: Bearer TOKEN` with the token of this source".to_owned(),
            ),
            Self::NoSuchSource => {
                (StatusCode::NOT_FOUND, "no source of this name listens here".to_owned())
            }
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "send messages with POST".to_owned()),
            Self::TooSlow => {
                (StatusCode::REQUEST_TIMEOUT, "the body did not come in time".to_owned())
            }
            Self::Broken => (StatusCode::BAD_REQUEST, "the body broke off".to_owned()),
            Self::TooLarge(limit) => {
                (StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {limit} bytes"))
            }
            Self::Stopping => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the bridge is stopping; nothing of the body was taken".to_owned(),
            ),
            Self::NotJson { line } => (
                StatusCode::BAD_REQUEST,
                format!("line {line} is not JSON; send one document, or one document a line"),
            ),
        };
        let mut response = (status, Json(json!({ "error": message }))).into_response();
        let headers = response.headers_mut();
        match self {
            Self::Unauthenticated => {
                let realm = HeaderValue::from_static("Bearer realm=\"sensor-bridge\"");
                headers.insert(header::WWW_AUTHENTICATE, realm);
            }
            Self::Method => {
                headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
            }
            Self::Stopping => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
            }
            // What is left of such a body is not read.
            Self::TooSlow | Self::Broken | Self::TooLarge(_) => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Self::NoSuchSource | Self::NotJson { .. } => {}
        }
        response
    }
}
