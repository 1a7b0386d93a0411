//! The effective agent configuration as JSON: what `check` prints, and what state belongs to.
//!
//! State is bound to the JSON *without* the fields that equal their defaults, so that a version that
//! adds a field with a default opens older state. `workspace` and the runner's `working_dir` are
//! absolute and always there: another folder is another configuration. Tables of the fields are here
//! and nowhere else; a change of their names or defaults is a change of the stored format.

use serde_json::{Map, Value, json};

use agent_core::trigger::Spec;

use super::agent::{Agent, DEFAULT_MAX_TASKS, DEFAULT_TASK_TIMEOUT_SECONDS, Profile};
use super::model::{DEFAULT_MAX_TOKENS, Model, Provider};
use super::peers::{McpServer, Peer, Transport};
use super::runner::{self, Lifecycle, ProcessRunner};
use super::triggers;

/// Which fields are in the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fields {
    /// All that have a value.
    All,
    /// Those that differ from their defaults.
    NotDefault,
}

/// An object under construction.
struct Object {
    fields: Fields,
    members: Map<String, Value>,
}

impl Agent {
    /// The effective configuration with its defaults, for people.
    pub fn to_json(&self) -> Value {
        agent(self, Fields::All)
    }

    /// The effective configuration without the fields that equal their defaults: what state is bound
    /// to, and what is hashed.
    pub fn binding(&self) -> Value {
        agent(self, Fields::NotDefault)
    }
}

impl Object {
    fn new(fields: Fields) -> Self {
        Self { fields, members: Map::new() }
    }

    /// A field that is always there.
    fn set(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// A field that may equal its default.
    fn set_or(
        &mut self,
        name: &str,
        value: impl Into<Value>,
        default: impl Into<Value>,
    ) -> &mut Self {
        let value = value.into();
        if self.fields == Fields::All || value != default.into() {
            self.members.insert(name.to_owned(), value);
        }
        self
    }

    /// A field that may be absent.
    fn set_some(&mut self, name: &str, value: Option<impl Into<Value>>) -> &mut Self {
        if let Some(value) = value {
            self.members.insert(name.to_owned(), value.into());
        }
        self
    }

    /// A field whose default is to be empty; it is shown only if it is not.
    fn set_filled(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        let value = value.into();
        let empty = value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty);
        if !empty {
            self.members.insert(name.to_owned(), value);
        }
        self
    }

    fn finish(&mut self) -> Value {
        Value::Object(std::mem::take(&mut self.members))
    }
}

fn agent(agent: &Agent, fields: Fields) -> Value {
    let named = |name: &str, value: Value| (name.to_owned(), value);
    let models = agent.child_models.iter().map(|(name, m)| named(name.as_str(), model(m, fields)));
    let peers = agent.peers.iter().map(|(name, p)| named(name, peer(p, fields)));
    let servers =
        agent.mcp_servers.iter().map(|(name, s)| named(name, mcp_server(name, s, fields)));
    let triggers: Vec<_> = agent.triggers.iter().map(|spec| trigger(spec, fields)).collect();
    let tools: Vec<_> = agent.allow_tools.iter().map(String::as_str).collect();
    Object::new(fields)
        .set("name", agent.name.as_str())
        .set_or("profile", agent.profile.as_str(), Profile::General.as_str())
        .set("workspace", path(&agent.workspace))
        .set_some("device", agent.device.as_deref())
        .set_some("model", agent.model.as_ref().map(|m| model(m, fields)))
        .set_filled("agent_models", models.collect::<Map<_, _>>())
        .set_some("runner", agent.runner.as_ref().map(|runner| process(runner, fields)))
        .set_filled("peers", peers.collect::<Map<_, _>>())
        .set_filled("mcp_servers", servers.collect::<Map<_, _>>())
        .set_or("allow_tools", tools, json!([]))
        .set_or("no_memory", agent.no_memory, false)
        .set_or("task_timeout_seconds", agent.task_timeout.as_secs(), DEFAULT_TASK_TIMEOUT_SECONDS)
        .set_or("max_tasks", agent.max_tasks, DEFAULT_MAX_TASKS)
        .set_or("triggers", triggers, json!([]))
        .finish()
}

