use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use service_kit::client::Origin;
use service_kit::output::Output;
use service_kit::{Secret, Token};

use super::commands::Wait;
use super::*;

const TOKEN: &str = "0123456789abcdef";

/// A service that gives these answers one after the other, and keeps what it was asked.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<Vec<(u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    async fn play(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let mut asked = format!("{} {}", request.method(), request.uri());
        for name in ["authorization", "a2a-version", "content-type"] {
            if let Some(value) = request.headers().get(name) {
                asked = format!("{asked} [{}]", value.to_str().unwrap_or("?"));
            }
        }
        let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
        let body = body.unwrap_or_default();
        if !body.is_empty() {
            asked = format!("{asked} {}", String::from_utf8_lossy(&body));
        }
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        let (status, body) = self.answers.lock().unwrap_or_else(PoisonError::into_inner).remove(0);
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
        Ok(response)
    }

    /// Serves one connection after the other until it is dropped.
    async fn serve(self, listener: tokio::net::TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let script = self.clone();
            let service = service_fn(move |request| script.clone().play(request));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            // A client that goes away ends its connection with an error.
            connection.await.ok();
        }
    }
}

/// Runs a command against a service with these answers; gives its end and what was asked.
async fn against<const N: usize>(
    answers: [(u16, Value); N],
    command: Command,
    output: Output,
) -> (Result<Printed, Error>, Vec<String>) {
    let script = Script::default();
    *script.answers.lock().unwrap() =
        answers.into_iter().map(|(status, body)| (status, body.to_string())).collect();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://localhost:{}", listener.local_addr().unwrap().port());
    let token = Token::check(Secret::new(TOKEN), "T").unwrap();
    let remote = Remote::new(Origin::parse(&origin).unwrap(), Some(&token), None).unwrap();
    let result = tokio::select! {
        result = run(command, &remote, output) => result,
        () = script.clone().serve(listener) => panic!("the service ended before its client"),
    };
    let asked = script.asked.lock().unwrap().clone();
    (result, asked)
}

fn task(id: &str, state: &str) -> Value {
    json!({"id": id, "contextId": "c", "status": {"state": state}})
}

fn send(wait: Wait) -> Command {
    Command::Send {
        prompt: "do it".to_owned(),
        request_id: "r1".to_owned(),
        context: Some("c".to_owned()),
        wait,
    }
}

fn get(task: &str) -> Command {
    Command::Get { task: task.to_owned() }
}

#[tokio::test]
async fn sending_prints_the_response_as_it_came() {
    let queued = json!({"task": task("t1", "TASK_STATE_SUBMITTED")});
    let (printed, asked) = against([(200, queued.clone())], send(Wait::No), Output::Json).await;
    assert_eq!(printed.unwrap(), Printed { text: format!("{queued}\n"), success: true });
    let body = json!({"configuration": {"returnImmediately": true}, "message": {"contextId": "c",
        "messageId": "r1", "parts": [{"text": "do it"}], "role": "ROLE_USER"}});
    assert_eq!(
        asked,
        [format!("POST /message:send [Bearer {TOKEN}] [1.0] [application/a2a+json] {body}")]
    );
}

#[tokio::test]
async fn waiting_looks_again_until_the_end_also_over_a_restart() {
    let ended = task("t1", "TASK_STATE_COMPLETED");
    let answers = [
        (200, json!({"task": task("t1", "TASK_STATE_SUBMITTED")})),
        (200, task("t1", "TASK_STATE_WORKING")),
        (503, json!({})),
        (200, ended.clone()),
    ];
    let (printed, asked) = against(answers, send(Wait::UntilTheEnd), Output::Json).await;
    assert_eq!(printed.unwrap(), Printed { text: format!("{ended}\n"), success: true });
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[3], format!("GET /tasks/t1 [Bearer {TOKEN}] [1.0]"));
}

#[tokio::test]
async fn waiting_for_a_task_that_does_not_complete_is_no_success() {
    for state in ["TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"] {
        let answers =
            [(200, json!({"task": task("t1", "TASK_STATE_SUBMITTED")})), (200, task("t1", state))];
        let (printed, _) = against(answers, send(Wait::UntilTheEnd), Output::Json).await;
        assert!(!printed.unwrap().success, "{state}");
    }
}

#[tokio::test]
async fn waiting_ends_when_the_task_is_gone() {
    let gone = json!({"error": {"message": "no such task",
        "details": [{"reason": "TASK_NOT_FOUND"}]}});
    let answers = [(200, json!({"task": task("t1", "TASK_STATE_SUBMITTED")})), (404, gone)];
    let (result, _) = against(answers, send(Wait::UntilTheEnd), Output::Json).await;
    assert_eq!(result.unwrap_err().to_string(), "no such task (TASK_NOT_FOUND, HTTP 404)");
}

