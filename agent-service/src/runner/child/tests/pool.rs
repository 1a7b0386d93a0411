//! Which instance answers, and when one makes room.

use super::*;

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
async fn an_instance_at_its_quota_goes_beside_the_next_task() {
    let agent = rock(Persistent { max_invocations: 1, ..persistent() });
    let first = agent.ask("pid").await.unwrap();
    let second = agent.ask("pid").await.unwrap();
    assert_ne!(first, second);
    assert!(runs(&first), "it has its grace beside the next task");
    agent.kill().await;
}

#[tokio::test]
async fn a_task_that_waits_for_room_can_be_stopped() {
    let agent = rock(Persistent { max_invocations: 1, max_instances: 1, ..persistent() });
    let first = agent.ask("pid").await.unwrap();
    // There is no room until the first one is gone, and that takes longer than this test may.
    let text = failure(agent.ask_for("pid", 1).await);
    assert!(text.contains("did not answer in time"), "{text}");
    let stop = CancellationToken::new();
    stop.cancel();
    let run = agent.runner.run(job("pid", 60), stop);
    let text = failure(tokio::time::timeout(PATIENCE, run).await.unwrap());
    assert!(text.contains("stopped"), "{text}");
    assert!(runs(&first), "never more than one");
    agent.kill().await;
}

#[tokio::test]
async fn an_instance_that_has_nothing_to_do_is_retired() {
    let agent =
        puppet(Persistent { idle_timeout: Duration::from_millis(200), ..persistent() }, |_| {});
    let first = agent.ask("pid").await.unwrap();
    ends(&first).await;
    assert_ne!(agent.ask("pid").await.unwrap(), first);
    agent.close().await;
}

#[tokio::test]
async fn an_instance_that_is_dead_makes_room_before_one_that_lives() {
    let mode = Persistent { key: Some("text".to_owned()), max_instances: 2, ..persistent() };
    let agent = puppet(mode, |_| {});
    let first = agent.ask("pid").await.unwrap();
    assert_eq!(agent.ask("last b").await.unwrap(), "b");
    // The folder of the one that has ended goes last.
    let folders = || fs::read_dir(agent.dir.path().join("state/run")).unwrap().count();
    let gone = async {
        while folders() > 1 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it ends");
    let third = agent.ask("pid 3").await.unwrap();
    assert_eq!(agent.ask("pid").await.unwrap(), first, "it was used longest ago, and lives");
    assert_eq!(agent.ask("pid 3").await.unwrap(), third);
    agent.close().await;
}

#[tokio::test]
async fn no_instance_holds_the_input_of_another_one() {
    // They end by the end of their input only.
    let mode = Persistent { key: Some("text".to_owned()), max_instances: 2, ..persistent() };
    let agent = stubborn(mode);
    let first = agent.ask("pid").await.unwrap();
    let second = agent.ask("pid 2").await.unwrap();
    agent.ask("pid 3").await.unwrap();
    assert!(!runs(&first) && runs(&second));
    agent.close().await;
}

#[tokio::test]
async fn tasks_of_clients_and_of_sensors_share_no_instance() {
    let agent = puppet(persistent(), |_| {});
    let of_message = agent.ask("pid").await.unwrap();
    let event = json!({
        "id": "1", "type": "person.detected", "source": "front", "timestamp": "2026-05-01T14:00:00Z",
        "confidence": 0.9, "data": {"text": "pid"}
    });
    let event = agent_wire::event::Event::parse(event.to_string().as_bytes()).unwrap();
    let of_event = |instructions: &str| Job {
        origin: Origin::Event {
            event: Box::new(event.clone()),
            instructions: instructions.to_owned(),
        },
        ..job("the observation is in here", 60)
    };
    let run = agent.runner.run(of_event("pid"), CancellationToken::new());
    assert_ne!(run.await.unwrap(), of_message);
    let run = agent.runner.run(of_event("echo"), CancellationToken::new());
    let trigger: Value = serde_json::from_str(&run.await.unwrap()).unwrap();
    assert_eq!(trigger["source"], "event");
    assert_eq!(trigger["payload"]["text"], "echo", "the trigger's words, and nothing of the event");
    assert_eq!(trigger["payload"]["type"], "person.detected");
    assert_eq!(trigger["payload"]["source"], "front");
    assert_eq!(trigger["payload"]["event"]["id"], "1");
    agent.close().await;
}

#[tokio::test]
async fn an_agent_sees_the_label_of_its_key() {
    let mode = Persistent { key: Some("text".to_owned()), ..persistent() };
    let agent = puppet(mode, |_| {});
    agent.ask("pid").await.unwrap();
    assert_eq!(agent.read("key"), "pid pid\n");
    agent.ask("pid ../../x").await.unwrap();
    let key = agent.read("key");
    let (hello, variable) = key.trim_end().split_once(' ').unwrap();
    assert_eq!(hello, variable);
    assert!(hello.len() == 33 && hello.starts_with('k'), "{key}");
    agent.close().await;
}
