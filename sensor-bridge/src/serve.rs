//! The program that runs: configuration in, transports and poster out.
//!
//! Nothing here decides. What the status page will show is in
//! [`SourceCounters`] and in the poster's snapshot.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use jiff::Timestamp;
use service_kit::{Clock, Tasks, Token, Vars, tls::ServerCertificate};

use crate::{
    config::{Config, TlsFiles, Transport},
    decode::{self, Reader},
    metrics::{SourceCounters, Throttle},
    pipeline::sampler::{Outcome, Outgoing, Sampler, Settings},
    poster::{
        Feed, Observer, Poster, Refused,
        client::{Answer, Client},
    },
    source::{
        Port,
        file::{Input, Lines},
        inbox::Inbox,
        listen::{self, Bound, Endpoint, Endpoints},
    },
};

/// How long tasks get to end after the poster did, before they are told to.
const FINISH_WITHIN: Duration = Duration::from_secs(2);

/// Everything that a run needs, bound and read, before anything moves.
pub(crate) struct Prepared {
    poster: Poster<Log>,
    lines: Vec<(Lines, Input)>,
    listeners: Vec<Bound>,
}

/// Reads secrets and binds addresses.
///
/// # Errors
/// A secret or a certificate is of no use, or an address is taken.
pub(crate) async fn prepare(
    config: &Config,
    vars: &Vars,
    clock: &Clock,
    tasks: &Tasks,
) -> anyhow::Result<Prepared> {
    let client = Arc::new(Client::new(&config.service, vars.clone())?);
    let (inbox, lanes) = Inbox::new(config.sources.len());
    let mut feeds = Vec::new();
    let mut lines = Vec::new();
    let mut endpoints: BTreeMap<SocketAddr, (Vec<Endpoint>, Option<TlsFiles>)> = BTreeMap::new();
    for (source, lane) in config.sources.iter().zip(lanes) {
        let counters = Arc::new(SourceCounters::default());
        let name = Arc::from(source.name.as_str());
        let port = Port::new(name, lane, Arc::clone(&counters), clock.clone());
        feeds.push(Feed::new(reader(config, &source.name)?, counters));
        match &source.transport {
            Transport::File(input) => {
                let stop = tasks.soft_stop().clone();
                lines.push((Lines::new(port, config.max_message_bytes, stop), input.clone()));
            }
            Transport::Listen { address, token_env, tls } => {
                let token = Token::read(vars, token_env).with_context(|| {
                    format!("source {:?} has no token for its senders", source.name)
                })?;
                let endpoint = Endpoint::new(port, Arc::from(token.expose()));
                let shared = endpoints.entry(*address).or_default();
                shared.0.push(endpoint);
                shared.1.clone_from(tls);
            }
        }
    }
    let mut listeners = Vec::new();
    for (address, (endpoints, tls)) in endpoints {
        let certificate = tls
            .map(|files| ServerCertificate::load(&files.cert, &files.key))
            .transpose()
            .with_context(|| format!("cannot listen on {address}"))?;
        let endpoints = Endpoints::new(endpoints, config.max_message_bytes);
        let bound = listen::bind(address, certificate, endpoints)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        listeners.push(bound);
    }
    let sampler = sampler(config);
    let poster = Poster::new(sampler, inbox, feeds, client, clock.clone(), Log::default());
    Ok(Prepared { poster, lines, listeners })
}

/// Runs until a stop, or until every source has ended; what is left is sent first.
pub(crate) async fn run(prepared: Prepared, tasks: &Tasks) {
    let Prepared { poster, lines, listeners } = prepared;
    for bound in listeners {
        if let Ok(address) = bound.local_addr() {
            tracing::info!(%address, "listening for workers");
        }
        drop(tasks.spawn(bound.serve(tasks.clone())));
    }
    for (source, input) in lines {
        drop(tasks.spawn(source.run(input)));
    }
    tracing::info!("running");
    let ended = poster.run(tasks).await;
    tasks.request_soft_stop();
    if tokio::time::timeout(FINISH_WITHIN, tasks.finish()).await.is_err() {
        tasks.request_hard_stop();
        tasks.finish().await;
    }
    for counters in &ended.snapshot.routes {
        tracing::debug!(?counters, "route");
    }
    tracing::info!("stopped");
}

/// The decoder of a source, under the rules of its routes.
pub(crate) fn reader(config: &Config, name: &str) -> anyhow::Result<Reader> {
    let source = config.source(name).with_context(|| {
        let known: Vec<&str> = config.sources.iter().map(|source| &*source.name).collect();
        format!("the configuration has no source {name:?}; known are {known:?}")
    })?;
    let decoder = decode::preset(&source.preset)
        .with_context(|| format!("there is no preset {:?}", source.preset))?;
    Ok(Reader::new(config.rules(source), decoder))
}

/// The pipeline as configured.
pub(crate) fn sampler(config: &Config) -> Sampler {
    let settings =
        Settings { budget: config.budget, frame_close: config.frame_close, ..Settings::default() };
    Sampler::new(config.routes.clone(), settings)
}

/// The observer of a run: refusals are logged, once a minute per source and reason.
#[derive(Debug, Default)]
struct Log {
    said: Throttle<(String, &'static str)>,
}

impl Observer for Log {
    fn refused(&mut self, refused: Refused<'_>, now: Timestamp) {
        let Refused { source, reason, sentence } = refused;
        if let Some(count) = self.said.admit((source.to_owned(), reason), now) {
            tracing::warn!(source, reason, count, "message refused: {sentence}");
        }
    }

    fn posting(&mut self, _outgoing: &Outgoing) {}

    fn answered(&mut self, _outgoing: &Outgoing, _answer: &Answer, _outcome: Outcome) {}
}
