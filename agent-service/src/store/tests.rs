//! The store on a real file, opened the way the service opens it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use agent_core::trigger::Spec;
use agent_wire::a2a::task::TaskState;
use agent_wire::canonical::Digest;
use agent_wire::value::{Confidence, EventType, SourceName};
use jiff::SignedDuration;
use serde_json::json;
use sqlx::{Connection, Executor};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;

const NOW: Timestamp = Timestamp::constant(1_789_552_800, 0);

struct Opened {
    store: Store,
    writer: JoinHandle<()>,
}

impl Opened {
    /// Gives everything up in order, as at the end of the process.
    async fn close(self) {
        self.store.close().await;
        self.writer.await.unwrap();
    }
}

fn limits(max_tasks: u32) -> Limits {
    let spec = Spec {
        kind: EventType::new("person.detected").unwrap(),
        source: SourceName::new("cam").unwrap(),
        prompt: "Look.".to_owned(),
        min_confidence: Confidence::new(0.5).unwrap(),
        consecutive: 2,
        max_gap: SignedDuration::from_secs(2),
        cooldown: SignedDuration::ZERO,
        max_age: SignedDuration::from_secs(10),
    };
    Limits { max_tasks, triggers: vec![spec] }
}

async fn try_open(dir: &Path, configuration: &Value, max_tasks: u32) -> Result<Opened, Error> {
    let opening = Opening { directory: dir, configuration, limits: limits(max_tasks), now: NOW };
    let (store, writer) = Store::open(opening).await?;
    #[expect(clippy::disallowed_methods, reason = "no shutdown to wait for in a test")]
    let writer = tokio::spawn(writer.run());
    Ok(Opened { store, writer })
}

async fn open(dir: &TempDir, max_tasks: u32) -> Opened {
    try_open(&dir.path().join("state"), &json!({"name": "a"}), max_tasks).await.unwrap()
}

fn message(id: &str, text: &str) -> Submission {
    let body =
        json!({"message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]}});
    Submission::parse(body.to_string().as_bytes()).unwrap()
}

fn event(id: &str, seconds: i64, confidence: f64) -> Event {
    Event::new(
        agent_wire::value::EventId::new(id).unwrap(),
        EventType::new("person.detected").unwrap(),
        SourceName::new("cam").unwrap(),
        at(seconds),
        Some(Confidence::new(confidence).unwrap()),
        None,
    )
    .unwrap()
}

fn at(seconds: i64) -> Timestamp {
    NOW + SignedDuration::from_secs(seconds)
}

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

fn context() -> ContextId {
    ContextId::new("context").unwrap()
}

async fn submit(store: &Store, text: &str) -> Result<Submitted, Refusal> {
    store.submit(message(text, text), id(text), context(), NOW).await
}

async fn state(store: &Store, text: &str) -> Option<TaskState> {
    store.task(&id(text)).await.unwrap().map(|task| task.status.state)
}

#[tokio::test]
async fn every_statement_fits_the_schema() {
    let dir = TempDir::new().unwrap();
    open(&dir, 10).await.close().await;
    let path = dir.path().join("state/state.db");
    let mut connection = sqlx::SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
    let all = open::STATEMENTS
        .iter()
        .chain(&read::STATEMENTS)
        .chain(&receipts::STATEMENTS)
        .chain(&tasks::STATEMENTS)
        .chain(&triggers::STATEMENTS);
    for statement in all {
        let sql = sqlx::SqlStr::from_static(statement);
        connection.prepare(sql).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

#[tokio::test]
async fn no_change_walks_through_what_is_retained() {
    let dir = TempDir::new().unwrap();
    open(&dir, 10).await.close().await;
    let path = dir.path().join("state/state.db");
    let mut connection = sqlx::SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
    let all = receipts::STATEMENTS.iter().chain(&tasks::STATEMENTS).chain(&triggers::STATEMENTS);
    // These are for the start; all others are for changes.
    let at_start = [
        "SELECT key, content, task_id, reason FROM receipts ORDER BY position",
        "SELECT source, type, sequence, last_nanos, fired_nanos FROM triggers",
        "SELECT count(*) FROM tasks",
    ];
    for statement in all.filter(|statement| !at_start.contains(statement)) {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        for step in sqlx::raw_sql(explain).fetch_all(&mut connection).await.unwrap() {
            let step: String = sqlx::Row::get(&step, "detail");
            // A scan of an index that holds only the rows in question, and of which one is taken.
            let bounded = ["tasks_queued", "tasks_working", "tasks_ended"];
            let scan = step.starts_with("SCAN") && !step.contains("CONSTANT ROW");
            let fine = !scan || bounded.iter().any(|index| step.contains(index));
            assert!(fine && !step.contains("TEMP B-TREE"), "{statement}: {step}");
        }
    }
}

#[tokio::test]
async fn the_directory_is_0700_and_its_files_0600_also_when_they_were_not() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("state");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(path.join("service.lock"), "").unwrap();
    // Such as a copy of a directory whose process died.
    fs::write(path.join("state.db-wal"), "").unwrap();
    fs::set_permissions(path.join("state.db-wal"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(path.join("service.lock"), fs::Permissions::from_mode(0o644)).unwrap();
    let opened = open(&dir, 10).await;
    submit(&opened.store, "one").await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        let expected = if entry.file_type().unwrap().is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&entry.path()), expected, "{:?}", entry.path());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["memory", "service.lock", "state.db", "state.db-shm", "state.db-wal"]);
    opened.close().await;
}

#[tokio::test]
async fn a_second_owner_is_told_which_directory_and_the_first_goes_on() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    let path = dir.path().join("state");
    let error = try_open(&path, &json!({"name": "a"}), 10).await.err().unwrap();
    assert!(matches!(&error, Error::InUse(named) if *named == path));
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    submit(&opened.store, "one").await.unwrap();
    opened.close().await;
    open(&dir, 10).await.close().await;
}

#[tokio::test]
async fn state_of_another_configuration_is_refused_with_the_fields_that_differ() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("state");
    let first = json!({"name": "a", "max_tasks": 5});
    try_open(&path, &first, 10).await.unwrap().close().await;
    try_open(&path, &json!({"max_tasks": 5.0, "name": "a"}), 10).await.unwrap().close().await;
    let error = try_open(&path, &json!({"name": "b", "max_tasks": 5}), 10).await.err().unwrap();
    let text = error.to_string();
    assert!(text.contains("(name differs)") && text.contains("new state directory"), "{text}");
}

