//! One persistent process, and the task that drives it from spawn to the end of its group.
//!
//! The driver owns the pipes and reads stdout always, so the agent never blocks on a full pipe and
//! nothing that it said earlier is left to be taken for an answer. It reads before it takes a request.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_core::child::{Effect, Machine};
use agent_wire::child::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::stderr::Tail;
use super::unix::Group;

/// How long the output of a process that has exited is still read. Source: the process protocol, rule 6.
const DRAIN: Duration = Duration::from_millis(200);

/// Why an instance ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// It answered nothing for the idle timeout.
    Idle,
    /// It answered `max_invocations` requests.
    Quota,
    /// A request outlived its deadline.
    Timeout,
    /// It exited or closed its output by itself.
    Crashed,
    /// It broke the protocol: a line over the limit, or an answer to a request it had not read.
    Protocol,
    /// Room was needed for another key.
    Evicted,
    /// Its task was cancelled.
    Cancelled,
    /// It never became ready.
    Startup,
    /// The service stops.
    Shutdown,
}

impl Reason {
    /// A stable name, for logs and metrics.
    fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Quota => "max_invocations",
            Self::Timeout => "timeout",
            Self::Crashed => "crashed",
            Self::Protocol => "protocol",
            Self::Evicted => "evicted",
            Self::Cancelled => "cancelled",
            Self::Startup => "startup",
            Self::Shutdown => "shutdown",
        }
    }
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Answered {
    /// The agent answered.
    Response(Response),
    /// The instance was dead before it accepted a byte: the request may be sent to another one.
    NotAccepted,
    /// Bytes were accepted and no answer came; why, in words.
    Lost(String),
}

/// A request on its way.
#[derive(Debug)]
struct Ask {
    id: String,
    line: Vec<u8>,
    reply: oneshot::Sender<Answered>,
}

/// A handle on a running instance.
#[derive(Debug)]
pub(super) struct Instance {
    asks: mpsc::Sender<Ask>,
    retire: CancellationToken,
    why: Arc<OnceLock<Reason>>,
    gone: watch::Receiver<bool>,
}

/// What an instance is driven with.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) child: Child,
    pub(super) group: Group,
    pub(super) tail: Tail,
    pub(super) hello: Vec<u8>,
    pub(super) label: String,
    pub(super) agent: String,
    pub(super) tmp: PathBuf,
    pub(super) max_line_bytes: usize,
    pub(super) grace: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) max_invocations: u32,
}

/// Told once: that the handshake is complete, or why it is not.
pub(super) type Live = oneshot::Receiver<Result<(), String>>;

impl Instance {
    /// Makes an instance of a child that was just spawned, and the future that drives it to its end.
    pub(super) fn new(parts: Parts) -> (Self, Live, impl Future<Output = ()> + Send + 'static) {
        // One request at a time; a second waits for its place here.
        let (asks, waiting) = mpsc::channel(1);
        let (told, live) = oneshot::channel();
        let (gone_sender, gone) = watch::channel(false);
        let retire = CancellationToken::new();
        let why = Arc::new(OnceLock::new());
        let driver = Driver {
            parts,
            asks: waiting,
            live: Some(told),
            retire: retire.clone(),
            why: Arc::clone(&why),
        };
        let drive = async move {
            driver.drive().await;
            gone_sender.send_replace(true);
        };
        (Self { asks, retire, why, gone }, live, drive)
    }

    /// Whether it may take another request.
    pub(super) fn is_live(&self) -> bool {
        !self.asks.is_closed() && !self.retire.is_cancelled()
    }

    /// Sends a request, and waits for what becomes of it; the caller bounds the wait.
    pub(super) async fn ask(&self, id: String, line: Vec<u8>) -> Answered {
        let (reply, answered) = oneshot::channel();
        if self.asks.send(Ask { id, line, reply }).await.is_err() {
            return Answered::NotAccepted;
        }
        // A request that the driver never took was not written.
        answered.await.unwrap_or(Answered::NotAccepted)
    }

