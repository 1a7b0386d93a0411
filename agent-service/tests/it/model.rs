//! The whole core against a model of it: random calls, restarts and crashes.
//!
//! The model is written from the contract, with plain lists and no regard to cost. After each call
//! both are compared: the answer, the task that the runner is given, and the state of every task that
//! there ever was.

use std::collections::BTreeMap;
use std::time::Duration;

use agent_service::refusal::Refusal;
use agent_service::runner::Failure;
use agent_wire::a2a::list::ListTasks;
use agent_wire::a2a::task::TaskState;
use agent_wire::value::TaskId;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::service::{Backend, Running, Service, Settings, message, observation, soon};

const MAX_TASKS: usize = 4;
const CONSECUTIVE: u32 = 2;
const COOLDOWN: SignedDuration = SignedDuration::from_secs(5);

/// Times are whole numbers of this, in milliseconds, so that the boundaries of the rules are met often.
const HALF: i64 = 500;

/// One call, or what happens to the service.
#[derive(Debug, Clone)]
enum Step {
    /// A message with one of a few IDs and one of two contents.
    Submit { id: u8, content: u8 },
    /// An observation with one of a few IDs, seen this many milliseconds from now.
    Observe { id: u8, seen: i64, confidence: Option<u8>, known: bool },
    /// A task of those that there ever were.
    Cancel { index: usize },
    /// The runner returns.
    Return { good: bool },
    /// Time passes.
    Pass { milliseconds: u64 },
    /// The process ends, in order or not, and another one starts.
    Restart { orderly: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_u8, 0..10_u8)
            .prop_map(|(id, content)| Step::Submit { id, content: content / 9 }),
        8 => (0..12_u8, -22..12_i64, prop::option::weighted(0.9, 0..=10_u8), 0..8_u8).prop_map(
            |(id, seen, confidence, known)| Step::Observe {
                id,
                // Most are of this moment.
                seen: if id < 8 { 0 } else { seen * HALF },
                confidence,
                known: known > 0,
            }
        ),
        3 => (0..12_usize).prop_map(|index| Step::Cancel { index }),
        5 => any::<bool>().prop_map(|good| Step::Return { good }),
        4 => (0..5_u64).prop_map(|halves| Step::Pass { milliseconds: halves * 500 }),
        1 => (18..24_u64).prop_map(|halves| Step::Pass { milliseconds: halves * 500 }),
        1 => any::<bool>().prop_map(|orderly| Step::Restart { orderly }),
    ]
}

#[derive(Debug, Clone, PartialEq)]
enum Filed {
    Task(TaskId),
    Reason(&'static str),
}

#[derive(Debug)]
struct Known {
    id: TaskId,
    state: TaskState,
    expires: Option<Timestamp>,
    retained: bool,
}

/// What the contract says.
#[derive(Debug, Default)]
struct Model {
    tasks: Vec<Known>,
    /// By kind and ID: the content, and the answer.
    receipts: BTreeMap<(bool, String), (String, Filed)>,
    /// The task that the worker has not returned from.
    held: Option<TaskId>,
    sequence: u32,
    last: Option<Timestamp>,
    fired: Option<Timestamp>,
    /// Tokens of the limiter that are spent, in milliseconds of its refill.
    spent: i64,
}

/// What a call is to be answered.
#[derive(Debug, PartialEq)]
enum Expected {
    NewTask,
    Task(TaskId),
    Reason(&'static str),
    Conflict,
    Exhausted,
    NotFound,
    NotCancelable,
}

impl Model {
    fn receipt(&self, key: &(bool, String), content: &str) -> Option<Expected> {
        let (filed, answer) = self.receipts.get(key)?;
        Some(match answer {
            _ if filed != content => Expected::Conflict,
            Filed::Task(id) if !self.task(id).retained => Expected::Conflict,
            Filed::Task(id) => Expected::Task(id.clone()),
            Filed::Reason(reason) => Expected::Reason(reason),
        })
    }

    fn task(&self, id: &TaskId) -> &Known {
        self.tasks.iter().find(|task| task.id == *id).unwrap()
    }

    fn end(&mut self, id: &TaskId, state: TaskState) {
        let task = self.tasks.iter_mut().find(|task| task.id == *id).unwrap();
        if !task.state.is_terminal() {
            task.state = state;
        }
    }

    fn retained(&self) -> usize {
        self.tasks.iter().filter(|task| task.retained).count()
    }

    /// Makes room for one task, if that is possible.
    fn make_room(&mut self) -> bool {
        if self.retained() < MAX_TASKS {
            return true;
        }
        let held = self.held.clone();
        let oldest = self.tasks.iter_mut().find(|task| {
            task.retained && task.state.is_terminal() && Some(&task.id) != held.as_ref()
        });
        oldest.map(|task| task.retained = false).is_some()
    }