#[tokio::test]
async fn a_later_schema_is_refused() {
    let dir = TempDir::new().unwrap();
    open(&dir, 10).await.close().await;
    let path = dir.path().join("state/state.db");
    let mut connection = sqlx::SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
    connection.execute("PRAGMA user_version = 99").await.unwrap();
    connection.close().await.unwrap();
    let error = try_open(&dir.path().join("state"), &json!({"name": "a"}), 10).await.err().unwrap();
    assert!(error.to_string().contains("later version (schema 99, this one knows 1)"), "{error}");
}

#[tokio::test]
async fn a_database_that_is_none_is_refused_with_its_path_and_what_sqlite_says_once() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("state");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("state.db"), "this is not a database").unwrap();
    let error = try_open(&path, &json!({"name": "a"}), 10).await.err().unwrap();
    let text = error::chain(&error);
    assert!(text.contains(path.join("state.db").to_str().unwrap()), "{text}");
    assert_eq!(text.matches("file is not a database").count(), 1, "{text}");
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_crash_and_working_tasks_are_failed() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    for text in ["first", "second", "third"] {
        submit(&opened.store, text).await.unwrap();
    }
    let claim = opened.store.claim(NOW).await.unwrap().unwrap();
    assert_eq!(claim.task(), &id("first"));
    // Everything is dropped as it stands: nothing is closed, as at a SIGKILL.
    opened.writer.abort();
    drop(claim);
    assert!(opened.writer.await.unwrap_err().is_cancelled());
    drop(opened.store);

    let opened = open(&dir, 10).await;
    let first = opened.store.task(&id("first")).await.unwrap().unwrap();
    assert_eq!(first.status.state, TaskState::Failed);
    assert!(first.text().contains("effects may have completed; inspect before retrying"));
    assert!(first.artifacts.is_empty());
    assert_eq!(state(&opened.store, "second").await, Some(TaskState::Submitted));
    let next = opened.store.claim(NOW).await.unwrap().unwrap();
    assert_eq!(next.task(), &id("second"), "the first is never run again");
    assert_eq!(opened.store.seen_message(&message("first", "first")), Ok(Some(id("first"))));
    opened.close().await;
}

#[tokio::test]
async fn the_65th_pending_task_is_refused_and_leaves_nothing_behind() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 200).await;
    for number in 0..64 {
        submit(&opened.store, &format!("task-{number}")).await.unwrap();
    }
    let refused = submit(&opened.store, "one-more").await;
    assert!(
        matches!(refused, Err(Refusal::Exhausted { retry_after_seconds: 5, .. })),
        "{refused:?}"
    );
    assert_eq!(state(&opened.store, "one-more").await, None);
    assert_eq!(opened.store.seen_message(&message("one-more", "one-more")), Ok(None));
    opened.store.cancel(id("task-3"), NOW).await.unwrap();
    submit(&opened.store, "one-more").await.unwrap();
    opened.close().await;
}

