//! `replay`: a recording through the pipeline, without or with a service.
//!
//! Without `--post` time is virtual: it goes by the recording's own receive
//! times and every post is taken at once, so that the same recording always
//! gives the same events. With `--post` the recording takes the place of a
//! transport in front of the real poster, in real time.

mod recording;
mod summary;

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use service_kit::{Clock, Tasks, Vars};

use self::recording::{Entry, Recording};
pub(crate) use self::summary::Summary;
use crate::{
    config::Config,
    decode::{Decoded, Meta, Reason},
    delivery::Reply,
    metrics::SourceCounters,
    pipeline::{
        Deriver,
        derive::Batch,
        sampler::{Outcome, Outgoing, Sampler},
    },
    poster::{
        self, Feed, Observer, Poster, Refused,
        cadence::Cadence,
        client::{Answer, Client},
    },
    serve,
    source::{Received, inbox::Inbox},
};

/// How long a replay at full speed rests when the poster has not caught up.
const REST: Duration = Duration::from_millis(1);

/// No observation is sent later than this after its frame (`max_age_seconds` is at most 3600).
const LONGEST_AGE: Duration = Duration::from_hours(1);

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// The recording.
    pub(crate) file: PathBuf,
    /// The configured source whose messages it has.
    pub(crate) source: String,
    /// Print observations before sampling.
    pub(crate) derived: bool,
    /// How fast.
    pub(crate) speed: Speed,
    /// Move all times so that the first frame is now.
    pub(crate) shift_to_now: bool,
}

/// How fast a recording is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// Without waiting.
    Max,
    /// So many times as fast as it was recorded.
    Times(f64),
}

/// A recording, ready to be replayed.
pub(crate) struct Replay<'a> {
    config: &'a Config,
    recording: Recording,
    feed: Feed,
    counters: Arc<SourceCounters>,
    shift: SignedDuration,
    speed: Speed,
}

/// Where events and refusals go: stdout and stderr, locked line by line.
pub(crate) struct Printer<O, E> {
    out: O,
    err: E,
    failed: Option<io::Error>,
}

impl<'a> Replay<'a> {
    /// Reads the recording.
    ///
    /// # Errors
    /// It cannot be read, or the configuration has no such source.
    pub(crate) fn open(
        config: &'a Config,
        options: &Options,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        let reader = || serve::reader(config, &options.source);
        let recording = recording::read(&options.file, config.max_message_bytes, reader()?, now)?;
        let shift = if options.shift_to_now {
            now.duration_since(recording.first)
        } else {
            SignedDuration::ZERO
        };
        let counters = Arc::new(SourceCounters::default());
        let feed = Feed::new(reader()?, Arc::clone(&counters)).shifted_by(shift);
        Ok(Self { config, recording, feed, counters, shift, speed: options.speed })
    }

    /// Prints the observations before sampling, one JSON a line.
    ///
    /// # Errors
    /// Standard output is gone.
    pub(crate) async fn derive<O: Write, E: Write>(
        mut self,
        printer: &mut Printer<O, E>,
    ) -> io::Result<()> {
        let routes = Arc::new(self.config.routes.clone());
        let streams = usize::MAX;
        let mut deriver = Deriver::new(Arc::clone(&routes), self.config.frame_close, streams);
        let mut batch = Batch::default();
        let mut cadence = Cadence::default();
        let pace = self.pace();
        for entry in &self.recording.entries {
            pace.wait_for(entry).await;
            let uptime = pace.uptime(entry.received);
            deriver.close_due(uptime, &mut batch);
            for message in printer.read(&mut self.feed, &self.counters, entry, self.config) {
                warn_if_slow(&mut cadence, self.config, &self.feed, &message);
                deriver.push(self.feed.name(), &message, uptime, &mut batch);
            }
            printer.derived(&deriver, &mut batch, self.feed.name())?;
        }
        deriver.close_all(&mut batch);
        printer.derived(&deriver, &mut batch, self.feed.name())
    }

