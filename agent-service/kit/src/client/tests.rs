use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const SETTINGS: Settings<'static> =
    Settings { user_agent: "test/1.0", ca_cert: None, timeout: Some(TIMEOUT) };

/// Answers one request with these bytes; gives what was asked.
async fn answer_once(listener: TcpListener, answer: Vec<u8>) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        asked.push(stream.read_u8().await.unwrap());
    }
    // The client may hang up when it has seen enough.
    stream.write_all(&answer).await.ok();
    String::from_utf8(asked).unwrap()
}

async fn get(answer: Vec<u8>) -> (Response, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let origin = Origin::parse(&format!("http://localhost:{port}")).unwrap();
    let client = build(&origin, &SETTINGS).unwrap();
    let (response, asked) =
        tokio::join!(client.get(origin.at("/x?y=z")).send(), answer_once(listener, answer));
    (response.unwrap(), asked)
}

#[test]
fn an_origin_is_https_or_http_on_loopback_and_nothing_more() {
    let right = [
        ("https://agent.example", "https://agent.example"),
        ("https://agent.example:8787/", "https://agent.example:8787"),
        ("HTTPS://Agent.Example:443", "https://agent.example"),
        ("http://127.0.0.1:8787", "http://127.0.0.1:8787"),
        ("http://127.9.9.9", "http://127.9.9.9"),
        ("http://[::1]:8787/", "http://[::1]:8787"),
        ("http://localhost:8787", "http://localhost:8787"),
    ];
    for (text, expected) in right {
        assert_eq!(Origin::parse(text).unwrap().to_string(), expected, "{text}");
    }
    let wrong = [
        ("", BadOrigin::NoUrl),
        ("agent.example", BadOrigin::NoUrl),
        ("https://", BadOrigin::NoUrl),
        ("localhost:8787", BadOrigin::NoUrl),
        ("ftp://agent.example", BadOrigin::Scheme),
        ("http://agent.example", BadOrigin::PlainHttp),
        ("http://10.0.0.1:8787", BadOrigin::PlainHttp),
        ("http://localhost.evil.example", BadOrigin::PlainHttp),
        ("http://0.0.0.0:8787", BadOrigin::PlainHttp),
        ("https://user@agent.example", BadOrigin::Credentials),
        ("https://user:pass@agent.example", BadOrigin::Credentials),
        ("https://@agent.example", BadOrigin::Credentials),
        ("https://agent.example/a2a", BadOrigin::Path),
        ("https://agent.example/?x=1", BadOrigin::Query),
        ("https://agent.example/?", BadOrigin::Query),
        ("https://agent.example/#x", BadOrigin::Query),
    ];
    for (text, expected) in wrong {
        assert_eq!(Origin::parse(text).unwrap_err(), expected, "{text}");
    }
}

#[tokio::test]
async fn a_request_says_who_asks_and_reads_the_answer() {
    let (response, asked) = get(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_vec()).await;
    assert!(asked.starts_with("GET /x?y=z HTTP/1.1\r\n"), "{asked}");
    assert!(asked.to_lowercase().contains("\r\nuser-agent: test/1.0\r\n"), "{asked}");
    assert_eq!(read_body(response, 2).await.unwrap(), b"{}");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let answer =
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    let (response, _) = get(answer.to_vec()).await;
    assert_eq!(response.status(), 302);
}

#[tokio::test]
async fn an_answer_over_the_cap_is_an_error() {
    let (response, _) = get(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc".to_vec()).await;
    let error = read_body(response, 2).await.unwrap_err();
    assert_eq!(error.to_string(), "the answer is over 2 bytes");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    let (response, _) = get(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".to_vec()).await;
    assert!(matches!(read_body(response, 9).await, Err(BodyError::Broken(_))));
}

#[test]
fn a_ca_file_that_is_missing_is_named() {
    let ca_cert = Some(PathBuf::from("/nowhere/ca.pem"));
    let origin = Origin::parse("https://agent.example").unwrap();
    let error = build(&origin, &Settings { ca_cert, ..SETTINGS }).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the certificate file /nowhere/ca.pem");
}
