//! The official A2A SDK for Python as a client: what `tests/python/sdk_client.py` checks, one test each.

use system_tests::client::TOKEN;
use system_tests::home::Home;
use system_tests::process::Launch;
use system_tests::skip;

#[test]
fn the_sdk_reads_the_card() {
    run("the_sdk_reads_the_card", "card");
}

#[test]
fn the_sdk_sends_and_waits() {
    run("the_sdk_sends_and_waits", "send_blocking");
}

#[test]
fn the_sdk_sends_and_polls() {
    run("the_sdk_sends_and_polls", "send_and_poll");
}

#[test]
fn the_sdk_walks_the_pages_of_a_list() {
    run("the_sdk_walks_the_pages_of_a_list", "list_with_pages");
}

#[test]
fn the_sdk_cancels_and_cancels_again() {
    run("the_sdk_cancels_and_cancels_again", "cancel");
}

#[test]
fn the_sdk_gets_the_errors_of_tasks_as_its_own_types() {
    run("the_sdk_gets_the_errors_of_tasks_as_its_own_types", "task_errors");
}

#[test]
fn the_sdk_gets_the_errors_of_requests_as_its_own_types() {
    run("the_sdk_gets_the_errors_of_requests_as_its_own_types", "request_errors");
}

#[test]
fn the_sdk_with_a_wrong_token_learns_nothing() {
    run("the_sdk_with_a_wrong_token_learns_nothing", "wrong_token");
}

#[track_caller]
fn run(test: &str, check: &str) {
    let Some(python) = skip::python() else {
        return skip::skip(test, "there is no virtual environment; `make test` creates it");
    };
    let home = Home::new();
    let service = home.start();
    Launch::of(python.as_os_str(), &home.path("logs"))
        .args([skip::workspace().join("tests/python/sdk_client.py")])
        .args([check])
        .env("AGENT_URL", &service.url)
        .env("AGENT_TOKEN", TOKEN)
        .run()
        .expect(0);
}
