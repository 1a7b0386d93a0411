//! The commands that need no service: `serve`, `check`, `example`.

use std::path::PathBuf;

use serde_json::json;
use service_kit::Vars;
use service_kit::config::Faults;

use super::{End, complain, print};
use crate::config::{self, Config, Flags, NO_RUNNER, Sources};
use crate::serve;

/// What `example` prints; a test loads it. The commented form is `examples/agent.toml`.
pub(super) const EXAMPLE: &str = include_str!("../../examples/agent.json");

/// Hosts an agent until it is told to stop.
pub(super) fn serve(files: &[PathBuf], flags: &Flags, vars: Vars) -> End {
    let Some(config) = load(files, flags, &vars) else { return End::Usage };
    for warning in config.warnings.iter().filter(|warning| *warning != NO_RUNNER) {
        complain(format_args!("warning: {warning}"));
    }
    // It is dropped last, whatever happens: then everything is written.
    let _telemetry = match service_kit::telemetry::init(&config.telemetry, &vars) {
        Ok(guard) => guard,
        Err(error) => {
            complain(chain(&error));
            return End::Usage;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format_args!("cannot start the runtime: {error}"));
            return End::Failed;
        }
    };
    match runtime.block_on(serve::run(config, vars)) {
        Ok(()) => End::Done,
        Err(serve::Error::Configuration(fault)) => {
            complain(fault);
            End::Usage
        }
        Err(serve::Error::Failed(error)) => {
            complain(format_args!("{error:#}"));
            End::Failed
        }
    }
}

/// Says what a configuration comes to. It reads what `serve` would read and changes nothing.
///
/// A secret that is not there is a warning: configurations are checked where no secrets are.
pub(super) fn check(files: &[PathBuf], flags: &Flags, vars: &Vars) -> End {
    let Some(config) = load(files, flags, vars) else { return End::Usage };
    let (missing, wrong) = config.check_secrets(vars);
    for warning in config.warnings.iter().chain(&missing) {
        complain(format_args!("warning: {warning}"));
    }
    if !wrong.is_empty() {
        wrong.iter().for_each(complain);
        return End::Usage;
    }
    let report = json!({"agent": config.agent.to_json(), "sha256": config.digest().to_hex()});
    print(&format!("{report:#}\n"), End::Done)
}

/// An error and its causes in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn load(files: &[PathBuf], flags: &Flags, vars: &Vars) -> Option<Config> {
    let current = match std::env::current_dir() {
        Ok(current) => current,
        Err(error) => {
            complain(format_args!("cannot tell the working directory: {error}"));
            return None;
        }
    };
    let loaded = config::load(&Sources { files, vars, flags, current: &current });
    loaded.map_err(|faults: Faults| faults.sentences().iter().for_each(complain)).ok()
}
