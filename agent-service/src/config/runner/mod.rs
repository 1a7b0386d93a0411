//! The process runner: which program runs the tasks, and how long it lives.
//!
//! Its fields stand in the configuration, or in an `agent.toml` of dotagent that `manifest` names. Both
//! give the same: what is bound to the state is what the program and its limits are, not the file.

mod manifest;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use service_kit::config::FieldPath;

use self::manifest::Manifest;
use super::agent::DEFAULT_TASK_TIMEOUT_SECONDS;
use super::check::Checker;
use super::peers::{check_command, check_env};
use super::raw::{RawEnv, RawLifecycle, RawRunner};

/// Defaults of `lifecycle`. Source: `PROCESS_AGENTS`, "Configuration".
pub(super) const DEFAULT_IDLE_TIMEOUT_SECONDS: u32 = 1800;
/// `max_invocations` where nothing is said.
pub(super) const DEFAULT_MAX_INVOCATIONS: u32 = 120;
/// `max_instances` where nothing is said.
pub(super) const DEFAULT_MAX_INSTANCES: u32 = 8;
/// `startup_timeout_seconds` where nothing is said.
pub(super) const DEFAULT_STARTUP_TIMEOUT_SECONDS: u32 = 30;
/// `grace_seconds` where nothing is said.
pub(super) const DEFAULT_GRACE_SECONDS: u32 = 5;
/// `max_line_bytes` where nothing is said.
pub(super) const DEFAULT_MAX_LINE_BYTES: u32 = 1_048_576;

/// What `shutdown_grace_seconds` and `grace_seconds` may be together. Source: CONTRACT, section 2.
pub const MAX_STOP_SECONDS: u32 = 27;

/// Bounds of ours where the contract has none: a week, and what one machine can hold.
const MAX_IDLE_TIMEOUT_SECONDS: u32 = 604_800;
const MAX_INSTANCES: u32 = 1000;
const MAX_KEY_BYTES: usize = 256;
const MIN_LINE_BYTES: u32 = 1024;
const MAX_LINE_BYTES: u32 = 67_108_864;

/// A process that runs the tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessRunner {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// Where it runs: an existing directory, absolute.
    pub working_dir: PathBuf,
    /// Its `AGENT_HOME`: the folder of the manifest, else of the configuration, absolute. Not part of
    /// what state belongs to: it follows from where the files lie.
    pub home: PathBuf,
    /// Whether it gets the service's variables (never its secrets).
    pub inherit_env: bool,
    /// Variables that are set for it.
    pub extra_env: BTreeMap<String, String>,
    /// How long it lives.
    pub lifecycle: Lifecycle,
}

/// How long a process lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifecycle {
    /// One process a task, or one that stays.
    pub mode: Mode,
    /// The field of the payload whose value chooses the instance.
    pub key: Option<String>,
    /// How long an instance may be without a request.
    pub idle_timeout: Duration,
    /// How many requests an instance gets; 0: no limit.
    pub max_invocations: u32,
    /// How many instances there may be.
    pub max_instances: u32,
    /// How long an instance may take to be ready; below the task timeout.
    pub startup_timeout: Duration,
    /// How long a process may take to end before it is killed.
    pub grace: Duration,
    /// The longest line that is read.
    pub max_line_bytes: u32,
}

/// How many tasks a process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One.
    OneShot,
    /// Many, one after the other.
    Persistent,
}

impl Mode {
    const NAMES: [(&'static str, Self); 2] =
        [("oneshot", Self::OneShot), ("persistent", Self::Persistent)];

    /// The name in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OneShot => "oneshot",
            Self::Persistent => "persistent",
        }
    }
}

/// A runner that is read and not checked.
pub(super) enum Written {
    /// In the configuration.
    Fields(Box<RawRunner>),
    /// In an `agent.toml`.
    Manifest(Box<Manifest>),
}

/// The fields of a runner, wherever they stand.
struct Parts {
    command: Option<Vec<String>>,
    working_dir: Option<PathBuf>,
    env: Option<RawEnv>,
    lifecycle: Option<RawLifecycle>,
}

/// Where they stand.
struct Paths {
    command: FieldPath,
    working_dir: FieldPath,
    env: FieldPath,
    lifecycle: FieldPath,
}

/// Finds out where the runner is written, and reads its manifest; `None` when a fault says why.
pub(super) fn read(checker: &mut Checker<'_>, raw: RawRunner) -> Option<Written> {
    let path = FieldPath::from("runner");
    if let Some(kind) = checker.required(&path.key("type"), raw.kind.clone()) {
        checker.one_of(&path.key("type"), &kind, &[("process", ())]);
    }
    let Some(file) = &raw.manifest else { return Some(Written::Fields(Box::new(raw))) };
    let others = [
        ("command", raw.command.is_some()),
        ("working_dir", raw.working_dir.is_some()),
        ("env", raw.env.is_some()),
        ("lifecycle", raw.lifecycle.is_some()),
    ];
    for (field, _) in others.into_iter().filter(|(_, given)| *given) {
        checker.fault(&path.key(field), "is the manifest's to say: leave this out, or `manifest`");
    }
    let file = checker.absolute(&path.key("manifest"), file);
    Manifest::read(checker, &file).map(|manifest| Written::Manifest(Box::new(manifest)))
}

