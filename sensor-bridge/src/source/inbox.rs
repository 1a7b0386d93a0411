//! The bounded channel between all sources and the one task that decides.
//!
//! One lane per source, so that a flood of one costs itself only: a full lane
//! drops its *oldest* message and counts it (`overrun`), since the newest is
//! what a sampling of the present needs. Sending never waits. Lanes are read
//! in turns. Whoever reads is told of a loss with the message after it: what
//! is lost is always older than all that is left in its lane.
//!
//! A closed inbox takes nothing, and says so: what a lane took, its reader gets.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::Received;

/// Messages that one lane holds at most: two seconds of a worker that speaks
/// five hundred times a second.
pub const LANE_MESSAGES: usize = 1024;

/// Bytes that one lane holds at most, so that large messages do not add up.
///
/// One message of any allowed size always fits.
pub const LANE_BYTES: usize = 4 * 1024 * 1024;

/// The receiving end, held by the one task that decides.
#[derive(Debug)]
pub struct Inbox {
    shared: Arc<Shared>,
    /// The lane that is asked first next time.
    turn: usize,
}

/// The sending end of one source. Dropping it closes the lane.
#[derive(Debug)]
pub struct Lane {
    shared: Arc<Shared>,
    index: usize,
}

#[derive(Debug, Default)]
struct Shared {
    lanes: Mutex<Lanes>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Lanes {
    queues: Vec<Queue>,
    /// The reader takes nothing new.
    shut: bool,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Received>,
    bytes: usize,
    /// Messages that went since the last one was taken.
    lost: u64,
    closed: bool,
}

/// One message as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Whose it is: the number of its lane.
    pub lane: usize,
    /// How many messages of this lane had to go between the one before and this one.
    pub lost: u64,
    /// The message.
    pub message: Received,
}

/// What became of messages that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "messages that went must be counted"]
pub struct Sent {
    /// Whether they are in the lane; all of them or none.
    pub taken: bool,
    /// How many older messages of the lane had to go.
    pub overrun: u64,
}

impl Inbox {
    /// An inbox with `count` lanes; a message is told apart by its lane's number.
    pub fn new(count: usize) -> (Self, Vec<Lane>) {
        let queues = std::iter::repeat_with(Queue::default).take(count).collect();
        let lanes = Mutex::new(Lanes { queues, shut: false });
        let shared = Arc::new(Shared { lanes, changed: Notify::new() });
        let ends = (0..count).map(|index| Lane { shared: Arc::clone(&shared), index }).collect();
        (Self { shared, turn: 0 }, ends)
    }

    /// The next message; `None` when every lane is closed and empty.
    ///
    /// Dropping the future half-way loses nothing.
    pub async fn receive(&mut self) -> Option<Delivery> {
        let shared = Arc::clone(&self.shared);
        loop {
            // Registered before looking, so that what is sent in between is not slept over.
            let changed = shared.changed.notified();
            match self.take() {
                Taken::Message(delivery) => return Some(delivery),
                Taken::Closed => return None,
                Taken::Empty => changed.await,
            }
        }
    }

    /// The next message that is there already.
    pub fn try_receive(&mut self) -> Option<Delivery> {
        match self.take() {
            Taken::Message(delivery) => Some(delivery),
            Taken::Empty | Taken::Closed => None,
        }
    }

    /// From now on nothing is taken in; what is there can still be read.
    pub fn close(&mut self) {
        self.shared.lock().shut = true;
    }

