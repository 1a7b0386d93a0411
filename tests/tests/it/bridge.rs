//! Both programs together: what a worker says, through sensor-bridge, to a task of agent-service.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jiff::SignedDuration;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use system_tests::client::{Client, TOKEN, id_of, result_of, state_of};
use system_tests::events::{now, trigger_with};
use system_tests::home::{Home, ready};
use system_tests::process::{Launch, Program, Service};
use system_tests::tls::Authority;
use system_tests::wait;

/// Two highs within two seconds: the bridge sends one every quarter of a second.
fn home() -> Home {
    Home::with(|config| {
        config.trigger(trigger_with(&json!({
            "min_confidence": 0.85, "consecutive": 2, "max_gap_seconds": 2,
            "cooldown_seconds": 3600, "max_age_seconds": 10,
        })))
    })
}

#[test]
fn a_replay_that_posts_ends_in_a_task() {
    let home = home();
    let service = home.start();
    let start = now() - SignedDuration::from_hours(100);
    let lines: String =
        (0..25).map(|n| frame(start + SignedDuration::from_millis(n * 67), Some(0.9))).collect();
    let recording = home.write("recording.jsonl", &lines);
    let config = configure(&home, &json!({"file": "never.jsonl", "preset": "native"}));
    let exit = home
        .sensor_bridge(["replay", "--source", "front-camera", "--shift-to-now", "--post"])
        .args([recording.as_os_str(), OsStr::new("--config"), config.as_os_str()])
        .env("SENSOR_BRIDGE__SERVICE__URL", &service.url)
        .run()
        .expect(0);
    let events: Vec<Value> =
        exit.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!((2..25).contains(&events.len()), "sparse, and enough: {events:?}");
    let tasks = service.list("");
    let [task] = tasks.as_slice() else { panic!("one task, for the cooldown: {tasks:?}") };
    assert_eq!(result_of(&service.ended(&id_of(task))), "done: look");
}

#[test]
fn a_file_that_a_worker_writes_becomes_a_task() {
    let home = home();
    let service = home.start();
    let frames = home.write("frames.jsonl", "");
    let config = configure(&home, &json!({"file": "frames.jsonl", "preset": "native"}));
    let bridge = run(&home, &service, &config);
    let worker = Worker::to_file(&frames);
    let task = first_task(&service);
    assert_eq!(state_of(&service.ended(&task)), "COMPLETED");
    drop(worker);
    stop(bridge);
}

#[test]
fn a_worker_that_pushes_becomes_a_task() {
    let home = home();
    let service = home.start();
    let config = configure(&home, &json!({"listen": "127.0.0.1:0", "preset": "native"}));
    let bridge = run(&home, &service, &config);
    let address = wait::until("the bridge says where it listens", || worker_address(&bridge));
    let pushed = Client::new(&address);
    let stranger = pushed.call("POST", "/front-camera").set("Authorization", "Bearer wrong");
    assert_eq!(stranger.body(frame(now(), Some(0.9))).send().status, 401);
    assert_eq!(push(&pushed, "/unknown"), 404);
    let task = wait::until("a task is made", || {
        assert_eq!(push(&pushed, "/front-camera"), 202);
        service.list("").first().map(id_of)
    });
    assert_eq!(state_of(&service.ended(&task)), "COMPLETED");
    stop(bridge);
}

#[test]
fn standard_input_becomes_a_task_and_its_end_ends_the_bridge() {
    let home = home();
    let service = home.start();
    let config = configure(&home, &json!({"file": "-", "preset": "native"}));
    let frames: String = (0..8)
        .map(|n| frame(now() - SignedDuration::from_millis(2000 - n * 250), Some(0.95)))
        .collect();
    let bridge = home
        .sensor_bridge([OsStr::new("run"), OsStr::new("--config"), config.as_os_str()])
        .env("SENSOR_BRIDGE__SERVICE__URL", &service.url)
        .input(frames);
    bridge.run().expect(0);
    // All came at once: whether two of them were due is the sampling's to say; none is lost silently.
    assert!(service.list("").len() <= 1);
}

#[test]
fn a_service_that_is_down_at_the_start_of_the_bridge_gets_the_observations_when_it_is_up() {
    let home = home();
    // The address of a service that was here, and comes again.
    let service = home.start();
    let address = service.address().to_owned();
    service.stop().expect(0);
    let frames = home.write("frames.jsonl", "");
    let config = configure(&home, &json!({"file": "frames.jsonl", "preset": "native"}));
    let bridge = home
        .sensor_bridge([OsStr::new("run"), OsStr::new("--config"), config.as_os_str()])
        .env("SENSOR_BRIDGE__SERVICE__URL", format!("http://{address}"))
        .start();
    let worker = Worker::to_file(&frames);
    wait::until("the bridge has found nobody", || {
        bridge.stderr().contains("did not answer").then_some(())
    });
    let service = ready(serve_at(&home, &address).start());
    let task = first_task(&service);
    assert_eq!(state_of(&service.ended(&task)), "COMPLETED");
    drop(worker);
    stop(bridge);
}

