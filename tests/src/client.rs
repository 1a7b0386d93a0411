//! HTTP calls to the service under test, and what every answer must have.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::wait;
use crate::wire::{Reply, Wire};

/// The token of every service under test, unless a test says otherwise.
pub const TOKEN: &str = "a-token-of-the-tests-0123456789";

/// A client of one service.
#[derive(Debug, Clone)]
pub struct Client {
    address: String,
    tls: Option<Arc<ClientConfig>>,
}

impl Client {
    /// A client of the service at `host:port`.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), tls: None }
    }

    /// The same with TLS.
    #[must_use]
    pub fn with_tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Another client of the same service, with TLS.
    #[must_use]
    pub fn trusting(&self, config: Arc<ClientConfig>) -> Self {
        self.clone().with_tls(config)
    }

    /// Whether it speaks TLS.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// A connection of its own.
    #[track_caller]
    pub fn connect(&self) -> Wire {
        self.try_connect().unwrap_or_else(|error| panic!("connect to {}: {error}", self.address))
    }

    /// A connection of its own, if there is one to be had.
    ///
    /// # Errors
    /// When nobody listens, or the handshake fails.
    pub fn try_connect(&self) -> io::Result<Wire> {
        match &self.tls {
            None => Wire::connect(&self.address),
            Some(config) => Wire::connect_tls(&self.address, Arc::clone(config)),
        }
    }

    /// A call with the right token and version; [`Call`] changes what a test is about.
    pub fn call(&self, method: &str, path: &str) -> Call {
        let headers = [
            ("Host", "localhost"),
            ("Authorization", &format!("Bearer {TOKEN}")),
            ("A2A-Version", "1.0"),
            ("Connection", "close"),
        ];
        Call {
            client: self.clone(),
            method: method.to_owned(),
            path: path.to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            body: None,
        }
    }

    /// A GET.
    pub fn get(&self, path: &str) -> Call {
        self.call("GET", path)
    }

    /// A POST of JSON.
    pub fn post(&self, path: &str, body: &Value) -> Call {
        self.call("POST", path).set("Content-Type", "application/json").body(body.to_string())
    }

    /// `message:send` with the message and the configuration as given.
    #[track_caller]
    pub fn send_message(&self, message: &Value, configuration: &Value) -> Reply {
        let body = json!({"message": message, "configuration": configuration});
        self.post("/message:send", &body).send()
    }

    /// Submits a text and returns the task at once.
    #[track_caller]
    pub fn submit(&self, text: &str) -> Value {
        let reply =
            self.send_message(&message(&fresh_id(), text), &json!({"returnImmediately": true}));
        reply.success()["task"].clone()
    }

    /// Submits a text and returns the ID of its task at once.
    #[track_caller]
    pub fn submit_id(&self, text: &str) -> String {
        id_of(&self.submit(text))
    }

    /// Submits a text and waits for the end of its task.
    #[track_caller]
    pub fn run(&self, text: &str) -> Value {
        self.send_message(&message(&fresh_id(), text), &json!({})).success()["task"].clone()
    }

    /// A task.
    #[track_caller]
    pub fn task(&self, id: &str) -> Value {
        self.get(&format!("/tasks/{id}")).send().success()
    }

    /// The state of a task, such as `COMPLETED`.
    #[track_caller]
    pub fn state(&self, id: &str) -> String {
        state_of(&self.task(id))
    }

    /// Waits until a task has ended, and returns it.
    #[track_caller]
    pub fn ended(&self, id: &str) -> Value {
        wait::until(&format!("task {id} ends"), || {
            let task = self.task(id);
            is_terminal(&state_of(&task)).then_some(task)
        })
    }

    /// Waits until a task is in this state, and returns it.
    #[track_caller]
    pub fn wait_for(&self, id: &str, state: &str) -> Value {
        wait::until(&format!("task {id} is {state}"), || {
            let task = self.task(id);
            (state_of(&task) == state).then_some(task)
        })
    }

    /// Cancels a task.
    #[track_caller]
    pub fn cancel(&self, id: &str) -> Reply {
        self.call("POST", &format!("/tasks/{id}:cancel")).send()
    }

    /// Posts an event.
    #[track_caller]
    pub fn event(&self, event: &Value) -> Reply {
        self.post("/events", event).send()
    }

    /// Posts an event that must be answered with 200; the answer.
    #[track_caller]
    pub fn observe(&self, event: &Value) -> Value {
        self.event(event).success()
    }

    /// Posts an event that must make a task; the task's ID.
    #[track_caller]
    pub fn fire(&self, event: &Value) -> String {
        let answer = self.observe(event);
        assert_eq!(answer["accepted"], true, "{answer}");
        answer["task_id"].as_str().expect("an accepted event names its task").to_owned()
    }

    /// All tasks of a query such as `contextId=x`, on all pages.
    #[track_caller]
    pub fn list(&self, query: &str) -> Vec<Value> {
        let mut tasks = Vec::new();
        let mut token = String::new();
        loop {
            let page = self.get(&format!("/tasks?{query}&pageToken={token}")).send().success();
            tasks.extend(page["tasks"].as_array().expect("a list of tasks").iter().cloned());
            page["nextPageToken"].as_str().expect("a next page token").clone_into(&mut token);
            if token.is_empty() {
                return tasks;
            }
        }
    }
}

/// One call that a test shapes.
#[derive(Debug, Clone)]
#[must_use = "a call does nothing before `send`"]
pub struct Call {
    client: Client,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Call {
    /// Sets a header, in place of the one that is there.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self = self.without(name);
        self.add(name, value)
    }

