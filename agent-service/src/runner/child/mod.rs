//! Tasks run by the user's own program: persistent (a process that answers many) or one-shot.
//!
//! The protocol's rules are in `agent_core::child`; here are the pipes, groups, signals and clocks.
//!
//! - `pool`: which instance answers for a task, and when one is retired.
//! - `instance`: one persistent process, from spawn to the end of its group.
//! - `talk`: what is said with it.
//! - `oneshot`: a process a task.
//! - `unix`: spawning; the only unsafe code of the service.
//! - `group`: signals, and when nothing of a child runs any more.
//! - `env`: what a child's environment holds, and what it never holds.
//! - `tmp`: its temporary folder.
//! - `stderr`, `heartbeat`: what is left to look at afterwards.

mod env;
mod failures;
mod group;
mod heartbeat;
mod instance;
mod oneshot;
mod pool;
mod stderr;
mod talk;
mod tmp;
mod unix;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_core::child::Key;
use agent_wire::child::{SCHEDULE, Trigger, TriggerSource};
use serde_json::{Map, Value, json};
use service_kit::clock::Clock;
use service_kit::lifecycle::Tasks;
use service_kit::vars::Vars;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::heartbeat::Heartbeat;
use self::pool::Pool;
use self::unix::Spawner;
use super::{Failure, Job, Origin, Outcome, Run, Runner};

/// What a task says that had no answer although its request had reached the agent.
const LOST: &str = "effects may have completed; inspect before retrying";

/// How the agent is run; the checked `runner` section of the configuration.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The agent's name: `AGENT_NAME`.
    pub agent: String,
    /// The program and its arguments; not empty.
    pub command: Vec<String>,
    /// Where it runs, absolute.
    pub working_dir: PathBuf,
    /// The folder of the manifest, else of the configuration: `AGENT_HOME`.
    pub home: PathBuf,
    /// The state directory: instances have their temporary folders in it.
    pub state_dir: PathBuf,
    /// Whether it inherits the service's environment, less what is withheld.
    pub inherit_env: bool,
    /// Further variables.
    pub extra_env: BTreeMap<String, String>,
    /// Variables that no child ever sees: the service's own secrets.
    pub withheld: BTreeSet<String>,
    /// One process a task, or one for many.
    pub mode: Mode,
    /// Between asking a group to go and killing it, 0 to 27 s.
    pub grace: Duration,
    /// The longest line, and the longest answer of a one-shot agent.
    pub max_line_bytes: usize,
}

/// How long one process lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// One task.
    Oneshot,
    /// Many tasks, one at a time.
    Persistent(Persistent),
}

/// The lifecycle of persistent instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Persistent {
    /// The payload's field that selects the instance.
    pub key: Option<String>,
    /// An instance that answered nothing for this long is retired.
    pub idle_timeout: Duration,
    /// An instance that answered this many is retired; 0 is unlimited.
    pub max_invocations: u32,
    /// How many there may be at once, at least 1.
    pub max_instances: usize,
    /// How long the handshake may take.
    pub startup_timeout: Duration,
}

/// Runs tasks by a program of the user.
pub struct ChildRunner {
    spec: Arc<Spec>,
    spawner: Spawner,
    pool: Option<Pool>,
    vars: Vars,
    clock: Clock,
    tasks: Tasks,
    /// One-shot agents that have answered, and whose groups are going.
    retiring: TaskTracker,
}

impl std::fmt::Debug for ChildRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChildRunner").field("command", &self.spec.command).finish_non_exhaustive()
    }
}

impl ChildRunner {
    /// Prepares to run the agent; nothing is spawned before the first task.
    ///
    /// `vars` is the service's environment. The state directory must be owned by this service, since
    /// what an earlier one has left in it of its agents is removed. Must be called inside the runtime.
    ///
    /// # Errors
    /// When the thread that spawns cannot be started, or the service cannot protect its memory.
    pub fn new(spec: Spec, vars: Vars, clock: Clock, tasks: Tasks) -> std::io::Result<Self> {
        // A child of the same user could else read the service's secrets from /proc.
        unix::forbid_dumps()?;
        let spawner = Spawner::start()?;
        tmp::clear(&spec.state_dir);
        let spec = Arc::new(spec);
        let pool = match &spec.mode {
            Mode::Oneshot => None,
            Mode::Persistent(persistent) => Some(Pool::new(
                Arc::clone(&spec),
                persistent.clone(),
                spawner.clone(),
                vars.clone(),
                clock.clone(),
                tasks.clone(),
            )),
        };
        let retiring = TaskTracker::new();
        Ok(Self { spec, spawner, pool, vars, clock, tasks, retiring })
    }

