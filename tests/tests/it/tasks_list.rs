//! CONTRACT section 3, tasks: reading and listing.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use system_tests::client::{fresh_id, id_of, is_terminal, message, state_of};
use system_tests::home::Home;
use system_tests::process::Service;
use system_tests::wait;

#[test]
fn an_empty_list_has_all_four_fields() {
    let home = Home::new();
    let page = home.start().get("/tasks").send().success();
    assert_eq!(page, json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}));
}

#[test]
fn tasks_come_newest_status_first() {
    let home = Home::new();
    let service = home.start();
    let first = service.submit_id("block a");
    home.agent.wait_begun(&first);
    let ids: Vec<String> = (0..4).map(|n| service.submit_id(&format!("n{n}"))).collect();
    service.cancel(&ids[1]).success();
    let listed = ids_of(&service.list(""));
    assert_eq!(listed.len(), 5);
    assert_eq!(listed[0], ids[1], "the cancelled one changed last");
    assert_newest_first(&service.list(""));
    home.agent.release("a");
    service.ended(&ids[3]);
    assert_newest_first(&service.list(""));
    assert_eq!(service.list("").len(), 5);
}

#[test]
fn the_page_size_is_1_to_100_and_50_by_default() {
    let home = Home::new();
    let service = home.start();
    submit_many(&service, 60);
    let count = |query: &str| {
        let page = service.get(&format!("/tasks?{query}")).send().success();
        (page["tasks"].as_array().unwrap().len(), page["pageSize"].as_u64().unwrap())
    };
    assert_eq!(count(""), (50, 50));
    assert_eq!(count("pageSize="), (50, 50));
    assert_eq!(count("pageSize=1"), (1, 1));
    assert_eq!(count("pageSize=100"), (60, 100));
    for size in ["0", "101", "-1", "x", "1.5", "99999999999999999999"] {
        service.get(&format!("/tasks?pageSize={size}")).send().error(400, "INVALID_PARAMS");
    }
}

#[test]
fn pages_hold_every_task_once_and_the_total_is_of_all_pages() {
    let home = Home::new();
    let service = home.start();
    submit_many(&service, 23);
    settle(&service);
    let whole = ids_of(&service.list("pageSize=100"));
    for size in [1, 5, 7, 22, 23, 24] {
        let mut token = String::new();
        let mut seen = Vec::new();
        loop {
            let path = format!("/tasks?pageSize={size}&pageToken={token}");
            let page = service.get(&path).send().success();
            assert_eq!(page["totalSize"], 23);
            seen.extend(ids_of(page["tasks"].as_array().unwrap()));
            page["nextPageToken"].as_str().unwrap().clone_into(&mut token);
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, whole, "page size {size}");
    }
}

#[test]
fn a_malformed_token_is_400() {
    let home = Home::new();
    let service = home.start();
    submit_many(&service, 3);
    let page = service.get("/tasks?pageSize=1").send().success();
    let token = page["nextPageToken"].as_str().unwrap();
    let cut = &token.chars().take(token.len() - 2).collect::<String>();
    for bad in ["x", "%00", "AAAA", "null", "-1", cut, &format!("{token}x"), &"A".repeat(5000)] {
        let reply = service.get(&format!("/tasks?pageToken={bad}")).send();
        assert_eq!(reply.status, 400, "{bad}: {}", reply.text());
        reply.error(400, "INVALID_PARAMS");
    }
}

#[test]
fn a_walk_while_tasks_change_never_repeats_a_task_and_never_skips_one_that_did_not_change() {
    let home = Home::new();
    let service = home.start();
    let blocked = service.submit_id("block a");
    home.agent.wait_begun(&blocked);
    let ids: Vec<String> = (0..40).map(|n| service.submit_id(&format!("n{n}"))).collect();
    let mut changed = BTreeSet::new();
    let mut seen: Vec<String> = Vec::new();
    let mut token = String::new();
    let mut random = fastrand::Rng::with_seed(11);
    loop {
        let path = format!("/tasks?pageSize=3&pageToken={token}");
        let page = service.get(&path).send().success();
        seen.extend(ids_of(page["tasks"].as_array().unwrap()));
        page["nextPageToken"].as_str().unwrap().clone_into(&mut token);
        if token.is_empty() {
            break;
        }
        let moved = random.choice(&ids).unwrap();
        service.cancel(moved).success();
        changed.insert(moved.clone());
        service.submit("new");
    }
    let unique: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(unique.len(), seen.len(), "no task comes twice");
    for id in ids.iter().chain([&blocked]) {
        assert!(
            changed.contains(id) || unique.contains(id),
            "{id} did not change, and was skipped"
        );
    }
}

#[test]
fn a_token_survives_the_removal_of_its_task() {
    let home = Home::with(|config| config.with("max_tasks", 4));
    let service = home.start();
    let ids: Vec<String> = (0..4).map(|n| id_of(&service.run(&format!("n{n}")))).collect();
    let page = service.get("/tasks?pageSize=3").send().success();
    assert_eq!(ids_of(page["tasks"].as_array().unwrap()), [&*ids[3], &*ids[2], &*ids[1]]);
    // The three oldest are removed, the token's own among them.
    for n in 0..3 {
        service.run(&format!("new {n}"));
    }
    let path = format!("/tasks?pageToken={}", page["nextPageToken"].as_str().unwrap());
    let rest = service.get(&path).send().success();
    assert_eq!(rest["tasks"], json!([]));
}

