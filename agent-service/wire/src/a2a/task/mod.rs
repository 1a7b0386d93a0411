//! Tasks, messages, parts and artifacts.
//!
//! Written exactly as the proto says: camelCase, unset fields and empty lists left out, timestamps in
//! UTC with three digits and `Z`. Read leniently, for clients: `null` is unset, a field that is not
//! known is ignored, an enum may be its number.

use std::fmt;

use jiff::Timestamp;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::time;
use crate::value::TaskId;

/// A task as a client sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// The identifier.
    pub id: TaskId,
    /// The group of tasks that it belongs to; the service always has one.
    #[serde(
        default,
        alias = "context_id",
        deserialize_with = "unset",
        skip_serializing_if = "String::is_empty"
    )]
    pub context_id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// What it produced.
    #[serde(default, deserialize_with = "unset", skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// What was said to it, oldest first.
    #[serde(default, deserialize_with = "unset", skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl Task {
    /// Cuts the history to the latest `length` messages; `None` leaves it whole, 0 leaves it out.
    pub fn cut_history(&mut self, length: Option<u32>) {
        let Some(length) = length else { return };
        let keep = usize::try_from(length).unwrap_or(usize::MAX);
        let drop = self.history.len().saturating_sub(keep);
        self.history.drain(..drop);
    }

    /// The text of the result: of the artifacts, joined with newlines, else of the status message.
    pub fn text(&self) -> String {
        let artifacts = self.artifacts.iter().flat_map(|artifact| &artifact.parts);
        let texts: Vec<&str> = if self.artifacts.is_empty() {
            let parts = self.status.message.iter().flat_map(|message| &message.parts);
            parts.filter_map(Part::text).collect()
        } else {
            artifacts.filter_map(Part::text).collect()
        };
        texts.join("\n")
    }
}

/// Where a task stands, and since when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// The state.
    pub state: TaskState,
    /// What the agent says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// When the task came into this state; milliseconds on the wire.
    #[serde(
        default,
        serialize_with = "write_time",
        deserialize_with = "read_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub timestamp: Option<Timestamp>,
}

/// Declares an enum of the proto: its names, and its numbers when read.
macro_rules! proto_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal, $text:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every one, in the order of the proto.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The number in the proto.
            pub fn number(self) -> i64 {
                match self { $(Self::$variant => $number,)+ }
            }

            /// Reads a name, or a number written as text, as ProtoJSON allows.
            pub fn from_wire(text: &str) -> Option<Self> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|one| one.as_str() == text || one.number().to_string() == text)
            }

            /// Reads a number of the proto.
            pub fn from_number(number: i64) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.number() == number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Names;
                impl Visitor<'_> for Names {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("a ", stringify!($name)))
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        $name::from_wire(text)
                            .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
                    }

                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$name, E> {
                        $name::from_number(number)
                            .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
                    }

                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$name, E> {
                        i64::try_from(number).ok().and_then($name::from_number)
                            .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
                    }
                }
                deserializer.deserialize_any(Names)
            }
        }
    };
}

proto_enum! {
    /// The states of A2A 1.0. The service uses those of a task that asks nothing back.
    TaskState {
        /// Never sent; what a broken printer leaves.
        Unspecified = 0, "TASK_STATE_UNSPECIFIED";
        /// Queued.
        Submitted = 1, "TASK_STATE_SUBMITTED";
        /// Running.
        Working = 2, "TASK_STATE_WORKING";
        /// Ended well.
        Completed = 3, "TASK_STATE_COMPLETED";
        /// Ended with an error.
        Failed = 4, "TASK_STATE_FAILED";
        /// Stopped by somebody.
        Canceled = 5, "TASK_STATE_CANCELED";
        /// Waits for an answer; the service never does.
        InputRequired = 6, "TASK_STATE_INPUT_REQUIRED";
        /// Never ran; an event that expired in the queue.
        Rejected = 7, "TASK_STATE_REJECTED";
        /// Waits for a credential; the service never does.
        AuthRequired = 8, "TASK_STATE_AUTH_REQUIRED";
    }
}

impl TaskState {
    /// Whether the task has ended for good.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected => true,
            Self::Unspecified
            | Self::Submitted
            | Self::Working
            | Self::InputRequired
            | Self::AuthRequired => false,
        }
    }
}

proto_enum! {
    /// Who speaks.
    Role {
        /// Never sent.
        Unspecified = 0, "ROLE_UNSPECIFIED";
        /// The client.
        User = 1, "ROLE_USER";
        /// The agent.
        Agent = 2, "ROLE_AGENT";
    }
}

/// One message of a client or of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
pub struct Message {
    /// The identifier that its sender chose.
    #[serde(alias = "message_id")]
    pub message_id: String,
    /// The group of tasks.
    #[serde(default, alias = "context_id", skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// The task that it belongs to.
    #[serde(default, alias = "task_id", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    #[serde(default, deserialize_with = "unset")]
    pub parts: Vec<Part>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// A piece of content. The service writes texts only; what a peer sends otherwise is kept as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// The text of a text part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes in base64; never written by the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// An address; never written by the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Any JSON; never written by the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// A file's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The media type; none means text/plain for a text.
    #[serde(default, alias = "media_type", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

impl Part {
    /// A part of plain text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            raw: None,
            url: None,
            data: None,
            metadata: None,
            filename: None,
            media_type: None,
        }
    }

    /// The text, if it is a text part.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

/// Something that a task produced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
pub struct Artifact {
    /// Unique within the task.
    #[serde(alias = "artifact_id")]
    pub artifact_id: String,
    /// `result` for what the service makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A sentence about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The content.
    #[serde(default, deserialize_with = "unset")]
    pub parts: Vec<Part>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// The answer to `message:send`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SendResponse {
    /// The task that the message made, or made before.
    pub task: Task,
}

/// The answer to `GET /tasks`; all four fields are always there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListResponse {
    /// The page.
    #[serde(default, deserialize_with = "unset")]
    pub tasks: Vec<Task>,
    /// What `pageToken` gives the next page; empty at the end.
    #[serde(default, alias = "next_page_token", deserialize_with = "unset")]
    pub next_page_token: String,
    /// The size that was asked for.
    #[serde(default, alias = "page_size", deserialize_with = "unset")]
    pub page_size: u32,
    /// How many tasks match, on all pages.
    #[serde(default, alias = "total_size", deserialize_with = "unset")]
    pub total_size: u64,
}

/// `null` is unset.
fn unset<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[expect(clippy::ref_option, reason = "serde's calling convention")]
fn write_time<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(time::format_millis).serialize(serializer)
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| time::parse(&text)).transpose().map_err(de::Error::custom)
}

#[cfg(test)]
mod tests;