#[tokio::test]
async fn the_oldest_terminal_task_that_no_worker_holds_makes_room() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 3).await;
    let store = &opened.store;
    for text in ["first", "second", "third"] {
        submit(store, text).await.unwrap();
    }
    assert!(matches!(submit(store, "fourth").await, Err(Refusal::Exhausted { .. })));
    let claim = store.claim(NOW).await.unwrap().unwrap();
    store.cancel(id("first"), NOW).await.unwrap();
    assert!(claim.stop().is_cancelled(), "the worker is told");
    let held = submit(store, "fourth").await;
    assert!(matches!(held, Err(Refusal::Exhausted { .. })), "a worker still holds it: {held:?}");
    store.give_back(&claim, None, NOW).await.unwrap();
    submit(store, "fourth").await.unwrap();
    assert_eq!(state(store, "first").await, None);
    let gone = store.seen_message(&message("first", "first"));
    assert!(
        matches!(gone, Err(Refusal::AlreadyExists(text)) if text.contains("no longer retained"))
    );
    opened.close().await;
}

#[tokio::test]
async fn a_late_result_is_dropped() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    let store = &opened.store;
    submit(store, "one").await.unwrap();
    let claim = store.claim(NOW).await.unwrap().unwrap();
    let canceled = store.cancel(id("one"), at(1)).await.unwrap();
    assert_eq!(canceled.status.state, TaskState::Canceled);
    assert!(canceled.text().contains("completed effects are not undone"));
    assert!(!store.end(&claim, Ending::Completed("late".to_owned()), at(2)).await.unwrap());
    let again = store.cancel(id("one"), at(3)).await.unwrap();
    assert_eq!(again, canceled);
    opened.close().await;
}

#[tokio::test]
async fn a_cancel_in_the_commit_of_the_claim_reaches_the_worker() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    let store = &opened.store;
    submit(store, "one").await.unwrap();
    let (before, _) = store.counted();
    // Both wait when the writer looks, the claim first.
    let (claim, canceled) = tokio::join!(store.claim(NOW), store.cancel(id("one"), NOW));
    assert_eq!(store.counted().0, before + 1, "one commit");
    assert_eq!(canceled.unwrap().status.state, TaskState::Canceled);
    assert!(claim.unwrap().unwrap().stop().is_cancelled());
    opened.close().await;
}

#[tokio::test]
async fn the_end_of_a_task_and_the_claim_of_the_next_share_a_commit() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    let store = &opened.store;
    submit(store, "one").await.unwrap();
    submit(store, "two").await.unwrap();
    let claim = store.claim(NOW).await.unwrap().unwrap();
    let (before, _) = store.counted();
    let ending = Ending::Completed("done".to_owned());
    let (recorded, next) = store.go_on(&claim, Some(ending), NOW).await.unwrap();
    assert_eq!((recorded, next.unwrap().task()), (true, &id("two")));
    assert_eq!(store.counted().0, before + 1);
    assert_eq!(state(store, "one").await, Some(TaskState::Completed));
    opened.close().await;
}

#[tokio::test]
async fn an_ended_task_has_its_artifact_or_its_status_message() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    let store = &opened.store;
    let endings =
        [("good", Ending::Completed("done".to_owned())), ("bad", Ending::Failed("no".to_owned()))];
    for (text, ending) in endings {
        submit(store, text).await.unwrap();
        let claim = store.claim(NOW).await.unwrap().unwrap();
        let end = store.await_end(&id(text));
        assert!(store.end(&claim, ending, at(1)).await.unwrap());
        store.give_back(&claim, None, NOW).await.unwrap();
        let told = end.await.unwrap().unwrap();
        assert_eq!(Some(*told), store.task(&id(text)).await.unwrap());
    }
    let good = store.task(&id("good")).await.unwrap().unwrap();
    assert_eq!(good.artifacts[0].name.as_deref(), Some("result"));
    assert_eq!((good.text().as_str(), good.status.message), ("done", None));
    let bad = store.task(&id("bad")).await.unwrap().unwrap();
    assert!(bad.artifacts.is_empty());
    let said = bad.status.message.unwrap();
    assert_eq!((said.role.as_str(), said.parts[0].text()), ("ROLE_AGENT", Some("no")));
    assert_eq!(bad.history[0].parts[0].text(), Some("bad"));
    opened.close().await;
}

