//! The sequences of the service: which there are, what is in order in them, and what is kept of it.

use std::collections::BTreeMap;

use agent_wire::value::SourceName;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::parts::Best;
use super::said::{Said, absence, presence};
use super::{Batch, Derived, Deriver, Reason, Refusal, StreamId};
use crate::observation::{self, Observation};
use crate::pipeline::frame::{Detection, Message};
use crate::pipeline::redact;
use crate::pipeline::route::{Route, RouteId};
use crate::pipeline::smooth::Median;

/// One sequence and what came last in it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) route: RouteId,
    pub(super) source: SourceName,
    pub(super) last: Option<(Timestamp, f64)>,
    pub(super) median: Median,
}

/// Where and when.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) source: &'a str,
    pub(super) at: Timestamp,
}

impl Deriver {
    /// The streams that a configured source feeds, by route.
    pub fn of(&self, source_name: &str) -> Vec<StreamId> {
        let routes = self.routes.of(source_name).iter();
        let streams = routes.filter_map(|route| self.by_route.get(route.0));
        streams.flat_map(BTreeMap::values).copied().collect()
    }

    /// The route and the event source of a stream.
    pub fn stream(&self, id: StreamId) -> Option<(RouteId, &SourceName)> {
        self.streams.get(id.0).map(|known| (known.route, &known.source))
    }

    /// A frame, or an object event, that is complete in one message.
    pub(super) fn frame(
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

    pub(super) fn emit(
        &mut self,
        id: RouteId,
        route: &Route,
        seen: Seen<'_>,
        said: Said,
        out: &mut Batch,
    ) {
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
