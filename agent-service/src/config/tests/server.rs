//! Where the service listens, and where its state lies.

use std::path::PathBuf;

use serde_json::json;

use super::super::State;
use super::with;

#[test]
fn a_listener_off_loopback_needs_tls_and_one_without_an_address_of_its_own_a_public_url() {
    let needs_tls = |listen: &str| {
        format!(
            "`server.listen` in DIR/a.json is {listen}, which is not on loopback: `tls_cert` and `tls_key` are required"
        )
    };
    let needs_url = |listen: &str| {
        format!(
            "`server.listen` in DIR/a.json is {listen}, by which nobody can reach it: `public_url` is required"
        )
    };
    let no_address =
        |text: &str| format!("`server.listen` in DIR/a.json must be HOST:PORT, but is \"{text}\"");
    let cases = [
        ("127.0.0.1:0", vec![]),
        ("127.3.2.1:1", vec![]),
        ("[::1]:8787", vec![]),
        ("LocalHost:8787", vec![]),
        ("10.0.0.1:8787", vec![needs_tls("10.0.0.1:8787")]),
        ("0.0.0.0:1", vec![needs_tls("0.0.0.0:1"), needs_url("0.0.0.0:1")]),
        ("[::]:1", vec![needs_tls("[::]:1"), needs_url("[::]:1")]),
        ("agent.example:1", vec![needs_tls("agent.example:1"), needs_url("agent.example:1")]),
        (":8787", vec![no_address(":8787")]),
        ("127.0.0.1", vec![no_address("127.0.0.1")]),
        ("127.0.0.1:99999", vec![no_address("127.0.0.1:99999")]),
        ("a/b:1", vec![no_address("a/b:1")]),
    ];
    for (listen, expected) in cases {
        let folder = with(json!({"server": {"listen": listen}}));
        if expected.is_empty() {
            folder.config();
        } else {
            assert_eq!(folder.faults(), expected, "{listen}");
        }
    }
}

#[test]
fn certificate_and_key_go_together_and_are_read() {
    let made = rcgen::generate_simple_self_signed(["agent.example".to_owned()]).unwrap();
    let folder =
        with(json!({"server": {"listen": "0.0.0.0:1", "tls_cert": "c.pem", "tls_key": "k.pem",
        "public_url": "https://agent.example/"}}))
        .holding("c.pem", &made.cert.pem())
        .holding("k.pem", &made.signing_key.serialize_pem());
    let server = folder.config().server;
    assert_eq!(server.url("0.0.0.0:1".parse().unwrap()), "https://agent.example");
    let tls = server.tls.unwrap();
    assert_eq!((tls.cert, tls.key), (folder.path().join("c.pem"), folder.path().join("k.pem")));

    let one = with(json!({"server": {"tls_cert": "c.pem"}}));
    assert_eq!(one.faults(), ["`server.tls_cert` in DIR/a.json needs `server.tls_key` as well"]);
    let other = with(json!({"server": {"tls_key": "k.pem"}}));
    assert_eq!(other.faults(), ["`server.tls_key` in DIR/a.json needs `server.tls_cert` as well"]);
    let none = with(json!({"server": {"tls_cert": "c.pem", "tls_key": "k.pem"}}));
    assert_eq!(none.faults(), ["cannot read the certificate file DIR/c.pem"]);
}

#[test]
fn a_service_without_a_public_url_is_at_the_address_that_it_bound() {
    let server = with(json!({})).config().server;
    assert_eq!(server.url("127.0.0.1:4321".parse().unwrap()), "http://127.0.0.1:4321");
    assert_eq!(server.url("[::1]:4321".parse().unwrap()), "http://[::1]:4321");
}

#[test]
fn a_public_url_is_an_origin() {
    for (url, expected) in [
        ("http://agent.example", "must begin with https://; http is for loopback only"),
        ("https://agent.example/a", "must have no path"),
        ("https://agent.example/?q", "must have no query and no fragment"),
        (
            "https://u@agent.example",
            "must have no user name and no password; a token is given by the name of its variable",
        ),
    ] {
        let folder = with(json!({"server": {"public_url": url}}));
        assert_eq!(folder.faults(), [format!("`server.public_url` in DIR/a.json {expected}")]);
    }
}

#[test]
fn state_lies_in_a_directory_or_below_a_root_and_not_in_both() {
    let folder = with(json!({"server": {"state_dir": "s"}}));
    assert_eq!(folder.config().server.state, Some(State::Directory(folder.path().join("s"))));
    let folder = with(json!({"server": {"state_root": "/r"}}));
    assert_eq!(folder.config().server.state, Some(State::Root(PathBuf::from("/r"))));
    let both = with(json!({"server": {"state_dir": "s", "state_root": "r"}}));
    assert_eq!(
        both.faults(),
        [
            "`server.state_root` in DIR/a.json is an alternative to `server.state_dir`: set one of them"
        ]
    );
}
