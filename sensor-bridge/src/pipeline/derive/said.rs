//! What a frame says about one route, before it is in order.

use serde_json::{Map, Value};

use super::parts::Best;
use crate::pipeline::frame::Detection;
use crate::pipeline::route::{Route, RouteId, Routes};

/// What a frame says about one route.
pub(super) struct Said {
    pub(super) confidence: f64,
    pub(super) absent: bool,
    pub(super) data: Map<String, Value>,
    pub(super) message_id: Option<String>,
}

pub(super) fn presence(route: &Route, label: &str, best: Best) -> Said {
    let mut data = best.data;
    if best.objects > 1 {
        data.insert("objects".to_owned(), best.objects.into());
    }
    if route.labels().len() > 1 {
        data.entry("label").or_insert_with(|| label.into());
    }
    Said { confidence: best.confidence, absent: false, data, message_id: best.message_id }
}

pub(super) fn absence(data: Map<String, Value>, message_id: Option<String>) -> Said {
    Said { confidence: 0.0, absent: true, data, message_id }
}

/// The best detection that a route watches, and how many objects of its label there are.
pub(super) fn best_of<'a>(
    route: &Route,
    detections: &'a [Detection],
) -> Option<(&'a Detection, u64)> {
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
pub(super) fn watching<'a>(
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
