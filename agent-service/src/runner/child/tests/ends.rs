//! How an instance ends, and what becomes of its request.

use super::*;

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
    let text = failure(agent.ask_for("one", SHORT).await);
    assert!(text.contains("did not answer in time"), "{text}");
    assert!(!runs(&agent.read("grandchild")), "it returns when the group is gone");
    agent.close().await;
}

#[tokio::test]
async fn a_deaf_agent_with_a_large_request_ends_at_the_deadline() {
    let script = "read hello; echo '{\"kind\":\"ready\"}'; sleep 60";
    let agent = agent(Mode::Persistent(persistent()), script, |_| {});
    let large = "x".repeat(1_000_000);
    let run =
        agent.runner.run(Job { prompt: large, ..job("one", SHORT) }, CancellationToken::new());
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
async fn a_grandchild_that_holds_the_pipe_delays_nothing() {
    let body = "sleep 60 & exit 1";
    let agent = agent(Mode::Persistent(persistent()), &looping(body), |_| {});
    let text = failure(agent.ask_for("one", 15).await);
    assert!(text.contains("the agent ended (exit status: 1)"), "{text}");
    agent.close().await;
}

#[tokio::test]
async fn an_agent_that_closes_its_output_has_lost_its_task() {
    let agent = puppet(persistent(), |_| {});
    let text = failure(agent.ask("mute").await);
    assert!(text.contains("closed a pipe: effects may have completed"), "{text}");
    agent.close().await;
}

#[tokio::test]
async fn a_task_that_no_byte_of_was_accepted_goes_to_a_fresh_instance_at_once() {
    // The first one neither reads nor goes; its grace is longer than this test may take.
    let agent = stubborn(persistent());
    let first = agent.ask("pid").await.unwrap();
    assert_eq!(agent.ask("deaf one").await.unwrap(), "one");
    let second = agent.ask("pid").await.unwrap();
    assert_ne!(first, second);
    assert!(runs(&first), "it has its grace beside the next task");
    agent.kill().await;
    assert!(!runs(&first) && !runs(&second));
}

#[tokio::test]
async fn an_answer_that_comes_after_the_deadline_reaches_nobody() {
    let agent = puppet(persistent(), |_| {});
    agent.ask_in_vain("late one").await;
    agent.noted("late").await;
    assert_eq!(agent.ask("pieces two").await.unwrap(), "two");
    agent.close().await;
}

#[tokio::test]
async fn an_agent_that_has_much_to_say_at_its_end_is_read_to_the_end() {
    let agent = puppet(persistent(), |spec| spec.grace = PATIENCE * 3);
    assert_eq!(agent.ask("loud one").await.unwrap(), "one");
    let dir = agent.close().await;
    assert!(dir.path().join("loud").exists(), "a full pipe kept it from ending");
}

#[tokio::test]
async fn an_agent_that_goes_when_it_is_asked_ends_the_grace() {
    let agent = agent(
        Mode::Persistent(persistent()),
        &looping("echo \"{\\\"output\\\":\\\"$$\\\"}\""),
        |spec| spec.grace = PATIENCE * 3,
    );
    let pid = agent.ask("one").await.unwrap();
    agent.close().await;
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it is no zombie either");
}

#[tokio::test]
async fn a_hard_stop_ends_every_grace() {
    let mode = Persistent { key: Some("text".to_owned()), ..persistent() };
    let agent = rock(mode);
    let mut pids = Vec::new();
    for text in ["pid", "pid 2", "pid 3"] {
        pids.push(agent.ask(text).await.unwrap());
    }
    agent.kill().await;
    assert!(!pids.iter().any(|pid| runs(pid)));
}

#[tokio::test]
async fn an_agent_that_is_stopped_by_a_signal_is_killed_all_the_same() {
    let agent = puppet(persistent(), |spec| spec.grace = Duration::from_millis(300));
    agent.ask_in_vain("stop").await;
    assert!(!runs(&agent.noted("pid").await));
    agent.close().await;
}

#[tokio::test]
async fn a_process_that_left_the_group_and_holds_the_pipes_holds_up_nothing() {
    let agent = puppet(persistent(), |_| {});
    let text = failure(agent.ask("escape").await);
    assert!(text.contains("the agent ended (exit status: 1)"), "{text}");
    let escaped = agent.noted("escaped").await;
    assert!(agent.ask("pid").await.is_ok());
    agent.close().await;
    assert!(runs(&escaped), "it is out of reach, and this test's to end");
    let pid = nix::unistd::Pid::from_raw(escaped.parse().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn how_a_task_ended_stands_in_its_heartbeat() {
    let agent = puppet(persistent(), |_| {});
    let beat = || -> Value {
        serde_json::from_str(&agent.read("state/heartbeat/trigger-a2a.json")).unwrap()
    };
    agent.ask("pid").await.unwrap();
    let success = beat()["last_success"].clone();
    assert_eq!(beat()["finished"], success);
    failure(agent.ask("half").await);
    assert_eq!((&beat()["exit_code"], &beat()["last_success"]), (&json!(-1), &success));
    failure(agent.ask_for("hold x", SHORT).await);
    assert_eq!((&beat()["exit_code"], &beat()["last_success"]), (&json!(124), &success));
    // A worker stops a task at its deadline; that is a timeout too.
    let stop = CancellationToken::new();
    let job = job("hold x", SHORT);
    let deadline = job.deadline;
    let run = agent.runner.run(job, stop.clone());
    let late = async {
        tokio::time::sleep_until(deadline).await;
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(run, late);
    assert!(failure(outcome).contains("did not answer in time"));
    assert_eq!(beat()["exit_code"], 124);
    agent.close().await;
}
