//! CONTRACT section 3: the order of checks, headers, routes, versions and errors.

use serde_json::json;
use system_tests::client::{Call, Client, id_of, message, words};
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
