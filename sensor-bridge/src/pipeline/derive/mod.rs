//! From a worker's messages to observations: one per route, event source and frame.
//!
//! A whole frame says something about every label that a route watches: the best detection, or
//! absence (confidence 0, `data.absent: true`). Parts of a frame are collected until a later time
//! comes or [`Deriver::frame_close`] has passed since the last part; a part after that is `late`.
//! An object event speaks for its label only. Silence says nothing.
//!
//! A route with several labels keeps one sequence, so the best of them speaks for the frame, and
//! `data.label` says which it was. Times of a stream strictly increase: an older one is refused, one
//! of equal time counts only if it says more ([`Derived::repeat`]). This is what `replay --derived`
//! prints.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent_wire::value::EventType;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::count::Reason;
use super::frame::{Evidence, Message};
use super::redact;
use super::route::{RouteId, Routes};
use super::smooth::Median;
use crate::observation::Observation;
use parts::Parts;
use said::{absence, best_of, watching};
use streams::{Known, Seen};

mod parts;
mod said;
mod streams;
#[cfg(test)]
mod tests;

/// One sequence of the service: a type and an event source. Ids are given in order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub(crate) usize);

/// One raw observation.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// The sequence that it belongs to.
    pub stream: StreamId,
    /// The route that made it.
    pub route: RouteId,
    /// What was seen.
    pub observation: Observation,
    /// It has the time of the one before it and a higher confidence: it stands in its place.
    pub repeat: bool,
    /// Its `data` was cut to the limit.
    pub trimmed: bool,
}

/// Something that did not become an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The route; `None` for a part of a frame, which belongs to its source.
    pub route: Option<RouteId>,
    /// The event source.
    pub source: String,
    /// The time that the message gave.
    pub at: Timestamp,
}

/// What came out of one step.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Batch {
    /// In the order in which they are to be taken.
    pub derived: Vec<Derived>,
    /// In the order in which they happened.
    pub refused: Vec<Refusal>,
}

/// The state of deriving: which streams there are, and which frames are open.
#[derive(Debug)]
pub struct Deriver {
    routes: Arc<Routes>,
    frame_close: Duration,
    max_streams: usize,
    streams: Vec<Known>,
    by_route: Vec<BTreeMap<String, StreamId>>,
    owners: BTreeMap<(EventType, String), RouteId>,
    parts: BTreeMap<(String, String), Parts>,
}

impl Deriver {
    /// An empty state. `frame_close` is how long after its last part a frame is closed (50 ms by
    /// default); beyond `max_streams` sequences, new ones are refused.
    pub fn new(routes: Arc<Routes>, frame_close: Duration, max_streams: usize) -> Self {
        let by_route = vec![BTreeMap::new(); routes.len()];
        Self {
            routes,
            frame_close,
            max_streams,
            streams: Vec::new(),
            by_route,
            owners: BTreeMap::new(),
            parts: BTreeMap::new(),
        }
    }

    /// How long after its last part a frame is closed.
    pub fn frame_close(&self) -> Duration {
        self.frame_close
    }

    /// Takes one message of a configured source; what it says is added to `out`.
    pub fn push(
        &mut self,
        source_name: &str,
        message: &Message,
        uptime: Duration,
        out: &mut Batch,
    ) {
        let routes = Arc::clone(&self.routes);
        match &message.evidence {
            Evidence::Frame(detections) => {
                for &id in routes.of(source_name) {
                    let Some(route) = routes.get(id) else { continue };
                    let best = best_of(route, detections);
                    self.frame(id, route, message, best, out);
                }
            }
            Evidence::Part(detections) => {
                if !routes.of(source_name).is_empty() {
                    self.part(source_name, detections, message, uptime, out);
                }
            }
            Evidence::Object(detection) => {
                for (id, route) in watching(&routes, source_name, &detection.label) {
                    let best = best_of(route, std::slice::from_ref(detection));
                    self.frame(id, route, message, best, out);
                }
            }
            Evidence::Absent { label, data } => {
                for (id, route) in watching(&routes, source_name, label) {
                    let seen = Seen { source: &message.source, at: message.at };
                    let data = redact::carried(route, data);
                    self.emit(id, route, seen, absence(data, message.message_id.clone()), out);
                }
            }
        }
    }

    /// Messages of a configured source were lost before the next one.
    ///
    /// Its open frames are closed as they are: a part that is missing can only make them say less.
    /// Running medians start again, as after a gap.
    pub fn lost(&mut self, source_name: &str, out: &mut Batch) {
        self.close_if(|(from, _), _| from == source_name, out);
        for stream in self.of(source_name) {
            if let Some(known) = self.streams.get_mut(stream.0) {
                known.median = Median::default();
            }
        }
    }

    /// How many streams there are.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there are none yet.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// An observation as `replay --derived` prints it: what an event would say, without its id.
    pub fn line(&self, derived: &Derived) -> Value {
        let kind = self.routes.get(derived.route).map(|route| route.kind().as_str());
        let source = self.stream(derived.stream).map(|(_, source)| source.as_str());
        let observation = &derived.observation;
        json!({
            "type": kind,
            "source": source,
            "timestamp": observation.at.to_string(),
            "confidence": observation.confidence,
            "data": observation.data,
        })
    }
}