#[test]
fn a_service_that_is_killed_between_observations_loses_none_and_fires_once() {
    let home = home();
    let service = home.start();
    let address = service.address().to_owned();
    let frames = home.write("frames.jsonl", "");
    let config = configure(&home, &json!({"file": "frames.jsonl", "preset": "native"}));
    let bridge = run(&home, &service, &config);
    let worker = Worker::to_file(&frames);
    let first = first_task(&service);
    service.kill();
    let service = ready(serve_at(&home, &address).start());
    service.ended(&first);
    // The cooldown survived, so there is no second task; observations arrive again.
    let known = service.list("").len();
    assert_eq!(known, 1);
    assert!(home.agent.begun(&first) <= 1);
    drop(worker);
    stop(bridge);
}

#[test]
fn a_recording_that_is_sent_again_makes_no_second_task() {
    // Without a cooldown a repetition would fire again, were it not the same event in the same bytes.
    let home = Home::with(|config| {
        config.trigger(trigger_with(&json!({
            "consecutive": 2, "max_gap_seconds": 2, "max_age_seconds": 600, "min_confidence": 0.5,
        })))
    });
    let service = home.start();
    let start = now() - SignedDuration::from_secs(5);
    let lines: String =
        (0..30).map(|n| frame(start + SignedDuration::from_millis(n * 150), Some(0.9))).collect();
    let recording = home.write("recording.jsonl", &lines);
    let config = configure(&home, &json!({"file": "never.jsonl", "preset": "native"}));
    let replay = || {
        home.sensor_bridge(["replay", "--source", "front-camera", "--post"])
            .args([recording.as_os_str(), OsStr::new("--config"), config.as_os_str()])
            .env("SENSOR_BRIDGE__SERVICE__URL", &service.url)
            .run()
            .expect(0)
            .stdout
    };
    let first = replay();
    let tasks = service.list("").len();
    assert!(tasks >= 1);
    // How much of it is sent depends on the pace; whatever is sent again is known.
    let second = replay();
    let known: Vec<&str> = first.lines().collect();
    let again = second.lines().filter(|line| known.contains(line)).count();
    assert!(again >= 2, "{first}\n{second}");
    assert_eq!(service.list("").len(), tasks);
}

#[test]
fn a_service_with_a_private_authority_is_reached_with_ca_cert() {
    let home = home();
    let authority = Authority::new("private");
    let identity = authority.identity();
    let cert = home.write("cert.pem", &identity.cert);
    let key = home.write("key.pem", &identity.key);
    home.write("ca.pem", &authority.pem());
    let serve = home.serve().args([
        OsStr::new("--tls-cert"),
        cert.as_os_str(),
        OsStr::new("--tls-key"),
        key.as_os_str(),
    ]);
    let service = Service::ready(serve.start(), |client| client.with_tls(authority.client()));
    let frames = home.write("frames.jsonl", "");
    let config = configure(&home, &json!({"file": "frames.jsonl", "preset": "native"}));
    let bridge = home
        .sensor_bridge([OsStr::new("run"), OsStr::new("--config"), config.as_os_str()])
        .env("SENSOR_BRIDGE__SERVICE__URL", &service.url)
        .env("SENSOR_BRIDGE__SERVICE__CA_CERT", home.path("ca.pem"))
        .start();
    wait::until("the bridge runs", || bridge.stderr().contains("\"running\"").then_some(()));
    let worker = Worker::to_file(&frames);
    let task = first_task(&service);
    assert_eq!(state_of(&service.ended(&task)), "COMPLETED");
    drop(worker);
    stop(bridge);
}

