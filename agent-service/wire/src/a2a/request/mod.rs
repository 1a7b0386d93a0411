//! The body of `message:send`, read as ProtoJSON and checked against all limits of the contract.
//!
//! What needs a look-up is left to the caller: [`Submission::task_id`] names a task that the client
//! wants to continue, which the service never does, but an unknown one has an error of its own.

use serde_json::{Map, Value, json};

use super::error::{ApiError, MAX_VIOLATIONS, Reason};
use super::proto::{Faults, Object, kind, whole};
use super::task::{Part, Role};
use crate::canonical::Digest;
use crate::value::{
    ContextId, DelegationDepth, MAX_DELEGATION_DEPTH, MessageId, TaskId, TraceParent,
};

/// The most parts of a message. Source: CONTRACT, section 3.
pub const MAX_PARTS: usize = 32;

/// The most bytes of the joined text. Source: CONTRACT, section 3.
pub const MAX_PROMPT_BYTES: usize = 16_000;

/// Where the delegation depth stands in the message's metadata.
pub const DELEGATION_DEPTH: &str = "wendy.delegation_depth";

/// A message that asks for a task, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The client's identifier; the same one again means the same task.
    pub message_id: MessageId,
    /// The context as sent; none when absent or empty, and then the service makes one.
    pub context_id: Option<ContextId>,
    /// A task to continue, which is an error in any case; see the head of this module.
    pub task_id: Option<TaskId>,
    /// Always [`Role::User`].
    pub role: Role,
    /// 1 to 32 text parts.
    pub parts: Vec<Part>,
    /// The message's metadata as sent.
    pub metadata: Option<Map<String, Value>>,
    /// From the metadata; 0 when absent.
    pub depth: DelegationDepth,
    /// The texts, joined with newlines: 1 to 16,000 bytes, not blank.
    pub prompt: String,
    /// Whether to answer before the task has ended.
    pub return_immediately: bool,
    /// How many messages of the history the answer holds; none is all.
    pub history_length: Option<u32>,
    /// The trace context of the call; no part of the message.
    pub trace: Option<TraceParent>,
}

impl Submission {
    /// Reads the body of `message:send`.
    ///
    /// # Errors
    /// `INVALID_PARAMS` with all fields at fault; else `CONTENT_TYPE_NOT_SUPPORTED` for a part that is
    /// no text or output modes without text/plain; else `PUSH_NOTIFICATION_NOT_SUPPORTED`.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let root = object(body)?;
        let root = Object::root(&root);
        let mut reading = Reading::default();
        let configuration = reading.configuration(&root);
        let message = reading.message(&root);
        reading.finish()?;
        let (Some(configuration), Some(message)) = (configuration, message) else {
            // Each missing piece noted a fault, so that `finish` returned.
            return Err(ApiError::invalid("message", "must be given"));
        };
        let Configuration { return_immediately, history_length } = configuration;
        Ok(Self { return_immediately, history_length, ..message })
    }

    /// The SHA-256 of the content: role, context as sent, parts, metadata and delegation depth. Two
    /// messages with one identifier and one digest are the same message.
    pub fn digest(&self) -> Digest {
        Digest::of(&json!({
            "role": self.role,
            "contextId": self.context_id,
            "parts": self.parts,
            "metadata": self.metadata,
            "depth": self.depth,
        }))
    }
}

/// Reads a body that must be exactly one JSON object.
///
/// # Errors
/// `INVALID_PARAMS`, with what the JSON parser says.
pub fn object(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let wrong = |problem: String| {
        ApiError::invalid("", format!("the body must be exactly one JSON object: {problem}"))
    };
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(other) => Err(wrong(format!("it is {}", kind(&other)))),
        Err(error) => Err(wrong(error.to_string())),
    }
}

struct Configuration {
    return_immediately: bool,
    history_length: Option<u32>,
}

/// The faults of one reading, by the reason that they have.
#[derive(Default)]
struct Reading {
    faults: Faults,
    content_type: Option<ApiError>,
    push: Option<ApiError>,
}

