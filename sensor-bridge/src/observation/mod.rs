//! One observation, and the exact bytes in which it is posted.
//!
//! Everything in the event derives from the worker's messages, so that a redelivery, a second bridge
//! or a restart makes the same identifier *and* the same bytes: the service answers 409 to a known
//! identifier with other content. Where sampling itself shows in the bytes (`data.window`, a running
//! median), the identifier covers that too.

use agent_wire::canonical::Digest;
use agent_wire::event::{Event, EventError, MAX_DATA_BYTES};
use agent_wire::value::{Confidence, EventId, SourceName};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::pipeline::route::Route;
use crate::pipeline::window::Window;

#[cfg(test)]
mod tests;

/// Room that `data` leaves for `window`, which is added when the bytes are made.
const WINDOW_BYTES: usize = 200;

/// Fields that are given up last, in the order in which they are kept.
const KEPT_LAST: [&str; 4] = ["absent", "objects", "label", "track_id"];

/// What one frame says about one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// When it was seen, by the worker's clock.
    pub at: Timestamp,
    /// How sure the worker is, 0 to 1; 0 is absence.
    pub confidence: f64,
    /// What goes into the event's `data`; at most 15,800 bytes as JSON, see [`fit`].
    pub data: Map<String, Value>,
    /// The worker's own id of the message, if it has one.
    pub message_id: Option<String>,
}

/// An event as it is posted, fixed once.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// The event's identifier: 64 hex digits.
    pub id: EventId,
    /// The body of `POST /events`.
    pub body: Bytes,
}

/// Makes the event of an observation; `window` only where the route wants it.
///
/// # Errors
/// When the values do not make an event, which checked routes and [`fit`] data always do.
pub fn encode(
    route: &Route,
    source: &SourceName,
    observation: &Observation,
    window: Option<&Window>,
) -> Result<Encoded, EventError> {
    let id = event_id(route, source, observation, window)?;
    let confidence =
        Confidence::new(observation.confidence).map_err(|error| bad("confidence", error))?;
    let mut data = observation.data.clone();
    if let Some(window) = window {
        data.insert("window".to_owned(), window.to_json());
    }
    let event = Event::new(
        id.clone(),
        route.kind().clone(),
        source.clone(),
        observation.at,
        Some(confidence),
        Some(&Value::Object(data)),
    )?;
    Ok(Encoded { id, body: Bytes::from(event.to_json()) })
}

/// The SHA-256 of route, type, source, source time and message id, and of what sampling adds.
fn event_id(
    route: &Route,
    source: &SourceName,
    observation: &Observation,
    window: Option<&Window>,
) -> Result<EventId, EventError> {
    let smoothed = (route.smooth() > 1).then_some(observation.confidence);
    let parts = json!([
        "sensor-bridge/1",
        route.from(),
        route.labels(),
        route.source().map(SourceName::as_str),
        route.kind().as_str(),
        source.as_str(),
        observation.at.to_string(),
        observation.message_id,
        smoothed,
        window.map(|window| window.to_json()),
    ]);
    EventId::new(Digest::of(&parts).to_hex()).map_err(|error| bad("id", error))
}

fn bad(field: &'static str, error: impl std::fmt::Display) -> EventError {
    EventError::Bad { field, problem: error.to_string() }
}

/// Cuts `data` to what an event may carry; true when something was left out.
///
/// Whole fields go, the largest first, equally large ones in the order of their names; `absent`,
/// `objects`, `label` and `track_id` only when nothing else is left. `trimmed: true` says that it
/// happened. It depends on nothing but `data`, so that a redelivery is cut alike.
pub fn fit(data: &mut Map<String, Value>) -> bool {
    let limit = MAX_DATA_BYTES - WINDOW_BYTES;
    if at_most(data) <= limit || exact(data) <= limit {
        return false;
    }
    data.insert("trimmed".to_owned(), Value::Bool(true));
    let mut sizes: Vec<(usize, usize, String)> = data
        .iter()
        .filter(|(key, _)| *key != "trimmed")
        .map(|(key, value)| (rank(key), value.to_string().len() + key.len(), key.clone()))
        .collect();
    sizes.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
    for (_, _, key) in sizes {
        if exact(data) <= limit {
            break;
        }
        data.remove(&key);
    }
    true
}

/// 0 for a field that goes first; higher for one that is kept longer.
fn rank(key: &str) -> usize {
    KEPT_LAST.iter().rev().position(|kept| *kept == key).map_or(0, |place| place + 1)
}

fn exact(data: &Map<String, Value>) -> usize {
    // An upper bound of a size that cannot be printed is as good as any: such data is cut.
    serde_json::to_string(data).map_or(usize::MAX, |text| text.len())
}

/// A quick upper bound of the size as JSON: most data is far below the limit and is never printed.
fn at_most(data: &Map<String, Value>) -> usize {
    data.iter().map(|(key, value)| text_at_most(key) + 2 + value_at_most(value)).sum::<usize>() + 2
}

fn value_at_most(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 32,
        Value::String(text) => text_at_most(text),
        Value::Array(items) => items.iter().map(|item| value_at_most(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => at_most(members),
    }
}

/// A byte becomes at most six (`\u001f`).
fn text_at_most(text: &str) -> usize {
    text.len().saturating_mul(6) + 2
}
