//! A scripted service: it checks every request that it gets, and answers as told.
//!
//! Each request must be what CONTRACT.md section 4 asks for, and a known id
//! must come with the bytes that it came with first; a request that is not
//! right fails the test that looks at the [`Seen`] requests.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::support;

/// The token that it wants.
pub(crate) const TOKEN: &str = "the-token-of-the-service";

/// What it says to one request.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    /// 200, with a task.
    Accept,
    /// 200, without one.
    NotAccepted,
    /// A status, with a message.
    Status(u16),
    /// 429 with this `Retry-After`.
    Limited(&'static str),
    /// 302 to another place of the same service.
    Redirect,
    /// Nothing, until it is told to go on; then as `NotAccepted`.
    Hang,
}

/// One request that it got.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) event: Value,
    pub(crate) bytes: Bytes,
    /// What was wrong with it.
    pub(crate) faults: Vec<String>,
}

/// The service, until it is dropped.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    seen: mpsc::UnboundedReceiver<Seen>,
    shared: Arc<Shared>,
    server: tokio::task::JoinHandle<()>,
}

struct Shared {
    script: Mutex<VecDeque<Say>>,
    bodies: Mutex<BTreeMap<String, Bytes>>,
    token: Mutex<String>,
    seen: mpsc::UnboundedSender<Seen>,
    go_on: Notify,
}

impl Service {
    /// Serves on a free port; after the script everything is taken.
    pub(crate) async fn start(script: impl IntoIterator<Item = Say>) -> Self {
        Self::start_on("127.0.0.1:0".parse().unwrap(), script).await
    }

    pub(crate) async fn start_on(
        address: SocketAddr,
        script: impl IntoIterator<Item = Say>,
    ) -> Self {
        let (sender, seen) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            script: Mutex::new(script.into_iter().collect()),
            bodies: Mutex::default(),
            token: Mutex::new(TOKEN.to_owned()),
            seen: sender,
            go_on: Notify::new(),
        });
        let routes = Router::new()
            .route("/events", post(answer))
            .fallback(async || StatusCode::NOT_FOUND)
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        #[expect(clippy::disallowed_methods, reason = "the server of a test ends with it")]
        let server = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { address, seen, shared, server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request, which must be right.
    pub(crate) async fn next(&mut self) -> Seen {
        let seen = support::soon("a request", self.seen.recv()).await.unwrap();
        assert_eq!(seen.faults, Vec::<String>::new(), "{}", seen.event);
        seen
    }

    /// All requests so far that were not looked at; they must be right.
    pub(crate) fn rest(&mut self) -> Vec<Seen> {
        let rest: Vec<Seen> = std::iter::from_fn(|| self.seen.try_recv().ok()).collect();
        for seen in &rest {
            assert_eq!(seen.faults, Vec::<String>::new(), "{}", seen.event);
        }
        rest
    }

    /// From now on another token is right.
    pub(crate) fn rotate(&self, token: &str) {
        token.clone_into(&mut self.shared.token.lock().unwrap());
    }

    /// Answers what hangs.
    pub(crate) fn go_on(&self) {
        self.shared.go_on.notify_waiters();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let event: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let mut faults = Vec::new();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    for (name, wanted) in [("content-type", "application/json"), ("a2a-version", "1.0")] {
        if header(name) != wanted {
            faults.push(format!("{name}: {}", header(name)));
        }
    }
    let known = ["id", "type", "source", "timestamp", "confidence", "data"];
    let fields: Vec<&str> = event
        .as_object()
        .map(|event| event.keys().map(String::as_str).collect())
        .unwrap_or_default();
    if fields.iter().any(|field| !known.contains(field)) || fields.len() != known.len() {
        faults.push(format!("fields: {fields:?}"));
    }
    if !event["confidence"].as_f64().is_some_and(|c| (0.0..=1.0).contains(&c)) {
        faults.push("confidence".to_owned());
    }
    if event["timestamp"].as_str().is_none_or(|t| t.parse::<jiff::Timestamp>().is_err()) {
        faults.push("timestamp".to_owned());
    }
    let id = event["id"].as_str().unwrap_or_default().to_owned();
    let first = shared.bodies.lock().unwrap().entry(id).or_insert_with(|| body.clone()).clone();
    if first != body {
        faults.push("other bytes than the first time".to_owned());
    }
    let authorized = header("authorization") == format!("Bearer {}", shared.token.lock().unwrap());
    let go_on = shared.go_on.notified();
    let say =
        if authorized { shared.script.lock().unwrap().pop_front() } else { Some(Say::Status(401)) };
    shared.seen.send(Seen { event, bytes: body, faults }).ok();
    match say.unwrap_or(Say::NotAccepted) {
        Say::Accept => axum::Json(json!({"accepted": true, "task_id": "task-1"})).into_response(),
        Say::NotAccepted => taken(),
        Say::Status(status) => refused(status, &[]),
        Say::Limited(wait) => refused(429, &[("retry-after", wait)]),
        Say::Redirect => refused(302, &[("location", "/events")]),
        Say::Hang => {
            go_on.await;
            taken()
        }
    }
}

fn taken() -> Response {
    let reason = "waiting for consecutive observations";
    axum::Json(json!({"accepted": false, "reason": reason})).into_response()
}

fn refused(status: u16, headers: &[(&'static str, &'static str)]) -> Response {
    let body = json!({"error": {"code": status, "status": "X", "message": "as the script says"}});
    let mut response = (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(*name, axum::http::HeaderValue::from_static(value));
    }
    response
}
