//! CONTRACT section 1: the process and its state directory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use system_tests::client::{TOKEN, id_of};
use system_tests::events::trigger_with;
use system_tests::home::{Home, ready};
use system_tests::process::{Exit, Launch, binary, listening};
use system_tests::wait;

#[test]
fn the_state_directory_is_0700_and_every_file_in_it_0600_whatever_the_umask() {
    let home = Home::new();
    let serve = Launch::of(OsStr::new("sh"), &home.path("logs"))
        .args(["-c", "umask 0; exec \"$0\" \"$@\"", &binary("agent-service-under-test"), "serve"])
        .args([OsStr::new("--config"), home.path("agent.json").as_os_str()])
        .args([OsStr::new("--state-dir"), home.state().as_os_str()])
        .args(["--listen", "127.0.0.1:0"])
        .env("WENDY_AGENT_TOKEN", TOKEN);
    let service = ready(serve.start());
    service.run("something to store");

    assert_eq!(mode(&home.state()), 0o700);
    for name in ["state.db", "service.lock"] {
        assert!(home.state().join(name).is_file(), "{name}");
    }
    assert!(home.state().join("memory").is_dir());
    let mut files = 0;
    each_file(&home.state(), &mut |path| {
        files += 1;
        assert_eq!(mode(path), 0o600, "{}", path.display());
    });
    assert!(files >= 2);
}

#[test]
fn a_state_directory_with_another_mode_is_made_0700() {
    let home = Home::new();
    fs::create_dir(home.state()).unwrap();
    fs::set_permissions(home.state(), fs::Permissions::from_mode(0o755)).unwrap();
    let _service = home.start();
    assert_eq!(mode(&home.state()), 0o700);
}

