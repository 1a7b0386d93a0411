//! Leases: which streams send their highs now, and who is next.
//!
//! A turn ends after `consecutive + 1` highs in a row, or after 6 s. The rest that follows spares the
//! others what would fall into the cooldown; a stream that flickered its 6 s away has fired nothing and
//! has no cooldown, so it does not rest but waits again behind all others.
//!
//! Waiting streams are kept in the order in which they began to wait; a drop-out for a moment does
//! not cost a place. Nothing here looks at a stream: the sampler says when one waits, has nothing to
//! send, or delivered a high.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::pipeline::derive::StreamId;

#[cfg(test)]
mod tests;

/// The longest turn. Source: BRIDGE, section 3.
pub const LONGEST: Duration = Duration::from_secs(6);

/// Sums of costs miss the rate by less than this.
const ALMOST: f64 = 1e-9;

/// What the turns need to know of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticket {
    /// The stream.
    pub stream: StreamId,
    /// The configured source, and the event source.
    pub owners: [Arc<str>; 2],
    /// Its spacing at full speed.
    pub spacing: Duration,
    /// How many highs in a row end its turn.
    pub goal: u32,
}

/// One turn.
#[derive(Clone, Debug)]
struct Lease {
    ticket: Ticket,
    since: Duration,
    highs: u32,
    /// The most highs in a row that it had.
    longest: u32,
    /// Since when it has nothing to send.
    idle: Option<Duration>,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It had its highs: it rests.
    Served,
    /// Its time was over before its trigger can have fired, it had nothing to send, or another
    /// source must have a turn: it goes to the end of the line at once.
    Released,
}

/// All turns.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    leases: Vec<Lease>,
    waiting: BTreeSet<(Duration, StreamId)>,
    /// Who had the last turn that was granted.
    last: Option<[Arc<str>; 2]>,
}

impl Turns {
    /// Puts a stream in the line, or moves it; `since` is when its place was taken, or when it has
    /// rested.
    pub fn wait(&mut self, stream: StreamId, since: Duration) {
        self.waiting.insert((since, stream));
    }

    /// Takes a stream out of the line.
    pub fn leave(&mut self, stream: StreamId, since: Duration) {
        self.waiting.remove(&(since, stream));
    }

    /// Whether a stream has a turn.
    pub fn holds(&self, stream: StreamId) -> bool {
        self.leases.iter().any(|lease| lease.ticket.stream == stream)
    }

    /// The streams that have a turn, in the order in which they got it.
    pub fn holders(&self) -> impl Iterator<Item = StreamId> {
        self.leases.iter().map(|lease| lease.ticket.stream)
    }

    /// The streams in the line, whether they rest or not.
    pub fn line(&self) -> impl Iterator<Item = StreamId> {
        self.waiting.iter().map(|(_, stream)| *stream)
    }

    /// Tells whether the stream has something to send or on the way.
    pub fn busy(&mut self, stream: StreamId, busy: bool, uptime: Duration) {
        if let Some(lease) = self.lease(stream) {
            lease.idle = if busy { None } else { lease.idle.or(Some(uptime)) };
        }
    }

    /// A high of the stream was delivered.
    pub fn high(&mut self, stream: StreamId) {
        if let Some(lease) = self.lease(stream) {
            lease.highs = lease.highs.saturating_add(1);
            lease.longest = lease.longest.max(lease.highs);
        }
    }

    /// A low of the stream broke its run.
    pub fn broke(&mut self, stream: StreamId) {
        if let Some(lease) = self.lease(stream) {
            lease.highs = 0;
        }
    }

