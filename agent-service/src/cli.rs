//! The command line: what can be asked, and how the process ends.
//!
//! Data goes to stdout, people's words to stderr. Exit 0: done. 1: it failed. 2: it was asked in a way
//! that cannot be done (usage or configuration).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent_wire::a2a::task::TaskState;
use clap::{Args, Parser, Subcommand, ValueEnum};
use service_kit::output::Output;
use service_kit::telemetry;
use service_kit::vars::Vars;

use crate::client::{self, Service};
use crate::config::{
    self, Config, DEFAULT_LISTEN, DEFAULT_TOKEN_ENV, Flags, RawServer, RawTelemetry, Sources,
};
use crate::serve;

/// The example of the product description; a test loads it.
const EXAMPLE: &str = include_str!("../examples/agent.json");

/// A durable task queue for one agent: A2A 1.0 messages and sensor events in, artifacts out.
#[derive(Debug, Parser)]
#[command(
    name = "agent-service",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  agent-service example > agent.json
  agent-service serve --config agent.json --state-dir ./agent-state
  agent-service send --prompt \"Inspect current device health\" --wait
  agent-service event --file observation.json

Exit status: 0 done, 1 the operation failed, 2 usage or configuration."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Host the agent until SIGTERM or SIGINT.
    #[command(after_help = "\
Examples:
  agent-service serve --config agent.json --state-dir ./agent-state
  agent-service serve --config base.toml --config site.yaml --state-root /var/lib/agent \\
      --listen 0.0.0.0:8787 --tls-cert cert.pem --tls-key key.pem --public-url https://robot.example:8787")]
    Serve(Serve),
    /// Print an example configuration.
    #[command(after_help = "Example:\n  agent-service example > agent.json")]
    Example,
    /// Check a configuration as `serve` would, and change nothing.
    #[command(after_help = "Example:\n  agent-service check --config agent.json")]
    Check(Check),
    /// Submit a message as a task.
    #[command(after_help = "\
Examples:
  agent-service send --prompt \"Is the dock free?\" --wait
  agent-service send --prompt \"Report\" --request-id nightly-2026-09-16   # safe to repeat")]
    Send(Send),
    /// Show a task.
    #[command(after_help = "Example:\n  agent-service get --task TASK_ID")]
    Get(One),
    /// List the retained tasks, newest status first.
    #[command(after_help = "Example:\n  agent-service tasks --status TASK_STATE_FAILED --limit 10")]
    Tasks(List),
    /// Cancel a task.
    #[command(after_help = "Example:\n  agent-service cancel --task TASK_ID")]
    Cancel(One),
    /// Post an observation to the triggers.
    #[command(after_help = "\
Examples:
  agent-service event --file observation.json
  worker | agent-service event --file -")]
    Event(Event),
    /// Chat with an agent; comes with the model loop.
    Chat,
    /// Ask a running service whether it is ready.
    #[command(after_help = "Example:\n  agent-service healthcheck --url http://127.0.0.1:8787")]
    Healthcheck(Reach),
}

#[derive(Debug, Args)]
struct Serve {
    /// Configuration file (TOML, YAML or JSON); later ones win.
    #[arg(long = "config", value_name = "FILE", required = true)]
    configs: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    logs: LogFlags,
}

#[derive(Debug, Args)]
struct Check {
    /// Configuration file (TOML, YAML or JSON); later ones win.
    #[arg(long = "config", value_name = "FILE", required = true)]
    configs: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Args)]
struct ServerFlags {
    /// The state directory; it belongs to this configuration.
    #[arg(long, value_name = "DIR", conflicts_with = "state_root")]
    state_dir: Option<PathBuf>,
    /// A folder that holds a state directory for each agent and configuration.
    #[arg(long, value_name = "DIR")]
    state_root: Option<PathBuf>,
    /// Where to listen [default: 127.0.0.1:8787].
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The origin under which others reach the service.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// The variable that holds the token [default: `WENDY_AGENT_TOKEN`].
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    /// PEM file with the certificate chain; needed off loopback, reloaded when it changes.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// How long the running task may go on after a signal, 0 to 25 [default: 10].
    #[arg(long, value_name = "SECONDS")]
    shutdown_grace_seconds: Option<u64>,
}

