//! The whole machine: messages in, posts out, replies in.
//!
//! Its shell calls [`Sampler::on_message`] for what workers say and [`Sampler::on_lost`] for what of it
//! was lost, [`Sampler::next`] until it gives nothing more, [`Sampler::on_reply`] for *every* post that it was given, and sleeps until
//! [`Sampler::next_deadline`] or the next message. A stream has one post under way at a time; different
//! streams may be posted at once. Memory is bounded by streams, not by input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agent_wire::value::EventId;
use bytes::Bytes;
use jiff::Timestamp;

use super::count::{ByReason, Counters, Reason, bump};
use super::derive::{Batch, Derived, Deriver, Refusal, StreamId};
use super::frame::Message;
use super::route::{RouteId, Routes};
use super::schedule::bucket::{Bucket, Budget};
use super::schedule::turns::Turns;
use super::stream::Class;
use crate::delivery::Next;
use entry::Entry;

mod entry;
mod post;
#[cfg(test)]
mod soundness;
#[cfg(test)]
mod tests;
mod turn;

/// Limits of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// What may be sent.
    pub budget: Budget,
    /// How long after its last part a frame is closed; 50 ms by default.
    pub frame_close: Duration,
    /// How many sequences (type and event source) are kept; 4096 by default. More are refused.
    pub max_streams: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            frame_close: Duration::from_millis(50),
            max_streams: 4096,
        }
    }
}

/// One attempt to post.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// Which stream it is of; the reply is told with it.
    pub stream: StreamId,
    /// The route that made it.
    pub route: RouteId,
    /// The event's identifier.
    pub id: EventId,
    /// The body of `POST /events`; the same on every attempt.
    pub body: Bytes,
    /// When it was seen, by the worker's clock.
    pub at: Timestamp,
    /// Its confidence, 0 to 1.
    pub confidence: f64,
    /// Why it is sent.
    pub class: Class,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

/// What a reply led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the table of [`delivery`](crate::delivery) says.
    pub next: Next,
    /// Why the observation was given up, if it was.
    pub dropped: Option<Reason>,
}

/// What the machine has done so far and holds now.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// By the place of the route in the configuration.
    pub routes: Vec<Counters>,
    /// What was refused before it had a route, by configured source.
    pub sources: BTreeMap<String, ByReason>,
    /// Sequences that are kept.
    pub streams: usize,
    /// Observations that wait or are under way.
    pub pending: u64,
    /// Streams whose turn it is.
    pub turns: usize,
    /// Posts a second that the budget allows now.
    pub rate: f64,
    /// Until when (uptime) the service must not be asked; in the past when it may.
    pub paused_until: Duration,
}

/// The machine.
#[derive(Debug)]
pub struct Sampler {
    routes: Arc<Routes>,
    derive: Deriver,
    batch: Batch,
    entries: Vec<Entry>,
    counters: Vec<Counters>,
    sources: BTreeMap<String, ByReason>,
    bucket: Bucket,
    turns: Turns,
    /// Breaks, first posts and repetitions, by when they are due.
    urgent: BTreeSet<(Duration, StreamId)>,
    /// Repetitions of highs, by when they are due.
    again: BTreeSet<(Duration, StreamId)>,
    stopping: bool,
}

impl Sampler {
    /// A machine that has seen nothing.
    pub fn new(routes: Routes, settings: Settings) -> Self {
        let routes = Arc::new(routes);
        Self {
            derive: Deriver::new(Arc::clone(&routes), settings.frame_close, settings.max_streams),
            batch: Batch::default(),
            entries: Vec::new(),
            counters: vec![Counters::default(); routes.len()],
            sources: BTreeMap::new(),
            bucket: Bucket::new(settings.budget),
            turns: Turns::default(),
            urgent: BTreeSet::new(),
            again: BTreeSet::new(),
            stopping: false,
            routes,
        }
    }

    /// The routes that it was made with.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Takes one message of a configured source. The refusals are counted already; they are for the
    /// log.
    pub fn on_message(
        &mut self,
        source_name: &str,
        message: &Message,
        uptime: Duration,
    ) -> Vec<Refusal> {
        let mut batch = std::mem::take(&mut self.batch);
        self.derive.close_due(uptime, &mut batch);
        self.derive.push(source_name, message, uptime, &mut batch);
        let refused = std::mem::take(&mut batch.refused);
        for refusal in &refused {
            let counters = refusal.route.and_then(|route| self.counters.get_mut(route.0));
            if let Some(counters) = counters {
                counters.refuse_one(refusal.reason);
            } else {
                let reasons = self.sources.entry(source_name.to_owned()).or_default();
                bump(reasons, refusal.reason);
            }
        }
        self.take(batch, uptime);
        refused
    }

