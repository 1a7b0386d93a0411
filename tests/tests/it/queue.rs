//! CONTRACT section 2: the queue, cancelling, and how tasks end.

use std::collections::BTreeSet;
use std::thread;

use fastrand::Rng;
use serde_json::{Value, json};
use system_tests::client::{
    Client, fresh_id, id_of, is_terminal, message, result_of, state_of, status_text, words,
};
use system_tests::home::Home;
use system_tests::process::Service;
use system_tests::wait;

#[test]
fn one_task_runs_at_a_time_in_order_of_submission() {
    let home = Home::new();
    let service = home.start();
    let first = service.submit_id("block a");
    home.agent.wait_begun(&first);
    let others: Vec<String> = (0..8).map(|n| service.submit_id(&format!("n{n}"))).collect();
    for id in &others {
        assert_eq!(service.state(id), "SUBMITTED");
    }
    home.agent.release("a");
    service.ended(&others[7]);
    assert_eq!(home.agent.order(), ["block a", "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"]);
    // Each one ended before the next began.
    let effects = home.agent.effects();
    for pair in effects.chunks(2) {
        let [begin, end] = pair else { panic!("an end is missing: {effects:?}") };
        assert_eq!(begin.strip_prefix("begin "), end.strip_prefix("end "));
    }
}

#[test]
fn at_most_64_tasks_are_pending_and_the_65th_submission_is_429_with_retry_after() {
    let home = Home::new();
    let service = home.start();
    let mut pending = vec![service.submit_id("block a")];
    home.agent.wait_begun(&pending[0]);
    pending.extend((1..64).map(|n| service.submit_id(&format!("n{n}"))));
    let refused = submission(&service, &fresh_id(), "one too many");
    refused.error(429, "RESOURCE_EXHAUSTED");
    assert!(refused.retry_after() >= 1);
    // The place of one that is cancelled is free at once, and is the only one.
    service.cancel(&pending[63]).success();
    let last = id_of(&submission(&service, &fresh_id(), "fits again").success()["task"]);
    submission(&service, &fresh_id(), "one too many").error(429, "RESOURCE_EXHAUSTED");
    home.agent.release("a");
    assert_eq!(state_of(&service.ended(&last)), "COMPLETED");
}

#[test]
fn max_tasks_bounds_the_retained_tasks_and_the_oldest_terminal_one_goes_first() {
    let home = Home::with(|config| config.with("max_tasks", 3));
    let service = home.start();
    let first = id_of(&service.run("1"));
    let second = id_of(&service.run("2"));
    let third = id_of(&service.run("3"));
    assert_eq!(service.list("").len(), 3);
    let fourth = id_of(&service.run("4"));
    service.get(&format!("/tasks/{first}")).send().error(404, "TASK_NOT_FOUND");
    for id in [&second, &third, &fourth] {
        assert_eq!(service.state(id), "COMPLETED");
    }
    assert_eq!(service.list("").len(), 3);
}

#[test]
fn a_submission_over_max_tasks_is_429_when_no_task_is_terminal() {
    let home = Home::with(|config| config.with("max_tasks", 2));
    let service = home.start();
    let first = service.submit_id("block a");
    let second = service.submit_id("second");
    let refused = submission(&service, &fresh_id(), "third");
    refused.error(429, "RESOURCE_EXHAUSTED");
    refused.retry_after();
    home.agent.release("a");
    service.ended(&second);
    submission(&service, &fresh_id(), "third").success();
    service.get(&format!("/tasks/{first}")).send().error(404, "TASK_NOT_FOUND");
}

#[test]
fn a_terminal_task_that_a_worker_still_holds_is_not_removed() {
    let home = Home::with(|config| config.with("max_tasks", 1).stubborn(15));
    let service = home.start();
    let held = service.submit_id("block a");
    home.agent.wait_begun(&held);
    service.cancel(&held).success();
    submission(&service, &fresh_id(), "next").error(429, "RESOURCE_EXHAUSTED");
    assert_eq!(service.state(&held), "CANCELED");
    home.agent.release("a");
    wait::until("the worker gives the task up", || {
        (submission(&service, &fresh_id(), "next").status == 200).then_some(())
    });
    service.get(&format!("/tasks/{held}")).send().error(404, "TASK_NOT_FOUND");
}

