//! Every way in which a request fails, and the one place that says how each looks.
//!
//! A cause (of the storage, of a socket) is in the log of whoever had it; here are only words for the
//! caller.

use agent_wire::a2a::error::{ApiError, Reason};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};

use super::reply::{Reply, reply};
use super::{BODY_LIMIT, BODY_SECONDS, HEAD_LIMIT, HEAD_SECONDS};
use crate::refusal::Refusal;

/// Why a request is not answered as it wished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Error {
    /// No token, or a wrong one.
    Unauthenticated,
    /// An `Origin` header.
    Origin,
    /// No such path.
    NoRoute,
    /// The path is there, with these methods.
    Method {
        /// For the `Allow` header.
        allow: &'static str,
    },
    /// An A2A version that is not served; none when it was not given.
    Version(Option<String>),
    /// A `Content-Type` that is no JSON.
    MediaType,
    /// A body over the limit.
    BodyTooLarge,
    /// A body that did not come in time.
    BodySlow,
    /// A body that broke off.
    BodyBroken,
    /// A head that is no HTTP.
    Malformed,
    /// A head over the limit.
    HeadTooLarge,
    /// A head that did not come in time.
    HeadSlow,
    /// A part of A2A that is not offered.
    Unsupported(&'static str),
    /// Webhooks.
    Push,
    /// What was sent is not as it must be.
    Invalid(ApiError),
    /// The core turned it down.
    Refused(Refusal),
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Self::Invalid(error)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        self.to_reply()
    }
}

impl Error {
    /// The error as the caller gets it.
    pub(super) fn to_api(&self) -> ApiError {
        match self {
            Self::Unauthenticated => ApiError::new(
                Reason::Unauthenticated,
                "a valid token is needed: Authorization: Bearer <token>",
            ),
            Self::Origin => ApiError::new(
                Reason::PermissionDenied,
                "requests with an Origin header are refused: no browser may call",
            ),
            Self::NoRoute => ApiError::new(Reason::MethodNotFound, "there is no such path"),
            Self::Method { allow } => ApiError::new(
                Reason::MethodNotFound,
                format!("the path has no such method; it has {allow}"),
            )
            .with_status(405),
            Self::Version(given) => {
                let given = match given.as_deref() {
                    None | Some("") => "no A2A version is given, which means 0.3".to_owned(),
                    Some(given) => format!("A2A version {given:?} is not served"),
                };
                ApiError::new(
                    Reason::VersionNotSupported,
                    format!("{given}; send A2A-Version: 1.0"),
                )
            }
            Self::MediaType => ApiError::invalid(
                "",
                "Content-Type must be application/json or application/a2a+json",
            )
            .with_status(415),
            Self::BodyTooLarge => {
                ApiError::invalid("", format!("the body must be at most {BODY_LIMIT} bytes"))
                    .with_status(413)
            }
            Self::BodySlow => {
                ApiError::invalid("", format!("the body must come within {BODY_SECONDS} s"))
            }
            Self::BodyBroken => ApiError::invalid("", "the body broke off"),
            Self::Malformed => ApiError::invalid("", "the request is no HTTP/1.1"),
            Self::HeadTooLarge => {
                ApiError::invalid("", format!("the headers must be at most {HEAD_LIMIT} bytes"))
            }
            Self::HeadSlow => {
                ApiError::invalid("", format!("the headers must come within {HEAD_SECONDS} s"))
            }
            Self::Unsupported(what) => {
                ApiError::new(Reason::UnsupportedOperation, format!("{what} is not supported"))
            }
            Self::Push => ApiError::new(
                Reason::PushNotificationNotSupported,
                "push notifications are not supported; ask with GET /tasks/{id}",
            ),
            Self::Invalid(error) => error.clone(),
            Self::Refused(refusal) => {
                let reason = match refusal {
                    Refusal::TaskNotFound => Reason::TaskNotFound,
                    Refusal::NotCancelable => Reason::TaskNotCancelable,
                    Refusal::AlreadyExists(_) => Reason::AlreadyExists,
                    Refusal::Exhausted { .. } => Reason::ResourceExhausted,
                    Refusal::Unavailable { .. } => Reason::Unavailable,
                    Refusal::Internal => Reason::InternalError,
                };
                ApiError::new(reason, refusal.to_string())
            }
        }
    }

    /// The whole answer.
    pub(super) fn to_reply(&self) -> Reply {
        let api = self.to_api();
        let status = StatusCode::from_u16(api.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut answer = reply(status, Bytes::from(api.to_body().to_string()));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some((name, value)) = self.header() {
            headers.insert(name, value);
        }
        answer
    }

    /// The answer as bytes, for where no service is called. The connection ends after it.
    pub(super) fn to_bytes(&self, date: Option<&str>) -> Vec<u8> {
        let reply = self.to_reply();
        let body = self.to_api().to_body().to_string();
        let mut bytes = format!("HTTP/1.1 {}\r\n", reply.status()).into_bytes();
        for (name, value) in reply.headers() {
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        if let Some(date) = date {
            bytes.extend_from_slice(date.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        let length = format!("content-length: {}\r\n\r\n", body.len());
        bytes.extend_from_slice(length.as_bytes());
        bytes.extend_from_slice(body.as_bytes());
        bytes
    }

    /// The header that belongs to this error.
    fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::Unauthenticated => {
                Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"wendy-agent\"")))
            }
            Self::Method { allow } => Some((ALLOW, HeaderValue::from_static(allow))),
            Self::Refused(
                Refusal::Exhausted { retry_after_seconds, .. }
                | Refusal::Unavailable { retry_after_seconds },
            ) => Some((RETRY_AFTER, HeaderValue::from(*retry_after_seconds))),
            // What is left of the request would be taken for the next one.
            Self::BodyTooLarge
            | Self::BodySlow
            | Self::BodyBroken
            | Self::Malformed
            | Self::HeadTooLarge
            | Self::HeadSlow => Some((CONNECTION, HeaderValue::from_static("close"))),
            Self::Origin
            | Self::NoRoute
            | Self::Version(_)
            | Self::MediaType
            | Self::Unsupported(_)
            | Self::Push
            | Self::Invalid(_)
            | Self::Refused(
                Refusal::TaskNotFound
                | Refusal::NotCancelable
                | Refusal::AlreadyExists(_)
                | Refusal::Internal,
            ) => None,
        }
    }
}
