//! CONTRACT section 3: what a body may be, and how it is read.

use serde_json::{Value, json};
use system_tests::client::{Call, fresh_id, message, words};
use system_tests::events::{event, now, trigger};
use system_tests::home::Home;

#[test]
fn a_body_over_64_kib_is_413() {
    let home = Home::with(|config| config.trigger(trigger()));
    let service = home.start();
    for path in ["/message:send", "/events"] {
        let padded = |length: usize| {
            let body = if path == "/events" {
                event(&fresh_id(), now()).to_string()
            } else {
                json!({"message": message(&fresh_id(), "x")}).to_string()
            };
            // Blanks after the value count, and are no fault of it.
            format!("{body}{}", " ".repeat(length - body.len()))
        };
        let post = |body: String| service.call("POST", path).body(body).send();
        post(padded(65_536)).success();
        post(padded(65_537)).error(413, "INVALID_PARAMS");
    }
    // Announced, and never sent: refused without waiting for it.
    let mut wire = service.connect();
    let call = service.call("POST", "/events").add("Content-Length", "100000000");
    wire.send(call.to_bytes()).unwrap();
    wire.reply().unwrap().error(413, "INVALID_PARAMS");
    // In chunks, so that no length is announced.
    let mut wire = service.connect();
    let call = service.call("POST", "/events").add("Transfer-Encoding", "chunked");
    wire.send(call.to_bytes()).unwrap();
    for _ in 0..17 {
        // It may have answered and closed by the last chunk.
        wire.send(format!("1000\r\n{}\r\n", " ".repeat(4096))).ok();
    }
    wire.send("0\r\n\r\n").ok();
    wire.reply().unwrap().error(413, "INVALID_PARAMS");
}

#[test]
fn a_chunked_body_is_read_as_any_other() {
    let home = Home::new();
    let service = home.start();
    let body = json!({"message": message("chunked", "hello")}).to_string();
    let (first, second) = body.split_at(10);
    let mut wire = service.connect();
    let call = service.call("POST", "/message:send").add("Transfer-Encoding", "chunked");
    wire.send(call.to_bytes()).unwrap();
    wire.send(format!(
        "{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    ))
    .unwrap();
    wire.reply().unwrap().success();
}

#[test]
fn content_type_is_json_or_a2a_json_in_any_case_with_parameters_or_absent() {
    let home = Home::with(|config| config.trigger(trigger()));
    let service = home.start();
    let fine = [
        None,
        Some("application/json"),
        Some("application/a2a+json"),
        Some("Application/JSON"),
        Some("application/json; charset=utf-8"),
        Some("application/a2a+json;profile=\"x\""),
    ];
    let refused =
        ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "json", ""];
    for path in ["/message:send", "/events"] {
        let post = |kind: Option<&str>| {
            let body = if path == "/events" {
                event(&fresh_id(), now())
            } else {
                json!({
                    "message": message(&fresh_id(), "x"),
                    "configuration": {"returnImmediately": true},
                })
            };
            let mut call = service.call("POST", path).body(body.to_string());
            if let Some(kind) = kind {
                call = call.add("Content-Type", kind);
            }
            call.send()
        };
        for kind in fine {
            let reply = post(kind);
            assert_eq!(reply.status, 200, "{path} {kind:?}: {}", reply.text());
        }
        for kind in refused {
            let reply = post(Some(kind));
            assert_eq!(reply.status, 415, "{path} {kind:?}: {}", reply.text());
            reply.error(415, "INVALID_PARAMS");
        }
    }
}

#[test]
fn accept_is_never_a_reason_to_refuse() {
    let home = Home::new();
    let service = home.start();
    for accept in ["text/html", "image/png;q=0.1", "", "nonsense", "application/json"] {
        service.get("/tasks").add("Accept", accept).send().success();
        let task = json!({"message": message(&fresh_id(), "x")});
        service.post("/message:send", &task).add("Accept", accept).send().success();
    }
}

#[test]
fn on_a2a_operations_unknown_fields_are_ignored() {
    let home = Home::new();
    let service = home.start();
    let body = json!({
        "message": {
            "messageId": "m", "role": "ROLE_USER", "future": {"a": [1]},
            "parts": [{"text": "x", "alsoNew": 1}], "extensions": ["urn:x"],
        },
        "configuration": {"newSetting": true},
        "later": null,
    });
    service.post("/message:send", &body).send().success();
    service.get("/tasks?unknown=1&contextId=").send().success();
}

#[test]
fn on_a2a_operations_protojson_forms_are_understood() {
    let home = Home::new();
    let service = home.start();
    let bodies = [
        (
            "null is unset",
            json!({
                "message": {"messageId": "a", "role": "ROLE_USER", "contextId": null, "taskId": null,
                    "metadata": null, "parts": [{"text": "x", "url": null, "metadata": null}]},
                "configuration": null, "metadata": null, "tenant": null,
            }),
        ),
        (
            "snake_case names",
            json!({
                "message": {"message_id": "b", "role": "ROLE_USER", "context_id": "c",
                    "parts": [{"text": "x", "media_type": "text/plain"}]},
                "configuration": {"history_length": 0, "accepted_output_modes": ["text/plain"]},
            }),
        ),
        (
            "integer enums",
            json!({
                "message": {"messageId": "c", "role": 1, "parts": [{"text": "x"}]},
            }),
        ),
        (
            "a number in a string",
            json!({
                "message": message("d", "x"), "configuration": {"historyLength": "0"},
            }),
        ),
        (
            "a whole number with a point",
            json!({
                "message": message("e", "x"), "configuration": {"historyLength": 0.0},
            }),
        ),
    ];
    for (name, body) in bodies {
        let reply = service.post("/message:send", &body).send();
        assert_eq!(reply.status, 200, "{name}: {}", reply.text());
        let task = reply.success()["task"].clone();
        if name == "snake_case names" {
            assert_eq!(task["contextId"], "c");
            assert!(task.get("history").is_none(), "{task}");
        }
    }
}

#[test]
fn on_events_unknown_fields_are_errors_that_name_the_field() {
    let home = Home::new();
    let service = home.start();
    let mut event = event("e", now());
    event["confidense"] = json!(0.5);
    let error = service.event(&event).error(400, "INVALID_PARAMS");
    assert!(words(&error).contains("confidense"), "{error}");
}

#[test]
fn a_validation_error_adds_bad_request_with_the_fields() {
    let home = Home::new();
    let service = home.start();
    let cases = [
        (json!({"message": message("", "x")}), "message.messageId"),
        (json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}), "message.parts"),
        (json!({}), "message"),
    ];
    for (body, field) in cases {
        let error = service.post("/message:send", &body).send().error(400, "INVALID_PARAMS");
        assert!(violations(&error).contains(&field.to_owned()), "{error}");
    }
    let mut event = event("e", now());
    event["confidence"] = json!(2);
    let error = service.event(&event).error(400, "INVALID_PARAMS");
    assert_eq!(violations(&error), ["confidence"]);
    let error = service.get("/tasks?pageSize=0").send().error(400, "INVALID_PARAMS");
    assert_eq!(violations(&error), ["pageSize"]);
}

