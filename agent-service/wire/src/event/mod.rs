//! `POST /events`: what a sensor says, and what it is answered.
//!
//! Strict, unlike the A2A side: an unknown field, a field given twice, a wrong type and a null are all
//! errors that name the field. `confidence: null` is refused as well (an unknown confidence is left
//! out); `data: null` is data, namely null. Equality of two events is that of all their fields as JSON
//! values: a timestamp spelled in another way is another event.

use std::fmt;

use jiff::Timestamp;
use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::canonical::Digest;
use crate::time;
use crate::value::{Confidence, EventId, EventType, SourceName, TraceParent, ValueError};

/// The most bytes that `data` may have, as sent. Source: CONTRACT, section 4.
pub const MAX_DATA_BYTES: usize = 16_000;

/// The fields of an event, in the order in which they are printed.
const FIELDS: [&str; 6] = ["id", "type", "source", "timestamp", "confidence", "data"];

/// Why bytes are no event. [`EventError::field`] says which field is at fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EventError {
    /// Not one JSON object in UTF-8.
    #[error("the event must be exactly one JSON object: {0}")]
    Json(String),
    /// A field that an event does not have.
    #[error("unknown field {0:?}; an event has id, type, source, timestamp, confidence and data")]
    Unknown(String),
    /// A field that stands twice in the object.
    #[error("field {0:?} is given twice")]
    Twice(&'static str),
    /// A field that must be there.
    #[error("field {0:?} is missing")]
    Missing(&'static str),
    /// A field of the wrong type or value; the text begins with the field's name.
    #[error("{field} {problem}")]
    Bad {
        /// The field's name.
        field: &'static str,
        /// What it must be.
        problem: String,
    },
}

impl EventError {
    /// The field at fault; empty when it is the whole body.
    pub fn field(&self) -> &str {
        match self {
            Self::Json(_) => "",
            Self::Unknown(field) => field,
            Self::Twice(field) | Self::Missing(field) | Self::Bad { field, .. } => field,
        }
    }
}

/// One observation of a sensor. Built by [`Event::parse`] or [`Event::new`], and right from then on.
#[derive(Debug, Clone)]
pub struct Event {
    id: EventId,
    kind: EventType,
    source: SourceName,
    timestamp: Timestamp,
    /// As sent: events are compared as JSON values, and there a timestamp is a string.
    timestamp_text: String,
    confidence: Option<Confidence>,
    data: Option<Box<RawValue>>,
    digest: Digest,
    trace: Option<TraceParent>,
}

impl Event {
    /// Reads the body of `POST /events`.
    ///
    /// # Errors
    /// The first fault, in the order: JSON and unknown or repeated fields as they stand in the text;
    /// then each field in the order id, type, source, timestamp, confidence, data.
    pub fn parse(body: &[u8]) -> Result<Self, EventError> {
        let text =
            std::str::from_utf8(body).map_err(|error| EventError::Json(error.to_string()))?;
        // Objects only: a visitor with `visit_map` alone refuses the rest, but in serde's words.
        if !text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
            return Err(EventError::Json("it does not begin with {".to_owned()));
        }
        let fields: Fields =
            serde_json::from_str(text).map_err(|error| EventError::Json(error.to_string()))?;
        if let Some(fault) = fields.fault {
            return Err(fault);
        }
        let id = checked("id", fields.id, EventId::new)?;
        let kind = checked("type", fields.kind, EventType::new)?;
        let source = checked("source", fields.source, SourceName::new)?;
        let timestamp_text = string("timestamp", fields.timestamp)?;
        let timestamp = time::parse(&timestamp_text).map_err(|error| bad("timestamp", error))?;
        let confidence = fields.confidence.map(|raw| confidence(&raw)).transpose()?;
        Self::build(id, kind, source, timestamp, timestamp_text, confidence, fields.data)
    }

    /// Builds an event to send; the timestamp is printed in UTC, to the nanosecond.
    ///
    /// # Errors
    /// When `data` is over [`MAX_DATA_BYTES`] or nested too deeply to be read again.
    pub fn new(
        id: EventId,
        kind: EventType,
        source: SourceName,
        timestamp: Timestamp,
        confidence: Option<Confidence>,
        data: Option<&Value>,
    ) -> Result<Self, EventError> {
        let data = data
            .map(|value| RawValue::from_string(value.to_string()))
            .transpose()
            .map_err(|error| bad("data", error))?;
        Self::build(id, kind, source, timestamp, timestamp.to_string(), confidence, data)
    }

    fn build(
        id: EventId,
        kind: EventType,
        source: SourceName,
        timestamp: Timestamp,
        timestamp_text: String,
        confidence: Option<Confidence>,
        data: Option<Box<RawValue>>,
    ) -> Result<Self, EventError> {
        let value = data.as_deref().map(data_value).transpose()?;
        let mut fields = serde_json::Map::new();
        fields.insert("id".to_owned(), id.as_str().into());
        fields.insert("type".to_owned(), kind.as_str().into());
        fields.insert("source".to_owned(), source.as_str().into());
        fields.insert("timestamp".to_owned(), timestamp_text.as_str().into());
        if let Some(confidence) = confidence {
            fields.insert("confidence".to_owned(), confidence.get().into());
        }
        if let Some(value) = value {
            fields.insert("data".to_owned(), value);
        }
        let digest = Digest::of(&Value::Object(fields));
        let trace = None;
        Ok(Self { id, kind, source, timestamp, timestamp_text, confidence, data, digest, trace })
    }

    /// Adds the trace context of the call that brought the event. It is no part of the event itself.
    #[must_use]
    pub fn with_trace(mut self, trace: Option<TraceParent>) -> Self {
        self.trace = trace;
        self
    }

    /// The identifier, unique within the source.
    pub fn id(&self) -> &EventId {
        &self.id
    }

    /// The `type`.
    pub fn kind(&self) -> &EventType {
        &self.kind
    }

    /// Where it was seen.
    pub fn source(&self) -> &SourceName {
        &self.source
    }

    /// When it was seen, to the nanosecond.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// How sure the detector is, if it says so.
    pub fn confidence(&self) -> Option<Confidence> {
        self.confidence
    }

    /// `data` as sent: at most 16,000 bytes of JSON.
    pub fn data(&self) -> Option<&RawValue> {
        self.data.as_deref()
    }

    /// The SHA-256 over all fields as JSON values, for receipts.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The trace context of the call that brought it.
    pub fn trace(&self) -> Option<&TraceParent> {
        self.trace.as_ref()
    }

    /// The event as one JSON object without white space of its own; `data` and `timestamp` as sent.
    ///
    /// This is what a prompt quotes, what an agent gets, and what sensor-bridge posts. It reads back
    /// as an equal event.
    pub fn to_json(&self) -> String {
        let shape = Shape {
            id: &self.id,
            kind: &self.kind,
            source: &self.source,
            timestamp: &self.timestamp_text,
            confidence: self.confidence,
            data: self.data.as_deref(),
        };
        // Strings, a finite number and JSON that was parsed before: nothing here can fail.
        serde_json::to_string(&shape).unwrap_or_default()
    }
}

