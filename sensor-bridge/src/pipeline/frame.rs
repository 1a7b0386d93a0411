//! What a decoder says: one worker message, in the bridge's own words.
//!
//! A decoder turns bytes into [`Message`]s and decides nothing else. What a
//! message proves (presence, absence) depends on its shape, see
//! [`Evidence`]; nothing is ever inferred from another label or from silence.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// One thing that a worker says it saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// The worker's own name for it, after the source's `labels` map.
    pub label: String,
    /// Checked: finite, in `0..=1`. Never guessed, never clamped beyond 1e-6.
    pub confidence: f64,
    /// What goes into the event's `data`: `track_id`, `zones`, `box`, ...
    ///
    /// It derives from the worker's message alone, so that a redelivery gives
    /// the same bytes.
    pub data: Map<String, Value>,
}

/// What a message proves about labels.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// A whole frame: every watched label that is not in it is absent.
    Frame(Vec<Detection>),
    /// Part of a frame: parts of one source with equal time belong together.
    Part(Vec<Detection>),
    /// An object event: evidence for this label only.
    Object(Detection),
    /// The preset states that nothing of this label is there any more.
    Absent {
        /// The label that is gone.
        label: String,
        /// What goes into the event's `data`, beside `absent: true`.
        data: Map<String, Value>,
    },
}

/// One message of a worker, decoded.
#[expect(clippy::struct_field_names, reason = "it is the worker's word for it")]
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The event source: the camera that the message names, or the configured name.
    pub source: String,
    /// When it was seen, by the worker's clock.
    pub at: Timestamp,
    /// The worker's own id of this message, if it has one; part of the event id.
    pub message_id: Option<String>,
    /// What it proves.
    pub evidence: Evidence,
}
