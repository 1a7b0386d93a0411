//! Which connection has to leave, and when: a table of phases, without I/O and with the time passed in.
//!
//! ```text
//!            first byte            head complete              answer on its way out
//!   Idle ---------------> Head ------------------> Busy ---------------------------> Idle
//!     \____________________ \______________________ \___________________> Closing (last words)
//! ```
//!
//! When the table is full, a newcomer takes the place of one that is closing already, else of the one
//! longest idle, else of the one longest in the middle of its headers (a healthy client sends them at
//! once). One with a request in flight is never taken. The place is free when the one that leaves is
//! gone, not when it was told, so that there are never more than `connections`.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// A connection's number; never used twice.
pub(super) type Id = u64;

/// The limits of connections. The defaults are those of CONTRACT, section 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many there may be at a time.
    pub connections: usize,
    /// How long one may be idle.
    pub idle: Duration,
    /// How long headers may take, from the first byte; also a TLS handshake.
    pub head: Duration,
    /// How long a client may not take any of its answer.
    pub stall: Duration,
    /// How long a closing connection still listens, so that the client can read the last answer
    /// before a reset takes it away.
    pub linger: Duration,
    /// How long answers may still take when the service ends.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            idle: Duration::from_mins(1),
            head: Duration::from_secs(super::HEAD_SECONDS),
            stall: Duration::from_secs(30),
            linger: Duration::from_secs(1),
            drain: Duration::from_secs(2),
        }
    }
}

/// What becomes of a newcomer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// It has a place.
    Seat(Id),
    /// It gets a place when this one, which has to leave, is gone.
    After(Id),
    /// Nobody can leave, or somebody is leaving already: ask again after a change.
    Wait,
}

/// Why a connection's time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expired {
    /// Idle for too long.
    Idle,
    /// The headers did not come.
    Head,
    /// The answer was not taken.
    Stall,
    /// Everything was said.
    Closing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Head,
    Busy { stalled: Option<Instant> },
    Closing,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    phase: Phase,
    since: Instant,
    leaving: bool,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Slots {
    limits: Limits,
    table: BTreeMap<Id, Slot>,
    next: Id,
}

