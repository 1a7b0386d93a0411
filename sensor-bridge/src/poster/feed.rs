//! One source between its lane and the pipeline.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::{
    decode::{Decoded, Reader, time::WARN_AHEAD},
    metrics::SourceCounters,
    pipeline::frame::Message,
    source::Received,
};

/// One source as the poster sees it: how its messages are read, and what is counted of them.
#[derive(Debug)]
pub struct Feed {
    reader: Reader,
    counters: Arc<SourceCounters>,
    warned_ahead: bool,
    shift: SignedDuration,
}

impl Feed {
    /// A source whose messages `reader` reads.
    pub const fn new(reader: Reader, counters: Arc<SourceCounters>) -> Self {
        Self { reader, counters, warned_ahead: false, shift: SignedDuration::ZERO }
    }

    /// Moves the times of all messages, after they were checked: a replay of something old.
    #[must_use]
    pub const fn shifted_by(mut self, shift: SignedDuration) -> Self {
        self.shift = shift;
        self
    }

    /// The name of the source in the configuration.
    pub fn name(&self) -> &str {
        &self.reader.rules().name
    }

    /// Messages were lost before the next one.
    pub fn lost(&mut self) {
        self.reader.lost();
    }

    /// Reads one message, and counts what of it cannot be used.
    pub fn read(&mut self, received: &Received) -> Decoded {
        let mut decoded = self.reader.read(&received.bytes, &received.meta, received.at);
        for refusal in &decoded.refused {
            self.counters.refused(refusal.reason());
        }
        for message in &mut decoded.messages {
            self.warn_ahead(message, received.at);
            message.at = message.at.checked_add(self.shift).unwrap_or(message.at);
        }
        decoded
    }

    fn warn_ahead(&mut self, message: &Message, received: Timestamp) {
        let ahead = message.at.duration_since(received);
        if ahead > WARN_AHEAD && !self.warned_ahead {
            self.warned_ahead = true;
            tracing::warn!(
                source = self.name(),
                ahead_ms = i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX),
                "the worker's clock is ahead of ours; over 5 s its messages are refused"
            );
        }
    }
}
