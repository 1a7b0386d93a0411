use serde_json::{Value, json};

use super::*;

mod faults;
mod server;

/// A folder with configuration files; what is shown of it is `DIR`.
struct Folder {
    dir: tempfile::TempDir,
    files: Vec<PathBuf>,
}

impl Folder {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), files: Vec::new() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file that is not a layer.
    fn holding(self, name: &str, content: &str) -> Self {
        std::fs::write(self.path().join(name), content).unwrap();
        self
    }

    /// Writes a file that is a layer.
    fn layer(mut self, name: &str, content: &str) -> Self {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        self.files.push(path);
        self
    }

    fn load_with(&self, vars: &Vars, flags: &Flags) -> Result<Config, Faults> {
        load(&Sources { files: &self.files, vars, flags, current: self.path() })
    }

    fn config(&self) -> Config {
        self.load_with(&Vars::default(), &Flags::default()).unwrap()
    }

    fn shown(&self, text: &str) -> String {
        text.replace(&self.path().display().to_string(), "DIR")
    }

    fn faults(&self) -> Vec<String> {
        let faults = self.load_with(&Vars::default(), &Flags::default()).unwrap_err();
        faults.sentences().iter().map(|sentence| self.shown(sentence)).collect()
    }
}

/// A configuration with a runner and these fields more.
fn with(fields: Value) -> Folder {
    let mut config = json!({"name": "a", "runner": {"type": "process", "command": ["true"]}});
    merge(&mut config, fields);
    Folder::new().layer("a.json", &config.to_string())
}

