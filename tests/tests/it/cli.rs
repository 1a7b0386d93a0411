//! CONTRACT section 6: the command line.

use std::ffi::OsStr;
use std::fs;

use serde_json::{Value, json};
use system_tests::client::{fresh_id, id_of, message, result_of, state_of};
use system_tests::events::{event, now, trigger, trigger_with};
use system_tests::home::Home;
use system_tests::process::{Exit, Launch, Service, binary};
use system_tests::skip;
use system_tests::tls::Authority;
use system_tests::wait;

#[test]
fn example_is_the_agent_of_the_description_with_its_numbers() {
    let home = Home::new();
    let example = home.agent_service(["example"]).run().expect(0).json();
    assert_eq!(example["name"], "device-brain");
    assert_eq!(example["profile"], "device-reasoning");
    assert_eq!(example["allow_tools"], json!([]));
    let triggers = example["triggers"].as_array().unwrap();
    let [trigger] = triggers.as_slice() else { panic!("one trigger: {example}") };
    for (field, value) in [
        ("type", json!("person.detected")),
        ("source", json!("front-camera")),
        ("min_confidence", json!(0.85)),
        ("consecutive", json!(3)),
        ("max_gap_seconds", json!(2)),
        ("cooldown_seconds", json!(30)),
        ("max_age_seconds", json!(10)),
    ] {
        assert_eq!(trigger[field], value, "{field}");
    }
}

