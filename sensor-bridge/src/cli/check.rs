//! What `check` prints: the configuration as it is understood.

use serde_json::{Value, json};
use service_kit::{
    Token, Vars,
    output::{Output, table},
};

use crate::{
    config::{Config, SourceConfig, Transport},
    pipeline::route::Route,
    source::file::Input,
};

/// The report, with a newline at its end. Secrets are looked at and never shown.
pub(super) fn report(config: &Config, vars: &Vars, output: Output) -> String {
    let warnings = warnings(config, vars);
    match output {
        Output::Json => format!("{:#}\n", document(config, &warnings)),
        Output::Table => {
            let sources: Vec<_> = config.sources.iter().map(source_row).collect();
            let routes: Vec<_> = config.routes.iter().map(|(_, route)| route_row(route)).collect();
            let mut text = format!("observations go to {}\n\n", config.service.url);
            text.push_str(&table(["SOURCE", "TRANSPORT", "PRESET", "EVENT SOURCE"], &sources));
            text.push('\n');
            let heading = [
                "TYPE",
                "FROM",
                "LABELS",
                "THRESHOLD",
                "IN A ROW",
                "MAX GAP",
                "SPACING",
                "MAX AGE",
            ];
            text.push_str(&table(heading, &routes));
            for warning in &warnings {
                text.push_str("\nwarning: ");
                text.push_str(warning);
                text.push('\n');
            }
            text
        }
    }
}

fn warnings(config: &Config, vars: &Vars) -> Vec<String> {
    let listening = config.sources.iter().filter_map(|source| match &source.transport {
        Transport::Listen { token_env, .. } => Some(token_env),
        Transport::File(_) => None,
    });
    let mut names: Vec<&String> =
        std::iter::once(&config.service.token_env).chain(listening).collect();
    names.dedup();
    let unset = names
        .into_iter()
        .filter_map(|name| Token::read(vars, name).err())
        .map(|fault| format!("`run` needs a token: {fault}"));
    config.warnings.iter().cloned().chain(unset).collect()
}

fn document(config: &Config, warnings: &[String]) -> Value {
    let sources: Vec<Value> = config
        .sources
        .iter()
        .map(|source| {
            let [name, transport, preset, event_source] = source_row(source);
            json!({"name": name, "transport": transport, "preset": preset, "event_source": event_source})
        })
        .collect();
    let routes: Vec<Value> = config.routes.iter().map(|(_, route)| route_document(route)).collect();
    json!({
        "service": {"url": config.service.url.to_string(), "token_env": config.service.token_env},
        "sources": sources,
        "routes": routes,
        "budget": {"per_second": config.budget.per_second, "burst": config.budget.burst},
        "max_message_bytes": config.max_message_bytes,
        "warnings": warnings,
    })
}

fn source_row(source: &SourceConfig) -> [String; 4] {
    let transport = match &source.transport {
        Transport::File(Input::Stdin) => "file -".to_owned(),
        Transport::File(Input::Path(path)) => format!("file {}", path.display()),
        Transport::Listen { address, tls, .. } => {
            let scheme = if tls.is_some() { "https" } else { "http" };
            format!("listen {scheme}://{address}/{}", source.name)
        }
    };
    let event_source = source.fixed_source.clone().unwrap_or_else(|| "as messages say".to_owned());
    [source.name.clone(), transport, source.preset.clone(), event_source]
}

fn route_row(route: &Route) -> [String; 8] {
    let expect = route.expect();
    [
        route.kind().as_str().to_owned(),
        route.from().to_owned(),
        route.labels().iter().cloned().collect::<Vec<_>>().join(", "),
        expect.min_confidence.map_or_else(|| "unknown".to_owned(), |least| least.to_string()),
        expect.consecutive.to_string(),
        format!("{:?}", expect.max_gap),
        format!("{:?}", route.spacing()),
        format!("{:?}", expect.max_age),
    ]
}

fn route_document(route: &Route) -> Value {
    let expect = route.expect();
    json!({
        "type": route.kind().as_str(),
        "from": route.from(),
        "labels": route.labels(),
        "source": route.source().map(agent_wire::value::SourceName::as_str),
        "expect": {
            "min_confidence": expect.min_confidence,
            "consecutive": expect.consecutive,
            "max_gap_seconds": expect.max_gap.as_secs_f64(),
            "cooldown_seconds": expect.cooldown.as_secs_f64(),
            "max_age_seconds": expect.max_age.as_secs_f64(),
        },
        "spacing_seconds": route.spacing().as_secs_f64(),
        "smooth": route.smooth(),
        "window": route.window(),
    })
}
