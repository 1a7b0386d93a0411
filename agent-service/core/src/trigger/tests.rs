//! Each step and each boundary of a trigger, and what holds for every stream of observations.

use agent_wire::event::Reason::{
    BelowThreshold, Cooldown, OutOfOrder, StaleOrFuture, WaitingForConsecutive,
};
use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp::constant(1_789_552_800, 0);

fn at(milliseconds: i64) -> Timestamp {
    NOW + SignedDuration::from_millis(milliseconds)
}

fn spec() -> Spec {
    Spec {
        kind: EventType::new("person.detected").unwrap(),
        source: SourceName::new("front-camera").unwrap(),
        prompt: "Look.".to_owned(),
        min_confidence: Confidence::new(0.85).unwrap(),
        consecutive: 3,
        max_gap: SignedDuration::from_secs(2),
        cooldown: SignedDuration::from_secs(30),
        max_age: SignedDuration::from_secs(10),
    }
}

fn state(sequence: u32, last: i64, fired: Option<i64>) -> State {
    State { sequence, last: Some(at(last)), fired: fired.map(at) }
}

fn confidence(number: f64) -> Confidence {
    Confidence::new(number).unwrap()
}

#[test]
fn the_steps_are_taken_in_their_order_and_at_their_boundaries() {
    let high = Some(confidence(0.93));
    let low = Some(Confidence::new(0.849_999).unwrap());
    let equal = Some(Confidence::new(0.85).unwrap());
    let fresh = State::default();
    let run = state(2, -500, None);
    let fire = (State { sequence: 0, last: Some(NOW), fired: Some(NOW) }, Verdict::Fire);
    let wait = |state, reason| (state, Verdict::Wait(reason));
    let cases = [
        ("first good one", fresh, 0, high, wait(state(1, 0, None), WaitingForConsecutive)),
        ("third in a row fires", run, 0, high, fire),
        ("exactly the threshold", run, 0, equal, fire),
        ("just below it", run, 0, low, wait(state(0, 0, None), BelowThreshold)),
        ("no confidence", run, 0, None, wait(state(0, 0, None), BelowThreshold)),
        (
            "exactly max_age old",
            fresh,
            -10_000,
            high,
            wait(state(1, -10_000, None), WaitingForConsecutive),
        ),
        ("older: untouched", run, -10_001, high, wait(run, StaleOrFuture)),
        (
            "exactly 5 s ahead",
            fresh,
            5_000,
            high,
            wait(state(1, 5_000, None), WaitingForConsecutive),
        ),
        ("more: untouched", run, 5_001, high, wait(run, StaleOrFuture)),
        ("stale wins over low", run, -10_001, low, wait(run, StaleOrFuture)),
        ("equal time: untouched", run, -500, high, wait(run, OutOfOrder)),
        ("earlier time: untouched", run, -501, high, wait(run, OutOfOrder)),
        ("order wins over low", run, -500, low, wait(run, OutOfOrder)),
        ("a gap of exactly max_gap", state(2, -2_000, None), 0, high, fire),
        (
            "a longer one",
            state(2, -2_001, None),
            0,
            high,
            wait(state(1, 0, None), WaitingForConsecutive),
        ),
        (
            "in cooldown it grows",
            state(2, -500, Some(-29_999)),
            0,
            high,
            wait(state(3, 0, Some(-29_999)), Cooldown),
        ),
        (
            "cooldown names itself first",
            state(0, -500, Some(-1_000)),
            0,
            high,
            wait(state(1, 0, Some(-1_000)), Cooldown),
        ),
        (
            "low in cooldown",
            state(2, -500, Some(-1_000)),
            0,
            low,
            wait(state(0, 0, Some(-1_000)), BelowThreshold),
        ),
        ("exactly at its end", state(2, -500, Some(-30_000)), 0, high, fire),
        ("grown in it, fires at once after it", state(9, -500, Some(-30_000)), 0, high, fire),
    ];
    for (name, before, observed, confidence, expected) in cases {
        assert_eq!(step(&spec(), before, at(observed), confidence, NOW), expected, "{name}");
    }
}