impl Written {
    /// The task timeout where the configuration sets none: the manifest's own, else the default.
    pub(super) fn task_timeout_seconds(&self, checker: &mut Checker<'_>) -> u32 {
        match self {
            Self::Fields(_) => DEFAULT_TASK_TIMEOUT_SECONDS,
            Self::Manifest(manifest) => manifest.task_timeout_seconds(checker),
        }
    }

    /// Checks the runner of tasks that may take `task_timeout_seconds`; `None` when a fault says why.
    pub(super) fn check(
        self,
        checker: &mut Checker<'_>,
        task_timeout_seconds: u32,
    ) -> Option<ProcessRunner> {
        match self {
            Self::Fields(raw) => {
                let path = FieldPath::from("runner");
                let paths = Paths {
                    command: path.key("command"),
                    working_dir: path.key("working_dir"),
                    env: path.key("env"),
                    lifecycle: path.key("lifecycle"),
                };
                let parts = Parts {
                    command: raw.command,
                    working_dir: raw.working_dir,
                    env: raw.env,
                    lifecycle: raw.lifecycle,
                };
                check(checker, &paths, parts, task_timeout_seconds)
            }
            Self::Manifest(manifest) => manifest.check(checker, task_timeout_seconds),
        }
    }
}

fn check(
    checker: &mut Checker<'_>,
    paths: &Paths,
    parts: Parts,
    task_timeout_seconds: u32,
) -> Option<ProcessRunner> {
    let command = checker
        .required(&paths.command, parts.command)
        .and_then(|command| check_command(checker, &paths.command, command));
    let home = checker.base(&paths.command);
    // Where nobody says so, it is the folder of the file that has the command.
    let set_by =
        if checker.is_set(&paths.working_dir) { &paths.working_dir } else { &paths.command };
    let working_dir = parts.working_dir.unwrap_or_else(|| PathBuf::from("."));
    let working_dir = checker.folder(set_by, &working_dir);
    let env = parts.env.unwrap_or_default();
    let extra_env = check_env(checker, &paths.env.key("extra"), env.extra.unwrap_or_default());
    let lifecycle = check_lifecycle(
        checker,
        &paths.lifecycle,
        parts.lifecycle.unwrap_or_default(),
        task_timeout_seconds,
    );
    Some(ProcessRunner {
        command: command?,
        working_dir,
        home,
        inherit_env: env.inherit.unwrap_or(true),
        extra_env,
        lifecycle: lifecycle?,
    })
}

/// What only a persistent agent has is not checked for a one-shot one, as in dotagent, and has no
/// effect: its defaults stand.
fn check_lifecycle(
    checker: &mut Checker<'_>,
    path: &FieldPath,
    raw: RawLifecycle,
    task_timeout_seconds: u32,
) -> Option<Lifecycle> {
    let mode = raw.mode.as_deref().map_or(Some(Mode::OneShot), |mode| {
        checker.one_of(&path.key("mode"), mode, &Mode::NAMES)
    })?;
    let grace = checker.whole(
        &path.key("grace_seconds"),
        raw.grace_seconds,
        DEFAULT_GRACE_SECONDS,
        0..=MAX_STOP_SECONDS,
    );
    let max_line_bytes = checker.whole(
        &path.key("max_line_bytes"),
        raw.max_line_bytes,
        DEFAULT_MAX_LINE_BYTES,
        MIN_LINE_BYTES..=MAX_LINE_BYTES,
    );
    let mut lifecycle = Lifecycle {
        mode,
        key: None,
        idle_timeout: seconds(DEFAULT_IDLE_TIMEOUT_SECONDS),
        max_invocations: DEFAULT_MAX_INVOCATIONS,
        max_instances: DEFAULT_MAX_INSTANCES,
        startup_timeout: seconds(DEFAULT_STARTUP_TIMEOUT_SECONDS),
        grace: seconds(grace),
        max_line_bytes,
    };
    if mode == Mode::OneShot {
        return Some(lifecycle);
    }
    lifecycle.key = raw.key.and_then(|key| checker.text(&path.key("key"), key, MAX_KEY_BYTES));
    lifecycle.idle_timeout = seconds(checker.whole(
        &path.key("idle_timeout_seconds"),
        raw.idle_timeout_seconds,
        DEFAULT_IDLE_TIMEOUT_SECONDS,
        1..=MAX_IDLE_TIMEOUT_SECONDS,
    ));
    lifecycle.max_invocations = checker.whole(
        &path.key("max_invocations"),
        raw.max_invocations,
        DEFAULT_MAX_INVOCATIONS,
        0..=u32::MAX,
    );
    lifecycle.max_instances = checker.whole(
        &path.key("max_instances"),
        raw.max_instances,
        DEFAULT_MAX_INSTANCES,
        1..=MAX_INSTANCES,
    );
    let startup_path = path.key("startup_timeout_seconds");
    let startup = checker.whole(
        &startup_path,
        raw.startup_timeout_seconds,
        DEFAULT_STARTUP_TIMEOUT_SECONDS,
        1..=3600,
    );
    if startup >= task_timeout_seconds {
        checker.fault(
            &startup_path,
            format_args!(
                "must be below the task timeout of {task_timeout_seconds} s, but is {startup}"
            ),
        );
    }
    lifecycle.startup_timeout = seconds(startup);
    Some(lifecycle)
}

fn seconds(number: u32) -> Duration {
    Duration::from_secs(number.into())
}