#[tokio::test]
async fn an_event_that_fires_makes_a_task_with_the_observation_as_data() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    let store = &opened.store;
    let first = store.event(event("1", 0, 0.9), id("unused"), NOW).await.unwrap();
    assert_eq!(first.0.reason.as_deref(), Some("waiting for consecutive observations"));
    let (answer, repeated) = store.event(event("2", 1, 0.9), id("fired"), at(1)).await.unwrap();
    assert_eq!((answer.task_id.as_deref(), repeated), (Some("fired"), false));
    let (again, repeated) = store.event(event("2", 1, 0.9), id("unused"), at(2)).await.unwrap();
    assert_eq!((again, repeated), (answer, true));
    let other = store.event(event("2", 1, 0.8), id("unused"), at(2)).await;
    assert!(matches!(other, Err(Refusal::AlreadyExists(_))));
    let claim = store.claim(at(2)).await.unwrap().unwrap();
    let job = claim.job(tokio::time::Instant::now());
    assert!(job.prompt.starts_with("Look.\n\n<untrusted_sensor_event_json>\n"));
    assert!(job.context.as_str().starts_with("event-"));
    let crate::runner::Origin::Event { event: seen, instructions } = job.origin else {
        panic!("not an event")
    };
    assert_eq!((seen.id().as_str(), instructions.as_str()), ("2", "Look."));
    opened.close().await;
}

#[tokio::test]
async fn an_event_task_that_waited_too_long_is_rejected_and_never_claimed() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    let store = &opened.store;
    submit(store, "before").await.unwrap();
    for number in 0..4 {
        let event = event(&number.to_string(), number, 0.9);
        store.event(event, id(&format!("event-{number}")), at(number)).await.unwrap();
    }
    assert_eq!(
        *store.next_expiry().borrow(),
        Some(at(11)),
        "the second observation is of second 1"
    );
    store.expire(at(10)).await.unwrap();
    assert_eq!(state(store, "event-1").await, Some(TaskState::Submitted));
    store.expire(at(11)).await.unwrap();
    assert_eq!(state(store, "event-1").await, Some(TaskState::Rejected));
    assert_eq!(*store.next_expiry().borrow(), Some(at(13)));
    assert_eq!(store.claim(at(13)).await.unwrap().unwrap().task(), &id("before"));
    assert_eq!(state(store, "event-3").await, Some(TaskState::Rejected), "claiming looks as well");
    opened.close().await;
}

#[tokio::test]
async fn trigger_state_and_receipts_survive_a_restart() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    opened.store.event(event("1", 0, 0.9), id("unused"), NOW).await.unwrap();
    opened.close().await;
    let opened = open(&dir, 10).await;
    let seen = opened.store.seen_event(&event("1", 0, 0.9)).unwrap().unwrap();
    assert_eq!(seen.reason.as_deref(), Some("waiting for consecutive observations"));
    let (answer, _) = opened.store.event(event("2", 1, 0.9), id("fired"), at(1)).await.unwrap();
    assert!(answer.accepted);
    opened.close().await;
}

#[tokio::test]
async fn a_full_queue_leaves_trigger_and_receipt_as_they_were() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 200).await;
    let store = &opened.store;
    for number in 0..64 {
        submit(store, &format!("task-{number}")).await.unwrap();
    }
    store.event(event("1", 0, 0.9), id("unused"), NOW).await.unwrap();
    let refused = store.event(event("2", 1, 0.9), id("fired"), at(1)).await;
    assert!(matches!(refused, Err(Refusal::Exhausted { .. })));
    assert_eq!(store.seen_event(&event("2", 1, 0.9)), Ok(None));
    store.cancel(id("task-0"), at(1)).await.unwrap();
    let (answer, _) = store.event(event("2", 1, 0.9), id("fired"), at(1)).await.unwrap();
    assert!(answer.accepted, "the same event fires when it comes again");
    opened.close().await;
}

#[tokio::test]
async fn the_last_4096_receipts_are_kept() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    let nobody = |number: usize| {
        let body = json!({"id": number.to_string(), "type": "t", "source": "s", "timestamp": "2026-09-16T10:00:00Z"});
        Event::parse(body.to_string().as_bytes()).unwrap()
    };
    let store = &opened.store;
    // Many at once, so that they share commits.
    for block in 0..17 {
        let posts = (0..256).map(|n| store.event(nobody(block * 256 + n), id("unused"), NOW));
        for answer in futures(posts).await {
            assert_eq!(answer.unwrap().0.reason.as_deref(), Some("no matching trigger"));
        }
    }
    let (commits, changes) = store.counted();
    assert!(changes >= 4352 && commits < changes / 4, "{changes} changes in {commits} commits");
    assert_eq!(store.seen_event(&nobody(255)), Ok(None));
    assert!(store.seen_event(&nobody(256)).unwrap().is_some());
    opened.close().await;
    let opened = open(&dir, 10).await;
    assert_eq!(opened.store.seen_event(&nobody(255)), Ok(None));
    assert!(opened.store.seen_event(&nobody(256)).unwrap().is_some());
    opened.close().await;
}