#[derive(Debug, Args)]
struct LogFlags {
    /// What to log, such as `debug` or `info,agent_service=trace` [default: `RUST_LOG`, else info].
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How log lines look: auto, json or text.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

/// How a client command reaches the service.
#[derive(Debug, Args)]
struct Reach {
    /// The service's origin: https, or http on loopback.
    #[arg(long, value_name = "URL", default_value_t = format!("http://{DEFAULT_LISTEN}"))]
    url: String,
    /// The variable that holds the token; `NAME_FILE` may name a file with it.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_TOKEN_ENV)]
    token_env: String,
    /// PEM file with the only CA to trust.
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    /// How to print [default: table on a terminal, else json].
    #[arg(long, value_enum, value_name = "FORMAT")]
    output: Option<Print>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Print {
    Table,
    Json,
}

#[derive(Debug, Args)]
struct Send {
    #[command(flatten)]
    reach: Reach,
    /// What to do; 1 to 16,000 bytes.
    #[arg(long, value_name = "TEXT")]
    prompt: String,
    /// The message ID; the same one again gives the same task [default: a new one].
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// The context that groups tasks [default: a new one].
    #[arg(long, value_name = "ID")]
    context: Option<String>,
    /// Wait until the task has ended; exit 1 unless it is completed.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, Args)]
struct One {
    #[command(flatten)]
    reach: Reach,
    /// The task.
    #[arg(long, value_name = "ID")]
    task: String,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    reach: Reach,
    /// Tasks of this context only.
    #[arg(long, value_name = "ID")]
    context: Option<String>,
    /// Tasks in this state only, such as `TASK_STATE_FAILED`.
    #[arg(long, value_name = "STATE")]
    status: Option<String>,
    /// At most this many.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Debug, Args)]
struct Event {
    #[command(flatten)]
    reach: Reach,
    /// A file with one event; `-` is stdin.
    #[arg(long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

/// How a command ended, when it did not do what was asked.
#[derive(Debug)]
enum Failed {
    /// Exit 2.
    Usage(String),
    /// Exit 1.
    Operation(String),
    /// Exit 1, and all is said already.
    Said,
}

impl From<client::Error> for Failed {
    fn from(error: client::Error) -> Self {
        let text = error.to_string();
        if error.is_usage() { Self::Usage(text) } else { Self::Operation(text) }
    }
}

/// Runs the program with the arguments of the process.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap knows where each goes.
            let code = if error.use_stderr() { 2 } else { 0 };
            drop(error.print());
            return ExitCode::from(code);
        }
    };
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Said) => ExitCode::from(1),
        Err(Failed::Operation(text)) => {
            say(&text);
            ExitCode::from(1)
        }
        Err(Failed::Usage(text)) => {
            say(&text);
            ExitCode::from(2)
        }
    }
}

/// People's words.
fn say(text: &str) {
    // A closed stderr leaves nobody to tell.
    drop(writeln!(std::io::stderr(), "agent-service: {text}"));
}

/// Data. A reader that has gone away, as `head` does, ends the program quietly.
fn print(text: &str) -> Result<(), Failed> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Failed::Said
        } else {
            Failed::Operation(format!("cannot write to stdout: {error}"))
        }
    })
}

fn run(command: Command) -> Result<(), Failed> {
    let vars = Vars::of_process();
    match command {
        Command::Serve(serve) => run_serve(serve, vars),
        Command::Example => print(EXAMPLE.trim_end()),
        Command::Check(check) => run_check(check, &vars),
        Command::Chat => Err(Failed::Usage(
            "chat talks to a language model and comes with the model loop, which this version lacks".to_owned(),
        )),
        Command::Send(send) => asking(&vars, send.reach, async |service, output| {
            let message = client::Message {
                prompt: send.prompt,
                request_id: send.request_id,
                context: send.context,
            };
            if !send.wait {
                return Ok((client::show_sent(&service.send(&message).await?, output), true));
            }
            let task = client::send_and_wait(&service, &message).await?;
            let completed = client::state(&task) == TaskState::Completed.as_str();
            Ok((client::show_task(&task, output), completed))
        }),
        Command::Get(get) => asking(&vars, get.reach, async |service, output| {
            Ok((client::show_task(&service.get(&get.task).await?, output), true))
        }),
        Command::Cancel(cancel) => asking(&vars, cancel.reach, async |service, output| {
            Ok((client::show_task(&service.cancel(&cancel.task).await?, output), true))
        }),
        Command::Tasks(list) => asking(&vars, list.reach, async |service, output| {
            let tasks =
                service.tasks(list.context.as_deref(), list.status.as_deref(), list.limit).await?;
            Ok((client::show_tasks(&tasks, output), true))
        }),
        Command::Event(event) => asking(&vars, event.reach, async |service, output| {
            let body = client::read_event(&event.file)?;
            Ok((client::show_event(&service.event(body).await?, output), true))
        }),
        Command::Healthcheck(reach) => asking(&vars, reach, async |service, _output| {
            Ok((service.ready().await?, true))
        }),
    }
}