#[test]
fn cancel_takes_no_body_an_empty_one_or_an_object() {
    let home = Home::new();
    let service = home.start();
    let cancel = |call: fn(Call) -> Call| {
        let id = service.submit_id("block a");
        call(service.call("POST", &format!("/tasks/{id}:cancel"))).send()
    };
    let fine: [(&str, fn(Call) -> Call); 5] = [
        ("none", |call| call),
        ("none with a type", |call| call.add("Content-Type", "application/json")),
        ("an empty one", |call| call.add("Content-Type", "application/json").body("")),
        ("an object", |call| call.add("Content-Type", "application/json").body("{\"id\": \"x\"}")),
        ("an empty object", |call| call.body("{}")),
    ];
    for (name, body) in fine {
        let reply = cancel(body);
        assert_eq!(reply.status, 200, "{name}: {}", reply.text());
    }
    let refused: [fn(Call) -> Call; 3] =
        [|call| call.body("[]"), |call| call.body("{"), |call| call.body("\"x\"")];
    for body in refused {
        cancel(body).error(400, "INVALID_PARAMS");
    }
    cancel(|call| call.add("Content-Type", "text/plain").body("x")).error(415, "INVALID_PARAMS");
}

fn violations(error: &Value) -> Vec<String> {
    let details = error["details"].as_array().unwrap();
    let bad = details
        .iter()
        .find(|detail| detail["@type"] == "type.googleapis.com/google.rpc.BadRequest");
    let fields =
        bad.unwrap_or_else(|| panic!("no BadRequest: {error}"))["fieldViolations"].as_array();
    let field = |violation: &Value| {
        assert!(violation["description"].is_string(), "{error}");
        violation["field"].as_str().unwrap().to_owned()
    };
    fields.unwrap().iter().map(field).collect()
}
