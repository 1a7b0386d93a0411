//! A program under test as a real process: started, watched, signalled, and never left behind.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use crate::client::Client;
use crate::wait;

/// The path of a program that was built with the tests.
pub fn binary(name: &str) -> String {
    // Tests lie in `deps` beside them, whoever runs them.
    let test = std::env::current_exe().expect("a test knows its own path");
    let path = test.ancestors().nth(2).expect("a test lies in a target directory").join(name);
    assert!(path.exists(), "{} is not built; `make test` builds it", path.display());
    path.to_string_lossy().into_owned()
}

/// What a program left: its exit code and all that it wrote.
#[derive(Debug, Clone)]
pub struct Exit {
    /// The exit code; 128 and the number of the signal that killed it.
    pub code: i32,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

impl Exit {
    /// Checks the exit code, and shows both outputs when it is another.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "the check alone is often all")]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// stdout as one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is no JSON ({error}): {}", self.stdout))
    }

    /// Checks that stderr has all these words.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(self.stderr.contains(word), "stderr lacks {word:?}:\n{}", self.stderr);
        }
        self
    }
}

/// A program about to be started.
#[derive(Debug)]
#[must_use = "nothing runs before `start` or `run`"]
pub struct Launch {
    command: Command,
    input: Option<Vec<u8>>,
    logs: PathBuf,
}

impl Launch {
    /// The program `name` with a bare environment; its output goes to new files in `logs`.
    pub fn new(name: &str, logs: &Path) -> Self {
        Self::of(OsStr::new(&binary(name)), logs)
    }

    /// Any program, in the same way.
    pub fn of(program: &OsStr, logs: &Path) -> Self {
        let mut command = Command::new(program);
        command.env_clear().process_group(0).current_dir(logs);
        for name in ["PATH", "HOME", "TMPDIR", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        Self { command, input: None, logs: logs.to_owned() }
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Takes a variable out.
    pub fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// The directory in which it starts.
    pub fn in_directory(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// What it reads on stdin; nothing unless told.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = Some(input.into());
        self
    }

    /// Starts it.
    #[track_caller]
    pub fn start(mut self) -> Program {
        let output = tempfile::Builder::new().prefix("out-").tempfile_in(&self.logs);
        let (stdout, out) = output.and_then(|file| Ok(file.keep()?)).expect("a file for stdout");
        let output = tempfile::Builder::new().prefix("err-").tempfile_in(&self.logs);
        let (stderr, err) = output.and_then(|file| Ok(file.keep()?)).expect("a file for stderr");
        let stdin = if self.input.is_some() { Stdio::piped() } else { Stdio::null() };
        self.command.stdin(stdin).stdout::<File>(stdout).stderr::<File>(stderr);
        let name = self.command.get_program().to_owned();
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", name.display()));
        if let (Some(input), Some(mut stdin)) = (self.input, child.stdin.take()) {
            // A program that refuses its arguments never reads it.
            drop(stdin.write_all(&input));
        }
        Program { child, name, out, err, exit: None }
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(self) -> Exit {
        self.start().wait()
    }
}

/// A running program. Dropped, its process group is killed; its output is shown if the test fails.
#[derive(Debug)]
pub struct Program {
    child: Child,
    name: OsString,
    out: PathBuf,
    err: PathBuf,
    exit: Option<ExitStatus>,
}

impl Program {
    /// The process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to stderr so far.
    pub fn stderr(&self) -> String {
        read(&self.err)
    }

    /// What it wrote to stdout so far.
    pub fn stdout(&self) -> String {
        read(&self.out)
    }

    /// Sends a signal to the process alone.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("signal a program that runs");
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        if self.exit.is_none() {
            self.exit = self.child.try_wait().expect("ask for the exit of a child");
        }
        self.exit.is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(self) -> Exit {
        self.wait_within(wait::PATIENCE * 2)
    }

    /// Waits for its end, for so long.
    #[track_caller]
    pub fn wait_within(mut self, limit: Duration) -> Exit {
        let what = format!("{} ends", self.name.display());
        let status = wait::within(limit, &what, || {
            self.has_ended();
            self.exit
        });
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Exit { code: code.unwrap_or(-1), stdout: self.stdout(), stderr: self.stderr() }
    }

    /// SIGKILL, as a crash or a power cut has it; returns when the process is gone.
    pub fn kill(&mut self) {
        if !self.has_ended() {
            kill(self.pid(), Signal::SIGKILL).ok();
            self.exit = self.child.wait().ok();
        }
    }

    fn pid(&self) -> Pid {
        pid(self.child.id())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.has_ended() {
            killpg(self.pid(), Signal::SIGKILL).ok();
            drop(self.child.wait());
        }
        if std::thread::panicking() {
            let (name, out, err) = (self.name.display(), self.stdout(), self.stderr());
            let said = format!("---- stdout of {name}\n{out}\n---- stderr of {name}\n{err}\n");
            drop(std::io::stderr().write_all(said.as_bytes()));
        }
    }
}

/// agent-service, ready.
#[derive(Debug)]
pub struct Service {
    /// The process.
    pub program: Program,
    /// Its URL, as it says itself.
    pub url: String,
    /// A client of it.
    pub client: Client,
}

impl Service {
    /// Waits until a `serve` answers `/readyz` with 200. `secure` makes the client of a TLS address.
    #[track_caller]
    pub fn ready(mut program: Program, secure: impl Fn(Client) -> Client) -> Self {
        let address = wait::until("the service says where it listens", || {
            let ended = program.has_ended();
            let found = listening(&program.stderr());
            assert!(!ended, "the service ended at its start");
            found
        });
        let client = secure(Client::new(&address));
        wait::until("the service is ready", || {
            assert!(!program.has_ended(), "the service ended at its start");
            let reply = client.get("/readyz").try_send().ok()?;
            (reply.status == 200).then_some(())
        });
        let scheme = if client.is_secure() { "https" } else { "http" };
        Self { program, url: format!("{scheme}://{address}"), client }
    }

    /// The `host:port` on which it listens.
    pub fn address(&self) -> &str {
        self.url.split("//").nth(1).unwrap_or_default()
    }

    /// SIGTERM, and the exit.
    #[track_caller]
    pub fn stop(self) -> Exit {
        self.program.signal(Signal::SIGTERM);
        self.program.wait()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.program.kill();
    }
}

impl std::ops::Deref for Service {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// The address that a log of `serve` says it listens on.
pub fn listening(log: &str) -> Option<String> {
    let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut addresses = entries.filter_map(|entry| Some(entry.get("listen")?.as_str()?.to_owned()));
    addresses.next()
}

/// Kills the processes, other than ours, whose command line names this path.
///
/// An agent stands in a process group of its own; when its service was killed it ends by itself, but a
/// test that failed must not leave one behind either.
pub fn sweep(path: &Path) {
    let needle = path.to_string_lossy().into_owned();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if id != std::process::id() && String::from_utf8_lossy(&line).contains(&needle) {
            kill(pid(id), Signal::SIGKILL).ok();
        }
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).expect("a process ID fits"))
}

fn read(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
}
