//! CONTRACT section 2: receipts. Those of events stand in `events.rs`.

use serde_json::{Value, json};
use system_tests::client::{fresh_id, id_of, message, state_of};
use system_tests::home::Home;
use system_tests::process::Service;
use system_tests::wait;
use system_tests::wire::Reply;

#[test]
fn the_same_message_with_the_same_content_is_the_same_task_in_whatever_state() {
    let home = Home::new();
    let service = home.start();
    let blocked = message("working", "block a");
    let id = id_of(&send(&service, &blocked).success()["task"]);
    home.agent.wait_begun(&id);
    let again = send(&service, &blocked).success();
    assert_eq!((id_of(&again["task"]), state_of(&again["task"])), (id.clone(), "WORKING".into()));

    let queued = message("queued", "x");
    let queued_id = id_of(&send(&service, &queued).success()["task"]);
    assert_eq!(state_of(&send(&service, &queued).success()["task"]), "SUBMITTED");
    service.cancel(&queued_id).success();
    let again = send(&service, &queued).success();
    assert_eq!(state_of(&again["task"]), "CANCELED");

    home.agent.release("a");
    service.ended(&id);
    let again = send(&service, &blocked).success();
    assert_eq!((id_of(&again["task"]), state_of(&again["task"])), (id.clone(), "COMPLETED".into()));
    assert_eq!(home.agent.begun(&id), 1);
    assert_eq!(service.list("").len(), 2);
}

#[test]
fn a_blocking_repetition_waits_for_the_same_task() {
    let home = Home::new();
    let service = home.start();
    let blocked = message("twice", "block a");
    let id = id_of(&send(&service, &blocked).success()["task"]);
    let mut waiting = service.post("/message:send", &json!({"message": blocked})).begin();
    home.agent.wait_begun(&id);
    home.agent.release("a");
    let answer = waiting.reply().unwrap().success();
    assert_eq!((id_of(&answer["task"]), state_of(&answer["task"])), (id, "COMPLETED".into()));
}

#[test]
fn the_same_message_id_with_other_content_is_409() {
    let base = json!({
        "messageId": "one", "role": "ROLE_USER", "contextId": "c",
        "parts": [{"text": "a"}, {"text": "b"}], "metadata": {"key": 1},
    });
    let home = Home::new();
    let service = home.start();
    let id = id_of(&send(&service, &base).success()["task"]);
    let others = [
        ("another context", with(&base, &json!({"contextId": "d"}))),
        ("no context", with(&base, &json!({"contextId": null}))),
        ("other text", with(&base, &json!({"parts": [{"text": "a"}, {"text": "B"}]}))),
        ("the same text in one part", with(&base, &json!({"parts": [{"text": "a\nb"}]}))),
        ("another order", with(&base, &json!({"parts": [{"text": "b"}, {"text": "a"}]}))),
        ("other metadata", with(&base, &json!({"metadata": {"key": 2}}))),
        ("no metadata", with(&base, &json!({"metadata": null}))),
        (
            "a delegation depth",
            with(&base, &json!({"metadata": {"key": 1, "wendy.delegation_depth": 1}})),
        ),
    ];
    for (name, other) in others {
        let reply = send(&service, &other);
        assert_eq!(reply.status, 409, "{name}: {}", reply.text());
        reply.error(409, "ALREADY_EXISTS");
    }
    assert_eq!(id_of(&send(&service, &base).success()["task"]), id);
    assert_eq!(service.list("").len(), 1);
}

#[test]
fn configuration_and_unknown_fields_are_not_content() {
    let home = Home::new();
    let service = home.start();
    let base = message("one", "a");
    let id =
        id_of(&service.post("/message:send", &json!({"message": base})).send().success()["task"]);
    let same = [
        json!({"message": base, "configuration": {"returnImmediately": true}}),
        json!({"message": base, "configuration": {"historyLength": 0}}),
        json!({"message": base, "configuration": {"acceptedOutputModes": ["text/plain"]}}),
        json!({"message": with(&base, &json!({"futureField": 5})), "other": 1}),
    ];
    for body in same {
        let answer = service.post("/message:send", &body).send().success();
        assert_eq!(id_of(&answer["task"]), id, "{body}");
    }
}

#[test]
fn a_repetition_whose_task_is_no_longer_retained_is_409() {
    let home = Home::with(|config| config.with("max_tasks", 1));
    let service = home.start();
    let first = message("first", "a");
    service.post("/message:send", &json!({"message": first})).send().success();
    wait::until("the task makes room", || {
        (send(&service, &message(&fresh_id(), "b")).status == 200).then_some(())
    });
    send(&service, &first).error(409, "ALREADY_EXISTS");
}

#[test]
fn receipts_are_looked_up_before_every_limit() {
    let home = Home::with(|config| config.with("max_tasks", 1));
    let service = home.start();
    let only = message("only", "block a");
    let id = id_of(&send(&service, &only).success()["task"]);
    send(&service, &message("new", "b")).error(429, "RESOURCE_EXHAUSTED");
    assert_eq!(id_of(&send(&service, &only).success()["task"]), id);
    send(&service, &message("only", "other")).error(409, "ALREADY_EXISTS");
    // What was refused has no receipt: its ID is free for the same or for other content.
    home.agent.release("a");
    service.ended(&id);
    wait::until("the worker gives the task up", || {
        (send(&service, &message("new", "other")).status == 200).then_some(())
    });
}

#[test]
fn a_message_that_was_refused_has_no_receipt() {
    let home = Home::new();
    let service = home.start();
    let bad = json!({"messageId": "x", "role": "ROLE_USER", "parts": [{"text": ""}]});
    send(&service, &bad).error(400, "INVALID_PARAMS");
    send(&service, &message("x", "fine")).success();
}

#[test]
fn receipts_survive_a_restart() {
    let home = Home::new();
    let service = home.start();
    let first = message("first", "a");
    let id = id_of(&send(&service, &first).success()["task"]);
    service.ended(&id);
    service.kill();
    let service = home.start();
    assert_eq!(id_of(&send(&service, &first).success()["task"]), id);
    send(&service, &message("first", "other")).error(409, "ALREADY_EXISTS");
    assert_eq!(home.agent.begun(&id), 1);
}

#[test]
fn message_ids_and_event_ids_do_not_meet() {
    let home = Home::with(|config| config.trigger(system_tests::events::trigger()));
    let service = home.start();
    send(&service, &message("same", "a")).success();
    service.fire(&system_tests::events::event("same", system_tests::events::now()));
}

#[track_caller]
fn send(service: &Service, message: &Value) -> Reply {
    service.send_message(message, &json!({"returnImmediately": true}))
}

fn with(base: &Value, fields: &Value) -> Value {
    let mut base = base.clone();
    for (name, value) in fields.as_object().unwrap() {
        base[name] = value.clone();
    }
    base
}