#[test]
fn a_nanosecond_later_is_in_order() {
    let high = Some(confidence(0.93));
    let last = at(-100);
    let before = State { sequence: 0, last: Some(last), fired: None };
    let next = last + SignedDuration::from_nanos(1);
    let (after, verdict) = step(&spec(), before, next, high, NOW);
    assert_eq!((after.last, verdict), (Some(next), Verdict::Wait(WaitingForConsecutive)));
}

#[test]
fn without_a_threshold_an_observation_needs_no_confidence() {
    let open = Spec { min_confidence: Confidence::ZERO, consecutive: 1, ..spec() };
    assert_eq!(step(&open, State::default(), NOW, None, NOW).1, Verdict::Fire);
    let zero = Some(Confidence::ZERO);
    assert_eq!(step(&open, State::default(), NOW, zero, NOW).1, Verdict::Fire);
}

#[test]
fn a_last_that_lies_ahead_of_the_clock_is_forgotten() {
    let high = Some(confidence(0.93));
    let allowed = state(2, 5_000, None);
    assert_eq!(step(&spec(), allowed, at(4_000), high, NOW), (allowed, Verdict::Wait(OutOfOrder)));
    let set_back = state(2, 5_001, None);
    let (after, verdict) = step(&spec(), set_back, at(0), high, NOW);
    assert_eq!((after, verdict), (state(1, 0, None), Verdict::Wait(WaitingForConsecutive)));
}

#[test]
fn a_firing_time_in_the_future_becomes_now() {
    let high = Some(confidence(0.93));
    let set_back = state(2, -500, Some(3_600_000));
    let (after, verdict) = step(&spec(), set_back, NOW, high, NOW);
    assert_eq!((after, verdict), (state(3, 0, Some(0)), Verdict::Wait(Cooldown)));
    assert_eq!(after.cooldown_left(&spec(), NOW), spec().cooldown, "it starts again, never longer");
    assert_eq!(after.cooldown_left(&spec(), at(30_000)), SignedDuration::ZERO);
}

#[test]
fn a_task_expires_when_its_observation_is_max_age_old() {
    assert_eq!(spec().expires_at(NOW), at(10_000));
    assert_eq!(spec().expires_at(Timestamp::MAX), Timestamp::MAX);
}

proptest! {
    /// Whatever comes: two firings are a cooldown apart, each has `consecutive` good observations in
    /// time order with small gaps behind it, and `last` only grows.
    #[test]
    fn every_firing_is_earned(
        consecutive in 1_u32..5,
        observations in prop::collection::vec((0_i64..3_000, -12_000_i64..7_000, prop::option::of(0_u8..=100)), 1..200),
    ) {
        let spec = Spec { consecutive, ..spec() };
        let mut now = NOW;
        let mut state = State::default();
        let mut run: Vec<Timestamp> = Vec::new();
        let mut fired: Option<Timestamp> = None;
        for (pause, offset, percent) in observations {
            now += SignedDuration::from_millis(pause);
            let seen = now + SignedDuration::from_millis(offset);
            let confidence = percent.map(|p| Confidence::new(f64::from(p) / 100.0).unwrap());
            let before = state;
            let (after, verdict) = step(&spec, state, seen, confidence, now);
            prop_assert!(after.last >= before.last);
            let touched = !matches!(verdict, Verdict::Wait(StaleOrFuture | OutOfOrder));
            if touched {
                if run.last().is_some_and(|last| seen.duration_since(*last) > spec.max_gap) {
                    run.clear();
                }
                if confidence.is_some_and(|c| c >= spec.min_confidence) { run.push(seen) } else { run.clear() }
            } else {
                prop_assert_eq!(after, before);
            }
            if verdict == Verdict::Fire {
                prop_assert!(run.len() >= usize::try_from(consecutive).unwrap());
                prop_assert!(fired.is_none_or(|last| now.duration_since(last) >= spec.cooldown));
                fired = Some(now);
                run.clear();
            }
            prop_assert_eq!(usize::try_from(after.sequence).unwrap(), run.len());
            state = after;
        }
    }
}