    /// Adds a header beside those that are there.
    pub fn add(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes a header out.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Sets the body, as it is.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// The request as its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        if let Some(body) = &self.body {
            head.push_str("Content-Length: ");
            head.push_str(&body.len().to_string());
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend(self.body.iter().flatten());
        bytes
    }

    /// Makes the call.
    #[track_caller]
    pub fn send(&self) -> Reply {
        let (method, path) = (&self.method, &self.path);
        self.try_send().unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Makes the call, if there is an answer to be had.
    ///
    /// # Errors
    /// When the connection cannot be made, or ends before the answer.
    pub fn try_send(&self) -> io::Result<Reply> {
        let mut wire = self.client.try_connect()?;
        // A server may answer and close before it has read everything: the answer counts.
        let sent = wire.send(self.to_bytes());
        wire.reply_to(&self.method).or_else(|error| sent.and(Err(error)))
    }

    /// Begins the call, and leaves the answer to be read.
    #[track_caller]
    pub fn begin(&self) -> Wire {
        let mut wire = self.client.connect();
        wire.send(self.to_bytes()).expect("write a request");
        wire
    }
}

impl Reply {
    /// Checks what section 3 says of every success, and returns its body.
    #[track_caller]
    pub fn success(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/a2a+json"), "{}", self.text());
        self.universal();
        let body = self.json();
        assert!(!has_null(&body), "no null is sent: {body}");
        body
    }

    /// Checks what section 3 says of every error, and returns the inner error.
    #[track_caller]
    pub fn error(&self, status: u16, reason: &str) -> Value {
        let text = self.text();
        assert_eq!(self.status, status, "{reason} was expected: {text}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{text}");
        self.universal();
        let body = self.json();
        assert!(!has_null(&body), "no null is sent: {body}");
        let error = body["error"].clone();
        assert_eq!(error["code"], status, "{text}");
        assert_eq!(error["status"], rpc_status(status, reason), "{text}");
        assert!(!error["message"].as_str().unwrap_or_default().is_empty(), "{text}");
        let info = &error["details"][0];
        assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo", "{text}");
        assert_eq!(info["reason"], reason, "{text}");
        assert_eq!(info["domain"], "a2a-protocol.org", "{text}");
        let metadata = info.get("metadata").and_then(Value::as_object);
        assert!(metadata.into_iter().flatten().all(|(_, value)| value.is_string()), "{text}");
        error
    }

    #[track_caller]
    fn universal(&self) {
        assert_eq!(self.header("cache-control"), Some("no-store"), "{}", self.text());
        assert_eq!(self.header("a2a-version"), Some("1.0"), "{}", self.text());
    }

    /// Seconds of `Retry-After`.
    #[track_caller]
    pub fn retry_after(&self) -> u64 {
        let value = self.header("retry-after").unwrap_or_else(|| panic!("no Retry-After"));
        value.parse().unwrap_or_else(|_| panic!("no seconds in Retry-After: {value}"))
    }
}

/// The message of an error.
pub fn words(error: &Value) -> String {
    error["message"].as_str().unwrap_or_default().to_owned()
}

/// A user's message with one part of text.
pub fn message(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// An ID that no other message of this test has.
pub fn fresh_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("m-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The ID of a task.
#[track_caller]
pub fn id_of(task: &Value) -> String {
    task["id"].as_str().unwrap_or_else(|| panic!("no task: {task}")).to_owned()
}

/// The state of a task, such as `COMPLETED`.
#[track_caller]
pub fn state_of(task: &Value) -> String {
    let state = task["status"]["state"].as_str().unwrap_or_else(|| panic!("no state: {task}"));
    state.strip_prefix("TASK_STATE_").unwrap_or(state).to_owned()
}

/// Whether a state is an end.
pub fn is_terminal(state: &str) -> bool {
    matches!(state, "COMPLETED" | "FAILED" | "CANCELED" | "REJECTED")
}

/// The text of a task's artifact.
#[track_caller]
pub fn result_of(task: &Value) -> String {
    let text = task["artifacts"][0]["parts"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no artifact: {task}")).to_owned()
}

/// The text of a task's status message.
#[track_caller]
pub fn status_text(task: &Value) -> String {
    let text = task["status"]["message"]["parts"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no status message: {task}")).to_owned()
}

/// The table of CONTRACT section 3.
fn rpc_status(http: u16, reason: &str) -> &'static str {
    match reason {
        "UNAUTHENTICATED" => "UNAUTHENTICATED",
        "PERMISSION_DENIED" => "PERMISSION_DENIED",
        "TASK_NOT_CANCELABLE"
        | "UNSUPPORTED_OPERATION"
        | "PUSH_NOTIFICATION_NOT_SUPPORTED"
        | "VERSION_NOT_SUPPORTED" => "FAILED_PRECONDITION",
        "CONTENT_TYPE_NOT_SUPPORTED" | "INVALID_PARAMS" => "INVALID_ARGUMENT",
        "METHOD_NOT_FOUND" if http == 405 => "UNIMPLEMENTED",
        "TASK_NOT_FOUND" | "METHOD_NOT_FOUND" => "NOT_FOUND",
        "ALREADY_EXISTS" => "ALREADY_EXISTS",
        "RESOURCE_EXHAUSTED" => "RESOURCE_EXHAUSTED",
        "UNAVAILABLE" => "UNAVAILABLE",
        "INTERNAL_ERROR" => "INTERNAL",
        other => panic!("the contract has no reason {other}"),
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
