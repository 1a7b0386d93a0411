//! Errors on the wire: one table from reason to HTTP status and `google.rpc` name, and the wrapped body.
//!
//! `ErrorInfo` is the first detail and its metadata are strings: clients read only that one and
//! decode only such (facts of the official SDKs). A cause never gets in here: it belongs in the log.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

/// The domain of every reason.
pub const DOMAIN: &str = "a2a-protocol.org";

/// The most violations that one error lists; the first ones are kept.
pub const MAX_VIOLATIONS: usize = 16;

/// The reasons of CONTRACT section 3, as clients know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No token, or a wrong one.
    Unauthenticated,
    /// An `Origin` header: no browser may call.
    PermissionDenied,
    /// No such task.
    TaskNotFound,
    /// The task has ended in another way already.
    TaskNotCancelable,
    /// Streaming, subscribing, continuing a task, the extended card.
    UnsupportedOperation,
    /// Webhooks.
    PushNotificationNotSupported,
    /// A part without text, or an output mode other than text/plain.
    ContentTypeNotSupported,
    /// An A2A version other than 1.0.
    VersionNotSupported,
    /// Any other fault of the request.
    InvalidParams,
    /// No such route, or not with this method.
    MethodNotFound,
    /// The identifier was used for something else.
    AlreadyExists,
    /// A limit of the service is reached.
    ResourceExhausted,
    /// The service is stopping.
    Unavailable,
    /// The service failed.
    InternalError,
}

impl Reason {
    /// All reasons, in the order of the table.
    pub const ALL: [Self; 14] = [
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::TaskNotFound,
        Self::TaskNotCancelable,
        Self::UnsupportedOperation,
        Self::PushNotificationNotSupported,
        Self::ContentTypeNotSupported,
        Self::VersionNotSupported,
        Self::InvalidParams,
        Self::MethodNotFound,
        Self::AlreadyExists,
        Self::ResourceExhausted,
        Self::Unavailable,
        Self::InternalError,
    ];

    /// The name on the wire, the usual HTTP status and the `google.rpc` name. Source: CONTRACT,
    /// section 3.
    fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::Unauthenticated => ("UNAUTHENTICATED", 401, "UNAUTHENTICATED"),
            Self::PermissionDenied => ("PERMISSION_DENIED", 403, "PERMISSION_DENIED"),
            Self::TaskNotFound => ("TASK_NOT_FOUND", 404, "NOT_FOUND"),
            Self::TaskNotCancelable => ("TASK_NOT_CANCELABLE", 400, "FAILED_PRECONDITION"),
            Self::UnsupportedOperation => ("UNSUPPORTED_OPERATION", 400, "FAILED_PRECONDITION"),
            Self::PushNotificationNotSupported => {
                ("PUSH_NOTIFICATION_NOT_SUPPORTED", 400, "FAILED_PRECONDITION")
            }
            Self::ContentTypeNotSupported => {
                ("CONTENT_TYPE_NOT_SUPPORTED", 400, "INVALID_ARGUMENT")
            }
            Self::VersionNotSupported => ("VERSION_NOT_SUPPORTED", 400, "FAILED_PRECONDITION"),
            Self::InvalidParams => ("INVALID_PARAMS", 400, "INVALID_ARGUMENT"),
            Self::MethodNotFound => ("METHOD_NOT_FOUND", 404, "NOT_FOUND"),
            Self::AlreadyExists => ("ALREADY_EXISTS", 409, "ALREADY_EXISTS"),
            Self::ResourceExhausted => ("RESOURCE_EXHAUSTED", 429, "RESOURCE_EXHAUSTED"),
            Self::Unavailable => ("UNAVAILABLE", 503, "UNAVAILABLE"),
            Self::InternalError => ("INTERNAL_ERROR", 500, "INTERNAL"),
        }
    }

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status, where nothing else is said.
    pub fn http_status(self) -> u16 {
        self.row().1
    }

    /// The `google.rpc` name.
    pub fn rpc_status(self) -> &'static str {
        self.row().2
    }
}

/// One field that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field, such as `message.parts[0].text`; empty for the whole body.
    pub field: String,
    /// What it must be.
    pub description: String,
}

/// An error as a client gets it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The reason.
    pub reason: Reason,
    /// The HTTP status: the reason's own, or 405, 413, 415 for a fault of the transport.
    pub status: u16,
    /// A sentence for a person; no internals.
    pub message: String,
    /// More about the reason.
    pub metadata: BTreeMap<String, String>,
    /// The fields at fault.
    pub violations: Vec<Violation>,
}

impl ApiError {
    /// An error with the usual status of its reason.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            status: reason.http_status(),
            message: message.into(),
            metadata: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    /// A field that is not as it must be; the message says both.
    pub fn invalid(field: impl Into<String>, description: impl Into<String>) -> Self {
        let (field, description) = (field.into(), description.into());
        let message =
            if field.is_empty() { description.clone() } else { format!("{field} {description}") };
        let mut error = Self::new(Reason::InvalidParams, message);
        error.violations.push(Violation { field, description });
        error
    }

