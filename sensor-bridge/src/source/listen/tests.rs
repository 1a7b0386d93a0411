use axum::{
    body::Body,
    http::{Method, Request, Response, StatusCode, header},
};
use bytes::Bytes;
use service_kit::Clock;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::*;
use crate::{metrics::SourceCounters, source::inbox::Inbox};

const LIMIT: usize = 64;

/// Two sources of one address, each with a token of its own.
struct Bench {
    router: axum::Router,
    inbox: Inbox,
    stop: CancellationToken,
    counters: [Arc<SourceCounters>; 2],
}

impl Bench {
    fn new() -> Self {
        let (inbox, lanes) = Inbox::new(2);
        let counters: [Arc<SourceCounters>; 2] = Default::default();
        let endpoints = lanes.into_iter().zip(&counters).zip(["door", "yard"]);
        let endpoints = endpoints.map(|((lane, counters), name)| {
            let port = Port::new(name.into(), lane, Arc::clone(counters), Clock::system());
            Endpoint::new(port, format!("the-token-of-the-{name}").into())
        });
        let endpoints = Arc::new(Endpoints::new(endpoints.collect(), LIMIT));
        let stop = CancellationToken::new();
        Self { router: router::router(endpoints, stop.clone()), inbox, stop, counters }
    }

    async fn ask(&self, method: Method, path: &str, token: &str, body: Body) -> Answer {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(header::AUTHORIZATION, token).body(body).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Response::from_parts(head, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn post(&self, path: &str, token: &str, body: &'static str) -> Answer {
        self.ask(Method::POST, path, token, Body::from(body)).await
    }
}

type Answer = Response<serde_json::Value>;

const DOOR: &str = "Bearer the-token-of-the-door";
const YARD: &str = "bearer the-token-of-the-yard";

#[tokio::test]
async fn each_source_of_an_address_takes_its_own_token_only() {
    let mut bench = Bench::new();
    let cases = [
        ("/door", DOOR, 202),
        ("/yard", YARD, 202),
        ("/yard", DOOR, 401),
        ("/door", "Basic the-token-of-the-door", 401),
        ("/door", "Bearer", 401),
        ("/attic", YARD, 404),
        ("/", YARD, 404),
        ("/door/", DOOR, 404),
        ("/attic", "Bearer of-nobody", 401),
    ];
    for (path, token, expected) in cases {
        let answer = bench.post(path, token, "{}").await;
        assert_eq!(answer.status(), expected, "{path} {token}");
    }
    let lanes = [bench.inbox.try_receive(), bench.inbox.try_receive(), bench.inbox.try_receive()];
    assert_eq!(lanes.map(|taken| taken.map(|taken| taken.lane)), [Some(0), Some(1), None]);
    assert_eq!(bench.counters.each_ref().map(|counters| counters.snapshot().messages), [1, 1]);
}

#[tokio::test]
async fn an_answer_says_what_would_be_right() {
    let bench = Bench::new();
    let large = "x".repeat(LIMIT + 1);
    let cases = [
        ("a token", Method::POST, "/door", "", "{}".to_owned(), 401, "Authorization: Bearer TOKEN"),
        ("a source", Method::POST, "/no", DOOR, "{}".to_owned(), 404, "no source of this name"),
        ("a method", Method::PUT, "/door", DOOR, "{}".to_owned(), 405, "with POST"),
        ("a size", Method::POST, "/door", DOOR, large, 413, "at most 64 bytes"),
        ("a line", Method::POST, "/door", DOOR, "{}\nx".to_owned(), 400, "line 2 is not JSON"),
    ];
    for (name, method, path, token, body, status, text) in cases {
        let answer = bench.ask(method, path, token, Body::from(body)).await;
        assert_eq!(answer.status(), status, "{name}");
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json", "{name}");
        let message = answer.body()["error"].as_str().unwrap();
        assert!(message.contains(text), "{name}: {message}");
        let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!(header(header::ALLOW), (status == 405).then_some("POST"), "{name}");
        assert_eq!(header(header::CONNECTION), (status == 413).then_some("close"), "{name}");
        assert_eq!(header(header::WWW_AUTHENTICATE).is_some(), status == 401, "{name}");
    }
    let refused = bench.counters.each_ref().map(|counters| counters.snapshot().refused);
    assert_eq!(refused, [[("invalid_json", 1), ("oversized", 1)].into(), [].into()]);
}

#[tokio::test]
async fn any_other_method_is_refused_and_only_told_to_who_has_a_token() {
    let bench = Bench::new();
    for method in [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS] {
        let told = bench.ask(method.clone(), "/door", DOOR, Body::empty()).await;
        assert_eq!(told.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
        let untold = bench.ask(method.clone(), "/door", YARD, Body::empty()).await;
        assert_eq!(untold.status(), StatusCode::UNAUTHORIZED, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_answered_and_its_connection_closed() {
    let bench = Bench::new();
    let (_sender, body) = http_body_util::Channel::<Bytes>::new(1);
    let answer = bench.ask(Method::POST, "/door", DOOR, Body::new(body)).await;
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(answer.headers()[header::CONNECTION], "close");
    assert_eq!(answer.body()["error"], "the body did not come in time");
}

#[tokio::test]
async fn from_the_soft_stop_on_nothing_is_taken_and_the_sender_told_when_to_come_again() {
    let mut stopping = Bench::new();
    stopping.stop.cancel();
    // The poster takes what is in the lanes when it sees the stop, and closes them before.
    let mut closed = Bench::new();
    closed.inbox.close();
    for bench in [&mut stopping, &mut closed] {
        let answer = bench.post("/door", DOOR, "{}\n{}").await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.headers()[header::RETRY_AFTER], "5");
        assert_eq!(answer.body()["error"], "the bridge is stopping; nothing of the body was taken");
        assert_eq!(bench.inbox.try_receive(), None);
        assert_eq!(bench.counters[0].snapshot().messages, 0);
        assert_eq!(bench.post("/door", YARD, "{}").await.status(), StatusCode::UNAUTHORIZED);
    }
}
