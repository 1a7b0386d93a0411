//! The program itself: its commands, what they print and how they end.

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::{
    service::{Say, Service, TOKEN},
    support::{client, soon, until},
};

const HOUSE: &str = "
sources: { house: { file: never.jsonl, preset: frigate } }
routes: [ { from: house, label: person, type: person.detected, expect: { min_confidence: 0.85,
  consecutive: 3, max_gap_seconds: 2 } } ]
";

const CAMERA: &str = "
sources: { cam: { file: never.jsonl, preset: native } }
routes: [ { from: cam, label: person, type: person.detected, expect: { min_confidence: 0.85,
  consecutive: 3, max_gap_seconds: 2, cooldown_seconds: 30, max_age_seconds: 10 } } ]
";

#[tokio::test]
async fn the_frigate_samples_derive_what_their_index_says() {
    let dir = tempfile::tempdir().unwrap();
    let config = write(&dir, "house.yaml", HOUSE);
    let track = "1789552799.412037-k3v9qa";
    let seen = |time: &str, confidence: f64, state: &str| {
        json!({"type": "person.detected", "source": "front_door", "timestamp": time,
            "confidence": confidence, "data": {"track_id": track, "state": state,
            "zones": ["driveway"], "box": [311, 140, 402, 377]}})
    };
    let gone = json!({"type": "person.detected", "source": "front_door",
        "timestamp": "2026-09-16T10:00:24.2Z", "confidence": 0.0,
        "data": {"track_id": track, "state": "end", "absent": true, "zones": []}});
    let new = vec![seen("2026-09-16T10:00:00.418712Z", 0.789_062_5, "new")];
    let lifecycle = vec![
        seen("2026-09-16T10:00:00.4Z", 0.79, "new"),
        seen("2026-09-16T10:00:06.6Z", 0.91, "update"),
        seen("2026-09-16T10:00:12.8Z", 0.47, "update"),
        seen("2026-09-16T10:00:19Z", 0.93, "update"),
        gone,
    ];
    for (sample, expected) in
        [("frigate-events-new.json", new), ("frigate-events-lifecycle.jsonl", lifecycle)]
    {
        let output = replay(&fixture(sample), &config, "house", &["--derived"]).await;
        assert_eq!(lines(&output.stdout), expected, "{sample}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[tokio::test]
async fn a_worker_that_can_never_fire_the_trigger_is_told_once_with_numbers_that_would_work() {
    let dir = tempfile::tempdir().unwrap();
    let config = write(&dir, "house.yaml", HOUSE);
    let sample = fixture("frigate-events-lifecycle.jsonl");
    let output = replay(&sample, &config, "house", &["--derived"]).await;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.matches("can never fire").count(), 1, "{stderr}");
    assert!(stderr.contains("`consecutive: 2` with `max_gap_seconds: 10`"), "{stderr}");
}

#[tokio::test]
async fn refusals_go_to_stderr_as_json_with_their_reason() {
    let dir = tempfile::tempdir().unwrap();
    let config = write(&dir, "house.yaml", HOUSE);
    let sample = fixture("frigate-object-count.jsonl");
    let output = replay(&sample, &config, "house", &["--derived"]).await;
    assert_eq!(output.stdout, b"");
    let lines = lines(&output.stderr);
    let reasons: Vec<&Value> = lines.iter().filter_map(|line| line.get("refused")).collect();
    assert_eq!(reasons, ["other_topic", "other_topic", "other_topic", "retained", "retained"]);
    assert_eq!(output.status.code(), Some(0));
}

#[tokio::test]
async fn a_replay_gives_the_same_events_each_time_and_none_of_them_twice() {
    let dir = tempfile::tempdir().unwrap();
    let config = write(&dir, "cam.yaml", CAMERA);
    let recording = recording();
    let first = replay(&recording, &config, "cam", &[]).await;
    let second = replay(&recording, &config, "cam", &[]).await;
    assert_eq!(first.stdout, second.stdout);
    let events = lines(&first.stdout);
    let mut ids: Vec<&str> = events.iter().filter_map(|event| event["id"].as_str()).collect();
    assert!(ids.len() >= 10, "{} events", ids.len());
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), events.len());
    let observations = replay(&recording, &config, "cam", &["--derived"]).await;
    assert!(lines(&observations.stdout).len() > 10 * events.len(), "sampling is sparse");
}

