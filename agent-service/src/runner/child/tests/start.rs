//! What keeps an agent from starting.

use super::*;

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
        ("ready too late", "sleep 1.5; echo '{\"kind\":\"ready\"}'; cat", "not ready within 1 s"),
        ("an endless line", "cat /dev/zero", "a line of more than 100000 bytes"),
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
    missing.close().await;
    let nowhere = agent(Mode::Persistent(persistent()), "", |spec| {
        spec.working_dir = spec.working_dir.join("nowhere");
    });
    let text = failure(nowhere.ask("one").await);
    assert!(text.contains("No such file") && text.ends_with("/nowhere"), "{text}");
    nowhere.close().await;
    let plain = agent(Mode::Persistent(persistent()), "", |spec| {
        spec.command = vec!["./agent.sh".to_owned()];
    });
    let text = failure(plain.ask("one").await);
    assert!(text.contains("./agent.sh: Permission denied"), "{text}");
    plain.close().await;
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
async fn an_agent_that_is_ready_and_ends_backs_off_too() {
    // It closes its input first, so that no byte of a request is ever accepted.
    let script = "read hello; exec <&-; echo x >> spawns; echo 'no disk' >&2; \
                  echo '{\"kind\":\"ready\"}'; exit 3";
    let agent = agent(Mode::Persistent(persistent()), script, |_| {});
    for number in 0..50 {
        let text = failure(agent.ask(&number.to_string()).await);
        assert!(text.contains("cannot start the agent"), "{text}");
        assert!(text.contains("(exit status: 3): no disk"), "{text}");
    }
    let spawns = agent.read("spawns").lines().count();
    assert!(spawns < 30, "{spawns} spawns for 50 tasks");
    agent.close().await;
}

#[tokio::test]
async fn what_an_agent_prints_before_it_is_ready_is_no_answer() {
    let before = "head -c 1000000 /dev/zero | tr '\\0' e >&2; printf '\\377\\n'; echo Welcome; \
                  echo '{\"id\":\"1\",\"output\":\"early\"}'; echo '{\"output\":\"early\"}'";
    let script = format!("{before}\n{}", looping("echo '{\"output\":\"mine\"}'"));
    let agent = agent(Mode::Persistent(persistent()), &script, |_| {});
    assert_eq!(agent.ask("one").await.unwrap(), "mine");
    agent.close().await;
}

#[tokio::test]
async fn a_stop_while_an_agent_starts_ends_its_group_too() {
    let agent = agent(Mode::Persistent(persistent()), "echo $$ > pid; sleep 60", |_| {});
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
async fn temporary_folders_of_a_service_that_was_killed_are_removed() {
    let agent = agent(Mode::Persistent(persistent()), "", |spec| {
        fs::create_dir_all(spec.state_dir.join("run/left/behind")).unwrap();
    });
    assert!(!agent.dir.path().join("state/run").exists());
    agent.close().await;
}
