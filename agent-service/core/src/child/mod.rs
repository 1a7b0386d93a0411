//! One persistent agent process, seen through its lines: bytes in, effects out.
//!
//! ```text
//! Starting ──ready ok──▶ Idle ──ask──▶ Asked ──answer──▶ Idle
//!     └──refusal──▶ Over      └─ line too long, or end of output ─▶ Over
//! ```
//!
//! The shell owns the pipes, the clock and the signals; this machine decides what a byte means. A frame
//! counts only in the phase that waits for it, so a leftover of one question never answers the next.

mod key;
mod lines;

use agent_wire::child::{Incoming, Response};

pub use self::key::{Key, Scope};
pub use self::lines::{Line, Lines};

/// Where the instance stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Spawned, and not ready yet: nothing may be asked.
    Starting,
    /// Ready for a request.
    Idle,
    /// A request was begun to be written, and waits for its answer.
    Asked { id: String },
    /// It will never answer again.
    Over,
}

/// What the shell has to do about what the agent wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The handshake is complete: requests may be sent.
    Live,
    /// The agent will not work, in its own words if it has some.
    Refused(Option<String>),
    /// The request in flight is answered.
    Answered(Response),
    /// A line passed the limit: the request has failed, and the instance is of no use any more.
    TooLong,
}

/// Frames that meant nothing, by the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// No frame of an agent: not JSON, not UTF-8, a wrong type, an unknown kind.
    pub unreadable: u64,
    /// An answer to another request.
    pub foreign: u64,
    /// A frame that nobody waited for.
    pub unasked: u64,
}

/// A request came while the instance could not take one; a fault of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the instance is not idle")]
pub struct NotIdle;

/// The protocol with one instance.
#[derive(Debug)]
pub struct Machine {
    lines: Lines,
    phase: Phase,
    dropped: Dropped,
}

impl Machine {
    /// An instance that was just spawned. Lines are at most `max_line_bytes` long.
    pub fn new(max_line_bytes: usize) -> Self {
        Self {
            lines: Lines::new(max_line_bytes),
            phase: Phase::Starting,
            dropped: Dropped::default(),
        }
    }

    /// What was dropped so far.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// A request is about to be written; only what comes after this can answer it.
    ///
    /// # Errors
    /// When the instance is not idle.
    pub fn ask(&mut self, id: impl Into<String>) -> Result<(), NotIdle> {
        if self.phase != Phase::Idle {
            return Err(NotIdle);
        }
        self.phase = Phase::Asked { id: id.into() };
        Ok(())
    }

    /// The agent wrote these bytes.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Vec<Effect> {
        let lines = self.lines.push(bytes);
        lines.into_iter().filter_map(|line| self.on_line(line)).collect()
    }

    /// The agent's output has ended; a last line without a newline counts.
    pub fn on_end(&mut self) -> Vec<Effect> {
        let effects = self.lines.finish().and_then(|line| self.on_line(line));
        self.phase = Phase::Over;
        effects.into_iter().collect()
    }

    fn on_line(&mut self, line: Line) -> Option<Effect> {
        let bytes = match line {
            Line::Whole(bytes) => bytes,
            Line::TooLong => {
                self.phase = Phase::Over;
                return Some(Effect::TooLong);
            }
        };
        let Some(frame) = Incoming::parse(&bytes) else {
            self.dropped.unreadable = self.dropped.unreadable.saturating_add(1);
            return None;
        };
        match (&self.phase, frame) {
            (Phase::Starting, Incoming::Ready(ready)) if ready.ok => {
                self.phase = Phase::Idle;
                Some(Effect::Live)
            }
            (Phase::Starting, Incoming::Ready(ready)) => {
                self.phase = Phase::Over;
                Some(Effect::Refused(ready.error))
            }
            (Phase::Asked { id }, Incoming::Response(response)) => {
                if response.id.as_ref().is_some_and(|answered| answered != id) {
                    self.dropped.foreign = self.dropped.foreign.saturating_add(1);
                    return None;
                }
                self.phase = Phase::Idle;
                Some(Effect::Answered(response))
            }
            (Phase::Starting | Phase::Idle | Phase::Over, Incoming::Response(_))
            | (Phase::Asked { .. } | Phase::Idle | Phase::Over, Incoming::Ready(_)) => {
                self.dropped.unasked = self.dropped.unasked.saturating_add(1);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