#[tokio::test]
async fn listing_follows_the_page_tokens_and_prints_one_list() {
    let page = |tasks: Value, next: &str| (200, json!({"tasks": tasks, "nextPageToken": next}));
    let (a, b, c) = (task("a", "TASK_STATE_WORKING"), task("b", ""), task("c", ""));
    let command = |limit| Command::Tasks {
        context: Some("x y".to_owned()),
        status: Some("working".to_owned()),
        limit,
    };
    let answers = [page(json!([a, b]), "n=1"), page(json!([c]), "")];
    let (printed, asked) = against(answers.clone(), command(None), Output::Json).await;
    assert_eq!(printed.unwrap().text, format!("{}\n", json!({"tasks": [a, b, c]})));
    let query = "pageSize=100&includeArtifacts=true&contextId=x+y&status=TASK_STATE_WORKING";
    assert_eq!(
        asked,
        [
            format!("GET /tasks?{query} [Bearer {TOKEN}] [1.0]"),
            format!("GET /tasks?{query}&pageToken=n%3D1 [Bearer {TOKEN}] [1.0]"),
        ]
    );
    let (printed, asked) = against(answers, command(Some(1)), Output::Json).await;
    assert_eq!(printed.unwrap().text, format!("{}\n", json!({"tasks": [a]})));
    assert_eq!(asked.len(), 1);
    assert!(asked[0].contains("pageSize=1&"), "{asked:?}");
}

#[tokio::test]
async fn a_list_that_leads_in_a_circle_is_an_error() {
    let page = (200, json!({"tasks": [], "nextPageToken": "n"}));
    let command = Command::Tasks { context: None, status: None, limit: None };
    let (result, asked) = against([page.clone(), page], command, Output::Json).await;
    assert!(matches!(result, Err(Error::Strange(_))));
    assert_eq!(asked.len(), 2);
}

#[tokio::test]
async fn an_identifier_of_any_kind_stays_one_part_of_the_path() {
    let answer = || [(200, task("t", "TASK_STATE_CANCELED"))];
    let (_, asked) = against(answer(), get("a/b?c#d:ä"), Output::Json).await;
    assert_eq!(asked, [format!("GET /tasks/a%2Fb%3Fc%23d%3A%C3%A4 [Bearer {TOKEN}] [1.0]")]);
    let cancel = Command::Cancel { task: "t:1".to_owned() };
    let (printed, asked) = against(answer(), cancel, Output::Table).await;
    assert_eq!(asked, [format!("POST /tasks/t%3A1:cancel [Bearer {TOKEN}] [1.0]")]);
    assert_eq!(printed.unwrap().text, "TASK  STATE     SINCE  CONTEXT\nt     CANCELED         c\n");
}

#[tokio::test]
async fn an_event_is_sent_as_the_file_has_it_and_a_refused_one_is_a_success() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("event.json");
    std::fs::write(&file, "{ \"id\": 1.0 }\n").unwrap();
    let answer = json!({"accepted": false, "reason": "cooldown"});
    let command = Command::Event { file: file.clone() };
    let (printed, asked) = against([(200, answer.clone())], command, Output::Json).await;
    assert_eq!(printed.unwrap(), Printed { text: format!("{answer}\n"), success: true });
    assert_eq!(
        asked,
        [format!("POST /events [Bearer {TOKEN}] [1.0] [application/json] {{ \"id\": 1.0 }}\n")]
    );
    std::fs::write(&file, "x".repeat(65_537)).unwrap();
    let (result, asked) = against([], Command::Event { file: file.clone() }, Output::Json).await;
    assert_eq!(
        result.unwrap_err().to_string(),
        format!("{} is over 64 KiB, more than the service takes", file.display())
    );
    assert!(asked.is_empty());
    let missing = Command::Event { file: dir.path().join("none") };
    let (result, _) = against([], missing, Output::Json).await;
    assert!(matches!(result, Err(Error::Input { .. })));
}

#[tokio::test]
async fn errors_show_message_reason_and_fields() {
    let body = json!({"error": {"code": 400, "message": "the message is \u{1b}[1mwrong", "details": [
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "INVALID_PARAMS"},
        {"@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": "message.parts", "description": "must not be empty"}]}]}});
    let (result, _) = against([(400, body)], get("t"), Output::Json).await;
    assert_eq!(
        result.unwrap_err().to_string(),
        "the message is  [1mwrong (INVALID_PARAMS, HTTP 400)\n  message.parts: must not be empty"
    );
    let (result, _) = against([(502, json!("proxy"))], get("t"), Output::Json).await;
    assert_eq!(result.unwrap_err().to_string(), "Bad Gateway (HTTP 502)");
}

#[tokio::test]
async fn a_service_that_is_not_there_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let remote = Remote::new(Origin::parse(&url).unwrap(), None, None).unwrap();
    let error = run(get("t"), &remote, Output::Json).await.unwrap_err();
    assert_eq!(error.to_string(), format!("no answer from {url}"));
    assert!(error.may_pass());
}

#[tokio::test]
async fn the_health_check_asks_without_the_token() {
    let (printed, asked) = against([(200, json!("ok"))], Command::Healthcheck, Output::Json).await;
    assert_eq!(printed.unwrap(), Printed { text: "\"ok\"\n".to_owned(), success: true });
    assert_eq!(asked, ["GET /readyz"]);
    let (result, _) = against([(503, json!("stopping"))], Command::Healthcheck, Output::Json).await;
    assert_eq!(result.unwrap_err().to_string(), "\"stopping\" (HTTP 503)");
}