#[tokio::test]
async fn a_replay_that_posts_waits_for_every_answer_and_sums_up() {
    let mut service = Service::start([Say::Accept, Say::Status(409)]).await;
    let dir = tempfile::tempdir().unwrap();
    let config = write(&dir, "cam.yaml", CAMERA);
    let frames = [
        ("2026-09-16T10:00:00Z", Some(0.9)),
        ("2026-09-16T10:00:00.1Z", None),
        ("2026-09-16T10:00:00.2Z", Some(0.95)),
    ]
    .map(|(time, confidence)| {
        let detection = confidence.map(|c| json!({"label": "person", "confidence": c}));
        let detections: Vec<Value> = detection.into_iter().collect();
        json!({"timestamp": time, "source": "door", "detections": detections}).to_string()
    });
    let text = format!("{{\"recording\": {{}}}}\n{}\ngarbage\n", frames.join("\n"));
    let recording = write(&dir, "recording.jsonl", &text);
    let mut command = bridge();
    command
        .args(["replay", "--source", "cam", "--shift-to-now", "--post", "--output", "json"])
        .arg(&recording)
        .arg("--config")
        .arg(&config)
        .env("SENSOR_BRIDGE__SERVICE__URL", service.url())
        .env("WENDY_AGENT_TOKEN", TOKEN);
    let output = soon("the replay ends", command.output()).await.unwrap();
    let stderr = lines(&output.stderr);
    let summary = &stderr.iter().find_map(|line| line.get("summary")).unwrap();
    assert_eq!(summary["observations"], 3, "{summary}");
    assert_eq!(summary["task_ids"], json!(["task-1"]), "{summary}");
    assert_eq!(summary["rejected"], json!({"409": 1}), "{summary}");
    assert_eq!(summary["refused"], json!({"invalid_json": 1}), "{summary}");
    assert_eq!(output.status.code(), Some(0), "{summary}");
    // The low was refused for good, so the high after it would hide a break: it is withheld.
    let posted: Vec<Value> =
        service.rest().iter().map(|seen| seen.event["confidence"].clone()).collect();
    assert_eq!(posted, [json!(0.9), json!(0.0)]);
    let printed: Vec<Value> =
        lines(&output.stdout).iter().map(|event| event["confidence"].clone()).collect();
    assert_eq!(printed, posted);
}

#[tokio::test]
async fn a_replay_to_nobody_fails() {
    let address = Service::start([]).await.address;
    let dir = tempfile::tempdir().unwrap();
    let config =
        write(&dir, "cam.yaml", &CAMERA.replace("max_age_seconds: 10", "max_age_seconds: 1"));
    let text = "{\"timestamp\": \"2026-09-16T10:00:00Z\", \"detections\": [{\"label\": \"person\", \"confidence\": 0.9}]}\n";
    let recording = write(&dir, "one.jsonl", text);
    let mut command = bridge();
    command
        .args(["replay", "--source", "cam", "--shift-to-now", "--post"])
        .arg(&recording)
        .arg("--config")
        .arg(&config)
        .env("SENSOR_BRIDGE__SERVICE__URL", format!("http://{address}"))
        .env("WENDY_AGENT_TOKEN", TOKEN);
    let output = soon("the replay ends", command.output()).await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = lines(&output.stderr);
    let summary = stderr.iter().find_map(|line| line.get("summary")).unwrap();
    assert_eq!(summary["dropped"], json!({"stale": 1}));
}

#[tokio::test]
async fn a_worker_posts_to_a_running_bridge_and_a_signal_ends_it_in_order() {
    let mut service = Service::start([]).await;
    let dir = tempfile::tempdir().unwrap();
    let child = listening(&dir, &service).await;
    let seen = service.next().await;
    assert_eq!((&seen.event["source"], &seen.event["confidence"]), (&json!("cam"), &json!(0.9)));
    let pid = child.id().unwrap().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().await.unwrap();
    let output = soon("it ends", child.wait_with_output()).await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!String::from_utf8_lossy(&output.stderr).contains(TOKEN));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_idle_bridge_holds_little_memory_of_its_own() {
    // BRIDGE.md section 6 asks for 12 MiB with the program itself, whose pages differ by profile.
    const MOST_KIB: u64 = 4 * 1024;
    let service = Service::start([]).await;
    let dir = tempfile::tempdir().unwrap();
    let child = listening(&dir, &service).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap();
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let own: u64 = own.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    assert!(own < MOST_KIB, "{own} KiB");
}

