//! CONTRACT section 3: the limits on headers, bodies, time and connections.
//!
//! How long each limit waits is the connection's own, with paused time (`agent_service::http`); here
//! the slow clients run side by side, and what is checked is that each one ends and nobody else waits.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use serde_json::json;
use system_tests::client::{TOKEN, fresh_id, message, state_of};
use system_tests::home::Home;
use system_tests::process::Service;
use system_tests::wait;
use system_tests::wire::Wire;

/// A healthy client is answered within this, whatever others do; the machine may be busy.
const AT_ONCE: Duration = Duration::from_secs(4);

#[test]
fn headers_over_16_kib_are_refused_in_the_shape_of_every_error() {
    let home = Home::new();
    let service = home.start();
    let call = |length: usize| {
        let call = service.get("/tasks");
        let rest = length - call.to_bytes().len() - "X-Long: \r\n".len();
        call.add("X-Long", &"x".repeat(rest))
    };
    assert_eq!(call(16 * 1024).to_bytes().len(), 16 * 1024);
    call(16 * 1024).send().success();
    for length in [16 * 1024 + 1, 20_000, 200_000] {
        let reply = call(length).send();
        assert_eq!(reply.status, 400, "{length}: {}", reply.text());
        reply.error(400, "INVALID_PARAMS");
    }
    // Without an end, too: nothing is collected for ever.
    let mut wire = service.connect();
    wire.send("GET /tasks HTTP/1.1\r\n").unwrap();
    let endless = format!("X-Long: {}\r\n", "x".repeat(1000));
    while wire.send(&endless).is_ok() {}
    healthy(&service);
}

#[test]
fn a_head_that_is_not_complete_5_s_after_its_first_byte_ends_the_connection() {
    let home = Home::new();
    let service = home.start();
    let mut silent_half = service.connect();
    silent_half.send("GET /tasks HTTP/1.1\r\nHost:").unwrap();
    // One byte a second never completes a head, and is no way around the limit.
    let mut dripping = service.connect();
    let drip = thread::spawn(move || {
        let mut sent = 0;
        for byte in b"GET /tasks HTTP/1.1\r\nHost: localhost\r\nX-Drip: 0123456789".iter().cycle() {
            if dripping.send([*byte]).is_err() {
                break;
            }
            sent += 1;
            thread::sleep(Duration::from_millis(500));
            assert!(sent < 60, "a dripping client is never ended");
        }
        dripping
    });
    for _ in 0..20 {
        healthy(&service);
    }
    // It ends within 5 s and what a busy machine takes; with an answer or without.
    silent_half.set_patience(Duration::from_secs(20));
    closed_or_refused(&mut silent_half);
    closed_or_refused(&mut drip.join().unwrap());
    healthy(&service);
}

#[test]
fn a_body_that_does_not_come_within_30_s_ends_the_call_and_delays_nobody() {
    let home = Home::new();
    let service = home.start();
    let mut slow = service.connect();
    let head = service.call("POST", "/message:send").add("Content-Length", "100").to_bytes();
    slow.send(head).unwrap();
    slow.send("{").unwrap();
    for _ in 0..20 {
        healthy(&service);
    }
    slow.set_patience(Duration::from_mins(1));
    closed_or_refused(&mut slow);
    healthy(&service);
}

#[test]
fn garbage_ends_its_connection_and_nothing_else() {
    let home = Home::new();
    let service = home.start();
    let garbage: [&[u8]; 8] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x00\x00\x00\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /tasks HTTP/9.9\r\n\r\n",
        b"GET /tasks HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /tasks HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    ];
    for bytes in garbage {
        let mut wire = service.connect();
        wire.send(bytes).unwrap();
        // It may wait for more, or answer and close; what it must not do is serve.
        wire.finish().unwrap();
        let answer = String::from_utf8_lossy(&wire.rest().unwrap()).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{bytes:?}: {answer}");
        healthy(&service);
    }
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..50 {
        let mut wire = service.connect();
        let bytes: Vec<u8> = (0..random.usize(1..2000)).map(|_| random.u8(..)).collect();
        wire.send(bytes).ok();
        wire.finish().ok();
        wire.rest().unwrap();
    }
    healthy(&service);
}

