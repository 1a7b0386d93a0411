//! Which method and path lead where, through the router.

use agent_wire::a2a::task::TaskState;

use super::super::testing::{Script, app, call, ended};

/// What a line is answered with: the status and, of an error, its reason.
async fn answers(cases: &[(&str, u16, &str)]) {
    let script = Script::new();
    let app = app(&script);
    for id in ["x", "a:b", "a:cancel", "a/b", ":cancel"] {
        let mut task = ended(id, "");
        task.status.state = TaskState::Working;
        script.add(task);
    }
    for (line, status, expected) in cases {
        let answer = call(&app, line, "").await;
        assert_eq!(answer.status, *status, "{line}");
        if answer.status == 200 {
            let text = String::from_utf8(answer.body.to_vec()).unwrap();
            assert!(text.contains(expected), "{line}: {text}");
        } else {
            assert_eq!(answer.reason(), *expected, "{line}");
        }
    }
}

#[tokio::test]
async fn every_operation_has_its_method_and_path() {
    answers(&[
        ("GET /.well-known/agent-card.json", 200, "supportedInterfaces"),
        ("HEAD /.well-known/agent-card.json", 200, ""),
        ("GET /healthz", 200, "ok\n"),
        ("GET /readyz", 200, "ready\n"),
        ("GET /tasks", 200, "nextPageToken"),
        ("HEAD /tasks", 200, ""),
        ("GET /tasks?%3A=%3a", 200, "nextPageToken"),
        ("GET /tasks/x", 200, r#""id":"x""#),
        ("HEAD /tasks/x", 200, ""),
        ("GET /tasks/%78", 200, r#""id":"x""#),
        ("GET /tasks/a:b", 200, r#""id":"a:b""#),
        ("GET /tasks/a%3Ab", 200, r#""id":"a:b""#),
        ("GET /tasks/a%2Fb", 200, r#""id":"a/b""#),
        ("GET /tasks/:cancel", 200, r#""id":":cancel""#),
        ("POST /tasks/x:cancel", 200, r#""id":"x""#),
        ("POST /tasks/x%3Acancel", 200, r#""id":"x""#),
        ("POST /tasks/x%3acancel", 200, r#""id":"x""#),
        ("POST /tasks/a%3Ab:cancel", 200, r#""id":"a:b""#),
        ("POST /tasks/a:cancel:cancel", 200, r#""id":"a:cancel""#),
        // The empty body is the next thing that is wrong.
        ("POST /message:send", 400, "INVALID_PARAMS"),
        ("POST /message%3Asend", 400, "INVALID_PARAMS"),
        ("POST /message%3asend", 400, "INVALID_PARAMS"),
        ("POST /events", 400, "INVALID_PARAMS"),
        ("POST /message:stream", 400, "UNSUPPORTED_OPERATION"),
        ("GET /tasks/x:subscribe", 400, "UNSUPPORTED_OPERATION"),
        ("POST /tasks/x%3Asubscribe", 400, "UNSUPPORTED_OPERATION"),
        ("GET /extendedAgentCard", 400, "UNSUPPORTED_OPERATION"),
        ("POST /tasks/x/pushNotificationConfigs", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("DELETE /tasks/x/pushNotificationConfigs/1", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    ])
    .await;
}

#[tokio::test]
async fn another_path_is_not_there() {
    let lines = [
        "GET /",
        "GET //tasks",
        "GET /tasks/",
        "GET /Tasks",
        "GET /tasks//x",
        "GET /tasks/x/y",
        "GET /tasks/%ff",
        "GET /tasks/%4",
        "GET /tasks%2Fx",
        "POST /tasks/x:frobnicate",
        "POST /tasks/:cancel",
        "GET /v1/tasks",
        "POST /message:send/",
        "GET /metrics",
        "GET /triggers",
        "GET /openapi.json",
        "OPTIONS *",
        "CONNECT example.com:443",
    ];
    for line in lines {
        answers(&[(line, 404, "METHOD_NOT_FOUND")]).await;
    }
}

#[tokio::test]
async fn another_method_is_told_which_there_are() {
    let app = app(&Script::new());
    let cases = [
        ("POST /tasks", "GET, HEAD"),
        ("POST /tasks/x", "GET, HEAD"),
        ("DELETE /tasks/x", "GET, HEAD"),
        ("OPTIONS /tasks", "GET, HEAD"),
        ("OPTIONS /tasks/x", "GET, HEAD"),
        ("GET /tasks/x:cancel", "POST"),
        ("GET /tasks/x%3Acancel", "POST"),
        ("PUT /tasks/x:cancel", "POST"),
        ("DELETE /tasks/x:subscribe", "GET, HEAD, POST"),
        ("GET /message:send", "POST"),
        ("GET /message:stream", "POST"),
        ("HEAD /events", "POST"),
        ("post /events", "POST"),
        ("POST /healthz", "GET, HEAD"),
        ("POST /extendedAgentCard", "GET, HEAD"),
        ("PUT /tasks/x/pushNotificationConfigs", "GET, HEAD, POST"),
        ("POST /tasks/x/pushNotificationConfigs/1", "GET, HEAD, DELETE"),
    ];
    for (line, allow) in cases {
        let answer = call(&app, line, "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, allow), "{line}");
        assert_eq!(answer.headers.get_all("allow").iter().count(), 1, "{line}");
        // A HEAD has no body to look at.
        if !line.starts_with("HEAD") {
            assert_eq!(answer.reason(), "METHOD_NOT_FOUND", "{line}");
        }
    }
}
