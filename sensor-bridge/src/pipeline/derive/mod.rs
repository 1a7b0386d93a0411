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

use agent_wire::value::{EventType, SourceName};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::count::Reason;
use super::frame::{Detection, Evidence, Message};
use super::redact;
use super::route::{Route, RouteId, Routes};
use super::smooth::Median;
use crate::observation::{self, Observation};
use parts::{Best, Parts, smaller};

mod parts;
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

#[derive(Debug)]
struct Known {
    route: RouteId,
    source: SourceName,
    last: Option<(Timestamp, f64)>,
    median: Median,
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

    /// Closes the frames whose last part is `frame_close` old.
    pub fn close_due(&mut self, uptime: Duration, out: &mut Batch) {
        let Some(limit) = uptime.checked_sub(self.frame_close) else { return };
        self.close_if(|_, parts| parts.touched <= limit, out);
    }

    /// Closes all frames, before a stop.
    pub fn close_all(&mut self, out: &mut Batch) {
        self.close_if(|_, _| true, out);
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

    /// The streams that a configured source feeds, by route.
    pub fn of(&self, source_name: &str) -> Vec<StreamId> {
        let routes = self.routes.of(source_name).iter();
        let streams = routes.filter_map(|route| self.by_route.get(route.0));
        streams.flat_map(BTreeMap::values).copied().collect()
    }

    /// When the next frame is to be closed.
    pub fn next_deadline(&self) -> Option<Duration> {
        let open = self.parts.values().filter(|parts| parts.open);
        open.map(|parts| parts.touched.saturating_add(self.frame_close)).min()
    }

    /// The route and the event source of a stream.
    pub fn stream(&self, id: StreamId) -> Option<(RouteId, &SourceName)> {
        self.streams.get(id.0).map(|known| (known.route, &known.source))
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

    fn part(
        &mut self,
        source_name: &str,
        detections: &[Detection],
        message: &Message,
        uptime: Duration,
        out: &mut Batch,
    ) {
        let key = (source_name.to_owned(), message.source.clone());
        let refuse = |reason, out: &mut Batch| {
            let source = message.source.clone();
            out.refused.push(Refusal { reason, route: None, source, at: message.at });
        };
        match self.parts.get(&key) {
            Some(parts) if message.at < parts.at => return refuse(Reason::Late, out),
            Some(parts) if message.at == parts.at && !parts.open => {
                return refuse(Reason::Late, out);
            }
            Some(parts) if message.at > parts.at => self.close(&key, out),
            None if self.parts.len() >= self.max_streams => {
                return refuse(Reason::TooManyStreams, out);
            }
            Some(_) | None => {}
        }
        let routes = Arc::clone(&self.routes);
        let parts = self.parts.entry(key).or_insert_with(|| Parts::new(message.at));
        if !parts.open || parts.at != message.at {
            *parts = Parts::new(message.at);
        }
        parts.touched = uptime;
        parts.message_id = smaller(parts.message_id.take(), message.message_id.clone());
        for detection in detections {
            for (id, route) in watching(&routes, source_name, &detection.label) {
                parts.add(id, route, detection, message);
            }
        }
    }

    fn close_if(&mut self, due: impl Fn(&(String, String), &Parts) -> bool, out: &mut Batch) {
        let ready = |(key, parts): &(&(String, String), &Parts)| parts.open && due(key, parts);
        let mut keys: Vec<_> = self
            .parts
            .iter()
            .filter(ready)
            .map(|(key, parts)| (parts.touched, key.clone()))
            .collect();
        keys.sort();
        for (_, key) in keys {
            self.close(&key, out);
        }
    }

    fn close(&mut self, key: &(String, String), out: &mut Batch) {
        let Some(parts) = self.parts.get_mut(key).filter(|parts| parts.open) else { return };
        parts.open = false;
        let at = parts.at;
        let message_id = parts.message_id.take();
        let mut best = std::mem::take(&mut parts.best);
        let routes = Arc::clone(&self.routes);
        for &id in routes.of(&key.0) {
            let Some(route) = routes.get(id) else { continue };
            let mut speaks: Option<(String, Best)> = None;
            for label in route.labels() {
                let Some(found) = best.remove(&(id, label.clone())) else { continue };
                if speaks.as_ref().is_none_or(|(_, best)| found.confidence > best.confidence) {
                    speaks = Some((label.clone(), found));
                }
            }
            let seen = Seen { source: &key.1, at };
            let said = match speaks {
                Some((label, best)) => presence(route, &label, best),
                None => absence(Map::new(), message_id.clone()),
            };
            self.emit(id, route, seen, said, out);
        }
    }

    /// A frame, or an object event, that is complete in one message.
    fn frame(
        &mut self,
        id: RouteId,
        route: &Route,
        message: &Message,
        best: Option<(&Detection, u64)>,
        out: &mut Batch,
    ) {
        let seen = Seen { source: &message.source, at: message.at };
        let Some(stream) = self.admit(id, route, seen, best.map_or(0.0, |b| b.0.confidence), out)
        else {
            return;
        };
        let message_id = message.message_id.clone();
        let said = match best {
            Some((detection, objects)) => {
                let data = redact::carried(route, &detection.data);
                let best = Best { confidence: detection.confidence, objects, data, message_id };
                presence(route, &detection.label, best)
            }
            None => absence(Map::new(), message_id),
        };
        self.keep(stream, route, seen, said, out);
    }

    fn emit(&mut self, id: RouteId, route: &Route, seen: Seen<'_>, said: Said, out: &mut Batch) {
        if let Some(stream) = self.admit(id, route, seen, said.confidence, out) {
            self.keep(stream, route, seen, said, out);
        }
    }

    /// Whether an observation is in order; decided before its data is copied.
    fn admit(
        &mut self,
        id: RouteId,
        route: &Route,
        seen: Seen<'_>,
        confidence: f64,
        out: &mut Batch,
    ) -> Option<(StreamId, bool)> {
        let order = self.stream_of(id, route, seen.source).and_then(|stream| {
            let known = self.streams.get_mut(stream.0).ok_or(Reason::TooManyStreams)?;
            let repeat = match known.last {
                Some((last, _)) if seen.at < last => return Err(Reason::OutOfOrder),
                Some((last, best)) if seen.at == last && confidence <= best => {
                    return Err(Reason::Duplicate);
                }
                Some((last, _)) => seen.at == last,
                None => false,
            };
            known.last = Some((seen.at, confidence));
            Ok((stream, repeat))
        });
        match order {
            Ok(admitted) => Some(admitted),
            Err(reason) => {
                let source = seen.source.to_owned();
                out.refused.push(Refusal { reason, route: Some(id), source, at: seen.at });
                None
            }
        }
    }

    fn keep(
        &mut self,
        (stream, repeat): (StreamId, bool),
        route: &Route,
        seen: Seen<'_>,
        said: Said,
        out: &mut Batch,
    ) {
        let Some(known) = self.streams.get_mut(stream.0) else { return };
        let gap = route.expect().max_gap;
        let confidence = known.median.push(route.smooth(), gap, seen.at, said.confidence);
        let mut data = said.data;
        if said.absent && confidence <= 0.0 {
            data.insert("absent".to_owned(), Value::Bool(true));
        }
        let trimmed = observation::fit(&mut data);
        let observation =
            Observation { at: seen.at, confidence, data, message_id: said.message_id };
        out.derived.push(Derived { stream, route: known.route, observation, repeat, trimmed });
    }

    /// The stream of a route and an event source; a new one where there is room.
    fn stream_of(&mut self, id: RouteId, route: &Route, source: &str) -> Result<StreamId, Reason> {
        let source = route.source().map_or(source, SourceName::as_str);
        let known = self.by_route.get(id.0).and_then(|streams| streams.get(source));
        if let Some(&stream) = known {
            return Ok(stream);
        }
        let name = SourceName::new(source).map_err(|_unusable| Reason::BadSource)?;
        let owner = (route.kind().clone(), source.to_owned());
        if self.owners.get(&owner).is_some_and(|&other| other != id) {
            return Err(Reason::OtherRoute);
        }
        if self.streams.len() >= self.max_streams {
            return Err(Reason::TooManyStreams);
        }
        let stream = StreamId(self.streams.len());
        self.streams.push(Known { route: id, source: name, last: None, median: Median::default() });
        if let Some(streams) = self.by_route.get_mut(id.0) {
            streams.insert(source.to_owned(), stream);
        }
        self.owners.insert(owner, id);
        Ok(stream)
    }
}

/// Where and when.
#[derive(Clone, Copy)]
struct Seen<'a> {
    source: &'a str,
    at: Timestamp,
}

/// What a frame says about one route.
struct Said {
    confidence: f64,
    absent: bool,
    data: Map<String, Value>,
    message_id: Option<String>,
}

fn presence(route: &Route, label: &str, best: Best) -> Said {
    let mut data = best.data;
    if best.objects > 1 {
        data.insert("objects".to_owned(), best.objects.into());
    }
    if route.labels().len() > 1 {
        data.entry("label").or_insert_with(|| label.into());
    }
    Said { confidence: best.confidence, absent: false, data, message_id: best.message_id }
}

fn absence(data: Map<String, Value>, message_id: Option<String>) -> Said {
    Said { confidence: 0.0, absent: true, data, message_id }
}

/// The best detection that a route watches, and how many objects of its label there are.
fn best_of<'a>(route: &Route, detections: &'a [Detection]) -> Option<(&'a Detection, u64)> {
    let mut best: Option<&Detection> = None;
    for detection in detections.iter().filter(|d| route.labels().contains(&d.label)) {
        if best.is_none_or(|best| detection.confidence > best.confidence) {
            best = Some(detection);
        }
    }
    let best = best?;
    let objects = detections.iter().filter(|other| other.label == best.label).count();
    Some((best, u64::try_from(objects).unwrap_or(u64::MAX)))
}

/// The routes of a source that watch a label.
fn watching<'a>(
    routes: &'a Routes,
    source_name: &str,
    label: &'a str,
) -> impl Iterator<Item = (RouteId, &'a Route)> + use<'a> {
    routes
        .of(source_name)
        .iter()
        .filter_map(|&id| routes.get(id).map(|route| (id, route)))
        .filter(move |(_, route)| route.labels().contains(label))
}
