//! Our own form, for workers that are free in what they say.
//!
//! - A detection: `{label, confidence, timestamp, source?, track_id?, data?}`.
//!   It is evidence for its label alone.
//! - An array of detections is a whole frame per source and time: what is not
//!   in it is not there. `[]` alone proves nothing, since it has no time.
//! - A frame: `{timestamp, source?, detections: [..]}`, where `[]` means that
//!   nothing was in it. Its detections have its time and source.
//!
//! Times are RFC 3339. A recording's header (an object with the key
//! `recording`) says nothing. A detection that cannot be used makes its label
//! unknown in its frame: neither there nor absent.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    Context, Decode, Decoded, Refusal, confidence, fields,
    time::{self, Unit},
};
use crate::pipeline::frame::{Detection, Evidence, Message};

/// The decoder; it remembers nothing.
#[derive(Debug)]
pub(super) struct Native;

impl Decode for Native {
    fn decode(&mut self, document: &Value, context: &Context<'_>) -> Decoded {
        match document {
            Value::Array(items) => array(items, context),
            Value::Object(object) if object.contains_key("recording") => Decoded::default(),
            Value::Object(object) if object.contains_key("detections") => frame(object, context),
            Value::Object(_) => single(document, context),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                let expected = "a detection, an array of detections, or a frame";
                Refusal::Shape { field: "the message", expected }.into()
            }
        }
    }
}

/// One whole frame while its detections are read.
#[derive(Debug, Default)]
struct Frame {
    detections: Vec<Detection>,
    /// Labels with a detection that cannot be used: unknown, so not absent either.
    unknown: BTreeSet<String>,
}

fn single(document: &Value, context: &Context<'_>) -> Decoded {
    let read = || -> Result<Message, Refusal> {
        let object = fields::object(document, "the message")?;
        let (source, at) = place(object, context)?;
        let detection = detection(object, context).map_err(|unusable| unusable.refusal)?;
        Ok(Message { source, at, message_id: None, evidence: Evidence::Object(detection) })
    };
    match read() {
        Ok(message) => Decoded { messages: vec![message], refused: Vec::new() },
        Err(refusal) => refusal.into(),
    }
}

fn array(items: &[Value], context: &Context<'_>) -> Decoded {
    if items.is_empty() {
        return Refusal::Time(time::TimeFault::Missing { field: "timestamp of an empty array" })
            .into();
    }
    let mut frames: BTreeMap<(Timestamp, String), Frame> = BTreeMap::new();
    let mut refused = Vec::new();
    for item in items {
        let object = match fields::object(item, "each detection") {
            Ok(object) => object,
            Err(refusal) => return refusal.into(),
        };
        match place(object, context) {
            Ok((source, at)) => {
                let frame = frames.entry((at, source)).or_default();
                frame.take(detection(object, context), &mut refused);
            }
            // Which frame it belongs to is unknown, so none of them is known to be whole.
            Err(refusal) => return refusal.into(),
        }
    }
    let messages = frames
        .into_iter()
        .flat_map(|((at, source), frame)| frame.into_messages(&source, at, context))
        .collect();
    Decoded { messages, refused }
}

fn frame(object: &Map<String, Value>, context: &Context<'_>) -> Decoded {
    let mut refused = Vec::new();
    let read = |refused: &mut Vec<Refusal>| -> Result<Vec<Message>, Refusal> {
        let (source, at) = place(object, context)?;
        let Some(Value::Array(items)) = object.get("detections") else {
            return Err(Refusal::Shape { field: "detections", expected: "an array" });
        };
        let mut frame = Frame::default();
        for item in items {
            let item = fields::object(item, "each of detections")?;
            if item.get("timestamp").is_some_and(|own| object.get("timestamp") != Some(own)) {
                let expected = "absent in a detection of a frame, or equal to the frame's";
                return Err(Refusal::Shape { field: "timestamp", expected });
            }
            frame.take(detection(item, context), refused);
        }
        Ok(frame.into_messages(&source, at, context))
    };
    match read(&mut refused) {
        Ok(messages) => Decoded { messages, refused },
        Err(refusal) => refusal.into(),
    }
}

/// The event source and the time of a detection or frame.
fn place(
    object: &Map<String, Value>,
    context: &Context<'_>,
) -> Result<(String, Timestamp), Refusal> {
    let own = fields::optional_text(object, "source", "source")?;
    let at = time::read(object.get("timestamp"), "timestamp", Unit::Rfc3339, context.received)?;
    Ok((context.rules.source(own), at))
}

/// A detection that cannot be used, and the label that it makes unknown.
struct Unusable {
    refusal: Refusal,
    label: Option<String>,
}

fn detection(object: &Map<String, Value>, context: &Context<'_>) -> Result<Detection, Unusable> {
    let label = fields::label(object, "label", "label")
        .map(|own| context.rules.label(&own))
        .map_err(|refusal| Unusable { refusal, label: None })?;
    let read = || -> Result<(f64, Map<String, Value>), Refusal> {
        let constant = context.rules.constants.get(&label).copied();
        let confidence = confidence::read(object.get("confidence"), &label, 1.0, constant)?;
        let mut data = match object.get("data") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(data)) => data.clone(),
            Some(_) => return Err(Refusal::Shape { field: "data", expected: "an object" }),
        };
        if let Some(track) = object.get("track_id").filter(|track| !track.is_null()) {
            data.insert("track_id".to_owned(), track.clone());
        }
        Ok((confidence, data))
    };
    match read() {
        Ok((confidence, data)) => Ok(Detection { label, confidence, data }),
        Err(refusal) => Err(Unusable { refusal, label: Some(label) }),
    }
}

impl Frame {
    fn take(&mut self, read: Result<Detection, Unusable>, refused: &mut Vec<Refusal>) {
        match read {
            Ok(detection) => self.detections.push(detection),
            Err(Unusable { refusal, label }) => {
                refused.push(refusal);
                // Without a label it is nothing that a route could watch.
                self.unknown.extend(label);
            }
        }
    }

    /// A whole frame says which labels are absent; one with unknown labels says it label by label.
    fn into_messages(self, source: &str, at: Timestamp, context: &Context<'_>) -> Vec<Message> {
        let message =
            |evidence| Message { source: source.to_owned(), at, message_id: None, evidence };
        if self.unknown.is_empty() {
            return vec![message(Evidence::Frame(self.detections))];
        }
        let mut best: BTreeMap<String, Detection> = BTreeMap::new();
        for detection in self.detections {
            match best.get(&detection.label) {
                Some(known) if known.confidence >= detection.confidence => {}
                Some(_) | None => {
                    best.insert(detection.label.clone(), detection);
                }
            }
        }
        let absent = context.rules.absent(|label| best.contains_key(label), &self.unknown);
        let seen = best.into_values().map(|detection| message(Evidence::Object(detection)));
        let gone =
            absent.into_iter().map(|label| message(Evidence::Absent { label, data: Map::new() }));
        seen.chain(gone).collect()
    }
}

#[cfg(test)]
mod tests;
