use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("agent-service").chain(line.split_whitespace()))
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_shows_an_example_of_itself() {
    for command in Cli::command().get_subcommands().filter(|command| command.get_name() != "chat") {
        let name = command.get_name();
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains(&format!("agent-service {name}")) || name == "event", "{name}");
        for line in help.lines().filter_map(|line| line.strip_prefix("  agent-service ")) {
            let words = line.split('#').next().unwrap().split('>').next().unwrap();
            let words = words.trim_end_matches('\\').replace("\"Is the dock free?\"", "x");
            assert!(parse(&words).is_ok(), "{line}");
        }
    }
}

#[test]
fn the_commands_of_the_contract_parse() {
    for line in [
        "event",
        "serve --config a.json --state-dir d",
        "serve --config a.json --config b.toml --state-root d --listen localhost:1 --token-env T",
        "serve --config a.json --tls-cert c --tls-key k --public-url https://a --shutdown-grace-seconds 5 --log debug",
        "example",
        "check --config a.json",
        "send --prompt x --request-id r --context c --wait --output json",
        "get --task t --url https://a --token-env T --ca-cert c",
        "tasks --context c --status working --limit 3",
        "cancel --task t",
        "event --file -",
        "chat",
        "healthcheck --url http://127.0.0.1:1",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
}

#[test]
fn what_the_contract_does_not_have_is_usage() {
    for line in [
        "",
        "srve",
        "send",
        "get",
        "tasks --limit 0",
        "tasks --output xml",
        "serve",
        "check",
        "serve --config a.json --state-dir a --state-root b",
        "serve --config a.json extra",
    ] {
        let error = parse(line).unwrap_err();
        assert!(error.use_stderr(), "{line}");
        assert_ne!(error.kind(), ErrorKind::DisplayHelp, "{line}");
    }
}

#[test]
fn client_commands_have_the_defaults_of_the_contract() {
    let Ok(Cli { command: Command::Get { service, .. } }) = parse("get --task t") else {
        panic!("get does not parse");
    };
    assert_eq!(service.url, "http://127.0.0.1:8787");
    assert_eq!(service.token_env, "WENDY_AGENT_TOKEN");
    assert_eq!((service.ca_cert, service.output), (None, None));
}

#[test]
fn flags_of_serve_are_fields_of_server() {
    let Ok(Cli { command: Command::Serve(serve) }) =
        parse("serve --config a --listen h:1 --state-dir d --log-format json")
    else {
        panic!("serve does not parse");
    };
    let (files, flags) = serve.into_parts();
    assert_eq!(files, [PathBuf::from("a")]);
    assert_eq!(flags.server.listen.as_deref(), Some("h:1"));
    assert_eq!(flags.server.state_dir, Some(PathBuf::from("d")));
    assert_eq!(flags.server.tls_cert, None);
    assert_eq!(flags.telemetry.log_format.as_deref(), Some("json"));
}

#[test]
fn a_client_without_a_usable_url_or_token_is_usage() {
    let talk_with = |line: &str, vars: &[(&str, &str)]| {
        let vars: Vars = vars.iter().copied().collect();
        let Ok(Cli { command: Command::Get { task, service } }) = parse(line) else {
            panic!("{line} does not parse");
        };
        try_to_talk(Ask::Get { task }, service, &vars).unwrap_err()
    };
    let token = ("WENDY_AGENT_TOKEN", "0123456789abcdef");
    let cases = [
        (
            "get --task t --url http://a.example",
            vec![token],
            "--url must begin with https://; http is for loopback only",
        ),
        (
            "get --task t",
            vec![],
            "the environment variable WENDY_AGENT_TOKEN is not set; set it, or set WENDY_AGENT_TOKEN_FILE to the path of a file with its value",
        ),
        (
            "get --task t",
            vec![("WENDY_AGENT_TOKEN", "short")],
            "the token in the environment variable WENDY_AGENT_TOKEN has 5 characters; it needs at least 16",
        ),
        (
            "get --task t --ca-cert none.pem",
            vec![token],
            "cannot read the certificate file none.pem: No such file or directory (os error 2)",
        ),
    ];
    for (line, vars, expected) in cases {
        let error = talk_with(line, &vars);
        assert!(matches!(error, client::Error::Usage(_)), "{line}");
        assert_eq!(error.to_string(), expected, "{line}");
    }
}

#[test]
fn exit_codes_are_those_of_the_contract() {
    for (end, code) in [(End::Done, 0), (End::Failed, 1), (End::Usage, 2)] {
        assert_eq!(ExitCode::from(end), ExitCode::from(code));
    }
    assert_eq!(dispatch(Command::Chat, Vars::default()), End::Usage);
}