/// Equal when all fields are equal as JSON values; the trace context does not count.
impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// Why an event made no task. The texts are part of the contract, word for word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// No trigger is configured for its type and source.
    #[serde(rename = "no matching trigger")]
    NoMatchingTrigger,
    /// Its timestamp is too old, or too far ahead.
    #[serde(rename = "stale or future event")]
    StaleOrFuture,
    /// Its timestamp is not after the trigger's last.
    #[serde(rename = "out-of-order event")]
    OutOfOrder,
    /// The confidence is too low or absent.
    #[serde(rename = "confidence below threshold")]
    BelowThreshold,
    /// The sequence is not long enough yet.
    #[serde(rename = "waiting for consecutive observations")]
    WaitingForConsecutive,
    /// The trigger fired a short time ago.
    #[serde(rename = "cooldown")]
    Cooldown,
}

impl Reason {
    /// All six, in the order in which they are checked.
    pub const ALL: [Self; 6] = [
        Self::NoMatchingTrigger,
        Self::StaleOrFuture,
        Self::OutOfOrder,
        Self::BelowThreshold,
        Self::Cooldown,
        Self::WaitingForConsecutive,
    ];

    /// The text on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoMatchingTrigger => "no matching trigger",
            Self::StaleOrFuture => "stale or future event",
            Self::OutOfOrder => "out-of-order event",
            Self::BelowThreshold => "confidence below threshold",
            Self::WaitingForConsecutive => "waiting for consecutive observations",
            Self::Cooldown => "cooldown",
        }
    }

    /// The reason of a text on the wire; `None` for any other text.
    pub fn from_wire(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer to an event, and what its receipt repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventAnswer {
    /// Whether a task was queued.
    pub accepted: bool,
    /// Why not. Text, so that a client of a later service can print a reason that it does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The task that was queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}

impl EventAnswer {
    /// A task was queued.
    pub fn accepted(task: &crate::value::TaskId) -> Self {
        Self { accepted: true, reason: None, task_id: Some(task.as_str().to_owned()) }
    }

    /// No task, and why.
    pub fn refused(reason: Reason) -> Self {
        Self { accepted: false, reason: Some(reason.as_str().to_owned()), task_id: None }
    }
}

/// The printed form.
#[derive(Serialize)]
struct Shape<'a> {
    id: &'a EventId,
    #[serde(rename = "type")]
    kind: &'a EventType,
    source: &'a SourceName,
    timestamp: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<Confidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

/// The fields as they stand in the body, each still unread, so that each error can name its field.
#[derive(Default)]
struct Fields {
    id: Option<Box<RawValue>>,
    kind: Option<Box<RawValue>>,
    source: Option<Box<RawValue>>,
    timestamp: Option<Box<RawValue>>,
    confidence: Option<Box<RawValue>>,
    data: Option<Box<RawValue>>,
    /// The first unknown or repeated field. Kept beside, so that text that is no JSON wins over it.
    fault: Option<EventError>,
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<String>()? {
            let Some(known) = FIELDS.into_iter().find(|known| *known == name) else {
                map.next_value::<IgnoredAny>()?;
                fields.fault.get_or_insert(EventError::Unknown(name));
                continue;
            };
            let raw: Box<RawValue> = map.next_value().map_err(de::Error::custom)?;
            let place = match known {
                "id" => &mut fields.id,
                "type" => &mut fields.kind,
                "source" => &mut fields.source,
                "timestamp" => &mut fields.timestamp,
                "confidence" => &mut fields.confidence,
                _ => &mut fields.data,
            };
            if place.replace(raw).is_some() {
                fields.fault.get_or_insert(EventError::Twice(known));
            }
        }
        Ok(fields)
    }
}

fn bad(field: &'static str, problem: impl fmt::Display) -> EventError {
    EventError::Bad { field, problem: problem.to_string() }
}

fn string(field: &'static str, raw: Option<Box<RawValue>>) -> Result<String, EventError> {
    let raw = raw.ok_or(EventError::Missing(field))?;
    if !raw.get().starts_with('"') {
        return Err(bad(field, format!("must be a string; it is {}", kind_of(raw.get()))));
    }
    serde_json::from_str(raw.get())
        .map_err(|error| bad(field, format!("is no valid text: {error}")))
}

fn checked<T>(
    field: &'static str,
    raw: Option<Box<RawValue>>,
    new: fn(String) -> Result<T, ValueError>,
) -> Result<T, EventError> {
    new(string(field, raw)?).map_err(|error| {
        let text = error.to_string();
        // The value's message begins with the field's name, which `Bad` adds by itself.
        bad(field, text.strip_prefix(field).unwrap_or(&text).trim_start())
    })
}

fn confidence(raw: &RawValue) -> Result<Confidence, EventError> {
    let refused =
        |what: &str| bad("confidence", format!("must be a number from 0 to 1; it is {what}"));
    if !raw.get().starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return Err(refused(kind_of(raw.get())));
    }
    let number = serde_json::from_str(raw.get()).map_err(|_too_large| refused(raw.get()))?;
    Confidence::new(number).map_err(|_outside| refused(raw.get()))
}

/// Reads `data` once, so that what is kept as sent is known to be readable: escapes that are no
/// characters, numbers beyond 64 bit floats and nesting over 127 levels are refused here.
fn data_value(raw: &RawValue) -> Result<Value, EventError> {
    let bytes = raw.get().len();
    if bytes > MAX_DATA_BYTES {
        return Err(bad("data", format!("must be at most {MAX_DATA_BYTES} bytes; it has {bytes}")));
    }
    serde_json::from_str(raw.get()).map_err(|error| bad("data", format!("cannot be read: {error}")))
}

fn kind_of(json: &str) -> &'static str {
    match json.bytes().next() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests;
