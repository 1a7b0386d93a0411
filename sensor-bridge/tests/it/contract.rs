//! The source contract (`src/source/mod.rs`), run for every transport.
//!
//! A transport is driven as its worker would: bytes go in, and what comes out
//! of the lane is decoded and derived as the program does it. Each disturbance
//! is followed by one good message, which must become an observation, and the
//! counters must say what happened.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sensor_bridge::{
    decode::{self, Reader, Rules},
    metrics::{Connection, SourceCounters, SourceCounts},
    pipeline::frame::Evidence,
    source::{
        Port,
        file::{Input, Lines},
        inbox::{Inbox, LANE_MESSAGES},
        listen::{self, Endpoint, Endpoints},
    },
};
use service_kit::{Clock, ManualClock, Tasks};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{self, until};

const LIMIT: usize = 1024 * 1024;
const TOKEN: &str = "a-token-of-a-test";

/// The transports of this version; a new one is a line here and in [`Rig::start`].
const TRANSPORTS: [Kind; 4] = [Kind::File, Kind::Fifo, Kind::Stream, Kind::Listen];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Fifo,
    /// What standard input is made of; the pipe itself is in `run.rs`, with the program.
    Stream,
    Listen,
}

#[tokio::test]
async fn a_good_message_becomes_an_observation() {
    for kind in TRANSPORTS {
        let mut rig = Rig::start(kind).await;
        rig.say_good(1).await;
        rig.expect_observation(1).await;
        assert_eq!(rig.counts().messages, 1, "{kind:?}");
        rig.stop().await;
    }
}

