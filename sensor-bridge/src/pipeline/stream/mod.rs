//! One stream: what is due, and what may be left out.
//!
//! The rule: *between any two consecutive published highs no raw low was left out.* Then every trigger
//! that fires on what is published is one that the raw frames allow. Highs may be dropped freely.
//!
//! Confidences are compared by *rank*: with a known threshold 1 (high) or 0 (low), without one the
//! confidence itself. `base` is the rank of what was last published. Two slots hold what is unsent:
//!
//! * `low`: the lowest frame below `base` that something newer has displaced, a valley;
//! * `latest`: the newest frame.
//!
//! The valley goes first, so what is published next to each other has nothing lower than both
//! between it, for the one threshold or for every threshold at once. Low after low is not stored.
//!
//! An observation counts as published from its first post on, because an answer may be lost. A low
//! that was lost for sure makes the stream *broken*: what ranks higher is withheld until something as
//! low was delivered, or more than `max_gap` has passed since the last published high, when the
//! service starts its sequence again by itself. Frames that were lost unseen may have been lows.

use std::time::Duration;

use jiff::Timestamp;

use super::count::{Counters, Reason};
use super::smooth::over;
use super::window::{Side, Window};
use crate::observation::Observation;

#[cfg(test)]
mod tests;

/// What sampling needs to know of a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The threshold, if it is known.
    pub threshold: Option<f64>,
    /// How often a standing high is sent again.
    pub spacing: Duration,
    /// After a longer gap the service starts its sequence again.
    pub max_gap: Duration,
}

impl Rule {
    /// 1 or 0 with a threshold, else the confidence itself.
    fn rank(&self, confidence: f64) -> f64 {
        match self.threshold {
            Some(threshold) if confidence >= threshold => 1.0,
            Some(_) => 0.0,
            None => confidence,
        }
    }

    /// On which side of the threshold a confidence lies; 0 is low where it is unknown.
    pub fn side(&self, confidence: f64) -> Side {
        if self.rank(confidence) > 0.0 { Side::High } else { Side::Low }
    }
}

/// How urgent the next observation of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A low after a high: it goes before everything else, and needs no lease.
    Break,
    /// A high after a low, or the first one: due at once.
    Fresh,
    /// A high after a high: due every `spacing`.
    Resample,
}

/// An unsent observation, and what was left out before it.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    observation: Observation,
    rank: f64,
    window: Window,
    /// It stands for a valley at least as high as itself, so it must not be taken back.
    absorbed: bool,
}

/// An observation that is being posted.
#[derive(Clone, Debug, PartialEq)]
pub struct Flight {
    /// What is posted.
    pub observation: Observation,
    /// What was left out since the one before.
    pub window: Window,
    /// How urgent it was.
    pub class: Class,
    rank: f64,
    base_before: f64,
}

/// How a post ended for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The trigger took it.
    Taken,
    /// The service has it, but its trigger was left untouched.
    Untouched,
    /// Dropped, for this reason.
    Dropped(Reason),
}

/// The state of one stream: at most two unsent observations and one that is being posted.
#[derive(Clone, Debug)]
pub struct Stream {
    rule: Rule,
    /// Rank of what was last published; 0 before.
    base: f64,
    low: Option<Held>,
    latest: Option<Held>,
    /// Frames after the newest stored or published one.
    after: Window,
    /// Time of the last observation that was handed out.
    handed: Option<Timestamp>,
    last_high: Option<Timestamp>,
    /// The lowest rank that was lost.
    broken: Option<f64>,
    /// When the last observation was first handed out.
    sent: Option<Duration>,
    /// The last one handed out was a valley: what follows it need not wait.
    after_valley: bool,
    flight: Option<Flight>,
}