#[test]
fn a_body_with_two_lengths_is_no_way_to_smuggle_a_call() {
    let home = Home::new();
    let service = home.start();
    let smuggled = service.post("/message:send", &json!({"message": message("s", "x")})).to_bytes();
    let mut wire = service.connect();
    let head = format!(
        "POST /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        smuggled.len()
    );
    wire.send(head).unwrap();
    wire.send(smuggled).ok();
    wire.finish().ok();
    let answers = String::from_utf8_lossy(&wire.rest().unwrap()).into_owned();
    assert!(answers.matches("HTTP/1.1 ").count() <= 1, "{answers}");
    assert_eq!(service.list("").len(), 0);
}

#[test]
fn pipelined_calls_are_answered_in_order() {
    let home = Home::new();
    let service = home.start();
    let mut wire = service.connect();
    let mut bytes = Vec::new();
    for n in 0..20 {
        let path = if n % 2 == 0 { "/tasks" } else { "/tasks/unknown" };
        bytes.extend(service.get(path).without("Connection").to_bytes());
    }
    wire.send(bytes).unwrap();
    for n in 0..20 {
        assert_eq!(wire.reply().unwrap().status, if n % 2 == 0 { 200 } else { 404 }, "{n}");
    }
}

#[test]
fn a_waiting_send_has_no_limit_of_its_own_and_delays_nobody() {
    let home = Home::new();
    let service = home.start();
    let body = json!({"message": message("m", "block a")});
    let mut waiting = service.post("/message:send", &body).begin();
    wait::until("the task runs", || (!home.agent.effects().is_empty()).then_some(()));
    for _ in 0..20 {
        healthy(&service);
    }
    home.agent.release("a");
    assert_eq!(state_of(&waiting.reply().unwrap().success()["task"]), "COMPLETED");
}

#[test]
fn a_client_that_never_reads_delays_nobody_and_holds_up_no_stop() {
    let home = Home::new();
    let service = home.start();
    for _ in 0..30 {
        service.run("big 32000");
    }
    // Far more answers than any buffer between the two can hold.
    let call = service.get("/tasks?includeArtifacts=true&pageSize=100");
    let calls = call.without("Connection").to_bytes().repeat(200);
    let mut deaf: Vec<Wire> = (0..4).map(|_| service.connect()).collect();
    for wire in &mut deaf {
        wire.send(&calls).unwrap();
    }
    for _ in 0..20 {
        healthy(&service);
    }
    let mut half = service.connect();
    half.send("GET /tasks HTTP/1.1\r\nHost:").unwrap();
    let _silent = service.connect();
    service.stop().expect(0);
}

#[test]
fn an_idle_connection_is_closed_after_60_s_and_a_waiting_send_is_not() {
    let home = Home::new();
    let service = home.start();
    let body = json!({"message": message("m", "block a")});
    let mut waiting = service.post("/message:send", &body).begin();
    let mut silent = service.connect();
    let mut answered = service.connect();
    answered.send(service.get("/healthz").without("Connection").to_bytes()).unwrap();
    assert_eq!(answered.reply().unwrap().status, 200);
    for wire in [&mut silent, &mut answered] {
        wire.set_patience(Duration::from_secs(100));
        assert_eq!(wire.rest().unwrap(), b"", "nobody asked, so nothing is said");
    }
    // It has waited longer than both.
    home.agent.release("a");
    assert_eq!(state_of(&waiting.reply().unwrap().success()["task"]), "COMPLETED");
}

