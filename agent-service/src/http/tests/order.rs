//! The order of the checks, and what every answer has.

use std::sync::atomic::Ordering;

use super::super::testing::{Script, app, call, call_with};
use crate::refusal::Refusal;

const SEND: &str = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]},
    "configuration":{"returnImmediately":true}}"#;

#[tokio::test]
async fn the_token_comes_before_origin_route_version_and_body() {
    let app = app(&Script::new());
    // Everything is wrong; each step mends one thing more.
    let wrong = [("authorization", "-"), ("origin", "null"), ("a2a-version", "0.3")];
    let answer = call_with(&app, "PUT /nowhere", &wrong, "no json").await;
    assert_eq!((answer.status, answer.reason().as_str()), (401, "UNAUTHENTICATED"));
    assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"wendy-agent\"");
    let wrong = &wrong[1..];
    let answer = call_with(&app, "PUT /nowhere", wrong, "no json").await;
    assert_eq!((answer.status, answer.reason().as_str()), (403, "PERMISSION_DENIED"));
    let wrong = &wrong[1..];
    let answer = call_with(&app, "PUT /nowhere", wrong, "no json").await;
    assert_eq!((answer.status, answer.reason().as_str()), (404, "METHOD_NOT_FOUND"));
    let answer = call_with(&app, "PUT /message:send", wrong, "no json").await;
    assert_eq!((answer.status, answer.reason().as_str()), (405, "METHOD_NOT_FOUND"));
    assert_eq!(answer.header("allow"), "POST");
    assert_eq!(answer.json()["error"]["status"], "UNIMPLEMENTED");
    let answer = call_with(&app, "POST /message:send", wrong, "no json").await;
    assert_eq!((answer.status, answer.reason().as_str()), (400, "VERSION_NOT_SUPPORTED"));
    let answer = call(&app, "POST /message:send", "no json").await;
    assert_eq!((answer.status, answer.reason().as_str()), (400, "INVALID_PARAMS"));
    assert_eq!(call(&app, "POST /message:send", SEND).await.status, 200);
}

#[tokio::test]
async fn the_public_routes_need_no_token_and_refuse_an_origin() {
    let app = app(&Script::new());
    for path in ["/.well-known/agent-card.json", "/healthz", "/readyz"] {
        let bare = [("authorization", "-"), ("a2a-version", "-")];
        assert_eq!(call_with(&app, &format!("GET {path}"), &bare, "").await.status, 200);
        let browser = [("authorization", "-"), ("origin", "https://example.com")];
        let answer = call_with(&app, &format!("GET {path}"), &browser, "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (403, "PERMISSION_DENIED"));
        let answer = call_with(&app, &format!("POST {path}"), &bare, "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD"));
    }
}

#[tokio::test]
async fn the_version_may_be_a_header_or_a_parameter_and_must_be_1_0() {
    let app = app(&Script::new());
    for served in ["1.0", "1.0.1", "1.0.12", " 1.0 "] {
        assert_eq!(call_with(&app, "GET /tasks", &[("a2a-version", served)], "").await.status, 200);
    }
    for refused in ["-", "", "0.3", "1", "1.1", "1.0.", "1.0.x", "1.00", "2.0", "v1.0"] {
        let answer = call_with(&app, "GET /tasks", &[("a2a-version", refused)], "").await;
        assert_eq!(answer.reason(), "VERSION_NOT_SUPPORTED", "{refused}");
        assert!(answer.message().ends_with("; send A2A-Version: 1.0"), "{}", answer.message());
    }
    let absent = [("a2a-version", "-")];
    let by_query = |query: &str| format!("GET /tasks?{query}");
    assert_eq!(call_with(&app, &by_query("A2A-Version=1.0"), &absent, "").await.status, 200);
    for query in ["A2A-Version=", "A2A-Version=0.3", "a2a-version=1.0"] {
        assert_eq!(call_with(&app, &by_query(query), &absent, "").await.status, 400, "{query}");
    }
    let header_wins = call(&app, "GET /tasks?A2A-Version=0.3", "").await;
    assert_eq!(header_wins.status, 200);
}

