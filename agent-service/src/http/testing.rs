//! A scripted core, and how the tests of this layer call it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_wire::a2a::card::Skill;
use agent_wire::a2a::list::Cursor;
use agent_wire::a2a::list::ListTasks;
use agent_wire::a2a::request::Submission;
use agent_wire::a2a::task::{Artifact, Message, Part, Task, TaskState, TaskStatus};
use agent_wire::event::{Event, EventAnswer, Reason};
use agent_wire::value::TaskId;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tokio::sync::watch;

use super::*;
use crate::refusal::{Listed, Refusal, TaskPage};

pub(super) const TOKEN: &str = "0123456789abcdef";

/// Remembers what it was told, answers as it was told.
pub(super) struct Script {
    tasks: watch::Sender<Vec<Task>>,
    /// What every call is refused with.
    pub(super) refusal: Mutex<Option<Refusal>>,
    pub(super) stopping: AtomicBool,
    pub(super) failed: AtomicBool,
    /// Every listing panics.
    pub(super) panics: AtomicBool,
    pub(super) submitted: Mutex<Vec<Submission>>,
    pub(super) events: Mutex<Vec<Event>>,
}

impl Script {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            tasks: watch::Sender::new(Vec::new()),
            refusal: Mutex::default(),
            stopping: AtomicBool::default(),
            failed: AtomicBool::default(),
            panics: AtomicBool::default(),
            submitted: Mutex::default(),
            events: Mutex::default(),
        })
    }

    pub(super) fn refuse(&self, refusal: Refusal) {
        *self.refusal.lock().unwrap() = Some(refusal);
    }

    pub(super) fn add(&self, task: Task) {
        self.tasks.send_modify(|tasks| tasks.push(task));
    }

    /// Ends a task with a text.
    pub(super) fn complete(&self, id: &str, text: &str) {
        self.tasks.send_modify(|tasks| {
            let task = tasks.iter_mut().find(|task| task.id.as_str() == id).unwrap();
            *task = ended(id, text);
        });
    }

    /// Waits until a task is there.
    pub(super) async fn submitted(&self, id: &str) {
        let there = |tasks: &Vec<Task>| tasks.iter().any(|task| task.id.as_str() == id);
        drop(self.tasks.subscribe().wait_for(there).await.unwrap());
    }

    fn check(&self) -> Result<(), Refusal> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(Refusal::Internal);
        }
        self.refusal().map_or(Ok(()), Err)
    }

    fn refusal(&self) -> Option<Refusal> {
        self.refusal.lock().unwrap().clone()
    }
}

impl Backend for Script {
    async fn submit(&self, message: Submission) -> Result<Task, Refusal> {
        self.check()?;
        let count = self.submitted.lock().unwrap().len();
        let mut task = ended(&format!("task-{count}"), "");
        task.status.state = TaskState::Submitted;
        task.artifacts.clear();
        task.history[0].message_id = message.message_id.to_string();
        self.submitted.lock().unwrap().push(message);
        self.add(task.clone());
        Ok(task)
    }

    async fn event(&self, event: Event) -> Result<EventAnswer, Refusal> {
        self.check()?;
        self.events.lock().unwrap().push(event);
        Ok(EventAnswer::refused(Reason::Cooldown))
    }

    async fn get(&self, id: &TaskId) -> Result<Option<Task>, Refusal> {
        self.check()?;
        Ok(self.tasks.borrow().iter().find(|task| task.id == *id).cloned())
    }

    async fn list(&self, query: &ListTasks) -> Result<TaskPage, Refusal> {
        self.check()?;
        assert!(!self.panics.load(Ordering::Relaxed), "as the test wished");
        let all = self.tasks.borrow().clone();
        let total = u64::try_from(all.len()).unwrap();
        // Change n is that of the n-th task; the newest comes first.
        let mut rest: Vec<Listed> = (1..)
            .zip(all)
            .map(|(change, task)| Listed { task, cursor: Cursor { change } })
            .filter(|listed| query.after.is_none_or(|after| listed.cursor < after))
            .collect();
        rest.reverse();
        let size = usize::try_from(query.page_size).unwrap();
        let more = rest.len() > size;
        rest.truncate(size);
        Ok(TaskPage { tasks: rest, more, total })
    }

