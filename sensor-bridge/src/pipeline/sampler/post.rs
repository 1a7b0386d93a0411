//! One post from its first attempt to its end: what goes out, and what a reply makes of it.

use std::time::Duration;

use jiff::Timestamp;

use super::entry::Post;
use super::{Outcome, Outgoing, Reason, Sampler};
use crate::delivery::{self, Freshness, Next, Reply};
use crate::observation;
use crate::pipeline::derive::StreamId;
use crate::pipeline::stream::{Class, Ending};

impl Sampler {
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

    /// Makes the next attempt of a stream; `None` when it had to be dropped instead.
    pub(super) fn send(
        &mut self,
        id: StreamId,
        now: Timestamp,
        uptime: Duration,
    ) -> Option<Outgoing> {
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
