//! `--post`: the recording as a transport in front of the real poster.

use std::{io, sync::Arc, time::Duration};

use anyhow::Context as _;
use jiff::Timestamp;
use service_kit::{Clock, Tasks, Vars};

use super::{Replay, Summary, pace::Pace, printer::Printer};
use crate::{
    decode::{Meta, Reason},
    pipeline::sampler::{Outcome, Outgoing},
    poster::{
        Observer, Poster, Refused,
        client::{Answer, Client},
    },
    serve,
    source::{Received, inbox::Inbox},
};

/// How long a replay at full speed rests when the poster has not caught up.
const REST: Duration = Duration::from_millis(1);

impl Replay<'_> {
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
                if !sent.taken {
                    return;
                }
                counters.arrived(entry.received, 1, sent.overrun);
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
        if self.printer.has_failed() {
            self.tasks.request_soft_stop();
        }
    }

    fn answered(&mut self, _outgoing: &Outgoing, answer: &Answer, outcome: Outcome) {
        self.summary.answered(answer, outcome);
    }
}