    /// Prints the events as they would be sent to a service that takes each at once.
    ///
    /// # Errors
    /// Standard output is gone.
    pub(crate) async fn sample<O: Write, E: Write>(
        mut self,
        printer: &mut Printer<O, E>,
    ) -> io::Result<()> {
        let mut sampler = serve::sampler(self.config);
        let mut cadence = Cadence::default();
        let pace = self.pace();
        let mut uptime = Duration::ZERO;
        for entry in &self.recording.entries {
            let received = pace.uptime(entry.received);
            self.advance(&mut sampler, &pace, uptime, received, printer)?;
            uptime = received;
            pace.wait_for(entry).await;
            for message in printer.read(&mut self.feed, &self.counters, entry, self.config) {
                warn_if_slow(&mut cadence, self.config, &self.feed, &message);
                for refusal in sampler.on_message(self.feed.name(), &message, uptime) {
                    let sentence = poster::sentence(&refusal);
                    printer.refusal(self.feed.name(), refusal.reason.as_str(), &sentence);
                }
            }
            self.send(&mut sampler, &pace, uptime, printer)?;
        }
        // What the last frames left waits for its turn, until it is sent or stale.
        let end = uptime.saturating_add(LONGEST_AGE);
        self.advance(&mut sampler, &pace, uptime, end, printer)?;
        sampler.stop(end);
        self.send(&mut sampler, &pace, end, printer)
    }

    /// Sends what becomes due from `uptime` on and before `until`.
    fn advance<O: Write, E: Write>(
        &self,
        sampler: &mut Sampler,
        pace: &Pace,
        mut uptime: Duration,
        until: Duration,
        printer: &mut Printer<O, E>,
    ) -> io::Result<()> {
        while let Some(next) = sampler.next_deadline(uptime).filter(|next| *next < until) {
            // Time goes on in any case, also when a deadline brought nothing.
            uptime = next.max(uptime.saturating_add(Duration::from_millis(1))).min(until);
            self.send(sampler, pace, uptime, printer)?;
            if uptime == until {
                break;
            }
        }
        Ok(())
    }

    fn send<O: Write, E: Write>(
        &self,
        sampler: &mut Sampler,
        pace: &Pace,
        uptime: Duration,
        printer: &mut Printer<O, E>,
    ) -> io::Result<()> {
        let now = pace.time(uptime).checked_add(self.shift).unwrap_or(Timestamp::MAX);
        while let Some(outgoing) = sampler.next(now, uptime) {
            printer.event(&outgoing);
            let _outcome = sampler.on_reply(outgoing.stream, Reply::Taken, 0.0, now, uptime);
        }
        printer.check()
    }

    fn pace(&self) -> Pace {
        Pace::new(&self.recording, self.speed)
    }

    /// Posts the events and waits until each was delivered or dropped.
    ///
    /// # Errors
    /// There is no usable token, or standard output is gone.
    pub(crate) async fn post(
        self,
        vars: &Vars,
        clock: &Clock,
        tasks: &Tasks,
    ) -> anyhow::Result<Summary> {
        let Self { config, recording, feed, counters, speed, .. } = self;
        let client = Arc::new(Client::new(&config.service, vars.clone())?);
        let (inbox, lanes) = Inbox::new(1);
        let observer = Posted {
            printer: Printer::new(io::stdout(), io::stderr()),
            summary: Summary::default(),
            tasks: tasks.clone(),
        };
        let limit = config.max_message_bytes;
        let source = feed.name().to_owned();
        let pace = Pace::new(&recording, speed);
        let poster =
            Poster::new(serve::sampler(config), inbox, vec![feed], client, clock.clone(), observer);
        let stop = tasks.soft_stop().clone();
        let feeder = async move {
            for entry in recording.entries {
                pace.wait_for(&entry).await;
                let Some(lane) = lanes.first() else { return };
                while lane.is_half_full() {
                    tokio::time::sleep(REST).await;
                }
                let Some(bytes) = entry.bytes else {
                    counters.refused(Reason::Oversized);
                    tracing::warn!(
                        source,
                        limit,
                        "a line is over max_message_bytes and was skipped"
                    );
                    continue;
                };
                let sent = lane.send(Received { at: entry.received, meta: Meta::default(), bytes });
                counters.arrived(entry.received, sent.overrun);
            }
        };
        drop(tasks.spawn(async move { stop.run_until_cancelled_owned(feeder).await }));
        let ended = poster.run(tasks).await;
        let interrupted = tasks.soft_stop().is_cancelled();
        tasks.request_soft_stop();
        tasks.finish().await;
        ended.observer.printer.into_result().context("cannot write to standard output")?;
        Ok(ended.observer.summary.finish(&ended.snapshot, interrupted))
    }
}

