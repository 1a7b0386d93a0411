//! The programs of the examples, by their own tests and by the demonstration as `make run` has it.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use system_tests::client::{result_of, state_of};
use system_tests::home::Home;
use system_tests::process::{Exit, Launch, binary};
use system_tests::skip;

/// The recording has a minute; the demonstration gives up by itself after three.
const DEMO: Duration = Duration::from_secs(200);

#[test]
fn the_demo_ends_by_itself_with_completed_tasks_and_their_artifacts() {
    let home = Home::new();
    let demo = Launch::of(OsStr::new("python3"), &home.path("logs"))
        .args([skip::workspace().join("sensor-bridge/examples/demo/run.py")])
        .args(["--agent-service", &binary("agent-service-under-test")])
        .args(["--sensor-bridge", &binary("sensor-bridge-under-test")]);
    let exit = demo.start().wait_within(DEMO).expect(0);
    let tasks: Vec<Value> = serde_json::Deserializer::from_str(&exit.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(!tasks.is_empty());
    for task in tasks {
        assert_eq!(state_of(&task), "COMPLETED");
        let text = result_of(&task);
        assert!(text.contains("front-camera saw a person"), "{text}");
    }
}

#[test]
fn the_demo_tells_in_a_sentence_what_went_wrong_and_leaves_nothing_behind() {
    unittest(Path::new("python3"), "sensor-bridge/examples/demo", "test_run");
}

#[test]
fn the_observer_agent_speaks_the_protocol() {
    unittest(Path::new("python3"), "agent-service/examples", "test_observer_agent");
}

#[test]
fn the_camera_worker_gets_the_recorded_boxes_and_scores() {
    let test = "the_camera_worker_gets_the_recorded_boxes_and_scores";
    let Some(python) = skip::python() else {
        return skip::skip(test, "there is no virtual environment; `make test` creates it");
    };
    unittest(&python, "sensor-bridge/examples/camera-worker", "test_recording");
}

#[track_caller]
fn unittest(python: &Path, folder: &str, module: &str) {
    let home = Home::new();
    let exit: Exit = Launch::of(python.as_os_str(), &home.path("logs"))
        .args(["-B", "-m", "unittest", module])
        .in_directory(&skip::workspace().join(folder))
        .start()
        .wait_within(DEMO)
        .expect(0);
    // An empty suite passes as well, and says so.
    exit.says(&["Ran ", "OK"]);
    assert!(!exit.stderr.contains("Ran 0 tests"), "{}", exit.stderr);
}