#[tokio::test]
async fn a_bridge_behind_a_pipe_ends_with_it_and_nothing_is_left_unsent() {
    let mut service = Service::start([]).await;
    let dir = tempfile::tempdir().unwrap();
    let config = write(&dir, "stdin.yaml", &CAMERA.replace("never.jsonl", "'-'"));
    let mut command = bridge();
    command
        .arg("run")
        .arg("--config")
        .arg(&config)
        .env("SENSOR_BRIDGE__SERVICE__URL", service.url())
        .env("WENDY_AGENT_TOKEN", TOKEN)
        .stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let frame = json!({"timestamp": now(), "detections": [{"label": "person", "confidence": 0.9}]});
    // Garbage, bytes that are no text, a huge line and a line without its end.
    stdin.write_all(b"garbage\n\xff\xfe\n").await.unwrap();
    stdin.write_all(&[vec![b'x'; 10 * 1024 * 1024], b"\n".to_vec()].concat()).await.unwrap();
    stdin.write_all(frame.to_string().as_bytes()).await.unwrap();
    drop(stdin);
    let output = soon("it ends", child.wait_with_output()).await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(service.rest().len(), 1);
}

#[tokio::test]
async fn a_bridge_that_reads_a_pipe_nobody_closes_stops_on_a_signal() {
    let service = Service::start([]).await;
    let dir = tempfile::tempdir().unwrap();
    let config = write(&dir, "stdin.yaml", &CAMERA.replace("never.jsonl", "'-'"));
    let mut command = bridge();
    command
        .arg("run")
        .arg("--config")
        .arg(&config)
        .env("SENSOR_BRIDGE__SERVICE__URL", service.url())
        .env("WENDY_AGENT_TOKEN", TOKEN)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    let mut stderr = tokio::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    soon("it runs", tokio::io::AsyncBufReadExt::read_line(&mut stderr, &mut line)).await.unwrap();
    let pid = child.id().unwrap().to_string();
    Command::new("kill").args(["-INT", &pid]).status().await.unwrap();
    assert_eq!(soon("it ends", child.wait()).await.unwrap().code(), Some(0));
    drop(stdin);
}

#[tokio::test]
async fn what_is_wrong_with_usage_or_configuration_is_said_and_ends_with_two() {
    let dir = tempfile::tempdir().unwrap();
    let good = write(&dir, "good.yaml", CAMERA);
    let bad = write(&dir, "bad.yaml", &CAMERA.replace("preset: native", "mqtt: x"));
    let recording = recording();
    let path = |path: &Path| path.display().to_string();
    let cases: Vec<(Vec<String>, i32, &str)> = vec![
        (vec!["run".into()], 2, "--config"),
        (vec!["chek".into()], 2, "check"),
        (vec!["check".into(), "--config".into(), path(&bad)], 2, "not served by this version"),
        (vec!["check".into(), "--config".into(), "none.yaml".into()], 2, "none.yaml"),
        (vec!["run".into(), "--config".into(), path(&good)], 2, "WENDY_AGENT_TOKEN is not set"),
        (
            ["replay", &path(&recording), "--config", &path(&good), "--source", "x"]
                .map(str::to_owned)
                .to_vec(),
            2,
            "none of the configuration's: [\"cam\"]",
        ),
        (
            ["replay", "none.jsonl", "--config", &path(&good), "--source", "cam"]
                .map(str::to_owned)
                .to_vec(),
            1,
            "cannot read the recording none.jsonl",
        ),
        (vec!["--help".into()], 0, ""),
    ];
    for (arguments, code, sentence) in cases {
        let output = bridge().args(&arguments).output().await.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(sentence), "{arguments:?}: {stderr}");
    }
}

