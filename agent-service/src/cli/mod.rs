//! The command line: what can be asked, and how the program ends.
//!
//! Data goes to stdout; words for people, and errors, to stderr. Exit codes: 0 done, 1 the operation
//! failed, 2 usage or configuration.

mod local;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use service_kit::client::Origin;
use service_kit::output::Output;
use service_kit::{Token, Vars};

use crate::client::commands::Wait;
use crate::client::{self, Command as Ask, Remote};
use crate::config::{DEFAULT_LISTEN, DEFAULT_TOKEN_ENV, Flags, RawServer, RawTelemetry};

/// Hosts one agent behind a durable task queue, and talks to such a service.
#[derive(Debug, Parser)]
#[command(
    name = "agent-service",
    version,
    about,
    disable_help_subcommand = true,
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
    /// Host the agent of a configuration until SIGTERM or SIGINT
    #[command(after_help = "\
Examples:
  agent-service serve --config agent.json --state-dir ./agent-state
  agent-service serve --config base.toml --config site.yaml --state-root /var/lib/agent \\
      --listen 0.0.0.0:8787 --tls-cert cert.pem --tls-key key.pem \\
      --public-url https://robot.example:8787")]
    Serve(Serve),
    /// Print an example configuration as JSON
    #[command(after_help = "Example:\n  agent-service example > agent.json")]
    Example,
    /// Check a configuration as `serve` would, print what it comes to and its hash, change nothing
    #[command(after_help = "Example:\n  agent-service check --config agent.json")]
    Check(Serve),
    /// Submit a task
    #[command(after_help = "\
Examples:
  agent-service send --prompt \"Is the dock free?\" --wait
  agent-service send --prompt Report --request-id nightly-2026-09-16   # safe to repeat")]
    Send {
        /// What the agent is to do
        #[arg(long, value_name = "TEXT")]
        prompt: String,
        /// An identifier that a repeated submission has again, so that it makes no second task
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
        /// The group that the task belongs to
        #[arg(long, value_name = "ID")]
        context: Option<String>,
        /// Wait until the task has ended; exit 1 unless it completed
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        service: Service,
    },
    /// Show a task
    #[command(after_help = "Example:\n  agent-service get --task TASK_ID")]
    Get {
        /// The task
        #[arg(long, value_name = "ID")]
        task: String,
        #[command(flatten)]
        service: Service,
    },
    /// List the retained tasks, newest status first
    #[command(after_help = "Example:\n  agent-service tasks --status failed --limit 10")]
    Tasks {
        /// Only those of this group
        #[arg(long, value_name = "ID")]
        context: Option<String>,
        /// Only those in this state, such as `working` or `TASK_STATE_WORKING`
        #[arg(long, value_name = "STATE")]
        status: Option<String>,
        /// At most so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
        #[command(flatten)]
        service: Service,
    },
    /// Cancel a task
    #[command(after_help = "Example:\n  agent-service cancel --task TASK_ID")]
    Cancel {
        /// The task
        #[arg(long, value_name = "ID")]
        task: String,
        #[command(flatten)]
        service: Service,
    },
    /// Post an event to the triggers
    #[command(after_help = "\
Examples:
  agent-service event --file observation.json
  worker | agent-service event --file -")]
    Event {
        /// A file with the event as JSON; `-` is stdin
        #[arg(long, value_name = "FILE", default_value = "-")]
        file: PathBuf,
        #[command(flatten)]
        service: Service,
    },
    /// Talk to the agent (not part of this version)
    Chat,
    /// Ask whether a service is ready
    #[command(after_help = "Example:\n  agent-service healthcheck --url http://127.0.0.1:8787")]
    Healthcheck {
        #[command(flatten)]
        service: Service,
    },
}

#[derive(Debug, Args)]
struct Serve {
    /// A file in TOML, YAML or JSON; may be given again, the later wins
    #[arg(long = "config", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where the state lies
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// A folder with a state directory for each configuration
    #[arg(long, value_name = "DIR", conflicts_with = "state_dir")]
    state_root: Option<PathBuf>,
    /// Where to listen [default: 127.0.0.1:8787]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The URL under which others reach the service
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// The variable that holds the token [default: `WENDY_AGENT_TOKEN`]
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    /// The certificate as PEM; required off loopback
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate as PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// How long the running task may go on after a signal [default: 10]
    #[arg(long, value_name = "SECONDS")]
    shutdown_grace_seconds: Option<u64>,
    /// What to log, such as `debug` or `info,agent_service=trace`
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How log lines look: auto, json or text
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

#[derive(Debug, Args)]
struct Service {
    /// The service: https, or http on loopback
    #[arg(long, value_name = "URL", default_value_t = format!("http://{DEFAULT_LISTEN}"))]
    url: String,
    /// The variable that holds the token
    #[arg(long, value_name = "NAME", default_value = DEFAULT_TOKEN_ENV)]
    token_env: String,
    /// Trust only certificates that this PEM file signs
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    /// How data is printed: table or json [default: table on a terminal, else json]
    #[arg(long, value_name = "FORMAT")]
    output: Option<Output>,
}

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Failed,
    Usage,
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        match end {
            End::Done => Self::SUCCESS,
            End::Failed => Self::from(1),
            End::Usage => Self::from(2),
        }
    }
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => dispatch(cli.command, Vars::of_process()).into(),
        Err(error) => {
            // Help goes to stdout; where that is closed nobody reads it.
            error.print().ok();
            if error.use_stderr() { End::Usage.into() } else { End::Done.into() }
        }
    }
}