    /// Asks it to go, for this reason; the first reason stays.
    pub(super) fn retire(&self, reason: Reason) {
        self.why.get_or_init(|| reason);
        self.retire.cancel();
    }

    /// Waits until nothing of its group runs any more.
    pub(super) async fn gone(&self) {
        // An error means that the driver has ended, too.
        drop(self.gone.clone().wait_for(|gone| *gone).await);
    }

    /// Whether nothing of its group runs any more.
    pub(super) fn is_gone(&self) -> bool {
        *self.gone.borrow()
    }
}

struct Driver {
    parts: Parts,
    asks: mpsc::Receiver<Ask>,
    live: Option<oneshot::Sender<Result<(), String>>>,
    retire: CancellationToken,
    why: Arc<OnceLock<Reason>>,
}

/// A request that is being written, or waits for its answer.
struct Flight {
    ask: Ask,
    written: usize,
}

/// How the output ended.
enum End {
    Exit(Option<ExitStatus>),
    Output,
}

impl Driver {
    async fn drive(mut self) {
        let started = Instant::now();
        let pid = self.parts.group.pid();
        let (agent, key) = (self.parts.agent.clone(), self.parts.label.clone());
        info!(agent, key, pid, "agent instance started");
        let (stdin, stdout) = (self.parts.child.stdin.take(), self.parts.child.stdout.take());
        let mut machine = Machine::new(self.parts.max_line_bytes);
        let mut answered = 0;
        let (reason, stdin) = match (stdin, stdout) {
            (Some(stdin), Some(stdout)) => {
                let mut conversation = Conversation {
                    stdin,
                    stdout,
                    machine: &mut machine,
                    flight: None,
                    answered: &mut answered,
                };
                let reason = self.talk(&mut conversation).await;
                (reason, Some(conversation.stdin))
            }
            // Both were asked for as pipes.
            _ => (Reason::Startup, None),
        };
        // Nobody sends any more, and who does is told that nothing was accepted.
        self.asks.close();
        if let Some(live) = self.live.take() {
            drop(live.send(Err("the agent was stopped before it was ready".to_owned())));
        }
        // The end of its input and SIGTERM come together: either is a signal to go.
        drop(stdin);
        self.parts.group.end(self.parts.grace).await;
        let status = self.parts.child.wait().await.ok();
        if let Err(error) = tokio::fs::remove_dir_all(&self.parts.tmp).await {
            let path = self.parts.tmp.display();
            warn!(%path, %error, "cannot remove the agent's temporary folder");
        }
        let dropped = machine.dropped();
        info!(
            agent,
            key,
            pid,
            reason = reason.as_str(),
            age_seconds = started.elapsed().as_secs(),
            answered,
            dropped.unreadable,
            dropped.foreign,
            dropped.unasked,
            status = status.map(|status| status.to_string()),
            "agent instance ended"
        );
    }

    /// Talks with the agent until one side ends it; returns why.
    async fn talk(&mut self, with: &mut Conversation<'_>) -> Reason {
        let mut buffer = vec![0_u8; 64 * 1024];
        let mut hello = std::mem::take(&mut self.parts.hello);
        let mut idle_since = Instant::now();
        loop {
            let idle = self.live.is_none() && with.flight.is_none();
            let rest: &[u8] = with
                .flight
                .as_ref()
                .map_or(&hello, |flight| flight.ask.line.get(flight.written..).unwrap_or_default());
            tokio::select! {
                biased;
                () = self.retire.cancelled() => {
                    return self.why.get().copied().unwrap_or(Reason::Shutdown);
                }
                read = with.stdout.read(&mut buffer) => {
                    let Some(bytes) = read.ok().filter(|count| *count > 0).and_then(|count| buffer.get(..count))
                    else {
                        return self.ended(with, End::Output).await;
                    };
                    for effect in with.machine.on_bytes(bytes) {
                        if let Some(reason) = self.apply(with, effect) {
                            return reason;
                        }
                        idle_since = Instant::now();
                    }
                }
                status = self.parts.child.wait() => {
                    return self.ended(with, End::Exit(status.ok())).await;
                }
                written = with.stdin.write(rest), if !rest.is_empty() => match (written, &mut with.flight) {
                    (Ok(count), Some(flight)) => flight.written = flight.written.saturating_add(count),
                    (Ok(count), None) => drop(hello.drain(..count.min(hello.len()))),
                    // It closed its input: its exit or the end of its output follows, or nothing.
                    (Err(error), _) => {
                        debug!(%error, "the agent does not read its input");
                        return self.ended(with, End::Output).await;
                    }
                },
                ask = self.asks.recv(), if idle => {
                    let Some(ask) = ask else { return Reason::Shutdown };
                    if with.machine.ask(ask.id.clone()).is_err() {
                        drop(ask.reply.send(Answered::NotAccepted));
                        return Reason::Protocol;
                    }
                    with.flight = Some(Flight { ask, written: 0 });
                }
                () = sleep_until(idle_since + self.parts.idle_timeout), if idle => return Reason::Idle,
            }
        }
    }