/// Runs futures side by side and returns their results in order.
async fn futures<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, result) in &mut all {
            if result.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(output) => *result = Some(output),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    all.into_iter().map(|(_, result)| result.unwrap()).collect()
}

#[tokio::test]
async fn a_failed_write_is_sticky_and_acknowledges_nothing() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    submit(&opened.store, "before").await.unwrap();
    let claim = opened.store.claim(NOW).await.unwrap().unwrap();
    // A trigger that fails stands for a disk that does.
    let path = dir.path().join("state/state.db");
    let mut other = sqlx::SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
    let sabotage = "CREATE TRIGGER sabotage BEFORE INSERT ON receipts BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END";
    other.execute(sabotage).await.unwrap();
    assert_eq!(submit(&opened.store, "lost").await, Err(Refusal::Internal));
    opened.store.failed().await;
    assert!(claim.stop().is_cancelled(), "running work is told to stop");
    other.execute("DROP TRIGGER sabotage").await.unwrap();
    assert_eq!(submit(&opened.store, "after").await, Err(Refusal::Internal), "it stays so");
    assert!(opened.store.has_failed());
    drop(claim);
    other.close().await.unwrap();
    opened.close().await;

    let opened = open(&dir, 10).await;
    assert_eq!(state(&opened.store, "lost").await, None);
    assert_eq!(state(&opened.store, "before").await, Some(TaskState::Failed));
    opened.close().await;
}

#[tokio::test]
async fn a_walk_through_the_pages_shows_each_unchanged_task_once() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 100).await;
    let store = &opened.store;
    for number in 0..20 {
        submit(store, &format!("task-{number:02}")).await.unwrap();
    }
    let mut list = ListTasks { page_size: 3, ..ListTasks::default() };
    let mut seen = Vec::new();
    for round in 0.. {
        let page = store.page(&list).await.unwrap();
        assert_eq!(page.total, 20);
        seen.extend(page.tasks.iter().map(|listed| listed.task.id.as_str().to_owned()));
        if round == 1 {
            store.cancel(id("task-00"), at(1)).await.unwrap();
        }
        let Some(last) = page.tasks.last().filter(|_| page.more) else { break };
        list.after = Some(last.cursor);
    }
    let expected: Vec<String> = (1..20).rev().map(|number| format!("task-{number:02}")).collect();
    assert_eq!(seen, expected, "newest first; the one that changed moved to the front");
    opened.close().await;
}

#[tokio::test]
async fn a_listing_leaves_out_what_was_not_asked_for() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, 10).await;
    let store = &opened.store;
    submit(store, "one").await.unwrap();
    let claim = store.claim(NOW).await.unwrap().unwrap();
    store.end(&claim, Ending::Completed("done".to_owned()), NOW).await.unwrap();
    let plain = ListTasks { history_length: Some(0), ..ListTasks::default() };
    let task = store.page(&plain).await.unwrap().tasks.remove(0).task;
    assert!(task.artifacts.is_empty() && task.history.is_empty());
    let whole = ListTasks { include_artifacts: true, ..ListTasks::default() };
    let task = store.page(&whole).await.unwrap().tasks.remove(0).task;
    assert_eq!((task.artifacts.len(), task.history.len()), (1, 1));
    opened.close().await;
}

#[test]
fn a_state_root_holds_a_folder_for_each_configuration() {
    let dir = TempDir::new().unwrap();
    let one = under_root(dir.path(), "brain", Digest::of(&json!({"name": "brain"})));
    let two =
        under_root(dir.path(), "brain", Digest::of(&json!({"name": "brain", "max_tasks": 1})));
    assert_ne!(one, two);
    assert_eq!(one.parent(), Some(dir.path().join("brain").as_path()));
    assert_eq!(one.file_name().unwrap().len(), 12);
    assert!(left_beside(&one).is_empty());
    fs::create_dir_all(&two).unwrap();
    fs::write(two.join("state.db"), "").unwrap();
    assert_eq!(left_beside(&one), [two]);
}
