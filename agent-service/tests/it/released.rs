//! State that a released version wrote opens in this one, with the configuration that made it.
//!
//! `tests/fixtures/state-<version>/` holds `agent.json` and the `state.db` that the version left when
//! it was killed in the middle of a task. A released fixture is never written again; before a release
//! that changes the schema, [`the_state_of_this_version_has_its_fixture`] makes a new one beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_service::config::{self, Agent, Flags, Sources};
use agent_service::refusal::Refusal;
use agent_service::runner::{Failure, Origin};
use agent_service::store::{Limits, Opening, Store};
use agent_wire::a2a::list::ListTasks;
use agent_wire::a2a::request::Submission;
use agent_wire::a2a::task::TaskState;
use agent_wire::event::Event;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use service_kit::{ManualClock, Vars};
use tempfile::TempDir;

use crate::service::{Backend, START, Service, Settings, message, observation, submission};

fn fixture(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("state-{version}"))
}

fn agent(version: &str) -> Agent {
    let directory = fixture(version);
    let files = [directory.join("agent.json")];
    let (vars, flags) = (Vars::default(), Flags::default());
    let sources = Sources { files: &files, vars: &vars, flags: &flags, current: &directory };
    config::load(&sources).unwrap().agent
}

fn settings(agent: &Agent) -> Settings {
    Settings {
        configuration: agent.binding(),
        triggers: Some(agent.triggers.clone()),
        max_tasks: agent.max_tasks,
        ..Settings::default()
    }
}

/// A copy, since opening changes it.
fn copy(version: &str) -> TempDir {
    let directory = TempDir::new().unwrap();
    let state = directory.path().join("state");
    fs::create_dir(&state).unwrap();
    fs::copy(fixture(version).join("state.db"), state.join("state.db")).unwrap();
    directory
}

fn after(seconds: i64) -> Timestamp {
    START + SignedDuration::from_secs(seconds)
}

fn seen(id: &str, seconds: i64) -> Event {
    observation(id, "cam", after(seconds), Some(0.9))
}

/// The message with every optional field.
fn rich() -> Submission {
    submission(&json!({
        "messageId": "rich", "contextId": "talk", "role": "ROLE_USER",
        "parts": [{"text": "one", "metadata": {"a": 1}}, {"text": "zwei €"}],
        "metadata": {"wendy.delegation_depth": 2, "who": "me"},
    }))
}

#[tokio::test]
async fn state_of_0_1_0_opens_with_all_that_was_in_it() {
    let agent = agent("0.1.0");
    let clock = ManualClock::new(after(65));
    let mut service = Service::open(copy("0.1.0"), settings(&agent), clock).await;
    let intake = service.intake.clone();

    let done = intake.submit(message("done", "done")).await.unwrap();
    assert_eq!((done.status.state, done.text().as_str()), (TaskState::Completed, "it is done"));
    assert_eq!(done.status.timestamp, Some(START));
    let failed = intake.submit(message("failed", "failed")).await.unwrap();
    assert_eq!((failed.status.state, failed.text().as_str()), (TaskState::Failed, "it went wrong"));
    let canceled = intake.submit(message("canceled", "canceled")).await.unwrap();
    assert_eq!(canceled.status.state, TaskState::Canceled);
    let interrupted = intake.submit(rich()).await.unwrap();
    assert_eq!(
        (interrupted.status.state, interrupted.context_id.as_str()),
        (TaskState::Failed, "talk")
    );
    assert!(interrupted.text().contains("inspect before retrying"));
    assert_eq!(interrupted.history[0].parts.len(), 2);
    assert_eq!(interrupted.history[0].metadata.as_ref().unwrap()["who"], "me");
    let conflict = intake.submit(message("done", "other")).await;
    assert!(matches!(conflict, Err(Refusal::AlreadyExists(_))), "{conflict:?}");

    assert!(intake.event(seen("1", 0)).await.unwrap().accepted);
    let cooldown = Some("cooldown".to_owned());
    assert_eq!(intake.event(seen("2", 1)).await.unwrap().reason, cooldown, "a receipt");
    assert_eq!(intake.event(seen("new", 65)).await.unwrap().reason, cooldown, "of event 3");
    let nobody = intake.event(observation("1", "door", START, None)).await.unwrap();
    assert_eq!(nobody.reason.as_deref(), Some("no matching trigger"));

    let queued = service.next_job().await;
    assert_eq!(queued.job.prompt, "queued");
    queued.answer(Ok("after the upgrade".to_owned()));
    let observed = service.next_job().await;
    let Origin::Event { event, instructions } = &observed.job.origin else {
        panic!("not an event")
    };
    assert_eq!((event.id().as_str(), instructions.as_str()), ("3", "Look."));
    observed.answer(Ok("seen".to_owned()));
    let page = intake.list(&ListTasks::default()).await.unwrap();
    assert_eq!(page.total, 7);
    drop(intake);
    drop(service.stop(None).await);
}

#[tokio::test]
async fn state_of_0_1_0_is_refused_to_another_configuration() {
    let mut agent = agent("0.1.0");
    agent.max_tasks = 49;
    let directory = copy("0.1.0");
    let opening = Opening {
        directory: &directory.path().join("state"),
        configuration: &agent.binding(),
        limits: Limits { max_tasks: 49, triggers: Vec::new() },
        now: after(65),
    };
    let error = Store::open(opening).await.err().unwrap().to_string();
    assert!(error.contains("(max_tasks differs)"), "{error}");
}

/// Each version has its fixture. `WRITE_STATE_FIXTURE=1` makes that of this version; do so by hand before
/// the release that changes the schema.
#[tokio::test]
async fn the_state_of_this_version_has_its_fixture() {
    let version = env!("CARGO_PKG_VERSION");
    if std::env::var_os("WRITE_STATE_FIXTURE").is_none() {
        let file = fixture(version).join("state.db");
        assert!(
            file.is_file(),
            "{} is missing: run this test with WRITE_STATE_FIXTURE=1",
            file.display()
        );
        return;
    }
    let mut service = Service::start(settings(&agent(version))).await;
    let intake = service.intake.clone();
    intake.submit(message("done", "done")).await.unwrap();
    service.next_job().await.answer(Ok("it is done".to_owned()));
    intake.submit(message("failed", "failed")).await.unwrap();
    service.next_job().await.answer(Err(Failure::new("it went wrong")));
    intake.event(seen("1", 0)).await.unwrap();
    service.next_job().await.answer(Ok("a person".to_owned()));
    intake.event(observation("1", "door", START, None)).await.unwrap();
    service.clock.advance(Duration::from_secs(1));
    intake.event(seen("2", 1)).await.unwrap();
    intake.submit(rich()).await.unwrap();
    let running = service.next_job().await;
    intake.submit(message("queued", "queued")).await.unwrap();
    let canceled = intake.submit(message("canceled", "canceled")).await.unwrap().id;
    intake.cancel(&canceled).await.unwrap();
    service.clock.advance(Duration::from_mins(1));
    intake.event(seen("3", 61)).await.unwrap();

    let crashed = TempDir::new().unwrap();
    let path = crashed.path().join("state.db");
    for name in ["state.db", "state.db-wal"] {
        fs::copy(service.store.directory().join(name), crashed.path().join(name)).unwrap();
    }
    crate::service::meddle(&path, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    fs::copy(&path, fixture(version).join("state.db")).unwrap();
    drop(intake);
    drop(service.stop(Some(running)).await);
}
