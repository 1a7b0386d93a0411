//! What a child's environment holds, and what it cannot get at.

use super::*;

#[tokio::test]
async fn a_child_sees_its_block_and_none_of_the_services_secrets() {
    let show = "env > environment; echo '{\"output\":\"a\"}'";
    let agent = agent(Mode::Persistent(persistent()), &looping(show), |_| {});
    agent.ask("one").await.unwrap();
    let text = agent.read("environment");
    let lines: BTreeSet<&str> = text.lines().collect();
    for expected in [
        "AGENT_NAME=tester",
        "AGENT_ARGV=[]",
        "AGENT_SLUG=trigger-a2a",
        "AGENT_SCHEDULE_ID=trigger",
        "AGENT_LIFECYCLE=persistent",
        "AGENT_PERSIST_KEY=default",
        "LOG_LEVEL=debug",
    ] {
        assert!(lines.contains(expected), "{expected} is missing in {text}");
    }
    assert!(!text.contains("very-secret") && !text.contains("inherited"), "{text}");
    let tmp = lines.iter().find_map(|line| line.strip_prefix("AGENT_TMPDIR=")).unwrap().to_owned();
    assert!(Path::new(&tmp).is_dir());
    agent.close().await;
    assert!(!Path::new(&tmp).exists());
}

/// The names and values of a child's environment.
fn variables(
    change: impl FnOnce(&mut Spec),
    kind: super::super::env::For<'_>,
) -> BTreeMap<String, String> {
    let agent = agent(Mode::Oneshot, "", |_| {});
    let mut spec = Spec::clone(&agent.runner.spec);
    change(&mut spec);
    let vars = Vars::from_iter([
        ("INHERITED", "yes"),
        ("WENDY_AGENT_TOKEN", "secret"),
        ("WENDY_AGENT_TOKEN_FILE", "secret"),
        ("AGENT_TRIGGER_ACTOR", "of the service"),
        ("AGENT_SESSION_ID", "of the service"),
        ("AGENT_NAME", "of the service"),
    ]);
    let command =
        super::super::env::command(&spec, &vars, &Clock::system(), Path::new("/tmp/x"), kind);
    let text = |value: &std::ffi::OsStr| value.to_str().unwrap().to_owned();
    let all = command.as_std().get_envs();
    all.filter_map(|(name, value)| Some((text(name), text(value?)))).collect()
}

fn withhold(spec: &mut Spec) {
    spec.withheld = ["WENDY_AGENT_TOKEN", "WENDY_AGENT_TOKEN_FILE"].map(str::to_owned).into();
}

#[tokio::test]
async fn the_environment_is_inherited_less_secrets_then_the_agents_then_the_configured_one() {
    let trigger = trigger(&job("one", 60));
    let persistent = super::super::env::For::Persistent { label: "room-1", source: trigger.source };
    let configure = |spec: &mut Spec| {
        withhold(spec);
        spec.extra_env = BTreeMap::from(
            [
                ("WENDY_AGENT_TOKEN", "by hand"),
                ("AGENT_TRIGGER_PAYLOAD", "by hand"),
                ("AGENT_SESSION_IDS", "by hand"),
                ("AGENT_SLUG", "by hand"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
    };
    let all = variables(configure, persistent);
    let get = |name: &str| all.get(name).map(String::as_str);
    assert_eq!(get("INHERITED"), Some("yes"));
    assert_eq!(get("AGENT_NAME"), Some("tester"), "the agent's block beats the inherited one");
    assert_eq!(get("AGENT_SLUG"), Some("by hand"), "the configured one comes last");
    assert_eq!(get("AGENT_PERSIST_KEY"), Some("room-1"));
    assert_eq!(get("AGENT_TMPDIR"), Some("/tmp/x"));
    assert_eq!(get("AGENT_SESSION_IDS"), Some("by hand"), "another name");
    for never in [
        "WENDY_AGENT_TOKEN",
        "WENDY_AGENT_TOKEN_FILE",
        "AGENT_TRIGGER_PAYLOAD",
        "AGENT_TRIGGER_ACTOR",
        "AGENT_SESSION_ID",
    ] {
        assert_eq!(get(never), None, "{never}");
    }
    let oneshot = variables(withhold, super::super::env::For::Oneshot(&trigger));
    let get = |name: &str| oneshot.get(name).map(String::as_str);
    assert_eq!(get("AGENT_TRIGGER_SOURCE"), Some("a2a"));
    assert_eq!(get("AGENT_SESSION_ID"), Some("context"));
    assert_eq!(get("AGENT_TRIGGER_ACTOR"), None, "the service's own is of another message");
    assert_eq!((get("AGENT_LIFECYCLE"), get("AGENT_PERSIST_KEY")), (None, None));
    let payload: Value = serde_json::from_str(get("AGENT_TRIGGER_PAYLOAD").unwrap()).unwrap();
    assert_eq!(payload["text"], "one");
    let bare = variables(|spec| spec.inherit_env = false, persistent);
    assert_eq!(bare.get("INHERITED"), None);
    assert!(bare.contains_key("AGENT_HOME"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_of_the_same_user_cannot_read_the_services_environment() {
    let body = "if cat /proc/$PPID/environ > stolen; then echo '{\"output\":\"read\"}'; \
                else echo '{\"output\":\"refused\"}'; fi";
    let agent = agent(Mode::Persistent(persistent()), &looping(body), |_| {});
    assert!(!nix::sys::prctl::get_dumpable().unwrap());
    let outcome = agent.ask("one").await.unwrap();
    if nix::unistd::geteuid().is_root() {
        println!("skipped: root may read everything in /proc, so only the flag was looked at");
    } else {
        assert_eq!((outcome.as_str(), agent.read("stolen").as_str()), ("refused", ""));
    }
    agent.close().await;
}
