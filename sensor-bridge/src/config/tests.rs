use super::*;
use crate::pipeline::route::Expect;
use crate::source::file::Input;

const MINIMAL: &str = "
sources:
  cam: { file: frames.jsonl, preset: native }
routes:
  - { from: cam, label: person, type: person.detected }
";

#[test]
fn a_configuration_of_five_lines_is_enough() {
    let (dir, config) = load_one(MINIMAL);
    let config = config.unwrap();
    assert_eq!(config.service.url.to_string(), "http://127.0.0.1:8787");
    assert_eq!(config.service.token_env, "WENDY_AGENT_TOKEN");
    assert_eq!(config.budget, Budget { per_second: 8.0, burst: 8 });
    assert_eq!(config.max_message_bytes, 1_048_576);
    assert_eq!(config.frame_close, Duration::from_millis(50));
    assert_eq!(config.status_listen.to_string(), "127.0.0.1:8788");
    let input = Input::Path(dir.path().join("frames.jsonl"));
    assert_eq!(config.sources[0].transport, Transport::File(input));
    assert_eq!(config.warnings.len(), 1, "the file is not there yet: {:?}", config.warnings);
}

#[test]
fn later_files_and_then_variables_win() {
    let dir = tempfile::tempdir().unwrap();
    let first = write(dir.path(), "a.yaml", MINIMAL);
    let second = write(
        dir.path(),
        "b.toml",
        "max_message_bytes = 2048\n[service]\nurl = 'https://a.example'\n",
    );
    let vars = Vars::from_iter([("SENSOR_BRIDGE__SERVICE__URL", "http://localhost:9000")]);
    let config = load(&[first, second], &vars).unwrap();
    assert_eq!(config.service.url.to_string(), "http://localhost:9000");
    assert_eq!(config.max_message_bytes, 2048);
}

#[test]
fn all_faults_come_at_once_and_name_field_file_and_what_would_be_right() {
    let (dir, config) = load_one(
        "
service: { url: 'http://agent.example', token_env: 'a token, not a name' }
sources:
  one: { mqtt: 'mqtt://broker', preset: frigat }
  two: { file: a.jsonl, listen: '127.0.0.1:1' }
  three: { listen: '0.0.0.0:8790', preset: axis }
  four: { listen: 'here', preset: native }
routes:
  - { from: twoo, label: [], type: a }
  - { from: one, label: person, type: b, expect: { consecutive: 0 } }
  - { from: one, label: person, type: c, expect: { max_gap_seconds: -1 } }
  - { from: one, label: person, type: d, spacing: 9 }
  - { label: person }
max_message_bytes: 1
frame_close_ms: 0
budget: { per_second: 0, burst: 0 }
status: { listen: x }
",
    );
    let faults = config.unwrap_err();
    let file = dir.path().join("bridge.yaml");
    let expected = [
        "`service.url` in FILE must begin with https://; http is for loopback only",
        "`status.listen` in FILE must be an IP address and a port",
        "`max_message_bytes` in FILE must be 1,024 to",
        "`frame_close_ms` in FILE must be 1 to 5000 milliseconds",
        "`budget.per_second` in FILE must be 0.5 to 1000",
        "`budget.burst` in FILE must be 1 to 1000",
        "`sources.four.listen` in FILE must be an IP address and a port (127.0.0.1:8790), but is \"here\"",
        "`sources.one.mqtt` in FILE is not served by this version; use file or listen",
        "`sources.one.preset` in FILE is no preset: \"frigat\"; did you mean `frigate`?",
        "`sources.three.listen` in FILE is not on loopback and so needs `tls_cert` and `tls_key`",
        "`sources.three.preset` in FILE is `axis`, which is not served by this version",
        "`sources.two` in FILE must have one transport, but has file and listen",
        "`sources.two` in FILE needs `preset`: native or frigate",
        "`routes[0].from` in FILE names no source: \"twoo\"; did you mean `two`?",
        "`routes[0]` in FILE needs `label`",
        "`routes[1]` in FILE is not right: `expect.consecutive` must be 1 to 1000; it is 0",
        "`routes[2].expect.max_gap_seconds` in FILE must be a number of seconds",
        "`routes[3]` in FILE is not right: `spacing` must be 0.1 to 5 s",
        "`routes[4]` in FILE needs `from`",
        "`routes[4]` in FILE needs `type`",
        "`service.token_env` in FILE must be the name of an environment variable",
    ];
    for sentence in expected {
        let sentence = sentence.replace("FILE", &file.display().to_string());
        assert!(faults.to_string().contains(&sentence), "{sentence}\nnot in:\n{faults}");
    }
    assert_eq!(faults.sentences().len(), expected.len(), "{faults}");
}

