//! CONTRACT section 3, `message:send`.

use serde_json::{Value, json};
use system_tests::client::{fresh_id, id_of, message, result_of, state_of, words};
use system_tests::home::Home;
use system_tests::process::Service;
use system_tests::wire::Reply;

#[test]
fn the_role_must_be_role_user() {
    let home = Home::new();
    let service = home.start();
    for role in
        [json!("ROLE_AGENT"), json!("ROLE_UNSPECIFIED"), json!("user"), json!(2), json!(null)]
    {
        refused(&service, "role", &json!({"role": role}));
    }
    accepted(&service, &json!({"role": "ROLE_USER"}));
}

#[test]
fn the_message_id_has_1_to_256_bytes_and_is_not_blank() {
    let home = Home::new();
    let service = home.start();
    accepted(&service, &json!({"messageId": "m".repeat(256)}));
    accepted(&service, &json!({"messageId": "é".repeat(128)}));
    for id in [
        json!("m".repeat(257)),
        json!("é".repeat(129)),
        json!(""),
        json!(" \t\n"),
        json!(5),
        json!(null),
    ] {
        refused(&service, "messageId", &json!({"messageId": id}));
    }
}

#[test]
fn the_context_id_has_at_most_256_bytes_and_is_kept() {
    let home = Home::new();
    let service = home.start();
    let context = "c".repeat(256);
    let task = accepted(&service, &json!({"contextId": context}));
    assert_eq!(task["contextId"], context);
    refused(&service, "contextId", &json!({"contextId": "c".repeat(257)}));
}

#[test]
fn a_new_context_id_is_made_when_there_is_none() {
    let home = Home::new();
    let service = home.start();
    let contexts: Vec<Value> = [json!({}), json!({"contextId": ""}), json!({"contextId": null})]
        .iter()
        .map(|fields| accepted(&service, fields)["contextId"].clone())
        .collect();
    for context in &contexts {
        assert!(!context.as_str().unwrap().is_empty());
        assert_eq!(contexts.iter().filter(|other| *other == context).count(), 1);
    }
}

#[test]
fn an_unknown_task_id_is_task_not_found_and_a_known_one_no_continuation() {
    let home = Home::new();
    let service = home.start();
    let id = id_of(&accepted(&service, &json!({"taskId": ""})));
    send(&service, &json!({"taskId": "unknown"})).error(404, "TASK_NOT_FOUND");
    send(&service, &json!({"taskId": id})).error(400, "UNSUPPORTED_OPERATION");
    assert_eq!(service.list("").len(), 1);
}

#[test]
fn there_are_1_to_32_parts() {
    let home = Home::new();
    let service = home.start();
    accepted(&service, &json!({"parts": vec![json!({"text": "x"}); 32]}));
    refused(&service, "parts", &json!({"parts": vec![json!({"text": "x"}); 33]}));
    for parts in
        [json!([]), json!(null), json!("x"), json!({"text": "x"}), json!([null]), json!(["x"])]
    {
        refused(&service, "parts", &json!({"parts": parts}));
    }
}

#[test]
fn each_part_has_text_that_is_not_empty() {
    let home = Home::new();
    let service = home.start();
    refused(&service, "text", &json!({"parts": [{"text": "x"}, {"text": ""}]}));
    refused(&service, "text", &json!({"parts": [{"text": 5}]}));
}

#[test]
fn a_part_without_text_is_content_type_not_supported() {
    let home = Home::new();
    let service = home.start();
    let parts = [
        json!({"raw": "aGk="}),
        json!({"url": "https://example.org/x"}),
        json!({"data": {"a": 1}}),
        json!({"data": null}),
    ];
    for part in parts {
        let reply = send(&service, &json!({"parts": [{"text": "x"}, part]}));
        // A part with two kinds of content is no ProtoJSON at all; these have one.
        reply.error(400, "CONTENT_TYPE_NOT_SUPPORTED");
    }
    send(&service, &json!({"parts": [{"text": "x", "url": "https://example.org"}]}))
        .error(400, "INVALID_PARAMS");
    accepted(&service, &json!({"parts": [{"text": "x", "mediaType": "text/plain"}]}));
}

#[test]
fn the_parts_joined_with_a_newline_are_the_prompt() {
    let home = Home::new();
    let service = home.start();
    let parts = json!([{"text": "one"}, {"text": "two"}, {"text": " three"}]);
    let body = json!({"message": with(&json!({"parts": parts}))});
    let task = service.post("/message:send", &body).send().success()["task"].clone();
    assert_eq!(result_of(&task), "done: one\ntwo\n three");
}

