//! CONTRACT section 5: secrets, and where a service listens.

use std::ffi::OsStr;

use system_tests::client::{TOKEN, words};
use system_tests::home::{Home, ready};
use system_tests::process::Exit;
use system_tests::tls::Authority;

#[test]
fn the_token_has_at_least_16_characters_without_line_breaks_also_on_loopback() {
    let home = Home::new();
    let exit = home.serve().without_env("WENDY_AGENT_TOKEN").run().expect(2);
    exit.says(&["WENDY_AGENT_TOKEN"]);
    for token in ["", "fifteen-chars-x", "a-token-with-a-\nline-break", "a-token-with-a-\rreturn"] {
        let exit = home.serve().env("WENDY_AGENT_TOKEN", token).run().expect(2);
        exit.says(&["WENDY_AGENT_TOKEN"]);
        assert!(token.is_empty() || !exit.stderr.contains(token), "it is never shown");
    }
    let service = ready(home.serve().env("WENDY_AGENT_TOKEN", "sixteen-chars-xy").start());
    let call = service.get("/tasks").set("Authorization", "Bearer sixteen-chars-xy");
    call.send().success();
}

#[test]
fn token_env_names_another_variable() {
    let home = Home::new();
    let serve =
        home.serve().args(["--token-env", "OTHER"]).env("OTHER", "another-token-0123456789");
    let service = ready(serve.start());
    service.get("/tasks").send().error(401, "UNAUTHENTICATED");
    let call = service.get("/tasks").set("Authorization", "Bearer another-token-0123456789");
    call.send().success();
    let exit = home.serve().args(["--token-env", "MISSING"]).run().expect(2);
    exit.says(&["MISSING"]);
}

#[test]
fn a_secret_may_be_given_as_a_file() {
    let home = Home::new();
    // A line break at the end is the editor's, not the token's.
    let file = home.write("token", "a-token-of-a-file-0123456789\n");
    let serve = home.serve().without_env("WENDY_AGENT_TOKEN").env("WENDY_AGENT_TOKEN_FILE", &file);
    let service = ready(serve.start());
    let call = service.get("/tasks").set("Authorization", "Bearer a-token-of-a-file-0123456789");
    call.send().success();
    let client = home
        .command(&service, ["tasks"])
        .without_env("WENDY_AGENT_TOKEN")
        .env("WENDY_AGENT_TOKEN_FILE", &file);
    client.run().expect(0);
    let missing = home
        .serve()
        .without_env("WENDY_AGENT_TOKEN")
        .env("WENDY_AGENT_TOKEN_FILE", home.path("nowhere"));
    missing.run().expect(2).says(&["WENDY_AGENT_TOKEN_FILE", "nowhere"]);
}

#[test]
fn clients_refuse_a_short_token_as_well() {
    let home = Home::new();
    let service = home.start();
    let exit = home.command(&service, ["tasks"]).env("WENDY_AGENT_TOKEN", "short").run().expect(2);
    exit.says(&["WENDY_AGENT_TOKEN", "16"]);
}

#[test]
fn localhost_is_pinned_to_127_0_0_1() {
    let home = Home::new();
    let serve = home
        .agent_service(["serve", "--listen", "localhost:0", "--config"])
        .args([home.path("agent.json")])
        .args([OsStr::new("--state-dir"), home.state().as_os_str()]);
    let service = ready(serve.start());
    assert!(service.address().starts_with("127.0.0.1:"), "{}", service.address());
    let url = service.url.replace("127.0.0.1", "localhost");
    home.agent_service(["tasks", "--url", &url]).run().expect(0);
}

#[test]
fn a_non_loopback_address_needs_certificate_and_key_both_or_neither() {
    let home = Home::new();
    let identity = Authority::new("test").identity();
    let cert = home.write("cert.pem", &identity.cert);
    let key = home.write("key.pem", &identity.key);
    let serve = |listen: &str, more: &[&OsStr]| {
        home.agent_service(["serve", "--listen", listen, "--public-url", "https://a.example"])
            .args([OsStr::new("--config"), home.path("agent.json").as_os_str()])
            .args([OsStr::new("--state-dir"), home.state().as_os_str()])
            .args(more)
    };
    let (cert_flag, key_flag) = (OsStr::new("--tls-cert"), OsStr::new("--tls-key"));
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        serve(listen, &[]).run().expect(2).says(&["tls_cert"]);
    }
    serve("127.0.0.1:0", &[cert_flag, cert.as_os_str()]).run().expect(2).says(&["tls_key"]);
    serve("127.0.0.1:0", &[key_flag, key.as_os_str()]).run().expect(2).says(&["tls_cert"]);
    let swapped = serve("127.0.0.1:0", &[cert_flag, key.as_os_str(), key_flag, cert.as_os_str()]);
    swapped.run().expect(2).says(&["key.pem"]);
}

#[test]
fn an_unspecified_host_or_a_name_needs_a_public_url() {
    let home = Home::new();
    let identity = Authority::new("test").identity();
    let cert = home.write("cert.pem", &identity.cert);
    let key = home.write("key.pem", &identity.key);
    for listen in ["0.0.0.0:0", "[::]:0", "agent.example:0"] {
        let exit = home
            .agent_service(["check", "--listen", listen, "--config"])
            .args([home.path("agent.json").as_os_str()])
            .args([OsStr::new("--tls-cert"), cert.as_os_str()])
            .args([OsStr::new("--tls-key"), key.as_os_str()])
            .run();
        exit.expect(2).says(&["public_url"]);
    }
    for listen in ["nonsense", "127.0.0.1", "127.0.0.1:99999", ":8787"] {
        let exit = home
            .agent_service(["check", "--listen", listen, "--config"])
            .args([home.path("agent.json")])
            .run();
        exit.expect(2).says(&["listen"]);
    }
}

#[test]
fn a_taken_address_is_an_error_that_names_it() {
    let home = Home::new();
    let service = home.start();
    let other = Home::new();
    let exit = other
        .agent_service(["serve", "--listen", service.address(), "--config"])
        .args([other.path("agent.json")])
        .args([OsStr::new("--state-dir"), other.state().as_os_str()])
        .run();
    assert_ne!(exit.code, 0);
    exit.says(&[service.address()]);
}

#[test]
fn serve_needs_a_state_directory_or_a_state_root_and_not_both() {
    let home = Home::new();
    home.serve_bare().run().expect(2).says(&["--state-dir", "--state-root"]);
    let both = home.serve().args([OsStr::new("--state-root"), home.path("root").as_os_str()]);
    both.run().expect(2);
}

#[test]
fn no_log_line_and_no_answer_shows_the_token() {
    let home = Home::new();
    let serve = home.serve().env("RUST_LOG", "trace");
    let service = ready(serve.start());
    service.run("hello");
    let error = service.get("/tasks").set("Authorization", "Bearer nonsense").send();
    assert!(!words(&error.error(401, "UNAUTHENTICATED")).contains(TOKEN));
    let exit: Exit = service.stop().expect(0);
    assert!(!exit.stderr.contains(TOKEN) && !exit.stdout.contains(TOKEN));
}
