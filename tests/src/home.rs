//! A test's own directory: configuration, workspace, state, agent and logs, removed at its end.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::agent::Agent;
use crate::client::TOKEN;
use crate::config::Config;
use crate::process::{Launch, Program, Service, sweep};

/// The directory of one test. Keep it to the end: dropping it removes everything.
#[derive(Debug)]
pub struct Home {
    dir: TempDir,
    /// The agent's side.
    pub agent: Agent,
}

impl Home {
    /// A home with the configuration of [`Config::new`].
    #[track_caller]
    pub fn new() -> Self {
        Self::with(|config| config)
    }

    /// A home whose configuration a test changes.
    #[track_caller]
    pub fn with(change: impl FnOnce(Config) -> Config) -> Self {
        let dir = tempfile::Builder::new().prefix("agent-test-").tempdir().expect("a directory");
        fs::create_dir(dir.path().join("logs")).expect("a directory for logs");
        let agent = Agent::new(dir.path().join("agent"));
        let config = change(Config::new(agent.dir()));
        let home = Self { dir, agent };
        home.write("agent.json", &config.json().to_string());
        home
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file in it.
    #[track_caller]
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("write a file of the test");
        path
    }

    /// Changes the configuration for the next start.
    #[track_caller]
    pub fn configure(&self, change: impl FnOnce(Config) -> Config) {
        let config = change(Config::new(self.agent.dir()));
        self.write("agent.json", &config.json().to_string());
    }

    /// The state directory.
    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// `agent-service` with the token and these arguments.
    pub fn agent_service<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Launch {
        let logs = self.path("logs");
        Launch::new("agent-service-under-test", &logs)
            .env("WENDY_AGENT_TOKEN", TOKEN)
            .args(arguments)
    }

    /// `sensor-bridge` with the token and these arguments.
    pub fn sensor_bridge<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Launch {
        let logs = self.path("logs");
        Launch::new("sensor-bridge-under-test", &logs)
            .env("WENDY_AGENT_TOKEN", TOKEN)
            .env("SENSOR_BRIDGE_TOKEN", TOKEN)
            .env("SENSOR_BRIDGE__STATUS__LISTEN", "127.0.0.1:0")
            .args(arguments)
    }

    /// `serve` with the configuration, on a free port; the state directory is [`state`](Self::state).
    pub fn serve(&self) -> Launch {
        self.serve_bare().args([OsStr::new("--state-dir"), self.state().as_os_str()])
    }

    /// `serve` with the configuration, on a free port, without a state directory.
    pub fn serve_bare(&self) -> Launch {
        let config = self.path("agent.json");
        self.agent_service([OsStr::new("serve"), OsStr::new("--config"), config.as_os_str()])
            .args(["--listen", "127.0.0.1:0"])
    }

    /// Starts the service, and waits until it is ready.
    #[track_caller]
    pub fn start(&self) -> Service {
        ready(self.serve().start())
    }

    /// A client command against a service; its stdout is no terminal, so it prints JSON.
    ///
    /// The arguments may end in an option whose value is added later.
    pub fn command<A: AsRef<OsStr>>(
        &self,
        service: &Service,
        arguments: impl IntoIterator<Item = A>,
    ) -> Launch {
        let mut arguments = arguments.into_iter();
        let name = arguments.next();
        self.agent_service(name).args(["--url", &service.url]).args(arguments)
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// Waits until a started `serve` without TLS is ready.
#[track_caller]
pub fn ready(program: Program) -> Service {
    Service::ready(program, |client| client)
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        sweep(self.dir.path());
    }
}
