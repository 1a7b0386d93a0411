//! CONTRACT section 2: the orderly stop.

use nix::sys::signal::Signal;
use serde_json::json;
use system_tests::client::{fresh_id, id_of, message, state_of, status_text};
use system_tests::events::{event, now, trigger};
use system_tests::home::Home;
use system_tests::process::Service;
use system_tests::wait;

#[test]
fn sigterm_and_sigint_end_the_process_with_exit_0() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let home = Home::new();
        let service = home.start();
        service.run("some work");
        service.program.signal(signal);
        service.program.wait().expect(0);
    }
}

#[test]
fn from_the_signal_on_submissions_and_events_are_503_with_retry_after_5() {
    let home = Home::with(|config| config.trigger(trigger()));
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    service.program.signal(Signal::SIGTERM);
    let refused = first_refusal(&service);
    refused.error(503, "UNAVAILABLE");
    assert_eq!(refused.retry_after(), 5);
    let refused = service.event(&event("e", now()));
    refused.error(503, "UNAVAILABLE");
    assert_eq!(refused.retry_after(), 5);
    assert_eq!(service.get("/readyz").send().status, 503);
    home.agent.release("a");
    service.program.wait().expect(0);
}

#[test]
fn the_running_task_may_finish_and_queued_ones_wait_for_the_next_start() {
    let home = Home::new();
    let service = home.start();
    let working = service.submit_id("block a");
    let queued = service.submit_id("queued");
    home.agent.wait_begun(&working);
    service.program.signal(Signal::SIGTERM);
    first_refusal(&service);
    home.agent.release("a");
    service.program.wait().expect(0);
    assert_eq!(home.agent.begun(&queued), 0);
    let service = home.start();
    assert_eq!(service.state(&working), "COMPLETED");
    assert_eq!(state_of(&service.ended(&queued)), "COMPLETED");
}

#[test]
fn a_blocked_send_gets_its_task_if_that_ends_during_the_stop() {
    let home = Home::new();
    let service = home.start();
    let body = json!({"message": message("blocked", "block a")});
    let mut blocked = service.post("/message:send", &body).begin();
    wait::until("the task runs", || (!home.agent.effects().is_empty()).then_some(()));
    service.program.signal(Signal::SIGTERM);
    first_refusal(&service);
    home.agent.release("a");
    let answer = blocked.reply().unwrap().success();
    assert_eq!(state_of(&answer["task"]), "COMPLETED");
    service.program.wait().expect(0);
}

#[test]
fn a_task_that_outlives_the_grace_is_failed_with_the_text_of_a_crash_and_never_runs_again() {
    let home = Home::with(|config| config.with("server.shutdown_grace_seconds", 1));
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    service.stop().expect(0);

    let service = home.start();
    let stopped = service.task(&working);
    assert_eq!(state_of(&stopped), "FAILED");
    let crashed = service.submit_id("block b");
    home.agent.wait_begun(&crashed);
    service.kill();
    let service = home.start();
    let crashed = service.task(&crashed);
    assert_eq!(state_of(&crashed), "FAILED");
    assert_eq!(status_text(&stopped), status_text(&crashed));
    for word in ["effects may have completed", "inspect before retrying"] {
        assert!(status_text(&stopped).contains(word), "{stopped}");
    }
    assert_eq!(home.agent.begun(&working), 1);
}

#[test]
fn a_blocked_send_whose_task_stays_queued_is_503_and_its_retry_finds_the_task() {
    let home = Home::new();
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    let body = json!({"message": message("waiting", "queued")});
    let mut blocked = service.post("/message:send", &body).begin();
    let queued = wait::until("the task is queued", || {
        service.list("status=TASK_STATE_SUBMITTED").first().map(id_of)
    });
    service.program.signal(Signal::SIGTERM);
    first_refusal(&service);
    home.agent.release("a");
    let refused = blocked.reply().unwrap();
    refused.error(503, "UNAVAILABLE");
    assert_eq!(refused.retry_after(), 5);
    service.program.wait().expect(0);

    let service = home.start();
    let answer = service.post("/message:send", &body).send().success();
    assert_eq!((id_of(&answer["task"]), state_of(&answer["task"])), (queued, "COMPLETED".into()));
}

#[test]
fn a_second_process_starts_at_once_after_an_orderly_stop() {
    let home = Home::new();
    for _ in 0..3 {
        home.start().stop().expect(0);
    }
}

/// Waits until the signal has arrived: the first submission that is refused.
#[track_caller]
fn first_refusal(service: &Service) -> system_tests::wire::Reply {
    wait::until("submissions are refused", || {
        let reply = service
            .send_message(&message(&fresh_id(), "late"), &json!({"returnImmediately": true}));
        (reply.status != 200).then_some(reply)
    })
}
