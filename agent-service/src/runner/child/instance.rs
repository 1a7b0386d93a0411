//! One persistent process: the handle that asks it, and its way from spawn to the end of its group.
//!
//! What is said between the two is in [`super::talk`].

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_wire::child::Response;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::group::Group;
use super::stderr::Stderr;
use super::talk::{Over, Talk};
use super::tmp::Tmp;

/// How long the output of a process that has exited is still read. Source: the process protocol, rule 6.
pub(super) const DRAIN: Duration = Duration::from_millis(200);

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
    /// The instance was dead before it accepted a byte: the request may be sent to another one. Why, in
    /// words.
    NotAccepted(String),
    /// Bytes were accepted and no answer came; why, in words.
    Lost(String),
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) id: String,
    /// With its newline.
    pub(super) line: Vec<u8>,
    pub(super) reply: oneshot::Sender<Answered>,
}

/// A handle on a running instance.
#[derive(Debug)]
pub(super) struct Instance {
    asks: mpsc::Sender<Ask>,
    retire: Retire,
    /// Why it takes nothing any more.
    closed: Arc<OnceLock<String>>,
    gone: watch::Receiver<bool>,
}

/// What an instance is driven with.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) group: Group,
    pub(super) stderr: Stderr,
    /// With its newline.
    pub(super) hello: Vec<u8>,
    pub(super) label: String,
    pub(super) agent: String,
    pub(super) tmp: Tmp,
    pub(super) limits: Limits,
    /// Ends every grace.
    pub(super) at_once: CancellationToken,
    /// Told when nothing of it runs any more.
    pub(super) freed: Arc<Notify>,
}

/// What bounds an instance; as in [`super::Spec`] and [`super::Persistent`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) max_line_bytes: usize,
    pub(super) max_invocations: u32,
    pub(super) startup_timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) grace: Duration,
}

/// Told once: that the handshake is complete, or why it is not.
pub(super) type Live = oneshot::Receiver<Result<(), String>>;

/// An order to go; the first reason stays.
#[derive(Debug, Clone, Default)]
pub(super) struct Retire {
    told: CancellationToken,
    why: Arc<OnceLock<Reason>>,
}

impl Retire {
    fn order(&self, reason: Reason) {
        self.why.get_or_init(|| reason);
        self.told.cancel();
    }

    /// Waits for the order, and returns its reason.
    pub(super) async fn ordered(&self) -> Reason {
        self.told.cancelled().await;
        self.why.get().copied().unwrap_or(Reason::Shutdown)
    }
}

impl Instance {
    /// Makes an instance of a child that was just spawned, and the future that drives it to its end.
    pub(super) fn new(parts: Parts) -> (Self, Live, impl Future<Output = ()> + Send + 'static) {
        // One request at a time; a second waits for its place here.
        let (asks, waiting) = mpsc::channel(1);
        let (told, live) = oneshot::channel();
        let (gone_sender, gone) = watch::channel(false);
        let (retire, closed) = (Retire::default(), Arc::new(OnceLock::new()));
        let ends = Ends {
            asks: waiting,
            live: told,
            retire: retire.clone(),
            closed: Arc::clone(&closed),
            gone: gone_sender,
        };
        let drive = Box::pin(drive(parts, ends));
        (Self { asks, retire, closed, gone }, live, drive)
    }

    /// Whether it may take another request.
    pub(super) fn is_live(&self) -> bool {
        !self.asks.is_closed() && !self.retire.told.is_cancelled()
    }

    /// Sends a request, and waits for what becomes of it; the caller bounds the wait.
    pub(super) async fn ask(&self, id: String, line: Vec<u8>) -> Answered {
        let (reply, answered) = oneshot::channel();
        if self.asks.send(Ask { id, line, reply }).await.is_err() {
            let why = self.closed.get().cloned();
            return Answered::NotAccepted(why.unwrap_or_else(|| "it was just retired".to_owned()));
        }
        let broken = || Answered::Lost("the agent's driver broke off".to_owned());
        answered.await.unwrap_or_else(|_dropped| broken())
    }

    /// Asks it to go, for this reason; the first reason stays.
    pub(super) fn retire(&self, reason: Reason) {
        self.retire.order(reason);
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

/// The driver's ends of what the handle holds.
struct Ends {
    asks: mpsc::Receiver<Ask>,
    live: oneshot::Sender<Result<(), String>>,
    retire: Retire,
    closed: Arc<OnceLock<String>>,
    gone: watch::Sender<bool>,
}

/// From spawn to the end of the group.
async fn drive(mut parts: Parts, ends: Ends) {
    let Ends { mut asks, live, retire, closed, gone } = ends;
    let started = Instant::now();
    let pid = parts.group.pid();
    info!(agent = parts.agent, key = parts.label, pid, "agent instance started");
    let child = parts.group.child();
    // Both were asked for as pipes.
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else { return };
    let mut talk = Talk::new(&mut parts, (stdin, stdout), live);
    let end = talk.run(&mut asks, &retire).await;
    let Over { reason, why, answered, dropped, mut stdout } = talk.over(end).await;
    closed.get_or_init(|| why.clone());
    // Who had sent something by now is told that nothing of it was accepted.
    asks.close();
    while let Some(ask) = asks.recv().await {
        drop(ask.reply.send(Answered::NotAccepted(why.clone())));
    }
    // Its input is closed by now, and SIGTERM comes with that: either is a signal to go. What it still
    // says reaches nobody, and must not block it.
    let status = tokio::select! {
        status = parts.group.end(parts.limits.grace, &parts.at_once) => status,
        () = read_to_nobody(&mut stdout) => None,
    };
    parts.tmp.remove().await;
    gone.send_replace(true);
    parts.freed.notify_waiters();
    info!(
        agent = parts.agent,
        key = parts.label,
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
    parts.stderr.settle(Instant::now() + DRAIN).await;
}

/// Reads what comes and drops it. Never returns.
pub(super) async fn read_to_nobody(from: &mut (impl AsyncRead + Unpin)) {
    let mut buffer = vec![0_u8; 8192];
    while let Ok(1..) = from.read(&mut buffer).await {}
    std::future::pending::<()>().await;
}