fn model(model: &Model, fields: Fields) -> Value {
    let fallback: Vec<_> = model.fallback.iter().map(|m| self::model(m, fields)).collect();
    Object::new(fields)
        .set_or("provider", model.provider.as_str(), Provider::OpenAi.as_str())
        .set("model", model.name.as_str())
        .set_or("base_url", model.base_url.as_str(), model.provider.base_url())
        .set_some("api_key_env", model.api_key_env.as_deref())
        .set_or("max_tokens", model.max_tokens, DEFAULT_MAX_TOKENS)
        .set_some("context_tokens", model.context_tokens)
        .set_filled("fallback", fallback)
        .finish()
}

fn process(runner: &ProcessRunner, fields: Fields) -> Value {
    let extra: Map<_, _> = runner
        .extra_env
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().into()))
        .collect();
    let env = Object::new(fields)
        .set_or("inherit", runner.inherit_env, true)
        .set_filled("extra", extra)
        .finish();
    Object::new(fields)
        .set("type", "process")
        .set("command", runner.command.clone())
        .set("working_dir", path(&runner.working_dir))
        .set_filled("env", env)
        .set_filled("lifecycle", lifecycle(&runner.lifecycle, fields))
        .finish()
}

fn lifecycle(lifecycle: &Lifecycle, fields: Fields) -> Value {
    Object::new(fields)
        .set_or("mode", lifecycle.mode.as_str(), runner::Mode::OneShot.as_str())
        .set_some("key", lifecycle.key.as_deref())
        .set_or(
            "idle_timeout_seconds",
            lifecycle.idle_timeout.as_secs(),
            runner::DEFAULT_IDLE_TIMEOUT_SECONDS,
        )
        .set_or("max_invocations", lifecycle.max_invocations, runner::DEFAULT_MAX_INVOCATIONS)
        .set_or("max_instances", lifecycle.max_instances, runner::DEFAULT_MAX_INSTANCES)
        .set_or(
            "startup_timeout_seconds",
            lifecycle.startup_timeout.as_secs(),
            runner::DEFAULT_STARTUP_TIMEOUT_SECONDS,
        )
        .set_or("grace_seconds", lifecycle.grace.as_secs(), runner::DEFAULT_GRACE_SECONDS)
        .set_or("max_line_bytes", lifecycle.max_line_bytes, runner::DEFAULT_MAX_LINE_BYTES)
        .finish()
}

fn peer(peer: &Peer, fields: Fields) -> Value {
    Object::new(fields)
        .set("url", peer.url.to_string())
        .set("token_env", peer.token_env.as_str())
        .set_some("description", peer.description.as_deref())
        .finish()
}

fn mcp_server(name: &str, server: &McpServer, fields: Fields) -> Value {
    let mut object = Object::new(fields);
    match &server.transport {
        Transport::Process { command, env, env_from } => {
            let env: Map<_, _> =
                env.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            object
                .set("command", command.clone())
                .set_filled("env", env)
                .set_filled("env_from", env_from.clone());
        }
        Transport::Http { url, token_env } => {
            object.set("url", url.as_str()).set_some("token_env", token_env.as_deref());
        }
    }
    object
        .set_or("trust_hints", server.trust_hints, McpServer::trusts_by_default(name))
        .set_some("timeout_seconds", server.timeout.map(|timeout| timeout.as_secs()))
        .finish()
}

fn trigger(spec: &Spec, fields: Fields) -> Value {
    Object::new(fields)
        .set("type", spec.kind.as_str())
        .set("source", spec.source.as_str())
        .set("prompt", spec.prompt.as_str())
        .set_or("min_confidence", spec.min_confidence.get(), 0.0)
        .set_or("consecutive", spec.consecutive, triggers::DEFAULT_CONSECUTIVE)
        .set_or("max_gap_seconds", spec.max_gap.as_secs(), triggers::DEFAULT_MAX_GAP_SECONDS)
        .set_or("cooldown_seconds", spec.cooldown.as_secs(), triggers::DEFAULT_COOLDOWN_SECONDS)
        .set_or("max_age_seconds", spec.max_age.as_secs(), triggers::DEFAULT_MAX_AGE_SECONDS)
        .finish()
}

/// A path as text; bytes that are no text are replaced, and two such paths may then look alike.
fn path(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}
