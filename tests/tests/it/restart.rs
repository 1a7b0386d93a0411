//! CONTRACT sections 1, 2 and 4: kill -9 at every durable step, and what the next start makes of it.
//!
//! The random ones print their seed; `RESTART_SEED` runs one again. What they hold: no acknowledged task
//! is lost, no effect appears twice, an ending never changes, and a repeated submission finds its task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use system_tests::client::{Client, id_of, is_terminal, message, state_of, status_text};
use system_tests::events::{event, event_with, now, trigger_with};
use system_tests::home::Home;
use system_tests::wait;

const ROUNDS: u32 = 12;

#[test]
fn submitted_tasks_stay_queued_over_a_crash_and_run_in_order() {
    let home = Home::new();
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    let queued: Vec<String> = (0..5).map(|n| service.submit_id(&format!("n{n}"))).collect();
    service.kill();
    let service = home.start();
    for id in &queued {
        assert_eq!(state_of(&service.ended(id)), "COMPLETED");
    }
    assert_eq!(home.agent.order(), ["block a", "n0", "n1", "n2", "n3", "n4"]);
}

#[test]
fn a_task_that_was_working_at_a_crash_is_failed_says_to_inspect_and_never_runs_again() {
    let home = Home::new();
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    service.kill();
    let service = home.start();
    let task = service.task(&working);
    assert_eq!(state_of(&task), "FAILED");
    let text = status_text(&task);
    assert!(text.contains("effects may have completed"), "{text}");
    assert!(text.contains("inspect before retrying"), "{text}");
    home.agent.release("a");
    service.run("another");
    service.kill();
    let service = home.start();
    assert_eq!(service.task(&working), task);
    assert_eq!(home.agent.begun(&working), 1);
}

#[test]
fn an_agent_dies_with_its_service() {
    let home = Home::new();
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    let agent: u32 = home.agent.starts()[0].strip_prefix("start ").unwrap().parse().unwrap();
    service.kill();
    wait::until("the agent is gone", || {
        let status = std::fs::read_to_string(format!("/proc/{agent}/status"));
        // Gone, or dead and not yet collected by the process that adopted it.
        status.map_or(true, |status| status.contains("State:\tZ")).then_some(())
    });
}

#[test]
fn kill_9_while_tasks_are_accepted_loses_no_acknowledged_task_and_runs_none_twice() {
    random_crashes("accepting", |rng, client, submitted, round| {
        // Several clients at once, so that many submissions wait in one commit.
        let stop = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..4)
            .map(|number| {
                let (client, stop) = (client.clone(), Arc::clone(&stop));
                thread::spawn(move || {
                    let mut outcomes = Vec::new();
                    for n in 0.. {
                        let key = format!("{round}-{number}-{n}");
                        let answer = try_submit(&client, &key, "work");
                        let over = matches!(answer, Answer::None);
                        outcomes.push((key, answer.task()));
                        if over || stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    outcomes
                })
            })
            .collect();
        pause(rng, 150);
        Box::new(move || {
            stop.store(true, Ordering::Relaxed);
            for client in clients {
                submitted.extend(client.join().unwrap());
            }
        })
    });
}

#[test]
fn kill_9_while_a_task_is_claimed_or_finished_runs_nothing_twice() {
    random_crashes("claiming and finishing", |rng, client, submitted, round| {
        // One at a time: the crash meets a claim, a run or a finish.
        for n in 0..rng.u32(1..6) {
            let key = format!("{round}-{n}");
            let answer = try_submit(client, &key, "work").task();
            submitted.insert(key, answer);
        }
        pause(rng, 25);
        Box::new(|| {})
    });
}

#[test]
fn kill_9_around_a_trigger_update_neither_loses_nor_repeats_a_firing() {
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    let home = Home::with(|config| {
        config.trigger(trigger_with(&json!({"consecutive": 2, "max_gap_seconds": 3600})))
    });
    let mut fired: BTreeMap<String, Value> = BTreeMap::new();
    let mut answers: BTreeMap<String, (Value, Value)> = BTreeMap::new();
    let mut sequence = 0;
    for round in 0..ROUNDS {
        let service = home.start();
        // What was in flight at the crash is posted again: it was either kept or never happened.
        for (id, (event, answer)) in &answers {
            assert_eq!(service.observe(event), *answer, "event {id} answers the same for ever");
        }
        let killer = {
            let (client, wait) = (service.client.clone(), Duration::from_millis(rng.u64(0..60)));
            let pid = service.program.id();
            thread::spawn(move || {
                thread::sleep(wait);
                drop(client);
                let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
            })
        };
        let mut pending = None;
        for n in 0..6 {
            let id = format!("{round}-{n}");
            let event = event(&id, now());
            match service.post("/events", &event).try_send() {
                Ok(reply) => {
                    let answer = reply.success();
                    check_firing(&mut sequence, &answer, seed);
                    if answer["accepted"] == true {
                        fired.insert(id.clone(), answer.clone());
                    }
                    answers.insert(id, (event, answer));
                }
                Err(_cut_off) => {
                    pending = Some((id, event));
                    break;
                }
            }
        }
        killer.join().unwrap();
        service.kill();
        if let Some((id, event)) = pending {
            let service = home.start();
            let answer = service.observe(&event);
            check_firing(&mut sequence, &answer, seed);
            if answer["accepted"] == true {
                fired.insert(id.clone(), answer.clone());
            }
            answers.insert(id, (event, answer));
            service.kill();
        }
    }
    let service = home.start();
    let mut tasks: Vec<String> = Vec::new();
    for answer in fired.values() {
        let id = answer["task_id"].as_str().unwrap();
        assert!(is_terminal(&state_of(&service.ended(id))));
        assert!(home.agent.begun(id) <= 1, "seed {seed}: {id} ran twice");
        tasks.push(id.to_owned());
    }
    tasks.sort();
    tasks.dedup();
    assert_eq!(tasks.len(), fired.len(), "seed {seed}: a task for each firing");
    assert_eq!(service.list("").len(), fired.len(), "seed {seed}: no other task");
}

