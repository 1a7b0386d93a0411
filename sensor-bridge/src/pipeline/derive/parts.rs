//! A frame that comes in parts: the best detection of each label so far.
//!
//! Memory is bounded by routes and their labels, however many parts come.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

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

pub(super) fn smaller(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
