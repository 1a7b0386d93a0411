//! The JSON lines between the service and an agent process ("persistent protocol").
//!
//! Written frames are one line without a newline at the end; the writer adds it. Read lines follow
//! rule 1: what does not parse, is no object, has an unknown `kind` or a wrong type in a field is
//! nothing ([`Incoming::parse`] says `None`), never an error: the agent may print what it likes.

use serde::Serialize;
use serde_json::{Map, Value};

/// The version of the protocol, as `v` in every frame that is written; never checked when read.
pub const PROTOCOL_VERSION: u8 = 1;

/// The `schedule` of every frame: agents here are run by triggers, never by a clock.
pub const SCHEDULE: &str = "trigger";

/// The first line after the start of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The agent's name.
    pub agent: String,
    /// The label of the instance's key, or `default`.
    pub key: String,
}

impl Hello {
    /// The line, without a newline.
    pub fn to_line(&self) -> String {
        #[derive(Serialize)]
        struct Frame<'a> {
            v: u8,
            kind: &'static str,
            agent: &'a str,
            key: &'a str,
            schedule: &'static str,
        }
        line(&Frame {
            v: PROTOCOL_VERSION,
            kind: "hello",
            agent: &self.agent,
            key: &self.key,
            schedule: SCHEDULE,
        })
    }
}

/// One task for the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Unique within the instance.
    pub id: String,
    /// The agent's name.
    pub agent: String,
    /// What remains of the task's time: whole seconds, at least 1.
    pub deadline_seconds: u64,
    /// What the task is about.
    pub trigger: Trigger,
}

impl Request {
    /// The line, without a newline.
    pub fn to_line(&self) -> String {
        #[derive(Serialize)]
        struct Frame<'a> {
            v: u8,
            kind: &'static str,
            id: &'a str,
            agent: &'a str,
            schedule: &'static str,
            args: [&'a str; 0],
            deadline_seconds: u64,
            trigger: &'a Trigger,
        }
        line(&Frame {
            v: PROTOCOL_VERSION,
            kind: "request",
            id: &self.id,
            agent: &self.agent,
            schedule: SCHEDULE,
            args: [],
            deadline_seconds: self.deadline_seconds,
            trigger: &self.trigger,
        })
    }
}

/// Where a task comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trigger {
    /// `a2a` or `event`.
    pub source: TriggerSource,
    /// The context.
    pub session_id: String,
    /// Who asked, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The task.
    pub reply_to: String,
    /// The prompt and what belongs to it.
    pub payload: Map<String, Value>,
}

/// The two ways in which a task is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TriggerSource {
    /// By `message:send`.
    A2a,
    /// By `POST /events`.
    Event,
}

impl TriggerSource {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::A2a => "a2a",
            Self::Event => "event",
        }
    }
}

/// A line of the agent that means something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// The agent takes requests now, or says that it will not.
    Ready(Ready),
    /// An answer to a request.
    Response(Response),
}

/// The end of the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// False is a refusal; absent means true.
    pub ok: bool,
    /// Why it refuses.
    pub error: Option<String>,
}

/// An answer; everything in it is optional.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The request that is answered; none means the one in flight.
    pub id: Option<String>,
    /// The verdict when there is no exit code; absent means true.
    pub ok: bool,
    /// What the agent says.
    pub output: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// The verdict, if there: 0 is success.
    pub exit_code: Option<i32>,
}

impl Response {
    /// Whether the request was done: `exit_code` 0 if present, else `ok`.
    pub fn is_success(&self) -> bool {
        self.exit_code.map_or(self.ok, |code| code == 0)
    }

    /// The text to deliver: `output`, else `error`, else nothing.
    pub fn text(&self) -> &str {
        self.output.as_deref().or(self.error.as_deref()).unwrap_or_default()
    }
}

impl Incoming {
    /// Reads one line, with or without its line end.
    ///
    /// `None` for everything that is no frame of an agent: text that does not parse or is no object, a
    /// `kind` other than ready and response, a wrong type in a field, and an object without `kind`
    /// that has none of id, output, error and `exit_code`. A field that is null is absent, except `ok`,
    /// which must be a boolean when it is there.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let Value::Object(members) = serde_json::from_str(text.trim()).ok()? else { return None };
        let fields = Fields(&members);
        let ok = match members.get("ok") {
            None => true,
            Some(value) => value.as_bool()?,
        };
        let kind = fields.text("kind").ok()?;
        // `v` is not checked for its value, and must be what a version can be.
        match members.get("v") {
            None | Some(Value::Null) => {}
            Some(version) => {
                version.as_u64()?;
            }
        }
        let response = fields.response(ok)?;
        match kind.as_deref() {
            Some("ready") => Some(Self::Ready(Ready { ok, error: response.error })),
            Some("response") => Some(Self::Response(response)),
            None if ["id", "output", "error", "exit_code"].iter().any(|name| fields.set(name)) => {
                Some(Self::Response(response))
            }
            None | Some(_) => None,
        }
    }
}

/// A wrong type, which makes the whole line nothing.
struct WrongType;

struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn set(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, WrongType> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Err(WrongType)
            }
        }
    }

    fn response(&self, ok: bool) -> Option<Response> {
        let exit_code = match self.0.get("exit_code") {
            None | Some(Value::Null) => None,
            Some(value) => Some(i32::try_from(value.as_i64()?).ok()?),
        };
        Some(Response {
            id: self.text("id").ok()?,
            ok,
            output: self.text("output").ok()?,
            error: self.text("error").ok()?,
            exit_code,
        })
    }
}

fn line(frame: &impl Serialize) -> String {
    // Strings, numbers and parsed JSON: nothing in a frame can fail to print.
    serde_json::to_string(frame).unwrap_or_default()
}

#[cfg(test)]
mod tests;
