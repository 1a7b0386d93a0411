//! Events through the limiter and the triggers into the queue.

use std::time::Duration;

use agent_service::refusal::Refusal;
use agent_service::runner::Origin;
use agent_wire::a2a::task::TaskState;
use agent_wire::event::EventAnswer;
use agent_wire::value::TaskId;
use jiff::SignedDuration;

use crate::service::{Backend, START, Service, Settings, observation, soon};

fn task_of(answer: &EventAnswer) -> TaskId {
    TaskId::new(answer.task_id.clone().expect("no task was queued")).unwrap()
}

#[tokio::test]
async fn an_event_that_fires_becomes_a_task_whose_prompt_quotes_it_as_data() {
    let mut service = Service::start(Settings::default()).await;
    let answer = service.intake.event(service.observation("1")).await.unwrap();
    assert!(answer.accepted && answer.reason.is_none());
    let running = service.next_job().await;
    assert_eq!(running.id(), &task_of(&answer));
    assert!(running.job.prompt.starts_with("Look.\n\n<untrusted_sensor_event_json>\n\""));
    let context = running.job.context.as_str();
    assert!(context.len() == 38 && context.starts_with("event-"), "{context}");
    let Origin::Event { event, .. } = &running.job.origin else { panic!("not an event") };
    assert_eq!(event.id().as_str(), "1");
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn ten_new_events_come_at_once_and_then_one_each_100_ms_and_repetitions_are_free() {
    let service = Service::start(Settings::default()).await;
    let post = async |id: &str| service.intake.event(observation(id, "nobody", START, None)).await;
    for number in 0..10 {
        let answer = post(&number.to_string()).await.unwrap();
        assert_eq!(answer.reason.as_deref(), Some("no matching trigger"));
    }
    let limited = post("10").await;
    assert!(
        matches!(limited, Err(Refusal::Exhausted { retry_after_seconds: 1, .. })),
        "{limited:?}"
    );
    for _ in 0..20 {
        assert_eq!(post("3").await.unwrap().reason.as_deref(), Some("no matching trigger"));
    }
    let spent = service.intake.event(observation("3", "nobody", START, Some(0.1))).await;
    assert!(matches!(spent, Err(Refusal::AlreadyExists(_))), "{spent:?}");
    service.clock.advance(Duration::from_millis(99));
    assert!(post("10").await.is_err());
    service.clock.advance(Duration::from_millis(1));
    assert!(post("10").await.is_ok());
    assert!(post("11").await.is_err());
    drop(service.stop(None).await);
}

#[tokio::test]
async fn equal_events_that_come_together_cost_one_token_and_make_one_task() {
    let mut service = Service::start(Settings::default()).await;
    let event = service.observation("1");
    let posts: Vec<_> = (0..10)
        .map(|_| {
            let (intake, event) = (service.intake.clone(), event.clone());
            service.tasks.spawn(async move { intake.event(event).await })
        })
        .collect();
    let mut answers = Vec::new();
    for post in posts {
        answers.push(post.await.unwrap().unwrap());
    }
    answers.dedup();
    assert_eq!(answers.len(), 1);
    let running = service.next_job().await;
    // Nine tokens are left, whatever came first.
    for number in 0..9 {
        let event = observation(&format!("n{number}"), "nobody", START, None);
        service.intake.event(event).await.unwrap();
    }
    assert!(service.intake.event(observation("last", "nobody", START, None)).await.is_err());
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn a_queued_observation_that_becomes_stale_is_rejected_while_another_task_runs() {
    let mut service = Service::start(Settings { max_tasks: 2, ..Settings::default() }).await;
    service.submit("long").await.unwrap();
    let running = service.next_job().await;
    let stale = task_of(&service.intake.event(service.observation("1")).await.unwrap());
    assert!(matches!(service.submit("no place").await, Err(Refusal::Exhausted { .. })));
    service.clock.advance(Duration::from_millis(9_999));
    assert_eq!(service.state(&stale).await, Some(TaskState::Submitted));
    service.clock.advance(Duration::from_millis(1));
    let task = service.ended(&stale).await;
    assert_eq!(task.status.state, TaskState::Rejected);
    assert!(task.text().contains("never ran") && task.artifacts.is_empty());
    let next = service.submit("a place").await.unwrap().id;
    running.answer(Ok("done".to_owned()));
    let running = service.next_job().await;
    assert_eq!(running.id(), &next);
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn expiry_follows_the_wall_clock_when_that_is_set() {
    let mut service = Service::start(Settings::default()).await;
    service.submit("long").await.unwrap();
    let running = service.next_job().await;
    let stale = task_of(&service.intake.event(service.observation("1")).await.unwrap());
    service.clock.set_wall(START + SignedDuration::from_secs(11));
    assert_eq!(service.ended(&stale).await.status.state, TaskState::Rejected);
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn a_working_observation_does_not_expire() {
    let mut service = Service::start(Settings::default()).await;
    let id = task_of(&service.intake.event(service.observation("1")).await.unwrap());
    let running = service.next_job().await;
    service.clock.advance(Duration::from_mins(1));
    // Something else expires meanwhile, so that the expiry has looked.
    let other = task_of(&service.intake.event(service.observation("2")).await.unwrap());
    service.clock.advance(Duration::from_mins(1));
    assert_eq!(service.ended(&other).await.status.state, TaskState::Rejected);
    assert_eq!(service.state(&id).await, Some(TaskState::Working));
    running.answer(Ok("seen".to_owned()));
    assert_eq!(service.ended(&id).await.status.state, TaskState::Completed);
    drop(service.stop(None).await);
}

#[tokio::test]
async fn a_queued_observation_that_expired_while_the_service_was_down_never_runs() {
    let mut service = Service::start(Settings::default()).await;
    service.submit("long").await.unwrap();
    let running = service.next_job().await;
    let stale = task_of(&service.intake.event(service.observation("1")).await.unwrap());
    let fresh = service.submit("message").await.unwrap().id;
    let (directory, settings, clock) = service.stop(Some(running)).await;
    clock.advance(Duration::from_secs(11));
    let mut service = Service::open(directory, settings, clock).await;
    let running = service.next_job().await;
    assert_eq!(running.id(), &fresh);
    assert_eq!(service.state(&stale).await, Some(TaskState::Rejected));
    drop(service.stop(Some(running)).await);
}

#[tokio::test]
async fn sequence_cooldown_and_answers_survive_a_crash() {
    let settings =
        Settings { consecutive: 2, cooldown: SignedDuration::from_secs(30), ..Settings::default() };
    let service = Service::start(settings).await;
    let first = service.observation("1");
    let waiting = service.intake.event(first.clone()).await.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("waiting for consecutive observations"));

    let mut service = service.crash(None).await;
    assert_eq!(service.intake.event(first).await, Ok(waiting));
    service.clock.advance(Duration::from_secs(1));
    let second = service.observation("2");
    let fired = service.intake.event(second.clone()).await.unwrap();
    assert!(fired.accepted, "the sequence went on");
    let running = service.next_job().await;

    let service = service.crash(Some(running)).await;
    assert_eq!(service.intake.event(second).await, Ok(fired));
    service.clock.advance(Duration::from_secs(29));
    let quiet = service.intake.event(service.observation("3")).await.unwrap();
    assert_eq!(quiet.reason.as_deref(), Some("cooldown"));
    service.clock.advance(Duration::from_secs(1));
    let again = service.intake.event(service.observation("4")).await.unwrap();
    assert!(again.accepted, "the cooldown is over, and the sequence kept growing");
    soon(service.crashed_copy()).await;
}

#[tokio::test]
async fn a_clock_that_was_set_back_starts_the_cooldown_again_at_the_start() {
    let settings = Settings { cooldown: SignedDuration::from_secs(30), ..Settings::default() };
    let mut service = Service::start(settings).await;
    service.intake.event(service.observation("1")).await.unwrap();
    let running = service.next_job().await;
    service.clock.set_wall(START - SignedDuration::from_hours(1));
    let service = service.restart(Some(running)).await;
    service.clock.advance(Duration::from_secs(29));
    let quiet = service.intake.event(service.observation("2")).await.unwrap();
    assert_eq!(quiet.reason.as_deref(), Some("cooldown"));
    service.clock.advance(Duration::from_secs(1));
    assert!(service.intake.event(service.observation("3")).await.unwrap().accepted);
}