impl Slots {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, table: BTreeMap::new(), next: 0 }
    }

    /// A newcomer asks for a place.
    pub(super) fn admit(&mut self, now: Instant) -> Admission {
        if self.table.len() < self.limits.connections {
            let id = self.next;
            self.next = self.next.saturating_add(1);
            self.table.insert(id, Slot { phase: Phase::Idle, since: now, leaving: false });
            return Admission::Seat(id);
        }
        if self.table.values().any(|slot| slot.leaving) {
            return Admission::Wait;
        }
        let rank = |slot: &Slot| match slot.phase {
            Phase::Closing => Some(0),
            Phase::Idle => Some(1),
            Phase::Head => Some(2),
            Phase::Busy { .. } => None,
        };
        let victim = self
            .table
            .iter_mut()
            .filter_map(|(id, slot)| Some(((rank(slot)?, slot.since, *id), slot)))
            .min_by_key(|(order, _)| *order);
        match victim {
            Some(((_, _, id), slot)) => {
                slot.leaving = true;
                Admission::After(id)
            }
            None => Admission::Wait,
        }
    }

    /// Bytes came in.
    pub(super) fn bytes(&mut self, id: Id, now: Instant) {
        self.change(id, now, |phase| match phase {
            Phase::Idle => Some(Phase::Head),
            Phase::Head | Phase::Busy { .. } | Phase::Closing => None,
        });
    }

    /// A TLS handshake is over: what came before was no request.
    pub(super) fn secured(&mut self, id: Id, now: Instant) {
        self.change(id, now, |_| Some(Phase::Idle));
    }

    /// A request's headers are complete. False when the connection has to leave: then the request must
    /// not be served, because nobody could be answered.
    pub(super) fn begin(&mut self, id: Id, now: Instant) -> bool {
        let stays = self.table.get(&id).is_some_and(|slot| !slot.leaving);
        if stays {
            self.change(id, now, |_| Some(Phase::Busy { stalled: None }));
        }
        stays
    }

    /// The answer is out.
    pub(super) fn answered(&mut self, id: Id, now: Instant) {
        self.change(id, now, |phase| match phase {
            Phase::Busy { .. } => Some(Phase::Idle),
            Phase::Idle | Phase::Head | Phase::Closing => None,
        });
    }

    /// The client takes nothing of its answer, or (with `None`) takes something again. True when that
    /// is news.
    pub(super) fn stalled(&mut self, id: Id, at: Option<Instant>) -> bool {
        match self.table.get_mut(&id) {
            Some(Slot { phase: Phase::Busy { stalled }, .. })
                if stalled.is_some() != at.is_some() =>
            {
                *stalled = at;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Nothing more will be served; it is only listened to until the client has read.
    pub(super) fn closing(&mut self, id: Id, now: Instant) {
        self.change(id, now, |_| Some(Phase::Closing));
    }

    /// The connection is gone.
    pub(super) fn gone(&mut self, id: Id) {
        self.table.remove(&id);
    }

    /// When the connection's time is over, and why; none while a request is in flight.
    pub(super) fn deadline(&self, id: Id) -> Option<(Instant, Expired)> {
        let slot = self.table.get(&id)?;
        let (from, limit, why) = match slot.phase {
            Phase::Idle => (slot.since, self.limits.idle, Expired::Idle),
            Phase::Head => (slot.since, self.limits.head, Expired::Head),
            Phase::Busy { stalled } => (stalled?, self.limits.stall, Expired::Stall),
            Phase::Closing => (slot.since, self.limits.linger, Expired::Closing),
        };
        Some((from.checked_add(limit)?, why))
    }

    fn change(&mut self, id: Id, now: Instant, to: impl FnOnce(Phase) -> Option<Phase>) {
        if let Some(slot) = self.table.get_mut(&id)
            && let Some(phase) = to(slot.phase)
        {
            slot.phase = phase;
            slot.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(connections: usize) -> (Slots, impl Fn(u64) -> Instant) {
        let start = Instant::now();
        let slots = Slots::new(Limits { connections, ..Limits::default() });
        (slots, move |seconds| start + Duration::from_secs(seconds))
    }

    fn seat(slots: &mut Slots, now: Instant) -> Id {
        match slots.admit(now) {
            Admission::Seat(id) => id,
            other @ (Admission::After(_) | Admission::Wait) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_one_longest_idle() {
        let (mut slots, at) = table(3);
        let silent = seat(&mut slots, at(0));
        let served = seat(&mut slots, at(1));
        let busy = seat(&mut slots, at(2));
        for (id, now) in [(served, 3), (busy, 4)] {
            slots.bytes(id, at(now));
            assert!(slots.begin(id, at(now)));
        }
        slots.answered(served, at(5));
        assert_eq!(slots.admit(at(6)), Admission::After(silent));
        assert_eq!(slots.admit(at(6)), Admission::Wait, "one leaves at a time");
        slots.gone(silent);
        let newcomer = seat(&mut slots, at(6));
        assert_eq!(slots.admit(at(7)), Admission::After(served), "idle since 5, the other since 6");
        slots.gone(served);
        seat(&mut slots, at(7));
        assert_eq!(slots.admit(at(8)), Admission::After(newcomer));
    }

    #[test]
    fn slow_headers_leave_after_the_idle_and_closing_ones_before() {
        let (mut slots, at) = table(3);
        let slow = seat(&mut slots, at(0));
        slots.bytes(slow, at(0));
        let idle = seat(&mut slots, at(1));
        let closing = seat(&mut slots, at(2));
        slots.closing(closing, at(3));
        for expected in [closing, idle, slow] {
            assert_eq!(slots.admit(at(4)), Admission::After(expected));
            slots.gone(expected);
            let busy = seat(&mut slots, at(4));
            assert!(slots.begin(busy, at(4)));
        }
        assert_eq!(slots.admit(at(5)), Admission::Wait, "all have a request in flight");
    }

    #[test]
    fn one_that_has_to_leave_is_not_served_any_more() {
        let (mut slots, at) = table(1);
        let old = seat(&mut slots, at(0));
        assert_eq!(slots.admit(at(1)), Admission::After(old));
        slots.bytes(old, at(1));
        assert!(!slots.begin(old, at(1)));
        slots.gone(old);
        assert!(!slots.begin(old, at(1)));
    }

    #[test]
    fn each_phase_has_its_limit_and_a_request_in_flight_has_none() {
        let (mut slots, at) = table(1);
        let id = seat(&mut slots, at(0));
        assert_eq!(slots.deadline(id), Some((at(60), Expired::Idle)));
        slots.bytes(id, at(10));
        assert_eq!(slots.deadline(id), Some((at(15), Expired::Head)));
        slots.bytes(id, at(14));
        assert_eq!(slots.deadline(id), Some((at(15), Expired::Head)), "more bytes win no time");
        slots.begin(id, at(14));
        assert_eq!(slots.deadline(id), None);
        assert!(slots.stalled(id, Some(at(100))));
        assert!(!slots.stalled(id, Some(at(110))), "still the same stall");
        assert_eq!(slots.deadline(id), Some((at(130), Expired::Stall)));
        assert!(slots.stalled(id, None));
        assert_eq!(slots.deadline(id), None);
        slots.answered(id, at(120));
        assert_eq!(slots.deadline(id), Some((at(180), Expired::Idle)));
        slots.closing(id, at(130));
        assert_eq!(slots.deadline(id), Some((at(131), Expired::Closing)));
        slots.gone(id);
        assert_eq!(slots.deadline(id), None);
    }

    #[test]
    fn a_handshake_counts_as_headers_and_starts_the_idle_time_again() {
        let (mut slots, at) = table(1);
        let id = seat(&mut slots, at(0));
        slots.bytes(id, at(20));
        assert_eq!(slots.deadline(id), Some((at(25), Expired::Head)));
        slots.secured(id, at(21));
        assert_eq!(slots.deadline(id), Some((at(81), Expired::Idle)));
    }

    proptest! {
        #[test]
        fn there_are_never_too_many_and_a_busy_one_never_leaves(
            steps in prop::collection::vec((0_u8..6, 0_usize..6), 0..200),
        ) {
            let (mut slots, at) = table(4);
            let mut here: Vec<(Id, bool)> = Vec::new();
            for (now, (step, which)) in (0..).zip(steps) {
                let now = at(now);
                let pick = here.get(which).map(|(id, _)| *id);
                match (step, pick) {
                    (0 | 1, _) => match slots.admit(now) {
                        Admission::Seat(id) => here.push((id, false)),
                        Admission::After(id) => {
                            prop_assert_eq!(here.iter().find(|h| h.0 == id), Some(&(id, false)));
                        }
                        Admission::Wait => {}
                    },
                    (2, Some(id)) => slots.bytes(id, now),
                    (3, Some(id)) => here[which].1 |= slots.begin(id, now),
                    (4, Some(id)) => {
                        slots.answered(id, now);
                        here[which].1 = false;
                    }
                    (5, Some(id)) => {
                        slots.gone(id);
                        here.remove(which);
                    }
                    _ => {}
                }
                prop_assert!(here.len() <= 4);
                prop_assert_eq!(here.len(), slots.table.len());
            }
        }
    }
}
