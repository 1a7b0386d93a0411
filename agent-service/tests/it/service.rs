//! The service without HTTP: started, stopped, and copied as it stands at the moment of a crash.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_core::trigger::Spec;
use agent_service::intake::Intake;
use agent_service::refusal::Refusal;
use agent_service::runner::{Job, Outcome, Run, Runner};
use agent_service::store::{Limits, Opening, Store};
use agent_service::worker::Worker;
use agent_wire::a2a::request::Submission;
use agent_wire::a2a::task::{Task, TaskState};
use agent_wire::event::Event;
use agent_wire::value::{Confidence, EventId, EventType, SourceName, TaskId};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use service_kit::{ManualClock, Tasks};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use agent_service::http::Backend;

/// When every test begins.
pub(crate) const START: Timestamp = Timestamp::constant(1_789_552_800, 0);

/// How a service under test is set up.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// What the state belongs to.
    pub(crate) configuration: Value,
    /// Instead of the one trigger of [`Settings::trigger`].
    pub(crate) triggers: Option<Vec<Spec>>,
    pub(crate) max_tasks: u32,
    pub(crate) consecutive: u32,
    pub(crate) cooldown: SignedDuration,
    pub(crate) task_timeout: Duration,
    pub(crate) grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            configuration: json!({"name": "brain"}),
            triggers: None,
            max_tasks: 200,
            consecutive: 1,
            cooldown: SignedDuration::ZERO,
            task_timeout: Duration::from_mins(10),
            grace: Duration::ZERO,
        }
    }
}

impl Settings {
    /// The one trigger that there is, unless others are given.
    fn trigger(&self) -> Spec {
        Spec {
            kind: EventType::new("person.detected").unwrap(),
            source: SourceName::new("cam").unwrap(),
            prompt: "Look.".to_owned(),
            min_confidence: Confidence::new(0.5).unwrap(),
            consecutive: self.consecutive,
            max_gap: SignedDuration::from_secs(2),
            cooldown: self.cooldown,
            max_age: SignedDuration::from_secs(10),
        }
    }
}

/// A task that the runner was given: it runs until the test answers.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) job: Job,
    pub(crate) stop: CancellationToken,
    answer: oneshot::Sender<Outcome>,
}

impl Running {
    pub(crate) fn id(&self) -> &TaskId {
        &self.job.task
    }

    /// The runner returns with this.
    pub(crate) fn answer(self, outcome: Outcome) {
        self.answer.send(outcome).unwrap();
    }

    /// The runner panics.
    pub(crate) fn break_off(self) {
        drop(self.answer);
    }
}

/// Gives each job to the test. It returns when the test says so, also after it was told to stop.
struct Scripted(mpsc::Sender<Running>);

