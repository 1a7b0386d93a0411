//! An orderly stop: what is turned down, what may still end, and what is left for the next start.

use std::time::Duration;

use agent_service::refusal::Refusal;
use agent_wire::a2a::task::TaskState;

use crate::service::{Backend, Service, Settings, soon};

fn patient() -> Settings {
    Settings { grace: Duration::from_mins(10), ..Settings::default() }
}

#[tokio::test]
async fn from_the_signal_on_nothing_new_is_taken_and_all_else_is_answered() {
    let mut service = Service::start(patient()).await;
    let first = service.submit("first").await.unwrap().id;
    let second = service.submit("second").await.unwrap().id;
    let running = service.next_job().await;
    service.tasks.request_soft_stop();
    assert_eq!(service.submit("new").await, Err(Refusal::STOPPING));
    assert_eq!(service.submit("first").await, Err(Refusal::STOPPING), "a repeated one as well");
    let event = service.intake.event(service.observation("1")).await;
    assert_eq!(event, Err(Refusal::Unavailable { retry_after_seconds: 5 }));
    assert_eq!(service.intake.ready(), Err("stopping"));
    assert_eq!(service.state(&first).await, Some(TaskState::Working));
    let canceled = service.intake.cancel(&second).await.unwrap();
    assert_eq!(canceled.status.state, TaskState::Canceled);
    running.answer(Ok("done".to_owned()));
    drop(service.stop(None).await);
}

#[tokio::test]
async fn a_task_that_ends_within_the_grace_is_completed_and_who_waits_for_it_gets_it() {
    let mut service = Service::start(patient()).await;
    let first = service.submit("first").await.unwrap().id;
    let second = service.submit("second").await.unwrap().id;
    let running = service.next_job().await;
    let wait = |id: &agent_wire::value::TaskId| {
        let (intake, id) = (service.intake.clone(), id.clone());
        service.tasks.spawn(async move { intake.ended(&id).await })
    };
    let (for_first, for_second) = (wait(&first), wait(&second));
    service.tasks.request_soft_stop();
    running.answer(Ok("done".to_owned()));
    assert_eq!(soon(for_first).await.unwrap().unwrap().status.state, TaskState::Completed);
    assert_eq!(soon(for_second).await.unwrap(), Err(Refusal::STOPPING));
    assert!(!service.has_job(), "nothing new is claimed");

    let mut service = service.restart(None).await;
    assert_eq!(service.submit("second").await.unwrap().id, second, "the retry finds it");
    let running = service.next_job().await;
    assert_eq!(running.id(), &second);
    running.answer(Ok("done".to_owned()));
    service.ended(&second).await;
    drop(service.stop(None).await);
}

#[tokio::test]
async fn a_task_that_outlives_the_grace_is_failed_before_its_runner_returns() {
    let settings = Settings { grace: Duration::from_millis(50), ..Settings::default() };
    let mut service = Service::start(settings).await;
    let first = service.submit("first").await.unwrap().id;
    let second = service.submit("second").await.unwrap().id;
    let running = service.next_job().await;
    let (intake, queued) = (service.intake.clone(), second.clone());
    let waiting = service.tasks.spawn(async move { intake.ended(&queued).await });
    service.tasks.request_soft_stop();
    let task = service.ended(&first).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(task.text().contains("effects may have completed; inspect before retrying"));
    assert_eq!(soon(waiting).await.unwrap(), Err(Refusal::STOPPING), "no end will come");
    let mut service = service.restart(Some(running)).await;
    assert_eq!(service.intake.get(&first).await.unwrap(), Some(task), "the late result is dropped");
    let running = service.next_job().await;
    assert_eq!(running.id(), &second);
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn a_second_signal_ends_the_grace_at_once() {
    let mut service = Service::start(patient()).await;
    let first = service.submit("first").await.unwrap().id;
    let running = service.next_job().await;
    service.tasks.request_hard_stop();
    assert_eq!(service.ended(&first).await.status.state, TaskState::Failed);
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn a_task_that_is_cancelled_within_the_grace_is_canceled() {
    let mut service = Service::start(patient()).await;
    let first = service.submit("first").await.unwrap().id;
    let running = service.next_job().await;
    service.tasks.request_soft_stop();
    assert!(!running.stop.is_cancelled());
    service.intake.cancel(&first).await.unwrap();
    let service = service.restart(Some(running)).await;
    assert_eq!(service.state(&first).await, Some(TaskState::Canceled));
    drop(service.stop(None).await);
}
