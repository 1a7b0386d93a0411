//! CONTRACT section 5: layers, limits and errors of the configuration.

use std::ffi::OsStr;
use std::fs;

use serde_json::{Value, json};
use system_tests::events::trigger_with;
use system_tests::home::{Home, ready};
use system_tests::process::{Launch, listening};

#[test]
fn toml_and_yaml_of_the_same_shape_load_too() {
    let home = Home::new();
    home.write(
        "a.json",
        r#"{"name": "a", "max_tasks": 7, "model": {"provider": "local", "model": "m"}}"#,
    );
    home.write("a.toml", "name = 'a'\nmax_tasks = 7\n[model]\nprovider = 'local'\nmodel = 'm'\n");
    home.write("a.yaml", "name: a\nmax_tasks: 7\nmodel: { provider: local, model: m }\n");
    let shown: Vec<Value> = ["a.json", "a.toml", "a.yaml"]
        .map(|file| check(&home, &[file]).run().expect(0).json())
        .into();
    assert_eq!(shown[0]["agent"]["max_tasks"], 7);
    assert_eq!(shown[0], shown[1]);
    assert_eq!(shown[0], shown[2]);
}

#[test]
fn later_layers_win_defaults_files_in_order_environment_flags() {
    let home = Home::new();
    home.write("one.json", r#"{"name": "one", "max_tasks": 11, "task_timeout_seconds": 60}"#);
    home.write("two.yaml", "name: two\nmodel: { provider: local, model: m }\n");
    let agent = |launch: Launch| launch.run().expect(0).json()["agent"].clone();
    let shown = agent(check(&home, &["one.json", "two.yaml"]));
    assert_eq!((&shown["name"], &shown["max_tasks"]), (&json!("two"), &json!(11)));
    assert_eq!(shown["no_memory"], false, "a default");
    let shown = agent(check(&home, &["two.yaml", "one.json"]));
    assert_eq!(shown["name"], "one");
    let shown = agent(
        check(&home, &["one.json", "two.yaml"])
            .env("AGENT_SERVICE__NAME", "three")
            .env("AGENT_SERVICE__MODEL__BASE_URL", "http://127.0.0.1:9/v1")
            .env("AGENT_SERVICE__MAX_TASKS", "13"),
    );
    assert_eq!((&shown["name"], &shown["max_tasks"]), (&json!("three"), &json!(13)));
    assert_eq!(shown["model"]["base_url"], "http://127.0.0.1:9/v1");
    // A flag wins over the environment: the second is no address at all.
    let service = ready(home.serve().env("AGENT_SERVICE__SERVER__LISTEN", "nonsense").start());
    service.get("/tasks").send().success();
}

#[test]
fn the_variables_that_kubernetes_injects_are_no_configuration() {
    let home = Home::new();
    check(&home, &["agent.json"])
        .env("AGENT_SERVICE_PORT", "tcp://10.0.0.1:80")
        .env("AGENT_SERVICE_SERVICE_HOST", "10.0.0.1")
        .env("AGENT_SERVICE_PORT_80_TCP_ADDR", "10.0.0.1")
        .run()
        .expect(0);
}

#[test]
fn an_unknown_field_names_the_field_its_file_or_variable_and_the_nearest_name() {
    let home = Home::new();
    let cases: [(&str, &str, &[&str]); 5] = [
        ("top.json", r#"{"name": "a", "profil": "general"}"#, &["profil", "`profile`", "top.json"]),
        (
            "nested.json",
            r#"{"name": "a", "model": {"provider": "local", "model": "m", "base_ulr": "x"}}"#,
            &["base_ulr", "`base_url`", "nested.json"],
        ),
        (
            "trigger.toml",
            "name = 'a'\n[[triggers]]\ntype = 't'\nsource = 's'\nprompt = 'p'\nmin_confidense = 1\n",
            &["min_confidense", "`min_confidence`", "trigger.toml"],
        ),
        (
            "runner.yaml",
            "name: a\nrunner: { type: process, command: [x], lifecycle: { mod: oneshot } }\n",
            &["mod", "`mode`", "runner.yaml"],
        ),
        ("far.json", r#"{"name": "a", "zzz": 1}"#, &["zzz", "far.json"]),
    ];
    for (file, text, said) in cases {
        home.write(file, text);
        check(&home, &[file]).run().expect(2).says(said);
    }
    check(&home, &["agent.json"]).env("AGENT_SERVICE__MAX_TASK", "5").run().expect(2).says(&[
        "max_task",
        "`max_tasks`",
        "AGENT_SERVICE__MAX_TASK",
    ]);
}

#[test]
fn a_wrong_type_names_the_field_and_the_file() {
    let home = Home::new();
    home.write("a.json", r#"{"name": "a", "max_tasks": "many"}"#);
    check(&home, &["a.json"]).run().expect(2).says(&["max_tasks", "a.json"]);
    home.write("a.json", r#"{"name": "a", "triggers": [{"type": 5}]}"#);
    check(&home, &["a.json"]).run().expect(2).says(&["triggers[0].type", "a.json"]);
}

#[test]
fn a_file_that_cannot_be_read_or_parsed_is_named() {
    let home = Home::new();
    check(&home, &["nowhere.json"]).run().expect(2).says(&["nowhere.json"]);
    for (file, text) in [("bad.json", "{"), ("bad.toml", "= 1"), ("bad.yaml", "a: [")] {
        home.write(file, text);
        check(&home, &[file]).run().expect(2).says(&[file]);
    }
}

#[test]
fn a_file_has_at_most_64_kib() {
    let home = Home::new();
    let padded = |length: usize| {
        let text = r#"{"name": "a"}"#;
        format!("{text}{}", " ".repeat(length - text.len()))
    };
    home.write("fits.json", &padded(65_536));
    check(&home, &["fits.json"]).run().expect(0);
    home.write("large.json", &padded(65_537));
    check(&home, &["large.json"]).run().expect(2).says(&["large.json", "64 KiB"]);
}

#[test]
fn the_workspace_is_relative_to_the_file_that_sets_it_and_must_be_a_directory() {
    let home = Home::new();
    fs::create_dir_all(home.path("deep/work")).unwrap();
    home.write("deep/a.json", r#"{"name": "a", "workspace": "work"}"#);
    home.write("b.json", r#"{"max_tasks": 5}"#);
    let shown = check(&home, &["deep/a.json", "b.json"]).run().expect(0).json();
    let workspace = fs::canonicalize(shown["agent"]["workspace"].as_str().unwrap()).unwrap();
    assert_eq!(workspace, fs::canonicalize(home.path("deep/work")).unwrap());
    home.write("deep/a.json", r#"{"name": "a", "workspace": "b.json"}"#);
    check(&home, &["deep/a.json"]).run().expect(2).says(&["workspace", "directory"]);
}

/// Each line: a field, values that are fine, values that are not.
#[test]
fn every_field_has_the_limits_of_the_table() {
    let cases: Vec<(&str, Vec<Value>, Vec<Value>)> = vec![
        (
            "name",
            vec![json!("a"), json!("0"), json!("A-b_9"), json!("x".repeat(64))],
            vec![
                json!(""),
                json!("-a"),
                json!("_a"),
                json!("a b"),
                json!("é"),
                json!("x".repeat(65)),
            ],
        ),
        (
            "profile",
            [
                "general",
                "developer",
                "simulation",
                "debugger",
                "fleet",
                "device-reasoning",
                "device-sensors",
                "device-control",
            ]
            .map(Value::from)
            .into(),
            vec![json!("General"), json!("none"), json!("")],
        ),
        (
            "task_timeout_seconds",
            vec![json!(31), json!(3600)],
            vec![json!(0), json!(3601), json!(-1), json!(1.5)],
        ),
        ("max_tasks", vec![json!(1), json!(1000)], vec![json!(0), json!(1001)]),
        ("no_memory", vec![json!(true)], vec![json!("x")]),
        ("allow_tools", vec![json!([]), json!(["workspace_write"])], vec![json!("x"), json!([1])]),
        ("server.shutdown_grace_seconds", vec![json!(0), json!(25)], vec![json!(26)]),
        (
            "server.public_url",
            vec![
                json!("https://a.example"),
                json!("https://a.example:1"),
                json!("http://127.0.0.1:1"),
                json!("http://localhost:1"),
            ],
            vec![
                json!("http://a.example"),
                json!("https://a.example/x"),
                json!("https://a.example?x"),
                json!("https://a.example#x"),
                json!("https://u:p@a.example"),
                json!("a.example"),
                json!("ftp://a.example"),
            ],
        ),
        (
            "model",
            ["openai", "anthropic", "ollama", "local"]
                .map(|p| json!({"provider": p, "model": "m"}))
                .into(),
            vec![json!({"provider": "other", "model": "m"}), json!({"provider": "local"})],
        ),
        (
            "mcp_servers",
            vec![
                json!({"m": {"command": ["x"]}}),
                json!({"m": {"url": "https://m.example", "token_env": "T"}}),
            ],
            vec![json!({"m": {}}), json!({"m": {"command": ["x"], "url": "https://m.example"}})],
        ),
    ];
    hold(cases);
}

#[test]
fn models_of_children_and_peers_have_the_limits_of_the_table() {
    hold(vec![
        (
            "agent_models",
            vec![json!({"fleet": {"provider": "local", "model": "m"}})],
            vec![
                json!({" fleet": {"provider": "local", "model": "m"}}),
                json!({"other": {"provider": "local", "model": "m"}}),
            ],
        ),
        (
            "peers",
            vec![
                json!({"p": {"url": "https://p.example", "token_env": "P"}}),
                json!({"p": {"url": "http://127.0.0.1:1", "token_env": "P", "description": "d"}}),
                json!({"x".repeat(100): {"url": "https://p.example", "token_env": "P"}}),
            ],
            vec![
                json!({"p": {"url": "https://p.example"}}),
                json!({"p": {"url": "http://p.example", "token_env": "P"}}),
                json!({"p": {"url": "https://p.example/x", "token_env": "P"}}),
                json!({"x".repeat(101): {"url": "https://p.example", "token_env": "P"}}),
            ],
        ),
    ]);
}

#[test]
fn every_field_of_a_trigger_has_the_limits_of_the_table() {
    let cases: Vec<(&str, Vec<Value>, Vec<Value>)> = vec![
        ("type", vec![json!("x".repeat(256))], vec![json!(""), json!("x".repeat(257))]),
        ("source", vec![json!("x".repeat(256))], vec![json!(""), json!("x".repeat(257))]),
        ("prompt", vec![json!("x".repeat(16_000))], vec![json!(""), json!("x".repeat(16_001))]),
        ("min_confidence", vec![json!(0), json!(1), json!(0.5)], vec![json!(-0.1), json!(1.1)]),
        ("consecutive", vec![json!(1), json!(1000)], vec![json!(0), json!(1001)]),
        ("max_gap_seconds", vec![json!(1), json!(3600)], vec![json!(0), json!(3601)]),
        ("cooldown_seconds", vec![json!(0), json!(86_400)], vec![json!(-1), json!(86_401)]),
        ("max_age_seconds", vec![json!(1), json!(3600)], vec![json!(0), json!(3601)]),
    ];
    for (field, fine, refused) in cases {
        for (values, code) in [(fine, 0), (refused, 2)] {
            for value in values {
                let home = Home::with(|config| {
                    config.trigger(trigger_with(&json!({ field: value.clone() })))
                });
                let exit = check(&home, &["agent.json"]).run();
                assert_eq!(exit.code, code, "{field} = {value}: {}", exit.stderr);
                if code == 2 {
                    exit.says(&[&format!("triggers[0].{field}")]);
                }
            }
        }
    }
    let many = |count: usize| {
        Home::with(|config| {
            (0..count).fold(config, |config, n| {
                config.trigger(trigger_with(&json!({"source": n.to_string()})))
            })
        })
    };
    check(&many(32), &["agent.json"]).run().expect(0);
    check(&many(33), &["agent.json"]).run().expect(2).says(&["triggers", "32"]);
    let twice = Home::with(|config| {
        config.trigger(trigger_with(&json!({}))).trigger(trigger_with(&json!({"prompt": "other"})))
    });
    check(&twice, &["agent.json"]).run().expect(2).says(&["triggers[1]"]);
}

#[test]
fn shutdown_grace_and_the_runners_grace_are_at_most_27_together() {
    let home = |server: u64, runner: u64| {
        Home::with(|config| {
            config
                .with("server.shutdown_grace_seconds", server)
                .with("runner.lifecycle.grace_seconds", runner)
        })
    };
    check(&home(25, 2), &["agent.json"]).run().expect(0);
    check(&home(25, 3), &["agent.json"]).run().expect(2).says(&["shutdown_grace_seconds", "27"]);
    home(25, 3).serve().run().expect(2).says(&["shutdown_grace_seconds", "27"]);
}

#[test]
fn all_faults_are_shown_at_once() {
    let home = Home::with(|config| {
        config.with("max_tasks", 0).with("task_timeout_seconds", 0).with("profile", "x")
    });
    let exit = check(&home, &["agent.json"]).run().expect(2);
    exit.says(&["max_tasks", "task_timeout_seconds", "profile"]);
}

#[test]
fn without_a_runner_check_warns_and_serve_refuses_with_one_clear_sentence() {
    let home = Home::with(|config| {
        config.without("runner").with("model", json!({"provider": "local", "model": "m"}))
    });
    let checked = check(&home, &["agent.json"]).run().expect(0);
    checked.says(&["runner"]);
    let refused = home.serve().run().expect(2);
    refused.says(&["runner"]);
    assert_eq!(listening(&refused.stderr), None);
    assert!(!home.state().exists(), "and nothing was created");
}

#[test]
fn a_runner_is_a_process_with_a_command() {
    for runner in [
        json!({"type": "process"}),
        json!({"type": "process", "command": []}),
        json!({"type": "other", "command": ["x"]}),
        json!({"command": ["x"]}),
    ] {
        let home = Home::with(|config| config.with("runner", runner.clone()));
        check(&home, &["agent.json"]).run().expect(2).says(&["runner"]);
    }
}

#[track_caller]
fn hold(cases: Vec<(&str, Vec<Value>, Vec<Value>)>) {
    for (field, fine, refused) in cases {
        for value in fine {
            let home = Home::with(|config| short_grace(config).with(field, value.clone()));
            let exit = check(&home, &["agent.json"]).run();
            assert_eq!(exit.code, 0, "{field} = {value}: {}", exit.stderr);
        }
        for value in refused {
            let home = Home::with(|config| short_grace(config).with(field, value.clone()));
            let exit = check(&home, &["agent.json"]).run();
            assert_eq!(exit.code, 2, "{field} = {value}: {}", exit.stdout);
            exit.says(&[field.rsplit('.').next().unwrap(), "agent.json"]);
        }
    }
}

fn short_grace(config: system_tests::config::Config) -> system_tests::config::Config {
    config.with("runner.lifecycle.grace_seconds", 1)
}

fn check(home: &Home, files: &[&str]) -> Launch {
    let launch = home.agent_service(["check"]);
    files.iter().fold(launch, |launch, file| {
        launch.args([OsStr::new("--config"), home.path(file).as_os_str()])
    })
}