#[test]
fn a_client_that_goes_away_leaves_its_task_running() {
    let home = Home::new();
    let service = home.start();
    let body = json!({"message": message("m", "block a")});
    let waiting = service.post("/message:send", &body).begin();
    wait::until("the task runs", || (!home.agent.effects().is_empty()).then_some(()));
    drop(waiting);
    let id = system_tests::client::id_of(&service.list("")[0]);
    healthy(&service);
    home.agent.release("a");
    assert_eq!(state_of(&service.ended(&id)), "COMPLETED");
}

#[test]
fn of_600_idle_connections_the_longest_idle_make_room_and_a_healthy_client_notices_nothing() {
    let home = Home::new();
    let service = home.start();
    // One that sends slowly is in flight: it is never the one that goes.
    let mut slow = service.connect();
    let call = service.post("/message:send", &json!({"message": message(&fresh_id(), "x")}));
    let bytes = call.to_bytes();
    let (first, rest) = bytes.split_at(bytes.len() - 5);
    slow.send(first).unwrap();
    // And one that waits for its task.
    let body = json!({"message": message("m", "block a")});
    let mut waiting = service.post("/message:send", &body).begin();
    wait::until("the task runs", || (!home.agent.effects().is_empty()).then_some(()));

    let mut idle: Vec<Wire> = Vec::new();
    for n in 0..600 {
        idle.push(service.connect());
        if n % 50 == 0 {
            healthy(&service);
        }
    }
    healthy(&service);
    // The oldest have gone; the newest are served.
    for wire in &mut idle[..40] {
        closed_or_refused(wire);
    }
    for wire in &mut idle[560..] {
        wire.send(service.get("/healthz").to_bytes()).unwrap();
        assert_eq!(wire.reply().unwrap().status, 200);
    }
    home.agent.release("a");
    assert_eq!(state_of(&waiting.reply().unwrap().success()["task"]), "COMPLETED");
    slow.send(rest).unwrap();
    slow.reply().unwrap().success();
}

#[test]
fn when_all_512_connections_have_a_call_in_flight_a_new_one_waits() {
    let home = Home::new();
    let service = home.start();
    // The same message: one task, and 512 that wait for it.
    let body = json!({"message": message("all the same", "block a")}).to_string();
    let length = body.len().to_string();
    let head = service.call("POST", "/message:send").add("Content-Length", &length);
    let head = head.add("Expect", "100-continue").to_bytes();
    let mut waiting: Vec<Wire> = Vec::new();
    for _ in 0..512 {
        let mut wire = service.connect();
        wire.send(&head).unwrap();
        // The call is being read: this connection is in flight from here on.
        wire.go_on().unwrap();
        wire.send(&body).unwrap();
        waiting.push(wire);
    }
    wait::until("the task runs", || (!home.agent.effects().is_empty()).then_some(()));
    let mut newcomer = service.connect();
    newcomer.send(service.get("/healthz").to_bytes()).unwrap();
    newcomer.set_patience(Duration::from_millis(300));
    let answer = newcomer.reply();
    let waits = answer.as_ref().err().map(std::io::Error::kind);
    assert!(
        matches!(waits, Some(ErrorKind::WouldBlock | ErrorKind::TimedOut)),
        "the newcomer was served or refused: {answer:?}"
    );
    home.agent.release("a");
    for wire in &mut waiting {
        assert_eq!(state_of(&wire.reply().unwrap().success()["task"]), "COMPLETED");
    }
    newcomer.set_patience(wait::PATIENCE);
    assert_eq!(newcomer.reply().unwrap().status, 200);
}

#[track_caller]
fn healthy(service: &Service) {
    let clock = service_kit::Clock::system();
    service.get("/tasks").send().success();
    assert!(clock.uptime() < AT_ONCE, "a healthy client waited {:?}", clock.uptime());
}

/// A connection that the service ends, in whatever words.
#[track_caller]
fn closed_or_refused(wire: &mut Wire) {
    let rest = wire.rest().expect("the service ends the connection");
    let text = String::from_utf8_lossy(&rest).into_owned();
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
}