    fn submit(&mut self, id: u8, content: u8) -> Expected {
        let key = (true, id.to_string());
        if let Some(known) = self.receipt(&key, &content.to_string()) {
            return known;
        }
        if self.make_room() { Expected::NewTask } else { Expected::Exhausted }
    }

    fn observe(
        &mut self,
        key: &(bool, String),
        content: &str,
        seen: Timestamp,
        confidence: Option<u8>,
        known: bool,
        now: Timestamp,
    ) -> Expected {
        if let Some(known) = self.receipt(key, content) {
            return known;
        }
        if self.spent + 100 > 1_000 {
            return Expected::Exhausted;
        }
        self.spent += 100;
        if !known {
            return Expected::Reason("no matching trigger");
        }
        let (sequence, last) = (self.sequence, self.last);
        if seen > now + SignedDuration::from_secs(5) || seen < now - SignedDuration::from_secs(10) {
            return Expected::Reason("stale or future event");
        }
        if last.is_some_and(|last| seen <= last) {
            return Expected::Reason("out-of-order event");
        }
        if last.is_some_and(|last| seen > last + SignedDuration::from_secs(2)) {
            self.sequence = 0;
        }
        self.last = Some(seen);
        if confidence.is_none_or(|tenths| tenths < 5) {
            self.sequence = 0;
            return Expected::Reason("confidence below threshold");
        }
        self.sequence += 1;
        if self.fired.is_some_and(|fired| now < fired + COOLDOWN) {
            return Expected::Reason("cooldown");
        }
        if self.sequence < CONSECUTIVE {
            return Expected::Reason("waiting for consecutive observations");
        }
        if !self.make_room() {
            (self.sequence, self.last) = (sequence, last);
            return Expected::Exhausted;
        }
        (self.sequence, self.fired) = (0, Some(now));
        Expected::NewTask
    }

    fn queued(&mut self, id: TaskId, expires: Option<Timestamp>) {
        self.tasks.push(Known { id, state: TaskState::Submitted, expires, retained: true });
    }

    /// The tasks that have to expire now.
    fn expire(&mut self, now: Timestamp) -> Vec<TaskId> {
        let due = |task: &&mut Known| {
            task.state == TaskState::Submitted && task.expires.is_some_and(|at| at <= now)
        };
        self.tasks
            .iter_mut()
            .filter(due)
            .map(|task| {
                task.state = TaskState::Rejected;
                task.id.clone()
            })
            .collect()
    }

    /// The task that the worker has to take now.
    fn claim(&mut self) -> Option<TaskId> {
        if self.held.is_some() {
            return None;
        }
        let next = self.tasks.iter_mut().find(|task| task.state == TaskState::Submitted)?;
        next.state = TaskState::Working;
        self.held = Some(next.id.clone());
        self.held.clone()
    }

    fn restart(&mut self) {
        if let Some(held) = self.held.take() {
            self.end(&held, TaskState::Failed);
        }
        self.spent = 0;
    }
}

/// The service, its model, and the task that the runner has.
struct Pair {
    service: Service,
    model: Model,
    running: Option<Running>,
}

impl Pair {
    async fn take(mut self, step: &Step) -> Result<Self, TestCaseError> {
        match step {
            Step::Submit { id, content } => self.submit(*id, *content).await?,
            Step::Observe { id, seen, confidence, known } => {
                self.observe(*id, *seen, *confidence, *known).await?;
            }
            Step::Cancel { index } => self.cancel(*index).await?,
            Step::Return { good } => {
                if let Some(running) = self.running.take() {
                    let id = running.id().clone();
                    let state = if *good { TaskState::Completed } else { TaskState::Failed };
                    self.model.end(&id, state);
                    self.model.held = None;
                    running.answer(if *good {
                        Ok("good".to_owned())
                    } else {
                        Err(Failure::new("bad"))
                    });
                    soon(self.service.intake.ended(&id)).await.unwrap();
                }
            }
            Step::Pass { milliseconds } => {
                self.service.clock.advance(Duration::from_millis(*milliseconds));
                let refilled = i64::try_from(*milliseconds).unwrap();
                self.model.spent = (self.model.spent - refilled).max(0);
                for id in self.model.expire(self.service.now()) {
                    soon(self.service.intake.ended(&id)).await.unwrap();
                }
            }
            Step::Restart { orderly } => {
                let running = self.running.take();
                self.service = if *orderly {
                    self.service.restart(running).await
                } else {
                    self.service.crash(running).await
                };
                self.model.restart();
            }
        }
        if let Some(next) = self.model.claim() {
            let running = self.service.next_job().await;
            prop_assert_eq!(running.id(), &next);
            self.running = Some(running);
        }
        self.compare().await?;
        Ok(self)
    }