#[test]
fn the_joined_text_has_1_to_16000_bytes_and_is_not_blank() {
    let home = Home::new();
    let service = home.start();
    accepted(&service, &json!({"parts": [{"text": "x".repeat(16_000)}]}));
    accepted(
        &service,
        &json!({"parts": [{"text": "x".repeat(8_000)}, {"text": "y".repeat(7_999)}]}),
    );
    refused(&service, "parts", &json!({"parts": [{"text": "x".repeat(16_001)}]}));
    let joined = json!([{"text": "x".repeat(8_000)}, {"text": "y".repeat(8_000)}]);
    refused(&service, "parts", &json!({"parts": joined}));
    refused(&service, "parts", &json!({"parts": [{"text": " "}, {"text": "\n\t"}]}));
}

#[test]
fn the_delegation_depth_is_an_integer_from_0_to_4() {
    let home = Home::new();
    let service = home.start();
    for depth in [json!(0), json!(4), json!(2.0)] {
        accepted(&service, &json!({"metadata": {"wendy.delegation_depth": depth}}));
    }
    for depth in [json!(5), json!(-1), json!(1.5), json!("1"), json!(true), json!(null), json!({})]
    {
        refused(
            &service,
            "wendy.delegation_depth",
            &json!({"metadata": {"wendy.delegation_depth": depth}}),
        );
    }
}

#[test]
fn metadata_is_an_object_and_reaches_the_agent() {
    let home = Home::new();
    let service = home.start();
    refused(&service, "metadata", &json!({"metadata": [1]}));
    let fields = json!({"metadata": {"k": {"deep": [1, "é"]}}, "contextId": "c", "messageId": "m",
        "parts": [{"text": "request"}]});
    let body = json!({"message": with(&fields)});
    let task = service.post("/message:send", &body).send().success()["task"].clone();
    let request: Value = serde_json::from_str(&result_of(&task)).unwrap();
    let trigger = &request["trigger"];
    assert_eq!(trigger["source"], "a2a");
    assert_eq!(trigger["session_id"], "c");
    assert_eq!(trigger["reply_to"], task["id"]);
    assert_eq!(
        trigger["payload"],
        json!({
            "text": "request", "context_id": "c", "task_id": task["id"], "message_id": "m",
            "metadata": {"k": {"deep": [1, "é"]}},
        })
    );
    let deadline = request["deadline_seconds"].as_u64().unwrap();
    assert!((500..=600).contains(&deadline), "what remains of 600 s: {deadline}");
    assert_eq!((&request["kind"], &request["agent"]), (&json!("request"), &json!("tested")));
}

#[test]
fn return_immediately_answers_with_the_task_at_once() {
    let home = Home::new();
    let service = home.start();
    let task = service.submit("block a");
    assert!(matches!(state_of(&task).as_str(), "SUBMITTED" | "WORKING"), "{task}");
    home.agent.release("a");
}

#[test]
fn without_it_the_call_waits_for_a_terminal_state() {
    let home = Home::new();
    let service = home.start();
    let configurations = [json!({}), json!(null), json!({"returnImmediately": false})];
    for configuration in configurations {
        let reply = service.send_message(&message(&fresh_id(), "x"), &configuration);
        assert_eq!(state_of(&reply.success()["task"]), "COMPLETED", "{configuration}");
    }
    let mut waiting =
        service.post("/message:send", &json!({"message": message("w", "block a")})).begin();
    system_tests::wait::until("it runs", || {
        home.agent.effects().iter().any(|line| line.ends_with("block a")).then_some(())
    });
    service.cancel(&id_of(&service.list("status=TASK_STATE_WORKING")[0])).success();
    assert_eq!(state_of(&waiting.reply().unwrap().success()["task"]), "CANCELED");
    for bad in [json!("true"), json!(1)] {
        let reply = service.send_message(&message("b", "x"), &json!({"returnImmediately": bad}));
        reply.error(400, "INVALID_PARAMS");
    }
}

#[test]
fn accepted_output_modes_must_allow_text_plain() {
    let home = Home::new();
    let service = home.start();
    let send = |modes: &Value| {
        service.send_message(&message(&fresh_id(), "x"), &json!({"acceptedOutputModes": modes}))
    };
    for modes in [
        json!(["text/plain"]),
        json!(["text/*"]),
        json!(["*/*"]),
        json!(["image/png", "text/plain"]),
        json!([]),
        json!(null),
    ] {
        let reply = send(&modes);
        assert_eq!(reply.status, 200, "{modes}: {}", reply.text());
    }
    for modes in [json!(["application/json"]), json!(["image/*", "text/html"])] {
        send(&modes).error(400, "CONTENT_TYPE_NOT_SUPPORTED");
    }
}

