//! Each fault is one sentence with the field, who set it, and what would be right.

use serde_json::{Value, json};

use super::{Folder, merge, with};

/// Each of these fields alone gives exactly this fault.
fn check<const N: usize>(cases: [(Value, &str); N]) {
    for (fields, expected) in cases {
        assert_eq!(with(fields.clone()).faults(), [expected], "{fields}");
    }
}

#[test]
fn faults_of_the_agent_and_its_models_are_named() {
    check([
        (json!({"name": null}), "`name` is required and is set nowhere"),
        (
            json!({"name": "-a"}),
            "`name` in DIR/a.json must be a letter or digit, then letters, digits, `_` and `-`, 64 characters at most",
        ),
        (
            json!({"name": "x".repeat(65)}),
            "`name` in DIR/a.json must be a letter or digit, then letters, digits, `_` and `-`, 64 characters at most",
        ),
        (json!({"profile": "flet"}), "`profile` in DIR/a.json is \"flet\": did you mean `fleet`?"),
        (
            json!({"profile": "Butler"}),
            "`profile` in DIR/a.json must be one of `general`, `developer`, `simulation`, `debugger`, `fleet`, `device-reasoning`, `device-sensors`, `device-control`, but is \"Butler\"",
        ),
        (
            json!({"workspace": "none"}),
            "`workspace` in DIR/a.json must be an existing directory, but DIR/none is none",
        ),
        (
            json!({"workspace": "a.json"}),
            "`workspace` in DIR/a.json must be an existing directory, but DIR/a.json is none",
        ),
        (json!({"device": " "}), "`device` in DIR/a.json must not be blank"),
        (
            json!({"model": {"provider": "local"}}),
            "`model.model` is required and DIR/a.json has none",
        ),
        (
            json!({"model": {"model": "m", "provider": "mistral"}}),
            "`model.provider` in DIR/a.json must be one of `openai`, `anthropic`, `ollama`, `local`, but is \"mistral\"",
        ),
        (
            json!({"model": {"model": "m", "base_url": "localhost:1"}}),
            "`model.base_url` in DIR/a.json must begin with https:// or http://",
        ),
        (
            json!({"model": {"model": "m", "base_url": "https://u:p@h"}}),
            "`model.base_url` in DIR/a.json must have no user name and no password; a key is given by the name of its variable",
        ),
        (
            json!({"model": {"model": "m", "api_key_env": "sk-secret"}}),
            "`model.api_key_env` in DIR/a.json must be the name of an environment variable: letters, digits and `_`, no digit first",
        ),
        (
            json!({"model": {"model": "m", "max_tokens": 0}}),
            "`model.max_tokens` in DIR/a.json must be 1 to 10000000, but is 0",
        ),
        (
            json!({"model": {"model": "m", "fallback": [{"model": "n", "fallback": []}]}}),
            "`model.fallback[0].fallback` in DIR/a.json is one too many: a fallback has none of its own",
        ),
        (
            json!({"agent_models": {" fleet": {"model": "m"}}}),
            "`agent_models[\" fleet\"]` in DIR/a.json is \" fleet\": did you mean `fleet`?",
        ),
        (
            json!({"task_timeout_seconds": 3601}),
            "`task_timeout_seconds` in DIR/a.json must be 1 to 3600, but is 3601",
        ),
        (json!({"max_tasks": 0}), "`max_tasks` in DIR/a.json must be 1 to 1000, but is 0"),
        (
            json!({"max_tasks": 5_000_000_000_u64}),
            "`max_tasks` in DIR/a.json must be 1 to 1000, but is 5000000000",
        ),
        (
            json!({"telemetry": {"log_format": "xml"}}),
            "`telemetry.log_format` in DIR/a.json must be one of `auto`, `json`, `text`, but is \"xml\"",
        ),
    ]);
}

