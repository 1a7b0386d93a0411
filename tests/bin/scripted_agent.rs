//! An agent process that does what a task's text says, and leaves a trace of each effect.
//!
//! `scripted-agent DIR`. The text of a task is a command:
//!
//! | text | what it does |
//! |---|---|
//! | `block NAME` | waits until `DIR/release-NAME` exists, then answers |
//! | `fail WORDS` | answers with an error |
//! | `crash` | ends without an answer |
//! | `big N` | answers with N bytes of two-byte characters |
//! | `env` | answers with its environment, as JSON |
//! | `request` | answers with the request (one-shot: the payload), as JSON |
//! | anything else | answers `done: TEXT` |
//!
//! Before it acts it appends `begin TASK TEXT` to `DIR/effects`, and `end TASK TEXT` after: one write
//! to a file opened for appending, so that lines of several processes never mix. It speaks the
//! persistent protocol when `AGENT_LIFECYCLE` says so, and the one-shot contract otherwise.
#![expect(clippy::indexing_slicing, reason = "a missing field of a JSON value reads as null")]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

fn main() -> io::Result<ExitCode> {
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        writeln!(io::stderr(), "usage: scripted-agent DIR")?;
        return Ok(ExitCode::from(2));
    };
    note(&dir.join("starts"), &format!("start {}", std::process::id()))?;
    if std::env::var("AGENT_LIFECYCLE").as_deref() == Ok("persistent") {
        persistent(&dir)
    } else {
        one_shot(&dir)
    }
}

fn persistent(dir: &Path) -> io::Result<ExitCode> {
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        if message["kind"] == "hello" {
            say(&json!({"v": 1, "kind": "ready", "ok": true}))?;
            continue;
        }
        let payload = message["trigger"]["payload"].clone();
        let Some(verdict) = act(dir, &payload, &message)? else { return Ok(ExitCode::from(3)) };
        let mut response = json!({"v": 1, "kind": "response", "id": message["id"]});
        match verdict {
            Ok(output) => response["output"] = output.into(),
            Err(error) => {
                response["ok"] = false.into();
                response["error"] = error.into();
            }
        }
        say(&response)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn one_shot(dir: &Path) -> io::Result<ExitCode> {
    let payload = std::env::var("AGENT_TRIGGER_PAYLOAD").unwrap_or_default();
    let payload: Value = serde_json::from_str(&payload)?;
    Ok(match act(dir, &payload, &payload)? {
        None => ExitCode::from(3),
        Some(Ok(text)) => {
            io::stdout().write_all(text.as_bytes())?;
            ExitCode::SUCCESS
        }
        Some(Err(text)) => {
            io::stdout().write_all(text.as_bytes())?;
            ExitCode::FAILURE
        }
    })
}

/// Does what the text says. `None`: the process has to end without an answer.
fn act(dir: &Path, payload: &Value, request: &Value) -> io::Result<Option<Result<String, String>>> {
    let text = payload["text"].as_str().unwrap_or_default().trim();
    let task = payload["task_id"].as_str().unwrap_or("-");
    let effects = dir.join("effects");
    note(&effects, &format!("begin {task} {text}"))?;
    let (command, rest) = text.split_once(' ').unwrap_or((text, ""));
    let verdict = match command {
        "crash" => return Ok(None),
        "fail" => Err(rest.to_owned()),
        "big" => Ok("é".repeat(rest.parse::<usize>().unwrap_or(0).div_ceil(2))),
        "env" => Ok(json!(std::env::vars().collect::<BTreeMap<_, _>>()).to_string()),
        "request" => Ok(request.to_string()),
        "block" => {
            let release = dir.join(format!("release-{rest}"));
            while !release.exists() {
                std::thread::sleep(Duration::from_millis(3));
            }
            Ok(format!("done: {text}"))
        }
        _ => Ok(format!("done: {text}")),
    };
    note(&effects, &format!("end {task} {text}"))?;
    Ok(Some(verdict))
}

fn note(file: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)?
        .write_all(format!("{line}\n").as_bytes())
}

fn say(message: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(format!("{message}\n").as_bytes())?;
    out.flush()
}
