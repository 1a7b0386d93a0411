//! Workers that push: `POST /<source>` with a bearer token.
//!
//! The body is one JSON document, or JSON lines. It is answered 202 as soon
//! as its messages are in the lane, which never waits; that says nothing on
//! what they prove. Otherwise: 400 (no JSON; nothing of the body is taken),
//! 401, 404, 405, 408, 413. Sources with the same address share a listener,
//! each with its own token; an unknown path is only told to who has a token.
//!
//! A body over the limit is read past without being kept, up to a bound, so
//! that its sender gets the answer instead of a broken connection.

mod body;
mod server;

use std::{collections::BTreeMap, sync::Arc};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Bytes};
use subtle::ConstantTimeEq;

pub use self::server::{Bound, bind};
use super::Port;
use crate::decode::{Meta, Refusal};

/// One source that is posted to, and who may.
pub struct Endpoint {
    port: Port,
    token: Arc<str>,
}

/// All sources of one address.
#[derive(Debug)]
pub struct Endpoints {
    by_name: BTreeMap<String, Endpoint>,
    limit: usize,
}

/// Why a request was not taken, as its answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Refused {
    Unauthenticated,
    NoSuchSource,
    Method,
    TooSlow,
    Broken,
    TooLarge(usize),
    NotJson { line: usize },
}

impl Endpoint {
    /// The source behind `port`, for senders with `token`.
    pub const fn new(port: Port, token: Arc<str>) -> Self {
        Self { port, token }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Endpoints {
    /// Serves these sources; bodies are at most `limit` bytes.
    pub fn new(endpoints: Vec<Endpoint>, limit: usize) -> Self {
        let by_name = endpoints
            .into_iter()
            .map(|endpoint| (endpoint.port.name().to_owned(), endpoint))
            .collect();
        Self { by_name, limit }
    }

    /// The sources that are served.
    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.by_name.values().map(|endpoint| &endpoint.port)
    }

    /// Answers one request.
    async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        match self.take(request).await {
            Ok(messages) => {
                response(StatusCode::ACCEPTED, &serde_json::json!({ "messages": messages }))
            }
            Err(refused) => refused.response(),
        }
    }

    async fn take<B>(&self, request: Request<B>) -> Result<usize, Refused>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (head, body) = request.into_parts();
        let token = bearer(&head.headers);
        let name = head.uri.path().strip_prefix('/').unwrap_or_default();
        let endpoint = self.admit(name, token)?;
        if head.method != Method::POST {
            return Err(Refused::Method);
        }
        let body = match body::read(body, self.limit).await {
            Ok(body) => body,
            Err(refused) => {
                if let Refused::TooLarge(limit) = refused {
                    endpoint.port.refuse(&Refusal::Oversized { limit });
                }
                return Err(refused);
            }
        };
        let messages = body::messages(&body).map_err(|(line, refusal)| {
            endpoint.port.refuse(&refusal);
            Refused::NotJson { line }
        })?;
        let count = messages.len();
        for message in messages {
            endpoint.port.deliver(message, Meta::default());
        }
        Ok(count)
    }

    /// The source of this name, for who has its token.
    fn admit(&self, name: &str, token: Option<&[u8]>) -> Result<&Endpoint, Refused> {
        let token = token.ok_or(Refused::Unauthenticated)?;
        match self.by_name.get(name) {
            Some(endpoint) if same(token, &endpoint.token) => Ok(endpoint),
            None if self.by_name.values().any(|known| same(token, &known.token)) => {
                Err(Refused::NoSuchSource)
            }
            Some(_) | None => Err(Refused::Unauthenticated),
        }
    }
}

/// Compares in a time that does not tell how much of it was right.
fn same(given: &[u8], token: &str) -> bool {
    bool::from(given.ct_eq(token.as_bytes()))
}

fn bearer(headers: &http::HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

impl Refused {
    fn response(&self) -> Response<Full<Bytes>> {
        let (status, message) = match self {
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
            Self::NotJson { line } => (
                StatusCode::BAD_REQUEST,
                format!("line {line} is not JSON; send one document, or one document a line"),
            ),
        };
        let mut response = response(status, &serde_json::json!({ "error": message }));
        let headers = response.headers_mut();
        match self {
            Self::Unauthenticated => {
                let realm = http::HeaderValue::from_static("Bearer realm=\"sensor-bridge\"");
                headers.insert(header::WWW_AUTHENTICATE, realm);
            }
            Self::Method => {
                headers.insert(header::ALLOW, http::HeaderValue::from_static("POST"));
            }
            // What is left of such a body is not read.
            Self::TooSlow | Self::Broken | Self::TooLarge(_) => {
                headers.insert(header::CONNECTION, http::HeaderValue::from_static("close"));
            }
            Self::NoSuchSource | Self::NotJson { .. } => {}
        }
        response
    }
}

fn response(status: StatusCode, body: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