#[test]
fn faults_of_the_runner_are_named() {
    check([
        (
            json!({"runner": {"type": "proces"}}),
            "`runner.type` in DIR/a.json is \"proces\": did you mean `process`?",
        ),
        (json!({"runner": {"type": null}}), "`runner.type` is required and DIR/a.json has none"),
        (
            json!({"runner": {"command": null}}),
            "`runner.command` is required and DIR/a.json has none",
        ),
        (
            json!({"runner": {"command": []}}),
            "`runner.command` in DIR/a.json must begin with the name of a program",
        ),
        (
            json!({"runner": {"working_dir": "none"}}),
            "`runner.working_dir` in DIR/a.json must be an existing directory, but DIR/none is none",
        ),
        (
            json!({"runner": {"env": {"extra": {"A=B": ""}}}}),
            "`runner.env.extra[\"A=B\"]` in DIR/a.json must be the name of an environment variable: letters, digits and `_`, no digit first",
        ),
        (
            json!({"runner": {"lifecycle": {"mode": "forever"}}}),
            "`runner.lifecycle.mode` in DIR/a.json must be one of `oneshot`, `persistent`, but is \"forever\"",
        ),
        (
            json!({"runner": {"lifecycle": {"mode": "persistent", "idle_timeout_seconds": 0}}}),
            "`runner.lifecycle.idle_timeout_seconds` in DIR/a.json must be 1 to 604800, but is 0",
        ),
        (
            json!({"runner": {"lifecycle": {"mode": "persistent", "max_instances": 0}}}),
            "`runner.lifecycle.max_instances` in DIR/a.json must be 1 to 1000, but is 0",
        ),
        (
            json!({"runner": {"lifecycle": {"mode": "persistent", "key": ""}}}),
            "`runner.lifecycle.key` in DIR/a.json must not be blank",
        ),
        (
            json!({"runner": {"lifecycle": {"mode": "persistent", "startup_timeout_seconds": 600}}}),
            "`runner.lifecycle.startup_timeout_seconds` in DIR/a.json must be below the task timeout of 600 s, but is 600",
        ),
        (
            json!({"task_timeout_seconds": 30, "runner": {"lifecycle": {"mode": "persistent"}}}),
            "`runner.lifecycle.startup_timeout_seconds` in the defaults must be below the task timeout of 30 s, but is 30",
        ),
        (
            json!({"runner": {"lifecycle": {"max_line_bytes": 1023}}}),
            "`runner.lifecycle.max_line_bytes` in DIR/a.json must be 1024 to 67108864, but is 1023",
        ),
        (
            json!({"server": {"shutdown_grace_seconds": 25}}),
            "`server.shutdown_grace_seconds` in DIR/a.json and the runner's `grace_seconds` must be at most 27 together, but are 25 and 5",
        ),
        (
            json!({"server": {"shutdown_grace_seconds": 26}, "runner": {"lifecycle": {"grace_seconds": 0}}}),
            "`server.shutdown_grace_seconds` in DIR/a.json must be 0 to 25, but is 26",
        ),
    ]);
}

#[test]
fn faults_of_peers_servers_and_tools_are_named() {
    let long = "x".repeat(101);
    let long_name = format!(
        "`peers.{long}` in DIR/a.json must have a name of 1 to 100 characters that is not blank"
    );
    check([
        (
            json!({"peers": {"p": {"url": "https://p.example"}}}),
            "`peers.p.token_env` is required and DIR/a.json has none",
        ),
        (
            json!({"peers": {"p": {"token_env": "P"}}}),
            "`peers.p.url` is required and DIR/a.json has none",
        ),
        (
            json!({"peers": {"p": {"url": "http://p.example", "token_env": "P"}}}),
            "`peers.p.url` in DIR/a.json must begin with https://; http is for loopback only",
        ),
        (
            json!({"peers": {long.as_str(): {"url": "https://p.example", "token_env": "P"}}}),
            &long_name,
        ),
        (
            json!({"mcp_servers": {"m": {}}}),
            "`mcp_servers.m` in DIR/a.json must have a `command` or a `url`, but has none",
        ),
        (
            json!({"mcp_servers": {"m": {"command": ["x"], "url": "https://m"}}}),
            "`mcp_servers.m` in DIR/a.json must have a `command` or a `url`, but has both",
        ),
        (
            json!({"mcp_servers": {"m": {"command": ["x"], "token_env": "T"}}}),
            "`mcp_servers.m.token_env` in DIR/a.json is for a server with a `url` only",
        ),
        (
            json!({"mcp_servers": {"m": {"url": "https://m", "env": {}}}}),
            "`mcp_servers.m.env` in DIR/a.json is for a server with a `command` only",
        ),
        (
            json!({"mcp_servers": {"m": {"command": ["x"], "timeout_seconds": 0}}}),
            "`mcp_servers.m.timeout_seconds` in DIR/a.json must be 1 to 3600, but is 0",
        ),
        (
            json!({"allow_tools": ["a "]}),
            "`allow_tools[0]` in DIR/a.json must be the exact name of a tool, without white space around it",
        ),
    ]);
}

