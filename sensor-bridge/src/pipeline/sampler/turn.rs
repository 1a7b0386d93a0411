//! Which stream is to send: breaks first, then repetitions, then who has a turn.
//!
//! [`Sampler::index`] brings the places of a stream up to date after anything that happened to it;
//! [`Sampler::pick`] reads them. Turns are granted and ended here, by the rules of
//! [`schedule::turns`](crate::pipeline::schedule::turns).

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use super::Sampler;
use super::entry::move_to;
use crate::pipeline::derive::StreamId;
use crate::pipeline::schedule::turns::End;
use crate::pipeline::stream::Class;

impl Sampler {
    /// Brings the indexes up to date with what a stream has to send.
    pub(super) fn index(&mut self, id: StreamId, uptime: Duration) {
        let holds = self.turns.holds(id);
        let Some(entry) = self.entries.get_mut(id.0) else { return };
        let breaking = |class| class == Class::Break;
        let again = entry.post.as_ref().and_then(|post| post.again);
        let due = entry.stream.due();
        let flight = entry.stream.flight().map(|flight| flight.class);

        let urgent = match (flight, due) {
            (Some(class), _) if breaking(class) => again,
            (None, Some((class, _))) if breaking(class) => entry.urgent.or(Some(uptime)),
            _other => None,
        };
        let again = again.filter(|_| !flight.is_some_and(breaking));
        let wants = due.is_some_and(|(class, _)| !breaking(class));
        if wants {
            let gap = entry.stream.rule().max_gap;
            let since = entry
                .wanted
                .filter(|(_, last)| uptime.saturating_sub(*last) <= gap)
                .map_or(uptime, |(since, _)| since);
            entry.wanted = Some((since, uptime));
        }
        let line =
            entry.wanted.filter(|_| wants && !holds).map(|(since, _)| since.max(entry.rested));

        move_to(&mut self.urgent, &mut entry.urgent, id, urgent);
        move_to(&mut self.again, &mut entry.again, id, again);
        if entry.line != line {
            if let Some(old) = entry.line {
                self.turns.leave(id, old);
            }
            if let Some(new) = line {
                self.turns.wait(id, new);
            }
            entry.line = line;
        }
        if holds {
            self.turns.busy(id, wants || flight.is_some(), uptime);
        }
    }

    /// Which stream is to send now: breaks, repetitions, then who has a turn.
    pub(super) fn pick(&mut self, uptime: Duration) -> Option<StreamId> {
        let due = |set: &BTreeSet<(Duration, StreamId)>| {
            set.first().filter(|(at, _)| *at <= uptime).map(|(_, stream)| *stream)
        };
        if let Some(stream) = due(&self.urgent).or_else(|| due(&self.again)) {
            return Some(stream);
        }
        if self.stopping {
            return self.leftover();
        }
        self.settle(uptime);
        // A run that has begun comes before one that may begin: each frame that passes may end it.
        self.turns
            .holders()
            .filter_map(|stream| {
                let (class, at) = self.entries.get(stream.0)?.stream.due()?;
                (class != Class::Break && at <= uptime).then_some((Reverse(class), at, stream))
            })
            .min()
            .map(|(_, _, stream)| stream)
    }

    /// When a high of a stream is due.
    pub(super) fn due(&self, stream: StreamId) -> Option<Duration> {
        let (class, at) = self.entries.get(stream.0)?.stream.due()?;
        (class != Class::Break).then_some(at)
    }

    /// At a stop: any high that is left.
    pub(super) fn leftover(&self) -> Option<StreamId> {
        let mut left = self.turns.holders().chain(self.turns.line());
        left.find(|stream| self.due(*stream).is_some())
    }

    /// Ends turns that are over and grants new ones.
    fn settle(&mut self, uptime: Duration) {
        while let Some((stream, end)) = self.turns.end_one(uptime) {
            self.end_turn(stream, end, uptime);
        }
        let rate = self.bucket.rate();
        loop {
            let entries = &self.entries;
            let ticket = |stream: StreamId| entries.get(stream.0).map(|entry| entry.ticket.clone());
            let Some(next) = self.turns.next(uptime, ticket) else { break };
            if !self.turns.fits(next.spacing, rate) {
                let Some(stream) = self.turns.in_the_way(&next) else { break };
                self.turns.revoke(stream);
                self.end_turn(stream, End::Released, uptime);
                continue;
            }
            let stream = next.stream;
            self.turns.grant(next, uptime);
            self.index(stream, uptime);
        }
    }

    fn end_turn(&mut self, stream: StreamId, end: End, uptime: Duration) {
        if let Some(entry) = self.entries.get_mut(stream.0) {
            entry.wanted = None;
            if end == End::Served {
                entry.rested = uptime.saturating_add(entry.rest);
            }
        }
        self.index(stream, uptime);
    }
}
