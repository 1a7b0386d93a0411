//! The configuration as it is written: every field optional, nothing checked but its type.
//!
//! Unknown fields are errors at every depth. Names from a fixed list (a profile, a provider, a mode)
//! are texts here, so that the check can say which ones there are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The whole.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) name: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) workspace: Option<PathBuf>,
    pub(super) device: Option<String>,
    pub(super) model: Option<RawModel>,
    pub(super) agent_models: Option<BTreeMap<String, RawModel>>,
    pub(super) runner: Option<RawRunner>,
    pub(super) peers: Option<BTreeMap<String, RawPeer>>,
    pub(super) mcp_servers: Option<BTreeMap<String, RawMcpServer>>,
    pub(super) allow_tools: Option<Vec<String>>,
    pub(super) no_memory: Option<bool>,
    pub(super) task_timeout_seconds: Option<u64>,
    pub(super) max_tasks: Option<u64>,
    pub(super) server: Option<RawServer>,
    pub(super) telemetry: Option<RawTelemetry>,
    pub(super) triggers: Option<Vec<RawTrigger>>,
}

/// A model behind an API.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawModel {
    pub(super) provider: Option<String>,
    pub(super) model: Option<String>,
    pub(super) base_url: Option<String>,
    pub(super) api_key_env: Option<String>,
    pub(super) max_tokens: Option<u64>,
    pub(super) context_tokens: Option<u64>,
    pub(super) fallback: Option<Vec<RawModel>>,
}

/// A process agent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRunner {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) manifest: Option<PathBuf>,
    pub(super) command: Option<Vec<String>>,
    pub(super) working_dir: Option<PathBuf>,
    pub(super) env: Option<RawEnv>,
    pub(super) lifecycle: Option<RawLifecycle>,
}

/// The environment of a process agent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEnv {
    pub(super) inherit: Option<bool>,
    pub(super) extra: Option<BTreeMap<String, String>>,
}

/// How long a process agent lives.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLifecycle {
    pub(super) mode: Option<String>,
    pub(super) key: Option<String>,
    pub(super) idle_timeout_seconds: Option<u64>,
    pub(super) max_invocations: Option<u64>,
    pub(super) max_instances: Option<u64>,
    pub(super) startup_timeout_seconds: Option<u64>,
    pub(super) grace_seconds: Option<u64>,
    pub(super) max_line_bytes: Option<u64>,
}

/// The part of dotagent's `agent.toml` that is served.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawManifest {
    pub(super) agent: Option<RawManifestAgent>,
    pub(super) run: Option<RawManifestRun>,
    pub(super) env: Option<RawEnv>,
    pub(super) lifecycle: Option<RawLifecycle>,
}

/// Its `[agent]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawManifestAgent {
    pub(super) timeout_seconds: Option<u64>,
}

/// Its `[run]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawManifestRun {
    pub(super) command: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) working_dir: Option<PathBuf>,
}

/// Another agent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPeer {
    pub(super) url: Option<String>,
    pub(super) token_env: Option<String>,
    pub(super) description: Option<String>,
}

/// A server of tools.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMcpServer {
    pub(super) command: Option<Vec<String>>,
    pub(super) env: Option<BTreeMap<String, String>>,
    pub(super) env_from: Option<Vec<String>>,
    pub(super) url: Option<String>,
    pub(super) token_env: Option<String>,
    pub(super) trust_hints: Option<bool>,
    pub(super) timeout_seconds: Option<u64>,
}

/// What makes a task of events.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTrigger {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) source: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) min_confidence: Option<f64>,
    pub(super) consecutive: Option<u64>,
    pub(super) max_gap_seconds: Option<u64>,
    pub(super) cooldown_seconds: Option<u64>,
    pub(super) max_age_seconds: Option<u64>,
}

/// Where the service listens and keeps its state. The flags of `serve` are this too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawServer {
    /// HOST:PORT.
    pub listen: Option<String>,
    /// The origin under which others reach the service.
    pub public_url: Option<String>,
    /// The state directory.
    pub state_dir: Option<PathBuf>,
    /// The folder of state directories.
    pub state_root: Option<PathBuf>,
    /// The variable that holds the token.
    pub token_env: Option<String>,
    /// A PEM file.
    pub tls_cert: Option<PathBuf>,
    /// A PEM file.
    pub tls_key: Option<PathBuf>,
    /// How long the running task may go on after a signal.
    pub shutdown_grace_seconds: Option<u64>,
}

/// Logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawTelemetry {
    /// Directives as `RUST_LOG` has them.
    pub log: Option<String>,
    /// `auto`, `json` or `text`.
    pub log_format: Option<String>,
}

/// What flags set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Flags {
    /// Flags of `serve`.
    pub server: RawServer,
    /// Flags on logs.
    pub telemetry: RawTelemetry,
}