impl Reading {
    /// The error of the reading, if there is one.
    fn finish(&mut self) -> Result<(), ApiError> {
        let mut violations = std::mem::take(&mut self.faults.violations);
        if let Some(first) = violations.first() {
            let mut error = ApiError::invalid(first.field.clone(), first.description.clone());
            violations.truncate(MAX_VIOLATIONS);
            error.violations = violations;
            return Err(error);
        }
        match self.content_type.take().or_else(|| self.push.take()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn configuration(&mut self, root: &Object<'_>) -> Option<Configuration> {
        if root.get("configuration").is_none() {
            return Some(Configuration { return_immediately: false, history_length: None });
        }
        let configuration = root.object("configuration", &mut self.faults)?;
        self.output_modes(&configuration);
        if configuration.get("taskPushNotificationConfig").is_some() {
            self.push = Some(ApiError::new(
                Reason::PushNotificationNotSupported,
                "push notifications are not supported; leave taskPushNotificationConfig out and \
                 ask for the task with GET /tasks/{id}",
            ));
        }
        let return_immediately = configuration.boolean("returnImmediately", &mut self.faults);
        let history_length =
            configuration.int32("historyLength", &mut self.faults).and_then(|length| {
                let unsigned = u32::try_from(length).ok();
                if unsigned.is_none() {
                    let path = configuration.path("historyLength");
                    self.faults.add(&path, format!("must be 0 or more; it is {length}"));
                }
                unsigned
            });
        Some(Configuration {
            return_immediately: return_immediately.unwrap_or(false),
            history_length,
        })
    }

    fn output_modes(&mut self, configuration: &Object<'_>) {
        let Some(modes) = configuration.list("acceptedOutputModes", &mut self.faults) else {
            return;
        };
        let path = configuration.path("acceptedOutputModes");
        let mut allowed = modes.is_empty();
        for (index, mode) in modes.iter().enumerate() {
            match mode.as_str() {
                Some(mode) => allowed |= allows_text(mode),
                None => self.faults.add(
                    &format!("{path}[{index}]"),
                    format!("must be a string; it is {}", kind(mode)),
                ),
            }
        }
        if !allowed {
            self.content_type = Some(ApiError::new(
                Reason::ContentTypeNotSupported,
                "the agent answers in text/plain, which acceptedOutputModes does not allow",
            ));
        }
    }

    fn message(&mut self, root: &Object<'_>) -> Option<Submission> {
        if root.get("message").is_none() {
            self.faults.add("message", "must be given");
            return None;
        }
        let message = root.object("message", &mut self.faults)?;
        let message_id = self.message_id(&message);
        let context_id = self.optional_id(&message, "contextId", ContextId::new);
        let task_id = self.optional_id(&message, "taskId", TaskId::new);
        let role = self.role(&message);
        let parts = self.parts(&message);
        let prompt = parts.as_deref().and_then(|parts| self.prompt(&message, parts));
        let metadata = message.object("metadata", &mut self.faults);
        let request_metadata = root.object("metadata", &mut self.faults);
        let depth = self.depth(metadata.as_ref(), request_metadata.as_ref());
        Some(Submission {
            message_id: message_id?,
            context_id,
            task_id,
            role: role?,
            parts: parts?,
            metadata: metadata.map(|metadata| metadata.members().clone()),
            depth: depth?,
            prompt: prompt?,
            return_immediately: false,
            history_length: None,
            trace: None,
        })
    }

    fn message_id(&mut self, message: &Object<'_>) -> Option<MessageId> {
        let path = message.path("messageId");
        if message.get("messageId").is_none() {
            self.faults.add(&path, "must be given");
            return None;
        }
        let text = message.string("messageId", &mut self.faults)?;
        let checked = MessageId::new(text);
        if let Err(error) = &checked {
            self.faults.add(&path, without_name(&error.to_string(), "messageId"));
        }
        checked.ok()
    }

    fn optional_id<T>(
        &mut self,
        message: &Object<'_>,
        name: &str,
        new: fn(String) -> Result<T, crate::value::ValueError>,
    ) -> Option<T> {
        let text = message.string(name, &mut self.faults).filter(|text| !text.is_empty())?;
        let checked = new(text.to_owned());
        if checked.is_err() {
            let bytes = text.len();
            self.faults
                .add(&message.path(name), format!("must be at most 256 bytes; it has {bytes}"));
        }
        checked.ok()
    }

    fn role(&mut self, message: &Object<'_>) -> Option<Role> {
        let path = message.path("role");
        let Some(value) = message.get("role") else {
            self.faults.add(&path, "must be ROLE_USER; it is not given");
            return None;
        };
        let role = match value {
            Value::String(text) => Role::from_wire(text),
            Value::Number(_) => whole(value).and_then(Role::from_number),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        if role == Some(Role::User) {
            return role;
        }
        self.faults.add(&path, "must be ROLE_USER");
        None
    }

    fn parts(&mut self, message: &Object<'_>) -> Option<Vec<Part>> {
        let path = message.path("parts");
        if message.get("parts").is_none() {
            self.faults.add(&path, format!("must be given: 1 to {MAX_PARTS} parts"));
            return None;
        }
        let items = message.list("parts", &mut self.faults)?;
        if items.is_empty() || items.len() > MAX_PARTS {
            let count = items.len();
            self.faults.add(&path, format!("must be 1 to {MAX_PARTS} parts; there are {count}"));
            return None;
        }
        let parts: Vec<_> = items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let part = Object::new(item, format!("{path}[{index}]"), &mut self.faults)?;
                self.part(&part)
            })
            .collect();
        parts.into_iter().collect()
    }

    fn part(&mut self, part: &Object<'_>) -> Option<Part> {
        // `data` is any JSON, so that its null is a value.
        let contents: Vec<&str> = ["text", "raw", "url", "data"]
            .into_iter()
            .filter(|name| {
                if *name == "data" { part.any(name).is_some() } else { part.get(name).is_some() }
            })
            .collect();
        if contents.len() > 1 {
            let path = part.path("");
            let path = path.trim_end_matches('.');
            self.faults.add(path, format!("must be one of {}, not several", contents.join(", ")));
            return None;
        }
        let metadata = part.object("metadata", &mut self.faults);
        let filename = part.string("filename", &mut self.faults).map(str::to_owned);
        let media_type = part.string("mediaType", &mut self.faults).map(str::to_owned);
        if contents != ["text"] {
            self.content_type.get_or_insert_with(|| {
                let path = part.path("text");
                ApiError::new(
                    Reason::ContentTypeNotSupported,
                    format!("{path} must be given: the agent takes text parts only"),
                )
            });
            return None;
        }
        let text = part.string("text", &mut self.faults)?;
        if text.is_empty() {
            self.faults.add(&part.path("text"), "must not be empty");
            return None;
        }
        let metadata = metadata.map(|metadata| metadata.members().clone());
        Some(Part { metadata, filename, media_type, ..Part::from_text(text) })
    }

    fn prompt(&mut self, message: &Object<'_>, parts: &[Part]) -> Option<String> {
        let texts: Vec<&str> = parts.iter().filter_map(Part::text).collect();
        let prompt = texts.join("\n");
        let path = message.path("parts");
        if prompt.len() > MAX_PROMPT_BYTES {
            let bytes = prompt.len();
            self.faults.add(
                &path,
                format!("must join to at most {MAX_PROMPT_BYTES} bytes of text; it is {bytes}"),
            );
            return None;
        }
        if prompt.trim().is_empty() {
            self.faults.add(&path, "must not be blank");
            return None;
        }
        Some(prompt)
    }

    /// The depth of the message's metadata, else of the request's: a counter that is meant to bound a
    /// chain of agents counts wherever a client puts it.
    fn depth(
        &mut self,
        message: Option<&Object<'_>>,
        request: Option<&Object<'_>>,
    ) -> Option<DelegationDepth> {
        let given = [message, request].into_iter().flatten().find_map(|metadata| {
            Some((metadata.path(DELEGATION_DEPTH), metadata.members().get(DELEGATION_DEPTH)?))
        });
        let Some((path, value)) = given else { return Some(DelegationDepth::ZERO) };
        let depth = match value {
            Value::Number(_) => whole(value),
            // Metadata is free JSON: there a null or a text is no number.
            Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        }
        .and_then(|depth| u64::try_from(depth).ok())
        .and_then(|depth| DelegationDepth::new(depth).ok());
        if depth.is_none() {
            self.faults.add(&path, format!("must be an integer from 0 to {MAX_DELEGATION_DEPTH}"));
        }
        depth
    }
}

/// Whether a media range allows text/plain; parameters and case do not matter.
fn allows_text(mode: &str) -> bool {
    let range = mode.split(';').next().unwrap_or_default().trim();
    ["text/plain", "text/*", "*/*"].iter().any(|one| range.eq_ignore_ascii_case(one))
}

fn without_name(text: &str, name: &str) -> String {
    text.strip_prefix(name).unwrap_or(text).trim_start().to_owned()
}

#[cfg(test)]
mod tests;