fn merge(into: &mut Value, fields: Value) {
    match (into, fields) {
        (Value::Object(into), Value::Object(fields)) => {
            for (name, value) in fields {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, value) => *into = value,
    }
}

#[test]
fn a_small_configuration_has_the_defaults_of_the_contract() {
    let folder = Folder::new().layer("a.json", r#"{"name": "a"}"#);
    let config = folder.config();
    assert_eq!(
        folder.shown(&config.agent.to_json().to_string()),
        json!({
            "name": "a", "profile": "general", "workspace": "DIR", "allow_tools": [],
            "no_memory": false, "task_timeout_seconds": 600, "max_tasks": 200, "triggers": []
        })
        .to_string()
    );
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8787");
    assert_eq!(config.server.token_env, "WENDY_AGENT_TOKEN");
    assert_eq!(config.server.shutdown_grace.as_secs(), 10);
    assert_eq!(config.warnings, [NO_RUNNER]);
}

#[test]
fn a_trigger_has_the_defaults_of_the_contract() {
    let trigger = json!({"type": "t", "source": "s", "prompt": "p"});
    let config = with(json!({"triggers": [trigger]})).config();
    assert_eq!(
        config.agent.to_json()["triggers"][0],
        json!({"type": "t", "source": "s", "prompt": "p", "min_confidence": 0.0, "consecutive": 1,
            "max_gap_seconds": 10, "cooldown_seconds": 0, "max_age_seconds": 30})
    );
    assert_eq!(config.agent.binding()["triggers"][0], trigger);
}

#[test]
fn a_process_runner_has_the_defaults_of_its_contract() {
    let folder = with(json!({"runner": {"lifecycle": {"mode": "persistent"}}}));
    let config = folder.config();
    assert_eq!(
        config.agent.to_json()["runner"]["lifecycle"],
        json!({"mode": "persistent", "idle_timeout_seconds": 1800, "max_invocations": 120,
            "max_instances": 8, "startup_timeout_seconds": 30, "grace_seconds": 5,
            "max_line_bytes": 1_048_576})
    );
    let runner = config.agent.runner.as_ref().unwrap();
    assert_eq!(runner.command, ["true"]);
    assert_eq!(
        (runner.working_dir.as_path(), runner.home.as_path()),
        (folder.path(), folder.path())
    );
    assert!(runner.inherit_env);
    assert_eq!(config.warnings, [""; 0]);
}

#[test]
fn state_belongs_to_what_differs_from_the_defaults_and_to_nothing_of_the_server() {
    let spelled_out = json!({
        "profile": "general", "workspace": ".", "task_timeout_seconds": 600, "max_tasks": 200,
        "no_memory": false, "allow_tools": [], "triggers": [],
        "runner": {"lifecycle": {"mode": "oneshot", "grace_seconds": 5}, "env": {"inherit": true}},
        "model": {"provider": "OpenAI", "model": "m", "base_url": "https://api.openai.com/v1/"}
    });
    let folder = with(json!({"model": {"model": "m"}, "server": {"listen": "127.0.0.1:1"}}))
        .layer("b.json", &spelled_out.to_string());
    let plain = Folder { dir: folder.dir, files: folder.files[..1].to_vec() };
    let both = Folder { dir: plain.dir, files: folder.files };
    let short = load(&Sources {
        files: &both.files[..1],
        vars: &Vars::default(),
        flags: &Flags::default(),
        current: both.path(),
    })
    .unwrap();
    let long = both.config();
    assert_eq!(long.digest(), short.digest());
    assert_eq!(
        both.shown(&short.agent.binding().to_string()),
        json!({"name": "a", "workspace": "DIR", "model": {"model": "m"},
            "runner": {"type": "process", "command": ["true"], "working_dir": "DIR"}})
        .to_string()
    );
}

#[test]
fn every_field_of_the_agent_changes_the_hash() {
    let changes = [
        json!({"name": "b"}),
        json!({"profile": "fleet"}),
        json!({"workspace": "/"}),
        json!({"device": "d"}),
        json!({"model": {"model": "m"}}),
        json!({"model": {"model": "n"}}),
        json!({"model": {"model": "m", "provider": "local"}}),
        json!({"model": {"model": "m", "base_url": "https://x.example"}}),
        json!({"model": {"model": "m", "api_key_env": "K"}}),
        json!({"model": {"model": "m", "max_tokens": 1}}),
        json!({"model": {"model": "m", "context_tokens": 1}}),
        json!({"model": {"model": "m", "fallback": [{"model": "n"}]}}),
        json!({"agent_models": {"fleet": {"model": "m"}}}),
        json!({"runner": {"command": ["false"]}}),
        json!({"runner": {"working_dir": "/"}}),
        json!({"runner": {"env": {"inherit": false}}}),
        json!({"runner": {"env": {"extra": {"A": "b"}}}}),
        json!({"runner": {"lifecycle": {"mode": "persistent"}}}),
        json!({"runner": {"lifecycle": {"mode": "persistent", "key": "k"}}}),
        json!({"runner": {"lifecycle": {"mode": "persistent", "idle_timeout_seconds": 1}}}),
        json!({"runner": {"lifecycle": {"mode": "persistent", "max_invocations": 0}}}),
        json!({"runner": {"lifecycle": {"mode": "persistent", "max_instances": 1}}}),
        json!({"runner": {"lifecycle": {"mode": "persistent", "startup_timeout_seconds": 1}}}),
        json!({"runner": {"lifecycle": {"grace_seconds": 1}}}),
        json!({"runner": {"lifecycle": {"max_line_bytes": 2048}}}),
        json!({"peers": {"p": {"url": "https://p.example", "token_env": "P"}}}),
        json!({"peers": {"p": {"url": "https://p.example", "token_env": "P", "description": "d"}}}),
        json!({"mcp_servers": {"m": {"command": ["x"]}}}),
        json!({"mcp_servers": {"m": {"command": ["x"], "env": {"A": "b"}}}}),
        json!({"mcp_servers": {"m": {"command": ["x"], "env_from": ["A"]}}}),
        json!({"mcp_servers": {"m": {"command": ["x"], "trust_hints": true}}}),
        json!({"mcp_servers": {"wendy": {"command": ["x"], "trust_hints": false}}}),
        json!({"mcp_servers": {"m": {"command": ["x"], "timeout_seconds": 1}}}),
        json!({"mcp_servers": {"m": {"url": "https://m.example/mcp"}}}),
        json!({"mcp_servers": {"m": {"url": "https://m.example/mcp", "token_env": "M"}}}),
        json!({"allow_tools": ["x"]}),
        json!({"no_memory": true}),
        json!({"task_timeout_seconds": 601}),
        json!({"max_tasks": 201}),
        json!({"triggers": [{"type": "t", "source": "s", "prompt": "p"}]}),
        json!({"triggers": [{"type": "t", "source": "s", "prompt": "p", "min_confidence": 0.5}]}),
        json!({"triggers": [{"type": "t", "source": "s", "prompt": "p", "consecutive": 2}]}),
        json!({"triggers": [{"type": "t", "source": "s", "prompt": "p", "max_gap_seconds": 2}]}),
        json!({"triggers": [{"type": "t", "source": "s", "prompt": "p", "cooldown_seconds": 2}]}),
        json!({"triggers": [{"type": "t", "source": "s", "prompt": "p", "max_age_seconds": 2}]}),
    ];
    let folder = with(json!({}));
    let mut digests = BTreeSet::from([folder.config().digest()]);
    let mut count = digests.len();
    for change in changes {
        let mut config = json!({"name": "a", "runner": {"type": "process", "command": ["true"]}});
        merge(&mut config, change.clone());
        std::fs::write(&folder.files[0], config.to_string()).unwrap();
        digests.insert(folder.config().digest());
        count += 1;
        assert_eq!(digests.len(), count, "{change}");
    }
}

#[test]
fn the_order_of_allowed_tools_is_irrelevant() {
    let one = with(json!({"allow_tools": ["a", "b"]})).config().agent;
    let other = with(json!({"allow_tools": ["b", "a", "b"]})).config().agent;
    assert_eq!(one.allow_tools, other.allow_tools);
}

#[test]
fn the_workspace_is_relative_to_the_file_that_sets_it() {
    let folder = Folder::new();
    for name in ["one", "two", "two/w"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let folder = folder
        .layer("one/a.json", r#"{"name": "a"}"#)
        .layer("two/b.json", r#"{"workspace": "w"}"#)
        .layer("one/c.json", r#"{"max_tasks": 3}"#);
    assert_eq!(folder.config().agent.workspace, folder.path().join("two/w"));
    let vars = Vars::from_iter([("AGENT_SERVICE__WORKSPACE", "one")]);
    let config = folder.load_with(&vars, &Flags::default()).unwrap();
    assert_eq!(config.agent.workspace, folder.path().join("one"));
}

#[test]
fn flags_win_over_variables_and_variables_over_files() {
    let folder = with(json!({"server": {"listen": "127.0.0.1:1", "token_env": "A"}}));
    let vars = Vars::from_iter([
        ("AGENT_SERVICE__SERVER__LISTEN", "127.0.0.1:2"),
        ("AGENT_SERVICE__SERVER__TOKEN_ENV", "B"),
        ("AGENT_SERVICE_PORT", "tcp://10.0.0.1:8787"),
    ]);
    let server = RawServer { listen: Some("localhost:3".to_owned()), ..RawServer::default() };
    let flags = Flags { server, ..Flags::default() };
    let config = folder.load_with(&vars, &flags).unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:3");
    assert_eq!(config.server.token_env, "B");
}

#[test]
fn fields_that_a_process_agent_does_not_use_are_one_warning() {
    let config = with(json!({"model": {"model": "m"}, "allow_tools": ["x"]})).config();
    assert_eq!(config.warnings, ["a process agent makes no use of `model`, `allow_tools`"]);
}

#[test]
fn a_manifest_of_dotagent_is_a_runner() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path().join("bot/work")).unwrap();
    let manifest = "[agent]\nname = 'bot'\ndescription = 'd'\nmonitor = true\ntimeout_seconds = 90\n\
        [run]\ncommand = 'python3'\nargs = ['bot.py', '-v']\nworking_dir = 'work'\n\
        [env]\ninherit = false\nextra = { A = 'b' }\n\
        [lifecycle]\nmode = 'persistent'\nkey = 'context_id'\nmax_invocations = 5\n\
        [[schedules]]\nid = 's'\ntype = 'cron'\n[[notifiers]]\nplugin = 'x'\n";
    let folder = folder.holding("bot/agent.toml", manifest).layer(
        "a.json",
        &json!({"name": "a", "runner": {"type": "process", "manifest": "bot/agent.toml"}})
            .to_string(),
    );
    let config = folder.config();
    let runner = config.agent.runner.unwrap();
    assert_eq!(runner.command, ["python3", "bot.py", "-v"]);
    assert_eq!(runner.working_dir, folder.path().join("bot/work"));
    assert_eq!(runner.home, folder.path().join("bot"));
    assert!(!runner.inherit_env);
    assert_eq!(runner.extra_env["A"], "b");
    assert_eq!(runner.lifecycle.mode, Mode::Persistent);
    assert_eq!(runner.lifecycle.key.as_deref(), Some("context_id"));
    assert_eq!(runner.lifecycle.max_invocations, 5);
    assert_eq!(config.agent.task_timeout.as_secs(), 90);
    let warnings: Vec<_> = config.warnings.iter().map(|warning| folder.shown(warning)).collect();
    assert_eq!(
        warnings,
        [
            "DIR/bot/agent.toml has fields that this service does not serve: `agent.monitor`, `notifiers`, `schedules`"
        ]
    );
}

#[test]
fn a_manifest_and_the_same_fields_in_the_configuration_bind_the_same() {
    let folder = Folder::new().holding("agent.toml", "[run]\ncommand = 'x'\nargs = ['y']\n").layer(
        "a.json",
        &json!({"name": "a", "runner": {"type": "process", "manifest": "agent.toml"}}).to_string(),
    );
    let by_manifest = folder.config();
    let fields = json!({"name": "a", "runner": {"type": "process", "command": ["x", "y"]}});
    std::fs::write(&folder.files[0], fields.to_string()).unwrap();
    assert_eq!(folder.config().digest(), by_manifest.digest());
}

#[test]
fn children_get_none_of_the_services_secrets() {
    let config = with(json!({
        "model": {"model": "m", "fallback": [{"model": "n", "api_key_env": "N"},
            {"model": "o", "base_url": "https://proxy.example"}, {"model": "p", "provider": "anthropic"}]},
        "agent_models": {"fleet": {"model": "f", "api_key_env": "F"}},
        "peers": {"p": {"url": "https://p.example", "token_env": "P"}},
        "mcp_servers": {"m": {"url": "https://m.example", "token_env": "M"},
            "n": {"command": ["x"], "env_from": ["E"]}},
        "server": {"token_env": "T"}
    }))
    .config();
    let names: Vec<_> = config.secret_variables().into_iter().collect();
    assert_eq!(names, ["ANTHROPIC_API_KEY", "E", "F", "M", "N", "OPENAI_API_KEY", "P", "T"]);
}

#[test]
fn a_missing_token_is_told_apart_from_a_wrong_one() {
    let config = with(json!({})).config();
    let (missing, wrong) = config.check_secrets(&Vars::default());
    assert_eq!((missing.len(), wrong.len()), (1, 0));
    let (missing, wrong) = config.check_secrets(&Vars::from_iter([("WENDY_AGENT_TOKEN", "short")]));
    assert_eq!(missing, [""; 0]);
    assert_eq!(
        wrong,
        [
            "the token in the environment variable WENDY_AGENT_TOKEN has 5 characters; it needs at least 16"
        ]
    );
    let (missing, wrong) =
        config.check_secrets(&Vars::from_iter([("WENDY_AGENT_TOKEN", "0123456789abcdef")]));
    assert_eq!((missing.len(), wrong.len()), (0, 0));
}

#[test]
fn the_three_formats_give_the_same_agent() {
    let json = json!({"name": "a", "triggers": [{"type": "t", "source": "s", "prompt": "p",
        "min_confidence": 0.85, "consecutive": 3}]});
    let folder = Folder::new().layer("a.json", &json.to_string());
    let expected = folder.config().digest();
    let toml = "name = 'a'\n[[triggers]]\ntype = 't'\nsource = 's'\nprompt = 'p'\n\
                min_confidence = 0.85\nconsecutive = 3\n";
    let yaml = "name: a\ntriggers:\n  - {type: t, source: s, prompt: p, min_confidence: 0.85, consecutive: 3}\n";
    let mut folder = folder;
    for (name, text) in [("a.toml", toml), ("a.yaml", yaml)] {
        folder.files.clear();
        folder = folder.layer(name, text);
        assert_eq!(folder.config().digest(), expected, "{name}");
    }
}

#[test]
fn the_example_loads_and_says_that_it_needs_the_model_loop() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let read = |name: &str| {
        let files = [example.join(name)];
        let (vars, flags) = (Vars::default(), Flags::default());
        load(&Sources { files: &files, vars: &vars, flags: &flags, current: &example }).unwrap()
    };
    let toml = read("agent.toml");
    assert_eq!(toml.agent, read("agent.json").agent);
    assert_eq!(toml.warnings, [NO_RUNNER]);
    assert_eq!(
        (toml.agent.name.as_str(), toml.agent.profile),
        ("device-brain", Profile::DeviceReasoning)
    );
    let demo = read("demo.json");
    assert_eq!(demo.warnings, [""; 0]);
    assert_eq!(demo.agent.runner.unwrap().home, example);
}
