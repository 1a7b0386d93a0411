//! CONTRACT section 3: the order of checks, headers, routes, versions, bodies and errors.

use serde_json::{Value, json};
use system_tests::client::{Call, Client, fresh_id, id_of, message, words};
use system_tests::events::{event, now, trigger};
use system_tests::home::Home;
use system_tests::wire::Reply;

const A2A: [(&str, &str); 5] = [
    ("POST", "/message:send"),
    ("GET", "/tasks"),
    ("GET", "/tasks/x"),
    ("POST", "/tasks/x:cancel"),
    ("POST", "/message:stream"),
];

#[test]
fn every_success_and_every_error_has_the_headers_of_the_contract() {
    // `success` and `error` check them; here for one of each kind.
    let home = Home::with(|config| config.trigger(trigger()));
    let service = home.start();
    let task = id_of(&service.run("hello"));
    service.task(&task);
    service.get("/tasks").send().success();
    service.observe(&event("e", now()));
    service.cancel(&service.submit_id("block a")).success();
    service.get("/nowhere").send().error(404, "METHOD_NOT_FOUND");
    service.get("/tasks/x").without("Authorization").send().error(401, "UNAUTHENTICATED");
    service.post("/events", &json!({})).send().error(400, "INVALID_PARAMS");
}

#[test]
fn without_the_token_every_bearer_route_is_401_with_www_authenticate() {
    let home = Home::new();
    let service = home.start();
    let wrong = [
        None,
        Some("Bearer wrong-token-of-the-tests-0123"),
        Some("Bearer "),
        Some("Basic YTpi"),
        Some("a-token-of-the-tests-0123456789"),
        Some("Bearer a-token-of-the-tests-012345678"),
        Some("Bearer a-token-of-the-tests-01234567890"),
    ];
    for (method, path) in A2A.into_iter().chain([("POST", "/events"), ("GET", "/unknown")]) {
        for value in wrong {
            let mut call = service.call(method, path).without("Authorization");
            if let Some(value) = value {
                call = call.add("Authorization", value);
            }
            let reply = call.send();
            reply.error(401, "UNAUTHENTICATED");
            assert_eq!(
                reply.header("www-authenticate"),
                Some("Bearer realm=\"wendy-agent\""),
                "{method} {path} {value:?}"
            );
        }
    }
}

#[test]
fn the_scheme_of_the_token_is_case_insensitive() {
    let home = Home::new();
    let service = home.start();
    for scheme in ["bearer", "BEARER"] {
        let token = format!("{scheme} {}", system_tests::client::TOKEN);
        service.get("/tasks").set("Authorization", &token).send().success();
    }
}

#[test]
fn the_card_and_health_are_public() {
    let home = Home::new();
    let service = home.start();
    for path in ["/.well-known/agent-card.json", "/healthz", "/readyz"] {
        let call = service.get(path).without("Authorization").without("A2A-Version");
        assert_eq!(call.send().status, 200, "{path}");
    }
}

#[test]
fn health_shows_no_secret_and_no_task() {
    let home = Home::new();
    let service = home.start();
    let id = id_of(&service.run("hello"));
    for path in ["/healthz", "/readyz"] {
        let reply = service.get(path).without("Authorization").send();
        let text = reply.text();
        assert!(text.len() < 200 && !text.contains(&id) && !text.contains("hello"), "{text}");
    }
}

#[test]
fn any_origin_is_403_on_every_route_public_ones_included() {
    let home = Home::new();
    let service = home.start();
    let public = [("GET", "/.well-known/agent-card.json"), ("GET", "/healthz"), ("GET", "/readyz")];
    for (method, path) in A2A.into_iter().chain(public).chain([("POST", "/events"), ("GET", "/no")])
    {
        for origin in ["https://evil.example", "null", "http://127.0.0.1", ""] {
            let reply = service.call(method, path).add("Origin", origin).send();
            assert_eq!(reply.status, 403, "{method} {path} from {origin:?}");
            reply.error(403, "PERMISSION_DENIED");
        }
    }
}