/// Runs a client command; false with its text is a failure that the text tells.
fn asking(
    vars: &Vars,
    reach: Reach,
    ask: impl AsyncFnOnce(Service, Output) -> Result<(String, bool), client::Error>,
) -> Result<(), Failed> {
    let output = Output::choose(reach.output.map(|print| match print {
        Print::Table => Output::Table,
        Print::Json => Output::Json,
    }));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failed::Operation(format!("cannot start: {error}")))?;
    let (text, done) = runtime.block_on(async {
        let service = Service::new(vars, &reach.url, &reach.token_env, reach.ca_cert)?;
        ask(service, output).await
    })?;
    print(&text)?;
    if done { Ok(()) } else { Err(Failed::Said) }
}

impl ServerFlags {
    fn raw(self) -> RawServer {
        RawServer {
            listen: self.listen,
            public_url: self.public_url,
            state_dir: self.state_dir,
            state_root: self.state_root,
            token_env: self.token_env,
            tls_cert: self.tls_cert,
            tls_key: self.tls_key,
            shutdown_grace_seconds: self.shutdown_grace_seconds,
        }
    }
}

fn load(files: &[PathBuf], flags: &Flags, vars: &Vars) -> Result<Config, Failed> {
    let current = std::env::current_dir().map_err(|error| {
        Failed::Operation(format!("cannot read the working directory: {error}"))
    })?;
    let sources = Sources { files, vars, flags, current: &current };
    config::load(&sources).map_err(|faults| Failed::Usage(faults.to_string()))
}

fn run_serve(serve: Serve, vars: Vars) -> Result<(), Failed> {
    let Serve { configs, server, logs } = serve;
    let telemetry = RawTelemetry { log: logs.log, log_format: logs.log_format };
    let config = load(&configs, &Flags { server: server.raw(), telemetry }, &vars)?;
    // Held to the end of the process on every path.
    let _guard = telemetry::init(&config.telemetry, &vars)
        .map_err(|error| Failed::Usage(error.to_string()))?;
    for warning in &config.warnings {
        if warning != config::NO_RUNNER {
            tracing::warn!("{warning}");
        }
    }
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failed::Operation(format!("cannot start: {error}")))?;
    match runtime.block_on(serve::run(config, vars)) {
        Ok(()) => Ok(()),
        Err(serve::Error::Configuration(text)) => Err(Failed::Usage(text)),
        Err(serve::Error::Failed(error)) => Err(Failed::Operation(format!("{error:#}"))),
    }
}

fn run_check(check: Check, vars: &Vars) -> Result<(), Failed> {
    let Check { configs, server } = check;
    let flags = Flags { server: server.raw(), telemetry: RawTelemetry::default() };
    let config = load(&configs, &flags, vars)?;
    let (missing, wrong) = config.check_secrets(vars);
    for warning in config.warnings.iter().chain(&missing) {
        say(&format!("warning: {warning}"));
    }
    let shown = serde_json::json!({
        "agent": config.agent.to_json(),
        "sha256": config.digest().to_hex(),
    });
    print(&serde_json::to_string_pretty(&shown).unwrap_or_default())?;
    if wrong.is_empty() { Ok(()) } else { Err(Failed::Usage(wrong.join("; "))) }
}

/// Whether a path is standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_each_command_has_an_example() {
        let command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "chat") {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{}", sub.get_name());
            assert!(
                help.contains(&format!("agent-service {}", sub.get_name())),
                "{}",
                sub.get_name()
            );
        }
    }
}