    /// Another status than the reason's own.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds to the metadata.
    #[must_use]
    pub fn with_metadata(mut self, name: &str, value: impl Into<String>) -> Self {
        self.metadata.insert(name.to_owned(), value.into());
        self
    }

    /// The `google.rpc` name; a method that a route lacks is UNIMPLEMENTED.
    pub fn rpc_status(&self) -> &'static str {
        if self.reason == Reason::MethodNotFound && self.status == 405 {
            "UNIMPLEMENTED"
        } else {
            self.reason.rpc_status()
        }
    }

    /// The body, wrapped in `error` as section 11.6 of the specification says.
    pub fn to_body(&self) -> Value {
        let mut info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.reason.as_str(),
            "domain": DOMAIN,
        });
        if !self.metadata.is_empty()
            && let Some(info) = info.as_object_mut()
        {
            info.insert("metadata".to_owned(), json!(self.metadata));
        }
        let mut details = vec![info];
        if !self.violations.is_empty() {
            let violations: Vec<Value> = self
                .violations
                .iter()
                .take(MAX_VIOLATIONS)
                .map(|v| json!({"field": v.field, "description": v.description}))
                .collect();
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": violations,
            }));
        }
        json!({"error": {
            "code": self.status,
            "status": self.rpc_status(),
            "message": self.message,
            "details": details,
        }})
    }
}

/// What a client can read of an error body; every field may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReceivedError {
    /// The sentence for a person.
    pub message: Option<String>,
    /// The reason of the first `ErrorInfo` of our domain.
    pub reason: Option<String>,
}

impl ReceivedError {
    /// Reads what is there, whatever the body is.
    pub fn parse(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Wrapped {
            error: Inner,
        }
        #[derive(Deserialize)]
        struct Inner {
            #[serde(default)]
            message: Option<String>,
            #[serde(default)]
            details: Vec<Value>,
        }
        let Ok(Wrapped { error }) = serde_json::from_slice(body) else { return Self::default() };
        let reason = error
            .details
            .iter()
            .find(|detail| detail.get("domain").and_then(Value::as_str) == Some(DOMAIN))
            .and_then(|detail| detail.get("reason")?.as_str())
            .map(str::to_owned);
        Self { message: error.message, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_the_status_of_the_contract() {
        let table = "\
UNAUTHENTICATED 401 UNAUTHENTICATED
PERMISSION_DENIED 403 PERMISSION_DENIED
TASK_NOT_FOUND 404 NOT_FOUND
TASK_NOT_CANCELABLE 400 FAILED_PRECONDITION
UNSUPPORTED_OPERATION 400 FAILED_PRECONDITION
PUSH_NOTIFICATION_NOT_SUPPORTED 400 FAILED_PRECONDITION
CONTENT_TYPE_NOT_SUPPORTED 400 INVALID_ARGUMENT
VERSION_NOT_SUPPORTED 400 FAILED_PRECONDITION
INVALID_PARAMS 400 INVALID_ARGUMENT
METHOD_NOT_FOUND 404 NOT_FOUND
ALREADY_EXISTS 409 ALREADY_EXISTS
RESOURCE_EXHAUSTED 429 RESOURCE_EXHAUSTED
UNAVAILABLE 503 UNAVAILABLE
INTERNAL_ERROR 500 INTERNAL
";
        let ours: Vec<_> = Reason::ALL
            .iter()
            .map(|r| format!("{} {} {}", r.as_str(), r.http_status(), r.rpc_status()))
            .collect();
        assert_eq!(ours, table.lines().collect::<Vec<_>>());
    }

    #[test]
    fn error_info_comes_first_with_string_metadata_and_violations_after_it() {
        let error = ApiError::invalid("message.parts[0].text", "must not be empty")
            .with_metadata("hint", "say something");
        let golden: Value =
            serde_json::from_str(include_str!("../../fixtures/error.json")).unwrap();
        assert_eq!(error.to_body(), golden);
    }

    #[test]
    fn a_missing_method_is_unimplemented() {
        let error = ApiError::new(Reason::MethodNotFound, "no").with_status(405);
        assert_eq!(error.to_body()["error"]["status"], "UNIMPLEMENTED");
        assert_eq!(error.to_body()["error"]["code"], 405);
    }

    #[test]
    fn a_client_reads_message_and_reason_and_survives_anything_else() {
        let body = ApiError::new(Reason::TaskNotFound, "no such task").to_body().to_string();
        let expected = ReceivedError {
            message: Some("no such task".to_owned()),
            reason: Some("TASK_NOT_FOUND".to_owned()),
        };
        assert_eq!(ReceivedError::parse(body.as_bytes()), expected);
        for other in ["", "<html>", "{}", "[]", r#"{"error":"no"}"#, r#"{"error":{"details":3}}"#] {
            assert_eq!(ReceivedError::parse(other.as_bytes()), ReceivedError::default(), "{other}");
        }
    }
}
