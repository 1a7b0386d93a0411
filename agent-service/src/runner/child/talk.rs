//! What is said between the service and one persistent process, from its hello to its last line.
//!
//! Its output is read always, so the agent never blocks on a full pipe. What is in the pipe when a
//! request is about to be written was not said in answer to it; it is read before.

use std::process::ExitStatus;

use agent_core::child::{Dropped, Effect, Machine, Unanswered};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::debug;

use super::instance::{Answered, Ask, DRAIN, Parts, Reason, Retire};
use super::unix;

/// How much is read at a time: what a pipe holds on Linux, if nobody changed it.
const BUFFER: usize = 64 * 1024;

/// What is read at most before a request is written: the most that a pipe can be made to hold on Linux
/// without privileges. More can only come from an agent that never stops talking.
const MAX_LEFTOVER: usize = 1024 * 1024;

/// A conversation.
pub(super) struct Talk<'a> {
    parts: &'a mut Parts,
    stdin: ChildStdin,
    stdout: ChildStdout,
    machine: Machine,
    buffer: Vec<u8>,
    live: Option<oneshot::Sender<Result<(), String>>>,
    /// What is to be written, and how much of it was: the hello, then one request after the other.
    outgoing: Vec<u8>,
    written: usize,
    reply: Option<oneshot::Sender<Answered>>,
    answered: u32,
}

/// Why a conversation ended.
pub(super) struct End {
    reason: Reason,
    /// For whoever waits for an answer.
    why: String,
    /// The process is gone, so there is an end to what it has said.
    exited: bool,
}

/// A conversation that is over.
pub(super) struct Over {
    pub(super) reason: Reason,
    /// For whoever asks too late.
    pub(super) why: String,
    /// How many requests were answered.
    pub(super) answered: u32,
    pub(super) dropped: Dropped,
    pub(super) stdout: ChildStdout,
}