#[test]
fn a_second_process_on_the_same_directory_exits_naming_it_and_the_first_is_undisturbed() {
    let home = Home::new();
    let first = home.start();
    let blocked = first.submit_id("block a");
    home.agent.wait_begun(&blocked);

    let second = refused(home.serve().run());
    second.says(&[&home.state().to_string_lossy()]);
    assert_eq!(listening(&second.stderr), None, "it never listened");

    assert_eq!(first.state(&blocked), "WORKING");
    home.agent.release("a");
    assert_eq!(first.ended(&blocked)["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(first.stop().code == 0);
}

#[test]
fn a_directory_is_free_again_after_kill_9() {
    let home = Home::new();
    home.start().kill();
    home.start();
}

#[test]
fn a_lock_that_goes_within_a_moment_is_waited_for() {
    let home = Home::new();
    home.start().stop().expect(0);
    // As a child holds it that was being started when its service was killed.
    let lock = fs::File::open(home.state().join("service.lock")).unwrap();
    lock.lock().unwrap();
    let start = home.serve().start();
    std::thread::sleep(std::time::Duration::from_millis(200));
    drop(lock);
    ready(start);
}

#[test]
fn the_order_of_keys_and_the_format_do_not_bind() {
    let home = Home::new();
    let task = id_of(&home.start().run("before"));
    let config: Value =
        serde_json::from_str(&fs::read_to_string(home.path("agent.json")).unwrap()).unwrap();
    let runner = &config["runner"];
    // Another order, another format: JSON is YAML.
    home.write("agent.yaml", &format!("triggers: []\nrunner: {runner}\nname: \"tested\"\n"));
    let serve = home
        .agent_service(["serve", "--listen", "127.0.0.1:0", "--config"])
        .args([home.path("agent.yaml")])
        .args([OsStr::new("--state-dir"), home.state().as_os_str()]);
    assert_eq!(ready(serve.start()).state(&task), "COMPLETED");
}

#[test]
fn a_field_that_equals_its_default_does_not_bind() {
    let home = Home::with(|config| config.trigger(trigger_with(&json!({"consecutive": 3}))));
    let task = id_of(&home.start().run("before"));
    home.configure(|config| {
        config
            .with("profile", "general")
            .with("max_tasks", 200)
            .with("task_timeout_seconds", 600)
            .with("no_memory", false)
            .with("allow_tools", json!([]))
            .trigger(trigger_with(&json!({
                "consecutive": 3, "min_confidence": 0, "max_gap_seconds": 10,
                "cooldown_seconds": 0, "max_age_seconds": 30,
            })))
    });
    assert_eq!(home.start().state(&task), "COMPLETED");
}

#[test]
fn another_configuration_fails_before_listening_and_names_the_fields_and_what_to_do() {
    let home = Home::with(|config| {
        config.with("max_tasks", 100).trigger(trigger_with(&json!({"consecutive": 3})))
    });
    home.start().stop().expect(0);
    home.configure(|config| {
        config
            .with("max_tasks", 101)
            .with("profile", "developer")
            .trigger(trigger_with(&json!({"consecutive": 4})))
    });
    let exit = refused(home.serve().run());
    exit.says(&["max_tasks", "profile", "consecutive", "new state directory"]);
    assert!(!exit.stderr.contains("task_timeout_seconds"), "only what differs: {}", exit.stderr);
    assert_eq!(listening(&exit.stderr), None, "it never listened");

    // The state is as it was: the old configuration still opens it.
    home.configure(|config| {
        config.with("max_tasks", 100).trigger(trigger_with(&json!({"consecutive": 3})))
    });
    home.start();
}

#[test]
fn server_settings_and_telemetry_do_not_bind() {
    let home = Home::with(|config| config.with("server.shutdown_grace_seconds", 3));
    let task = id_of(&home.start().run("before"));
    home.configure(|config| {
        config
            .with("server.shutdown_grace_seconds", 4)
            .with("server.public_url", "https://agent.example")
    });
    assert_eq!(home.start().state(&task), "COMPLETED");
}

#[test]
fn the_workspace_binds_as_an_absolute_path() {
    let home = Home::with(|config| config.with("workspace", "work"));
    fs::create_dir(home.path("work")).unwrap();
    fs::create_dir(home.path("elsewhere")).unwrap();
    let task = id_of(&home.start().run("before"));
    // The same folder in other words, and from another working directory.
    home.configure(|config| config.with("workspace", home.path("work").to_string_lossy()));
    let service = ready(home.serve().in_directory(&home.path("elsewhere")).start());
    assert_eq!(service.state(&task), "COMPLETED");
    service.stop().expect(0);
    // Another folder under the same words.
    home.configure(|config| config.with("workspace", "elsewhere"));
    refused(home.serve().run()).says(&["workspace"]);
}

#[test]
fn a_state_root_holds_a_directory_for_each_configuration_and_leaves_old_ones_alone() {
    let home = Home::new();
    let root = home.path("root");
    let serve = || home.serve_bare().args([OsStr::new("--state-root"), root.as_os_str()]);

    let service = ready(serve().start());
    let task = id_of(&service.run("before"));
    service.stop().expect(0);
    let old = only_entry(&root.join("tested"));
    assert_eq!(old.len(), 12, "{old}");
    assert!(old.bytes().all(|b| b.is_ascii_hexdigit()), "{old}");
    assert!(hash_of(&home).starts_with(&old));

    let changed = |name| home.configure(|config| config.with("max_tasks", name));
    changed(77);
    let service = ready(serve().start());
    service.get(&format!("/tasks/{task}")).send().error(404, "TASK_NOT_FOUND");
    let old_place = root.join("tested").join(&old);
    assert!(
        service.program.stderr().contains(&*old_place.to_string_lossy()),
        "the log says where the old state is"
    );
    service.stop().expect(0);

    home.configure(|config| config);
    assert_eq!(ready(serve().start()).state(&task), "COMPLETED");
}

#[test]
fn the_service_is_ready_only_while_it_serves() {
    let home = Home::new();
    let service = home.start();
    for path in ["/healthz", "/readyz"] {
        let reply = service.get(path).without("Authorization").send();
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.header("content-type").unwrap_or_default().starts_with("text/plain"));
    }
    let address = service.address().to_owned();
    service.stop().expect(0);
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_task_is_stored_before_it_is_acknowledged() {
    let home = Home::new();
    let service = home.start();
    let blocked = service.submit_id("block a");
    home.agent.wait_begun(&blocked);
    let acknowledged: Vec<String> = (0..5).map(|n| service.submit_id(&format!("t{n}"))).collect();
    service.kill();
    let service = home.start();
    for id in acknowledged {
        wait::until("the task runs after the crash", || {
            (service.state(&id) == "COMPLETED").then_some(())
        });
    }
}

#[track_caller]
fn refused(exit: Exit) -> Exit {
    assert!(matches!(exit.code, 1 | 2), "{exit:?}");
    exit
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn each_file(directory: &Path, check: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_file(&path, check);
        } else {
            check(&path);
        }
    }
}

fn only_entry(directory: &Path) -> String {
    let names: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    names[0].to_string_lossy().into_owned()
}

fn hash_of(home: &Home) -> String {
    let config = home.path("agent.json");
    let exit = home.agent_service(["check", "--config"]).args([config]).run().expect(0);
    exit.json()["sha256"].as_str().unwrap().to_owned()
}