    fn take(&mut self) -> Taken {
        let lanes = &mut self.shared.lock().queues;
        let count = lanes.len();
        for index in (self.turn..count).chain(0..self.turn) {
            let Some(lane) = lanes.get_mut(index) else { continue };
            if let Some(message) = lane.messages.pop_front() {
                lane.bytes = lane.bytes.saturating_sub(message.bytes.len());
                let lost = std::mem::take(&mut lane.lost);
                self.turn = (index + 1) % count.max(1);
                return Taken::Message(Delivery { lane: index, lost, message });
            }
        }
        if lanes.iter().all(|lane| lane.closed) { Taken::Closed } else { Taken::Empty }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Taken {
    Message(Delivery),
    Empty,
    Closed,
}

impl Lane {
    /// Whether it would soon drop messages: a replay waits then, a transport never asks.
    pub fn is_half_full(&self) -> bool {
        self.shared.lock().queues.get(self.index).is_some_and(|lane| {
            lane.messages.len() > LANE_MESSAGES / 2 || lane.bytes > LANE_BYTES / 2
        })
    }

    /// Puts a message in; what no longer fits goes, the oldest first. Never waits.
    pub fn send(&self, message: Received) -> Sent {
        self.send_all([message])
    }

    /// As [`Lane::send`] for each, in order, with nothing of the reader in between.
    pub fn send_all(&self, messages: impl IntoIterator<Item = Received>) -> Sent {
        let mut overrun = 0;
        {
            let mut lanes = self.shared.lock();
            if lanes.shut {
                return Sent { taken: false, overrun };
            }
            if let Some(lane) = lanes.queues.get_mut(self.index) {
                for message in messages {
                    overrun += lane.put(message);
                }
            }
        }
        self.shared.changed.notify_one();
        Sent { taken: true, overrun }
    }
}

impl Queue {
    /// Puts a message in and gives how many older ones had to go.
    fn put(&mut self, message: Received) -> u64 {
        self.bytes += message.bytes.len();
        self.messages.push_back(message);
        let mut overrun = 0;
        while self.messages.len() > LANE_MESSAGES
            || (self.bytes > LANE_BYTES && self.messages.len() > 1)
        {
            let Some(gone) = self.messages.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(gone.bytes.len());
            overrun += 1;
        }
        self.lost += overrun;
        overrun
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(lane) = self.shared.lock().queues.get_mut(self.index) {
            lane.closed = true;
        }
        self.shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use jiff::Timestamp;

    use super::*;
    use crate::decode::Meta;

    #[tokio::test]
    async fn a_full_lane_drops_its_oldest_message_and_says_so() {
        let (mut inbox, lanes) = Inbox::new(1);
        let overrun: u64 =
            (0..LANE_MESSAGES + 3).map(|n| lanes[0].send(message(&n.to_string())).overrun).sum();
        assert_eq!(overrun, 3);
        assert_eq!(text(inbox.receive().await), Some((0, "3".to_owned())));
    }

    #[tokio::test]
    async fn a_loss_is_told_with_the_message_after_it_and_once() {
        let (mut inbox, lanes) = Inbox::new(2);
        for n in 0..LANE_MESSAGES + 2 {
            let _flooded = lanes[1].send(message(&n.to_string()));
        }
        let mut told = Vec::new();
        for _ in 0..3 {
            assert_eq!(lanes[0].send(message("quiet")).overrun, 0);
            let quiet = inbox.receive().await.unwrap();
            assert_eq!((quiet.lane, quiet.lost), (0, 0));
            let flooded = inbox.receive().await.unwrap();
            told.push((text(Some(flooded.clone())), flooded.lost));
            // The lane has room for one now, so of two more one goes.
            for _ in 0..told.len() {
                let _flooded = lanes[1].send(message("more"));
            }
        }
        let expected = [(2, 2), (3, 0), (5, 1)];
        let expected = expected.map(|(n, lost)| (Some((1, format!("{n}"))), lost));
        assert_eq!(told, expected);
    }

    #[tokio::test]
    async fn large_messages_do_not_add_up() {
        let (mut inbox, lanes) = Inbox::new(1);
        let large = "x".repeat(LANE_BYTES / 2);
        assert_eq!(lanes[0].send(message("first")).overrun, 0);
        assert_eq!(lanes[0].send(message(&large)).overrun, 0);
        assert_eq!(lanes[0].send(message(&large)).overrun, 1);
        assert_eq!(lanes[0].send(message(&"y".repeat(LANE_BYTES + 1))).overrun, 2);
        assert!(text(inbox.receive().await).is_some_and(|(_, text)| text.starts_with('y')));
    }

    #[tokio::test]
    async fn a_flood_of_one_source_costs_no_message_of_another() {
        let (mut inbox, lanes) = Inbox::new(2);
        for n in 0..LANE_MESSAGES * 2 {
            let _flooded = lanes[0].send(message(&n.to_string()));
        }
        assert_eq!(lanes[1].send(message("quiet")).overrun, 0);
        let _first = inbox.receive().await;
        assert_eq!(text(inbox.receive().await), Some((1, "quiet".to_owned())));
    }

    #[tokio::test]
    async fn the_inbox_ends_when_every_lane_is_closed_and_empty() {
        let (mut inbox, mut lanes) = Inbox::new(2);
        assert_eq!(lanes[0].send(message("last")).overrun, 0);
        lanes.clear();
        assert_eq!(text(inbox.receive().await), Some((0, "last".to_owned())));
        assert_eq!(text(inbox.receive().await), None);
    }

    #[tokio::test]
    async fn a_closed_inbox_takes_nothing_and_gives_what_it_has() {
        let (mut inbox, lanes) = Inbox::new(1);
        assert!(lanes[0].send(message("in time")).taken);
        inbox.close();
        let late = lanes[0].send_all([message("late"), message("later")]);
        assert_eq!(late, Sent { taken: false, overrun: 0 });
        assert_eq!(text(inbox.try_receive()), Some((0, "in time".to_owned())));
        assert_eq!(text(inbox.try_receive()), None);
        let (inbox, lanes) = Inbox::new(1);
        drop(inbox);
        assert!(!lanes[0].send(message("to nobody")).taken);
    }

    #[tokio::test]
    async fn a_waiting_receiver_is_woken_by_what_is_sent() {
        let (mut inbox, lanes) = Inbox::new(1);
        let (received, _sent) =
            tokio::join!(inbox.receive(), async { lanes[0].send(message("now")) });
        assert_eq!(text(received), Some((0, "now".to_owned())));
    }

    fn message(text: &str) -> Received {
        Received {
            at: Timestamp::UNIX_EPOCH,
            meta: Meta::default(),
            bytes: Bytes::copy_from_slice(text.as_bytes()),
        }
    }

    fn text(received: Option<Delivery>) -> Option<(usize, String)> {
        let Delivery { lane, lost: _, message } = received?;
        Some((lane, String::from_utf8(message.bytes.to_vec()).unwrap()))
    }
}
