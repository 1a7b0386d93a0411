//! A child's environment: the service's own less its secrets, the configured one, and the agent's block.

use std::ffi::OsString;
use std::path::Path;

use agent_wire::child::{SCHEDULE, Trigger, TriggerSource};
use service_kit::clock::Clock;
use service_kit::vars::Vars;
use tokio::process::Command;

use super::{Spec, slug};

/// Whether a variable describes one message.
///
/// Those of the service itself are about another agent's message, and a persistent process will see many.
fn is_of_one_message(name: &str) -> bool {
    name.starts_with("AGENT_TRIGGER_") || name == "AGENT_SESSION_ID"
}

/// What kind of process the environment is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum For<'a> {
    /// A persistent instance with this key label.
    Persistent { label: &'a str, source: TriggerSource },
    /// One task.
    Oneshot(&'a Trigger),
}

/// Builds the command of an agent process, with its environment and working directory.
pub(super) fn command(
    spec: &Spec,
    vars: &Vars,
    clock: &Clock,
    tmp: &Path,
    kind: For<'_>,
) -> Command {
    let (program, arguments) = spec
        .command
        .split_first()
        .map_or(("", [].as_slice()), |(first, rest)| (first.as_str(), rest));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&spec.working_dir).env_clear();
    for (name, value) in variables(spec, vars, clock, tmp, kind) {
        command.env(name, value);
    }
    command
}

/// All variables, later ones win.
fn variables(
    spec: &Spec,
    vars: &Vars,
    clock: &Clock,
    tmp: &Path,
    kind: For<'_>,
) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(OsString, OsString)> = Vec::new();
    if spec.inherit_env {
        let inherited = vars.iter().filter(|(name, _)| {
            let name = name.to_string_lossy();
            !is_of_one_message(&name)
        });
        all.extend(inherited.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    let mut put = |name: &str, value: OsString| all.push((name.into(), value));
    let source = match kind {
        For::Persistent { source, .. } => source,
        For::Oneshot(trigger) => trigger.source,
    };
    if let For::Oneshot(trigger) = kind {
        put("AGENT_TRIGGER_SOURCE", trigger.source.as_str().into());
        if let Some(actor) = &trigger.actor {
            put("AGENT_TRIGGER_ACTOR", actor.into());
        }
        put("AGENT_TRIGGER_REPLY_TO", trigger.reply_to.clone().into());
        let payload = serde_json::Value::Object(trigger.payload.clone()).to_string();
        put("AGENT_TRIGGER_PAYLOAD", payload.into());
        put("AGENT_SESSION_ID", trigger.session_id.clone().into());
    }
    put("AGENT_NAME", spec.agent.clone().into());
    put("AGENT_HOME", spec.home.clone().into());
    put("AGENT_TMPDIR", tmp.into());
    put("AGENT_SLUG", slug(source).into());
    put("AGENT_SCHEDULE_ID", SCHEDULE.into());
    put("AGENT_HEARTBEAT_FILE", super::heartbeat::path(spec, source).into());
    put("AGENT_ARGV", "[]".into());
    put("AGENT_START_EPOCH", clock.now().as_second().to_string().into());
    if let For::Persistent { label, .. } = kind {
        put("AGENT_LIFECYCLE", "persistent".into());
        put("AGENT_PERSIST_KEY", label.into());
    }
    for (name, value) in &spec.extra_env {
        put(name, value.into());
    }
    // Whether inherited or configured by hand: secrets stay out, and so does what describes one message.
    let persistent = matches!(kind, For::Persistent { .. });
    all.retain(|(name, _)| {
        let name = name.to_string_lossy();
        !(spec.withheld.contains(name.as_ref()) || persistent && is_of_one_message(&name))
    });
    all
}