#[test]
fn a_cancel_that_was_acknowledged_survives_a_crash() {
    let home = Home::new();
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    let queued = service.submit_id("queued");
    let canceled = (service.cancel(&queued).success(), service.cancel(&working).success());
    service.kill();
    let service = home.start();
    service.run("next");
    assert_eq!((service.task(&queued), service.task(&working)), canceled);
    assert_eq!(home.agent.begun(&queued), 0);
}

#[test]
fn an_ending_that_was_seen_survives_a_crash() {
    let home = Home::new();
    let mut seen = Vec::new();
    for round in 0..5 {
        let service = home.start();
        for task in &seen {
            assert_eq!(service.task(&id_of(task)), *task);
        }
        seen.push(service.run(&format!("round {round}")));
        service.kill();
    }
}

#[test]
fn an_event_task_that_expired_over_a_crash_is_rejected_and_never_runs() {
    let home = Home::with(|config| {
        config.trigger(trigger_with(&json!({"max_age_seconds": 1, "prompt": "look"})))
    });
    let service = home.start();
    let working = service.submit_id("block a");
    home.agent.wait_begun(&working);
    let queued = service.fire(&event_with("e", now(), &json!({"confidence": 0.5})));
    service.kill();
    let stale = now() + jiff::SignedDuration::from_millis(1200);
    wait::until("the observation is stale", || (now() > stale).then_some(()));
    let service = home.start();
    let task = service.ended(&queued);
    assert_eq!(state_of(&task), "REJECTED");
    assert_eq!(home.agent.begun(&queued), 0);
}

type After<'a> = Box<dyn FnOnce() + 'a>;

/// Runs rounds of *start, submit, kill at a random moment*, and then checks everything that is promised.
fn random_crashes(
    what: &str,
    round: impl for<'a> Fn(
        &mut Rng,
        &Client,
        &'a mut BTreeMap<String, Option<String>>,
        u32,
    ) -> After<'a>,
) {
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    let home = Home::with(|config| config.with("max_tasks", 1000));
    // By message ID: the task, if its acknowledgement arrived.
    let mut submitted: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut ended: BTreeMap<String, Value> = BTreeMap::new();
    for number in 0..ROUNDS {
        let service = home.start();
        for (id, task) in &ended {
            assert_eq!(service.task(id), *task, "seed {seed}, {what}: an ending changed");
        }
        for id in submitted.values().flatten() {
            let task = service.task(id);
            if is_terminal(&state_of(&task)) {
                ended.insert(id.clone(), task);
            }
        }
        let client = service.client.clone();
        let after = round(&mut rng, &client, &mut submitted, number);
        service.kill();
        after();
    }
    let service = home.start();
    for (key, task) in &submitted {
        // A repetition finds the task, or makes it now when it was never acknowledged.
        let id = wait::until("a place in the queue", || try_submit(&service, key, "work").task());
        if let Some(task) = task {
            assert_eq!(id, *task, "seed {seed}, {what}: another task for message {key}");
        }
        let task = service.ended(&id);
        let begun = home.agent.begun(&id);
        assert!(begun <= 1, "seed {seed}, {what}: {id} ran {begun} times");
        match state_of(&task).as_str() {
            "COMPLETED" => assert_eq!(begun, 1, "seed {seed}, {what}: {task}"),
            "FAILED" => assert!(status_text(&task).contains("inspect"), "{task}"),
            other => panic!("seed {seed}, {what}: {other}: {task}"),
        }
    }
    assert!(submitted.len() > usize::try_from(ROUNDS).unwrap(), "seed {seed}: {submitted:?}");
}

/// What came of a submission.
enum Answer {
    None,
    Refused,
    Task(String),
}

impl Answer {
    fn task(self) -> Option<String> {
        match self {
            Self::Task(id) => Some(id),
            Self::None | Self::Refused => None,
        }
    }
}

fn try_submit(client: &Client, key: &str, text: &str) -> Answer {
    let body = json!({
        "message": message(key, text), "configuration": {"returnImmediately": true},
    });
    match client.post("/message:send", &body).try_send() {
        Err(_cut_off) => Answer::None,
        Ok(reply) if reply.status == 429 => Answer::Refused,
        Ok(reply) => Answer::Task(id_of(&reply.success()["task"])),
    }
}

fn check_firing(sequence: &mut u32, answer: &Value, seed: u64) {
    *sequence += 1;
    let fires = *sequence == 2;
    assert_eq!(answer["accepted"], fires, "seed {seed}: {answer}");
    if fires {
        *sequence = 0;
    } else {
        assert_eq!(answer["reason"], "waiting for consecutive observations", "seed {seed}");
    }
}

/// A random moment, at most so many milliseconds away: where the crash falls, not a synchronisation.
fn pause(rng: &mut Rng, milliseconds: u64) {
    thread::sleep(Duration::from_micros(rng.u64(0..milliseconds * 1000)));
}

fn seed() -> u64 {
    let given = std::env::var("RESTART_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("RESTART_SEED={seed}");
    seed
}
