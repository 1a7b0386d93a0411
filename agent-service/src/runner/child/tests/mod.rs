//! Real processes: what the pure machine cannot show.

mod answers;
mod ends;
mod env;
mod oneshot;
mod pool;
mod start;

use std::fs;
use std::path::Path;

use agent_wire::value::{ContextId, DelegationDepth, MessageId, TaskId};
use tempfile::TempDir;
use tokio::time::sleep;

use super::*;

/// Long enough for a busy machine; no test waits this long unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// The deadline of a task that does not end by itself, in seconds: an agent that runs has begun it by then.
const SHORT: u64 = 3;

struct Agent {
    dir: TempDir,
    runner: ChildRunner,
    tasks: Tasks,
}

fn persistent() -> Persistent {
    Persistent {
        key: None,
        idle_timeout: Duration::from_mins(30),
        max_invocations: 0,
        max_instances: 8,
        startup_timeout: Duration::from_secs(10),
    }
}

fn agent(mode: Mode, script: &str, change: impl FnOnce(&mut Spec)) -> Agent {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("agent.sh"), script).unwrap();
    let mut spec = Spec {
        agent: "tester".to_owned(),
        command: vec!["sh".to_owned(), "agent.sh".to_owned()],
        working_dir: dir.path().to_owned(),
        home: dir.path().to_owned(),
        state_dir: dir.path().join("state"),
        inherit_env: true,
        extra_env: BTreeMap::from([("LOG_LEVEL".to_owned(), "debug".to_owned())]),
        withheld: BTreeSet::from(["WENDY_AGENT_TOKEN".to_owned()]),
        mode,
        grace: Duration::from_secs(5),
        max_line_bytes: 100_000,
    };
    change(&mut spec);
    let vars = Vars::from_iter([
        ("PATH", std::env::var("PATH").unwrap()),
        ("WENDY_AGENT_TOKEN", "very-secret-token".to_owned()),
        ("AGENT_TRIGGER_PAYLOAD", "inherited".to_owned()),
        ("AGENT_SESSION_ID", "inherited".to_owned()),
    ]);
    let tasks = Tasks::new();
    let runner = ChildRunner::new(spec, vars, Clock::system(), tasks.clone()).unwrap();
    Agent { dir, runner, tasks }
}

/// The usual loop of a shell agent: ready, then `$body` for each request.
fn looping(body: &str) -> String {
    format!(
        "read hello\nprintf '%s\\n' \"$hello\" > hello\necho '{{\"kind\":\"ready\"}}'\n\
         while read -r request; do printf '%s\\n' \"$request\" >> requests\n{body}\ndone\n"
    )
}

/// An agent that does what the text of its task says; see its file.
fn puppet(mode: Persistent, change: impl FnOnce(&mut Spec)) -> Agent {
    agent(Mode::Persistent(mode), "", |spec| {
        let script = include_str!("../../../../tests/fixtures/agents/puppet.py");
        fs::write(spec.working_dir.join("agent.py"), script).unwrap();
        spec.command = ["python3", "-S", "agent.py"].map(str::to_owned).to_vec();
        change(spec);
    })
}

/// A puppet that ignores SIGTERM and goes at the end of its input.
fn stubborn(mode: Persistent) -> Agent {
    ignoring("stubborn", mode)
}

/// A puppet that only SIGKILL ends.
fn rock(mode: Persistent) -> Agent {
    ignoring("rock", mode)
}

/// With a grace that no test waits for.
fn ignoring(what: &str, mode: Persistent) -> Agent {
    puppet(mode, |spec| {
        spec.extra_env.insert("PUPPET".to_owned(), what.to_owned());
        spec.grace = PATIENCE * 3;
    })
}

fn job(text: &str, seconds: u64) -> Job {
    let name: String = text.chars().take_while(char::is_ascii_alphanumeric).take(20).collect();
    Job {
        task: TaskId::new(format!("task-{name}")).unwrap(),
        context: ContextId::new("context").unwrap(),
        origin: Origin::Message { id: MessageId::new("m1").unwrap(), metadata: None },
        prompt: text.to_owned(),
        depth: DelegationDepth::ZERO,
        deadline: Instant::now() + Duration::from_secs(seconds),
        trace: None,
    }
}

impl Agent {
    async fn ask(&self, text: &str) -> Outcome {
        self.ask_for(text, 60).await
    }

    /// Asks an agent that runs already, and is expected not to answer in time.
    async fn ask_in_vain(&self, text: &str) {
        self.ask("pid").await.expect("it runs");
        let text = failure(self.ask_for(text, SHORT).await);
        assert!(text.contains("did not answer in time"), "{text}");
    }

    async fn ask_for(&self, text: &str, seconds: u64) -> Outcome {
        let run = self.runner.run(job(text, seconds), CancellationToken::new());
        tokio::time::timeout(PATIENCE, run).await.expect("the runner returns")
    }

    /// A file that the agent notes something in.
    async fn noted(&self, name: &str) -> String {
        appears(&self.dir.path().join(name)).await.trim_end().to_owned()
    }

    /// Ends it without any grace.
    async fn kill(self) {
        self.tasks.request_hard_stop();
        self.close().await;
    }

    async fn close(self) -> TempDir {
        tokio::time::timeout(PATIENCE, self.runner.close()).await.expect("the agents end");
        self.tasks.request_soft_stop();
        tokio::time::timeout(PATIENCE, self.tasks.finish()).await.expect("all tasks end");
        let run = self.dir.path().join("state/run");
        let left: Vec<_> = fs::read_dir(run).into_iter().flatten().collect();
        assert!(left.is_empty(), "temporary folders are left: {left:?}");
        self.dir
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).expect("the agent has noted it")
    }
}

fn failure(outcome: Outcome) -> String {
    outcome.expect_err("the task fails").text
}

/// Waits until a file is there, and returns what is in it.
async fn appears(path: &Path) -> String {
    let wait = async {
        loop {
            match fs::read_to_string(path) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the file appears")
}

/// Whether a process runs; a zombie does not.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until a process runs no more.
async fn ends(pid: &str) {
    let wait = async {
        while runs(pid) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the process ends");
}