#[test]
fn a_task_that_outlives_task_timeout_seconds_ends_failed() {
    let home = Home::with(|config| {
        config.with("task_timeout_seconds", 2).with("runner.lifecycle.startup_timeout_seconds", 1)
    });
    let service = home.start();
    let task = service.run("block for ever");
    assert_eq!(state_of(&task), "FAILED");
    assert!(status_text(&task).contains("timed out"), "{task}");
    // The queue goes on.
    assert_eq!(state_of(&service.run("next")), "COMPLETED");
}

#[test]
fn a_submitted_task_is_canceled_at_once_and_never_runs() {
    let home = Home::new();
    let service = home.start();
    let blocked = service.submit_id("block a");
    let queued = service.submit_id("queued");
    let last = service.submit_id("last");
    let canceled = service.cancel(&queued).success();
    assert_eq!(state_of(&canceled), "CANCELED");
    assert_eq!(service.state(&queued), "CANCELED");
    home.agent.release("a");
    service.ended(&last);
    assert_eq!(state_of(&service.task(&blocked)), "COMPLETED");
    assert_eq!(home.agent.begun(&queued), 0);
}

#[test]
fn a_working_task_is_canceled_at_once_and_the_next_starts_only_after_its_worker_returned() {
    // The agent ignores SIGTERM: without being released it would be killed after 15 s.
    let home = Home::with(|config| config.stubborn(15));
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    let next = service.submit_id("next");
    assert_eq!(state_of(&service.cancel(&working).success()), "CANCELED");
    for _ in 0..20 {
        assert_eq!(service.state(&working), "CANCELED");
        assert_eq!(service.state(&next), "SUBMITTED");
    }
    assert_eq!(home.agent.order(), ["block a"]);
    home.agent.release("a");
    assert_eq!(state_of(&service.ended(&next)), "COMPLETED");
    let effects = home.agent.effects();
    assert!(
        effects.iter().position(|line| *line == format!("end {working} block a"))
            < effects.iter().position(|line| *line == format!("begin {next} next")),
        "{effects:?}"
    );
}

#[test]
fn canceling_tells_the_agent_to_stop() {
    let home = Home::new();
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    service.cancel(&working).success();
    assert_eq!(state_of(&service.run("next")), "COMPLETED");
    // It was never released: SIGTERM ended it, and the next task has another process.
    assert!(!home.agent.effects().contains(&format!("end {working} block a")));
    assert_eq!(home.agent.starts().len(), 2);
}

#[test]
fn a_late_result_of_a_canceled_task_is_dropped() {
    let home = Home::with(|config| config.stubborn(15));
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    let canceled = service.cancel(&working).success();
    home.agent.release("a");
    service.run("next");
    assert!(home.agent.effects().contains(&format!("end {working} block a")));
    assert_eq!(service.task(&working), canceled);
    assert!(canceled.get("artifacts").is_none());
}

#[test]
fn the_status_message_of_a_canceled_task_says_that_effects_are_not_undone() {
    let home = Home::new();
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    let canceled = service.cancel(&working).success();
    assert!(status_text(&canceled).contains("not undone"), "{canceled}");
    assert_eq!(canceled["status"]["message"]["role"], "ROLE_AGENT");
}

#[test]
fn canceling_a_canceled_task_again_is_200_with_the_task() {
    let home = Home::new();
    let service = home.start();
    let id = service.submit_id("block a");
    let first = service.cancel(&id).success();
    assert_eq!(service.cancel(&id).success(), first);
}

#[test]
fn canceling_a_task_in_another_terminal_state_is_task_not_cancelable() {
    let home = Home::new();
    let service = home.start();
    for (text, state) in [("fine", "COMPLETED"), ("fail badly", "FAILED")] {
        let task = service.run(text);
        assert_eq!(state_of(&task), state);
        service.cancel(&id_of(&task)).error(400, "TASK_NOT_CANCELABLE");
        assert_eq!(service.task(&id_of(&task)), task);
    }
    service.cancel("unknown").error(404, "TASK_NOT_FOUND");
}

