//! What is counted: every message, and every one that was not used, once.
//!
//! The names are stable, since operators alert on them. A sentence is logged
//! at most once a minute per reason ([`Throttle`]); the counters have the
//! rest. The seam for the status page and for OpenTelemetry is the snapshot:
//! both show it and count nothing themselves.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::decode::Reason;

/// How often one reason is logged at most (BRIDGE.md section 2).
const LOG_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// Whether a source can deliver at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// Not yet, or lost: it is tried again.
    #[default]
    Waiting,
    /// What the worker says now arrives.
    Open,
    /// The stream is over and will not come back (stdin).
    Ended,
}

/// The counters of one source, shared by its transport and its decoder.
#[derive(Debug, Default)]
pub struct SourceCounters(Mutex<SourceCounts>);

/// The counters of one source at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceCounts {
    /// Whether it can deliver now.
    pub connection: Connection,
    /// How often it became able to deliver.
    pub connects: u64,
    /// How often it could not be reached, or was lost, and is tried again.
    pub retries: u64,
    /// Messages that arrived, refused ones included, skipped ones not.
    pub messages: u64,
    /// Messages that had to go since newer ones came faster than they were read.
    pub overrun: u64,
    /// Messages and detections that were not used, by the name of the reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// When the last message arrived.
    pub last_message: Option<Timestamp>,
}

impl SourceCounters {
    /// The counters now.
    pub fn snapshot(&self) -> SourceCounts {
        self.lock().clone()
    }

    /// The source became able to deliver, or no longer is.
    pub fn connection(&self, connection: Connection) {
        let mut counts = self.lock();
        if connection == Connection::Open && counts.connection != Connection::Open {
            counts.connects += 1;
        }
        counts.connection = connection;
    }

    /// The source could not be reached, or was lost; it is tried again.
    pub fn retrying(&self) {
        let mut counts = self.lock();
        counts.connection = Connection::Waiting;
        counts.retries += 1;
    }

    /// So many messages arrived; `overrun` older ones had to go for them.
    pub fn arrived(&self, at: Timestamp, messages: u64, overrun: u64) {
        let mut counts = self.lock();
        counts.messages += messages;
        counts.overrun += overrun;
        counts.last_message = Some(at);
    }

    /// A message or a detection in it was not used.
    pub fn refused(&self, reason: Reason) {
        *self.lock().refused.entry(reason.as_str()).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, SourceCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets one sentence per key and minute through.
#[derive(Debug, Default)]
pub struct Throttle<K>(BTreeMap<K, Said>);

#[derive(Debug)]
struct Said {
    at: Timestamp,
    since: u64,
}

impl<K: Ord> Throttle<K> {
    /// Whether to say it now; if so, how many times it happened since it was last said.
    ///
    /// A clock that was set back lets it through, rather than silence it for the difference.
    pub fn admit(&mut self, key: K, now: Timestamp) -> Option<u64> {
        let Some(said) = self.0.get_mut(&key) else {
            self.0.insert(key, Said { at: now, since: 0 });
            return Some(1);
        };
        let passed = now.duration_since(said.at);
        said.since += 1;
        if passed < LOG_EVERY && !passed.is_negative() {
            return None;
        }
        said.at = now;
        Some(std::mem::take(&mut said.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_said_once_a_minute_and_tells_how_often_it_was_true() {
        let mut throttle = Throttle::default();
        let cases = [
            ("the first is said", 0, Some(1)),
            ("then it is quiet", 1, None),
            ("up to the minute", 59, None),
            ("then it says how many there were", 60, Some(3)),
            ("and is quiet again", 61, None),
            ("a clock set back does not silence it", -100, Some(2)),
        ];
        for (name, second, expected) in cases {
            let now = Timestamp::from_second(1_789_552_800 + second).unwrap();
            assert_eq!(throttle.admit("reason", now), expected, "{name}");
        }
        assert_eq!(throttle.admit("other", Timestamp::UNIX_EPOCH), Some(1));
    }

    #[test]
    fn a_reconnect_counts_once_and_a_message_keeps_its_time() {
        let counters = SourceCounters::default();
        counters.connection(Connection::Open);
        counters.connection(Connection::Open);
        counters.retrying();
        counters.connection(Connection::Open);
        counters.arrived(Timestamp::UNIX_EPOCH, 1, 2);
        counters.refused(Reason::Oversized);
        let expected = SourceCounts {
            connection: Connection::Open,
            connects: 2,
            retries: 1,
            messages: 1,
            overrun: 2,
            refused: [("oversized", 1)].into(),
            last_message: Some(Timestamp::UNIX_EPOCH),
        };
        assert_eq!(counters.snapshot(), expected);
    }
}
