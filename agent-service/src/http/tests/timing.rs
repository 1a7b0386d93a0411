//! The limits of one connection, over a pipe and with tokio's clock paused: it jumps to the next timer
//! when nothing else can happen, so that each limit is met exactly and at once.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::listen::Table;
use super::super::slots::Limits;
use super::super::testing::{Script, TOKEN, app};
use super::super::{conn, extract};

struct Client {
    stream: DuplexStream,
    script: Arc<Script>,
    stop: CancellationToken,
    start: Instant,
}

impl Client {
    async fn connect(buffer: usize) -> Self {
        let table = Arc::new(Table::new(Limits::default()));
        let (stream, served) = tokio::io::duplex(buffer);
        let script = Script::new();
        let stop = CancellationToken::new();
        let seat = Table::seat(&table).await;
        TaskTracker::new().spawn(conn::serve(served, app(&script), seat, stop.clone()));
        Self { stream, script, stop, start: Instant::now() }
    }

    async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Everything until the service hangs up, and when that was.
    async fn rest(&mut self) -> (String, Duration) {
        let mut text = String::new();
        self.stream.read_to_string(&mut text).await.unwrap();
        (text, self.start.elapsed())
    }

    /// One answer with its body.
    async fn answer(&mut self) -> String {
        let mut bytes = Vec::new();
        loop {
            bytes.push(self.stream.read_u8().await.unwrap());
            let text = String::from_utf8_lossy(&bytes);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() == length.unwrap().parse::<usize>().unwrap() {
                    return text.into_owned();
                }
            }
        }
    }
}

fn request(line: &str, extra: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\na2a-version: 1.0\r\n{extra}\r\n"
    )
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_sends_nothing_is_closed_after_60_s() {
    let mut client = Client::connect(1024).await;
    assert_eq!(client.rest().await, (String::new(), Duration::from_mins(1)));
}

#[tokio::test(start_paused = true)]
async fn idle_time_counts_from_the_last_answer() {
    let mut client = Client::connect(4096).await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    client.write(&request("GET /tasks", "")).await;
    assert!(client.answer().await.starts_with("HTTP/1.1 200 OK\r\n"));
    tokio::time::sleep(Duration::from_secs(50)).await;
    client.write(&request("GET /tasks", "")).await;
    assert!(client.answer().await.starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(client.rest().await, (String::new(), Duration::from_secs(160)));
}

#[tokio::test(start_paused = true)]
async fn headers_have_5_s_from_their_first_byte_however_they_trickle() {
    let mut client = Client::connect(4096).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    for byte in ["G", "E", "T", " "] {
        client.write(byte).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let answer = client.answer().await;
    assert_eq!(client.start.elapsed(), Duration::from_secs(35));
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.ends_with('}'), "{answer}");
    assert_eq!(client.rest().await, (String::new(), Duration::from_secs(35)));
}

#[tokio::test(start_paused = true)]
async fn a_second_request_has_its_own_5_s() {
    let mut client = Client::connect(4096).await;
    client.write(&request("GET /healthz", "")).await;
    client.answer().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    client.write("GET /hea").await;
    assert!(client.answer().await.starts_with("HTTP/1.1 400"));
    assert_eq!(client.start.elapsed(), Duration::from_secs(25));
}

#[tokio::test(start_paused = true)]
async fn a_body_has_30_s() {
    let mut client = Client::connect(4096).await;
    client.write(&request("POST /events", "content-length: 10\r\n")).await;
    client.write("{").await;
    let answer = client.answer().await;
    assert_eq!(client.start.elapsed(), Duration::from_secs(30));
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.contains("the body must come within 30 s"), "{answer}");
    assert_eq!(client.rest().await.0, "");
}

#[tokio::test(start_paused = true)]
async fn after_an_early_answer_the_rest_of_the_body_is_still_taken_for_a_second() {
    let mut client = Client::connect(1024).await;
    client.write(&request("POST /events", "content-length: 400000\r\n")).await;
    assert!(client.answer().await.starts_with("HTTP/1.1 413"));
    // Else the socket would be reset, and the reset could overtake the answer.
    client.write(&"x".repeat(100_000)).await;
    assert_eq!(client.rest().await, (String::new(), Duration::ZERO));
    assert!(client.stream.write_all(&[0; 4096]).await.is_ok(), "until the second is over");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(client.stream.write_all(&[0; 4096]).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_message_has_no_limit() {
    let mut client = Client::connect(4096).await;
    let body = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}"#;
    let length = format!("content-length: {}\r\n", body.len());
    client.write(&request("POST /message:send", &length)).await;
    client.write(body).await;
    client.script.submitted("task-0").await;
    tokio::time::sleep(Duration::from_hours(3)).await;
    client.script.complete("task-0", "late");
    let answer = client.answer().await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("late"), "{answer}");
    assert_eq!(client.start.elapsed(), Duration::from_hours(3));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_take_its_answer_is_dropped_after_30_s() {
    // The pipe holds less than the answer.
    let mut client = Client::connect(64).await;
    client.write(&request("GET /tasks", "")).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    let (text, _) = client.rest().await;
    assert_eq!(text.len(), 64, "what fitted, and no more: {text}");
}

#[tokio::test(start_paused = true)]
async fn at_the_end_of_the_service_an_idle_connection_closes_and_a_busy_one_is_answered() {
    let mut idle = Client::connect(4096).await;
    idle.stop.cancel();
    assert_eq!(idle.rest().await, (String::new(), Duration::ZERO));

    let mut kept = Client::connect(4096).await;
    kept.write(&request("GET /healthz", "")).await;
    kept.answer().await;
    kept.stop.cancel();
    assert_eq!(kept.rest().await, (String::new(), Duration::ZERO));

    let mut busy = Client::connect(4096).await;
    busy.write(&request("POST /events", "content-length: 2\r\n")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    busy.stop.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    busy.write("{}").await;
    let (text, _) = busy.rest().await;
    assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
    assert!(text.contains("\r\nconnection: close\r\n"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_bytes_come_the_service_hangs_up_in_time_and_says_only_whole_answers(
        pieces in prop::collection::vec(piece(), 0..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (text, after) = runtime.block_on(async {
            let mut client = Client::connect(1 << 20).await;
            for piece in &pieces {
                // It may have hung up before.
                if client.stream.write_all(piece).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            client.rest().await
        });
        prop_assert!(after <= Duration::from_secs(95), "{after:?}");
        prop_assert!(text.is_empty() || text.starts_with("HTTP/1."), "{}", text);
        prop_assert_eq!(text.matches("HTTP/1.").count() >= 1, text.contains("a2a-version: 1.0"));
    }
}

/// Pieces of requests, whole ones, and noise.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        Just(request("GET /tasks", "").into_bytes()),
        Just(request("POST /events", "content-length: 2\r\n").into_bytes()),
        Just(request("POST /events", "transfer-encoding: chunked\r\n").into_bytes()),
        Just(b"2\r\n{}\r\n0\r\n\r\n".to_vec()),
        Just(b"{}".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"HEAD /healthz HTTP/1.0\r\n\r\n".to_vec()),
        Just(b"GET ".to_vec()),
        Just(vec![b'x'; 20_000]),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_a_slow_one() {
    let body = http_body_util::combinators::UnsyncBoxBody::new(Never);
    let start = Instant::now();
    let result = extract::body(&::http::HeaderMap::new(), body).await;
    assert_eq!(result, Err(super::super::error::Error::BodySlow));
    assert_eq!(start.elapsed(), Duration::from_secs(30));
}

struct Never;

impl hyper::body::Body for Never {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        std::task::Poll::Pending
    }
}
