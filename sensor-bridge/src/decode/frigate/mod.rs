//! Frigate's `events` topic: `{type: new|update|end, before, after}`.
//!
//! Only `after` counts. Each message is about one tracked object, so it is
//! evidence for its label alone. `end` repeats the last seen frame and score;
//! what it proves is absence at `end_time`, and only if no other track of
//! that label and camera is open. The surprising rule follows: the decoder
//! remembers open tracks, at most [`MAX_TRACKS`], and forgets one that has not
//! spoken for [`FORGET_AFTER`]; its `end` was lost then, and keeping it would
//! hide absence for ever. After messages were lost it forgets all of them: a
//! track whose `end` was among them must not hide the absence that others
//! prove, and one that is still open says so again.
//!
//! Counts, snapshots and availability live on other topics and are refused by
//! their topic. A false positive by Frigate's own judgement is no evidence.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::{
    Context, Decode, Decoded, Refusal, confidence, fields,
    time::{self, Unit},
};
use crate::pipeline::frame::{Detection, Evidence, Message};

/// Open tracks that are remembered: sixty-four cameras with sixteen objects each.
const MAX_TRACKS: usize = 1024;

/// Three times the longest silence of an open track (one update a minute).
const FORGET_AFTER: SignedDuration = SignedDuration::from_secs(180);

/// The decoder and the tracks that it knows to be open.
#[derive(Debug, Default)]
pub(super) struct Frigate {
    open: BTreeMap<String, Track>,
}

#[derive(Debug)]
struct Track {
    camera: String,
    label: String,
    heard: Timestamp,
}

/// What kind of news a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Seen(&'static str),
    Ended,
}

impl Decode for Frigate {
    fn decode(&mut self, document: &Value, context: &Context<'_>) -> Decoded {
        if context.topic.is_some_and(|topic| !topic.ends_with("/events")) {
            return Refusal::OtherTopic.into();
        }
        match self.event(document, context) {
            Ok(message) => Decoded { messages: message.into_iter().collect(), refused: Vec::new() },
            Err(refusal) => refusal.into(),
        }
    }

    fn lost(&mut self) {
        self.open.clear();
    }
}

impl Frigate {
    /// Reads one event; `None` is an end that proves nothing since another track is open.
    fn event(
        &mut self,
        document: &Value,
        context: &Context<'_>,
    ) -> Result<Option<Message>, Refusal> {
        let event = fields::object(document, "the message")?;
        let state = match fields::text(event, "type", "type")? {
            "new" => State::Seen("new"),
            "update" => State::Seen("update"),
            "end" => State::Ended,
            _ => return Err(Refusal::Shape { field: "type", expected: "new, update or end" }),
        };
        let after = event.get("after").unwrap_or(&Value::Null);
        let after = fields::object(after, "after")?;
        let track = fields::text(after, "id", "after.id")?;
        let camera = fields::text(after, "camera", "after.camera")?;
        let label = context.rules.label(fields::text(after, "label", "after.label")?);
        if state == State::Ended {
            self.open.remove(track);
        }
        if after.get("false_positive") == Some(&Value::Bool(true)) {
            return Err(Refusal::FalsePositive);
        }
        let (at, evidence) = match state {
            State::Seen(state) => {
                self.heard(track, camera, &label, context.received);
                let at = read_time(after, "frame_time", "after.frame_time", context)?;
                let constant = context.rules.constants.get(&label).copied();
                let confidence = confidence::read(after.get("score"), &label, 1.0, constant)?;
                let mut data = data(track, state, after);
                carry(after, "box", "box", &mut data);
                (at, Evidence::Object(Detection { label, confidence, data }))
            }
            State::Ended => {
                let at = read_time(after, "end_time", "after.end_time", context)?;
                if self.another_is_open(camera, &label, context.received) {
                    return Ok(None);
                }
                (at, Evidence::Absent { label, data: data(track, "end", after) })
            }
        };
        Ok(Some(Message {
            source: context.rules.source(Some(camera)),
            at,
            message_id: Some(track.to_owned()),
            evidence,
        }))
    }

    fn heard(&mut self, track: &str, camera: &str, label: &str, now: Timestamp) {
        if let Some(known) = self.open.get_mut(track) {
            known.heard = now;
            return;
        }
        if self.open.len() >= MAX_TRACKS {
            let oldest = self.open.iter().min_by_key(|(_, known)| known.heard);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.open.remove(&oldest);
            }
        }
        let known = Track { camera: camera.to_owned(), label: label.to_owned(), heard: now };
        self.open.insert(track.to_owned(), known);
    }

    fn another_is_open(&mut self, camera: &str, label: &str, now: Timestamp) -> bool {
        self.open.retain(|_, known| now.duration_since(known.heard) <= FORGET_AFTER);
        self.open.values().any(|known| known.camera == camera && known.label == label)
    }
}

fn read_time(
    after: &Map<String, Value>,
    key: &str,
    field: &'static str,
    context: &Context<'_>,
) -> Result<Timestamp, Refusal> {
    Ok(time::read(after.get(key), field, Unit::Seconds, context.received)?)
}

/// What tells the agent which object it was; names, plates and pictures stay here.
fn data(track: &str, state: &str, after: &Map<String, Value>) -> Map<String, Value> {
    let mut data = Map::new();
    data.insert("track_id".to_owned(), Value::from(track));
    data.insert("state".to_owned(), Value::from(state));
    carry(after, "current_zones", "zones", &mut data);
    data
}

fn carry(from: &Map<String, Value>, key: &str, name: &str, data: &mut Map<String, Value>) {
    if let Some(value @ Value::Array(_)) = from.get(key) {
        data.insert(name.to_owned(), value.clone());
    }
}

#[cfg(test)]
mod tests;