#[test]
fn tasks_are_filtered_by_context_and_status() {
    let home = Home::new();
    let service = home.start();
    let submit = |context: &str, text: &str| {
        let mut message = message(&fresh_id(), text);
        message["contextId"] = json!(context);
        id_of(&service.send_message(&message, &json!({})).success()["task"])
    };
    let good = submit("a", "x");
    let bad = submit("a", "fail");
    let other = submit("b", "x");
    let listed = |query: &str| ids_of(&service.list(query));
    assert_eq!(listed("contextId=a"), [&*bad, &*good]);
    assert_eq!(listed("contextId=unknown"), Vec::<String>::new());
    assert_eq!(listed("status=TASK_STATE_FAILED"), [&*bad]);
    assert_eq!(listed("status=TASK_STATE_COMPLETED"), [&*other, &*good]);
    assert_eq!(listed("contextId=a&status=TASK_STATE_COMPLETED"), [&*good]);
    assert_eq!(listed("contextId=&status="), [&*other, &*bad, &*good]);
    let page = service.get("/tasks?contextId=a&pageSize=1").send().success();
    assert_eq!(page["totalSize"], 2);
    for status in ["COMPLETED", "completed", "TASK_STATE_NONE", "99"] {
        service.get(&format!("/tasks?status={status}")).send().error(400, "INVALID_PARAMS");
    }
}

#[test]
fn status_timestamp_after_is_inclusive() {
    let home = Home::new();
    let service = home.start();
    let tasks: Vec<Value> = (0..3)
        .map(|n| {
            let task = service.run(&format!("n{n}"));
            // The next one shall have a later millisecond.
            let time: jiff::Timestamp =
                task["status"]["timestamp"].as_str().unwrap().parse().unwrap();
            wait::until("time passes", || {
                (system_tests::events::now().as_millisecond() > time.as_millisecond()).then_some(())
            });
            task
        })
        .collect();
    let time = tasks[1]["status"]["timestamp"].as_str().unwrap();
    let after = |time: &str| ids_of(&service.list(&format!("statusTimestampAfter={time}")));
    assert_eq!(after(time), [id_of(&tasks[2]), id_of(&tasks[1])]);
    let offset = time.replace('Z', "%2B00:00");
    assert_eq!(after(&offset), [id_of(&tasks[2]), id_of(&tasks[1])]);
    assert_eq!(after("").len(), 3);
    for bad in ["yesterday", "2026-01-01", "2026-01-01T00:00:00", "5"] {
        service
            .get(&format!("/tasks?statusTimestampAfter={bad}"))
            .send()
            .error(400, "INVALID_PARAMS");
    }
}

#[test]
fn artifacts_come_only_with_include_artifacts_true() {
    let home = Home::new();
    let service = home.start();
    let id = id_of(&service.run("x"));
    for (query, there) in [
        ("", false),
        ("includeArtifacts=", false),
        ("includeArtifacts=false", false),
        ("includeArtifacts=true", true),
    ] {
        let task = service.list(query).remove(0);
        assert_eq!(task.get("artifacts").is_some(), there, "{query}");
    }
    assert!(service.task(&id).get("artifacts").is_some());
    service.get("/tasks?includeArtifacts=maybe").send().error(400, "INVALID_PARAMS");
}

#[test]
fn history_length_holds_for_each_task_of_a_list() {
    let home = Home::new();
    let service = home.start();
    service.run("x");
    for (query, there) in [("", true), ("historyLength=0", false), ("historyLength=1", true)] {
        let task = service.list(query).remove(0);
        assert_eq!(task.get("history").is_some(), there, "{query}");
    }
    service.get("/tasks?historyLength=-1").send().error(400, "INVALID_PARAMS");
}

#[test]
fn a_page_stops_early_to_stay_within_1_mib() {
    let home = Home::new();
    let service = home.start();
    // Each one has 32,000 bytes of result.
    for _ in 0..40 {
        service.run("big 32000");
    }
    let reply = service.get("/tasks?includeArtifacts=true&pageSize=100").send();
    assert!(reply.body.len() <= 1024 * 1024, "{}", reply.body.len());
    let page = reply.success();
    let count = page["tasks"].as_array().unwrap().len();
    assert!((1..40).contains(&count), "{count}");
    assert!(!page["nextPageToken"].as_str().unwrap().is_empty());
    assert_eq!(service.list("includeArtifacts=true&pageSize=100").len(), 40);
}

#[test]
fn an_unknown_task_is_task_not_found() {
    let home = Home::new();
    let service = home.start();
    for id in ["unknown", "00000000-0000-0000-0000-000000000000", "x%2Fy", "%20", &"x".repeat(3000)]
    {
        service.get(&format!("/tasks/{id}")).send().error(404, "TASK_NOT_FOUND");
        service.call("POST", &format!("/tasks/{id}:cancel")).send().error(404, "TASK_NOT_FOUND");
    }
}

#[test]
fn task_ids_are_made_of_letters_digits_and_dashes() {
    let home = Home::new();
    let service = home.start();
    let id = service.submit_id("x");
    assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{id}");
}

fn ids_of(tasks: &[Value]) -> Vec<String> {
    tasks.iter().map(id_of).collect()
}

#[track_caller]
fn assert_newest_first(tasks: &[Value]) {
    let times: Vec<&str> =
        tasks.iter().map(|task| task["status"]["timestamp"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:?}");
}

fn submit_many(service: &Service, count: usize) {
    for n in 0..count {
        service.submit(&format!("n{n}"));
    }
}

fn settle(service: &Service) {
    wait::until("all tasks end", || {
        service.list("").iter().all(|task| is_terminal(&state_of(task))).then_some(())
    });
}
