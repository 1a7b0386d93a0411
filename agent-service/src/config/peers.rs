//! Whom the agent may talk to: other agents, and servers of tools.

use std::collections::BTreeMap;
use std::time::Duration;

use service_kit::client::Origin;
use service_kit::config::FieldPath;

use super::check::Checker;
use super::model::url_fault;
use super::raw::{RawMcpServer, RawPeer};

/// The most peers, and the longest name of one in characters. Source: CONTRACT, section 5.
const MAX_PEERS: usize = 100;

/// The longest description and argument, in bytes. Ours.
const MAX_TEXT_BYTES: usize = 4096;

/// The server of tools whose hints are trusted unless the configuration says otherwise.
const TRUSTED: &str = "wendy";

/// Another agent service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Where it is.
    pub url: Origin,
    /// The variable that holds its token.
    pub token_env: String,
    /// What it is for, for the model.
    pub description: Option<String>,
}

/// A server of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// How it is reached.
    pub transport: Transport,
    /// Whether its word that a tool only reads is taken.
    pub trust_hints: bool,
    /// How long one call may take, 1 to 3600 s.
    pub timeout: Option<Duration>,
}

impl McpServer {
    /// Whether a server of this name is trusted when nothing is said.
    pub fn trusts_by_default(name: &str) -> bool {
        name == TRUSTED
    }
}

/// How a server of tools is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A process of ours, over its pipes.
    Process {
        /// The program and its arguments.
        command: Vec<String>,
        /// Variables that are set for it.
        env: BTreeMap<String, String>,
        /// Variables of the service that it gets.
        env_from: Vec<String>,
    },
    /// HTTP.
    Http {
        /// Where it is.
        url: String,
        /// The variable that holds the token.
        token_env: Option<String>,
    },
}

/// Checks `peers`.
pub(super) fn check_peers(
    checker: &mut Checker<'_>,
    raw: BTreeMap<String, RawPeer>,
) -> BTreeMap<String, Peer> {
    let all = FieldPath::from("peers");
    if raw.len() > MAX_PEERS {
        let count = raw.len();
        checker.fault(&all, format_args!("may have {MAX_PEERS} peers, but has {count}"));
    }
    let mut peers = BTreeMap::new();
    for (name, raw) in raw {
        let path = all.key(&name);
        if name.trim().is_empty() || name.chars().count() > MAX_PEERS {
            checker.fault(&path, "must have a name of 1 to 100 characters that is not blank");
        }
        let url = checker.required(&path.key("url"), raw.url).and_then(|url| {
            Origin::parse(&url).map_err(|fault| checker.fault(&path.key("url"), fault)).ok()
        });
        let token_env = checker
            .required(&path.key("token_env"), raw.token_env)
            .and_then(|name| checker.variable(&path.key("token_env"), name));
        let description = raw
            .description
            .and_then(|text| checker.text(&path.key("description"), text, MAX_TEXT_BYTES));
        if let (Some(url), Some(token_env)) = (url, token_env) {
            peers.insert(name, Peer { url, token_env, description });
        }
    }
    peers
}

/// Checks `mcp_servers`.
pub(super) fn check_mcp_servers(
    checker: &mut Checker<'_>,
    raw: BTreeMap<String, RawMcpServer>,
) -> BTreeMap<String, McpServer> {
    let mut servers = BTreeMap::new();
    for (name, raw) in raw {
        let path = FieldPath::from("mcp_servers").key(&name);
        let right = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(right) {
            checker.fault(&path, "must have a name of letters, digits, `_` and `-`, at most 64");
        }
        let timeout_path = path.key("timeout_seconds");
        let timeout = raw
            .timeout_seconds
            .map(|given| checker.whole(&timeout_path, Some(given), 1, 1..=3600))
            .map(|seconds| Duration::from_secs(seconds.into()));
        let trust_hints = raw.trust_hints.unwrap_or_else(|| McpServer::trusts_by_default(&name));
        if let Some(transport) = transport(checker, &path, raw) {
            servers.insert(name, McpServer { transport, trust_hints, timeout });
        }
    }
    servers
}

/// Checks a program and its arguments.
pub(super) fn check_command(
    checker: &mut Checker<'_>,
    path: &FieldPath,
    command: Vec<String>,
) -> Option<Vec<String>> {
    if command.first().is_none_or(|program| program.trim().is_empty()) {
        checker.fault(path, "must begin with the name of a program");
        return None;
    }
    if command.iter().any(|word| word.contains('\0')) {
        checker.fault(path, "must have no NUL in it");
        return None;
    }
    Some(command)
}

/// Checks variables that are set for a child.
pub(super) fn check_env(
    checker: &mut Checker<'_>,
    path: &FieldPath,
    env: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut checked = BTreeMap::new();
    for (name, value) in env {
        let path = path.key(&name);
        if value.contains('\0') {
            checker.fault(&path, "must have no NUL in it");
        }
        if let Some(name) = checker.variable(&path, name) {
            checked.insert(name, value);
        }
    }
    checked
}

fn transport(checker: &mut Checker<'_>, path: &FieldPath, raw: RawMcpServer) -> Option<Transport> {
    match (raw.command, raw.url) {
        (Some(command), None) => {
            if raw.token_env.is_some() {
                checker.fault(&path.key("token_env"), "is for a server with a `url` only");
            }
            let command = check_command(checker, &path.key("command"), command);
            let env = check_env(checker, &path.key("env"), raw.env.unwrap_or_default());
            let mut env_from = Vec::new();
            for (index, name) in raw.env_from.unwrap_or_default().into_iter().enumerate() {
                env_from.extend(checker.variable(&path.key("env_from").index(index), name));
            }
            Some(Transport::Process { command: command?, env, env_from })
        }
        (None, Some(url)) => {
            for (field, given) in [("env", raw.env.is_some()), ("env_from", raw.env_from.is_some())]
            {
                if given {
                    checker.fault(&path.key(field), "is for a server with a `command` only");
                }
            }
            let fault = url_fault(&url);
            if let Some(fault) = fault {
                checker.fault(&path.key("url"), fault);
            }
            let token_env =
                raw.token_env.and_then(|name| checker.variable(&path.key("token_env"), name));
            fault.is_none().then_some(Transport::Http { url, token_env })
        }
        (Some(_), Some(_)) => {
            checker.fault(path, "must have a `command` or a `url`, but has both");
            None
        }
        (None, None) => {
            checker.fault(path, "must have a `command` or a `url`, but has none");
            None
        }
    }
}
