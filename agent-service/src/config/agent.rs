//! The agent: what it is called, what it may do, and its limits. State belongs to exactly this.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use agent_core::trigger;
use service_kit::config::FieldPath;

use super::check::Checker;
use super::model::{self, Model};
use super::peers::{self, McpServer, Peer};
use super::raw::Raw;
use super::runner::{self, ProcessRunner};
use super::triggers;

/// How long one task may run, in seconds. Source: CONTRACT, section 2.
pub(super) const DEFAULT_TASK_TIMEOUT_SECONDS: u32 = 600;

/// How many tasks are retained. Source: CONTRACT, section 2.
pub(super) const DEFAULT_MAX_TASKS: u32 = 200;

/// The longest name, in characters. Source: CONTRACT, section 5.
const MAX_NAME_CHARS: usize = 64;

/// The longest name of a tool or a device, in bytes. Ours.
const MAX_TOOL_BYTES: usize = 256;

/// The effective agent configuration: checked, with defaults, paths absolute.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// A letter or digit, then letters, digits, `_`, `-`; at most 64.
    pub name: String,
    /// What it is for.
    pub profile: Profile,
    /// Where it works; an existing directory.
    pub workspace: PathBuf,
    /// The Wendy device that device tools select.
    pub device: Option<String>,
    /// The model of the model loop.
    pub model: Option<Model>,
    /// Models of children, by their profile.
    pub child_models: BTreeMap<Profile, Model>,
    /// The process that runs the tasks; without one the model loop does.
    pub runner: Option<ProcessRunner>,
    /// Other agents, by name.
    pub peers: BTreeMap<String, Peer>,
    /// Servers of tools, by name.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Mutating tools that may run unattended.
    pub allow_tools: BTreeSet<String>,
    /// No notes are kept.
    pub no_memory: bool,
    /// How long one task may run, 1 to 3600 s.
    pub task_timeout: Duration,
    /// How many tasks are retained, 1 to 1000.
    pub max_tasks: u32,
    /// At most 32, unique by (source, type).
    pub triggers: Vec<trigger::Spec>,
}

/// What an agent is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Everything.
    General,
    /// Build, test and deploy applications.
    Developer,
    /// Simulations.
    Simulation,
    /// Diagnose software and hardware.
    Debugger,
    /// Coordinate devices.
    Fleet,
    /// Goals, observations and events.
    DeviceReasoning,
    /// Perception models and sensors.
    DeviceSensors,
    /// Motion and bounded goals.
    DeviceControl,
}

impl Profile {
    /// All, with their names. Source: CONTRACT, section 5.
    pub const NAMES: [(&'static str, Self); 8] = [
        ("general", Self::General),
        ("developer", Self::Developer),
        ("simulation", Self::Simulation),
        ("debugger", Self::Debugger),
        ("fleet", Self::Fleet),
        ("device-reasoning", Self::DeviceReasoning),
        ("device-sensors", Self::DeviceSensors),
        ("device-control", Self::DeviceControl),
    ];

    /// The name in configurations and on the card.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Developer => "developer",
            Self::Simulation => "simulation",
            Self::Debugger => "debugger",
            Self::Fleet => "fleet",
            Self::DeviceReasoning => "device-reasoning",
            Self::DeviceSensors => "device-sensors",
            Self::DeviceControl => "device-control",
        }
    }
}

/// Checks everything but `server` and `telemetry`; `None` when a fault says why.
pub(super) fn check(checker: &mut Checker<'_>, raw: Raw) -> Option<Agent> {
    let name = name(checker, raw.name);
    let profile = raw.profile.map_or(Some(Profile::General), |name| {
        checker.one_of(&"profile".into(), &name, &Profile::NAMES)
    });
    let workspace = raw.workspace.unwrap_or_else(|| PathBuf::from("."));
    let workspace = checker.folder(&"workspace".into(), &workspace);
    let device =
        raw.device.and_then(|device| checker.text(&"device".into(), device, MAX_TOOL_BYTES));
    let model_path = FieldPath::from("model");
    let model = raw.model.and_then(|model| model::check(checker, &model_path, model));
    let child_models = child_models(checker, raw.agent_models.unwrap_or_default());

    let written = raw.runner.and_then(|runner| runner::read(checker, runner));
    let seconds = match (raw.task_timeout_seconds, &written) {
        (None, Some(written)) => written.task_timeout_seconds(checker),
        (given, Some(_) | None) => checker.whole(
            &"task_timeout_seconds".into(),
            given,
            DEFAULT_TASK_TIMEOUT_SECONDS,
            1..=3600,
        ),
    };
    let runner = written.and_then(|written| written.check(checker, seconds));

    let max_tasks = checker.whole(&"max_tasks".into(), raw.max_tasks, DEFAULT_MAX_TASKS, 1..=1000);
    let allow_tools = allow_tools(checker, raw.allow_tools.unwrap_or_default());
    let peers = peers::check_peers(checker, raw.peers.unwrap_or_default());
    let mcp_servers = peers::check_mcp_servers(checker, raw.mcp_servers.unwrap_or_default());
    let triggers = triggers::check(checker, raw.triggers.unwrap_or_default());

    Some(Agent {
        name: name?,
        profile: profile?,
        workspace,
        device,
        model,
        child_models,
        runner,
        peers,
        mcp_servers,
        allow_tools,
        no_memory: raw.no_memory.unwrap_or(false),
        task_timeout: Duration::from_secs(seconds.into()),
        max_tasks,
        triggers,
    })
}

fn name(checker: &mut Checker<'_>, name: Option<String>) -> Option<String> {
    let path = FieldPath::from("name");
    let name = checker.required(&path, name)?;
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let right = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if starts && name.chars().all(right) && name.len() <= MAX_NAME_CHARS {
        return Some(name);
    }
    checker.fault(
        &path,
        "must be a letter or digit, then letters, digits, `_` and `-`, 64 characters at most",
    );
    None
}

fn child_models(
    checker: &mut Checker<'_>,
    raw: BTreeMap<String, super::raw::RawModel>,
) -> BTreeMap<Profile, Model> {
    let mut models = BTreeMap::new();
    for (name, raw) in raw {
        let path = FieldPath::from("agent_models").key(&name);
        let profile = checker.one_of(&path, &name, &Profile::NAMES);
        let model = model::check(checker, &path, raw);
        if let (Some(profile), Some(model)) = (profile, model) {
            models.insert(profile, model);
        }
    }
    models
}

fn allow_tools(checker: &mut Checker<'_>, tools: Vec<String>) -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    for (index, tool) in tools.into_iter().enumerate() {
        let path = FieldPath::from("allow_tools").index(index);
        let Some(tool) = checker.text(&path, tool, MAX_TOOL_BYTES) else { continue };
        if tool.trim() == tool {
            allowed.insert(tool);
        } else {
            checker.fault(&path, "must be the exact name of a tool, without white space around it");
        }
    }
    allowed
}
