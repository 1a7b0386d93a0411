//! Tests that need what a machine may lack say so by name, and never pass in silence.

use std::io::Write as _;
use std::path::PathBuf;

/// Says that a test could not run for want of something that every machine can have; in CI that is a
/// failure.
pub fn skip(test: &str, reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "{test} may not be skipped in CI: {reason}");
    say(test, reason);
}

/// Says that a test could not run for want of a right that not every machine gives.
pub fn cannot(test: &str, reason: &str) {
    say(test, reason);
}

fn say(test: &str, reason: &str) {
    // Straight to the stream: the test runner shows it with the test's output.
    drop(writeln!(std::io::stderr(), "SKIPPED {test}: {reason}"));
}

/// Whether the tests run as root, which may mount file systems and is not stopped by file modes.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The Python with the packages of `tests/python/requirements.txt`: `AGENT_TEST_PYTHON`, or the virtual
/// environment that `make test` creates.
pub fn python() -> Option<PathBuf> {
    let named = std::env::var_os("AGENT_TEST_PYTHON").map(PathBuf::from);
    let python = named.unwrap_or_else(|| workspace().join(".venv/bin/python"));
    python.exists().then_some(python)
}

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the tests stand in the workspace").to_owned()
}
