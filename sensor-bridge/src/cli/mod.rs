//! The command line: what is asked for, what is printed, how it ends.
//!
//! Exit codes: 0 done, 1 failed while running, 2 usage or configuration. Data
//! goes to stdout, words for people and refusals to stderr.

mod check;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use service_kit::{
    Clock, Tasks, Vars,
    output::Output,
    secret,
    telemetry::{self, Settings},
    tls,
};

use crate::{
    config::{self, Config},
    poster::client,
    replay::{Options, Printer, Replay, Speed},
    serve,
};

/// Done.
const DONE: u8 = 0;
/// The operation failed.
const FAILED: u8 = 1;
/// The command line or the configuration is wrong.
const USAGE: u8 = 2;

/// How long blocking reads (standard input) may hold up the end.
const LET_GO: Duration = Duration::from_millis(100);

#[derive(Debug, Parser)]
#[command(
    name = "sensor-bridge",
    version,
    about = "Turns what inference workers say into sparse observations for agent-service",
    after_help = "Examples:\n  \
        sensor-bridge check --config bridge.yaml\n  \
        sensor-bridge run --config bridge.yaml\n  \
        sensor-bridge replay recording.jsonl --config bridge.yaml --source front-camera\n\n\
        Every field of the configuration can be set by a variable, such as\n\
        SENSOR_BRIDGE__SERVICE__URL=https://agent.example. Exit codes: 0 done, 1 failed, 2 usage\n\
        or configuration."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Subscribe to the workers and post observations until a signal.
    #[command(after_help = "Examples:\n  \
        WENDY_AGENT_TOKEN_FILE=token sensor-bridge run --config bridge.yaml\n  \
        my-worker | sensor-bridge run --config stdin.yaml\n\n\
        SIGTERM or SIGINT stops it: unsent lows are posted first, within 2 s. It ends by itself\n\
        when all of its sources have ended (standard input).")]
    Run {
        #[command(flatten)]
        config: ConfigFiles,
    },
    /// Check the configuration and print what it means; nothing is opened or sent.
    #[command(after_help = "Example:\n  sensor-bridge check --config bridge.yaml --output json")]
    Check {
        #[command(flatten)]
        config: ConfigFiles,
        /// `table` or `json`; a table on a terminal, else JSON.
        #[arg(long, value_name = "FORM")]
        output: Option<Output>,
    },
    /// Send a recording through the pipeline; print the events as they would be sent.
    #[command(after_help = "Examples:\n  \
        sensor-bridge replay recording.jsonl --config bridge.yaml --source front-camera\n  \
        sensor-bridge replay events.jsonl --config bridge.yaml --source house --derived\n  \
        sensor-bridge replay recording.jsonl --config bridge.yaml --source front-camera \\\n    \
        --shift-to-now --post\n\n\
        Events go to stdout, one JSON a line; refusals to stderr, each with its reason. With --post\n\
        the summary goes to stderr, and the exit code is 1 when the service took nothing.")]
    Replay(ReplayArgs),
}

#[derive(Debug, Args)]
struct ReplayArgs {
    /// JSON lines of payloads, one JSON document, or lines {recv, topic, qos, retain, payload}.
    file: PathBuf,
    #[command(flatten)]
    config: ConfigFiles,
    /// The source of the configuration whose messages the file has.
    #[arg(long, value_name = "NAME")]
    source: String,
    /// Print the observations before sampling instead of the events.
    #[arg(long, conflicts_with = "post")]
    derived: bool,
    /// How many times as fast as recorded, or `max`; by default `max`, with --post 1.
    #[arg(long, value_name = "N|max", value_parser = speed)]
    speed: Option<Speed>,
    /// Move all times so that the first frame of the recording is now.
    #[arg(long)]
    shift_to_now: bool,
    /// Really post the events, and wait until each was delivered or dropped.
    #[arg(long)]
    post: bool,
    /// `table` or `json` for the summary of --post; a table on a terminal, else JSON.
    #[arg(long, value_name = "FORM")]
    output: Option<Output>,
}

#[derive(Debug, Args)]
struct ConfigFiles {
    /// A configuration file (YAML, TOML or JSON); later ones win.
    #[arg(long = "config", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// A command that did not work.
struct Failed {
    code: u8,
    error: anyhow::Error,
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Without a terminal there is nobody to tell.
            usage.print().ok();
            return ExitCode::from(if usage.use_stderr() { USAGE } else { DONE });
        }
    };
    let vars = Vars::of_process();
    let _telemetry = match telemetry::init(&Settings::default(), &vars) {
        Ok(guard) => guard,
        Err(error) => return ended(Err(Failed { code: USAGE, error: error.into() })),
    };
    let done = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")
        .map_err(failed)
        .and_then(|runtime| {
            let done = runtime.block_on(command(cli.command, &vars));
            runtime.shutdown_timeout(LET_GO);
            done
        });
    ended(done)
}

