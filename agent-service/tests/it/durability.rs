//! What is acknowledged is there after a crash, and what cannot be stored is never acknowledged.

use std::collections::BTreeSet;
use std::time::Duration;

use agent_service::refusal::Refusal;
use agent_wire::a2a::list::ListTasks;
use agent_wire::a2a::task::TaskState;

use crate::service::{Backend, Service, Settings, meddle, message, soon};

#[tokio::test]
async fn changes_that_wait_share_a_commit_and_each_is_durable_when_acknowledged() {
    let mut service = Service::start(Settings::default()).await;
    let (before, _) = service.store.counted();
    let posts: Vec<_> = (0..60)
        .map(|number| {
            let intake = service.intake.clone();
            let message = message(&format!("m{number}"), "text");
            service.tasks.spawn(async move { intake.submit(message).await })
        })
        .collect();
    let mut ids = BTreeSet::new();
    for post in posts {
        ids.insert(post.await.unwrap().unwrap().id);
    }
    let copy = service.crashed_copy().await;
    let (after, changes) = service.store.counted();
    assert!(changes >= 60 && after - before < 30, "{changes} changes in {after} commits");
    for id in &ids {
        assert!(copy.state(id).await.is_some(), "{id}");
    }
    let running = service.next_job().await;
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn a_kill_at_any_step_of_a_task_leaves_the_step_before() {
    let mut service = Service::start(Settings::default()).await;
    let first = service.submit("first").await.unwrap().id;
    let second = service.submit("second").await.unwrap().id;
    let running = service.next_job().await;

    // While the first one works.
    let mut copy = service.crashed_copy().await;
    let failed = copy.intake.get(&first).await.unwrap().unwrap();
    assert_eq!(failed.status.state, TaskState::Failed);
    assert!(failed.text().contains("effects may have completed; inspect before retrying"));
    let rerun = copy.next_job().await;
    assert_eq!(rerun.id(), &second, "the first is never run again");
    assert_eq!(copy.submit("first").await.unwrap(), failed, "its message finds it");

    // After it was cancelled, while its runner has not returned.
    let canceled = service.intake.cancel(&first).await.unwrap();
    let copy = service.crashed_copy().await;
    assert_eq!(copy.intake.get(&first).await.unwrap(), Some(canceled));

    // After the second one has ended.
    running.answer(Ok("late".to_owned()));
    service.next_job().await.answer(Ok("done".to_owned()));
    let ended = service.ended(&second).await;
    let copy = service.crashed_copy().await;
    assert_eq!(copy.intake.get(&second).await.unwrap(), Some(ended));
    assert!(!copy.has_job());
    drop(service.stop(None).await);
}

#[tokio::test]
async fn the_order_of_submission_survives_a_restart() {
    let mut service = Service::start(Settings::default()).await;
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(service.submit(&number.to_string()).await.unwrap().id);
    }
    let running = service.next_job().await;
    let mut service = service.restart(Some(running)).await;
    assert_eq!(service.state(&ids[0]).await, Some(TaskState::Failed));
    for id in &ids[1..] {
        let running = service.next_job().await;
        assert_eq!(running.id(), id);
        running.answer(Ok("done".to_owned()));
        service.ended(id).await;
    }
    drop(service.stop(None).await);
}

/// Whatever cannot be written: nothing is acknowledged from then on, and nothing is left of it.
async fn a_write_fails(sabotage: &'static str) {
    let mut service = Service::start(Settings::default()).await;
    let before = service.submit("before").await.unwrap().id;
    let running = service.next_job().await;
    let (intake, id) = (service.intake.clone(), before.clone());
    let waiting = service.tasks.spawn(async move { intake.ended(&id).await });
    meddle(&service.database(), sabotage).await;

    assert_eq!(service.submit("lost").await, Err(Refusal::Internal));
    soon(service.store.failed()).await;
    soon(running.stop.cancelled()).await;
    assert_eq!(soon(waiting).await.unwrap(), Err(Refusal::Internal));
    assert!(service.intake.failed() && service.intake.ready().is_err());
    assert_eq!(service.submit("before").await, Err(Refusal::Internal), "not even what is known");
    assert_eq!(service.intake.get(&before).await, Err(Refusal::Internal));
    assert_eq!(service.intake.list(&ListTasks::default()).await, Err(Refusal::Internal));
    assert_eq!(service.intake.cancel(&before).await, Err(Refusal::Internal));
    assert_eq!(service.intake.event(service.observation("1")).await, Err(Refusal::Internal));

    let copy = service.crashed_copy().await;
    assert_eq!(copy.intake.list(&ListTasks::default()).await.unwrap().total, 1);
    assert_eq!(copy.state(&before).await, Some(TaskState::Failed));
    running.answer(Ok("late".to_owned()));
    drop(service.stop(None).await);
}

#[tokio::test]
async fn a_failed_statement_is_sticky() {
    a_write_fails(
        "CREATE TRIGGER sabotage BEFORE INSERT ON receipts \
         BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END",
    )
    .await;
}

#[tokio::test]
async fn a_failed_commit_is_sticky() {
    // A deferred constraint is checked by the commit itself, as a full disk is noticed there.
    a_write_fails(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY) STRICT; \
         CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED) STRICT; \
         CREATE TRIGGER sabotage AFTER INSERT ON receipts \
         BEGIN INSERT INTO child (id) VALUES (1); END",
    )
    .await;
}

#[tokio::test]
async fn a_writer_that_is_gone_is_a_storage_that_failed() {
    let service = Service::start(Settings::default()).await;
    service.writer.abort();
    soon(service.store.failed()).await;
    assert_eq!(service.submit("lost").await, Err(Refusal::Internal));
    assert!(service.intake.ready().is_err());
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_is_not_told_and_its_task_is_failed_after_the_restart() {
    let mut service = Service::start(Settings::default()).await;
    let id = service.submit("one").await.unwrap().id;
    let running = service.next_job().await;
    meddle(
        &service.database(),
        "CREATE TRIGGER sabotage BEFORE INSERT ON results \
         BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END",
    )
    .await;
    let (intake, waiting_for) = (service.intake.clone(), id.clone());
    let waiting = service.tasks.spawn(async move { intake.ended(&waiting_for).await });
    running.answer(Ok("done".to_owned()));
    assert_eq!(soon(waiting).await.unwrap(), Err(Refusal::Internal));
    meddle(&service.database(), "DROP TRIGGER sabotage").await;
    let mut copy = service.crashed_copy().await;
    let task = copy.intake.get(&id).await.unwrap().unwrap();
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(task.text().contains("inspect before retrying"));
    let after = copy.submit("after").await.unwrap().id;
    let running = copy.next_job().await;
    assert_eq!(running.id(), &after);
    copy.clock.advance(Duration::from_secs(1));
    drop(copy.stop(Some(running)).await);
    drop(service.stop(None).await);
}
