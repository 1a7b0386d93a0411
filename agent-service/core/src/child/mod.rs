//! One persistent agent process, seen through its lines: bytes in, effects out.
//!
//! ```text
//! Starting ──ready ok──▶ Ready ──ask──▶ writing ──on_written──▶ asked ──answer──▶ Ready
//!     └──refusal──▶ Over   └─ line too long, or end of output ─▶ Over
//! ```
//!
//! The shell owns the pipes, the clock and the signals; this machine decides what a byte means. A frame
//! counts only while it is waited for: an answer only after the last byte of its request was written, so
//! a leftover of one question never answers the next.

mod key;
mod lines;

use agent_wire::child::{Incoming, Response};

pub use self::key::{Key, Scope};
pub use self::lines::{Line, Lines};

/// Where the instance stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Spawned, and not ready yet: nothing may be asked.
    Starting,
    /// It takes requests, one at a time.
    Ready,
    /// It will never answer again.
    Over,
}

/// A request that is being written, or waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Flight {
    id: String,
    /// Bytes that are still to be written.
    left: usize,
    /// Whether any byte was accepted: from then on its effects are uncertain.
    accepted: bool,
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

/// What becomes of a request whose instance ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// No byte of it was accepted: another instance may be asked.
    NotAccepted,
    /// The agent may have acted on it: it must never be sent again.
    Lost,
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
    flight: Option<Flight>,
    dropped: Dropped,
}

impl Machine {
    /// An instance that was just spawned. Lines are at most `max_line_bytes` long.
    pub fn new(max_line_bytes: usize) -> Self {
        Self {
            lines: Lines::new(max_line_bytes),
            phase: Phase::Starting,
            flight: None,
            dropped: Dropped::default(),
        }
    }

    /// What was dropped so far.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Whether a request may be sent now.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Ready && self.flight.is_none()
    }

    /// A request of `length` bytes is about to be written.
    ///
    /// Only what the agent writes after the last of them can answer it.
    ///
    /// # Errors
    /// When the instance is not idle.
    pub fn ask(&mut self, id: impl Into<String>, length: usize) -> Result<(), NotIdle> {
        if !self.is_idle() {
            return Err(NotIdle);
        }
        self.flight = Some(Flight { id: id.into(), left: length, accepted: false });
        Ok(())
    }

    /// The agent's input took `count` further bytes of the request.
    pub fn on_written(&mut self, count: usize) {
        if let Some(flight) = &mut self.flight {
            flight.left = flight.left.saturating_sub(count);
            flight.accepted |= count > 0;
        }
    }

    /// Whatever was written of the request, nobody has read a byte of it, and nobody ever can.
    pub fn on_unread(&mut self) {
        if let Some(flight) = &mut self.flight {
            flight.accepted = false;
        }
    }

    /// The instance ends: what becomes of the request that has no answer, if there is one.
    pub fn on_over(&mut self) -> Option<Unanswered> {
        self.phase = Phase::Over;
        self.flight
            .take()
            .map(|flight| if flight.accepted { Unanswered::Lost } else { Unanswered::NotAccepted })
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
        match (frame, self.phase) {
            (Incoming::Ready(ready), Phase::Starting) if ready.ok => {
                self.phase = Phase::Ready;
                Some(Effect::Live)
            }
            (Incoming::Ready(ready), Phase::Starting) => {
                self.phase = Phase::Over;
                Some(Effect::Refused(ready.error))
            }
            (Incoming::Response(response), Phase::Ready) => self.on_response(response),
            (Incoming::Response(_), Phase::Starting | Phase::Over)
            | (Incoming::Ready(_), Phase::Ready | Phase::Over) => {
                self.dropped.unasked = self.dropped.unasked.saturating_add(1);
                None
            }
        }
    }

    fn on_response(&mut self, response: Response) -> Option<Effect> {
        let Some(flight) = self.flight.take_if(|flight| flight.left == 0) else {
            self.dropped.unasked = self.dropped.unasked.saturating_add(1);
            return None;
        };
        if response.id.as_ref().is_some_and(|answered| *answered != flight.id) {
            self.dropped.foreign = self.dropped.foreign.saturating_add(1);
            self.flight = Some(flight);
            return None;
        }
        Some(Effect::Answered(response))
    }
}

#[cfg(test)]
mod tests;
