//! Observations for `POST /events`, and the triggers that they meet.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use service_kit::Clock;

/// A trigger for (`person.detected`, `front-camera`) whose agent says `done: look`.
pub fn trigger() -> Value {
    json!({"type": "person.detected", "source": "front-camera", "prompt": "look"})
}

/// A trigger with some more fields.
pub fn trigger_with(fields: &Value) -> Value {
    merged(trigger(), fields)
}

/// An observation of that trigger, at `timestamp`.
pub fn event(id: &str, timestamp: Timestamp) -> Value {
    json!({
        "id": id,
        "type": "person.detected",
        "source": "front-camera",
        "timestamp": timestamp.to_string(),
    })
}

/// An observation with some more fields; null takes one out.
pub fn event_with(id: &str, timestamp: Timestamp, fields: &Value) -> Value {
    merged(event(id, timestamp), fields)
}

/// The wall clock, as the service under test reads it.
pub fn now() -> Timestamp {
    Clock::system().now()
}

/// A time before now.
pub fn ago(milliseconds: i64) -> Timestamp {
    now() - SignedDuration::from_millis(milliseconds)
}

/// A time after another.
pub fn after(time: Timestamp, by: Duration) -> Timestamp {
    time + by
}

fn merged(mut base: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().into_iter().flatten() {
        match (value, base.as_object_mut()) {
            (Value::Null, Some(base)) => drop(base.remove(name)),
            (value, Some(base)) => drop(base.insert(name.clone(), value.clone())),
            (_, None) => {}
        }
    }
    base
}
