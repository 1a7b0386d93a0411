//! When each line of a recording is due, and what time it is then.

use std::time::Duration;

use jiff::Timestamp;

use super::recording::{Entry, Recording};

/// How fast a recording is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// Without waiting.
    Max,
    /// So many times as fast as it was recorded.
    Times(f64),
}

/// When each line is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    start: Timestamp,
    began: tokio::time::Instant,
    speed: Speed,
}

impl Pace {
    pub(super) fn new(recording: &Recording, speed: Speed) -> Self {
        let start = recording.entries.first().map_or(recording.first, |entry| entry.received);
        Self { start, began: tokio::time::Instant::now(), speed }
    }

    /// The virtual time since the first line.
    pub(super) fn uptime(&self, received: Timestamp) -> Duration {
        Duration::try_from(received.duration_since(self.start)).unwrap_or_default()
    }

    /// The virtual wall clock.
    pub(super) fn time(&self, uptime: Duration) -> Timestamp {
        self.start.checked_add(uptime).unwrap_or(Timestamp::MAX)
    }

    pub(super) async fn wait_for(&self, entry: &Entry) {
        if let Speed::Times(times) = self.speed {
            let due = self.uptime(entry.received).div_f64(times);
            tokio::time::sleep_until(self.began + due).await;
        }
    }
}
