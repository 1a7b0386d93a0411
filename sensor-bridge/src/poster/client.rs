//! One post: the request that the service expects, and what its answer says.
//!
//! The token is read again after it was refused, since it may have been
//! rotated. Nothing that is logged or returned has a token, a URL or a payload.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::{
    Response,
    header::{self, HeaderValue},
};
use serde::Deserialize;
use service_kit::{
    Token, Vars,
    client::{self, MAX_ANSWER_BYTES, Settings, TIMEOUT},
    secret,
};

use crate::{
    config::ServiceConfig,
    delivery::{self, Reply},
};

/// The protocol version that the service serves (CONTRACT.md section 3).
const A2A_VERSION: &str = "1.0";

/// How long a message of the service is shown at most, in characters.
const SHOWN_CHARS: usize = 300;

/// What a trigger left alone says (CONTRACT.md section 4, steps 5 and 6).
const UNTOUCHED: [&str; 2] = ["stale or future event", "out-of-order event"];

/// A client of one service.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    token_env: String,
    vars: Vars,
    token: Mutex<Token>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The token is of no use.
    #[error(transparent)]
    Token(#[from] secret::Error),
    /// The HTTP client is.
    #[error(transparent)]
    Client(#[from] client::Error),
}

/// What became of one post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What decides on what happens next.
    pub reply: Reply,
    /// What a person wants to know of it.
    pub says: Says,
}

/// What the service said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// The trigger fired.
    Accepted {
        /// The task that it made.
        task_id: String,
    },
    /// The trigger did not, for this reason.
    NotAccepted {
        /// The service's words.
        reason: String,
    },
    /// It turned the post down.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The service's words.
        message: String,
    },
    /// Nothing: it could not be asked, or did not answer.
    Nothing {
        /// Why, without the URL.
        why: String,
    },
}

impl Client {
    /// A client with the token of today.
    ///
    /// # Errors
    /// There is no usable token, or the CA file is of no use.
    pub fn new(service: &ServiceConfig, vars: Vars) -> Result<Self, Error> {
        let settings = Settings {
            user_agent: concat!("sensor-bridge/", env!("CARGO_PKG_VERSION")),
            ca_cert: service.ca_cert.clone(),
            timeout: Some(TIMEOUT),
        };
        let http = client::build(&service.url, &settings)?;
        let token = Mutex::new(Token::read(&vars, &service.token_env)?);
        let url = service.url.at("/events");
        Ok(Self { http, url, token_env: service.token_env.clone(), vars, token })
    }

    /// Posts one event. Dropping it half-way leaves open whether the service has it.
    pub async fn post(&self, body: Bytes, now: Timestamp) -> Answer {
        let mut request = self
            .http
            .post(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header("A2A-Version", A2A_VERSION)
            .body(body);
        if let Some(authorization) = self.authorization() {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        match request.send().await {
            Ok(response) => self.answer(response, now).await,
            Err(error) => Answer::nothing(error),
        }
    }

    fn authorization(&self) -> Option<HeaderValue> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    async fn answer(&self, response: Response, now: Timestamp) -> Answer {
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| delivery::retry_after(value.to_str().ok()?, now));
        if matches!(status, 401 | 403) {
            self.read_token_again();
        }
        let success = response.status().is_success();
        let body = match client::read_body(response, MAX_ANSWER_BYTES).await {
            Ok(body) => body,
            // The status is there, and it decides; only a success says more in its body.
            Err(error) if success => return Answer::nothing(error),
            Err(_error) => Vec::new(),
        };
        if success {
            return verdict(&body);
        }
        let message = message(&body);
        Answer {
            reply: Reply::Status(status, retry_after),
            says: Says::Refused { status, message },
        }
    }

    /// The file behind the variable may hold a new token by now.
    fn read_token_again(&self) {
        if let Ok(token) = Token::read(&self.vars, &self.token_env) {
            *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
        }
    }
}

impl Answer {
    fn nothing(error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        let error = match error.downcast::<reqwest::Error>() {
            Ok(error) => anyhow::Error::from(error.without_url()),
            Err(error) => error,
        };
        Self {
            reply: Reply::NoAnswer,
            says: Says::Nothing { why: shortened(&format!("{error:#}")) },
        }
    }
}

#[derive(Deserialize)]
struct Verdict {
    accepted: bool,
    reason: Option<String>,
    task_id: Option<String>,
}

/// Reads the body of a success. One that is none of the service's is no answer of it: the same
/// bytes are posted again, which costs nothing if it has them.
fn verdict(body: &[u8]) -> Answer {
    match serde_json::from_slice(body) {
        Ok(Verdict { accepted: true, task_id, .. }) => Answer {
            reply: Reply::Taken,
            says: Says::Accepted { task_id: task_id.unwrap_or_default() },
        },
        Ok(Verdict { accepted: false, reason, .. }) => {
            let reason = reason.unwrap_or_default();
            let untouched = UNTOUCHED.contains(&reason.as_str());
            let reply = if untouched { Reply::Untouched } else { Reply::Taken };
            Answer { reply, says: Says::NotAccepted { reason } }
        }
        Err(_other) => {
            let why = "its answer to an event is not that of an agent-service".to_owned();
            Answer { reply: Reply::NoAnswer, says: Says::Nothing { why } }
        }
    }
}

/// The service's own words about a refusal.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Body {
        error: Fault,
    }
    #[derive(Deserialize)]
    struct Fault {
        message: String,
    }
    serde_json::from_slice(body).map_or_else(
        |_other| "no message".to_owned(),
        |Body { error: Fault { message } }| shortened(&message),
    )
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_the_service_is_told_apart_by_what_it_did_to_the_trigger() {
        let accepted = Says::Accepted { task_id: "t".to_owned() };
        let not = |reason: &str| Says::NotAccepted { reason: reason.to_owned() };
        let cases = [
            (r#"{"accepted": true, "task_id": "t"}"#, Reply::Taken, accepted),
            (r#"{"accepted": false, "reason": "cooldown"}"#, Reply::Taken, not("cooldown")),
            (
                r#"{"accepted": false, "reason": "stale or future event"}"#,
                Reply::Untouched,
                not("stale or future event"),
            ),
            (
                r#"{"accepted": false, "reason": "out-of-order event"}"#,
                Reply::Untouched,
                not("out-of-order event"),
            ),
        ];
        for (body, reply, says) in cases {
            assert_eq!(verdict(body.as_bytes()), Answer { reply, says }, "{body}");
        }
    }

    #[test]
    fn a_success_of_something_else_is_no_answer() {
        assert_eq!(verdict(b"<html>").reply, Reply::NoAnswer);
        assert_eq!(verdict(b"{}").reply, Reply::NoAnswer);
    }

    #[test]
    fn the_services_own_words_are_shown_up_to_a_length() {
        assert_eq!(
            message(br#"{"error": {"code": 409, "message": "other content"}}"#),
            "other content"
        );
        assert_eq!(message(b"<html>"), "no message");
        let long = format!(r#"{{"error": {{"message": "{}"}}}}"#, "x".repeat(1000));
        assert_eq!(message(long.as_bytes()).len(), SHOWN_CHARS);
    }
}
