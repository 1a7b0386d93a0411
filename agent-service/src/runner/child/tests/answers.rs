//! What is an answer, and what is none.

use std::process::Stdio;

use super::*;

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
async fn a_task_reaches_the_agent_as_one_line_and_unchanged() {
    let agent = puppet(persistent(), |spec| spec.max_line_bytes = 4_000_000);
    let text = format!("echo \n\r\"\\\u{2028}\0🤖{}", "x".repeat(1_000_000));
    let echo = agent.ask(&text).await.unwrap();
    let trigger: Value = serde_json::from_str(&echo).unwrap();
    assert_eq!(trigger["payload"]["text"], text);
    assert_eq!(agent.ask("large 3999950").await.unwrap().len(), 3_999_950);
    agent.close().await;
}

#[tokio::test]
async fn an_answer_may_come_a_byte_at_a_time() {
    let agent = puppet(persistent(), |_| {});
    assert_eq!(agent.ask("pieces Grüße, 世界 🤖").await.unwrap(), "Grüße, 世界 🤖");
    agent.close().await;
}

#[tokio::test]
async fn what_is_left_of_one_task_never_answers_the_next() {
    let agent = puppet(persistent(), |_| {});
    assert_eq!(agent.ask("twice one").await.unwrap(), "one");
    fs::write(agent.dir.path().join("read"), "").unwrap();
    agent.noted("twice").await;
    assert_eq!(agent.ask("flood two").await.unwrap(), "two");
    // It is read while nothing is asked, so the agent comes to the end of it.
    agent.noted("flooded").await;
    assert_eq!(agent.ask("pieces three").await.unwrap(), "three");
    agent.close().await;
}

#[tokio::test]
async fn what_the_runtime_has_not_seen_yet_is_no_answer_either() {
    use crate::runner::child::instance::{Answered, Instance, Limits, Parts, Reason};
    use crate::runner::child::{stderr, stderr::Stderr, tmp::Tmp};
    let agent = puppet(persistent(), |_| {});
    let path = agent.dir.path();
    let mut command = tokio::process::Command::new("python3");
    command.args(["-S", "agent.py"]).current_dir(path).env("AGENT_PERSIST_KEY", "x");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = agent.runner.spawner.spawn(command).await.unwrap();
    let source =
        stderr::Source { agent: "tester".to_owned(), key: "x".to_owned(), pid: group.pid() };
    let from = group.child().stderr.take().unwrap();
    let (instance, live, drive) = Instance::new(Parts {
        group,
        stderr: Stderr::read(from, source, &agent.tasks),
        hello: b"{\"key\":\"x\"}\n".to_vec(),
        label: "x".to_owned(),
        agent: "tester".to_owned(),
        tmp: Tmp::create(&path.join("state")).await.unwrap(),
        limits: Limits {
            max_line_bytes: 1000,
            max_invocations: 0,
            startup_timeout: PATIENCE,
            idle_timeout: PATIENCE * 3,
            grace: PATIENCE,
        },
        at_once: CancellationToken::new(),
        freed: Arc::default(),
    });
    drop(agent.tasks.spawn(drive));
    live.await.unwrap().unwrap();
    let ask = async |id: &str, text: &str| {
        let task = json!({"id": id, "trigger": {"payload": {"text": text}}});
        match instance.ask(id.to_owned(), format!("{task}\n").into_bytes()).await {
            Answered::Response(response) => response.text().to_owned(),
            other @ (Answered::NotAccepted(_) | Answered::Lost(_)) => panic!("{other:?}"),
        }
    };
    assert_eq!(ask("1", "twice one").await, "one");
    fs::write(path.join("read"), "").unwrap();
    // The thread is held on purpose: nothing of the runtime can look at the pipe meanwhile.
    let since = Instant::now();
    while !path.join("twice").exists() {
        assert!(since.elapsed() < PATIENCE, "the second frame is never written");
        std::thread::yield_now();
    }
    assert_eq!(ask("2", "pieces two").await, "two");
    instance.retire(Reason::Shutdown);
    instance.gone().await;
    agent.close().await;
}

#[tokio::test]
async fn an_agent_that_never_stops_talking_is_heard_and_bound_by_its_deadline() {
    let agent = puppet(persistent(), |_| {});
    assert_eq!(agent.ask("chatter one").await.unwrap(), "one");
    assert_eq!(agent.ask("large 3").await.unwrap(), "xxx");
    let text = failure(agent.ask_for("hold three", SHORT).await);
    assert!(text.contains("did not answer in time"), "{text}");
    agent.close().await;
}

#[tokio::test]
async fn the_end_of_the_process_ends_its_last_line() {
    let agent = puppet(persistent(), |_| {});
    assert_eq!(agent.ask("unterminated one").await.unwrap(), "one");
    assert_eq!(agent.ask("last two").await.unwrap(), "two");
    assert!(agent.ask("pid").await.is_ok(), "a fresh process");
    let text = failure(agent.ask("half").await);
    assert!(text.contains("effects may have completed"), "{text}");
    agent.close().await;
}

#[tokio::test]
async fn what_is_no_answer_ends_in_a_timeout() {
    for text in ["hold x", "bytes"] {
        let agent = puppet(persistent(), |_| {});
        agent.ask_in_vain(text).await;
        agent.close().await;
    }
}