impl End {
    fn new(reason: Reason, why: impl Into<String>) -> Self {
        Self { reason, why: why.into(), exited: false }
    }
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        parts: &'a mut Parts,
        (stdin, stdout): (ChildStdin, ChildStdout),
        live: oneshot::Sender<Result<(), String>>,
    ) -> Self {
        let machine = Machine::new(parts.limits.max_line_bytes);
        let outgoing = std::mem::take(&mut parts.hello);
        Self {
            parts,
            stdin,
            stdout,
            machine,
            buffer: vec![0_u8; BUFFER],
            live: Some(live),
            outgoing,
            written: 0,
            reply: None,
            answered: 0,
        }
    }

    /// Talks until one side ends it.
    pub(super) async fn run(&mut self, asks: &mut mpsc::Receiver<Ask>, retire: &Retire) -> End {
        let limits = self.parts.limits;
        let mut quiet_since = Instant::now();
        loop {
            let all_written = self.written >= self.outgoing.len();
            let (starting, idle) = (self.live.is_some(), all_written && self.machine.is_idle());
            let (due, overdue) = if starting {
                let seconds = limits.startup_timeout.as_secs();
                let why = format!("it was not ready within {seconds} s");
                (quiet_since + limits.startup_timeout, End::new(Reason::Startup, why))
            } else {
                let why = "the agent was retired, since it had nothing to do";
                (quiet_since + limits.idle_timeout, End::new(Reason::Idle, why))
            };
            if self.reply.is_some()
                && !all_written
                && let Some(end) = self.read_leftovers()
            {
                return end;
            }
            let rest = self.outgoing.get(self.written..).unwrap_or_default();
            // The output comes last, so that an agent that never stops talking holds up nothing.
            tokio::select! {
                biased;
                reason = retire.ordered() => return End::new(reason, "the agent was told to go"),
                written = self.stdin.write(rest), if !rest.is_empty() => match written {
                    Ok(count) => {
                        self.written = self.written.saturating_add(count);
                        self.machine.on_written(count);
                    }
                    Err(error) => {
                        debug!(%error, "the agent does not read its input");
                        return self.ended(None).await;
                    }
                },
                status = self.parts.group.exit() => return self.ended(status.ok()).await,
                ask = asks.recv(), if idle => {
                    let Some(ask) = ask else {
                        return End::new(Reason::Shutdown, "nobody asks any more");
                    };
                    if let Some(end) = self.take(ask) {
                        return end;
                    }
                }
                () = sleep_until(due), if starting || idle => return overdue,
                read = self.stdout.read(&mut self.buffer) => match read {
                    Ok(count @ 1..) => match self.heard(count) {
                        Ok(true) => quiet_since = Instant::now(),
                        Ok(false) => {}
                        Err(end) => return end,
                    },
                    Ok(0) | Err(_) => return self.ended(None).await,
                },
            }
        }
    }

    /// Begins a request.
    fn take(&mut self, ask: Ask) -> Option<End> {
        let Ask { id, line, reply } = ask;
        if self.machine.ask(id, line.len()).is_err() {
            let why = "the agent was not idle";
            drop(reply.send(Answered::NotAccepted(why.to_owned())));
            return Some(End::new(Reason::Protocol, why));
        }
        (self.outgoing, self.written, self.reply) = (line, 0, Some(reply));
        None
    }

    /// Reads what is in the pipe now, whether or not the runtime knows about it already.
    fn read_leftovers(&mut self) -> Option<End> {
        let mut taken = 0_usize;
        while taken < MAX_LEFTOVER {
            // The pipe does not block. Its end, and faults, are seen by the usual reading.
            let Ok(count @ 1..) = nix::unistd::read(&self.stdout, &mut self.buffer) else { break };
            taken = taken.saturating_add(count);
            if let Err(end) = self.heard(count) {
                return Some(end);
            }
        }
        None
    }

    /// Takes the first `count` bytes of the buffer; whether they meant anything.
    fn heard(&mut self, count: usize) -> Result<bool, End> {
        let bytes = self.buffer.get(..count).unwrap_or_default();
        let effects = self.machine.on_bytes(bytes);
        let any = !effects.is_empty();
        for effect in effects {
            if let Some(end) = self.apply(effect) {
                return Err(end);
            }
        }
        Ok(any)
    }

    /// Acts on what the agent said.
    fn apply(&mut self, effect: Effect) -> Option<End> {
        match effect {
            Effect::Live => {
                if let Some(live) = self.live.take() {
                    drop(live.send(Ok(())));
                }
                None
            }
            Effect::Refused(why) => {
                let why = why.unwrap_or_else(|| "it refused and gave no reason".to_owned());
                if let Some(live) = self.live.take() {
                    drop(live.send(Err(why.clone())));
                }
                Some(End::new(Reason::Startup, why))
            }
            Effect::Answered(response) => {
                self.answered = self.answered.saturating_add(1);
                // The answer goes out before anything is retired.
                if let Some(reply) = self.reply.take() {
                    drop(reply.send(Answered::Response(response)));
                }
                let quota = self.parts.limits.max_invocations;
                (quota > 0 && self.answered >= quota)
                    .then(|| End::new(Reason::Quota, "the agent has answered all it may"))
            }
            Effect::TooLong => {
                let limit = self.parts.limits.max_line_bytes;
                let why = format!("the agent wrote a line of more than {limit} bytes");
                let starting = self.live.is_some();
                Some(End::new(if starting { Reason::Startup } else { Reason::Protocol }, why))
            }
        }
    }

    /// The agent exited, or closed a pipe: what it said last still counts.
    async fn ended(&mut self, status: Option<ExitStatus>) -> End {
        let until = Instant::now() + DRAIN;
        // A grandchild may hold the pipe open; it delays nothing.
        while let Ok(Ok(count @ 1..)) = timeout_at(until, self.stdout.read(&mut self.buffer)).await
        {
            if let Err(end) = self.heard(count) {
                return end;
            }
        }
        for effect in self.machine.on_end() {
            if let Some(end) = self.apply(effect) {
                return end;
            }
        }
        let status = match status {
            Some(status) => Some(status),
            None => timeout_at(until, self.parts.group.exit()).await.ok().and_then(Result::ok),
        };
        let why = match status {
            Some(status) => format!("the agent ended ({status})"),
            None => "the agent closed a pipe".to_owned(),
        };
        let reason = if self.live.is_some() { Reason::Startup } else { Reason::Crashed };
        End { exited: status.is_some(), ..End::new(reason, why) }
    }

    /// Tells whoever waits that no answer comes any more, and why. The agent's input is closed then.
    pub(super) async fn over(mut self, end: End) -> Over {
        let End { reason, mut why, exited } = end;
        if self.reply.is_some() && unix::are_unread(&self.stdin, self.written) {
            self.machine.on_unread();
        }
        let unanswered = self.machine.on_over();
        // The last lines of stderr explain a bad start. Not a lost request: they may be about another.
        if unanswered != Some(Unanswered::Lost)
            && matches!(reason, Reason::Startup | Reason::Crashed)
        {
            if exited {
                self.parts.stderr.settle(Instant::now() + DRAIN).await;
            }
            if let Some(last) = self.parts.stderr.last() {
                why = format!("{why}: {last}");
            }
        }
        if let Some(live) = self.live.take() {
            drop(live.send(Err(why.clone())));
        }
        if let Some(reply) = self.reply.take() {
            drop(reply.send(match unanswered {
                Some(Unanswered::NotAccepted) => Answered::NotAccepted(why.clone()),
                Some(Unanswered::Lost) | None => Answered::Lost(why.clone()),
            }));
        }
        let dropped = self.machine.dropped();
        let Self { stdout, answered, .. } = self;
        Over { reason, why, answered, dropped, stdout }
    }
}
