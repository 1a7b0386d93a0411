//! What may happen in one run: frames, what becomes of each post, and the numbers of the trigger.

use std::time::Duration;

use proptest::prelude::*;

use crate::pipeline::route::Expect;
use crate::pipeline::schedule::bucket::Budget;

pub(super) const LEVELS: [f64; 7] = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0];
pub(super) const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) camera: usize,
    pub(super) wait_ms: u32,
    pub(super) level: usize,
    /// It has the time of the frame before it.
    pub(super) repeat: bool,
    /// It is lost in front of the sampler; the sampler is told before the next one.
    pub(super) lost: bool,
}

/// What happens to one attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// It arrives, and the answer comes after so long.
    Answered(u32),
    /// It arrives, and the answer is lost.
    AnswerLost,
    /// It arrives long after it was given up; the answer is lost.
    Late(u32),
    /// It never arrives.
    Lost,
    /// 429 with so many seconds.
    Limited(u64),
    /// This status, and nothing was done.
    Status(u16),
}

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) frames: Vec<Frame>,
    pub(super) fates: Vec<Fate>,
    pub(super) threshold: Option<f64>,
    pub(super) consecutive: u32,
    pub(super) cooldown: u64,
    pub(super) max_gap: u64,
    pub(super) max_age: u64,
    pub(super) budget: Budget,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => (0..300_u32).prop_map(Fate::Answered),
        2 => Just(Fate::AnswerLost),
        2 => (0..6000_u32).prop_map(Fate::Late),
        3 => Just(Fate::Lost),
        2 => (0..4_u64).prop_map(Fate::Limited),
        2 => prop_oneof![Just(500), Just(400), Just(409), Just(401)].prop_map(Fate::Status),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    let wait = prop_oneof![8 => 1..150_u32, 1 => 0..3_000_u32];
    // Mostly high: a run must have a chance.
    let level = prop_oneof![2 => 0..LEVELS.len(), 3 => 5..LEVELS.len()];
    (0..2_usize, wait, level, prop::bool::weighted(0.1), prop::bool::weighted(0.03)).prop_map(
        |(camera, wait_ms, level, repeat, lost)| Frame { camera, wait_ms, level, repeat, lost },
    )
}

pub(super) fn scenario() -> impl Strategy<Value = Scenario> {
    (
        prop::collection::vec(frame(), 1..150),
        prop::collection::vec(fate(), 1..40),
        prop::option::of(Just(0.85)),
        1..4_u32,
        prop_oneof![Just(0), Just(3)],
        1..4_u64,
        prop_oneof![Just(2_u64), Just(10)],
        (1..9_u32, 1..9_u32),
    )
        .prop_map(
            |(frames, fates, threshold, consecutive, cooldown, max_gap, max_age, (rate, burst))| {
                let budget = Budget { per_second: f64::from(rate), burst };
                Scenario {
                    frames,
                    fates,
                    threshold,
                    consecutive,
                    cooldown,
                    max_gap,
                    max_age,
                    budget,
                }
            },
        )
}

impl Scenario {
    pub(super) fn expect(&self) -> Expect {
        Expect {
            min_confidence: self.threshold,
            consecutive: self.consecutive,
            max_gap: Duration::from_secs(self.max_gap),
            cooldown: Duration::from_secs(self.cooldown),
            max_age: Duration::from_secs(self.max_age),
        }
    }

    /// Those for which the rule must hold.
    pub(super) fn thresholds(&self) -> Vec<f64> {
        self.threshold.map_or_else(|| LEVELS[1..].to_vec(), |threshold| vec![threshold])
    }
}