    /// Acts on what the agent said; a reason ends the conversation.
    fn apply(&mut self, with: &mut Conversation<'_>, effect: Effect) -> Option<Reason> {
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
                    drop(live.send(Err(why)));
                }
                Some(Reason::Startup)
            }
            Effect::Answered(response) => {
                let flight = with.flight.take()?;
                let whole = flight.written >= flight.ask.line.len();
                *with.answered = with.answered.saturating_add(1);
                // The answer goes out before anything is retired.
                drop(flight.ask.reply.send(Answered::Response(response)));
                let quota = self.parts.max_invocations;
                if !whole {
                    // The rest of the request is still to come; its input is out of step for good.
                    Some(Reason::Protocol)
                } else if quota > 0 && *with.answered >= quota {
                    Some(Reason::Quota)
                } else {
                    None
                }
            }
            Effect::TooLong => {
                let limit = self.parts.max_line_bytes;
                let why = format!("the agent wrote a line of more than {limit} bytes");
                self.lose(with, &why);
                Some(if self.live.is_some() { Reason::Startup } else { Reason::Protocol })
            }
        }
    }

    /// The agent exited, or closed a pipe: what it said last still counts.
    async fn ended(&mut self, with: &mut Conversation<'_>, end: End) -> Reason {
        let until = Instant::now() + DRAIN;
        let mut buffer = vec![0_u8; 64 * 1024];
        // A grandchild may hold the pipe open; it delays nothing.
        while let Ok(Ok(count @ 1..)) = timeout_at(until, with.stdout.read(&mut buffer)).await {
            let bytes = buffer.get(..count).unwrap_or_default();
            for effect in with.machine.on_bytes(bytes) {
                if let Some(reason) = self.apply(with, effect) {
                    return reason;
                }
            }
        }
        for effect in with.machine.on_end() {
            if let Some(reason) = self.apply(with, effect) {
                return reason;
            }
        }
        let status = match end {
            End::Exit(status) => status,
            End::Output => {
                timeout_at(until, self.parts.child.wait()).await.ok().and_then(Result::ok)
            }
        };
        let mut why = match status {
            Some(status) => format!("the agent ended ({status})"),
            None => "the agent closed a pipe".to_owned(),
        };
        if self.live.is_some() {
            if let Some(last) = self.parts.tail.last() {
                why = format!("{why}: {last}");
            }
            self.lose(with, &why);
            return Reason::Startup;
        }
        self.lose(with, &why);
        Reason::Crashed
    }

    /// Nobody will answer any more: tells whoever waits.
    fn lose(&mut self, with: &mut Conversation<'_>, why: &str) {
        if let Some(live) = self.live.take() {
            drop(live.send(Err(why.to_owned())));
        }
        if let Some(Flight { ask, written }) = with.flight.take() {
            let answered =
                if written == 0 { Answered::NotAccepted } else { Answered::Lost(why.to_owned()) };
            drop(ask.reply.send(answered));
        }
    }
}

struct Conversation<'a> {
    stdin: ChildStdin,
    stdout: ChildStdout,
    machine: &'a mut Machine,
    flight: Option<Flight>,
    answered: &'a mut u32,
}
