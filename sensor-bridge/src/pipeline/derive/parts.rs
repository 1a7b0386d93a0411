//! Frames that come in parts: the best detection of each label so far, until the frame is closed.
//!
//! Memory is bounded by routes and their labels, however many parts come.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::said::{absence, presence, watching};
use super::{Batch, Deriver, Reason, Refusal, Seen};
use crate::pipeline::frame::{Detection, Message};
use crate::pipeline::redact;
use crate::pipeline::route::{Route, RouteId};

/// The best detection of one label in one frame.
#[derive(Clone, Debug)]
pub(super) struct Best {
    pub(super) confidence: f64,
    pub(super) objects: u64,
    pub(super) data: Map<String, Value>,
    pub(super) message_id: Option<String>,
}

/// A frame of which parts came; `best` is empty once it is closed.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) at: Timestamp,
    pub(super) touched: Duration,
    pub(super) open: bool,
    pub(super) message_id: Option<String>,
    pub(super) best: BTreeMap<(RouteId, String), Best>,
}

impl Parts {
    pub(super) fn new(at: Timestamp) -> Self {
        Self { at, touched: Duration::ZERO, open: true, message_id: None, best: BTreeMap::new() }
    }

    pub(super) fn add(
        &mut self,
        id: RouteId,
        route: &Route,
        detection: &Detection,
        message: &Message,
    ) {
        let new = Best {
            confidence: detection.confidence,
            objects: 1,
            data: redact::carried(route, &detection.data),
            message_id: message.message_id.clone(),
        };
        match self.best.entry((id, detection.label.clone())) {
            Entry::Vacant(entry) => {
                entry.insert(new);
            }
            Entry::Occupied(mut entry) => {
                let best = entry.get_mut();
                let objects = best.objects.saturating_add(1);
                // Parts may come in another order next time; of equal ones the smaller id speaks.
                let wins = new.confidence > best.confidence
                    || (new.confidence >= best.confidence && new.message_id < best.message_id);
                if wins {
                    *best = new;
                }
                best.objects = objects;
            }
        }
    }
}

impl Deriver {
    /// Closes the frames whose last part is `frame_close` old.
    pub fn close_due(&mut self, uptime: Duration, out: &mut Batch) {
        let Some(limit) = uptime.checked_sub(self.frame_close) else { return };
        self.close_if(|_, parts| parts.touched <= limit, out);
    }

    /// Closes all frames, before a stop.
    pub fn close_all(&mut self, out: &mut Batch) {
        self.close_if(|_, _| true, out);
    }

    /// When the next frame is to be closed.
    pub fn next_deadline(&self) -> Option<Duration> {
        let open = self.parts.values().filter(|parts| parts.open);
        open.map(|parts| parts.touched.saturating_add(self.frame_close)).min()
    }

    pub(super) fn part(
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

    pub(super) fn close_if(
        &mut self,
        due: impl Fn(&(String, String), &Parts) -> bool,
        out: &mut Batch,
    ) {
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
}

fn smaller(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
