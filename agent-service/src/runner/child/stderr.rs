//! What an agent writes to stderr: always drained, logged, and the last lines kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tracing::info;

/// How many lines are kept of one instance. Source: the process protocol, rule 8.
const KEPT_LINES: usize = 500;

/// A longer line is logged in pieces, so that an agent without newlines holds no memory.
const MAX_LINE: usize = 4096;

/// The last lines of one instance.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    /// The last lines in one, for an error message; at most three.
    pub(super) fn last(&self) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = lines.len().saturating_sub(3);
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
pub(super) async fn drain(
    mut from: impl AsyncRead + Unpin,
    tail: Tail,
    agent: String,
    key: String,
    pid: i32,
) {
    let mut line = Vec::with_capacity(256);
    let mut buffer = [0_u8; 8192];
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
