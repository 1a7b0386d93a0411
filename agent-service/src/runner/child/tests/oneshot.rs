//! A process a task.

use super::*;

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
    let text = failure(agent.ask_for("one", SHORT).await);
    assert!(text.contains("did not answer in time"), "{text}");
    assert!(!runs(&agent.read("grandchild")));
    let beat: Value =
        serde_json::from_str(&agent.read("state/heartbeat/trigger-a2a.json")).unwrap();
    assert_eq!(beat["exit_code"], 124);
    agent.close().await;
}

#[tokio::test]
async fn what_a_oneshot_agent_leaves_behind_ends_beside_the_next_task() {
    let script = "(trap '' TERM; echo > trapped; while :; do sleep 1; done) & echo $! > left; \
                  while ! test -e trapped; do :; done; echo done";
    let agent = agent(Mode::Oneshot, script, |spec| spec.grace = PATIENCE * 3);
    assert_eq!(agent.ask("one").await.unwrap(), "done");
    let left = agent.read("left");
    assert!(runs(&left));
    assert_eq!(agent.ask("two").await.unwrap(), "done");
    agent.kill().await;
    assert!(!runs(&left));
}

#[tokio::test]
async fn a_oneshot_agent_that_ended_in_time_succeeded_although_its_pipe_is_held() {
    let agent = agent(Mode::Oneshot, "echo done; sleep 60 & exit 0", |_| {});
    assert_eq!(agent.ask_for("one", 15).await.unwrap(), "done");
    agent.close().await;
}

#[tokio::test]
async fn a_stop_ends_a_oneshot_agent_before_the_runner_returns() {
    let agent = agent(Mode::Oneshot, "sleep 60 & echo $! > pid; wait", |_| {});
    let stop = CancellationToken::new();
    let run = agent.runner.run(job("one", 60), stop.clone());
    let cancel = async {
        let pid = agent.noted("pid").await;
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
async fn a_task_too_large_for_the_environment_says_what_to_do() {
    let agent = agent(Mode::Oneshot, "echo done", |_| {});
    let text = failure(agent.ask(&"x".repeat(200_000)).await);
    assert!(text.contains("use `lifecycle.mode` persistent"), "{text}");
    agent.close().await;
}
