//! The composition root: the only place that sees everything, and the order of starting and stopping.
//!
//! Start: secrets, certificate, state, then the listener: nothing listens on state that cannot be used.
//! Stop, in this order: submissions get 503, the running task has its grace, waiting clients are told,
//! connections drain, agents are retired, the database is closed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_wire::a2a::card::{AgentCard, Skill};
use anyhow::Context;
use service_kit::clock::Clock;
use service_kit::lifecycle::Tasks;
use service_kit::secret::{self, Token};
use service_kit::tls::{self, ServerCertificate};
use service_kit::vars::Vars;
use tokio::net::{TcpListener, lookup_host};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::config::{Config, Listen, Mode, NO_RUNNER, ProcessRunner, Profile, Server, State};
use crate::http::{self, App, Limits};
use crate::intake::Intake;
use crate::runner::Runner;
use crate::runner::child::{self, ChildRunner};
use crate::store::{self, Opening, Store};
use crate::worker::Worker;

/// How long a service whose storage failed still answers, with 500. Source: CONTRACT, section 1.
const FAILED_LINGER: Duration = Duration::from_secs(2);

/// Why the service did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked cannot be done as it stands: exit 2.
    #[error("{0}")]
    Configuration(String),
    /// It failed: exit 1.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

/// Hosts the agent until it is told to stop.
///
/// # Errors
/// When it cannot start, or the storage failed.
pub async fn run(config: Config, vars: Vars) -> Result<(), Error> {
    let running = start(&config, vars).await?;
    running.until_stopped().await
}

/// Everything that runs, and what it takes to stop it.
struct Running {
    tasks: Tasks,
    store: Store,
    writer: JoinHandle<()>,
    worker: JoinHandle<()>,
    connections: JoinHandle<()>,
    end_of_connections: CancellationToken,
}

async fn start(config: &Config, vars: Vars) -> Result<Running, Error> {
    let Config { agent, server, .. } = config;
    let refuse = |error: &dyn std::fmt::Display| Error::Configuration(error.to_string());
    let Some(process) = &agent.runner else {
        return Err(Error::Configuration(NO_RUNNER.to_owned()));
    };
    let token = Token::read(&vars, &server.token_env).map_err(|error| refuse(&error))?;
    let certificate = server
        .tls
        .as_ref()
        .map(|files| ServerCertificate::load(&files.cert, &files.key))
        .transpose()
        .map_err(|error| refuse(&error))?;
    let Some(state) = &server.state else {
        let text =
            "no state directory: give `--state-dir DIR`, or `--state-root DIR` in a container";
        return Err(Error::Configuration(text.to_owned()));
    };

    let tasks = Tasks::new();
    tasks.stop_on_signals().context("cannot listen for signals")?;
    let clock = Clock::system();
    let directory = directory(state, config);
    let (store, writer) = Store::open(Opening {
        directory: &directory,
        configuration: &agent.binding(),
        limits: store::Limits { max_tasks: agent.max_tasks, triggers: agent.triggers.clone() },
        now: clock.now(),
    })
    .await
    .map_err(|error| {
        let usage = matches!(error, store::Error::OtherConfiguration { .. });
        if usage { refuse(&error) } else { Error::Failed(error.into()) }
    })?;
    let writer = tasks.spawn(writer.run());
    tell_what_is_left(state, &directory);
    let spec = child_spec(config, process, store.directory().to_owned());
    let runner = ChildRunner::new(spec, vars, clock.clone(), tasks.clone())
        .context("cannot prepare to run agents")?;
    let runner: Arc<dyn Runner> = Arc::new(runner);

    let (listener, address) = listen(&server.listen).await?;
    let url = public_url(server, address);
    let stopping = tasks.soft_stop();
    let closed = CancellationToken::new();
    let intake = Intake::new(store.clone(), clock.clone(), stopping.clone(), closed.clone());
    let card = card(&agent.name, agent.profile, &url);
    let app = Arc::new(App::new(Arc::new(intake), http::Token::new(token.expose()), &card));
    let tls = certificate.map(|certificate| {
        drop(tasks.spawn(Arc::clone(&certificate).keep_fresh(stopping.clone())));
        tls::server_config(certificate)
    });
    let end_of_connections = CancellationToken::new();
    let connections =
        http::serve(listener, tls, app, Limits::default(), end_of_connections.clone());
    let connections = tasks.spawn(connections);

    let worker = Worker {
        store: store.clone(),
        runner,
        clock,
        tasks: tasks.clone(),
        task_timeout: agent.task_timeout,
        grace: server.shutdown_grace,
        closed,
    };
    let worker = tasks.spawn(worker.run());
    info!(
        agent = agent.name,
        url,
        listen = %address,
        state_dir = %directory.display(),
        configuration = config.digest().to_hex(),
        "listening"
    );
    Ok(Running { tasks, store, writer, worker, connections, end_of_connections })
}

