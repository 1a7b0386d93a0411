//! Real sockets: framing, faults before any operation, many connections, TLS, the end. No time is
//! asserted; every wait is for something that has to happen.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::serve;
use super::super::slots::Limits;
use super::super::testing::{Script, TOKEN, app};

struct Service {
    address: std::net::SocketAddr,
    script: Arc<Script>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Service {
    async fn start(limits: Limits, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Script::new();
        let stop = CancellationToken::new();
        let served = serve(listener, tls, app(&script), limits, stop.clone());
        let task = TaskTracker::new().spawn(served);
        Self { address, script, stop, task }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends all of it and reads until the service hangs up; a reset counts as a hang-up.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        rest(&mut stream).await
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _reset_or_end = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

/// Reads until the text is there.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        text.push(char::from(stream.read_u8().await.unwrap()));
    }
    text
}

fn get(path: &str, extra: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\na2a-version: 1.0\r\n{extra}\r\n"
    )
}

fn assert_error(answer: &str, status: &str, reason: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    let head = answer.to_ascii_lowercase();
    for header in ["a2a-version: 1.0", "cache-control: no-store", "content-type: application/json"]
    {
        assert!(head.contains(&format!("\r\n{header}\r\n")), "{header}: {answer}");
    }
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"]["details"][0]["reason"], reason, "{answer}");
}

#[tokio::test]
async fn hypers_own_errors_have_our_shape() {
    let service = Service::start(Limits::default(), None).await;
    for malformed in [
        "nonsense\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /\u{1} HTTP/1.1\r\n\r\n",
        "POST /events HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        "POST /events HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "\u{16}\u{3}\u{1}\0\0",
    ] {
        let answer = service.exchange(malformed.as_bytes()).await;
        assert_error(&answer, "400 Bad Request", "INVALID_PARAMS");
        assert!(answer.to_ascii_lowercase().contains("\r\nconnection: close\r\n"), "{answer}");
    }
}

