//! What an agent writes to stderr: always drained, logged, and the last lines kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use service_kit::lifecycle::Tasks;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{Instrument, info, info_span};

/// How many lines are kept of one instance. Source: the process protocol, rule 8.
const KEPT_LINES: usize = 500;

/// A longer line is logged in pieces, so that an agent without newlines holds no memory.
const MAX_LINE: usize = 4096;

/// How many of the last lines an error message shows.
const SHOWN_LINES: usize = 3;

/// The stderr of one instance. Dropping it ends the reading: a grandchild that left the group may hold
/// the pipe open for ever.
#[derive(Debug)]
pub(super) struct Stderr {
    tail: Tail,
    ended: watch::Receiver<bool>,
    _stop: DropGuard,
}

/// Whose stderr it is.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) agent: String,
    /// The label of the instance's key.
    pub(super) key: String,
    pub(super) pid: i32,
}

impl Stderr {
    /// Begins to read, beside everything else.
    pub(super) fn read(
        from: impl AsyncRead + Unpin + Send + 'static,
        source: Source,
        tasks: &Tasks,
    ) -> Self {
        let (tail, stop) = (Tail::default(), CancellationToken::new());
        let (ended_sender, ended) = watch::channel(false);
        let (kept, stopped) = (tail.clone(), stop.clone());
        // Not a part of the task that happened to need the instance first.
        let span = info_span!(parent: None, "instance", agent = source.agent, pid = source.pid);
        let read = async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = drain(from, kept, source) => {}
            }
            ended_sender.send_replace(true);
        };
        drop(tasks.spawn(read.instrument(span)));
        Self { tail, ended, _stop: stop.drop_guard() }
    }

    /// Waits until all of it was read, or until the deadline.
    pub(super) async fn settle(&self, until: Instant) {
        let mut ended = self.ended.clone();
        drop(timeout_at(until, ended.wait_for(|ended| *ended)).await);
    }

    /// The last lines in one, for an error message.
    pub(super) fn last(&self) -> Option<String> {
        self.tail.last()
    }
}

#[derive(Debug, Clone, Default)]
struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    fn last(&self) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = lines.len().saturating_sub(SHOWN_LINES);
        let text: Vec<&str> = lines.iter().skip(skip).map(String::as_str).collect();
        (!text.is_empty()).then(|| text.join(" | "))
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// Reads to the end. Any bytes are taken; what is no UTF-8 is shown with replacement characters.
async fn drain(mut from: impl AsyncRead + Unpin, tail: Tail, source: Source) {
    let Source { agent, key, pid } = source;
    let mut line = Vec::with_capacity(256);
    let mut buffer = vec![0_u8; 8192];
    let flush = |line: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(line).trim_end_matches('\r').to_owned();
        line.clear();
        info!(agent, key, pid, line = text, "agent stderr");
        tail.push(text);
    };
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        for byte in buffer.iter().take(count) {
            if *byte == b'\n' {
                flush(&mut line);
            } else {
                line.push(*byte);
                if line.len() >= MAX_LINE {
                    flush(&mut line);
                }
            }
        }
    }
    if !line.is_empty() {
        flush(&mut line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_lines_are_kept_in_bounded_memory_whatever_the_bytes() {
        let mut bytes: Vec<u8> =
            (0..1000).flat_map(|n| format!("line {n}\r\n").into_bytes()).collect();
        bytes.extend(b"bad \xff byte\n");
        bytes.extend(vec![b'x'; MAX_LINE + 10]);
        let tail = Tail::default();
        let source = Source { agent: "a".to_owned(), key: "default".to_owned(), pid: 1 };
        drain(bytes.as_slice(), tail.clone(), source).await;
        let lines = tail.0.lock().unwrap();
        assert_eq!(lines.len(), KEPT_LINES);
        assert_eq!(lines[0], "line 503");
        assert_eq!(lines[KEPT_LINES - 3], "bad \u{fffd} byte");
        assert_eq!((lines[KEPT_LINES - 2].len(), lines[KEPT_LINES - 1].len()), (MAX_LINE, 10));
    }

    #[tokio::test]
    async fn dropping_it_ends_the_reading_of_a_pipe_that_stays_open() {
        let tasks = Tasks::new();
        let (held, from) = tokio::io::duplex(10);
        let source = Source { agent: "a".to_owned(), key: "default".to_owned(), pid: 1 };
        drop(Stderr::read(from, source, &tasks));
        tasks.finish().await;
        drop(held);
    }
}
