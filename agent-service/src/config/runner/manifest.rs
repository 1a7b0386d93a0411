//! dotagent's `agent.toml`: the part of it that is served, and one warning on the rest.
//!
//! Served are the command, where it runs, its environment and its lifecycle, and the timeout where the
//! configuration sets none. Schedules, notifiers, plugins and the like have no meaning here: the
//! service decides when an agent runs, and says where the answers go.

use std::path::Path;

use serde_json::{Map, Value};
use service_kit::config::{FieldPath, Loaded, Loader, read_file};

use super::super::agent::DEFAULT_TASK_TIMEOUT_SECONDS;
use super::super::check::Checker;
use super::super::raw::RawManifest;
use super::{Parts, Paths, ProcessRunner, check};

/// What is served.
const SERVED: [(&str, &[&str]); 4] = [
    ("agent", &["timeout_seconds"]),
    ("run", &["command", "args", "working_dir"]),
    ("env", &["inherit", "extra"]),
    (
        "lifecycle",
        &[
            "mode",
            "key",
            "idle_timeout_seconds",
            "max_invocations",
            "max_instances",
            "startup_timeout_seconds",
            "grace_seconds",
            "max_line_bytes",
        ],
    ),
];

/// What only describes the agent, so that leaving it out changes nothing.
const DESCRIBES: [&str; 3] = ["name", "description", "version"];

/// A manifest that was read.
pub(in crate::config) struct Manifest {
    loaded: Loaded<RawManifest>,
}

impl Manifest {
    /// Reads a manifest; what is not served becomes a warning. `None` when a fault says why.
    pub(super) fn read(checker: &mut Checker<'_>, file: &Path) -> Option<Self> {
        let mut fields = match read_file(file) {
            Ok(fields) => fields,
            Err(fault) => {
                checker.findings.add(fault);
                return None;
            }
        };
        let unserved = take_unserved(&mut fields);
        if !unserved.is_empty() {
            let (name, unserved) = (file.display(), unserved.join("`, `"));
            checker
                .warnings
                .push(format!("{name} has fields that this service does not serve: `{unserved}`"));
        }
        // No variables: they are the configuration's.
        match Loader::new("").file_fields(file, fields).load() {
            Ok(loaded) => Some(Self { loaded }),
            Err(faults) => {
                checker.findings.add(faults);
                None
            }
        }
    }

    pub(super) fn task_timeout_seconds(&self, checker: &mut Checker<'_>) -> u32 {
        let path = FieldPath::from("agent").key("timeout_seconds");
        let given = self.loaded.value.agent.as_ref().and_then(|agent| agent.timeout_seconds);
        let mut own = Checker::new(&self.loaded.origins, checker.current);
        let seconds = own.whole(&path, given, DEFAULT_TASK_TIMEOUT_SECONDS, 1..=3600);
        checker.absorb(own.findings);
        seconds
    }

    pub(super) fn check(
        self,
        checker: &mut Checker<'_>,
        task_timeout_seconds: u32,
    ) -> Option<ProcessRunner> {
        let Loaded { value: raw, origins } = self.loaded;
        let run = raw.run.unwrap_or_default();
        let run_path = FieldPath::from("run");
        let paths = Paths {
            command: run_path.key("command"),
            working_dir: run_path.key("working_dir"),
            env: FieldPath::from("env"),
            lifecycle: FieldPath::from("lifecycle"),
        };
        let command = run
            .command
            .map(|program| std::iter::once(program).chain(run.args.unwrap_or_default()).collect());
        let parts =
            Parts { command, working_dir: run.working_dir, env: raw.env, lifecycle: raw.lifecycle };
        let mut own = Checker::new(&origins, checker.current);
        let runner = check(&mut own, &paths, parts, task_timeout_seconds);
        checker.absorb(own.findings);
        runner
    }
}

/// Takes out what is not served, and names what of it would have had an effect.
fn take_unserved(fields: &mut Map<String, Value>) -> Vec<String> {
    let mut unserved = Vec::new();
    fields.retain(|section, value| {
        let Some((_, served)) = SERVED.iter().find(|(name, _)| name == section) else {
            unserved.push(section.clone());
            return false;
        };
        if let Value::Object(fields) = value {
            fields.retain(|field, _| {
                let keep = served.contains(&field.as_str());
                let describes = section == "agent" && DESCRIBES.contains(&field.as_str());
                if !keep && !describes {
                    unserved.push(format!("{section}.{field}"));
                }
                keep
            });
        }
        true
    });
    unserved
}
