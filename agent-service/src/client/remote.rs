//! HTTP to one service: headers, the token, and what an error answer says.

use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use service_kit::Token;
use service_kit::client::{MAX_ANSWER_BYTES, Origin, Settings, TIMEOUT, build, read_body};

use super::error::Error;

/// How a service is named on the command line of `User-Agent`.
const USER_AGENT: &str = concat!("agent-service/", env!("CARGO_PKG_VERSION"));

/// The version of A2A that is spoken.
const A2A_VERSION: &str = "1.0";

/// How long a health check may take. Ours: supervisors ask every few seconds.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// One service.
#[derive(Debug)]
pub struct Remote {
    http: reqwest::Client,
    origin: Origin,
    token: Option<HeaderValue>,
}

/// An answer: the body as it came, and its meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The body.
    pub text: String,
    /// What it says.
    pub value: Value,
}

impl Remote {
    /// A service at an origin; without a token only what is public can be asked.
    ///
    /// # Errors
    /// The CA file or the token is of no use.
    pub fn new(
        origin: Origin,
        token: Option<&Token>,
        ca_cert: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let settings = Settings { user_agent: USER_AGENT, ca_cert, timeout: Some(TIMEOUT) };
        let http = build(&origin, &settings).map_err(|error| Error::Usage(chain(&error)))?;
        let token = match token {
            None => None,
            Some(token) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                    // The cause would add nothing but "failed to parse header value".
                    .map_err(|_bad| {
                        Error::Usage("the token has a character that no header may have".to_owned())
                    })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Self { http, origin, token })
    }

    /// Asks for something; `query` is encoded here, `path` is encoded already.
    pub async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Answer, Error> {
        let request = self.request(Method::GET, path).query(query);
        self.answer(request).await
    }

    /// Posts a JSON body, or none.
    pub async fn post(
        &self,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Answer, Error> {
        let mut request = self.request(Method::POST, path);
        if let Some((kind, body)) = body {
            request = request.header(CONTENT_TYPE, kind).body(body);
        }
        self.answer(request).await
    }

    /// Asks whether the service is ready; the answer is text.
    pub async fn ready(&self) -> Result<String, Error> {
        let request = self.http.get(self.origin.at("/readyz")).timeout(HEALTH_TIMEOUT);
        let (status, body) = self.send(request).await?;
        let text = String::from_utf8_lossy(&body).trim().to_owned();
        if status == StatusCode::OK {
            return Ok(text);
        }
        let message = if text.is_empty() { "not ready".to_owned() } else { plain(&text) };
        let (reason, violations) = (None, Vec::new());
        Err(Error::Service { status: status.as_u16(), message, reason, violations })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.http.request(method, self.origin.at(path));
        request = request.header("A2A-Version", A2A_VERSION);
        match &self.token {
            None => request,
            Some(token) => request.header(AUTHORIZATION, token),
        }
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Answer, Error> {
        let (status, body) = self.send(request).await?;
        let value: Option<Value> = serde_json::from_slice(&body).ok();
        if status != StatusCode::OK {
            return Err(failure(status, value.as_ref()));
        }
        let value = value.ok_or(Error::Strange("it is no JSON"))?;
        let text = String::from_utf8(body).ok().ok_or(Error::Strange("it is not UTF-8"))?;
        Ok(Answer { text, value })
    }

    async fn send(&self, request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), Error> {
        let response = request
            .send()
            .await
            // The URL is in our text already; a query of ours need not be.
            .map_err(|source| Error::NoAnswer {
                url: self.origin.to_string(),
                source: source.without_url(),
            })?;
        let status = response.status();
        Ok((status, read_body(response, MAX_ANSWER_BYTES).await?))
    }
}

/// A part of a path, encoded: an identifier may have any character.
pub(super) fn segment(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
            encoded.push('%');
            encoded.extend([digit(byte >> 4), digit(byte & 15)].map(|c| c.to_ascii_uppercase()));
        }
    }
    encoded
}

/// Text of a service without control characters, which could steer the terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c }).collect()
}

/// An error and its causes in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// What an error answer says; a proxy in between may answer in a shape of its own.
fn failure(status: StatusCode, body: Option<&Value>) -> Error {
    let error = body.and_then(|body| body.get("error"));
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(plain);
    let message = text(error.and_then(|error| error.get("message")))
        .unwrap_or_else(|| status.canonical_reason().unwrap_or("an error").to_owned());
    let details = error.and_then(|error| error.get("details")).and_then(Value::as_array);
    let details = details.map(Vec::as_slice).unwrap_or_default();
    let reason = details.iter().find_map(|detail| text(detail.get("reason")));
    let violations = details
        .iter()
        .filter_map(|detail| detail.get("fieldViolations").and_then(Value::as_array))
        .flatten()
        .filter_map(|violation| {
            let field = text(violation.get("field"))?;
            Some(format!("{field}: {}", text(violation.get("description"))?))
        })
        .collect();
    Error::Service { status: status.as_u16(), message, reason, violations }
}