    /// Messages of a configured source were lost before the next one, unseen.
    ///
    /// Any of them may have been a low, so every stream that the source feeds is broken, as after
    /// a low that was dropped: highs are withheld until a later low was delivered, or more than
    /// `max_gap` has passed since the last published high.
    pub fn on_lost(&mut self, source_name: &str, uptime: Duration) {
        let mut batch = std::mem::take(&mut self.batch);
        self.derive.lost(source_name, &mut batch);
        self.take(batch, uptime);
        for stream in self.derive.of(source_name) {
            let Some(entry) = self.entries.get_mut(stream.0) else { continue };
            let Some(counters) = self.counters.get_mut(entry.route.0) else { continue };
            entry.stream.lose_unseen(counters);
            self.index(stream, uptime);
        }
    }

    /// The next post that may be sent now; it is to be called until it gives nothing.
    pub fn next(&mut self, now: Timestamp, uptime: Duration) -> Option<Outgoing> {
        self.close_frames(uptime);
        self.bucket.refill(uptime);
        while self.bucket.ready_at(uptime) <= uptime {
            let stream = self.pick(uptime)?;
            // What turns out to be stale is dropped and costs nothing.
            if let Some(outgoing) = self.send(stream, now, uptime) {
                self.bucket.take();
                return Some(outgoing);
            }
        }
        None
    }

    /// When [`Sampler::next`] may have something, if no message and no reply comes before. In the
    /// past or now when it has something already.
    pub fn next_deadline(&mut self, uptime: Duration) -> Option<Duration> {
        self.bucket.refill(uptime);
        let urgent = self.urgent.first().map(|(at, _)| *at);
        let again = self.again.first().map(|(at, _)| *at);
        let work = if self.stopping {
            self.leftover().map(|_| uptime)
        } else {
            let held = self.turns.holders().filter_map(|stream| self.due(stream)).min();
            let entries = &self.entries;
            let ticket = |stream: StreamId| entries.get(stream.0).map(|entry| entry.ticket.clone());
            let change = self.turns.next_change(uptime, self.bucket.rate(), ticket);
            held.into_iter().chain(change).min()
        };
        let post = [urgent, again, work].into_iter().flatten().min();
        let post = post.map(|at| at.max(self.bucket.ready_at(uptime)));
        post.into_iter().chain(self.derive.next_deadline()).min()
    }

    /// Begins an orderly stop: open frames are closed, and from now on unsent lows go first, then
    /// what else is left, without waiting for spacing or turns. The shell gives it 2 s.
    pub fn stop(&mut self, uptime: Duration) {
        self.stopping = true;
        let mut batch = std::mem::take(&mut self.batch);
        self.derive.close_all(&mut batch);
        self.take(batch, uptime);
    }

    /// Whether nothing waits and nothing is under way.
    pub fn is_drained(&self) -> bool {
        self.entries.iter().all(|entry| entry.stream.pending() == 0)
    }

    /// What it has done and holds.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            routes: self.counters.clone(),
            sources: self.sources.clone(),
            streams: self.derive.len(),
            pending: self.entries.iter().map(|entry| entry.stream.pending()).sum(),
            turns: self.turns.holders().count(),
            rate: self.bucket.rate(),
            paused_until: self.bucket.paused_until(),
        }
    }

    fn close_frames(&mut self, uptime: Duration) {
        if self.derive.next_deadline().is_some_and(|at| at <= uptime) {
            let mut batch = std::mem::take(&mut self.batch);
            self.derive.close_due(uptime, &mut batch);
            self.take(batch, uptime);
        }
    }

    /// Puts observations into their streams; gives the batch's memory back.
    fn take(&mut self, mut batch: Batch, uptime: Duration) {
        for derived in batch.derived.drain(..) {
            let stream = derived.stream;
            if self.entries.len() <= stream.0 {
                let Some(entry) = self.entry(stream) else { continue };
                self.entries.push(entry);
            }
            self.observe(derived);
            self.index(stream, uptime);
        }
        batch.refused.clear();
        self.batch = batch;
    }

    fn observe(&mut self, derived: Derived) {
        let Some(entry) = self.entries.get_mut(derived.stream.0) else { return };
        let Some(counters) = self.counters.get_mut(derived.route.0) else { return };
        counters.trimmed += u64::from(derived.trimmed);
        if derived.repeat {
            entry.stream.replace(derived.observation, counters);
        } else {
            entry.stream.push(derived.observation, counters);
        }
    }

    fn entry(&self, stream: StreamId) -> Option<Entry> {
        let (id, source) = self.derive.stream(stream)?;
        let route = self.routes.get(id)?;
        Some(Entry::new(stream, id, route, source.as_str()))
    }
}
