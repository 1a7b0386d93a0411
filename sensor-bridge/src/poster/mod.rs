//! The one task that owns the pipeline: messages in, posts out.
//!
//! It decides nothing about sampling; [`Sampler`] does, and this loop does
//! what it says. Posts run beside it, so that receiving never waits for
//! sending: several streams at once, each stream strictly one after another
//! (the sampler hands out no second one). On an orderly stop what was received
//! by then is still taken and nothing after it, and unsent lows go first, within 2 s.

pub mod cadence;
pub mod client;
mod feed;
pub mod log;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use service_kit::{Clock, Tasks};
use tokio::task::JoinSet;

pub use self::feed::Feed;
use self::{
    cadence::Cadence,
    client::{Answer, Client},
};
use crate::{
    decode::Decoded,
    metrics::Throttle,
    pipeline::sampler::{Outcome, Outgoing, Sampler, Snapshot},
    source::inbox::{Delivery, Inbox},
};

/// Posts under way at once: one round trip of half a second at the service's ten a second, thrice.
const MAX_POSTS: usize = 16;

/// How long an orderly stop goes on sending (BRIDGE.md section 3).
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// The shortest sleep: a deadline that brought nothing does not make the loop spin.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// Who wants to see what is posted, and what came of it.
pub trait Observer: Send {
    /// A message, or a detection in it, was not used; `reason` is a stable name.
    fn refused(&mut self, refused: Refused<'_>, now: Timestamp);
    /// A post is about to be sent: `outgoing.attempt` is 1 the first time.
    fn posting(&mut self, outgoing: &Outgoing);
    /// It was answered, or given up.
    fn answered(&mut self, outgoing: &Outgoing, answer: &Answer, outcome: Outcome);
}

/// Something of a message that did not become an observation.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// The configured source.
    pub source: &'a str,
    /// The stable name of the reason.
    pub reason: &'static str,
    /// What is wrong, and what would be right.
    pub sentence: &'a str,
}

/// The poster and all that it owns.
pub struct Poster<O> {
    sampler: Sampler,
    inbox: Inbox,
    feeds: Vec<Feed>,
    client: Arc<Client>,
    clock: Clock,
    cadence: Cadence,
    observer: O,
    posts: JoinSet<(Outgoing, Answer)>,
    trouble: Throttle<&'static str>,
}

/// What it came to.
#[derive(Debug)]
pub struct Ended<O> {
    /// The counters of the pipeline.
    pub snapshot: Snapshot,
    /// The observer, with what it saw.
    pub observer: O,
}

/// What woke the loop.
enum Event {
    Stop,
    Received(Delivery),
    SourcesEnded,
    Answered(Box<(Outgoing, Answer)>),
    Deadline,
}

impl<O: Observer> Poster<O> {
    /// A poster; the feeds are in the order of the inbox's lanes.
    pub fn new(
        sampler: Sampler,
        inbox: Inbox,
        feeds: Vec<Feed>,
        client: Arc<Client>,
        clock: Clock,
        observer: O,
    ) -> Self {
        Self {
            sampler,
            inbox,
            feeds,
            client,
            clock,
            cadence: Cadence::default(),
            observer,
            posts: JoinSet::new(),
            trouble: Throttle::default(),
        }
    }

    /// Runs until the soft stop, or until every source has ended and nothing is left to send.
    pub async fn run(mut self, tasks: &Tasks) -> Ended<O> {
        let mut open = true;
        loop {
            self.send_due();
            if !open && self.posts.is_empty() && self.sampler.is_drained() {
                break;
            }
            match self.next_event(tasks, open).await {
                Event::Stop => break,
                Event::Received(delivery) => self.take(&delivery),
                Event::SourcesEnded => open = false,
                Event::Answered(done) => self.take_answer(&done.0, &done.1),
                Event::Deadline => {}
            }
        }
        self.stop(tasks).await;
        Ended { snapshot: self.sampler.snapshot(), observer: self.observer }
    }

