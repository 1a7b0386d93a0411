//! Real processes: what the pure machine cannot show.

use std::fs;
use std::path::Path;

use agent_wire::value::{ContextId, DelegationDepth, MessageId, TaskId};
use tempfile::TempDir;
use tokio::time::sleep;

use super::*;

/// Long enough for a busy machine; no test waits this long unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

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

fn job(text: &str, seconds: u64) -> Job {
    Job {
        task: TaskId::new(format!("task-{text}")).unwrap(),
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

    async fn ask_for(&self, text: &str, seconds: u64) -> Outcome {
        let run = self.runner.run(job(text, seconds), CancellationToken::new());
        tokio::time::timeout(PATIENCE, run).await.expect("the runner returns")
    }

    async fn close(self) -> TempDir {
        self.runner.close().await;
        self.tasks.request_soft_stop();
        tokio::time::timeout(PATIENCE, self.tasks.finish()).await.expect("all tasks end");
        let run = self.dir.path().join("state/run");
        let left: Vec<_> = fs::read_dir(run).into_iter().flatten().collect();
        assert!(left.is_empty(), "temporary folders are left: {left:?}");
        self.dir
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
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

#[tokio::test]
async fn a_persistent_agent_answers_many_tasks_with_one_process() {
    let body = "echo \"{\\\"output\\\":\\\"$$\\\"}\"";
    let agent = agent(Mode::Persistent(persistent()), &looping(body), |_| {});
    let first = agent.ask("one").await.unwrap();
    assert_eq!(agent.ask("two").await.unwrap(), first);
    let hello: Value = serde_json::from_str(&agent.read("hello")).unwrap();
    assert_eq!(
        hello,
        json!({"v": 1, "kind": "hello", "agent": "tester", "key": "default", "schedule": "trigger"})
    );
    let requests: Vec<Value> =
        agent.read("requests").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(requests[0]["id"], "1");
    assert_eq!(requests[1]["id"], "2");
    assert_eq!(requests[1]["args"], json!([]));
    assert!((55..=60).contains(&requests[1]["deadline_seconds"].as_u64().unwrap()));
    let trigger = json!({
        "source": "a2a", "session_id": "context", "reply_to": "task-two",
        "payload": {"text": "two", "context_id": "context", "task_id": "task-two", "message_id": "m1", "metadata": {}}
    });
    assert_eq!(requests[1]["trigger"], trigger);
    let beat: Value =
        serde_json::from_str(&agent.read("state/heartbeat/trigger-a2a.json")).unwrap();
    assert_eq!((&beat["exit_code"], &beat["slug"]), (&json!(0), &json!("trigger-a2a")));
    assert!(beat["last_success"].is_string());
    agent.close().await;
    assert!(!runs(&first));
}

#[tokio::test]
async fn what_keeps_an_agent_from_starting_is_said_in_its_own_words() {
    let refuse =
        "read hello; echo '{\"kind\":\"ready\",\"ok\":false,\"error\":\"no API key\"}'; sleep 60";
    let cases = [
        ("refusal", refuse, "no API key"),
        ("exit", "echo 'no camera' >&2; exit 3", "the agent ended (exit status: 3): no camera"),
        ("closed output", "exec >&-; sleep 60", "closed a pipe"),
        (
            "never ready",
            "echo 'waiting for a license' >&2; sleep 60",
            "not ready within 1 s: waiting for a license",
        ),
        ("an echo of itself", "cat", "not ready within 1 s"),
    ];
    for (name, script, expected) in cases {
        let mode = Persistent { startup_timeout: Duration::from_secs(1), ..persistent() };
        let agent = agent(Mode::Persistent(mode), script, |_| {});
        let text = failure(agent.ask("one").await);
        assert!(
            text.contains("cannot start the agent") && text.contains(expected),
            "{name}: {text}"
        );
        let again = failure(agent.ask("two").await);
        assert!(again.contains(expected), "{name}: {again}");
        agent.close().await;
    }
    let missing = agent(Mode::Persistent(persistent()), "", |spec| {
        spec.command = vec!["no-such-program".to_owned()];
    });
    let text = failure(missing.ask("one").await);
    assert!(text.contains("no-such-program: No such file"), "{text}");
}

#[tokio::test]
async fn failing_starts_back_off_and_fail_tasks_at_once() {
    let agent = agent(Mode::Persistent(persistent()), "echo x >> spawns; exit 1", |_| {});
    for number in 0..50 {
        failure(agent.ask(&number.to_string()).await);
    }
    let spawns = agent.read("spawns").lines().count();
    assert!(spawns < 20, "{spawns} spawns for 50 tasks");
}

#[tokio::test]
async fn noise_on_stdout_does_not_disturb_an_answer() {
    let body = "echo starting; echo '{}'; echo '[1]'; printf '\\377\\376\\n'; \
                echo '{\"id\":\"0\",\"output\":\"stale\"}'; echo '{\"output\":\"right\"}'";
    let agent = agent(Mode::Persistent(persistent()), &looping(body), |_| {});
    for _ in 0..3 {
        assert_eq!(agent.ask("one").await.unwrap(), "right");
    }
    agent.close().await;
}

#[tokio::test]
async fn a_failure_is_the_agents_verdict_and_text() {
    let cases = [
        (r#"{"ok":false,"error":"broken"}"#, "broken"),
        (r#"{"ok":true,"exit_code":42,"output":"said"}"#, "said"),
        (r#"{"exit_code":7}"#, "exit code 7"),
    ];
    for (line, expected) in cases {
        let body = format!("echo '{line}'");
        let agent = agent(Mode::Persistent(persistent()), &looping(&body), |_| {});
        let text = failure(agent.ask("one").await);
        assert!(text.contains(expected), "{line}: {text}");
        agent.close().await;
    }
}

#[tokio::test]
async fn a_crash_after_the_request_is_lost_and_never_sent_again() {
    let agent =
        agent(Mode::Persistent(persistent()), &looping("echo x >> effects; kill -9 $$"), |_| {});
    let text = failure(agent.ask("one").await);
    assert!(text.contains("effects may have completed; inspect before retrying"), "{text}");
    assert_eq!(agent.read("effects"), "x\n");
    let again = failure(agent.ask("two").await);
    assert!(again.contains("effects may have completed"), "a fresh instance serves it: {again}");
    assert_eq!(agent.read("effects"), "x\nx\n");
    agent.close().await;
}

#[tokio::test]
async fn an_agent_that_died_between_two_tasks_is_replaced_without_an_error() {
    let body = "echo \"{\\\"output\\\":\\\"$$\\\"}\"; test -e twice || { touch twice; exit 0; }";
    let agent = agent(Mode::Persistent(persistent()), &looping(body), |_| {});
    let first = agent.ask("one").await.unwrap();
    let exits = async {
        while runs(&first) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, exits).await.expect("the agent exits");
    assert_ne!(agent.ask("two").await.unwrap(), first);
    agent.close().await;
}

#[tokio::test]
async fn a_timeout_ends_the_whole_group() {
    let body = "sleep 60 & echo $! > grandchild; sleep 60";
    let agent = agent(Mode::Persistent(persistent()), &looping(body), |_| {});
    let text = failure(agent.ask_for("one", 1).await);
    assert!(text.contains("did not answer in time"), "{text}");
    assert!(!runs(&agent.read("grandchild")), "it returns when the group is gone");
    agent.close().await;
}

#[tokio::test]
async fn a_deaf_agent_with_a_large_request_ends_at_the_deadline() {
    let script = "read hello; echo '{\"kind\":\"ready\"}'; sleep 60";
    let agent = agent(Mode::Persistent(persistent()), script, |_| {});
    let large = "x".repeat(1_000_000);
    let run = agent.runner.run(Job { prompt: large, ..job("one", 1) }, CancellationToken::new());
    let text = failure(tokio::time::timeout(PATIENCE, run).await.unwrap());
    assert!(text.contains("did not answer in time"), "{text}");
    agent.close().await;
}

#[tokio::test]
async fn an_agent_that_ignores_sigterm_is_killed_after_the_grace() {
    let script = format!(
        "trap '' TERM\n{}",
        looping("echo '{\"output\":\"a\"}'; echo $$ > pid; while :; do sleep 1; done")
    );
    let agent = agent(Mode::Persistent(persistent()), &script, |spec| {
        spec.grace = Duration::from_millis(300);
    });
    agent.ask("one").await.unwrap();
    let pid = appears(&agent.dir.path().join("pid")).await;
    assert!(runs(&pid));
    agent.close().await;
    assert!(!runs(&pid));
}

#[tokio::test]
async fn a_stop_ends_the_group_before_the_runner_returns() {
    let agent = agent(Mode::Persistent(persistent()), &looping("echo $$ > pid; sleep 60"), |_| {});
    let stop = CancellationToken::new();
    let run = agent.runner.run(job("one", 60), stop.clone());
    let cancel = async {
        let pid = appears(&agent.dir.path().join("pid")).await;
        stop.cancel();
        pid
    };
    let (outcome, pid) =
        tokio::time::timeout(PATIENCE, async { tokio::join!(run, cancel) }).await.unwrap();
    assert!(failure(outcome).contains("stopped"));
    assert!(!runs(&pid));
    agent.close().await;
}

#[tokio::test]
async fn a_line_over_the_limit_fails_the_request() {
    let body = "head -c 200000 /dev/zero | tr '\\0' x; echo";
    let agent = agent(Mode::Persistent(persistent()), &looping(body), |_| {});
    let text = failure(agent.ask("one").await);
    assert!(text.contains("a line of more than 100000 bytes"), "{text}");
    agent.close().await;
}

#[tokio::test]
async fn a_flood_on_stderr_blocks_nothing() {
    let body = "head -c 2000000 /dev/zero | tr '\\0' e >&2; printf '\\377\\n' >&2; echo '{\"output\":\"a\"}'";
    let agent = agent(Mode::Persistent(persistent()), &looping(body), |_| {});
    assert_eq!(agent.ask("one").await.unwrap(), "a");
    agent.close().await;
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_delays_nothing() {
    let body = "sleep 60 & exit 1";
    let agent = agent(Mode::Persistent(persistent()), &looping(body), |_| {});
    let text = failure(agent.ask_for("one", 15).await);
    assert!(text.contains("the agent ended (exit status: 1)"), "{text}");
    agent.close().await;
}

#[tokio::test]
async fn the_quota_ends_an_instance_after_its_last_answer() {
    let mode = Persistent { max_invocations: 2, ..persistent() };
    let agent =
        agent(Mode::Persistent(mode), &looping("echo \"{\\\"output\\\":\\\"$$\\\"}\""), |_| {});
    let mut pids = Vec::new();
    for text in ["one", "two", "three"] {
        pids.push(agent.ask(text).await.unwrap());
    }
    assert_eq!(pids[0], pids[1]);
    assert_ne!(pids[1], pids[2]);
    agent.close().await;
}

#[tokio::test]
async fn each_key_has_its_instance_and_the_least_recently_used_makes_room() {
    let mode = Persistent { key: Some("text".to_owned()), max_instances: 2, ..persistent() };
    let agent =
        agent(Mode::Persistent(mode), &looping("echo \"{\\\"output\\\":\\\"$$\\\"}\""), |_| {});
    let a = agent.ask("a").await.unwrap();
    let b = agent.ask("b").await.unwrap();
    assert_ne!(a, b);
    assert_eq!(agent.ask("a").await.unwrap(), a);
    agent.ask("c").await.unwrap();
    assert!(!runs(&b), "gone before the newcomer was spawned");
    assert_eq!(agent.ask("a").await.unwrap(), a);
    agent.close().await;
}

#[tokio::test]
async fn a_child_sees_its_block_and_none_of_the_services_secrets() {
    let show = "env > environment; echo '{\"output\":\"a\"}'";
    let agent = agent(Mode::Persistent(persistent()), &looping(show), |_| {});
    agent.ask("one").await.unwrap();
    let text = agent.read("environment");
    let lines: BTreeSet<&str> = text.lines().collect();
    for expected in [
        "AGENT_NAME=tester",
        "AGENT_ARGV=[]",
        "AGENT_SLUG=trigger-a2a",
        "AGENT_SCHEDULE_ID=trigger",
        "AGENT_LIFECYCLE=persistent",
        "AGENT_PERSIST_KEY=default",
        "LOG_LEVEL=debug",
    ] {
        assert!(lines.contains(expected), "{expected} is missing in {text}");
    }
    assert!(!text.contains("very-secret") && !text.contains("inherited"), "{text}");
    let tmp = lines.iter().find_map(|line| line.strip_prefix("AGENT_TMPDIR=")).unwrap().to_owned();
    assert!(Path::new(&tmp).is_dir());
    agent.close().await;
    assert!(!Path::new(&tmp).exists());
}

#[tokio::test]
async fn a_oneshot_agent_answers_with_its_output_and_exit_code() {
    let cases = [
        ("success", "cat; printf 'all well\\n'", Ok("all well")),
        (
            "its trigger",
            "printf '%s' \"$AGENT_TRIGGER_SOURCE/$AGENT_SESSION_ID/$AGENT_TRIGGER_REPLY_TO\"",
            Ok("a2a/context/task-one"),
        ),
        ("no lifecycle", "printf '%s' \"${AGENT_LIFECYCLE-none}\"", Ok("none")),
        ("lenient bytes", "printf '\\377ok'", Ok("\u{fffd}ok")),
        ("failure with output", "echo said; exit 4", Err("said")),
        ("failure with stderr", "echo 'no disk' >&2; exit 4", Err("no disk")),
        ("silent failure", "exit 4", Err("exit code 4")),
        ("a signal", "kill -9 $$", Err("signal: 9")),
        ("too much", "head -c 200000 /dev/zero", Err("more than 100000 bytes")),
    ];
    for (name, script, expected) in cases {
        let agent = agent(Mode::Oneshot, script, |_| {});
        match (agent.ask("one").await, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected, "{name}"),
            (Err(failure), Err(expected)) => {
                assert!(failure.text.contains(expected), "{name}: {failure}");
            }
            (outcome, _) => panic!("{name}: {outcome:?}"),
        }
        agent.close().await;
    }
}

#[tokio::test]
async fn a_oneshot_agent_that_outlives_its_deadline_failed_with_its_group() {
    let script = "trap 'exit 0' TERM; sleep 60 & echo $! > grandchild; wait";
    let agent = agent(Mode::Oneshot, script, |_| {});
    let text = failure(agent.ask_for("one", 1).await);
    assert!(text.contains("did not answer in time"), "{text}");
    assert!(!runs(&agent.read("grandchild")));
    let beat: Value =
        serde_json::from_str(&agent.read("state/heartbeat/trigger-a2a.json")).unwrap();
    assert_eq!(beat["exit_code"], 124);
    agent.close().await;
}