fn ended(done: Result<u8, Failed>) -> ExitCode {
    match done {
        Ok(code) => ExitCode::from(code),
        Err(Failed { code, error }) => {
            tell(&format!("error: {error:#}"));
            ExitCode::from(code)
        }
    }
}

async fn command(command: Command, vars: &Vars) -> Result<u8, Failed> {
    let clock = Clock::system();
    match command {
        Command::Run { config } => {
            let config = load(&config, vars)?;
            config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            let tasks = stoppable()?;
            let prepared = serve::prepare(&config, vars, &clock, &tasks).await.map_err(failed)?;
            serve::run(prepared, &tasks).await;
            Ok(DONE)
        }
        Command::Check { config, output } => {
            let config = load(&config, vars)?;
            print(&check::report(&config, vars, Output::choose(output))).map_err(failed)?;
            Ok(DONE)
        }
        Command::Replay(args) => replay(args, vars, &clock).await,
    }
}

async fn replay(args: ReplayArgs, vars: &Vars, clock: &Clock) -> Result<u8, Failed> {
    let config = load(&args.config, vars)?;
    if config.source(&args.source).is_none() {
        let known: Vec<&str> = config.sources.iter().map(|source| &*source.name).collect();
        let name = &args.source;
        let error = anyhow::anyhow!("--source {name:?} is none of the configuration's: {known:?}");
        return Err(Failed { code: USAGE, error });
    }
    let speed = args.speed.unwrap_or(if args.post { Speed::Times(1.0) } else { Speed::Max });
    if args.post && speed != Speed::Times(1.0) {
        tell("warning: at another speed than 1 the service sees times that do not fit its clock");
    }
    let options = Options {
        file: args.file,
        source: args.source,
        derived: args.derived,
        speed,
        shift_to_now: args.shift_to_now,
    };
    let replay = Replay::open(&config, &options, clock.now()).map_err(failed)?;
    let mut printer = Printer::new(io::stdout(), io::stderr());
    if args.post {
        let tasks = stoppable()?;
        let summary = replay.post(vars, clock, &tasks).await.map_err(failed)?;
        match choose_for_stderr(args.output) {
            Output::Table => tell(summary.table().trim_end()),
            Output::Json => tell(&serde_json::json!({ "summary": summary }).to_string()),
        }
        return Ok(if summary.succeeded() { DONE } else { FAILED });
    }
    let printed = if options.derived {
        replay.derive(&mut printer).await
    } else {
        replay.sample(&mut printer).await
    };
    printed.context("cannot write to standard output").map_err(failed)?;
    Ok(DONE)
}

/// The summary stands on stderr, so that is what decides.
fn choose_for_stderr(asked: Option<Output>) -> Output {
    let terminal = io::IsTerminal::is_terminal(&io::stderr());
    asked.unwrap_or(if terminal { Output::Table } else { Output::Json })
}

fn load(files: &ConfigFiles, vars: &Vars) -> Result<Config, Failed> {
    config::load(&files.files, vars).map_err(|faults| {
        let error = anyhow::anyhow!("the configuration is not right:\n{faults}");
        Failed { code: USAGE, error }
    })
}

fn stoppable() -> Result<Tasks, Failed> {
    let tasks = Tasks::new();
    tasks.stop_on_signals().context("cannot listen for signals").map_err(failed)?;
    Ok(tasks)
}

/// Secrets and certificates of no use are configuration; everything else failed while running.
fn failed(error: anyhow::Error) -> Failed {
    let configuration = error.chain().any(|cause| {
        cause.is::<client::Error>() || cause.is::<secret::Error>() || cause.is::<tls::Error>()
    });
    Failed { code: if configuration { USAGE } else { FAILED }, error }
}

fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let times: f64 = text.parse().map_err(|_no_number| "must be a number or `max`".to_owned())?;
    if times.is_finite() && (0.01..=1000.0).contains(&times) {
        Ok(Speed::Times(times))
    } else {
        Err("must be 0.01 to 1000, or `max`".to_owned())
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .context("cannot write to standard output")
}

fn tell(text: &str) {
    // Without a stderr there is nobody to tell.
    writeln!(io::stderr().lock(), "{text}").ok();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_holds_together_and_every_command_shows_an_example() {
        let cli = Cli::command();
        cli.clone().debug_assert();
        let commands = std::iter::once(&cli).chain(cli.get_subcommands());
        for command in commands.filter(|command| command.get_name() != "help") {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{}", command.get_name());
        }
    }

    #[test]
    fn a_speed_is_a_number_or_max() {
        assert_eq!(speed("max"), Ok(Speed::Max));
        assert_eq!(speed("2.5"), Ok(Speed::Times(2.5)));
        for wrong in ["0", "-1", "nan", "inf", "fast", "1001"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}