#[tokio::test]
async fn check_prints_a_table_or_json_and_what_an_operator_should_know() {
    let dir = tempfile::tempdir().unwrap();
    let config = write(&dir, "cam.yaml", CAMERA);
    let check = async |form: &str| {
        let mut command = bridge();
        command.args(["check", "--output", form, "--config"]).arg(&config);
        let output = command.output().await.unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let document: Value = serde_json::from_str(&check("json").await).unwrap();
    assert_eq!(document["routes"][0]["expect"]["consecutive"], 3);
    assert_eq!(document["routes"][0]["spacing_seconds"], 0.25);
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("is not there yet") && warnings.contains("WENDY_AGENT_TOKEN"));
    let table = check("table").await;
    assert!(table.contains("TYPE") && table.contains("person.detected"), "{table}");
}

#[tokio::test]
async fn the_configurations_of_the_demo_are_right() {
    for name in ["bridge.yaml", "bridge-live.yaml"] {
        let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/demo").join(name);
        let output = bridge().arg("check").arg("--config").arg(demo).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["routes"][0]["expect"]["min_confidence"], 0.85, "{name}");
    }
}

#[tokio::test]
async fn a_file_that_a_worker_writes_reaches_the_service() {
    let mut service = Service::start([]).await;
    let dir = tempfile::tempdir().unwrap();
    let config = write(&dir, "file.yaml", &CAMERA.replace("never.jsonl", "frames.jsonl"));
    let mut command = bridge();
    command
        .arg("run")
        .arg("--config")
        .arg(&config)
        .env("SENSOR_BRIDGE__SERVICE__URL", service.url())
        .env("WENDY_AGENT_TOKEN", TOKEN);
    let mut child = command.spawn().unwrap();
    // Whether the bridge or the file is first does not matter for a line that is written anew.
    let frames = dir.path().join("frames.jsonl");
    let mut seen = Vec::new();
    until("a frame was posted", || {
        let frame =
            json!({"timestamp": now(), "detections": [{"label": "person", "confidence": 0.9}]});
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&frames).unwrap();
        std::io::Write::write_all(&mut file, format!("{frame}\n").as_bytes()).unwrap();
        seen.extend(service.rest());
        !seen.is_empty()
    })
    .await;
    assert_eq!(seen[0].event["source"], "cam");
    child.kill().await.unwrap();
}

/// The program, without settings of whoever runs the tests.
/// A bridge that runs and took the frame of a person from a worker at its listener.
async fn listening(dir: &tempfile::TempDir, service: &Service) -> tokio::process::Child {
    let port = free_port();
    let listen = CAMERA.replace("file: never.jsonl", &format!("listen: '127.0.0.1:{port}'"));
    let config = write(dir, "listen.yaml", &listen);
    let mut command = bridge();
    command
        .arg("run")
        .arg("--config")
        .arg(&config)
        .env("SENSOR_BRIDGE__SERVICE__URL", service.url())
        .env("SENSOR_BRIDGE_TOKEN", "a-token-of-the-worker")
        .env("WENDY_AGENT_TOKEN", TOKEN);
    let child = command.spawn().unwrap();
    let url = format!("http://127.0.0.1:{port}/cam");
    let frame = json!({"timestamp": now(), "detections": [{"label": "person", "confidence": 0.9}]});
    let post = || client().post(&url).bearer_auth("a-token-of-the-worker").body(frame.to_string());
    let status = soon("the bridge listens", async {
        loop {
            if let Ok(answer) = post().send().await {
                return answer.status();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(status, 202);
    child
}

fn bridge() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sensor-bridge"));
    for (name, _) in std::env::vars() {
        if name.starts_with("SENSOR_BRIDGE") || name.starts_with("WENDY_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn replay(file: &Path, config: &Path, source: &str, more: &[&str]) -> Output {
    let mut command = bridge();
    command.arg("replay").arg(file).arg("--config").arg(config).args(["--source", source]);
    soon("the replay ends", command.args(more).output()).await.unwrap()
}

/// The lines that are JSON; log lines are, too.
fn lines(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/camera-worker/recording.jsonl")
}

fn write(dir: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn now() -> String {
    service_kit::Clock::system().now().to_string()
}

/// A port that nobody uses now.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