impl Stream {
    /// A stream of which nothing was seen.
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            base: 0.0,
            low: None,
            latest: None,
            after: Window::default(),
            handed: None,
            last_high: None,
            broken: None,
            sent: None,
            after_valley: false,
            flight: None,
        }
    }

    /// The rule that it follows.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Takes a frame; its time is after all others.
    pub fn push(&mut self, observation: Observation, counters: &mut Counters) {
        let rank = self.rule.rank(observation.confidence);
        let side = self.rule.side(observation.confidence);
        counters.observations += 1;
        match side {
            Side::High => counters.highs += 1,
            Side::Low => counters.lows += 1,
        }
        self.place(observation, rank, counters);
    }

    /// Takes a frame that has the time of the one before and a higher confidence.
    pub fn replace(&mut self, observation: Observation, counters: &mut Counters) {
        let rank = self.rule.rank(observation.confidence);
        let at = observation.at;
        let same = self.latest.take_if(|held| {
            held.observation.at == at
                && (held.rank >= rank || !held.absorbed)
                && held.observation.confidence < observation.confidence
        });
        if let Some(held) = same {
            // The frame before was never there, but the valley that it absorbed was.
            let absorbed = held.absorbed;
            self.after = held.window.join(self.after);
            counters.superseded += 1;
            self.push(observation, counters);
            if let Some(latest) = &mut self.latest {
                latest.absorbed |= absorbed;
            }
        } else if self.latest.as_ref().is_some_and(|held| held.observation.at == at)
            || self.low.as_ref().is_some_and(|held| held.observation.at == at)
            || self.handed == Some(at)
        {
            counters.refuse_one(Reason::Duplicate);
        } else {
            // It was silent or withheld: nothing of it is left.
            self.push(observation, counters);
        }
    }

    fn place(&mut self, observation: Observation, rank: f64, counters: &mut Counters) {
        let side = self.rule.side(observation.confidence);
        if !self.admits(observation.at, rank, counters) {
            counters.drop_one(Reason::Broken);
            self.after = self.after.with(observation.confidence, side);
            return;
        }
        self.displace(counters);
        if rank <= 0.0 && self.base <= 0.0 {
            counters.silent += 1;
            self.after = self.after.with(observation.confidence, side);
            return;
        }
        let mut window = std::mem::take(&mut self.after);
        let mut absorbed = false;
        let over_low = |low: &mut Held| low.observation.confidence >= observation.confidence;
        if let Some(low) = self.low.take_if(over_low) {
            counters.superseded += 1;
            window = self.past(&low).join(window);
            absorbed = true;
        }
        self.latest = Some(Held { observation, rank, window, absorbed });
    }

    /// Makes room for a newer frame: the one before becomes the valley, or is left out.
    fn displace(&mut self, counters: &mut Counters) {
        let Some(mut held) = self.latest.take() else { return };
        let lowest = self
            .low
            .as_ref()
            .is_none_or(|low| held.observation.confidence <= low.observation.confidence);
        if held.rank < self.base && lowest {
            if let Some(low) = self.low.take() {
                counters.superseded += 1;
                held.window = self.past(&low).join(held.window);
            }
            self.low = Some(held);
        } else {
            counters.superseded += 1;
            self.after = self.past(&held).join(self.after);
        }
    }

    /// The window of a held frame and the frame itself.
    fn past(&self, held: &Held) -> Window {
        let confidence = held.observation.confidence;
        held.window.with(confidence, self.rule.side(confidence))
    }

    /// Whether a frame may follow what was published; ends a break by its age.
    fn admits(&mut self, at: Timestamp, rank: f64, counters: &mut Counters) -> bool {
        let Some(level) = self.broken else { return true };
        if rank <= level {
            return true;
        }
        let gap = self.last_high.map(|high| at.duration_since(high));
        if gap.is_some_and(|gap| !over(gap, self.rule.max_gap)) {
            return false;
        }
        self.broken = None;
        self.base = 0.0;
        if let Some(low) = self.low.take() {
            counters.superseded += 1;
            self.after = self.past(&low).join(self.after);
        }
        true
    }

    fn head(&self) -> Option<&Held> {
        self.low.as_ref().or(self.latest.as_ref())
    }

    /// How urgent the next observation is, and from when on it is due; `None` without one, or while
    /// the one before is being posted.
    pub fn due(&self) -> Option<(Class, Duration)> {
        if self.flight.is_some() {
            return None;
        }
        let head = self.head()?;
        let class = self.class(head.rank);
        let now = Duration::ZERO;
        let due = match (class, self.sent) {
            (Class::Resample, Some(sent)) if !self.after_valley => {
                sent.saturating_add(self.rule.spacing)
            }
            (Class::Break | Class::Fresh | Class::Resample, _) => now,
        };
        Some((class, due))
    }

    fn class(&self, rank: f64) -> Class {
        if self.base <= 0.0 {
            Class::Fresh
        } else if rank <= 0.0 {
            Class::Break
        } else {
            Class::Resample
        }
    }

    /// When the next observation was seen.
    pub fn head_at(&self) -> Option<Timestamp> {
        self.head().map(|held| held.observation.at)
    }

    /// How many observations are in it, the one that is being posted included; at most three.
    pub fn pending(&self) -> u64 {
        u64::from(self.low.is_some())
            + u64::from(self.latest.is_some())
            + u64::from(self.flight.is_some())
    }

    /// Hands the next observation out to be posted. It counts as published from now on.
    pub fn hand_out(&mut self, uptime: Duration, counters: &mut Counters) -> Option<&Flight> {
        if self.flight.is_some() {
            return None;
        }
        let low = self.low.take();
        let valley = low.is_some();
        let held = low.or_else(|| self.latest.take())?;
        let class = self.class(held.rank);
        let base_before = self.base;
        self.base = held.rank;
        self.handed = Some(held.observation.at);
        self.sent = Some(uptime);
        self.after_valley = valley;
        if held.rank > 0.0 {
            self.last_high = Some(held.observation.at);
        }
        self.hush(counters);
        let Held { observation, rank, window, absorbed: _ } = held;
        Some(self.flight.insert(Flight { observation, window, class, rank, base_before }))
    }

    /// A low after a low is silent: the rest of a break that was just published.
    fn hush(&mut self, counters: &mut Counters) {
        let base = self.base;
        if let Some(held) = self.latest.take_if(|held| held.rank <= 0.0 && base <= 0.0) {
            counters.silent += 1;
            self.after = self.past(&held).join(self.after);
        }
    }

    /// What is being posted.
    pub fn flight(&self) -> Option<&Flight> {
        self.flight.as_ref()
    }

    /// Drops the next observation before its first post.
    pub fn drop_next(&mut self, reason: Reason, counters: &mut Counters) {
        if self.flight.is_some() {
            return;
        }
        let Some(held) = self.low.take().or_else(|| self.latest.take()) else { return };
        counters.drop_one(reason);
        self.after = self.past(&held).join(self.after);
        if held.rank < self.base {
            self.lose(held.rank, counters);
        }
    }

    /// Ends the post.
    pub fn finish(&mut self, ending: Ending, counters: &mut Counters) {
        let Some(flight) = self.flight.take() else { return };
        match ending {
            Ending::Taken => {
                counters.delivered += 1;
                self.broken = self.broken.filter(|level| flight.rank > *level);
                return;
            }
            Ending::Untouched => {
                counters.delivered += 1;
                counters.untouched += 1;
            }
            Ending::Dropped(reason) => counters.drop_one(reason),
        }
        if flight.rank < flight.base_before {
            // The low did not get there: the high before it still stands.
            self.base = flight.base_before;
            self.lose(flight.rank, counters);
        }
    }

    /// Frames after the last one and before the next were lost unseen; any may have been the lowest.
    pub fn lose_unseen(&mut self, counters: &mut Counters) {
        // What is held came before them. A low of it is sent all the same; a high would be the one
        // that the next high is published after.
        let base = self.base;
        if let Some(held) = self.latest.take_if(|held| held.rank >= base) {
            counters.drop_one(Reason::Broken);
            self.after = self.past(&held).join(self.after);
        }
        // After a published low, or before anything was published, one more low changes nothing.
        if base > 0.0 {
            self.broken = Some(0.0);
        }
    }

    /// A low of this rank is lost: what ranks higher is withheld from now on.
    fn lose(&mut self, rank: f64, counters: &mut Counters) {
        self.broken = Some(self.broken.map_or(rank, |level| level.min(rank)));
        let Some(held) = self.latest.take() else { return };
        if self.admits(held.observation.at, held.rank, counters) {
            self.latest = Some(held);
        } else {
            counters.drop_one(Reason::Broken);
            self.after = self.past(&held).join(self.after);
        }
    }
}