    async fn next_event(&mut self, tasks: &Tasks, open: bool) -> Event {
        let deadline = self.deadline();
        tokio::select! {
            () = tasks.soft_stop().cancelled() => Event::Stop,
            received = self.inbox.receive(), if open => match received {
                Some(delivery) => Event::Received(delivery),
                None => Event::SourcesEnded,
            },
            Some(Ok(done)) = self.posts.join_next() => Event::Answered(Box::new(done)),
            () = sleep_for(deadline) => Event::Deadline,
        }
    }

    /// Sends what is left, lows first, for at most [`STOP_WITHIN`].
    async fn stop(&mut self, tasks: &Tasks) {
        self.inbox.close();
        while let Some(delivery) = self.inbox.try_receive() {
            self.take(&delivery);
        }
        self.sampler.stop(self.clock.uptime());
        let send = async {
            loop {
                self.send_due();
                if self.posts.is_empty() && self.sampler.is_drained() {
                    return;
                }
                let deadline = self.deadline();
                tokio::select! {
                    Some(Ok(done)) = self.posts.join_next() => self.take_answer(&done.0, &done.1),
                    () = sleep_for(deadline) => {}
                }
            }
        };
        let in_time = tokio::time::timeout(STOP_WITHIN, send);
        let sent = tasks.hard_stop().run_until_cancelled(in_time).await;
        if !matches!(sent, Some(Ok(()))) {
            let left = self.sampler.snapshot().pending;
            tracing::warn!(observations = left, "stopped with unsent observations");
        }
        self.posts.shutdown().await;
    }

    /// How long until something is due; `None` while nothing is, or no post has room.
    fn deadline(&mut self) -> Option<Duration> {
        if self.posts.len() >= MAX_POSTS {
            return None;
        }
        let uptime = self.clock.uptime();
        let deadline = self.sampler.next_deadline(uptime)?;
        Some(deadline.saturating_sub(uptime).max(LEAST_WAIT))
    }

    fn take(&mut self, delivery: &Delivery) {
        let Some(feed) = self.feeds.get_mut(delivery.lane) else { return };
        let now = self.clock.now();
        if delivery.lost > 0 {
            // What was lost came before this message, and after all that was taken so far.
            feed.lost();
            self.sampler.on_lost(feed.name(), self.clock.uptime());
            log::lost(&mut self.trouble, feed.name(), now);
        }
        let Decoded { messages, refused } = feed.read(&delivery.message);
        let source = feed.name();
        for refusal in refused {
            let (reason, sentence) = (refusal.reason().as_str(), refusal.to_string());
            self.observer.refused(Refused { source, reason, sentence: &sentence }, now);
        }
        for message in messages {
            for (route, slow) in self.cadence.heard(self.sampler.routes(), source, &message) {
                log::too_slow(self.sampler.routes(), route, &slow);
            }
            for refusal in self.sampler.on_message(source, &message, self.clock.uptime()) {
                let sentence = log::sentence(&refusal);
                let reason = refusal.reason.as_str();
                self.observer.refused(Refused { source, reason, sentence: &sentence }, now);
            }
        }
    }

    fn send_due(&mut self) {
        while self.posts.len() < MAX_POSTS {
            let (now, uptime) = (self.clock.now(), self.clock.uptime());
            let Some(outgoing) = self.sampler.next(now, uptime) else { return };
            self.observer.posting(&outgoing);
            let client = Arc::clone(&self.client);
            self.posts.spawn(async move {
                let answer = client.post(outgoing.body.clone(), now).await;
                (outgoing, answer)
            });
        }
    }

    fn take_answer(&mut self, outgoing: &Outgoing, answer: &Answer) {
        let (now, uptime) = (self.clock.now(), self.clock.uptime());
        let jitter = fastrand::f64();
        let outcome = self.sampler.on_reply(outgoing.stream, answer.reply, jitter, now, uptime);
        let Some(outcome) = outcome else { return };
        log::answer(&mut self.trouble, outgoing, answer, outcome, now);
        self.observer.answered(outgoing, answer, outcome);
    }
}

async fn sleep_for(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
