//! CONTRACT section 3, the card.

use serde_json::json;
use system_tests::home::Home;

const CARD: &str = "/.well-known/agent-card.json";

#[test]
fn the_card_says_what_the_contract_says() {
    let home = Home::new();
    let service = home.start();
    let card = service.get(CARD).without("Authorization").send().json();
    assert_eq!(card["name"], "tested");
    for field in ["description", "version"] {
        assert!(!card[field].as_str().unwrap().is_empty(), "{field}");
    }
    assert_eq!(
        card["supportedInterfaces"],
        json!([{"url": service.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}])
    );
    assert_eq!(card["capabilities"]["streaming"], false);
    assert_eq!(card["capabilities"]["pushNotifications"], false);
    assert_eq!(card["defaultInputModes"], json!(["text/plain"]));
    assert_eq!(card["defaultOutputModes"], json!(["text/plain"]));
    let scheme = &card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"];
    assert!(scheme.as_str().unwrap().eq_ignore_ascii_case("bearer"));
    assert_eq!(card["securityRequirements"], json!([{"schemes": {"bearer": {"list": []}}}]));
    let skills = card["skills"].as_array().unwrap();
    let [skill] = skills.as_slice() else { panic!("one skill: {card}") };
    for field in ["id", "name", "description"] {
        assert!(!skill[field].as_str().unwrap().is_empty(), "{field}");
    }
    assert!(!skill["tags"].as_array().unwrap().is_empty());
    assert!(skill.to_string().contains("general"), "the skill is for the profile: {skill}");
}

#[test]
fn the_card_names_the_public_url() {
    let home = Home::with(|config| config.with("server.public_url", "https://agent.example:8443"));
    let service = home.start();
    let card = service.get(CARD).send().json();
    assert_eq!(card["supportedInterfaces"][0]["url"], "https://agent.example:8443");
}

#[test]
fn the_card_is_cacheable_and_if_none_match_is_honoured() {
    let home = Home::new();
    let service = home.start();
    let card = service.get(CARD).send();
    assert_eq!(card.status, 200);
    let cache = card.header("cache-control").unwrap();
    assert!(cache.contains("max-age=") && !cache.contains("no-store"), "{cache}");
    let etag = card.header("etag").unwrap().to_owned();
    assert!(etag.trim_start_matches("W/").starts_with('"'), "{etag}");
    for matching in [etag.clone(), "*".to_owned(), format!("\"other\", {etag}")] {
        let same = service.get(CARD).set("If-None-Match", &matching).send();
        assert_eq!((same.status, same.body.len()), (304, 0), "{matching}");
        assert_eq!(same.header("etag"), Some(&*etag));
    }
    let other = service.get(CARD).set("If-None-Match", "\"other\"").send();
    assert_eq!((other.status, &other.body), (200, &card.body));
}

#[test]
fn another_configuration_has_another_etag() {
    let etag = |home: &Home| {
        let service = home.start();
        service.get(CARD).send().header("etag").unwrap().to_owned()
    };
    let public =
        |url: &'static str| Home::with(move |config| config.with("server.public_url", url));
    let (one, two) = (public("https://one.example"), public("https://two.example"));
    let first = etag(&one);
    assert_ne!(first, etag(&two));
    assert_eq!(first, etag(&one), "the same after a restart");
}