/// When each line is due.
#[derive(Clone, Copy, Debug)]
struct Pace {
    start: Timestamp,
    began: tokio::time::Instant,
    speed: Speed,
}

impl Pace {
    fn new(recording: &Recording, speed: Speed) -> Self {
        let start = recording.entries.first().map_or(recording.first, |entry| entry.received);
        Self { start, began: tokio::time::Instant::now(), speed }
    }

    /// The virtual time since the first line.
    fn uptime(&self, received: Timestamp) -> Duration {
        Duration::try_from(received.duration_since(self.start)).unwrap_or_default()
    }

    /// The virtual wall clock.
    fn time(&self, uptime: Duration) -> Timestamp {
        self.start.checked_add(uptime).unwrap_or(Timestamp::MAX)
    }

    async fn wait_for(&self, entry: &Entry) {
        if let Speed::Times(times) = self.speed {
            let due = self.uptime(entry.received).div_f64(times);
            tokio::time::sleep_until(self.began + due).await;
        }
    }
}

fn warn_if_slow(
    cadence: &mut Cadence,
    config: &Config,
    feed: &Feed,
    message: &crate::pipeline::frame::Message,
) {
    for (route, slow) in cadence.heard(&config.routes, feed.name(), message) {
        poster::log_too_slow(&config.routes, route, &slow);
    }
}

impl<O: Write, E: Write> Printer<O, E> {
    /// Events go to `out`, refusals to `err`.
    pub(crate) const fn new(out: O, err: E) -> Self {
        Self { out, err, failed: None }
    }

    fn read(
        &mut self,
        feed: &mut Feed,
        counters: &SourceCounters,
        entry: &Entry,
        config: &Config,
    ) -> Vec<crate::pipeline::frame::Message> {
        let Some(bytes) = entry.bytes.clone() else {
            counters.refused(Reason::Oversized);
            let limit = config.max_message_bytes;
            let refusal = crate::decode::Refusal::Oversized { limit };
            self.refusal(feed.name(), Reason::Oversized.as_str(), &refusal.to_string());
            return Vec::new();
        };
        counters.arrived(entry.received, 0);
        let received = Received { at: entry.received, meta: Meta::default(), bytes };
        let Decoded { messages, refused } = feed.read(&received);
        for refusal in refused {
            self.refusal(feed.name(), refusal.reason().as_str(), &refusal.to_string());
        }
        messages
    }

    fn derived(&mut self, deriver: &Deriver, batch: &mut Batch, source: &str) -> io::Result<()> {
        for derived in batch.derived.drain(..) {
            let line = deriver.line(&derived);
            self.line(line.to_string().as_bytes());
        }
        for refusal in batch.refused.drain(..) {
            self.refusal(source, refusal.reason.as_str(), &poster::sentence(&refusal));
        }
        self.check()
    }

    fn event(&mut self, outgoing: &Outgoing) {
        self.line(&outgoing.body);
    }

    fn refusal(&mut self, source: &str, reason: &str, sentence: &str) {
        let line = json!({"source": source, "refused": reason, "message": sentence});
        // Without a stderr there is nobody to tell.
        writeln!(self.err, "{line}").ok();
    }

    /// One line, at once: who reads along sees it now.
    fn line(&mut self, bytes: &[u8]) {
        let mut write = || -> io::Result<()> {
            self.out.write_all(bytes)?;
            self.out.write_all(b"\n")?;
            self.out.flush()
        };
        if self.failed.is_none() {
            self.failed = write().err();
        }
    }

    fn check(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn into_result(mut self) -> io::Result<()> {
        self.check()
    }
}

/// The observer of a replay that posts.
struct Posted {
    printer: Printer<io::Stdout, io::Stderr>,
    summary: Summary,
    tasks: Tasks,
}

impl Observer for Posted {
    fn refused(&mut self, refused: Refused<'_>, _now: Timestamp) {
        self.summary.refused(refused.reason);
        self.printer.refusal(refused.source, refused.reason, refused.sentence);
    }

    fn posting(&mut self, outgoing: &Outgoing) {
        if outgoing.attempt == 1 {
            self.printer.event(outgoing);
        }
        if self.printer.failed.is_some() {
            self.tasks.request_soft_stop();
        }
    }

    fn answered(&mut self, _outgoing: &Outgoing, answer: &Answer, outcome: Outcome) {
        self.summary.answered(answer, outcome);
    }
}