#[test]
fn a_result_is_cut_at_32000_bytes_on_a_character_boundary_with_a_mark() {
    let home = Home::new();
    let service = home.start();
    let whole = result_of(&service.run("big 32000"));
    assert_eq!((whole.len(), whole.chars().all(|c| c == 'é')), (32_000, true));
    let cut = result_of(&service.run("big 32002"));
    assert!(cut.len() <= 32_000, "{}", cut.len());
    let (kept, mark) = cut.split_at(cut.rfind('é').unwrap() + 'é'.len_utf8());
    assert!(kept.chars().all(|c| c == 'é'));
    assert!(mark.contains("cut"), "the mark: {mark:?}");
    assert!(kept.len() > 31_900);
}

#[test]
fn a_completed_task_has_one_artifact_and_no_status_message() {
    let home = Home::new();
    let task = home.start().run("hello");
    assert_eq!(state_of(&task), "COMPLETED");
    let artifacts = task["artifacts"].as_array().unwrap();
    let [artifact] = artifacts.as_slice() else { panic!("one artifact: {task}") };
    assert_eq!(artifact["name"], "result");
    assert_eq!(artifact["parts"], json!([{"text": "done: hello"}]));
    assert!(!artifact["artifactId"].as_str().unwrap().is_empty());
    assert_eq!(artifact.as_object().unwrap().len(), 3, "{artifact}");
    assert!(task["status"].get("message").is_none(), "{task}");
}

#[test]
fn any_other_end_has_its_text_in_the_status_message_and_no_artifact() {
    let home = Home::new();
    let service = home.start();
    let task = service.run("fail the reason");
    assert_eq!(state_of(&task), "FAILED");
    assert_eq!(task["status"]["message"]["role"], "ROLE_AGENT");
    assert_eq!(task["status"]["message"]["parts"], json!([{"text": "the reason"}]));
    assert!(task.get("artifacts").is_none(), "{task}");
}

#[test]
fn an_agent_that_dies_before_its_answer_leaves_a_failed_task_that_says_to_inspect() {
    let home = Home::new();
    let service = home.start();
    let task = service.run("crash");
    assert_eq!(state_of(&task), "FAILED");
    let text = status_text(&task);
    assert!(text.contains("effects may have completed") && text.contains("inspect"), "{text}");
    assert_eq!(home.agent.begun(&id_of(&task)), 1, "it is never sent again");
    assert_eq!(state_of(&service.run("next")), "COMPLETED");
}

#[test]
fn a_one_shot_agent_is_a_process_for_each_task_and_its_exit_code_the_verdict() {
    let home = Home::with(system_tests::config::Config::one_shot);
    let service = home.start();
    let good = service.run("hello");
    assert_eq!((state_of(&good), result_of(&good)), ("COMPLETED".into(), "done: hello".into()));
    let bad = service.run("fail so");
    assert_eq!((state_of(&bad), status_text(&bad)), ("FAILED".into(), "so".into()));
    assert_eq!(home.agent.starts().len(), 2);
}

#[test]
fn the_secrets_of_the_service_are_never_in_the_environment_of_the_agent() {
    let home = Home::new();
    let token_file = home.write("token", "a-token-from-a-file-0123456789");
    let serve = home.serve().env("WENDY_AGENT_TOKEN_FILE", &token_file);
    let serve = serve.without_env("WENDY_AGENT_TOKEN");
    let service = system_tests::home::ready(serve.start());
    let body = json!({"message": message("m", "env")});
    let call = service.post("/message:send", &body);
    let call = call.set("Authorization", "Bearer a-token-from-a-file-0123456789");
    let task = call.send().success()["task"].clone();
    let environment: Value = serde_json::from_str(&result_of(&task)).unwrap();
    let names: Vec<&String> = environment.as_object().unwrap().keys().collect();
    assert!(!names.iter().any(|name| name.starts_with("WENDY_AGENT_TOKEN")), "{names:?}");
    assert!(!environment.to_string().contains("a-token-from-a-file"));
    assert_eq!(environment["AGENT_NAME"], "tested");
}