impl Running {
    /// Waits for a signal or for the storage to fail, then stops everything in order.
    async fn until_stopped(self) -> Result<(), Error> {
        tokio::select! {
            () = self.tasks.soft_stop().cancelled() => {}
            () = self.store.failed() => {
                // Everybody who asks within this time is told that it failed; the work was told to end.
                tokio::time::sleep(FAILED_LINGER).await;
                self.tasks.request_soft_stop();
            }
        }
        // It gives the running task its grace, tells who waits, and retires the agents.
        returned("worker", self.worker).await;
        self.end_of_connections.cancel();
        returned("listener", self.connections).await;
        let failed = self.store.has_failed();
        self.store.close().await;
        returned("writer", self.writer).await;
        // What is left only drains pipes of agents that are gone.
        self.tasks.request_hard_stop();
        self.tasks.finish().await;
        if failed {
            return Err(Error::Failed(anyhow::anyhow!(
                "the storage failed; see the log for the cause, and start the service again when it is well"
            )));
        }
        info!("stopped");
        Ok(())
    }
}

async fn returned(what: &'static str, task: JoinHandle<()>) {
    if let Err(error) = task.await {
        error!(%error, what, "a part of the service did not end well");
    }
}

fn directory(state: &State, config: &Config) -> PathBuf {
    match state {
        State::Directory(path) => path.clone(),
        State::Root(root) => store::under_root(root, &config.agent.name, config.digest()),
    }
}

/// A changed configuration starts on fresh state; an operator has to know where the old one is.
fn tell_what_is_left(state: &State, directory: &std::path::Path) {
    if let State::Root(_) = state {
        for left in store::left_beside(directory) {
            warn!(
                state_dir = %left.display(),
                "state of another configuration of this agent is left alone here"
            );
        }
    }
}

async fn listen(listen: &Listen) -> Result<(TcpListener, SocketAddr), Error> {
    let address = match listen {
        Listen::Address(address) => *address,
        Listen::Name { host, port } => lookup_host((host.as_str(), *port))
            .await
            .with_context(|| format!("cannot resolve {host}"))?
            .next()
            .with_context(|| format!("{host} has no address"))?,
    };
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr().context("cannot read the listening address")?;
    Ok((listener, address))
}

fn public_url(server: &Server, address: SocketAddr) -> String {
    if let Some(url) = &server.public_url {
        return url.to_string();
    }
    let scheme = if server.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{address}")
}

fn card(name: &str, profile: Profile, url: &str) -> AgentCard {
    let description = description(profile);
    let skill = Skill {
        id: profile.as_str().to_owned(),
        name: profile.as_str().to_owned(),
        description: description.to_owned(),
        tags: vec!["wendy".to_owned(), profile.as_str().to_owned()],
    };
    AgentCard::new(name, description, env!("CARGO_PKG_VERSION"), url, skill)
}

fn child_spec(config: &Config, process: &ProcessRunner, state_dir: PathBuf) -> child::Spec {
    let lifecycle = &process.lifecycle;
    let mode = match lifecycle.mode {
        Mode::OneShot => child::Mode::Oneshot,
        Mode::Persistent => child::Mode::Persistent(child::Persistent {
            key: lifecycle.key.clone(),
            idle_timeout: lifecycle.idle_timeout,
            max_invocations: lifecycle.max_invocations,
            max_instances: usize::try_from(lifecycle.max_instances).unwrap_or(usize::MAX),
            startup_timeout: lifecycle.startup_timeout,
        }),
    };
    child::Spec {
        agent: config.agent.name.clone(),
        command: process.command.clone(),
        working_dir: process.working_dir.clone(),
        home: process.home.clone(),
        state_dir,
        inherit_env: process.inherit_env,
        extra_env: process.extra_env.clone(),
        withheld: secret::withheld(config.secret_variables()),
        mode,
        grace: lifecycle.grace,
        max_line_bytes: usize::try_from(lifecycle.max_line_bytes).unwrap_or(usize::MAX),
    }
}

/// What a peer reads on the card about an agent of this profile.
fn description(profile: Profile) -> &'static str {
    match profile {
        Profile::General => "Builds, deploys, diagnoses and delegates.",
        Profile::Developer => "Builds, tests and deploys applications.",
        Profile::Simulation => "Runs simulations on virtual machines and targets.",
        Profile::Debugger => "Diagnoses software, robots, cameras and other hardware.",
        Profile::Fleet => "Coordinates several devices.",
        Profile::DeviceReasoning => "Pursues goals on a device from observations and events.",
        Profile::DeviceSensors => "Looks after perception models and sensor observations.",
        Profile::DeviceControl => "Supervises motion and bounded goals of a device.",
    }
}