    async fn submit(&mut self, id: u8, content: u8) -> TestCaseResult {
        let expected = self.model.submit(id, content);
        let (id, content) = (id.to_string(), content.to_string());
        let answer = self.service.intake.submit(message(&id, &content)).await;
        match (expected, answer) {
            (Expected::NewTask, Ok(task)) => {
                prop_assert_eq!(task.status.state, TaskState::Submitted);
                self.model.queued(task.id.clone(), None);
                self.model.receipts.insert((true, id), (content, Filed::Task(task.id)));
            }
            (Expected::Task(known), Ok(task)) => prop_assert_eq!(known, task.id),
            (expected, answer) => refused(&expected, &answer)?,
        }
        Ok(())
    }

    async fn observe(
        &mut self,
        id: u8,
        seen: i64,
        confidence: Option<u8>,
        known: bool,
    ) -> TestCaseResult {
        let now = self.service.now();
        let seen = now + SignedDuration::from_millis(seen);
        let source = if known { "cam" } else { "door" };
        let event = observation(
            &id.to_string(),
            source,
            seen,
            confidence.map(|tenths| f64::from(tenths) / 10.0),
        );
        let (key, content) = ((false, format!("{source}/{id}")), event.to_json());
        let expected = self.model.observe(&key, &content, seen, confidence, known, now);
        let answer = self.service.intake.event(event).await;
        let filed = match (expected, answer) {
            (Expected::NewTask, Ok(answer)) => {
                prop_assert!(answer.accepted, "{answer:?}");
                let task = TaskId::new(answer.task_id.unwrap()).unwrap();
                self.model.queued(task.clone(), Some(seen + SignedDuration::from_secs(10)));
                // Seen long ago, it may be due already.
                drop(self.model.expire(now));
                Filed::Task(task)
            }
            (Expected::Task(known), Ok(answer)) => {
                prop_assert_eq!(Some(known.as_str()), answer.task_id.as_deref());
                return Ok(());
            }
            (Expected::Reason(reason), Ok(answer)) => {
                prop_assert_eq!((answer.accepted, answer.reason.as_deref()), (false, Some(reason)));
                Filed::Reason(reason)
            }
            (expected, answer) => return refused(&expected, &answer),
        };
        self.model.receipts.insert(key, (content, filed));
        Ok(())
    }

    async fn cancel(&mut self, index: usize) -> TestCaseResult {
        let Some(task) = self.model.tasks.get(index) else { return Ok(()) };
        let id = task.id.clone();
        let expected = match (task.retained, task.state) {
            (false, _) => Expected::NotFound,
            (true, state) if state != TaskState::Canceled && state.is_terminal() => {
                Expected::NotCancelable
            }
            (true, _) => Expected::Task(id.clone()),
        };
        let answer = self.service.intake.cancel(&id).await;
        match (expected, answer) {
            (Expected::Task(_), Ok(task)) => {
                prop_assert_eq!(task.status.state, TaskState::Canceled);
                self.model.end(&id, TaskState::Canceled);
            }
            (expected, answer) => refused(&expected, &answer)?,
        }
        let canceled = self.model.task(&id).state == TaskState::Canceled;
        if let Some(running) = self.running.as_ref().filter(|running| *running.id() == id)
            && canceled
        {
            soon(running.stop.cancelled()).await;
        }
        Ok(())
    }

    /// Every task is where the model says, and the listing holds those that are retained.
    async fn compare(&self) -> TestCaseResult {
        for task in &self.model.tasks {
            let state = task.retained.then_some(task.state);
            prop_assert_eq!(self.service.state(&task.id).await, state, "{}", task.id);
        }
        let page = self.service.intake.list(&ListTasks::default()).await.unwrap();
        prop_assert_eq!(page.total, u64::try_from(self.model.retained()).unwrap());
        prop_assert_eq!(page.tasks.len(), self.model.retained());
        Ok(())
    }
}

fn refused<T: std::fmt::Debug>(expected: &Expected, answer: &Result<T, Refusal>) -> TestCaseResult {
    let fits = matches!(
        (expected, answer),
        (Expected::Conflict, Err(Refusal::AlreadyExists(_)))
            | (Expected::Exhausted, Err(Refusal::Exhausted { .. }))
            | (Expected::NotFound, Err(Refusal::TaskNotFound))
            | (Expected::NotCancelable, Err(Refusal::NotCancelable))
    );
    prop_assert!(fits, "expected {expected:?}, got {answer:?}");
    Ok(())
}

async fn walk(steps: &[Step]) -> TestCaseResult {
    let settings = Settings {
        max_tasks: u32::try_from(MAX_TASKS).unwrap(),
        consecutive: CONSECUTIVE,
        cooldown: COOLDOWN,
        ..Settings::default()
    };
    let service = Service::start(settings).await;
    let mut pair = Pair { service, model: Model::default(), running: None };
    for step in steps {
        pair = pair.take(step).await?;
    }
    let Pair { service, running, .. } = pair;
    drop(service.stop(running).await);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_core_does_what_the_contract_says(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(walk(&steps))?;
    }
}
