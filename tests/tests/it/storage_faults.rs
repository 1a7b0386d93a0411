//! CONTRACT section 1: a failed write is sticky, and nothing that was not durable is acknowledged.
//!
//! A full disk is a small tmpfs that the test mounts, which needs root; a file size limit does the same
//! to the database alone, for everybody.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use system_tests::client::{Client, TOKEN, fresh_id, id_of, message, state_of, status_text};
use system_tests::events::{event, now};
use system_tests::home::{Home, ready};
use system_tests::process::{Launch, Service, binary, listening};
use system_tests::skip;
use system_tests::wait;

#[test]
fn on_a_full_disk_nothing_is_acknowledged_that_is_not_stored_and_the_process_ends_with_1() {
    let test =
        "on_a_full_disk_nothing_is_acknowledged_that_is_not_stored_and_the_process_ends_with_1";
    let home = Home::new();
    let Some(disk) = Disk::mount(test, &home.state(), "1m") else { return };
    let service = home.start();
    let acknowledged = fill(&home, service);

    disk.remount("size=64m");
    let service = home.start();
    everything_acknowledged_is_there(&service, &acknowledged);
}

#[test]
fn a_database_that_cannot_grow_is_the_same_failure() {
    let home = Home::with(|config| config.with("max_tasks", 1000));
    // 1.5 MiB in blocks of 512 bytes; the signal that goes with the limit is ignored.
    let serve = Launch::of(OsStr::new("sh"), &home.path("logs"))
        .args(["-c", "ulimit -f 3000; trap '' XFSZ; exec \"$0\" \"$@\""])
        .args([binary("agent-service-under-test").as_str(), "serve", "--listen", "127.0.0.1:0"])
        .args([OsStr::new("--config"), home.path("agent.json").as_os_str()])
        .args([OsStr::new("--state-dir"), home.state().as_os_str()])
        .env("WENDY_AGENT_TOKEN", TOKEN);
    let acknowledged = fill(&home, ready(serve.start()));
    everything_acknowledged_is_there(&home.start(), &acknowledged);
}

#[test]
fn a_state_directory_on_a_read_only_disk_is_refused_and_named() {
    let test = "a_state_directory_on_a_read_only_disk_is_refused_and_named";
    let home = Home::new();
    let Some(disk) = Disk::mount(test, &home.state(), "8m") else { return };
    let task = id_of(&home.start().run("before"));
    disk.remount("ro");
    let exit = home.serve().run();
    assert!(matches!(exit.code, 1 | 2), "{exit:?}");
    exit.says(&[&home.state().to_string_lossy()]);
    assert_eq!(listening(&exit.stderr), None, "it never listened");
    disk.remount("rw");
    assert_eq!(home.start().state(&task), "COMPLETED");
}

#[test]
fn a_state_directory_that_cannot_be_made_is_refused_and_named() {
    let home = Home::new();
    let file = home.write("file", "");
    let inside = file.join("state");
    let exit = home.serve_bare().args([OsStr::new("--state-dir"), inside.as_os_str()]).run();
    assert!(matches!(exit.code, 1 | 2), "{exit:?}");
    exit.says(&[&file.to_string_lossy()]);
}

#[test]
fn a_state_file_that_is_no_database_is_refused_and_left_alone() {
    let home = Home::new();
    fs::create_dir(home.state()).unwrap();
    let garbage = "this is no database, and somebody may need it\n".repeat(100);
    fs::write(home.state().join("state.db"), &garbage).unwrap();
    let exit = home.serve().run();
    assert!(matches!(exit.code, 1 | 2), "{exit:?}");
    exit.says(&["state.db"]);
    assert_eq!(fs::read_to_string(home.state().join("state.db")).unwrap(), garbage);
}

/// Submits until the storage fails, and checks how the service ends. What was acknowledged: by message,
/// the task.
#[track_caller]
fn fill(home: &Home, service: Service) -> Vec<(String, String)> {
    let blocked = json!({"message": message("working", "block a")});
    let mut waiting = service.post("/message:send", &blocked).begin();
    wait::until("the task runs", || (!home.agent.effects().is_empty()).then_some(()));
    let working = id_of(&service.list("")[0]);
    let mut acknowledged = Vec::new();
    let failed = loop {
        let id = fresh_id();
        let text = "x".repeat(15_900);
        let reply = service.send_message(&message(&id, &text), &json!({"returnImmediately": true}));
        match reply.status {
            200 => acknowledged.push((id, id_of(&reply.json()["task"]))),
            // The queue holds 64: make room, and keep what is there.
            429 => drop(try_cancel(&service, &acknowledged)),
            _ => break reply,
        }
        assert!(acknowledged.len() < 900, "the disk is never full");
    };
    failed.error(500, "INTERNAL_ERROR");
    // Sticky: every call fails, also one that needs no write, and readiness is gone.
    for call in [service.get("/tasks"), service.get(&format!("/tasks/{working}"))] {
        call.send().error(500, "INTERNAL_ERROR");
    }
    let again = service.send_message(&message(&fresh_id(), "x"), &json!({}));
    again.error(500, "INTERNAL_ERROR");
    service.event(&event("e", now())).error(500, "INTERNAL_ERROR");
    waiting.reply().unwrap().error(500, "INTERNAL_ERROR");
    assert_eq!(service.get("/readyz").send().status, 503);
    service.program.wait().expect(1);
    // The running work was cancelled: the agent is gone without its end.
    assert!(!home.agent.effects().iter().any(|line| line.starts_with("end ")));
    acknowledged.push((String::new(), working));
    acknowledged
}

fn try_cancel(client: &Client, acknowledged: &[(String, String)]) -> Option<()> {
    for (_, task) in acknowledged.iter().rev().take(60) {
        let reply = client.call("POST", &format!("/tasks/{task}:cancel")).try_send().ok()?;
        if reply.status == 500 {
            return None;
        }
    }
    Some(())
}

#[track_caller]
fn everything_acknowledged_is_there(service: &Service, acknowledged: &[(String, String)]) {
    for (_, task) in acknowledged {
        service.task(task);
    }
    let (_, working) = acknowledged.last().unwrap();
    let task = service.task(working);
    assert_eq!(state_of(&task), "FAILED");
    assert!(status_text(&task).contains("inspect before retrying"), "{task}");
}

/// A small file system, unmounted at the end.
struct Disk(PathBuf);

impl Disk {
    fn mount(test: &str, place: &Path, size: &str) -> Option<Self> {
        if !skip::is_root() {
            skip::cannot(test, "only root may mount a file system");
            return None;
        }
        fs::create_dir(place).unwrap();
        let options = format!("size={size},mode=0700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(place)
            .output()
            .unwrap();
        if !mounted.status.success() {
            let why = String::from_utf8_lossy(&mounted.stderr).into_owned();
            skip::cannot(test, &format!("this machine does not let root mount: {why}"));
            return None;
        }
        Some(Self(place.to_owned()))
    }

    #[track_caller]
    fn remount(&self, option: &str) {
        let options = format!("remount,{option}");
        let done = Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap();
        assert!(done.success(), "remount with {option}");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}