impl Runner for Scripted {
    fn run(&self, job: Job, stop: CancellationToken) -> Run<'_> {
        let (answer, answered) = oneshot::channel();
        Box::pin(async move {
            // A test that has ended needs no jobs.
            drop(self.0.send(Running { job, stop, answer }).await);
            answered.await.expect("the test broke the runner off")
        })
    }

    fn close(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// A running service.
pub(crate) struct Service {
    pub(crate) intake: Intake,
    pub(crate) store: Store,
    pub(crate) clock: ManualClock,
    pub(crate) tasks: Tasks,
    jobs: mpsc::Receiver<Running>,
    settings: Settings,
    directory: TempDir,
    worker: JoinHandle<()>,
    pub(crate) writer: JoinHandle<()>,
}

impl Service {
    /// Starts on a new state directory.
    pub(crate) async fn start(settings: Settings) -> Self {
        Self::open(TempDir::new().unwrap(), settings, ManualClock::new(START)).await
    }

    /// Starts on a state directory that a service left.
    pub(crate) async fn open(directory: TempDir, settings: Settings, clock: ManualClock) -> Self {
        let triggers = settings.triggers.clone().unwrap_or_else(|| vec![settings.trigger()]);
        let opening = Opening {
            directory: &directory.path().join("state"),
            configuration: &settings.configuration,
            limits: Limits { max_tasks: settings.max_tasks, triggers },
            now: clock.clock().now(),
        };
        let (store, writer) = Store::open(opening).await.unwrap();
        let tasks = Tasks::new();
        let writer = tasks.spawn(writer.run());
        let closed = CancellationToken::new();
        let stopping = tasks.soft_stop().clone();
        let intake = Intake::new(store.clone(), clock.clock(), stopping, closed.clone());
        let (sender, jobs) = mpsc::channel(1);
        let worker = Worker {
            store: store.clone(),
            runner: Arc::new(Scripted(sender)),
            clock: clock.clock(),
            tasks: tasks.clone(),
            task_timeout: settings.task_timeout,
            grace: settings.grace,
            closed,
        };
        let worker = tasks.spawn(worker.run());
        Self { intake, store, clock, tasks, jobs, settings, directory, worker, writer }
    }

    /// Stops in order; a task that runs returns when it is told to stop.
    pub(crate) async fn stop(self, running: Option<Running>) -> (TempDir, Settings, ManualClock) {
        self.tasks.request_soft_stop();
        if let Some(running) = running {
            soon(running.stop.cancelled()).await;
            running.answer(Ok("late".to_owned()));
        }
        soon(self.worker).await.unwrap();
        drop(self.intake);
        self.store.close().await;
        soon(self.writer).await.unwrap();
        (self.directory, self.settings, self.clock)
    }

    /// Stops in order and starts again on the same state.
    pub(crate) async fn restart(self, running: Option<Running>) -> Self {
        let (directory, settings, clock) = self.stop(running).await;
        Self::open(directory, settings, clock).await
    }

    /// Starts another service on a copy of the files as they are now: what a kill would leave.
    ///
    /// This one goes on, so that a test can compare.
    pub(crate) async fn crashed_copy(&self) -> Self {
        let copy = TempDir::new().unwrap();
        let to = copy.path().join("state");
        fs::create_dir(&to).unwrap();
        let from = self.store.directory();
        for name in ["state.db", "state.db-wal"] {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
        let clock = ManualClock::new(self.clock.clock().now());
        Self::open(copy, self.settings.clone(), clock).await
    }

    /// As it would be after a kill and a restart.
    pub(crate) async fn crash(self, running: Option<Running>) -> Self {
        let copy = self.crashed_copy().await;
        drop(self.stop(running).await);
        copy
    }

    /// Where its database is.
    pub(crate) fn database(&self) -> std::path::PathBuf {
        self.store.directory().join("state.db")
    }

    /// The next task that the runner is given.
    pub(crate) async fn next_job(&mut self) -> Running {
        soon(self.jobs.recv()).await.unwrap()
    }

    /// Whether the runner was given another task by now.
    pub(crate) fn has_job(&self) -> bool {
        !self.jobs.is_empty()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.clock().now()
    }

    pub(crate) async fn submit(&self, id: &str) -> Result<Task, Refusal> {
        self.intake.submit(message(id, id)).await
    }

    pub(crate) async fn state(&self, id: &TaskId) -> Option<TaskState> {
        self.intake.get(id).await.unwrap().map(|task| task.status.state)
    }

    pub(crate) async fn ended(&self, id: &TaskId) -> Task {
        soon(self.intake.ended(id)).await.unwrap()
    }

    /// An observation of this moment that the trigger is for.
    pub(crate) fn observation(&self, id: &str) -> Event {
        observation(id, "cam", self.now(), Some(0.9))
    }
}

/// Waits for what has to happen at once; a test that waits longer has failed.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it did not happen")
}

/// A message with this text.
pub(crate) fn message(id: &str, text: &str) -> Submission {
    submission(&json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]}))
}

/// The submission of a message.
pub(crate) fn submission(message: &Value) -> Submission {
    Submission::parse(json!({ "message": message }).to_string().as_bytes()).unwrap()
}

/// An observation of a person.
pub(crate) fn observation(id: &str, source: &str, at: Timestamp, confidence: Option<f64>) -> Event {
    Event::new(
        EventId::new(id).unwrap(),
        EventType::new("person.detected").unwrap(),
        SourceName::new(source).unwrap(),
        at,
        confidence.map(|confidence| Confidence::new(confidence).unwrap()),
        None,
    )
    .unwrap()
}

/// Runs SQL on a database beside the service.
pub(crate) async fn meddle(database: &Path, sql: &'static str) {
    use sqlx::{Connection, Executor};
    let path = database.to_str().unwrap();
    let mut connection = sqlx::SqliteConnection::connect(path).await.unwrap();
    connection.execute(sql).await.unwrap();
    connection.close().await.unwrap();
}
