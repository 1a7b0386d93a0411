//! The queue: order, limits, cancel, timeout, and what a client sees of a task's end.

use std::time::Duration;

use agent_core::queue::{MAX_PENDING, RETRY_AFTER_SECONDS};
use agent_service::refusal::Refusal;
use agent_service::runner::{Failure, Origin};
use agent_wire::a2a::list::ListTasks;
use agent_wire::a2a::task::{Role, TaskState};
use agent_wire::value::{TaskId, TraceParent};
use serde_json::json;

use crate::service::{Backend, Service, Settings, message, soon, submission};

#[tokio::test]
async fn tasks_run_one_at_a_time_in_order_of_submission() {
    let mut service = Service::start(Settings::default()).await;
    let mut ids = Vec::new();
    for text in ["a", "b", "c"] {
        ids.push(service.submit(text).await.unwrap().id);
    }
    for id in &ids {
        let running = service.next_job().await;
        assert_eq!(running.id(), id);
        assert_eq!(service.state(id).await, Some(TaskState::Working));
        assert!(!service.has_job());
        running.answer(Ok("done".to_owned()));
        assert_eq!(service.ended(id).await.status.state, TaskState::Completed);
    }
    drop(service.stop(None).await);
}

#[tokio::test]
async fn a_completed_task_has_one_artifact_and_any_other_end_a_status_message() {
    let mut service = Service::start(Settings::default()).await;
    let good = service.submit("good").await.unwrap().id;
    let bad = service.submit("bad").await.unwrap().id;
    service.next_job().await.answer(Ok("it is done".to_owned()));
    service.next_job().await.answer(Err(Failure::new("it went wrong")));

    let good = service.ended(&good).await;
    assert_eq!(good.artifacts.len(), 1);
    assert_eq!(good.artifacts[0].name.as_deref(), Some("result"));
    assert_eq!((good.text().as_str(), &good.status.message), ("it is done", &None));
    assert_eq!(good.history.len(), 1);
    assert_eq!((good.history[0].role, good.history[0].message_id.as_str()), (Role::User, "good"));

    let bad = service.ended(&bad).await;
    assert_eq!((bad.status.state, bad.artifacts.len()), (TaskState::Failed, 0));
    let said = bad.status.message.unwrap();
    assert_eq!((said.role, said.parts[0].text()), (Role::Agent, Some("it went wrong")));
    drop(service.stop(None).await);
}

#[tokio::test]
async fn a_result_over_32000_bytes_is_cut_with_a_mark() {
    let mut service = Service::start(Settings::default()).await;
    let id = service.submit("long").await.unwrap().id;
    service.next_job().await.answer(Ok("é".repeat(20_000)));
    let text = service.ended(&id).await.text();
    assert!(text.len() <= 32_000 && text.ends_with("[cut at 32,000 bytes]"));
    drop(service.stop(None).await);
}