    async fn execute(&self, job: Job, stop: CancellationToken) -> Outcome {
        let trigger = trigger(&job);
        let heartbeat =
            Heartbeat::new(&self.spec, trigger.source, self.clock.clone(), self.tasks.clone());
        heartbeat.started().await;
        let verdict = match &self.pool {
            None => Box::pin(oneshot::run(self, &trigger, job.deadline, stop)).await,
            Some(pool) => {
                let field = pool.key_field();
                let key = Key::of(&trigger.payload, field);
                pool.ask(trigger.source, key, trigger, job.deadline, stop).await
            }
        };
        heartbeat.finished(verdict.exit_code()).await;
        verdict.outcome()
    }
}

impl Runner for ChildRunner {
    fn run(&self, job: Job, stop: CancellationToken) -> Run<'_> {
        Box::pin(self.execute(job, stop))
    }

    fn close(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            if let Some(pool) = &self.pool {
                pool.close().await;
            }
            self.retiring.close();
            self.retiring.wait().await;
        })
    }
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// The agent answered.
    Answered {
        /// 0 is success.
        exit_code: i32,
        /// What it said.
        text: String,
    },
    /// It could not be started.
    NotStarted(String),
    /// The request reached it, and there is no answer.
    Lost(String),
    /// It did not answer in time.
    TimedOut,
    /// The worker told it to stop.
    Stopped,
}

impl Verdict {
    /// A task was told to stop. A worker that does so at the deadline means the deadline.
    fn stopped(deadline: Instant) -> Self {
        if Instant::now() >= deadline { Self::TimedOut } else { Self::Stopped }
    }

    /// As it stands in the heartbeat: 124 for a timeout, -1 for lost.
    fn exit_code(&self) -> i32 {
        match self {
            Self::Answered { exit_code, .. } => *exit_code,
            Self::TimedOut => 124,
            Self::NotStarted(_) | Self::Lost(_) | Self::Stopped => -1,
        }
    }

    fn outcome(self) -> Outcome {
        match self {
            Self::Answered { exit_code: 0, text } => Ok(text),
            Self::Answered { exit_code, text } if text.trim().is_empty() => Err(Failure::new(
                format!("the agent failed with exit code {exit_code} and said nothing"),
            )),
            Self::Answered { text, .. } => Err(Failure::new(text)),
            Self::NotStarted(why) => Err(Failure::new(format!("cannot start the agent: {why}"))),
            Self::Lost(why) => Err(Failure::new(format!("{why}: {LOST}"))),
            Self::TimedOut => {
                Err(Failure::new(format!("the agent did not answer in time: {LOST}")))
            }
            Self::Stopped => Err(Failure::new(format!("the agent was stopped: {LOST}"))),
        }
    }
}

/// Why the agent's program could not be started, with what was tried.
fn spawn_error(spec: &Spec, error: &std::io::Error) -> String {
    let program = spec.command.first().map_or("", String::as_str);
    if error.kind() == std::io::ErrorKind::ArgumentListTooLong {
        return format!(
            "{program}: the task does not fit into the environment of a one-shot agent, which holds at \
             most 128 KiB a variable on Linux; use `lifecycle.mode` persistent"
        );
    }
    format!("{program}: {error}, in {}", spec.working_dir.display())
}

/// What the agent gets to see of a task.
fn trigger(job: &Job) -> Trigger {
    let mut payload = Map::new();
    let mut put = |name: &str, value: Value| {
        payload.insert(name.to_owned(), value);
    };
    put("context_id", json!(job.context.as_str()));
    put("task_id", json!(job.task.as_str()));
    let source = match &job.origin {
        Origin::Message { id, metadata } => {
            put("text", json!(job.prompt));
            put("message_id", json!(id.as_str()));
            put("metadata", json!(metadata.clone().unwrap_or_default()));
            TriggerSource::A2a
        }
        Origin::Event { event, instructions } => {
            put("text", json!(instructions));
            // It was parsed before, so it is JSON; as data of its own it is never part of the text.
            put("event", serde_json::from_str(&event.to_json()).unwrap_or_default());
            put("type", json!(event.kind().as_str()));
            put("source", json!(event.source().as_str()));
            TriggerSource::Event
        }
    };
    if let Some(trace) = &job.trace {
        put("traceparent", json!(trace.as_str()));
    }
    Trigger {
        source,
        session_id: job.context.as_str().to_owned(),
        actor: None,
        reply_to: job.task.as_str().to_owned(),
        payload,
    }
}

/// The whole seconds until a deadline, at least 1: shell agents do arithmetic on it.
fn seconds_left(deadline: Instant) -> u64 {
    deadline.saturating_duration_since(Instant::now()).as_secs().max(1)
}

/// The slug of a task's source, as dotagent names it: `trigger-<source>`.
fn slug(source: TriggerSource) -> String {
    format!("{SCHEDULE}-{}", source.as_str())
}

#[cfg(test)]
mod tests;