#[test]
fn every_key_of_later_versions_is_known_and_answered_with_one_sentence() {
    let keys = [
        "mqtt",
        "websocket",
        "sse",
        "ndjson",
        "unix",
        "udp",
        "map",
        "status",
        "topics",
        "qos",
        "username_env",
        "password_env",
        "ca_cert",
        "client_cert",
        "client_key",
        "client_id",
        "subscribe",
    ];
    for key in keys {
        let text = MINIMAL.replace("file: frames.jsonl", &format!("{key}: x"));
        let (_dir, config) = load_one(&text);
        let faults = config.unwrap_err();
        assert_eq!(faults.sentences().len(), 1, "{key}: {faults}");
        let sentence = format!("`sources.cam.{key}` in ");
        assert!(faults.to_string().starts_with(&sentence), "{faults}");
        assert!(faults.to_string().contains("is not served by this version"), "{faults}");
    }
}

#[test]
fn an_unknown_field_is_answered_with_the_nearest_name() {
    let (_dir, config) = load_one(&MINIMAL.replace("label:", "labl:"));
    assert!(config.unwrap_err().to_string().contains("did you mean `label`?"));
}

#[test]
fn the_numbers_of_a_trigger_are_read_from_the_agents_configuration() {
    let agent = r#"{"name": "a", "later_field": 1, "triggers": [
        {"type": "person.detected", "source": "yard", "prompt": "x", "consecutive": 9},
        {"type": "person.detected", "source": "cam", "prompt": "x", "min_confidence": 0.85,
         "consecutive": 3, "max_gap_seconds": 2, "cooldown_seconds": 30, "max_age_seconds": 10}]}"#;
    let config = with_agent(agent, MINIMAL).unwrap();
    let expected = Expect {
        min_confidence: Some(0.85),
        consecutive: 3,
        max_gap: Duration::from_secs(2),
        cooldown: Duration::from_secs(30),
        max_age: Duration::from_secs(10),
    };
    let (_, route) = config.routes.iter().next().unwrap();
    assert_eq!(route.expect(), &expected);
}

#[test]
fn an_agent_without_a_fitting_trigger_is_a_fault() {
    let trigger = |kind: &str, source: &str, consecutive: u32| {
        format!(r#"{{"type": "{kind}", "source": "{source}", "consecutive": {consecutive}}}"#)
    };
    let agent = |triggers: &[String]| format!(r#"{{"triggers": [{}]}}"#, triggers.join(", "));
    let cases = [
        (agent(&[trigger("car.detected", "cam", 1)]), "has no trigger of type \"person.detected\""),
        (
            agent(&[trigger("person.detected", "a", 1), trigger("person.detected", "b", 2)]),
            "for [\"a\", \"b\"] wait for different numbers",
        ),
        ("{".to_owned(), "is no JSON"),
    ];
    for (agent, expected) in cases {
        let faults = with_agent(&agent, MINIMAL).unwrap_err().to_string();
        assert!(faults.contains(expected), "{faults}");
        assert!(faults.contains("`routes[0].expect.agent_config` in "), "{faults}");
    }
}

#[test]
fn triggers_of_other_cameras_do_when_they_wait_for_the_same() {
    let agent = r#"{"triggers": [{"type": "person.detected", "source": "a", "consecutive": 2},
        {"type": "person.detected", "source": "b", "consecutive": 2}]}"#;
    let config = with_agent(agent, MINIMAL).unwrap();
    let (_, route) = config.routes.iter().next().unwrap();
    assert_eq!(route.expect().consecutive, 2);
    assert_eq!(route.expect().min_confidence, Some(0.0), "the service's default");
}