#[tokio::test]
async fn a_job_carries_what_the_message_said() {
    let mut service = Service::start(Settings::default()).await;
    let mut message = submission(&json!({
        "messageId": "m", "contextId": "ctx", "role": "ROLE_USER",
        "parts": [{"text": "one"}, {"text": "two"}],
        "metadata": {"wendy.delegation_depth": 3, "who": "me"},
    }));
    let trace = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    message.trace.clone_from(&trace);
    let task = service.intake.submit(message).await.unwrap();
    let running = service.next_job().await;
    let job = &running.job;
    assert_eq!((&job.task, job.context.as_str()), (&task.id, "ctx"));
    assert_eq!((job.prompt.as_str(), job.depth.get()), ("one\ntwo", 3));
    assert!(trace.is_some() && job.trace == trace, "{:?}", job.trace);
    let Origin::Message { id, metadata: Some(metadata) } = &job.origin else {
        panic!("not a message with metadata")
    };
    assert_eq!((id.as_str(), &metadata["who"]), ("m", &json!("me")));
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn the_65th_pending_task_is_turned_down_until_one_ends() {
    let mut service = Service::start(Settings::default()).await;
    for number in 0..MAX_PENDING {
        service.submit(&number.to_string()).await.unwrap();
    }
    let Err(Refusal::Exhausted { message, retry_after_seconds }) = service.submit("more").await
    else {
        panic!("it came in")
    };
    assert_eq!(u64::from(retry_after_seconds), u64::from(RETRY_AFTER_SECONDS));
    assert!(message.contains("64 tasks are pending"), "{message}");
    let running = service.next_job().await;
    let first = running.id().clone();
    running.answer(Ok("done".to_owned()));
    service.ended(&first).await;
    service.submit("more").await.unwrap();
    let running = service.next_job().await;
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn the_oldest_ended_task_goes_for_a_new_one_but_not_while_its_worker_holds_it() {
    let mut service = Service::start(Settings { max_tasks: 2, ..Settings::default() }).await;
    let first = service.submit("first").await.unwrap().id;
    let second = service.submit("second").await.unwrap().id;
    let running = service.next_job().await;
    service.intake.cancel(&first).await.unwrap();
    let held = service.submit("third").await;
    assert!(matches!(held, Err(Refusal::Exhausted { .. })), "{held:?}");
    running.answer(Ok("late".to_owned()));
    let running = service.next_job().await;
    assert_eq!(running.id(), &second);
    service.submit("third").await.unwrap();
    assert_eq!(service.state(&first).await, None);
    let again = service.submit("first").await;
    assert!(
        matches!(&again, Err(Refusal::AlreadyExists(text)) if text.contains("no longer retained")),
        "{again:?}"
    );
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn a_repeated_message_is_the_same_task_and_other_content_is_a_conflict() {
    let mut service = Service::start(Settings::default()).await;
    let task = service.submit("same").await.unwrap();
    assert_eq!(service.submit("same").await.unwrap().id, task.id);
    let other = service.intake.submit(message("same", "other")).await;
    assert!(matches!(other, Err(Refusal::AlreadyExists(_))), "{other:?}");
    service.next_job().await.answer(Ok("done".to_owned()));
    service.ended(&task.id).await;
    let again = service.submit("same").await.unwrap();
    assert_eq!((again.id, again.status.state), (task.id, TaskState::Completed));
    drop(service.stop(None).await);
}

#[tokio::test]
async fn equal_messages_that_come_together_make_one_task() {
    let mut service = Service::start(Settings::default()).await;
    let posts: Vec<_> = (0..50)
        .map(|_| {
            let intake = service.intake.clone();
            service.tasks.spawn(async move { intake.submit(message("one", "text")).await })
        })
        .collect();
    let mut ids = std::collections::BTreeSet::new();
    for post in posts {
        ids.insert(post.await.unwrap().unwrap().id);
    }
    assert_eq!(ids.len(), 1);
    assert_eq!(service.intake.list(&ListTasks::default()).await.unwrap().total, 1);
    let running = service.next_job().await;
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn a_cancelled_task_ends_at_once_and_the_next_starts_when_its_runner_has_returned() {
    let mut service = Service::start(Settings::default()).await;
    let first = service.submit("first").await.unwrap().id;
    let second = service.submit("second").await.unwrap().id;
    let running = service.next_job().await;
    let task = service.intake.cancel(&first).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    assert!(task.text().contains("completed effects are not undone"));
    assert_eq!(service.ended(&first).await, task);
    soon(running.stop.cancelled()).await;
    assert_eq!(service.state(&second).await, Some(TaskState::Submitted));
    assert!(!service.has_job());
    running.answer(Ok("late".to_owned()));

    let running = service.next_job().await;
    assert_eq!(running.id(), &second);
    assert_eq!(service.intake.get(&first).await.unwrap(), Some(task.clone()), "it stays as it was");
    assert_eq!(service.intake.cancel(&first).await, Ok(task), "again is no error");
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn a_queued_task_is_cancelled_without_ever_running_and_an_ended_one_is_not() {
    let mut service = Service::start(Settings::default()).await;
    let first = service.submit("first").await.unwrap().id;
    let second = service.submit("second").await.unwrap().id;
    let third = service.submit("third").await.unwrap().id;
    let running = service.next_job().await;
    assert_eq!(service.intake.cancel(&second).await.unwrap().status.state, TaskState::Canceled);
    running.answer(Ok("done".to_owned()));
    let running = service.next_job().await;
    assert_eq!(running.id(), &third);
    assert_eq!(service.intake.cancel(&first).await, Err(Refusal::NotCancelable));
    let unknown = TaskId::new("unknown").unwrap();
    assert_eq!(service.intake.cancel(&unknown).await, Err(Refusal::TaskNotFound));
    assert_eq!(service.intake.ended(&unknown).await, Err(Refusal::TaskNotFound));
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn a_cancel_that_comes_with_the_claim_reaches_the_runner() {
    // Whichever of the two the writer takes first, and also in one commit, the task must not run on.
    let mut service = Service::start(Settings::default()).await;
    for round in 0..20 {
        let first = service.submit(&format!("first-{round}")).await.unwrap().id;
        let running = service.next_job().await;
        assert_eq!(running.id(), &first);
        let second = service.submit(&format!("second-{round}")).await.unwrap().id;
        let (intake, id) = (service.intake.clone(), second.clone());
        running.answer(Ok("done".to_owned()));
        let canceled = service.tasks.spawn(async move { intake.cancel(&id).await });
        assert_eq!(canceled.await.unwrap().unwrap().status.state, TaskState::Canceled);
        let after = service.submit(&format!("after-{round}")).await.unwrap().id;
        let mut running = service.next_job().await;
        if running.id() == &second {
            soon(running.stop.cancelled()).await;
            running.answer(Ok("late".to_owned()));
            running = service.next_job().await;
        }
        assert_eq!(running.id(), &after);
        running.answer(Ok("done".to_owned()));
        service.ended(&after).await;
    }
    drop(service.stop(None).await);
}

#[tokio::test]
async fn a_task_that_outlives_its_timeout_is_failed_at_once_and_told_to_stop() {
    let settings = Settings { task_timeout: Duration::from_millis(50), ..Settings::default() };
    let mut service = Service::start(settings).await;
    let first = service.submit("first").await.unwrap().id;
    let second = service.submit("second").await.unwrap().id;
    let running = service.next_job().await;
    let task = service.ended(&first).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(task.text().contains("timed out"), "{}", task.text());
    soon(running.stop.cancelled()).await;
    assert_eq!(service.state(&second).await, Some(TaskState::Submitted), "it waits");
    running.answer(Ok("late".to_owned()));
    service.next_job().await.answer(Ok("in time".to_owned()));
    service.ended(&second).await;
    assert_eq!(service.intake.get(&first).await.unwrap(), Some(task));
    drop(service.stop(None).await);
}

#[tokio::test]
async fn a_runner_that_breaks_off_fails_its_task_and_the_next_one_runs() {
    let mut service = Service::start(Settings::default()).await;
    let first = service.submit("first").await.unwrap().id;
    let second = service.submit("second").await.unwrap().id;
    service.next_job().await.break_off();
    let task = service.ended(&first).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(task.text().contains("effects may have completed; inspect before retrying"));
    service.next_job().await.answer(Ok("done".to_owned()));
    assert_eq!(service.ended(&second).await.status.state, TaskState::Completed);
    drop(service.stop(None).await);
}

#[tokio::test]
async fn a_walk_through_the_pages_never_repeats_a_task_also_when_the_clock_is_set_back() {
    let mut service = Service::start(Settings::default()).await;
    let mut ids = Vec::new();
    for number in 0..12 {
        ids.push(service.submit(&number.to_string()).await.unwrap().id);
        service.clock.advance(Duration::from_secs(1));
    }
    let running = service.next_job().await;
    let mut query = ListTasks { page_size: 3, ..ListTasks::default() };
    let mut seen = Vec::new();
    loop {
        let page = service.intake.list(&query).await.unwrap();
        seen.extend(page.tasks.iter().map(|listed| listed.task.id.clone()));
        let Some(last) = page.tasks.last().filter(|_| page.more) else { break };
        query.after = Some(last.cursor);
        // What was shown changes, and the clock says that it did so long ago.
        service.clock.set_wall(crate::service::START - Duration::from_hours(1));
        if let Some(shown) = page.tasks.first().filter(|listed| listed.task.id != ids[0]) {
            service.intake.cancel(&shown.task.id).await.unwrap();
        }
    }
    let unique: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!((seen.len(), unique.len()), (12, 12), "{seen:?}");
    drop(service.stop(Some(running)).await);
}
