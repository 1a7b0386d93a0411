//! A model of the service's trigger, written from its contract and not from its code.
//!
//! CONTRACT.md, section 4, steps 5 to 9, for one (type, source). It also keeps where the sequence
//! began, so that a firing can be held against the raw frames.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sensor_bridge::delivery::Reply;
use sensor_bridge::pipeline::Expect;

/// What the model of a trigger remembers.
#[derive(Clone, Debug)]
pub(crate) struct Trigger {
    threshold: f64,
    expect: Expect,
    last: Option<Timestamp>,
    fired: Option<Timestamp>,
    /// The highs of the sequence.
    run: Vec<Timestamp>,
}

/// One firing: the first and the last high of its sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Firing {
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

impl Trigger {
    pub(crate) fn new(threshold: f64, expect: Expect) -> Self {
        Self { threshold, expect, last: None, fired: None, run: Vec::new() }
    }

    /// Takes one event and says how the service answers, and whether it fired.
    pub(crate) fn take(
        &mut self,
        at: Timestamp,
        confidence: f64,
        now: Timestamp,
    ) -> (Reply, Option<Firing>) {
        let age = now.duration_since(at);
        if age > signed(self.expect.max_age) || age < SignedDuration::from_secs(-5) {
            return (Reply::Untouched, None);
        }
        if let Some(last) = self.last {
            if at <= last {
                return (Reply::Untouched, None);
            }
            if at.duration_since(last) > signed(self.expect.max_gap) {
                self.run.clear();
            }
        }
        self.last = Some(at);
        if confidence < self.threshold {
            self.run.clear();
            return (Reply::Taken, None);
        }
        self.run.push(at);
        let cooling = self
            .fired
            .is_some_and(|fired| now.duration_since(fired) < signed(self.expect.cooldown));
        let enough =
            usize::try_from(self.expect.consecutive).is_ok_and(|least| self.run.len() >= least);
        if cooling || !enough {
            return (Reply::Taken, None);
        }
        let firing = self.run.first().map(|first| Firing { first: *first, last: at });
        self.run.clear();
        self.fired = Some(now);
        (Reply::Taken, firing)
    }
}

fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}