#[test]
fn listening_sources_may_share_an_address_but_not_with_other_certificates() {
    let shared = "
sources:
  a: { listen: 'localhost:8790', preset: native }
  b: { listen: '127.0.0.1:8790', preset: native, token_env: B_TOKEN }
routes:
  - { from: a, label: person, type: person.detected }
  - { from: b, label: person, type: person.detected }
";
    let (_dir, config) = load_one(shared);
    let config = config.unwrap();
    assert!(config.sources.iter().all(|source| matches!(
        &source.transport,
        Transport::Listen { address, .. } if address.to_string() == "127.0.0.1:8790"
    )));
    let tls = shared.replace("B_TOKEN", "B_TOKEN, tls_cert: c.pem, tls_key: k.pem");
    let (_dir, config) = load_one(&tls);
    assert!(config.unwrap_err().to_string().contains("both need the same tls_cert and tls_key"));
}

#[test]
fn one_score_per_label_stands_for_what_a_payload_lacks() {
    let text = |second: &str| {
        format!(
            "
sources:
  cam: {{ file: '-', preset: native, labels: {{ '0': person }} }}
routes:
  - {{ from: cam, label: [person, car], type: a, confidence: {{ const: 0.9 }} }}
  - {{ from: cam, label: person, type: b, confidence: {{ const: {second} }} }}
"
        )
    };
    let (_dir, config) = load_one(&text("0.9"));
    let config = config.unwrap();
    let rules = config.rules(&config.sources[0]);
    assert_eq!(rules.constants, [("car".to_owned(), 0.9), ("person".to_owned(), 0.9)].into());
    assert_eq!(
        rules.watched,
        [["car".to_owned(), "person".to_owned()].into(), ["person".to_owned()].into()]
    );
    assert_eq!(rules.labels, [("0".to_owned(), "person".to_owned())].into());
    let (_dir, config) = load_one(&text("0.8"));
    assert!(config.unwrap_err().to_string().contains("`routes[1].confidence.const` in "));
}

#[test]
fn a_source_that_no_route_uses_is_a_warning() {
    let text = MINIMAL.replace("routes:", "  idle: { file: '-', preset: frigate }\nroutes:");
    let (_dir, config) = load_one(&text);
    let warnings = config.unwrap().warnings;
    assert!(warnings.iter().any(|w| w.contains("`sources.idle`") && w.contains("no route")));
}

#[test]
fn a_url_of_the_service_is_an_origin_and_is_never_shown() {
    for url in ["https://user:hunter2@agent.example", "https://agent.example/events", "agent"] {
        let (_dir, config) = load_one(&format!("service: {{ url: '{url}' }}\n{MINIMAL}"));
        let faults = config.unwrap_err().to_string();
        assert!(faults.starts_with("`service.url` in "), "{faults}");
        assert!(!faults.contains("hunter2"), "{faults}");
    }
}

fn load_one(text: &str) -> (tempfile::TempDir, Result<Config, Faults>) {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "bridge.yaml", text);
    let config = load(&[file], &Vars::default());
    (dir, config)
}

fn with_agent(agent: &str, bridge: &str) -> Result<Config, Faults> {
    let (dir, _config) = load_one(bridge);
    write(dir.path(), "agent.json", agent);
    let expect = "type: person.detected, expect: { agent_config: agent.json }";
    let text = bridge.replace("type: person.detected", expect);
    load(&[write(dir.path(), "bridge.yaml", &text)], &Vars::default())
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}
