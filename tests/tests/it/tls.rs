//! CONTRACT sections 3 and 5: TLS with a private authority, and certificates that change.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;

use serde_json::json;
use system_tests::client::{message, state_of};
use system_tests::home::Home;
use system_tests::process::Service;
use system_tests::tls::{Authority, Identity};
use system_tests::wait;

#[test]
fn a_service_with_a_certificate_of_a_private_authority_serves_who_trusts_it() {
    let home = Home::new();
    let authority = Authority::new("private");
    let service = start(&home, &authority);
    assert_eq!(state_of(&service.run("hello")), "COMPLETED");
    let card = service.get("/.well-known/agent-card.json").send().json();
    assert_eq!(card["supportedInterfaces"][0]["url"], service.url);
    assert!(service.url.starts_with("https://"));
    let stranger = service.trusting(Authority::new("other").client());
    assert!(stranger.get("/healthz").try_send().is_err());
}

#[test]
fn a_client_in_plain_gets_nothing_and_disturbs_nobody() {
    let home = Home::new();
    let authority = Authority::new("private");
    let service = start(&home, &authority);
    let plain = system_tests::client::Client::new(service.address());
    assert!(plain.get("/tasks").try_send().is_err());
    // One that connects and never says a word, and one that begins a handshake.
    let _silent = TcpStream::connect(service.address()).unwrap();
    let mut begun = TcpStream::connect(service.address()).unwrap();
    begun.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
    service.get("/tasks").send().success();
}

#[test]
fn a_new_certificate_is_served_without_a_restart_and_calls_in_flight_go_on() {
    let home = Home::new();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let service = start(&home, &old);
    let body = json!({"message": message("m", "block a")});
    let mut waiting = service.post("/message:send", &body).begin();
    wait::until("the task runs", || (!home.agent.effects().is_empty()).then_some(()));

    put(&home, &new.identity());
    let renewed = service.trusting(new.client());
    wait::until("the new certificate is served", || {
        renewed.get("/healthz").try_send().ok().filter(|reply| reply.status == 200)
    });
    assert!(service.get("/healthz").try_send().is_err(), "the old one is no longer served");
    home.agent.release("a");
    assert_eq!(state_of(&waiting.reply().unwrap().success()["task"]), "COMPLETED");
}

#[test]
fn files_that_are_no_certificate_leave_the_old_one_in_service() {
    let home = Home::new();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let service = start(&home, &old);
    let before = service.program.stderr().len();
    // A certificate without its key, as a renewal that stopped half-way leaves it.
    fs::write(home.path("cert.pem"), new.identity().cert).unwrap();
    wait::until("the log tells", || {
        let log = service.program.stderr();
        log.get(before..)
            .filter(|news| news.contains("cert.pem") || news.contains("certificate"))?;
        Some(())
    });
    service.get("/healthz").send();
    put(&home, &new.identity());
    let renewed = service.trusting(new.client());
    wait::until("the new certificate is served", || renewed.get("/healthz").try_send().ok());
}

#[test]
fn a_blocked_send_a_pipeline_and_a_large_answer_work_over_tls_as_in_plain() {
    let home = Home::new();
    let authority = Authority::new("private");
    let service = start(&home, &authority);
    let mut wire = service.connect();
    let mut bytes = service.get("/tasks").without("Connection").to_bytes();
    let body = json!({"message": message("m", "big 32000")});
    bytes.extend(service.post("/message:send", &body).without("Connection").to_bytes());
    bytes.extend(service.get("/tasks/unknown").to_bytes());
    wire.send(bytes).unwrap();
    wire.reply().unwrap().success();
    assert_eq!(state_of(&wire.reply().unwrap().success()["task"]), "COMPLETED");
    wire.reply().unwrap().error(404, "TASK_NOT_FOUND");
}

fn start(home: &Home, authority: &Authority) -> Service {
    put(home, &authority.identity());
    let (cert, key) = (home.path("cert.pem"), home.path("key.pem"));
    let serve = home.serve().args([
        OsStr::new("--tls-cert"),
        cert.as_os_str(),
        OsStr::new("--tls-key"),
        key.as_os_str(),
    ]);
    Service::ready(serve.start(), |client| client.with_tls(authority.client()))
}

fn put(home: &Home, identity: &Identity) {
    home.write("cert.pem", &identity.cert);
    home.write("key.pem", &identity.key);
}