    fn lease(&mut self, stream: StreamId) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.ticket.stream == stream)
    }

    /// Ends one turn that is over, if there is one.
    pub fn end_one(&mut self, uptime: Duration) -> Option<(StreamId, End)> {
        let others = self.first_waiting(uptime).is_some();
        let over = |lease: &Lease| {
            if lease.highs >= lease.ticket.goal {
                return Some(End::Served);
            }
            if uptime >= lease.since.saturating_add(LONGEST) {
                // One high less is a firing: only then there is a cooldown to rest in.
                let fired = lease.longest.saturating_add(1) >= lease.ticket.goal;
                return Some(if fired { End::Served } else { End::Released });
            }
            let idle = lease.idle_until().is_some_and(|until| uptime >= until);
            (others && idle).then_some(End::Released)
        };
        let (at, end) = self
            .leases
            .iter()
            .enumerate()
            .find_map(|(at, lease)| over(lease).map(|end| (at, end)))?;
        let lease = self.leases.remove(at);
        Some((lease.ticket.stream, end))
    }

    fn first_waiting(&self, uptime: Duration) -> Option<StreamId> {
        self.waiting.first().filter(|(since, _)| *since <= uptime).map(|(_, stream)| *stream)
    }

    /// Who is next: the one that waited longest; but when all turns are with one source, and another
    /// source waits, its longest.
    ///
    /// `ticket` tells about a waiting stream.
    pub fn next(
        &self,
        uptime: Duration,
        ticket: impl Fn(StreamId) -> Option<Ticket>,
    ) -> Option<Ticket> {
        let first = ticket(self.first_waiting(uptime)?)?;
        for level in [0, 1] {
            let Some(sole) = self.sole(level) else { continue };
            if first.owners.get(level) != Some(sole) {
                continue;
            }
            let other = self
                .waiting
                .iter()
                .take_while(|(since, _)| *since <= uptime)
                .filter_map(|(_, stream)| ticket(*stream))
                .find(|ticket| ticket.owners.get(level) != Some(sole));
            if other.is_some() {
                return other;
            }
        }
        Some(first)
    }

    /// The source that has all turns, or had the last one.
    fn sole(&self, level: usize) -> Option<&Arc<str>> {
        let Some(first) = self.leases.first() else { return self.last.as_ref()?.get(level) };
        let owner = first.ticket.owners.get(level)?;
        self.leases
            .iter()
            .all(|lease| lease.ticket.owners.get(level) == Some(owner))
            .then_some(owner)
    }

    /// Whether another turn fits: as many as the rate serves at full spacing, and at least one.
    pub fn fits(&self, spacing: Duration, rate: f64) -> bool {
        let out: f64 = self.leases.iter().map(|lease| cost(lease.ticket.spacing)).sum();
        self.leases.is_empty() || out + cost(spacing) <= rate + ALMOST
    }

    /// Which turn must be given up for another source: the oldest, when one source has several and
    /// all of them.
    pub fn in_the_way(&self, next: &Ticket) -> Option<StreamId> {
        let oldest = self.leases.first().filter(|_| self.leases.len() > 1)?;
        let unfair = [0, 1]
            .into_iter()
            .any(|level| self.sole(level).is_some_and(|sole| next.owners.get(level) != Some(sole)));
        unfair.then_some(oldest.ticket.stream)
    }

    /// Takes a turn away.
    pub fn revoke(&mut self, stream: StreamId) {
        self.leases.retain(|lease| lease.ticket.stream != stream);
    }

    /// Gives a turn.
    pub fn grant(&mut self, ticket: Ticket, uptime: Duration) {
        self.last = Some(ticket.owners.clone());
        self.leases.push(Lease { ticket, since: uptime, highs: 0, longest: 0, idle: None });
    }

    /// When the turns may change by time alone; `uptime` when they may change now.
    pub fn next_change(
        &self,
        uptime: Duration,
        rate: f64,
        ticket: impl Fn(StreamId) -> Option<Ticket>,
    ) -> Option<Duration> {
        let later = (uptime.saturating_add(Duration::from_nanos(1)), StreamId(0));
        let rested = self.waiting.range(later..).next().map(|(since, _)| *since);
        let Some(next) = self.next(uptime, ticket) else { return rested };
        if self.fits(next.spacing, rate) || self.in_the_way(&next).is_some() {
            return Some(uptime);
        }
        let end = |lease: &Lease| {
            let longest = lease.since.saturating_add(LONGEST);
            let end = lease.idle_until().map_or(longest, |until| until.min(longest));
            if lease.highs >= lease.ticket.goal { uptime } else { end }
        };
        self.leases.iter().map(end).chain(rested).min()
    }
}

impl Lease {
    /// A stream that is silent for longer than its spacing does not use its turn.
    fn idle_until(&self) -> Option<Duration> {
        Some(self.idle?.saturating_add(self.ticket.spacing))
    }
}

/// Posts a second at full spacing.
fn cost(spacing: Duration) -> f64 {
    1.0 / spacing.as_secs_f64().max(0.001)
}
