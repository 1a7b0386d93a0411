//! Where events and refusals of a replay go: each is one JSON a line, at once.

use std::io::{self, Write};

use serde_json::json;

use super::recording::Entry;
use crate::{
    config::Config,
    decode::{Decoded, Meta, Refusal},
    metrics::SourceCounters,
    pipeline::{Deriver, derive::Batch, frame::Message, sampler::Outgoing},
    poster::{self, Feed},
    source::Received,
};

/// Where events and refusals go: stdout and stderr, locked line by line.
pub(crate) struct Printer<O, E> {
    out: O,
    err: E,
    failed: Option<io::Error>,
}

impl<O: Write, E: Write> Printer<O, E> {
    /// Events go to `out`, refusals to `err`.
    pub(crate) const fn new(out: O, err: E) -> Self {
        Self { out, err, failed: None }
    }

    pub(super) fn read(
        &mut self,
        feed: &mut Feed,
        counters: &SourceCounters,
        entry: &Entry,
        config: &Config,
    ) -> Vec<Message> {
        let Some(bytes) = entry.bytes.clone() else {
            let refusal = Refusal::Oversized { limit: config.max_message_bytes };
            counters.refused(refusal.reason());
            self.refusal(feed.name(), refusal.reason().as_str(), &refusal.to_string());
            return Vec::new();
        };
        counters.arrived(entry.received, 1, 0);
        let received = Received { at: entry.received, meta: Meta::default(), bytes };
        let Decoded { messages, refused } = feed.read(&received);
        for refusal in refused {
            self.refusal(feed.name(), refusal.reason().as_str(), &refusal.to_string());
        }
        messages
    }

    pub(super) fn derived(
        &mut self,
        deriver: &Deriver,
        batch: &mut Batch,
        source: &str,
    ) -> io::Result<()> {
        for derived in batch.derived.drain(..) {
            let line = deriver.line(&derived);
            self.line(line.to_string().as_bytes());
        }
        for refusal in batch.refused.drain(..) {
            self.refusal(source, refusal.reason.as_str(), &poster::log::sentence(&refusal));
        }
        self.check()
    }

    pub(super) fn event(&mut self, outgoing: &Outgoing) {
        self.line(&outgoing.body);
    }

    pub(super) fn refusal(&mut self, source: &str, reason: &str, sentence: &str) {
        let line = json!({"source": source, "refused": reason, "message": sentence});
        // Without a stderr there is nobody to tell.
        writeln!(self.err, "{line}").ok();
    }

    /// Whether a line could not be written.
    pub(super) const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// One line, at once: who reads along sees it now.
    fn line(&mut self, bytes: &[u8]) {
        let mut write = || -> io::Result<()> {
            self.out.write_all(bytes)?;
            self.out.write_all(b"\n")?;
            self.out.flush()
        };
        if self.failed.is_none() {
            self.failed = write().err();
        }
    }

    pub(super) fn check(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    pub(super) fn into_result(mut self) -> io::Result<()> {
        self.check()
    }
}
