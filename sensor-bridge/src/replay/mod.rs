//! `replay`: a recording through the pipeline, without or with a service.
//!
//! Without `--post` time is virtual: it goes by the recording's own receive
//! times and every post is taken at once, so that the same recording always
//! gives the same events. With `--post` the recording takes the place of a
//! transport in front of the real poster, in real time.

mod pace;
mod post;
mod printer;
mod recording;
mod summary;

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use self::{pace::Pace, recording::Recording};
pub(crate) use self::{pace::Speed, printer::Printer, summary::Summary};
use crate::{
    config::Config,
    delivery::Reply,
    metrics::SourceCounters,
    pipeline::{Deriver, derive::Batch, frame::Message, sampler::Sampler},
    poster::{self, Feed, cadence::Cadence},
    serve,
};

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

/// A recording, ready to be replayed.
pub(crate) struct Replay<'a> {
    config: &'a Config,
    recording: Recording,
    feed: Feed,
    counters: Arc<SourceCounters>,
    shift: SignedDuration,
    speed: Speed,
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
                    let sentence = poster::log::sentence(&refusal);
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
}

fn warn_if_slow(cadence: &mut Cadence, config: &Config, feed: &Feed, message: &Message) {
    for (route, slow) in cadence.heard(&config.routes, feed.name(), message) {
        poster::log::too_slow(&config.routes, route, &slow);
    }
}