#[test]
fn a_push_configuration_that_is_not_null_is_push_notification_not_supported() {
    let home = Home::new();
    let service = home.start();
    let send = |push: Value| {
        let configuration = json!({"taskPushNotificationConfig": push});
        service.send_message(&message(&fresh_id(), "x"), &configuration)
    };
    send(json!(null)).success();
    for push in [json!({"url": "https://example.org/hook"}), json!({})] {
        send(push).error(400, "PUSH_NOTIFICATION_NOT_SUPPORTED");
    }
    assert_eq!(service.list("").len(), 1);
}

#[test]
fn a_history_length_below_0_is_400() {
    let home = Home::new();
    let service = home.start();
    for length in [json!(-1), json!("-1"), json!(1.5), json!("x"), json!(3_000_000_000_u32)] {
        let reply = service.send_message(&message("m", "x"), &json!({"historyLength": length}));
        let error = reply.error(400, "INVALID_PARAMS");
        assert!(words(&error).contains("historyLength"), "{error}");
    }
}

#[test]
fn the_history_holds_the_users_message_and_history_length_0_leaves_it_out() {
    let home = Home::new();
    let service = home.start();
    let sent = json!({
        "messageId": "m", "role": "ROLE_USER", "contextId": "c",
        "parts": [{"text": "one"}, {"text": "two"}], "metadata": {"k": 1},
    });
    let task = service.send_message(&sent, &json!({})).success()["task"].clone();
    let id = id_of(&task);
    let history = task["history"].as_array().unwrap();
    let [kept] = history.as_slice() else { panic!("one message: {task}") };
    for field in ["messageId", "role", "contextId", "parts", "metadata"] {
        assert_eq!(kept[field], sent[field], "{field}");
    }
    assert_eq!(kept["taskId"], task["id"]);
    let without = service.send_message(&sent, &json!({"historyLength": 0})).success();
    assert!(without["task"].get("history").is_none(), "{without}");
    for (query, there) in [
        ("", true),
        ("?historyLength=", true),
        ("?historyLength=0", false),
        ("?historyLength=5", true),
    ] {
        let task = service.get(&format!("/tasks/{id}{query}")).send().success();
        assert_eq!(task.get("history").is_some(), there, "{query}");
    }
    service.get(&format!("/tasks/{id}?historyLength=-1")).send().error(400, "INVALID_PARAMS");
}

#[test]
fn a_task_has_no_field_that_the_proto_lacks() {
    let home = Home::new();
    let service = home.start();
    for text in ["x", "fail y"] {
        let task = service.run(text);
        let allowed = ["id", "contextId", "status", "artifacts", "history", "metadata"];
        for name in task.as_object().unwrap().keys() {
            assert!(allowed.contains(&name.as_str()), "{name}");
        }
        for name in task["status"].as_object().unwrap().keys() {
            assert!(["state", "message", "timestamp"].contains(&name.as_str()), "{name}");
        }
    }
}

#[test]
fn timestamps_are_utc_with_milliseconds_and_z() {
    let home = Home::new();
    let task = home.start().run("x");
    let timestamp = task["status"]["timestamp"].as_str().unwrap();
    let shape: String =
        timestamp.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z");
    let time: jiff::Timestamp = timestamp.parse().unwrap();
    let age = system_tests::events::now().duration_since(time);
    assert!(age.as_secs().abs() < 60, "{timestamp}");
}

#[test]
fn an_answer_to_a_send_is_the_task_alone_under_its_name() {
    let home = Home::new();
    let service = home.start();
    let answer = service.send_message(&message("m", "x"), &json!({})).success();
    assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["task"]);
}

fn with(fields: &Value) -> Value {
    let mut base = message(&fresh_id(), "x");
    for (name, value) in fields.as_object().unwrap() {
        base[name] = value.clone();
    }
    base
}

#[track_caller]
fn send(service: &Service, fields: &Value) -> Reply {
    service.send_message(&with(fields), &json!({"returnImmediately": true}))
}

#[track_caller]
fn accepted(service: &Service, fields: &Value) -> Value {
    let reply = send(service, fields);
    assert_eq!(reply.status, 200, "{fields}: {}", reply.text());
    reply.success()["task"].clone()
}

#[track_caller]
fn refused(service: &Service, field: &str, fields: &Value) {
    let reply = send(service, fields);
    assert_eq!(reply.status, 400, "{fields}: {}", reply.text());
    let error = reply.error(400, "INVALID_PARAMS");
    assert!(error.to_string().contains(field), "{field} is not named: {error}");
}