#[test]
fn a_refusal_for_a_full_queue_names_the_limit() {
    let home = Home::with(|config| config.with("max_tasks", 1));
    let service = home.start();
    service.submit("block a");
    let error = submission(&service, &fresh_id(), "x").error(429, "RESOURCE_EXHAUSTED");
    assert!(words(&error).contains('1'), "{error}");
}

#[test]
fn many_clients_at_once_break_no_rule() {
    let home = Home::with(|config| config.with("max_tasks", 100));
    let service = home.start();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let clients: Vec<_> = (0..6)
        .map(|number| {
            let client = service.client.clone();
            thread::spawn(move || random_calls(&client, Rng::with_seed(seed + number), number))
        })
        .collect();
    let endings: Vec<_> = clients.into_iter().flat_map(|one| one.join().unwrap()).collect();
    assert!(endings.len() > 50, "{}", endings.len());
    wait::until("the queue is empty", || {
        service.list("").iter().all(|task| is_terminal(&state_of(task))).then_some(())
    });
    // An ending never changes, as long as its task is retained.
    for ending in endings {
        let reply = service.get(&format!("/tasks/{}", id_of(&ending))).send();
        if reply.status == 200 {
            assert_eq!(reply.success(), ending);
        }
    }
    // One at a time, and none twice. A cancelled one may end without its `end`.
    let mut begun = BTreeSet::new();
    let mut running: Option<String> = None;
    for line in home.agent.effects() {
        let (what, task) = line.split_once(' ').unwrap();
        if what == "begin" {
            assert!(begun.insert(task.to_owned()), "{task} ran twice");
            running = Some(task.to_owned());
        } else {
            assert_eq!(running.take().as_deref(), Some(task), "two ran at once");
        }
    }
    assert!(service.list("").len() <= 100);
}

/// Submits, repeats, reads, lists and cancels at random; the ended tasks that it saw.
fn random_calls(client: &Client, mut random: Rng, number: u64) -> Vec<Value> {
    let mut known: Vec<(String, String)> = Vec::new();
    let mut endings = Vec::new();
    for n in 0..120 {
        let text = if random.u8(0..4) == 0 { "fail" } else { "work" };
        let (message_id, task) = match random.choice(&known) {
            Some((message_id, task)) if random.bool() => (message_id.clone(), task.clone()),
            _ => (format!("{number}-{n}-{text}"), String::new()),
        };
        match random.u8(0..10) {
            0..5 => {
                let text = if message_id.ends_with("fail") { "fail" } else { "work" };
                let reply = client.send_message(
                    &message(&message_id, text),
                    &json!({"returnImmediately": random.u8(0..4) != 0}),
                );
                match reply.status {
                    200 => {
                        let made = reply.success()["task"].clone();
                        assert!(task.is_empty() || task == id_of(&made), "a repetition: {made}");
                        known.push((message_id, id_of(&made)));
                        endings.extend(is_terminal(&state_of(&made)).then_some(made));
                    }
                    // A repetition whose task made room for others.
                    409 => assert!(!task.is_empty(), "{}", reply.text()),
                    _ => drop(reply.error(429, "RESOURCE_EXHAUSTED")),
                }
            }
            5..8 if !task.is_empty() => {
                let reply = client.get(&format!("/tasks/{task}")).send();
                if reply.status == 200 {
                    let task = reply.success();
                    endings.extend(is_terminal(&state_of(&task)).then_some(task));
                } else {
                    reply.error(404, "TASK_NOT_FOUND");
                }
            }
            8 if !task.is_empty() => match client.cancel(&task).status {
                200 | 400 | 404 => {}
                other => panic!("a cancel is answered with {other}"),
            },
            _ => {
                let tasks = client.list("pageSize=20");
                assert!(tasks.len() <= 140, "{}", tasks.len());
            }
        }
    }
    endings
}

#[track_caller]
fn submission(service: &Service, id: &str, text: &str) -> system_tests::wire::Reply {
    service.send_message(&message(id, text), &json!({"returnImmediately": true}))
}
