//! What each operation takes and gives.

use std::sync::atomic::Ordering;

use agent_wire::a2a::task::TaskState;
use agent_wire::value::ContextId;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::testing::{Script, app, call, call_with, ended};
use super::super::{BODY_LIMIT, Token};

fn send(configuration: &Value, extra: &Value) -> String {
    let mut message = json!({"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}]});
    for (name, value) in extra.as_object().unwrap() {
        message[name] = value.clone();
    }
    json!({"message": message, "configuration": configuration}).to_string()
}

#[tokio::test]
async fn a_message_is_answered_with_its_task_at_once_when_asked() {
    let script = Script::new();
    let app = app(&script);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let body = send(&json!({"returnImmediately": true}), &json!({"contextId": "c"}));
    let answer = call_with(&app, "POST /message:send", &[("traceparent", trace)], &body).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/a2a+json");
    let task = &answer.json()["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_SUBMITTED");
    assert_eq!(task["history"][0]["messageId"], "m-1");
    assert!(task.get("artifacts").is_none());
    let submitted = script.submitted.lock().unwrap();
    assert_eq!(submitted[0].trace.as_ref().map(|t| t.as_str().to_owned()), Some(trace.to_owned()));
    assert_eq!(submitted[0].context_id.as_ref().map(ContextId::as_str), Some("c"));
}

#[tokio::test]
async fn else_a_message_waits_for_the_end_of_its_task() {
    let script = Script::new();
    let app = app(&script);
    let body = send(&json!({"historyLength": 0}), &json!({}));
    let (answer, ()) = tokio::join!(call(&app, "POST /message:send", &body), async {
        script.submitted("task-0").await;
        script.complete("task-0", "seen");
    });
    let task = &answer.json()["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "seen");
    assert!(task.get("history").is_none(), "historyLength 0 leaves it out");
}

#[tokio::test]
async fn a_waiting_message_is_unavailable_when_the_service_stops() {
    let script = Script::new();
    let app = app(&script);
    let body = send(&json!({}), &json!({}));
    let (answer, ()) = tokio::join!(call(&app, "POST /message:send", &body), async {
        script.submitted("task-0").await;
        script.stopping.store(true, Ordering::Relaxed);
        script.add(ended("other", ""));
    });
    assert_eq!((answer.status, answer.reason().as_str()), (503, "UNAVAILABLE"));
    assert_eq!(answer.header("retry-after"), "5");
}

#[tokio::test]
async fn a_task_is_never_continued() {
    let script = Script::new();
    let app = app(&script);
    script.add(ended("known", ""));
    for (id, reason) in [("known", "UNSUPPORTED_OPERATION"), ("unknown", "TASK_NOT_FOUND")] {
        let body = send(&json!({}), &json!({"taskId": id}));
        assert_eq!(call(&app, "POST /message:send", &body).await.reason(), reason);
    }
    assert!(script.submitted.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_fault_of_the_message_is_told_with_its_field() {
    let app = app(&Script::new());
    let answer = call(&app, "POST /message:send", r#"{"message":{"role":"ROLE_USER"}}"#).await;
    assert_eq!(answer.reason(), "INVALID_PARAMS");
    let violations = &answer.json()["error"]["details"][1];
    assert_eq!(violations["@type"], "type.googleapis.com/google.rpc.BadRequest");
    assert_eq!(violations["fieldViolations"][0]["field"], "message.messageId");
    assert_eq!(violations["fieldViolations"][1]["field"], "message.parts");
}

#[tokio::test]
async fn the_body_is_json_of_at_most_64_kib() {
    let app = app(&Script::new());
    let fill = |bytes: usize| {
        let body = send(&json!({"returnImmediately": true}), &json!({"unknown": ""}));
        body.replace(
            "\"unknown\":\"\"",
            &format!("\"unknown\":\"{}\"", "x".repeat(bytes - body.len())),
        )
    };
    assert_eq!(call(&app, "POST /message:send", &fill(BODY_LIMIT)).await.status, 200);
    let large = call(&app, "POST /message:send", &fill(BODY_LIMIT + 1)).await;
    assert_eq!((large.status, large.reason().as_str()), (413, "INVALID_PARAMS"));
    assert_eq!(large.header("connection"), "close");
    let announced = call_with(&app, "POST /events", &[("content-length", "65537")], "{}").await;
    assert_eq!(announced.status, 413);

    let body = send(&json!({"returnImmediately": true}), &json!({}));
    for (media_type, status) in [
        ("application/json", 200),
        ("Application/A2A+JSON; charset=utf-8", 200),
        ("-", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
    ] {
        let headers = [("content-type", media_type), ("accept", "text/html")];
        let answer = call_with(&app, "POST /message:send", &headers, &body).await;
        assert_eq!(answer.status, status, "{media_type}");
        if status == 415 {
            assert_eq!(answer.reason(), "INVALID_PARAMS");
        }
    }
}

#[tokio::test]
async fn a_task_is_got_with_as_much_history_as_asked() {
    let script = Script::new();
    let app = app(&script);
    script.add(ended("a:b", "done"));
    let whole = call(&app, "GET /tasks/a%3Ab", "").await.json();
    assert_eq!(whole["id"], "a:b");
    assert_eq!(whole["history"][0]["parts"][0]["text"], "hi");
    let cut = call(&app, "GET /tasks/a:b?historyLength=0", "").await.json();
    assert!(cut.get("history").is_none());
    let wrong = call(&app, "GET /tasks/a:b?historyLength=-1", "").await;
    assert_eq!(wrong.reason(), "INVALID_PARAMS");
    let long = "x".repeat(257);
    for id in ["unknown", "a", &long] {
        let answer = call(&app, &format!("GET /tasks/{id}"), "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (404, "TASK_NOT_FOUND"));
    }
}

#[tokio::test]
async fn a_task_is_cancelled_with_any_or_no_object_in_the_body() {
    let script = Script::new();
    let app = app(&script);
    let mut working = ended("w", "");
    working.status.state = TaskState::Working;
    script.add(working);
    script.add(ended("done", ""));
    for body in ["", "{}", r#"{"id":"w","metadata":{}}"#] {
        let answer = call(&app, "POST /tasks/w:cancel", body).await;
        assert_eq!(answer.json()["status"]["state"], "TASK_STATE_CANCELED", "{body}");
    }
    for body in ["[]", "null", "x", "{} {}"] {
        let answer = call(&app, "POST /tasks/w:cancel", body).await;
        assert_eq!(answer.reason(), "INVALID_PARAMS", "{body}");
    }
    assert_eq!(call(&app, "POST /tasks/done:cancel", "").await.reason(), "TASK_NOT_CANCELABLE");
    assert_eq!(call(&app, "POST /tasks/gone:cancel", "").await.reason(), "TASK_NOT_FOUND");
}

#[tokio::test]
async fn a_walk_through_the_pages_sees_each_task_once_newest_first() {
    let script = Script::new();
    let app = app(&script);
    for n in 0..5 {
        script.add(ended(&format!("t{n}"), "text"));
    }
    let (mut seen, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = call(&app, &format!("GET /tasks?pageSize=2&pageToken={token}"), "").await.json();
        assert_eq!((&page["pageSize"], &page["totalSize"]), (&json!(2), &json!(5)));
        for task in page["tasks"].as_array().unwrap() {
            assert!(task.get("artifacts").is_none(), "only with includeArtifacts");
            seen.push(task["id"].as_str().unwrap().to_owned());
        }
        page["nextPageToken"].as_str().unwrap().clone_into(&mut token);
        pages += 1;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!((seen.join(" ").as_str(), pages), ("t4 t3 t2 t1 t0", 3));
    let wrong = call(&app, "GET /tasks?pageToken=stale", "").await;
    assert_eq!((wrong.status, wrong.reason().as_str()), (400, "INVALID_PARAMS"));
}

#[tokio::test]
async fn an_empty_list_has_all_four_fields() {
    let page = call(&app(&Script::new()), "GET /tasks", "").await;
    assert_eq!(
        page.json(),
        json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0})
    );
}

#[tokio::test]
async fn artifacts_are_there_when_asked_for_also_when_there_are_none() {
    let script = Script::new();
    let app = app(&script);
    let mut bare = ended("bare", "");
    bare.artifacts.clear();
    script.add(bare);
    script.add(ended("full", "text"));
    let page = call(&app, "GET /tasks?includeArtifacts=true&historyLength=0", "").await.json();
    assert_eq!(page["tasks"][0]["artifacts"][0]["parts"][0]["text"], "text");
    assert_eq!(page["tasks"][1]["artifacts"], json!([]));
    assert!(page["tasks"][0].get("history").is_none());
}

#[tokio::test]
async fn a_page_stops_early_to_stay_within_1_mib() {
    let script = Script::new();
    let app = app(&script);
    for n in 0..100 {
        script.add(ended(&format!("t{n}"), &"\u{1}".repeat(5_000)));
    }
    let mut token = String::new();
    let mut sizes = Vec::new();
    while sizes.len() < 10 {
        let line = format!("GET /tasks?pageSize=100&includeArtifacts=true&pageToken={token}");
        let page = call(&app, &line, "").await;
        assert!(page.body.len() <= 1 << 20, "{}", page.body.len());
        sizes.push(page.json()["tasks"].as_array().unwrap().len());
        page.json()["nextPageToken"].as_str().unwrap().clone_into(&mut token);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(sizes.iter().sum::<usize>(), 100);
    assert_eq!(sizes, [34, 34, 32], "as many as fit on each");
}

#[tokio::test]
async fn an_event_reaches_the_core_and_its_answer_the_client() {
    let script = Script::new();
    let app = app(&script);
    let event =
        r#"{"id":"1","type":"t","source":"s","timestamp":"2026-05-01T12:00:00Z","data":[ 1 ]}"#;
    let answer = call(&app, "POST /events", event).await;
    assert_eq!(answer.header("content-type"), "application/a2a+json");
    assert_eq!(answer.json(), json!({"accepted": false, "reason": "cooldown"}));
    assert_eq!(script.events.lock().unwrap()[0].data().map(RawValue::get), Some("[ 1 ]"));
    let wrong = call(&app, "POST /events", &event.replace("source", "origin")).await;
    assert_eq!((wrong.status, wrong.reason().as_str()), (400, "INVALID_PARAMS"));
    assert!(wrong.message().starts_with("unknown field \"origin\""), "{}", wrong.message());
    assert_eq!(wrong.json()["error"]["details"][1]["fieldViolations"][0]["field"], "origin");
}

#[tokio::test]
async fn the_card_may_be_kept_and_is_not_sent_again_to_who_has_it() {
    let app = app(&Script::new());
    let line = "GET /.well-known/agent-card.json";
    let card = call(&app, line, "").await;
    assert_eq!(card.header("cache-control"), "public, max-age=300");
    assert_eq!(card.json()["supportedInterfaces"][0]["url"], "http://127.0.0.1:8787");
    let tag = card.header("etag").to_owned();
    let others = format!("\"x\", W/{tag}");
    for known in [tag.as_str(), "*", &others] {
        let answer = call_with(&app, line, &[("if-none-match", known)], "").await;
        assert_eq!((answer.status, answer.body.len()), (304, 0), "{known}");
        assert_eq!((answer.header("etag"), answer.header("content-type")), (tag.as_str(), ""));
    }
    let answer = call_with(&app, line, &[("if-none-match", "\"x\"")], "").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn health_is_plain_text_and_readiness_ends_when_the_service_stops() {
    let script = Script::new();
    let app = app(&script);
    let ready = call(&app, "GET /readyz", "").await;
    assert_eq!((ready.status, &ready.body[..]), (200, &b"ready\n"[..]));
    assert_eq!(ready.header("content-type"), "text/plain; charset=utf-8");
    script.stopping.store(true, Ordering::Relaxed);
    let stopping = call(&app, "GET /readyz", "").await;
    assert_eq!((stopping.status, &stopping.body[..]), (503, &b"stopping\n"[..]));
    assert_eq!(call(&app, "GET /healthz", "").await.status, 200);
}

#[test]
fn the_token_is_not_shown() {
    assert_eq!(format!("{:?}", Token::new("0123456789abcdef")), "Token");
}