#[test]
fn checks_come_in_order_token_then_origin_then_route_then_version_then_body() {
    let home = Home::new();
    let service = home.start();
    // Each call has every later fault too.
    let bad = |call: Call| call.body("{").set("A2A-Version", "0.3");
    let wrong_token = |call: Call| call.set("Authorization", "Bearer wrong");
    let origin = |call: Call| call.add("Origin", "https://evil.example");
    wrong_token(origin(bad(service.call("POST", "/no")))).send().error(401, "UNAUTHENTICATED");
    origin(bad(service.call("POST", "/no"))).send().error(403, "PERMISSION_DENIED");
    bad(service.call("POST", "/no")).send().error(404, "METHOD_NOT_FOUND");
    bad(service.call("PUT", "/message:send")).send().error(405, "METHOD_NOT_FOUND");
    bad(service.call("POST", "/message:send")).send().error(400, "VERSION_NOT_SUPPORTED");
    bad(service.call("POST", "/message:send"))
        .set("A2A-Version", "1.0")
        .send()
        .error(400, "INVALID_PARAMS");
}

#[test]
fn an_unknown_route_is_404_and_another_method_405_with_allow() {
    let home = Home::new();
    let service = home.start();
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/v1/tasks"),
        ("POST", "/message"),
        ("POST", "/message:other"),
        ("POST", "/tasks/x:other"),
        ("GET", "/tasks/x/y"),
        ("GET", "/events/1"),
        ("GET", "/tasks/"),
        ("GET", "//tasks"),
    ] {
        let reply = service.call(method, path).send();
        assert_eq!(reply.status, 404, "{method} {path}: {}", reply.text());
        reply.error(404, "METHOD_NOT_FOUND");
    }
    for (method, path, allow) in [
        ("GET", "/message:send", "POST"),
        ("POST", "/tasks", "GET"),
        ("DELETE", "/tasks/x", "GET"),
        ("POST", "/tasks/x", "GET"),
        ("GET", "/tasks/x:cancel", "POST"),
        ("PUT", "/tasks/x:cancel", "POST"),
        ("GET", "/events", "POST"),
        ("OPTIONS", "/tasks", "GET"),
        ("POST", "/.well-known/agent-card.json", "GET"),
        ("DELETE", "/healthz", "GET"),
    ] {
        let reply = service.call(method, path).send();
        assert_eq!(reply.status, 405, "{method} {path}: {}", reply.text());
        reply.error(405, "METHOD_NOT_FOUND");
        let allowed = reply.header("allow").unwrap_or_default();
        assert!(allowed.split(", ").any(|one| one == allow), "{method} {path}: Allow: {allowed}");
    }
}

#[test]
fn version_1_0_and_its_patches_are_served_by_header_or_query_parameter() {
    let home = Home::new();
    let service = home.start();
    for version in ["1.0", "1.0.0", "1.0.1", "1.0.27"] {
        service.get("/tasks").set("A2A-Version", version).send().success();
        let path = format!("/tasks?A2A-Version={version}");
        service.get(&path).without("A2A-Version").send().success();
    }
}

#[test]
fn any_other_version_absent_and_empty_ones_included_is_400_and_says_what_to_send() {
    let home = Home::new();
    let service = home.start();
    let others =
        ["", "0.3", "1", "1.1", "2.0", "1.00", "v1.0", "1.0.", "1.0.x", "1.0, 0.3", "10.0"];
    for (method, path) in A2A {
        let absent = service.call(method, path).without("A2A-Version").send();
        let refused =
            others.map(|other| service.call(method, path).set("A2A-Version", other).send());
        for reply in refused.iter().chain([&absent]) {
            let error = reply.error(400, "VERSION_NOT_SUPPORTED");
            assert!(words(&error).contains("A2A-Version: 1.0"), "{error}");
        }
    }
    for other in ["", "0.3"] {
        let call = service.get(&format!("/tasks?A2A-Version={other}")).without("A2A-Version");
        call.send().error(400, "VERSION_NOT_SUPPORTED");
    }
}

#[test]
fn on_events_an_absent_version_is_fine_and_one_that_is_present_must_be_served() {
    let home = Home::with(|config| config.trigger(trigger()));
    let service = home.start();
    let post = |id: &str| service.post("/events", &event(id, now()));
    post("1").without("A2A-Version").send().success();
    post("2").set("A2A-Version", "1.0.1").send().success();
    post("3").set("A2A-Version", "0.3").send().error(400, "VERSION_NOT_SUPPORTED");
}

