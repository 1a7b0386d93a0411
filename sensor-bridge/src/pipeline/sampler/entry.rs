//! One stream with what the sampler keeps beside it: its post, its turn, its places in the indexes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent_wire::value::EventId;
use bytes::Bytes;

use crate::pipeline::derive::StreamId;
use crate::pipeline::route::{Route, RouteId};
use crate::pipeline::schedule::turns::Ticket;
use crate::pipeline::stream::{Rule, Stream};

/// A post that is under way, or waits for another attempt.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) id: EventId,
    pub(super) body: Bytes,
    pub(super) attempt: u32,
    /// `None` while it is under way.
    pub(super) again: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) stream: Stream,
    pub(super) route: RouteId,
    pub(super) ticket: Ticket,
    pub(super) rest: Duration,
    pub(super) stale_after: Duration,
    pub(super) post: Option<Post>,
    /// Since when it wants a turn, and when it last did.
    pub(super) wanted: Option<(Duration, Duration)>,
    pub(super) rested: Duration,
    /// Where it stands in the indexes.
    pub(super) urgent: Option<Duration>,
    pub(super) again: Option<Duration>,
    pub(super) line: Option<Duration>,
}

impl Entry {
    pub(super) fn new(stream: StreamId, id: RouteId, route: &Route, source: &str) -> Self {
        let rule = Rule {
            threshold: route.expect().min_confidence,
            spacing: route.spacing(),
            max_gap: route.expect().max_gap,
        };
        let ticket = Ticket {
            stream,
            owners: [Arc::from(route.from()), Arc::from(source)],
            spacing: route.spacing(),
            goal: route.expect().consecutive.saturating_add(1),
        };
        Self {
            stream: Stream::new(rule),
            route: id,
            ticket,
            rest: route.rest(),
            stale_after: route.stale_after(),
            post: None,
            wanted: None,
            rested: Duration::ZERO,
            urgent: None,
            again: None,
            line: None,
        }
    }
}

/// Moves a stream to another place in an index.
pub(super) fn move_to(
    set: &mut BTreeSet<(Duration, StreamId)>,
    place: &mut Option<Duration>,
    stream: StreamId,
    to: Option<Duration>,
) {
    if *place == to {
        return;
    }
    if let Some(old) = *place {
        set.remove(&(old, stream));
    }
    if let Some(new) = to {
        set.insert((new, stream));
    }
    *place = to;
}