#[test]
fn absence_breaks_a_sequence() {
    let home = home();
    let service = home.start();
    let start = now() - SignedDuration::from_hours(100);
    // High, nobody, high, nobody, ...: never two highs in a row.
    let lines: String = (0..12)
        .map(|n| {
            let confidence = (n % 2 == 0).then_some(0.95);
            frame(start + SignedDuration::from_millis(n * 200), confidence)
        })
        .collect();
    let recording = home.write("recording.jsonl", &lines);
    let config = configure(&home, &json!({"file": "never.jsonl", "preset": "native"}));
    let exit = home
        .sensor_bridge(["replay", "--source", "front-camera", "--shift-to-now", "--post"])
        .args([recording.as_os_str(), OsStr::new("--config"), config.as_os_str()])
        .env("SENSOR_BRIDGE__SERVICE__URL", &service.url)
        .run()
        .expect(0);
    let confidences: Vec<f64> = exit
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["confidence"].as_f64().unwrap())
        .collect();
    assert!(confidences.contains(&0.0), "{confidences:?}");
    assert!(!confidences.windows(2).any(|pair| pair[0] > 0.5 && pair[1] > 0.5), "{confidences:?}");
    assert_eq!(service.list("").len(), 0);
}

#[test]
fn the_bridge_reads_the_numbers_of_the_trigger_from_the_agents_configuration() {
    let home = home();
    let config = configure(&home, &json!({"file": "never.jsonl", "preset": "native"}));
    let exit = home
        .sensor_bridge([OsStr::new("check"), OsStr::new("--config"), config.as_os_str()])
        .run()
        .expect(0);
    assert!(exit.stdout.contains("0.85"), "{}", exit.stdout);
}

#[test]
fn a_bridge_without_a_token_or_with_a_fault_in_its_configuration_is_exit_2() {
    let home = home();
    let config = configure(&home, &json!({"file": "never.jsonl", "preset": "nativ"}));
    let check = [OsStr::new("check"), OsStr::new("--config"), config.as_os_str()];
    home.sensor_bridge(check).run().expect(2).says(&["nativ", "`native`"]);
    let config = configure(&home, &json!({"file": "never.jsonl", "preset": "native"}));
    let run = home.sensor_bridge([OsStr::new("run"), OsStr::new("--config"), config.as_os_str()]);
    let exit = run.without_env("WENDY_AGENT_TOKEN").run();
    assert_ne!(exit.code, 0);
    exit.says(&["WENDY_AGENT_TOKEN"]);
}

/// A line of the preset `native`; `None` is a frame with nobody in it.
fn frame(time: jiff::Timestamp, confidence: Option<f64>) -> String {
    let found = confidence.map(|c| json!({"label": "person", "confidence": c}));
    let detections: Vec<Value> = found.into_iter().collect();
    let timestamp = time.to_string();
    let frame = json!({"timestamp": timestamp, "source": "front-camera", "detections": detections});
    format!("{frame}\n")
}

fn configure(home: &Home, source: &Value) -> PathBuf {
    let config = json!({
        "sources": {"front-camera": source},
        "routes": [{
            "from": "front-camera", "label": "person", "type": "person.detected",
            "expect": {"agent_config": "agent.json"},
        }],
    });
    home.write("bridge.json", &config.to_string())
}

#[track_caller]
fn run(home: &Home, service: &Service, config: &Path) -> Program {
    let run = [OsStr::new("run"), OsStr::new("--config"), config.as_os_str()];
    let bridge = home.sensor_bridge(run).env("SENSOR_BRIDGE__SERVICE__URL", &service.url).start();
    wait::until("the bridge runs", || bridge.stderr().contains("\"running\"").then_some(()));
    bridge
}

fn serve_at(home: &Home, address: &str) -> Launch {
    home.agent_service(["serve", "--listen", address, "--config"])
        .args([home.path("agent.json")])
        .args([OsStr::new("--state-dir"), home.state().as_os_str()])
}

#[track_caller]
fn stop(bridge: Program) {
    bridge.signal(Signal::SIGTERM);
    bridge.wait().expect(0);
}

#[track_caller]
fn first_task(service: &Service) -> String {
    wait::until("a task is made", || service.list("").first().map(id_of))
}

fn worker_address(bridge: &Program) -> Option<String> {
    let log = bridge.stderr();
    let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut told = entries.filter(|entry| entry["message"] == "listening for workers");
    Some(told.next()?["address"].as_str()?.to_owned())
}

fn push(bridge: &Client, path: &str) -> u16 {
    let token = format!("Bearer {TOKEN}");
    let call = bridge.call("POST", path).set("Authorization", &token);
    call.set("Content-Type", "application/json").body(frame(now(), Some(0.9))).send().status
}

/// A worker that sees a person ten times a second, until it is dropped.
struct Worker {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn to_file(file: &Path) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (stop, file) = (Arc::clone(&over), file.to_owned());
        let thread = thread::spawn(move || {
            let mut frames = OpenOptions::new().append(true).open(file).unwrap();
            while !stop.load(Ordering::Relaxed) {
                frames.write_all(frame(now(), Some(0.93)).as_bytes()).unwrap();
                thread::sleep(Duration::from_millis(100));
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
