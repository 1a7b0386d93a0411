//! The whole machine: messages in, posts out, replies in.
//!
//! Its shell calls [`Sampler::on_message`] for what workers say and [`Sampler::on_lost`] for what of it
//! was lost, [`Sampler::next`] until it gives nothing more, [`Sampler::on_reply`] for *every* post that it was given, and sleeps until
//! [`Sampler::next_deadline`] or the next message. A stream has one post under way at a time; different
//! streams may be posted at once. Memory is bounded by streams, not by input.

use std::cmp::Reverse;
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
use super::schedule::turns::{End, Turns};
use super::stream::{Class, Ending};
use crate::delivery::{self, Freshness, Next, Reply};
use crate::observation;
use entry::{Entry, Post, move_to};

mod entry;
#[cfg(test)]
mod soundness;
#[cfg(test)]
mod tests;

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
    /// What the table of [`delivery`] says.
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

    /// Takes the reply to a post. `jitter` is 0 to 1, drawn by the caller. `None` when nothing of
    /// that stream was under way.
    pub fn on_reply(
        &mut self,
        stream: StreamId,
        reply: Reply,
        jitter: f64,
        now: Timestamp,
        uptime: Duration,
    ) -> Option<Outcome> {
        let entry = self.entries.get_mut(stream.0)?;
        let post = entry.post.as_mut().filter(|post| post.again.is_none())?;
        let at = entry.stream.flight()?.observation.at;
        let freshness = Freshness { age: now.duration_since(at), stale_after: entry.stale_after };
        let next = delivery::next(reply, freshness, post.attempt, jitter);
        let again = |wait: Duration| {
            if freshness.stale_in(wait) {
                Err(Ending::Dropped(Reason::Stale))
            } else {
                Ok(uptime.saturating_add(wait))
            }
        };
        let then = match next {
            Next::Done if reply == Reply::Untouched => Err(Ending::Untouched),
            Next::Done => Err(Ending::Taken),
            Next::RetryIn(wait) => again(wait),
            Next::Limited(wait) => {
                self.bucket.limit(uptime, wait);
                again(wait)
            }
            Next::Loud(wait) => {
                self.bucket.pause(uptime, wait);
                again(wait)
            }
            Next::Drop(reason) => Err(Ending::Dropped(reason)),
        };
        let dropped = match then {
            Ok(time) => {
                post.again = Some(time);
                None
            }
            Err(ending) => {
                self.finish(stream, ending);
                match ending {
                    Ending::Dropped(reason) => Some(reason),
                    Ending::Taken | Ending::Untouched => None,
                }
            }
        };
        self.index(stream, uptime);
        Some(Outcome { next, dropped })
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

    /// Brings the indexes up to date with what a stream has to send.
    fn index(&mut self, id: StreamId, uptime: Duration) {
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
    fn pick(&mut self, uptime: Duration) -> Option<StreamId> {
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
    fn due(&self, stream: StreamId) -> Option<Duration> {
        let (class, at) = self.entries.get(stream.0)?.stream.due()?;
        (class != Class::Break).then_some(at)
    }

    /// At a stop: any high that is left.
    fn leftover(&self) -> Option<StreamId> {
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

    /// Makes the next attempt of a stream; `None` when it had to be dropped instead.
    fn send(&mut self, id: StreamId, now: Timestamp, uptime: Duration) -> Option<Outgoing> {
        let outgoing = self.attempt(id, now, uptime);
        self.index(id, uptime);
        outgoing
    }

    fn attempt(&mut self, id: StreamId, now: Timestamp, uptime: Duration) -> Option<Outgoing> {
        let entry = self.entries.get_mut(id.0)?;
        let counters = self.counters.get_mut(entry.route.0)?;
        let flight = entry.stream.flight().map(|flight| flight.observation.at);
        let at = flight.or_else(|| entry.stream.head_at())?;
        let freshness = Freshness { age: now.duration_since(at), stale_after: entry.stale_after };
        let stale = freshness.stale_in(Duration::ZERO);
        match (&entry.post, stale) {
            (Some(_), true) => {
                self.finish(id, Ending::Dropped(Reason::Stale));
                return None;
            }
            (None, true) => {
                entry.stream.drop_next(Reason::Stale, counters);
                return None;
            }
            (Some(_), false) => {}
            (None, false) => {
                let flight = entry.stream.hand_out(uptime, counters)?;
                let class = flight.class;
                let route = self.routes.get(entry.route)?;
                let (_, source) = self.derive.stream(id)?;
                let window = route.window().then_some(&flight.window);
                let encoded = observation::encode(route, source, &flight.observation, window);
                let Ok(encoded) = encoded else {
                    self.finish(id, Ending::Dropped(Reason::Unencodable));
                    return None;
                };
                let (id, body) = (encoded.id, encoded.body);
                entry.post = Some(Post { id, body, attempt: 0, again: None });
                if class == Class::Break {
                    self.turns.broke(entry.ticket.stream);
                }
            }
        }
        counters.attempts += 1;
        let flight = entry.stream.flight()?;
        let post = entry.post.as_mut()?;
        post.attempt = post.attempt.saturating_add(1);
        post.again = None;
        Some(Outgoing {
            stream: id,
            route: entry.route,
            id: post.id.clone(),
            body: post.body.clone(),
            at,
            confidence: flight.observation.confidence,
            class: flight.class,
            attempt: post.attempt,
        })
    }

    fn finish(&mut self, id: StreamId, ending: Ending) {
        let Some(entry) = self.entries.get_mut(id.0) else { return };
        let Some(counters) = self.counters.get_mut(entry.route.0) else { return };
        let class = entry.stream.flight().map(|flight| flight.class);
        entry.post = None;
        entry.stream.finish(ending, counters);
        if ending == Ending::Taken && class.is_some_and(|class| class != Class::Break) {
            self.turns.high(id);
        }
    }
}
