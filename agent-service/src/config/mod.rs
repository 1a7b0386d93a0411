//! The configuration: read in layers, checked as a whole, with every fault shown at once.
//!
//! ```text
//!   files, variables, flags --service_kit::config--> Raw --check--> Config { agent, server, telemetry }
//!                                                                      |
//!                                             effective JSON and its hash: what state belongs to
//! ```
//!
//! The raw types know only types. Rules are checked once, on the merged whole; each fault names the
//! field, who set it, and what would be right. Secrets are never in it: it names variables, which
//! [`Config::check_secrets`] looks for.

mod agent;
mod check;
mod effective;
mod model;
mod peers;
mod raw;
mod runner;
mod server;
mod telemetry;
mod triggers;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use agent_wire::canonical::Digest;
use service_kit::Vars;
use service_kit::config::{Faults, FieldPath, Loader};
use service_kit::secret;

pub use self::agent::{Agent, Profile};
use self::check::Checker;
pub use self::model::{Model, Provider};
pub use self::peers::{McpServer, Peer, Transport};
use self::raw::Raw;
pub use self::raw::{Flags, RawServer, RawTelemetry};
pub use self::runner::{Lifecycle, MAX_STOP_SECONDS, Mode, ProcessRunner};
pub use self::server::{DEFAULT_LISTEN, DEFAULT_TOKEN_ENV, Listen, Server, State, Tls};

/// What `serve` says, and `check` warns of, until the model loop is there.
pub const NO_RUNNER: &str = "the configuration has no `runner`: this version runs process agents \
                             only, the model loop is not part of it yet";

/// Variables begin with this and two underscores.
const PREFIX: &str = "AGENT_SERVICE";

/// A checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The agent: what state belongs to.
    pub agent: Agent,
    /// Where the service listens and keeps its state.
    pub server: Server,
    /// Logs.
    pub telemetry: service_kit::telemetry::Settings,
    /// What is right and may not be what is meant, a sentence each.
    pub warnings: Vec<String>,
}

/// Where a configuration comes from.
#[derive(Debug)]
pub struct Sources<'a> {
    /// The files, the later over the earlier.
    pub files: &'a [PathBuf],
    /// The variables of the process.
    pub vars: &'a Vars,
    /// What flags set.
    pub flags: &'a Flags,
    /// The working directory, absolute.
    pub current: &'a Path,
}

/// Reads and checks a configuration. It reads files (also those that it names: manifest, certificate,
/// key) and changes nothing.
///
/// # Errors
/// All faults.
pub fn load(sources: &Sources<'_>) -> Result<Config, Faults> {
    let mut loader = Loader::new(PREFIX).environment(sources.vars).flags(sources.flags);
    for file in sources.files {
        loader = loader.file(file);
    }
    let loaded = loader.load::<Raw>()?;
    let mut raw = loaded.value;
    let server = raw.server.take().unwrap_or_default();
    let telemetry = raw.telemetry.take().unwrap_or_default();

    let mut checker = Checker::new(&loaded.origins, sources.current);
    let agent = agent::check(&mut checker, raw);
    let server = server::check(&mut checker, server);
    let telemetry = telemetry::check(&mut checker, telemetry);
    if let (Some(agent), Some(server)) = (&agent, &server) {
        check_stop(&mut checker, agent, server);
        warn(&mut checker, agent);
    }
    let Checker { findings, warnings, .. } = checker;
    match (agent, server) {
        (Some(agent), Some(server)) => {
            findings.finish(Config { agent, server, telemetry, warnings })
        }
        (None, _) | (_, None) => Err(findings.into()),
    }
}

impl Config {
    /// The hash of what state belongs to.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.agent.binding())
    }

    /// The variables that hold secrets of the service: children get neither them nor their `_FILE`
    /// twins (see [`service_kit::secret::withheld`]).
    pub fn secret_variables(&self) -> BTreeSet<&str> {
        let agent = &self.agent;
        let models = agent.model.iter().chain(agent.child_models.values());
        let mut names: BTreeSet<&str> = models.flat_map(Model::key_variables).collect();
        names.insert(&self.server.token_env);
        names.extend(agent.peers.values().map(|peer| peer.token_env.as_str()));
        for server in agent.mcp_servers.values() {
            match &server.transport {
                Transport::Http { token_env, .. } => names.extend(token_env.as_deref()),
                Transport::Process { env_from, .. } => {
                    names.extend(env_from.iter().map(String::as_str));
                }
            }
        }
        names
    }

    /// The secrets that `serve` needs and that are not there, a sentence each; and what is wrong with
    /// those that are.
    pub fn check_secrets(&self, vars: &Vars) -> (Vec<String>, Vec<String>) {
        let mut missing = Vec::new();
        let mut wrong = Vec::new();
        match service_kit::Token::read(vars, &self.server.token_env) {
            Ok(_) => {}
            Err(fault @ secret::Error::Missing { .. }) => missing.push(fault.to_string()),
            Err(fault) => wrong.push(fault.to_string()),
        }
        (missing, wrong)
    }
}

/// A stop has to end before a supervisor kills: both graces pass one after the other.
fn check_stop(checker: &mut Checker<'_>, agent: &Agent, server: &Server) {
    let Some(runner) = &agent.runner else { return };
    let shutdown = server.shutdown_grace.as_secs();
    let grace = runner.lifecycle.grace.as_secs();
    if shutdown.saturating_add(grace) > MAX_STOP_SECONDS.into() {
        let path = FieldPath::from("server").key("shutdown_grace_seconds");
        checker.fault(
            &path,
            format_args!(
                "and the runner's `grace_seconds` must be at most {MAX_STOP_SECONDS} together, but \
                 are {shutdown} and {grace}"
            ),
        );
    }
}

fn warn(checker: &mut Checker<'_>, agent: &Agent) {
    if agent.runner.is_none() {
        checker.warnings.push(NO_RUNNER.to_owned());
        return;
    }
    let unused: Vec<_> = [
        ("device", agent.device.is_some()),
        ("model", agent.model.is_some()),
        ("agent_models", !agent.child_models.is_empty()),
        ("peers", !agent.peers.is_empty()),
        ("mcp_servers", !agent.mcp_servers.is_empty()),
        ("allow_tools", !agent.allow_tools.is_empty()),
    ]
    .into_iter()
    .filter_map(|(field, set)| set.then_some(field))
    .collect();
    if !unused.is_empty() {
        let unused = unused.join("`, `");
        checker.warnings.push(format!("a process agent makes no use of `{unused}`"));
    }
}

#[cfg(test)]
mod tests;
