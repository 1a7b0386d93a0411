//! The client commands: one request to a service, and what a person or a program gets to see of it.
//!
//! JSON output is the service's own body, so that nothing is lost between versions; a table shows the
//! fields that a person looks for.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use service_kit::client::{self as http, Origin};
use service_kit::output::{Output, table};
use service_kit::secret::Token;
use service_kit::vars::Vars;
use uuid::Uuid;

use crate::cli::is_stdin;

/// The largest answer: a page of tasks.
const MAX_ANSWER: usize = 2 * 1024 * 1024;

/// The largest event that is worth sending: the service takes 64 KiB.
const MAX_EVENT: u64 = 64 * 1024;

/// How long one request may take. Source: CONTRACT, section 7.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How often `send --wait` looks at its task.
const POLL: Duration = Duration::from_millis(500);

/// How many tasks are asked for at once.
const PAGE: usize = 100;

/// Why a client command has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Usage: an address, a token or a file that cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The service cannot be reached.
    #[error("cannot reach {url}: {why}")]
    Unreachable {
        /// The service.
        url: String,
        /// Why.
        why: String,
    },
    /// The service said no.
    #[error("{message} ({reason}, HTTP {status})")]
    Refused {
        /// Its message.
        message: String,
        /// Its reason.
        reason: String,
        /// The status.
        status: u16,
    },
    /// The answer is none of this protocol.
    #[error("{url} gave an answer that is none of an agent service: {why}")]
    Strange {
        /// The service.
        url: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// Whether the command was asked in a way that cannot be done.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

type Result<T> = std::result::Result<T, Error>;

/// A service, as a client reaches it.
pub(crate) struct Service {
    origin: Origin,
    token: Option<Token>,
    client: Client,
}

/// A message to send.
pub(crate) struct Message {
    pub(crate) prompt: String,
    pub(crate) request_id: Option<String>,
    pub(crate) context: Option<String>,
}

impl Service {
    /// Prepares to talk to the service at `url`.
    pub(crate) fn new(
        vars: &Vars,
        url: &str,
        token_env: &str,
        ca_cert: Option<PathBuf>,
    ) -> Result<Self> {
        let usage = |error: &dyn std::fmt::Display| Error::Usage(error.to_string());
        let origin: Origin =
            url.parse().map_err(|error| usage(&format!("--url {url}: {error}")))?;
        // `healthcheck` needs none; the others say so when they use it.
        let token = match Token::read(vars, token_env) {
            Ok(token) => Ok(Some(token)),
            Err(service_kit::secret::Error::Missing { .. }) => Ok(None),
            Err(error) => Err(usage(&error)),
        }?;
        let settings = http::Settings {
            user_agent: concat!("agent-service/", env!("CARGO_PKG_VERSION")),
            ca_cert,
            timeout: Some(TIMEOUT),
        };
        let client = http::build(&origin, &settings).map_err(|error| usage(&error))?;
        Ok(Self { origin, token, client })
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Value> {
        let token = self.token.as_ref().ok_or_else(|| {
            Error::Usage(
                "no token: set WENDY_AGENT_TOKEN, or name its variable with --token-env".to_owned(),
            )
        })?;
        let mut request = self
            .client
            .request(method, self.origin.at(path))
            .bearer_auth(token.expose())
            .header("A2A-Version", "1.0");
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body);
        }
        let (status, body) = self.exchange(request).await?;
        let value: Option<Value> = serde_json::from_slice(&body).ok();
        if !status.is_success() {
            return Err(self.refused(status, value.as_ref()));
        }
        value.ok_or_else(|| self.strange("its body is no JSON"))
    }

    async fn exchange(&self, request: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>)> {
        let unreachable = |why: String| Error::Unreachable { url: self.origin.to_string(), why };
        let response = request.send().await.map_err(|error| unreachable(cause(&error)))?;
        let status = response.status();
        let body = http::read_body(response, MAX_ANSWER)
            .await
            .map_err(|error| self.strange(&error.to_string()))?;
        Ok((status, body))
    }

    fn strange(&self, why: &str) -> Error {
        Error::Strange { url: self.origin.to_string(), why: why.to_owned() }
    }

    fn refused(&self, status: StatusCode, body: Option<&Value>) -> Error {
        let error = body.and_then(|body| body.get("error"));
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let Some(message) = text(error.and_then(|error| error.get("message"))) else {
            return self.strange(&format!("HTTP {status}"));
        };
        let reason = error.and_then(|error| error.pointer("/details/0/reason"));
        let reason = text(reason).unwrap_or_else(|| "no reason".to_owned());
        Error::Refused { message, reason, status: status.as_u16() }
    }

    /// Submits a message without waiting for its end; the answer is `{"task": ..}`.
    pub(crate) async fn send(&self, message: &Message) -> Result<Value> {
        let id = message.request_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        let mut said = json!({
            "messageId": id,
            "role": "ROLE_USER",
            "parts": [{"text": message.prompt}],
        });
        if let (Some(context), Some(said)) = (&message.context, said.as_object_mut()) {
            said.insert("contextId".to_owned(), json!(context));
        }
        let body = json!({"message": said, "configuration": {"returnImmediately": true}});
        self.ask(Method::POST, "/message:send", Some(body.to_string().into_bytes())).await
    }

    /// Reads a task.
    pub(crate) async fn get(&self, id: &str) -> Result<Value> {
        self.ask(Method::GET, &format!("/tasks/{}", segment(id)), None).await
    }

    /// Cancels a task.
    pub(crate) async fn cancel(&self, id: &str) -> Result<Value> {
        self.ask(Method::POST, &format!("/tasks/{}:cancel", segment(id)), None).await
    }

    /// Posts an event.
    pub(crate) async fn event(&self, body: Vec<u8>) -> Result<Value> {
        self.ask(Method::POST, "/events", Some(body)).await
    }

    /// Lists tasks over all pages.
    pub(crate) async fn tasks(
        &self,
        context: Option<&str>,
        status: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Value> {
        let mut all: Vec<Value> = Vec::new();
        let mut token = String::new();
        let limit = limit.unwrap_or(usize::MAX);
        while all.len() < limit {
            let size = PAGE.min(limit.saturating_sub(all.len()));
            let mut path = format!("/tasks?pageSize={size}&includeArtifacts=true");
            for (name, value) in
                [("contextId", context), ("status", status), ("pageToken", Some(token.as_str()))]
            {
                if let Some(value) = value.filter(|value| !value.is_empty()) {
                    path = format!("{path}&{name}={}", segment(value));
                }
            }
            let mut page = self.ask(Method::GET, &path, None).await?;
            let tasks = page.get_mut("tasks").and_then(Value::as_array_mut);
            all.append(tasks.ok_or_else(|| self.strange("a page without tasks"))?);
            let next = page.get("nextPageToken").and_then(Value::as_str).unwrap_or_default();
            if next == token && !next.is_empty() {
                return Err(self.strange("the same page token twice"));
            }
            if next.is_empty() {
                break;
            }
            next.clone_into(&mut token);
        }
        all.truncate(limit);
        Ok(json!({"tasks": all}))
    }

    /// Asks `/readyz`.
    pub(crate) async fn ready(&self) -> Result<String> {
        let request = self.client.get(self.origin.at("/readyz"));
        let (status, body) = self.exchange(request).await?;
        let text = String::from_utf8_lossy(&body).trim().to_owned();
        if status.is_success() {
            Ok(text)
        } else {
            let reason = "not ready".to_owned();
            Err(Error::Refused { message: text, reason, status: status.as_u16() })
        }
    }
}

/// Sends a message, and waits until its task has ended.
pub(crate) async fn send_and_wait(service: &Service, message: &Message) -> Result<Value> {
    // The same message again finds the same task, should a poll fail on the way.
    let sent = service.send(message).await?;
    let task = sent.get("task").cloned().unwrap_or_default();
    let id = task
        .get("id")
        .and_then(Value::as_str)
        .ok_or_else(|| service.strange("a task without id"))?;
    let progress = progress(id);
    let mut task = task.clone();
    while !is_terminal(&task) {
        progress.set_message(state(&task).to_owned());
        progress.tick();
        tokio::time::sleep(POLL).await;
        task = service.get(id).await?;
    }
    progress.finish_and_clear();
    Ok(task)
}

/// A line on the terminal that shows that something goes on; none when nobody looks.
fn progress(id: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_prefix(id.to_owned());
    let style = ProgressStyle::with_template("{spinner} task {prefix} {msg} {elapsed}");
    bar.set_style(style.unwrap_or_else(|_never| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// The state of a task, as the service names it.
pub(crate) fn state(task: &Value) -> &str {
    task.pointer("/status/state").and_then(Value::as_str).unwrap_or_default()
}

fn is_terminal(task: &Value) -> bool {
    agent_wire::a2a::task::TaskState::from_wire(state(task))
        .is_some_and(agent_wire::a2a::task::TaskState::is_terminal)
}

/// Reads an event from a file or from stdin; what is in it is for the service to judge.
pub(crate) fn read_event(path: &Path) -> Result<Vec<u8>> {
    let unreadable = |error: std::io::Error| {
        Error::Usage(format!("cannot read the event from {}: {error}", path.display()))
    };
    let mut body = Vec::new();
    // One byte more than allowed tells a large one from one that just fits.
    let limit = MAX_EVENT.saturating_add(1);
    if is_stdin(path) {
        std::io::stdin().take(limit).read_to_end(&mut body).map_err(unreadable)?;
    } else {
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(limit).read_to_end(&mut body).map_err(unreadable)?;
    }
    if u64::try_from(body.len()).is_ok_and(|length| length > MAX_EVENT) {
        return Err(Error::Usage(format!("the event in {} is over 64 KiB", path.display())));
    }
    Ok(body)
}

/// The task of a `send`.
pub(crate) fn show_sent(sent: &Value, output: Output) -> String {
    match output {
        Output::Json => sent.to_string(),
        Output::Table => show_task(sent.get("task").unwrap_or(sent), output),
    }
}

/// One task.
pub(crate) fn show_task(task: &Value, output: Output) -> String {
    let text = |pointer| task.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    match output {
        Output::Json => task.to_string(),
        Output::Table => {
            let mut shown = String::new();
            let rows = [
                ("task", text("/id")),
                ("context", text("/contextId")),
                ("state", text("/status/state")),
                ("since", text("/status/timestamp")),
            ];
            for (name, value) in rows {
                shown = format!("{shown}{name:<8} {value}\n");
            }
            let result = text("/artifacts/0/parts/0/text");
            let said =
                if result.is_empty() { text("/status/message/parts/0/text") } else { result };
            if !said.is_empty() {
                // What an agent says must not steer the terminal.
                let plain = said.replace(|c: char| c.is_control() && c != '\n' && c != '\t', " ");
                shown = format!("{shown}\n{plain}");
            }
            shown.trim_end().to_owned()
        }
    }
}

/// Many tasks.
pub(crate) fn show_tasks(tasks: &Value, output: Output) -> String {
    match output {
        Output::Json => tasks.to_string(),
        Output::Table => {
            let rows: Vec<[String; 4]> = tasks
                .get("tasks")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(|task| {
                    let text =
                        |pointer| task.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                    let result = text("/artifacts/0/parts/0/text");
                    let said = if result.is_empty() {
                        text("/status/message/parts/0/text")
                    } else {
                        result
                    };
                    let line = said.lines().next().unwrap_or_default();
                    let short: String = line.chars().take(60).collect();
                    [
                        text("/id").to_owned(),
                        state(task).to_owned(),
                        text("/status/timestamp").to_owned(),
                        short,
                    ]
                })
                .collect();
            table(["TASK", "STATE", "SINCE", "SAID"], &rows)
        }
    }
}

/// What an event was answered.
pub(crate) fn show_event(answer: &Value, output: Output) -> String {
    match output {
        Output::Json => answer.to_string(),
        Output::Table => {
            let text = |name| answer.get(name).and_then(Value::as_str).unwrap_or_default();
            match answer.get("accepted").and_then(Value::as_bool) {
                Some(true) => format!("accepted: task {}", text("task_id")),
                Some(false) | None => format!("not accepted: {}", text("reason")),
            }
        }
    }
}

/// Escapes what may stand for one path segment or one query value.
fn segment(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped = format!("{escaped}%{byte:02X}");
        }
    }
    escaped
}

/// The innermost cause: what a person can act on.
fn cause(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(source) = next {
        text = source.to_string();
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_escapes_all_but_unreserved_characters() {
        assert_eq!(segment("a-B_1.~"), "a-B_1.~");
        assert_eq!(segment("a:b/c?d&e é"), "a%3Ab%2Fc%3Fd%26e%20%C3%A9");
    }

    #[test]
    fn a_task_shows_its_result_or_its_status_message() {
        let completed = json!({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "now"}, "artifacts": [{"parts": [{"text": "done"}]}]});
        let shown = show_task(&completed, Output::Table);
        assert!(shown.starts_with("task     t\n") && shown.ends_with("\n\ndone"), "{shown}");
        let failed = json!({"id": "t", "status": {"state": "TASK_STATE_FAILED", "message": {"parts": [{"text": "broken"}]}}});
        assert!(show_task(&failed, Output::Table).ends_with("broken"));
        assert_eq!(show_task(&failed, Output::Json), failed.to_string());
    }

    #[test]
    fn tasks_are_a_table_with_a_line_each() {
        let tasks = json!({"tasks": [{"id": "t", "status": {"state": "TASK_STATE_FAILED", "timestamp": "now", "message": {"parts": [{"text": "first\nsecond"}]}}}]});
        let shown = show_tasks(&tasks, Output::Table);
        assert!(
            shown.contains("TASK") && shown.contains("first") && !shown.contains("second"),
            "{shown}"
        );
    }

    #[test]
    fn an_event_says_whether_it_was_accepted() {
        assert_eq!(
            show_event(&json!({"accepted": true, "task_id": "t"}), Output::Table),
            "accepted: task t"
        );
        let waits = json!({"accepted": false, "reason": "cooldown"});
        assert_eq!(show_event(&waits, Output::Table), "not accepted: cooldown");
    }
}