#[tokio::test]
async fn an_event_needs_no_version_but_one_that_is_there_must_be_served() {
    let app = app(&Script::new());
    let event = r#"{"id":"1","type":"t","source":"s","timestamp":"2026-05-01T12:00:00Z"}"#;
    for (version, status) in [("-", 200), ("1.0", 200), ("0.3", 400), ("", 400)] {
        let answer = call_with(&app, "POST /events", &[("a2a-version", version)], event).await;
        assert_eq!(answer.status, status, "{version}");
    }
}

#[tokio::test]
async fn operations_that_are_not_offered_have_their_own_errors() {
    let app = app(&Script::new());
    for line in [
        "POST /message:stream",
        "POST /tasks/x:subscribe",
        "GET /tasks/x:subscribe",
        "GET /extendedAgentCard",
    ] {
        let answer = call(&app, line, "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (400, "UNSUPPORTED_OPERATION"));
        let old = call_with(&app, line, &[("a2a-version", "-")], "").await;
        assert_eq!(old.reason(), "VERSION_NOT_SUPPORTED", "{line}");
    }
    for line in [
        "POST /tasks/x/pushNotificationConfigs",
        "GET /tasks/x/pushNotificationConfigs",
        "GET /tasks/x/pushNotificationConfigs/1",
        "DELETE /tasks/x/pushNotificationConfigs/1",
    ] {
        let answer = call(&app, line, "").await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.reason(), "PUSH_NOTIFICATION_NOT_SUPPORTED", "{line}");
    }
}

#[tokio::test]
async fn every_answer_but_the_card_is_not_to_be_stored() {
    let app = app(&Script::new());
    for line in ["GET /tasks", "GET /nowhere", "GET /healthz", "POST /events", "GET /tasks/x"] {
        assert_eq!(call(&app, line, "").await.header("cache-control"), "no-store", "{line}");
    }
    let list = call(&app, "GET /tasks", "").await;
    assert_eq!(list.header("content-type"), "application/a2a+json");
}

#[tokio::test]
async fn after_a_storage_failure_every_authenticated_call_is_an_internal_error() {
    let script = Script::new();
    let app = app(&script);
    script.failed.store(true, Ordering::Relaxed);
    for line in ["GET /tasks", "GET /tasks/x", "POST /message:send", "POST /events", "GET /nope"] {
        let answer = call(&app, line, "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (500, "INTERNAL_ERROR"), "{line}");
    }
    assert_eq!(call_with(&app, "GET /tasks", &[("authorization", "-")], "").await.status, 401);
    assert_eq!(call(&app, "GET /healthz", "").await.status, 503);
}

#[tokio::test]
async fn every_refusal_of_the_core_has_its_status_and_header() {
    let exhausted = Refusal::Exhausted { message: "full".to_owned(), retry_after_seconds: 7 };
    let cases = [
        (Refusal::TaskNotFound, 404, "TASK_NOT_FOUND", ""),
        (Refusal::NotCancelable, 400, "TASK_NOT_CANCELABLE", ""),
        (Refusal::AlreadyExists("taken".to_owned()), 409, "ALREADY_EXISTS", ""),
        (exhausted, 429, "RESOURCE_EXHAUSTED", "7"),
        (Refusal::STOPPING, 503, "UNAVAILABLE", "5"),
        (Refusal::Internal, 500, "INTERNAL_ERROR", ""),
    ];
    for (refusal, status, reason, retry_after) in cases {
        let script = Script::new();
        let app = app(&script);
        script.refuse(refusal);
        let answer = call(&app, "POST /message:send", SEND).await;
        assert_eq!((answer.status, answer.reason().as_str()), (status, reason));
        assert_eq!(answer.header("retry-after"), retry_after, "{reason}");
    }
}