    async fn cancel(&self, id: &TaskId) -> Result<Task, Refusal> {
        let mut task = self.get(id).await?.ok_or(Refusal::TaskNotFound)?;
        if task.status.state == TaskState::Completed {
            return Err(Refusal::NotCancelable);
        }
        task.status.state = TaskState::Canceled;
        Ok(task)
    }

    async fn ended(&self, id: &TaskId) -> Result<Task, Refusal> {
        let ended = |task: &&Task| task.id == *id && task.status.state.is_terminal();
        let mut tasks = self.tasks.subscribe();
        let tasks = tasks.wait_for(|tasks| {
            self.stopping.load(Ordering::Relaxed) || tasks.iter().any(|task| ended(&task))
        });
        let tasks = tasks.await.unwrap();
        tasks.iter().find(ended).cloned().ok_or(Refusal::STOPPING)
    }

    fn ready(&self) -> Result<(), &'static str> {
        if self.stopping.load(Ordering::Relaxed) { Err("stopping") } else { Ok(()) }
    }

    fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// A completed task with one message and one artifact.
pub(super) fn ended(id: &str, text: &str) -> Task {
    Task {
        id: TaskId::new(id).unwrap(),
        context_id: "ctx".to_owned(),
        status: TaskStatus {
            state: TaskState::Completed,
            message: None,
            timestamp: Some("2026-05-01T12:00:00Z".parse().unwrap()),
        },
        artifacts: vec![Artifact {
            artifact_id: "a".to_owned(),
            name: Some("result".to_owned()),
            description: None,
            parts: vec![Part::from_text(text)],
            metadata: None,
        }],
        history: vec![Message {
            message_id: "m".to_owned(),
            context_id: None,
            task_id: None,
            role: agent_wire::a2a::task::Role::User,
            parts: vec![Part::from_text("hi")],
            metadata: None,
        }],
        metadata: None,
    }
}

pub(super) fn app(script: &Arc<Script>) -> Arc<App<Script>> {
    let skill = Skill {
        id: "general".to_owned(),
        name: "general".to_owned(),
        description: "Answers.".to_owned(),
        tags: vec!["general".to_owned()],
    };
    let card = AgentCard::new("brain", "An agent.", "0.1.0", "http://127.0.0.1:8787", skill);
    Arc::new(App::new(Arc::clone(script), Token::new(TOKEN), &card))
}

/// An answer, read.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: ::http::HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The reason of an error, after a check that it has the one shape that errors have.
    pub(super) fn reason(&self) -> String {
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        let body = self.json();
        let error = &body["error"];
        assert_eq!(error["code"], self.status);
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
        let info = &error["details"][0];
        assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
        assert_eq!(info["domain"], "a2a-protocol.org");
        info["reason"].as_str().unwrap().to_owned()
    }

    pub(super) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// Calls with token and version; `extra` are further headers, and one of them replaces these.
pub(super) async fn call_with(
    app: &App<Script>,
    line: &str,
    extra: &[(&str, &str)],
    body: &str,
) -> Answer {
    let (method, path) = line.split_once(' ').unwrap();
    let bearer = format!("Bearer {TOKEN}");
    let mut headers: BTreeMap<&str, &str> =
        BTreeMap::from([("authorization", bearer.as_str()), ("a2a-version", "1.0")]);
    headers.extend(extra.iter().copied());
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers.into_iter().filter(|(_, value)| *value != "-") {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let (parts, body) = app.answer(request).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let answer = Answer { status: parts.status.as_u16(), headers: parts.headers, body };
    assert_eq!(answer.header("a2a-version"), "1.0", "{line}");
    answer
}

pub(super) async fn call(app: &App<Script>, line: &str, body: &str) -> Answer {
    call_with(app, line, &[], body).await
}