#[test]
fn the_card_and_health_need_no_version() {
    let home = Home::new();
    let service = home.start();
    for path in ["/.well-known/agent-card.json", "/healthz", "/readyz"] {
        assert_eq!(service.get(path).set("A2A-Version", "0.3").send().status, 200, "{path}");
    }
}

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

#[test]
fn what_is_not_offered_is_unsupported_operation() {
    let home = Home::new();
    let service = home.start();
    let id = id_of(&service.run("x"));
    let body = json!({"message": message("s", "x")});
    service.post("/message:stream", &body).send().error(400, "UNSUPPORTED_OPERATION");
    for method in ["GET", "POST"] {
        let path = format!("/tasks/{id}:subscribe");
        service.call(method, &path).send().error(400, "UNSUPPORTED_OPERATION");
    }
    service.get("/extendedAgentCard").send().error(400, "UNSUPPORTED_OPERATION");
    let mut continued = message("continued", "more");
    continued["taskId"] = json!(id);
    service.send_message(&continued, &json!({})).error(400, "UNSUPPORTED_OPERATION");
}

#[test]
fn webhooks_are_push_notification_not_supported() {
    let home = Home::new();
    let service = home.start();
    for (method, path) in [
        ("POST", "/tasks/x/pushNotificationConfigs"),
        ("GET", "/tasks/x/pushNotificationConfigs"),
        ("GET", "/tasks/x/pushNotificationConfigs/1"),
        ("DELETE", "/tasks/x/pushNotificationConfigs/1"),
    ] {
        service.call(method, path).send().error(400, "PUSH_NOTIFICATION_NOT_SUPPORTED");
    }
}

#[test]
fn a_colon_may_come_percent_encoded_as_rfc_3986_lets_it() {
    let home = Home::new();
    let service = home.start();
    let body = json!({"message": message("m", "x")});
    let task = service.post("/message%3Asend", &body).send().success()["task"].clone();
    let path = format!("/tasks/{}%3Acancel", id_of(&task));
    service.call("POST", &path).send().error(400, "TASK_NOT_CANCELABLE");
}

#[test]
fn no_error_of_the_framework_shows() {
    let home = Home::new();
    let service = home.start();
    // What a web framework answers in plain text by itself.
    let raw = |text: &str| -> Reply {
        let mut wire = service.connect();
        wire.send(text).unwrap();
        wire.reply().unwrap()
    };
    let auth = format!(
        "Host: x\r\nA2A-Version: 1.0\r\nAuthorization: Bearer {}\r\n",
        system_tests::client::TOKEN
    );
    let cases = [
        format!("POST /message:send HTTP/1.1\r\n{auth}Content-Length: 1\r\n\r\nx"),
        format!("GET /tasks?pageSize=abc HTTP/1.1\r\n{auth}\r\n"),
        format!("GET /tasks/%ff HTTP/1.1\r\n{auth}\r\n"),
        format!("GET /tasks/% HTTP/1.1\r\n{auth}\r\n"),
        format!("BREW /tasks HTTP/1.1\r\n{auth}\r\n"),
        format!("POST /message:send HTTP/1.1\r\n{auth}Content-Length: 2\r\n\r\n\u{fffd}"),
    ];
    for request in cases {
        let reply = raw(&request);
        let reason = reply.json()["error"]["details"][0]["reason"].as_str().unwrap().to_owned();
        reply.error(reply.status, &reason);
    }
}

#[test]
fn head_is_as_get_without_a_body() {
    let home = Home::new();
    let service = home.start();
    for path in ["/.well-known/agent-card.json", "/healthz", "/tasks"] {
        let get = service.get(path).send();
        let head = service.call("HEAD", path).send();
        assert_eq!((head.status, head.header("content-type")), (200, get.header("content-type")));
        assert!(head.body.is_empty());
    }
}

#[test]
fn one_connection_carries_many_calls() {
    let home = Home::new();
    let service = home.start();
    let mut wire = service.connect();
    let body = json!({"message": message("m", "x")});
    let calls: [&dyn Fn(&Client) -> Call; 4] = [
        &|client| client.get("/tasks"),
        &|client| client.get("/tasks/unknown"),
        &|client| client.post("/message:send", &body),
        &|client| client.get("/healthz"),
    ];
    for (call, status) in calls.iter().zip([200, 404, 200, 200]) {
        wire.send(call(&service).without("Connection").to_bytes()).unwrap();
        assert_eq!(wire.reply().unwrap().status, status);
    }
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
