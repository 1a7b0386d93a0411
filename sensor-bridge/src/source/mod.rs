//! Transports, and the contract that each of them keeps.
//!
//! A transport gets bytes from a worker and hands them to its [`Port`]; it
//! decodes nothing. Whoever adds one promises, and `tests/it/contract` checks:
//!
//! 1. **A message is** its receive time, what the transport says about it
//!    ([`Meta`]) and its bytes, unchanged. It is dated when its last byte came.
//! 2. **Receiving never waits for sending.** The lane is bounded by
//!    messages and bytes; a full one drops its oldest message, counted as
//!    `overrun`. Nothing in a transport awaits the pipeline or the service.
//! 3. **Nothing ends the stream** but its worker: garbage, invalid UTF-8 and a
//!    message over `max_message_bytes` cost themselves. The last is skipped
//!    without being kept, counted as `oversized`, and the next one arrives.
//! 4. **Start order never matters.** A worker that is not there yet, or left,
//!    is tried again with capped, jittered backoff, for ever; what can
//!    deliver now is in the counters as `open`.
//! 5. **Old news is not news.** What was there before us (the content of a
//!    file, retained messages) is skipped or marked, not delivered as new.
//! 6. **Memory is bounded** by the lane and one message, whatever comes in.
//! 7. **Stopping is prompt**: the token ends every wait. A message that was
//!    received whole is in the lane by then.
//! 8. **Secrets stay inside**: no URL with credentials and no token in a log
//!    line, an error or `Debug`.

pub mod file;
pub mod inbox;
pub mod lines;
pub mod listen;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use jiff::Timestamp;
use service_kit::{Clock, pace::Backoff};

use self::inbox::Lane;
use crate::{
    decode::{Meta, Refusal},
    metrics::{Connection, SourceCounters, Throttle},
};

/// One message as a transport delivered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// When its last byte came.
    pub at: Timestamp,
    /// What the transport says about it.
    pub meta: Meta,
    /// The message itself.
    pub bytes: Bytes,
}

/// Where a transport puts what it gets: its lane, its counters and the clock.
#[derive(Debug)]
pub struct Port {
    name: Arc<str>,
    lane: Lane,
    counters: Arc<SourceCounters>,
    clock: Clock,
    said: Mutex<Throttle<&'static str>>,
}

impl Port {
    /// The port of the source `name`.
    pub fn new(name: Arc<str>, lane: Lane, counters: Arc<SourceCounters>, clock: Clock) -> Self {
        Self { name, lane, counters, clock, said: Mutex::default() }
    }

    /// The name of the source in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Delivers one message, received now. Never waits.
    ///
    /// At a stop nobody takes it any more; a transport that cannot say so to its worker need not care.
    pub fn deliver(&self, bytes: Bytes, meta: &Meta) {
        let _taken = self.deliver_all(vec![bytes], meta);
    }

    /// Delivers messages that were received together now; whether they were taken, all or none.
    #[must_use = "what was not taken may not be called so"]
    pub fn deliver_all(&self, messages: Vec<Bytes>, meta: &Meta) -> bool {
        let at = self.clock.now();
        let count = u64::try_from(messages.len()).unwrap_or(u64::MAX);
        let received = messages.into_iter().map(|bytes| Received { at, meta: meta.clone(), bytes });
        let sent = self.lane.send_all(received);
        if sent.taken {
            self.counters.arrived(at, count, sent.overrun);
        }
        sent.taken
    }

    /// Counts a message that was not kept, and says why once a minute.
    pub fn refuse(&self, refusal: &Refusal) {
        let reason = refusal.reason().as_str();
        self.counters.refused(refusal.reason());
        let now = self.clock.now();
        let count = self.said.lock().unwrap_or_else(PoisonError::into_inner).admit(reason, now);
        if let Some(count) = count {
            tracing::warn!(source = &*self.name, reason, count, "message refused: {refusal}");
        }
    }

    /// The worker could not be reached, or was lost; it is tried again.
    pub fn retrying(&self) {
        self.counters.retrying();
    }

    /// Says whether the worker's messages arrive now.
    pub fn connection(&self, connection: Connection) {
        self.counters.connection(connection);
    }
}

/// The first and the longest wait before a worker that is not there is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The waits between attempts to reach one worker.
#[derive(Debug, Default)]
struct Retry {
    failures: u32,
}

impl Retry {
    /// The next wait: doubling, capped, and with a random share taken off.
    fn next_wait(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let (first, longest) = RETRY;
        Backoff::new(first, longest)
            .map_or(longest, |backoff| backoff.delay(self.failures, fastrand::f64()))
    }
}