fn dispatch(command: Command, vars: Vars) -> End {
    match command {
        Command::Serve(serve) => {
            let (files, flags) = serve.into_parts();
            local::serve(&files, &flags, vars)
        }
        Command::Example => print(local::EXAMPLE, End::Done),
        Command::Check(serve) => {
            let (files, flags) = serve.into_parts();
            local::check(&files, &flags, &vars)
        }
        Command::Chat => {
            complain("`chat` comes with the model loop, which is not part of this version yet");
            End::Usage
        }
        Command::Send { prompt, request_id, context, wait, service } => {
            let given = request_id.is_some();
            let request_id = request_id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
            let wait = if wait { Wait::UntilTheEnd } else { Wait::No };
            let ask = Ask::Send { prompt, request_id: request_id.clone(), context, wait };
            let end = talk(ask, service, &vars);
            if end == End::Failed && !given {
                complain(format_args!(
                    "to ask again without a second task, add `--request-id {request_id}`"
                ));
            }
            end
        }
        Command::Get { task, service } => talk(Ask::Get { task }, service, &vars),
        Command::Tasks { context, status, limit, service } => {
            talk(Ask::Tasks { context, status, limit }, service, &vars)
        }
        Command::Cancel { task, service } => talk(Ask::Cancel { task }, service, &vars),
        Command::Event { file, service } => talk(Ask::Event { file }, service, &vars),
        Command::Healthcheck { service } => talk(Ask::Healthcheck, service, &vars),
    }
}

impl Serve {
    fn into_parts(self) -> (Vec<PathBuf>, Flags) {
        let server = RawServer {
            listen: self.listen,
            public_url: self.public_url,
            state_dir: self.state_dir,
            state_root: self.state_root,
            token_env: self.token_env,
            tls_cert: self.tls_cert,
            tls_key: self.tls_key,
            shutdown_grace_seconds: self.shutdown_grace_seconds,
        };
        let telemetry = RawTelemetry { log: self.log, log_format: self.log_format };
        (self.files, Flags { server, telemetry })
    }
}

/// Runs a client command to its end.
fn talk(ask: Ask, service: Service, vars: &Vars) -> End {
    match try_to_talk(ask, service, vars) {
        Ok(printed) => print(&printed.text, if printed.success { End::Done } else { End::Failed }),
        Err(error) => {
            complain(local::chain(&error));
            if error.is_usage() { End::Usage } else { End::Failed }
        }
    }
}

fn try_to_talk(ask: Ask, service: Service, vars: &Vars) -> Result<client::Printed, client::Error> {
    let origin = Origin::parse(&service.url)
        .map_err(|fault| client::Error::Usage(format!("--url {fault}")))?;
    // The health check is public, and containers ask without the token.
    let token = match ask {
        Ask::Healthcheck => None,
        Ask::Send { .. }
        | Ask::Get { .. }
        | Ask::Tasks { .. }
        | Ask::Cancel { .. }
        | Ask::Event { .. } => Some(
            Token::read(vars, &service.token_env)
                .map_err(|error| client::Error::Usage(local::chain(&error)))?,
        ),
    };
    let remote = Remote::new(origin, token.as_ref(), service.ca_cert)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(client::Error::Start)?;
    runtime.block_on(client::run(ask, &remote, Output::choose(service.output)))
}

/// Writes data; where nobody reads it the command failed.
fn print(text: &str, end: End) -> End {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => end,
        // `head` has seen enough; that is no fault to tell.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => End::Failed,
        Err(error) => {
            complain(format_args!("cannot write to stdout: {error}"));
            End::Failed
        }
    }
}

/// Writes a sentence for people; where nobody reads it there is nothing else to do.
fn complain(sentence: impl std::fmt::Display) {
    writeln!(std::io::stderr(), "agent-service: {sentence}").ok();
}

#[cfg(test)]
mod tests;