#[tokio::test]
async fn headers_of_16_kib_are_served_and_more_are_too_large() {
    let service = Service::start(Limits::default(), None).await;
    let sized = |size: usize| {
        let bare = get("/healthz", "connection: close\r\nx-fill: \r\n");
        get(
            "/healthz",
            &format!("connection: close\r\nx-fill: {}\r\n", "x".repeat(size - bare.len())),
        )
    };
    assert_eq!(sized(16_384).len(), 16_384);
    let answer = service.exchange(sized(16_384).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let answer = service.exchange(sized(16_385).as_bytes()).await;
    assert_error(&answer, "400 Bad Request", "INVALID_PARAMS");
    let endless = format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(100_000));
    let answer = service.exchange(endless.as_bytes()).await;
    assert_error(&answer, "400 Bad Request", "INVALID_PARAMS");
    let many = get("/healthz", &format!("connection: close\r\n{}", "a: b\r\n".repeat(240)));
    assert!(service.exchange(many.as_bytes()).await.starts_with("HTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn a_body_over_the_limit_is_answered_before_the_connection_ends() {
    let service = Service::start(Limits::default(), None).await;
    let head = get("/events", "").replacen("GET", "POST", 1);
    let head = head.strip_suffix("\r\n").unwrap();
    let body = "x".repeat(400_000);
    let sized = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    assert_error(&service.exchange(sized.as_bytes()).await, "413", "INVALID_PARAMS");
    let chunk = format!("{:x}\r\n{}\r\n", body.len(), body);
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n");
    assert_error(&service.exchange(chunked.as_bytes()).await, "413", "INVALID_PARAMS");
    let unauthenticated = sized.replace("Bearer", "Basic");
    assert_error(&service.exchange(unauthenticated.as_bytes()).await, "401", "UNAUTHENTICATED");
}

#[tokio::test]
async fn a_connection_is_kept_and_requests_may_be_pipelined() {
    let service = Service::start(Limits::default(), None).await;
    let mut stream = service.connect().await;
    for _ in 0..3 {
        stream.write_all(get("/healthz", "").as_bytes()).await.unwrap();
        assert!(read_until(&mut stream, "ok\n").await.starts_with("HTTP/1.1 200 OK\r\n"));
    }
    let three = format!(
        "{}{}{}bad\r\n\r\n",
        get("/readyz", ""),
        get("/tasks/none", ""),
        get("/healthz", "")
    );
    stream.write_all(three.as_bytes()).await.unwrap();
    let answers = rest(&mut stream).await;
    let statuses: Vec<_> = answers
        .match_indices("HTTP/1.1 ")
        .map(|(at, _)| answers.split_at(at + 9).1.split_at(3).0)
        .collect();
    // The last error's text names the protocol, too.
    assert_eq!(statuses.get(..4), Some(&["200", "404", "200", "400"][..]), "{answers}");
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let service = Service::start(Limits::default(), None).await;
    let head = get("/healthz", "connection: close\r\n").replacen("GET", "HEAD", 1);
    let answer = service.exchange(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    assert!(answer.contains("\r\ncontent-length: 3\r\n"), "{answer}");
}

#[tokio::test]
async fn a_newcomer_takes_the_place_of_the_one_longest_idle() {
    let limits = Limits { connections: 3, ..Limits::default() };
    let service = Service::start(limits, None).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = service.connect().await;
        stream.write_all(get("/healthz", "").as_bytes()).await.unwrap();
        read_until(&mut stream, "ok\n").await;
        streams.push(stream);
    }
    // The first becomes the one idle for the shortest time, the last has a slow head.
    let mut slow = streams.pop().unwrap();
    slow.write_all(b"GET /hea").await.unwrap();
    streams[0].write_all(get("/healthz", "").as_bytes()).await.unwrap();
    read_until(&mut streams[0], "ok\n").await;
    let mut newcomer = service.connect().await;
    newcomer.write_all(get("/healthz", "").as_bytes()).await.unwrap();
    read_until(&mut newcomer, "ok\n").await;
    assert_eq!(rest(&mut streams[1]).await, "", "longest idle");
    slow.write_all(b"lthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    read_until(&mut slow, "ok\n").await;
}

#[tokio::test]
async fn beside_600_idle_connections_a_healthy_client_is_served_and_the_oldest_made_room() {
    let service = Service::start(Limits::default(), None).await;
    let mut idle = Vec::new();
    for _ in 0..600 {
        idle.push(service.connect().await);
    }
    let answer = service.exchange(get("/healthz", "connection: close\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    // 601 came, 512 have a place.
    for stream in &mut idle[..89] {
        assert_eq!(rest(stream).await, "");
    }
    for stream in &mut idle[89..] {
        stream.write_all(get("/healthz", "connection: close\r\n").as_bytes()).await.unwrap();
        assert!(rest(stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
    }
}

#[tokio::test]
async fn when_all_have_a_request_in_flight_a_newcomer_waits() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let service = Service::start(limits, None).await;
    let mut waiting = Vec::new();
    for n in 0..2 {
        let body = format!(
            r#"{{"message":{{"messageId":"m{n}","role":"ROLE_USER","parts":[{{"text":"hi"}}]}}}}"#
        );
        let head = get("/message:send", &format!("content-length: {}\r\n", body.len()));
        let mut stream = service.connect().await;
        let request = head.replacen("GET", "POST", 1) + &body;
        stream.write_all(request.as_bytes()).await.unwrap();
        service.script.submitted(&format!("task-{n}")).await;
        waiting.push(stream);
    }
    let mut newcomer = service.connect().await;
    newcomer.write_all(get("/healthz", "").as_bytes()).await.unwrap();
    let mut early = [0];
    let nothing = tokio::time::timeout(Duration::from_millis(100), newcomer.read(&mut early)).await;
    assert!(nothing.is_err(), "served beyond the limit");
    service.script.complete("task-1", "done");
    assert!(read_until(&mut newcomer, "ok\n").await.starts_with("HTTP/1.1 200 OK\r\n"));
    service.script.complete("task-0", "done");
    assert!(read_until(&mut waiting[0], "}").await.starts_with("HTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_place_and_the_task_stays() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let service = Service::start(limits, None).await;
    let body = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}"#;
    let head = get("/message:send", &format!("content-length: {}\r\n", body.len()));
    let mut gone = service.connect().await;
    gone.write_all((head.replacen("GET", "POST", 1) + body).as_bytes()).await.unwrap();
    service.script.submitted("task-0").await;
    drop(gone);
    let answer = service.exchange(get("/tasks/task-0", "connection: close\r\n").as_bytes()).await;
    assert!(answer.contains("TASK_STATE_SUBMITTED"), "{answer}");
}

#[tokio::test]
async fn after_the_end_nobody_is_accepted_and_serve_returns() {
    let service = Service::start(Limits::default(), None).await;
    let mut idle = service.connect().await;
    idle.write_all(get("/healthz", "").as_bytes()).await.unwrap();
    read_until(&mut idle, "ok\n").await;
    service.stop.cancel();
    assert_eq!(rest(&mut idle).await, "");
    service.task.await.unwrap();
    assert!(TcpStream::connect(service.address).await.is_err());
}

#[tokio::test]
async fn an_answer_that_does_not_come_holds_the_end_up_for_the_drain_time_only() {
    let limits = Limits { drain: Duration::from_millis(50), ..Limits::default() };
    let service = Service::start(limits, None).await;
    let body = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}"#;
    let head = get("/message:send", &format!("content-length: {}\r\n", body.len()));
    let mut stream = service.connect().await;
    stream.write_all((head.replacen("GET", "POST", 1) + body).as_bytes()).await.unwrap();
    service.script.submitted("task-0").await;
    service.stop.cancel();
    service.task.await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
}

/// A server with a certificate of its own, and whom to trust to reach it.
fn certified() -> (Arc<rustls::ServerConfig>, rustls::RootCertStore) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    (Arc::new(server), roots)
}

#[tokio::test]
async fn tls_serves_the_same_and_a_failed_handshake_harms_nobody() {
    let (server, roots) = certified();
    let service = Service::start(Limits::default(), Some(server)).await;

    let plain = service.exchange(get("/healthz", "").as_bytes()).await;
    assert!(!plain.contains("HTTP/1.1"), "{plain}");

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let mut stream = connector.connect(name, service.connect().await).await.unwrap();
    let request = get("/healthz", "connection: close\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok\n"), "{answer}");
}

#[tokio::test]
async fn a_tls_client_that_is_silent_or_slow_is_hung_up_on() {
    let (server, _roots) = certified();
    let soon = Duration::from_millis(20);
    for (idle, head, hello) in [(soon, Duration::MAX, &b""[..]), (Duration::MAX, soon, b"\x16")] {
        let limits = Limits { idle, head, ..Limits::default() };
        let service = Service::start(limits, Some(Arc::clone(&server))).await;
        let mut stream = service.connect().await;
        stream.write_all(hello).await.unwrap();
        assert_eq!(rest(&mut stream).await, "");
    }
}

#[tokio::test]
async fn an_operation_that_panics_is_an_internal_error_and_the_connection_stays() {
    let service = Service::start(Limits::default(), None).await;
    service.script.panics.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut stream = service.connect().await;
    stream.write_all(get("/tasks", "").as_bytes()).await.unwrap();
    let answer = read_until(&mut stream, "}}").await;
    assert_error(&answer, "500 Internal Server Error", "INTERNAL_ERROR");
    stream.write_all(get("/healthz", "").as_bytes()).await.unwrap();
    assert!(read_until(&mut stream, "ok\n").await.starts_with("HTTP/1.1 200 OK\r\n"));
}