#[test]
fn check_accepts_the_example_and_prints_configuration_and_hash() {
    let home = Home::new();
    let example = home.agent_service(["example"]).run().expect(0).stdout;
    let file = home.write("example.json", &example);
    let shown = home.agent_service(["check", "--config"]).args([&file]).run().expect(0).json();
    assert_eq!(shown["agent"]["name"], "device-brain");
    assert_eq!(shown["agent"]["triggers"][0]["consecutive"], 3);
    assert_eq!(shown["agent"]["max_tasks"], 200, "defaults are shown");
    let hash = shown["sha256"].as_str().unwrap();
    assert!(hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{hash}");
}

#[test]
fn serve_loads_the_example_once_a_runner_stands_in_for_the_model() {
    let home = Home::new();
    let example = home.agent_service(["example"]).run().expect(0).json();
    let runner = home.path("agent.json");
    let runner: Value = serde_json::from_str(&fs::read_to_string(runner).unwrap()).unwrap();
    let mut config = example;
    config["runner"] = runner["runner"].clone();
    home.write("agent.json", &config.to_string());
    let service = home.start();
    assert_eq!(state_of(&service.run("hello")), "COMPLETED");
}

#[test]
fn check_changes_nothing() {
    let home = Home::new();
    let exit = home
        .agent_service(["check", "--config"])
        .args([home.path("agent.json").as_os_str()])
        .args([OsStr::new("--state-dir"), home.state().as_os_str()])
        .run();
    exit.expect(0);
    assert!(!home.state().exists());
}

#[test]
fn send_prints_the_response_and_with_wait_the_ending_task() {
    let home = Home::new();
    let service = home.start();
    let sent = home.command(&service, ["send", "--prompt", "hello"]).run().expect(0).json();
    let id = id_of(&sent["task"]);
    service.ended(&id);
    let arguments =
        ["send", "--prompt", "hello you", "--wait", "--context", "c", "--request-id", "r"];
    let task = home.command(&service, arguments).run().expect(0).json();
    assert_eq!((state_of(&task), result_of(&task)), ("COMPLETED".into(), "done: hello you".into()));
    assert_eq!(task["contextId"], "c");
    assert_eq!(task["history"][0]["messageId"], "r");
    // A repetition is the same task.
    let again = home.command(&service, arguments).run().expect(0).json();
    assert_eq!(id_of(&again), id_of(&task));
}

#[test]
fn send_with_wait_is_exit_1_unless_the_task_completed() {
    let home = Home::new();
    let service = home.start();
    let exit = home.command(&service, ["send", "--prompt", "fail so", "--wait"]).run().expect(1);
    assert_eq!(state_of(&exit.json()), "FAILED");
    let waiting = home.command(&service, ["send", "--prompt", "block a", "--wait"]).start();
    let id = wait::until("the task runs", || {
        service.list("status=TASK_STATE_WORKING").first().map(id_of)
    });
    service.cancel(&id).success();
    assert_eq!(state_of(&waiting.wait().expect(1).json()), "CANCELED");
}

#[test]
fn get_and_cancel_print_the_task() {
    let home = Home::new();
    let service = home.start();
    let id = service.submit_id("block a");
    let got = home.command(&service, ["get", "--task", &id]).run().expect(0).json();
    assert_eq!(id_of(&got), id);
    let canceled = home.command(&service, ["cancel", "--task", &id]).run().expect(0).json();
    assert_eq!((id_of(&canceled), state_of(&canceled)), (id, "CANCELED".into()));
}

#[test]
fn tasks_follows_the_pages_and_prints_one_list() {
    let home = Home::new();
    let service = home.start();
    let first = service.submit_id("block a");
    home.agent.wait_begun(&first);
    // More than one page of any size: a page has at most 100, and the rest are queued or cancelled.
    for round in 0..2 {
        let ids: Vec<String> =
            (0..60).map(|n| service.submit_id(&format!("{round} {n}"))).collect();
        for id in ids {
            service.cancel(&id).success();
        }
    }
    let all = |arguments: &[&str]| -> Vec<Value> {
        let exit = home.command(&service, ["tasks"]).args(arguments).run().expect(0);
        let list = exit.json();
        assert_eq!(list.as_object().unwrap().keys().collect::<Vec<_>>(), ["tasks"]);
        list["tasks"].as_array().unwrap().clone()
    };
    assert_eq!(all(&[]).len(), 121);
    assert_eq!(all(&["--limit", "3"]).len(), 3);
    assert_eq!(all(&["--limit", "101"]).len(), 101);
    assert_eq!(all(&["--status", "TASK_STATE_CANCELED"]).len(), 120);
    let working = all(&["--status", "TASK_STATE_WORKING"]);
    assert_eq!(working.iter().map(id_of).collect::<Vec<_>>(), [first]);
    let mut in_context = message(&fresh_id(), "x");
    in_context["contextId"] = json!("c & d");
    service.send_message(&in_context, &json!({"returnImmediately": true})).success();
    assert_eq!(all(&["--context", "c & d"]).len(), 1);
    let exit = home.command(&service, ["tasks", "--status", "nonsense"]).run();
    assert_ne!(exit.code, 0);
    exit.says(&["status"]);
}

#[test]
fn event_reads_a_file_or_stdin_and_prints_the_result() {
    let home = Home::with(|config| config.trigger(trigger()));
    let service = home.start();
    let file = home.write("event.json", &event("one", now()).to_string());
    let answer = home.command(&service, ["event", "--file"]).args([&file]).run().expect(0).json();
    assert_eq!(answer["accepted"], true);
    let id = answer["task_id"].as_str().unwrap();
    assert_eq!(state_of(&service.ended(id)), "COMPLETED");
    let from_stdin =
        home.command(&service, ["event", "--file", "-"]).input(event("two", now()).to_string());
    assert_eq!(from_stdin.run().expect(0).json()["accepted"], true);
}

#[test]
fn an_event_that_is_not_accepted_is_exit_0() {
    let home = Home::with(|config| config.trigger(trigger_with(&json!({"consecutive": 2}))));
    let service = home.start();
    let exit = home
        .command(&service, ["event", "--file", "-"])
        .input(event("one", now()).to_string())
        .run()
        .expect(0);
    let expected = json!({"accepted": false, "reason": "waiting for consecutive observations"});
    assert_eq!(exit.json(), expected);
}

#[test]
fn errors_of_a_service_show_its_message_and_reason() {
    let home = Home::new();
    let service = home.start();
    let exit = home.command(&service, ["get", "--task", "unknown"]).run().expect(1);
    let told = service.get("/tasks/unknown").send().error(404, "TASK_NOT_FOUND");
    exit.says(&["TASK_NOT_FOUND", told["message"].as_str().unwrap()]);
    assert_eq!(exit.stdout, "");
    let completed = id_of(&service.run("x"));
    let exit = home.command(&service, ["cancel", "--task", &completed]).run().expect(1);
    exit.says(&["TASK_NOT_CANCELABLE"]);
    let exit = home.command(&service, ["event", "--file", "-"]).input("{}").run().expect(1);
    exit.says(&["INVALID_PARAMS"]);
    let exit = home
        .command(&service, ["tasks"])
        .env("WENDY_AGENT_TOKEN", "another-token-0123456789")
        .run()
        .expect(1);
    exit.says(&["UNAUTHENTICATED"]);
}

#[test]
fn a_service_that_cannot_be_reached_is_exit_1_and_named() {
    let home = Home::new();
    let address = closed_port();
    let exit = home.agent_service(["tasks", "--url", &format!("http://{address}")]).run().expect(1);
    exit.says(&[&address]);
    let exit = home.agent_service(["healthcheck", "--url", &format!("http://{address}")]).run();
    exit.expect(1);
}

#[test]
fn usage_and_configuration_errors_are_exit_2() {
    let home = Home::new();
    for arguments in [
        &[][..],
        &["nonsense"],
        &["serve"],
        &["send"],
        &["get"],
        &["tasks", "--limit", "x"],
        &["tasks", "--output", "xml"],
        &["event", "--file", "nowhere.json"],
        &["check", "--config", "nowhere.json"],
        &["tasks", "--url", "http://agent.example"],
        &["tasks", "--url", "nonsense"],
        &["chat"],
    ] {
        let exit = home.agent_service(arguments).run();
        assert_eq!(exit.code, 2, "{arguments:?}: {}", exit.stderr);
        assert!(!exit.stderr.is_empty(), "{arguments:?} says why");
    }
    let exit = home.agent_service(["tasks"]).without_env("WENDY_AGENT_TOKEN").run().expect(2);
    exit.says(&["WENDY_AGENT_TOKEN"]);
}

#[test]
fn help_and_version_are_exit_0_on_stdout() {
    let home = Home::new();
    let help = home.agent_service(["--help"]).run().expect(0).stdout;
    for command in [
        "serve",
        "example",
        "check",
        "send",
        "get",
        "tasks",
        "cancel",
        "event",
        "chat",
        "healthcheck",
    ] {
        assert!(help.contains(command), "{command}: {help}");
    }
    let version = home.agent_service(["--version"]).run().expect(0).stdout;
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
}

#[test]
fn healthcheck_needs_no_token() {
    let home = Home::new();
    let service = home.start();
    home.command(&service, ["healthcheck"]).without_env("WENDY_AGENT_TOKEN").run().expect(0);
}

#[test]
fn output_json_is_the_bodies_of_the_service() {
    let home = Home::new();
    let service = home.start();
    let id = id_of(&service.run("hello"));
    let got = home.command(&service, ["get", "--task", &id, "--output", "json"]).run().expect(0);
    assert_eq!(got.json(), service.task(&id));
}

#[test]
fn output_table_is_for_people_also_when_piped() {
    let home = Home::new();
    let service = home.start();
    let id = id_of(&service.run("hello"));
    let exit = home.command(&service, ["tasks", "--output", "table"]).run().expect(0);
    assert!(serde_json::from_str::<Value>(&exit.stdout).is_err(), "{}", exit.stdout);
    assert!(exit.stdout.contains(&id) && exit.stdout.contains("COMPLETED"), "{}", exit.stdout);
}

#[test]
fn on_a_terminal_data_is_a_table_and_json_only_when_asked_for() {
    let home = Home::new();
    let service = home.start();
    let id = id_of(&service.run("hello"));
    let table = on_terminal(&home, &service, &["tasks"]).expect(0);
    assert!(table.stdout.contains(&id) && table.stdout.contains("COMPLETED"), "{}", table.stdout);
    assert!(serde_json::from_str::<Value>(&table.stdout).is_err(), "{}", table.stdout);
    let json = on_terminal(&home, &service, &["tasks", "--output", "json"]).expect(0);
    assert_eq!(id_of(&json.json()["tasks"][0]), id);
    let task = on_terminal(&home, &service, &["get", "--task", &id]).expect(0);
    assert!(task.stdout.contains("done: hello"), "{}", task.stdout);
}

#[test]
fn send_with_wait_shows_progress_on_a_terminal() {
    let home = Home::new();
    let service = home.start();
    let waiting = terminal(&home, &service, &["send", "--prompt", "block a", "--wait"]).start();
    wait::until("the progress is shown", || waiting.stdout().contains("WORKING").then_some(()));
    home.agent.release("a");
    let exit = waiting.wait().expect(0);
    assert!(exit.stdout.contains("done: block a"), "{}", exit.stdout);
}

#[test]
fn a_reader_that_goes_away_ends_a_command_quietly() {
    let home = Home::new();
    let service = home.start();
    for n in 0..20 {
        service.run(&format!("big {}", 30_000 + n));
    }
    let exit = Launch::of(OsStr::new("sh"), &home.path("logs"))
        .args(["-c", "\"$0\" \"$@\" | head -c 10", &binary("agent-service-under-test")])
        .args(["tasks", "--url", &service.url])
        .env("WENDY_AGENT_TOKEN", system_tests::client::TOKEN)
        .run();
    assert!(!exit.stderr.contains("panic"), "{}", exit.stderr);
}

#[test]
fn ca_cert_is_the_authority_that_a_client_trusts() {
    let home = Home::new();
    let authority = Authority::new("private");
    let service = system_tests_tls(&home, &authority);
    let ca = home.write("ca.pem", &authority.pem());
    let other = home.write("other.pem", &Authority::new("other").pem());
    let trusted = home.command(&service, ["tasks", "--ca-cert"]).args([&ca]).run();
    trusted.expect(0);
    for exit in [
        home.command(&service, ["tasks", "--ca-cert"]).args([&other]).run(),
        home.command(&service, ["tasks"]).run(),
    ] {
        exit.expect(1).says(&[service.address()]);
    }
    let nothing = home.write("nothing.pem", "nothing");
    home.command(&service, ["tasks", "--ca-cert"]).args([&nothing]).run().expect(2);
}

fn system_tests_tls(home: &Home, authority: &Authority) -> Service {
    let identity = authority.identity();
    let cert = home.write("cert.pem", &identity.cert);
    let key = home.write("key.pem", &identity.key);
    let serve = home.serve().args([
        OsStr::new("--tls-cert"),
        cert.as_os_str(),
        OsStr::new("--tls-key"),
        key.as_os_str(),
    ]);
    Service::ready(serve.start(), |client| client.with_tls(authority.client()))
}

fn terminal(home: &Home, service: &Service, arguments: &[&str]) -> Launch {
    let script = skip::workspace().join("tests/python/on_terminal.py");
    Launch::of(OsStr::new("python3"), &home.path("logs"))
        .args([script.as_os_str(), OsStr::new(&binary("agent-service-under-test"))])
        .args(arguments)
        .args(["--url", &service.url])
        .env("WENDY_AGENT_TOKEN", system_tests::client::TOKEN)
        .env("TERM", "xterm")
        .env("COLUMNS", "200")
}

fn on_terminal(home: &Home, service: &Service, arguments: &[&str]) -> Exit {
    terminal(home, service, arguments).run()
}

/// An address where nobody listens.
fn closed_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}