#[test]
fn faults_of_triggers_are_named() {
    let long = "x".repeat(16_001);
    let trigger = json!({"type": "t", "source": "s", "prompt": "p"});
    check([
        (
            json!({"triggers": [trigger, trigger]}),
            "`triggers[1]` in DIR/a.json must be the only trigger of type \"t\" and source \"s\"",
        ),
        (
            json!({"triggers": [{"type": "t", "source": "s"}]}),
            "`triggers[0].prompt` is required and DIR/a.json has none",
        ),
        (
            json!({"triggers": [{"type": "t", "source": "s", "prompt": long}]}),
            "`triggers[0].prompt` in DIR/a.json must have at most 16000 bytes, but has 16001",
        ),
        (
            json!({"triggers": [{"type": "t", "source": "s", "prompt": "p", "min_confidence": 1.01}]}),
            "`triggers[0].min_confidence` in DIR/a.json must be 0 to 1, but is 1.01",
        ),
        (
            json!({"triggers": [{"type": "t", "source": "s", "prompt": "p", "consecutive": 1001}]}),
            "`triggers[0].consecutive` in DIR/a.json must be 1 to 1000, but is 1001",
        ),
        (
            json!({"triggers": [{"type": "t", "source": "s", "prompt": "p", "max_gap_seconds": 0}]}),
            "`triggers[0].max_gap_seconds` in DIR/a.json must be 1 to 3600, but is 0",
        ),
        (
            json!({"triggers": [{"type": "t", "source": "s", "prompt": "p", "cooldown_seconds": 86_401}]}),
            "`triggers[0].cooldown_seconds` in DIR/a.json must be 0 to 86400, but is 86401",
        ),
        (
            json!({"triggers": [{"type": "t", "source": "s", "prompt": "p", "max_age_seconds": 0}]}),
            "`triggers[0].max_age_seconds` in DIR/a.json must be 1 to 3600, but is 0",
        ),
    ]);
}

#[test]
fn faults_of_different_sections_are_shown_together() {
    let folder = with(json!({"name": "?", "max_tasks": 0, "server": {"listen": "x"}}));
    assert_eq!(folder.faults().len(), 3);
}

#[test]
fn at_most_32_triggers_and_100_peers() {
    let triggers: Vec<_> =
        (0..33).map(|n| json!({"type": "t", "source": n.to_string(), "prompt": "p"})).collect();
    assert_eq!(
        with(json!({"triggers": triggers})).faults(),
        ["`triggers` in DIR/a.json may have 32 triggers, but has 33"]
    );
    with(json!({"triggers": triggers[..32]})).config();
    let peers: serde_json::Map<_, _> = (0..101)
        .map(|n| (format!("p{n}"), json!({"url": "https://p.example", "token_env": "P"})))
        .collect();
    assert_eq!(
        with(json!({"peers": peers})).faults(),
        ["`peers` in DIR/a.json may have 100 peers, but has 101"]
    );
}

#[test]
fn faults_of_a_manifest_name_the_manifest() {
    let runner = |more: Value| {
        let mut runner = json!({"type": "process", "manifest": "agent.toml"});
        merge(&mut runner, more);
        Folder::new().layer("a.json", &json!({"name": "a", "runner": runner}).to_string())
    };
    let cases = [
        ("[run]\nargs = []\n", "`run.command` is required and DIR/agent.toml has none"),
        ("[run]\ncommand = 3\n", "`run.command` in DIR/agent.toml must be text, but is 3"),
        (
            "[run]\ncommand = 'x'\n[lifecycle]\nmode = 'once'\n",
            "`lifecycle.mode` in DIR/agent.toml must be one of `oneshot`, `persistent`, but is \"once\"",
        ),
        (
            "[run]\ncommand = 'x'\n[lifecycle]\nmode = 'persistent'\nmax_instances = 0\n",
            "`lifecycle.max_instances` in DIR/agent.toml must be 1 to 1000, but is 0",
        ),
        (
            "[run]\ncommand = 'x'\n[agent]\ntimeout_seconds = 3601\n",
            "`agent.timeout_seconds` in DIR/agent.toml must be 1 to 3600, but is 3601",
        ),
    ];
    for (manifest, expected) in cases {
        assert_eq!(runner(json!({})).holding("agent.toml", manifest).faults(), [expected]);
    }
    assert_eq!(
        runner(json!({})).faults(),
        [
            "cannot read the configuration file DIR/agent.toml: No such file or directory (os error 2)"
        ]
    );
    assert_eq!(
        runner(json!({"command": ["x"]})).holding("agent.toml", "[run]\ncommand = 'x'\n").faults(),
        ["`runner.command` in DIR/a.json is the manifest's to say: leave this out, or `manifest`"]
    );
    // A one-shot agent has no use for these, so they may be anything.
    let nonsense = "[run]\ncommand = 'x'\n[lifecycle]\nmax_instances = 0\nkey = ''\n";
    runner(json!({})).holding("agent.toml", nonsense).config();
}