#[tokio::test]
async fn garbage_and_invalid_utf8_cost_themselves_only() {
    for kind in TRANSPORTS {
        let mut rig = Rig::start(kind).await;
        rig.say_good(1).await;
        rig.expect_observation(1).await;
        rig.say(b"{\"label\": \"person\", ").await;
        rig.say(b"\x00\x01\x02 not json").await;
        rig.say(b"{\"label\": \"\xff\xfe\"}").await;
        rig.say_good(2).await;
        rig.expect_observation(2).await;
        let refused = rig.counts().refused;
        assert_eq!(refused.get("invalid_json"), Some(&2), "{kind:?}: {refused:?}");
        assert_eq!(refused.get("invalid_utf8"), Some(&1), "{kind:?}: {refused:?}");
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_message_of_ten_mebibytes_is_skipped_and_counted_and_the_next_arrives() {
    let huge = vec![b'x'; 10 * 1024 * 1024];
    for kind in TRANSPORTS {
        let mut rig = Rig::start(kind).await;
        rig.say(&huge).await;
        rig.say_good(1).await;
        rig.expect_observation(1).await;
        let counts = rig.counts();
        assert_eq!(counts.refused, [("oversized", 1)].into(), "{kind:?}");
        assert_eq!(counts.messages, 1, "{kind:?}");
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_flood_costs_the_oldest_messages_and_memory_stays_bounded() {
    let sent = 3 * LANE_MESSAGES;
    for kind in TRANSPORTS {
        let mut rig = Rig::start(kind).await;
        let flood: Vec<u8> = (1..=sent).flat_map(|n| [good(n), b"\n".to_vec()].concat()).collect();
        // Nobody reads the lane meanwhile; the worker is not held up by that.
        rig.say(&flood).await;
        let counters = Arc::clone(&rig.counters);
        until("all of the flood arrived", || {
            usize::try_from(counters.snapshot().messages).unwrap() == sent
        })
        .await;
        let kept: Vec<usize> = rig.drain().await;
        assert_eq!(kept, (sent - LANE_MESSAGES + 1..=sent).collect::<Vec<_>>(), "{kind:?}");
        let overrun = u64::try_from(sent - LANE_MESSAGES).unwrap();
        assert_eq!(rig.counts().overrun, overrun, "{kind:?}");
        rig.say_good(sent + 1).await;
        rig.expect_observation(sent + 1).await;
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_worker_that_starts_late_is_heard() {
    for kind in [Kind::File, Kind::Fifo] {
        let mut rig = Rig::without_worker(kind).await;
        until("it was looked for in vain", || rig.counts().retries > 0).await;
        assert_eq!(rig.counts().connection, Connection::Waiting, "{kind:?}");
        rig.bring_worker();
        rig.say_good(1).await;
        rig.expect_observation(1).await;
        assert_eq!(rig.counts().connection, Connection::Open, "{kind:?}");
        rig.stop().await;
    }
}

#[tokio::test]
async fn what_was_in_a_file_before_us_is_old_news_and_so_is_the_line_it_ends_in() {
    let mut rig = Rig::prepared(Kind::File, |path| {
        std::fs::write(path, [good(1), b"\n{\"half\": ".to_vec()].concat()).unwrap();
    })
    .await;
    rig.is_open().await;
    rig.say(b"of a line}").await;
    rig.say_good(2).await;
    rig.expect_observation(2).await;
    assert_eq!(rig.counts().messages, 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_rotated_file_is_read_to_its_end_and_the_new_one_from_its_start() {
    let mut rig = Rig::start(Kind::File).await;
    rig.say_good(1).await;
    rig.expect_observation(1).await;
    let path = rig.path();
    std::fs::rename(&path, path.with_extension("1")).unwrap();
    append(&path.with_extension("1"), &[good(2), b"\n".to_vec(), good(3)].concat());
    std::fs::write(&path, [good(4), b"\n".to_vec()].concat()).unwrap();
    for n in 2..=4 {
        rig.expect_observation(n).await;
    }
    rig.say_good(5).await;
    rig.expect_observation(5).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_truncated_file_is_read_from_its_start() {
    let mut rig = Rig::start(Kind::File).await;
    for n in 1..=3 {
        rig.say_good(n).await;
        rig.expect_observation(n).await;
    }
    std::fs::write(rig.path(), [good(4), b"\n".to_vec()].concat()).unwrap();
    rig.expect_observation(4).await;
    rig.say_good(5).await;
    rig.expect_observation(5).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_fifo_outlives_its_writers_and_a_line_ends_with_its_writer() {
    let mut rig = Rig::start(Kind::Fifo).await;
    write_fifo(&rig.path(), good(1)).await;
    rig.expect_observation(1).await;
    write_fifo(&rig.path(), good(2)).await;
    rig.expect_observation(2).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_stream_that_ends_gives_its_last_line_and_closes_the_lane() {
    let mut rig = Rig::start(Kind::Stream).await;
    rig.stream.as_mut().unwrap().write_all(&good(1)).await.unwrap();
    rig.stream = None;
    rig.expect_observation(1).await;
    assert!(support::soon("the lane closes", rig.inbox.receive()).await.is_none());
    assert_eq!(rig.counts().connection, Connection::Ended);
}

#[tokio::test]
async fn a_post_is_answered_as_the_contract_says() {
    let rig = Rig::start(Kind::Listen).await;
    let address = rig.address.clone().unwrap();
    let client = support::client();
    let post = |path: &'static str, token: Option<&'static str>, body: Vec<u8>| {
        let request = client.post(format!("{address}{path}")).body(body);
        let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
        async move { request.send().await.unwrap().status().as_u16() }
    };
    let cases = [
        ("one document", "/cam", Some(TOKEN), good(1), 202),
        ("lines", "/cam", Some(TOKEN), [good(2), b"\n".to_vec(), good(3)].concat(), 202),
        ("no token", "/cam", None, good(4), 401),
        ("a wrong token", "/cam", Some("another-token-of-16"), good(4), 401),
        ("a wrong token elsewhere", "/nobody", Some("another-token-of-16"), good(4), 401),
        ("no such source", "/nobody", Some(TOKEN), good(4), 404),
        ("a deeper path", "/cam/1", Some(TOKEN), good(4), 404),
        ("garbage", "/cam", Some(TOKEN), b"not json".to_vec(), 400),
        ("a good line and garbage", "/cam", Some(TOKEN), [good(4), b"\n{".to_vec()].concat(), 400),
        ("nothing", "/cam", Some(TOKEN), Vec::new(), 400),
        ("exactly the limit", "/cam", Some(TOKEN), padded(LIMIT), 202),
        ("a byte more", "/cam", Some(TOKEN), padded(LIMIT + 1), 413),
    ];
    for (name, path, token, body, expected) in cases {
        assert_eq!(post(path, token, body).await, expected, "{name}");
    }
    let got = client.get(format!("{address}/cam")).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(got.status(), 405);
    assert_eq!(got.headers()["allow"], "POST");
    // Nothing of a refused body was taken: three messages and the padded one.
    assert_eq!(rig.counts().messages, 4);
    rig.stop().await;
}

#[tokio::test]
async fn a_post_that_is_under_way_when_the_bridge_stops_is_answered_503() {
    let rig = Rig::start(Kind::Listen).await;
    let address = rig.address.clone().unwrap();
    let address = address.strip_prefix("http://").unwrap();
    let mut worker = tokio::net::TcpStream::connect(address).await.unwrap();
    let body = good(1);
    let head = format!(
        "POST /cam HTTP/1.1\r\nHost: bridge\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    worker.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    support::soon("it waits for the body", worker.read_exact(&mut go_on)).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    rig.tasks.request_soft_stop();
    worker.write_all(&body).await.unwrap();
    let mut answer = String::new();
    support::soon("an answer", worker.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\nretry-after: 5\r\n"), "{answer}");
    assert_eq!(rig.counts().messages, 0);
    rig.stop().await;
}

/// One transport and the worker at its other end.
struct Rig {
    kind: Kind,
    dir: tempfile::TempDir,
    inbox: Inbox,
    reader: Reader,
    counters: Arc<SourceCounters>,
    clock: Clock,
    tasks: Tasks,
    /// Keeps a writer of the FIFO, as a worker that runs does.
    fifo: Option<tokio::net::unix::pipe::Sender>,
    stream: Option<tokio::io::DuplexStream>,
    address: Option<String>,
}

impl Rig {
    /// A transport whose worker is there.
    async fn start(kind: Kind) -> Self {
        let rig = Self::prepared(kind, |path| make(kind, path)).await;
        rig.is_open().await;
        rig
    }

    async fn is_open(&self) {
        until("it is open", || self.counts().connection == Connection::Open).await;
    }

    async fn without_worker(kind: Kind) -> Self {
        Self::prepared(kind, |_| {}).await
    }

    async fn prepared(kind: Kind, prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        prepare(&dir.path().join("worker"));
        let (inbox, mut lanes) = Inbox::new(1);
        let counters = Arc::new(SourceCounters::default());
        let clock = ManualClock::new("2026-09-16T10:00:00Z".parse().unwrap()).clock();
        let lane = lanes.remove(0);
        let port = Port::new("cam".into(), lane, Arc::clone(&counters), clock.clone());
        let rules = Rules { name: "cam".to_owned(), ..Rules::default() };
        let reader = Reader::new(rules, decode::preset("native").unwrap());
        let mut rig = Self {
            kind,
            dir,
            inbox,
            reader,
            counters,
            clock,
            tasks: Tasks::new(),
            fifo: None,
            stream: None,
            address: None,
        };
        rig.run(port).await;
        rig
    }

    async fn run(&mut self, port: Port) {
        let stop = self.tasks.soft_stop().clone();
        match self.kind {
            Kind::File | Kind::Fifo => {
                let lines = Lines::new(port, LIMIT, stop);
                drop(self.tasks.spawn(lines.run(Input::Path(self.path()))));
            }
            Kind::Stream => {
                let (ours, theirs) = tokio::io::duplex(1024);
                self.stream = Some(ours);
                drop(self.tasks.spawn(Lines::new(port, LIMIT, stop).run_stream(theirs)));
            }
            Kind::Listen => {
                let endpoints = Endpoints::new(vec![Endpoint::new(port, TOKEN.into())], LIMIT);
                let bound =
                    listen::bind("127.0.0.1:0".parse().unwrap(), None, endpoints).await.unwrap();
                self.address = Some(format!("http://{}", bound.local_addr().unwrap()));
                drop(self.tasks.spawn(bound.serve(self.tasks.clone())));
            }
        }
    }

    fn bring_worker(&self) {
        make(self.kind, &self.path());
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("worker")
    }

    async fn say_good(&mut self, n: usize) {
        self.say(&good(n)).await;
    }

    /// Sends one message the way its worker does.
    async fn say(&mut self, message: &[u8]) {
        let line = [message, b"\n"].concat();
        match self.kind {
            Kind::File => append(&self.path(), &line),
            Kind::Fifo => {
                let mut fifo = match self.fifo.take() {
                    Some(fifo) => fifo,
                    None => open_fifo(&self.path()).await,
                };
                support::soon("the fifo takes it", fifo.write_all(&line)).await.unwrap();
                self.fifo = Some(fifo);
            }
            Kind::Stream => {
                let stream = self.stream.as_mut().unwrap();
                support::soon("the stream takes it", stream.write_all(&line)).await.unwrap();
            }
            Kind::Listen => {
                let url = format!("{}/cam", self.address.as_ref().unwrap());
                let request = support::client().post(url).bearer_auth(TOKEN).body(line);
                let _answered = support::soon("an answer", request.send()).await.unwrap();
            }
        }
    }

    /// The next observation is that of the message `n`; what comes before it must be refused.
    async fn expect_observation(&mut self, n: usize) {
        loop {
            let delivery = support::soon("a message", self.inbox.receive()).await.unwrap();
            let message = delivery.message;
            let decoded = self.reader.read(&message.bytes, &message.meta, message.at);
            for refusal in &decoded.refused {
                self.counters.refused(refusal.reason());
            }
            if let Some(message) = decoded.messages.first() {
                assert_eq!(number(&message.evidence), n, "{:?}", self.kind);
                return;
            }
        }
    }

    /// The numbers of all messages that are in the lane now.
    async fn drain(&mut self) -> Vec<usize> {
        let mut numbers = Vec::new();
        for _ in 0..LANE_MESSAGES {
            let delivery = support::soon("a message", self.inbox.receive()).await.unwrap();
            let message = delivery.message;
            let decoded = self.reader.read(&message.bytes, &message.meta, self.clock.now());
            numbers.push(number(&decoded.messages[0].evidence));
        }
        numbers
    }

    fn counts(&self) -> SourceCounts {
        self.counters.snapshot()
    }

    async fn stop(self) {
        self.tasks.request_soft_stop();
        support::soon("it stops", self.tasks.finish()).await;
    }
}

fn make(kind: Kind, path: &Path) {
    match kind {
        Kind::File => std::fs::write(path, b"").unwrap(),
        Kind::Fifo => {
            let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        }
        Kind::Stream | Kind::Listen => {}
    }
}

/// A detection whose track is `n`.
fn good(n: usize) -> Vec<u8> {
    let document = serde_json::json!({"label": "person", "confidence": 0.9,
        "timestamp": "2026-09-16T10:00:00Z", "track_id": n});
    document.to_string().into_bytes()
}

/// A document of exactly `length` bytes.
fn padded(length: usize) -> Vec<u8> {
    let mut document = vec![b' '; length];
    document[..2].copy_from_slice(b"[]");
    document
}

fn number(evidence: &Evidence) -> usize {
    match evidence {
        Evidence::Object(detection) => {
            usize::try_from(detection.data["track_id"].as_u64().unwrap()).unwrap()
        }
        Evidence::Frame(_) | Evidence::Part(_) | Evidence::Absent { .. } => panic!("{evidence:?}"),
    }
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

/// Opens the FIFO for writing as soon as the bridge has it open for reading.
async fn open_fifo(path: &Path) -> tokio::net::unix::pipe::Sender {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        match tokio::net::unix::pipe::OpenOptions::new().open_sender(path) {
            Ok(sender) => return sender,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "no reader: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn write_fifo(path: &Path, bytes: Vec<u8>) {
    let mut fifo = open_fifo(path).await;
    fifo.write_all(&bytes).await.unwrap();
}
