use serde_json::Map;

use super::*;

const SPACING: Duration = Duration::from_millis(250);
const NONE: [i64; 0] = [];

/// A stream, its counters, and a clock that stands still.
struct Bench {
    stream: Stream,
    counters: Counters,
    uptime: Duration,
}

impl Bench {
    fn new(threshold: Option<f64>) -> Self {
        let rule = Rule { threshold, spacing: SPACING, max_gap: Duration::from_secs(2) };
        Self {
            stream: Stream::new(rule),
            counters: Counters::default(),
            uptime: Duration::from_secs(100),
        }
    }

    fn see(&mut self, ms: i64, confidence: f64) {
        self.stream.push(observation(ms, confidence), &mut self.counters);
    }

    /// Frames were lost in front of the stream.
    fn lose(&mut self) {
        self.stream.lose_unseen(&mut self.counters);
    }

    fn again(&mut self, ms: i64, confidence: f64) {
        self.stream.replace(observation(ms, confidence), &mut self.counters);
    }

    /// Posts what is due now; the milliseconds of what was posted.
    fn post(&mut self, ending: Ending) -> Vec<i64> {
        let mut posted = Vec::new();
        while self.stream.due().is_some_and(|(_, at)| at <= self.uptime) {
            let flight = self.stream.hand_out(self.uptime, &mut self.counters).unwrap();
            posted.push(flight.observation.at.as_millisecond());
            self.stream.finish(ending, &mut self.counters);
        }
        posted
    }

    fn taken(&mut self) -> Vec<i64> {
        self.post(Ending::Taken)
    }
}

fn observation(ms: i64, confidence: f64) -> Observation {
    let at = Timestamp::from_millisecond(ms).unwrap();
    Observation { at, confidence, data: Map::new(), message_id: None }
}

#[test]
fn a_known_threshold_sends_changes_at_once_and_standing_highs_spaced() {
    let mut bench = Bench::new(Some(0.85));
    bench.see(1, 0.1);
    bench.see(2, 0.84);
    assert_eq!(bench.taken(), NONE, "lows before any high are silent");
    bench.see(3, 0.85);
    assert_eq!(bench.taken(), [3], "the first high");
    bench.see(4, 0.9);
    bench.see(5, 0.9);
    assert_eq!(bench.taken(), NONE, "not before the spacing");
    assert_eq!(bench.stream.due(), Some((Class::Resample, bench.uptime + SPACING)));
    bench.uptime += SPACING;
    assert_eq!(bench.taken(), [5], "the newest");
    bench.see(6, 0.5);
    assert_eq!(bench.taken(), [6], "a low after a high");
    bench.see(7, 0.4);
    assert_eq!(bench.taken(), NONE, "a low after a low");
    bench.see(8, 0.9);
    assert_eq!(bench.taken(), [8], "a high after a low");
    let counters = &bench.counters;
    assert_eq!((counters.observations, counters.highs, counters.lows), (8, 4, 4));
    assert_eq!((counters.silent, counters.superseded, counters.delivered), (3, 1, 4));
}

#[test]
fn a_low_is_never_overwritten_by_a_high_and_the_lowest_is_kept() {
    let cases: [(&str, &[(i64, f64)], &[i64]); 6] = [
        ("a high after it waits", &[(2, 0.2), (3, 0.9)], &[2, 3]),
        ("the newest high", &[(2, 0.2), (3, 0.9), (4, 0.95)], &[2, 4]),
        ("the lowest low", &[(2, 0.5), (3, 0.2), (4, 0.4)], &[3]),
        ("the lowest of two valleys", &[(2, 0.5), (3, 0.9), (4, 0.2), (5, 0.9)], &[4, 5]),
        ("the first valley is lower", &[(2, 0.2), (3, 0.9), (4, 0.5), (5, 0.9)], &[2, 5]),
        ("a high that a low ended is gone", &[(2, 0.2), (3, 0.9), (4, 0.5)], &[2]),
    ];
    for (name, frames, expected) in cases {
        let mut bench = Bench::new(Some(0.85));
        bench.see(1, 0.9);
        assert_eq!(bench.taken(), [1]);
        for &(ms, confidence) in frames {
            bench.see(ms, confidence);
            assert!(bench.stream.pending() <= 2, "{name}");
        }
        assert_eq!(bench.taken(), expected, "{name}");
    }
}

#[test]
fn without_a_threshold_the_valley_goes_before_what_follows_it() {
    let cases: [(&str, &[(i64, f64)], &[i64]); 7] = [
        ("no valley", &[(2, 0.7), (3, 0.8)], &[3]),
        ("a valley", &[(2, 0.3), (3, 0.8)], &[2, 3]),
        ("the lowest of it", &[(2, 0.5), (3, 0.3), (4, 0.4), (5, 0.8)], &[3, 5]),
        ("falling is no valley", &[(2, 0.5), (3, 0.4), (4, 0.3)], &[4]),
        ("as low as the next", &[(2, 0.3), (3, 0.3)], &[3]),
        ("as low as the last", &[(2, 0.6), (3, 0.8)], &[3]),
        ("absence", &[(2, 0.0), (3, 0.8)], &[2, 3]),
    ];
    for (name, frames, expected) in cases {
        let mut bench = Bench::new(None);
        bench.see(1, 0.6);
        assert_eq!(bench.taken(), [1], "the first");
        for &(ms, confidence) in frames {
            bench.see(ms, confidence);
        }
        bench.uptime += SPACING;
        assert_eq!(bench.taken(), expected, "{name}");
    }
    let mut idle = Bench::new(None);
    idle.see(1, 0.0);
    assert_eq!(idle.taken(), NONE, "absence before anything else is silent");
    idle.see(2, 0.4);
    idle.see(3, 0.0);
    idle.see(4, 0.5);
    assert_eq!(idle.taken(), [4]);
    idle.see(5, 0.0);
    assert_eq!(idle.taken(), [5], "absence is due at once");
    idle.see(6, 0.0);
    assert_eq!(idle.taken(), NONE, "and silent when it was said");
}

#[test]
fn a_lost_low_withholds_highs_until_a_later_low_was_delivered() {
    for lost in [Ending::Dropped(Reason::Rejected), Ending::Untouched] {
        let mut bench = Bench::new(Some(0.85));
        bench.see(1, 0.9);
        bench.taken();
        bench.see(2, 0.2);
        assert_eq!(bench.post(lost), [2]);
        bench.see(3, 0.9);
        assert_eq!(bench.taken(), NONE, "{lost:?}");
        assert_eq!(bench.counters.dropped.get(&Reason::Broken), Some(&1), "{lost:?}");
        bench.see(4, 0.3);
        bench.see(5, 0.9);
        assert_eq!(bench.taken(), [4], "{lost:?}");
        bench.see(6, 0.9);
        assert_eq!(bench.taken(), [6], "{lost:?}");
    }
}

#[test]
fn a_lost_low_is_forgotten_after_the_gap() {
    let mut bench = Bench::new(Some(0.85));
    bench.see(1, 0.9);
    bench.taken();
    bench.see(2, 0.2);
    bench.stream.drop_next(Reason::Stale, &mut bench.counters);
    bench.see(2001, 0.9);
    assert_eq!(bench.taken(), NONE, "exactly the gap");
    bench.see(2002, 0.9);
    assert_eq!(bench.taken(), [2002], "the service starts again by itself");
}

#[test]
fn what_was_lost_unseen_may_have_been_a_low() {
    let published = |bench: &mut Bench| {
        bench.see(1, 0.9);
        assert_eq!(bench.taken(), [1]);
    };
    let mut high = Bench::new(Some(0.85));
    published(&mut high);
    high.see(2, 0.9);
    high.lose();
    high.see(3, 0.9);
    high.uptime += SPACING;
    assert_eq!(high.taken(), NONE, "neither what waited nor what followed");
    assert_eq!(high.counters.dropped.get(&Reason::Broken), Some(&2));
    high.see(4, 0.2);
    high.see(5, 0.9);
    assert_eq!(high.taken(), [4], "a low is sent");
    high.see(6, 0.9);
    assert_eq!(high.taken(), [6], "and ends it");

    let mut low = Bench::new(Some(0.85));
    published(&mut low);
    low.see(2, 0.2);
    low.lose();
    low.see(3, 0.9);
    assert_eq!(low.taken(), [2], "a low from before is sent");
    low.lose();
    low.see(4, 0.9);
    assert_eq!(low.taken(), [4], "after a published low one more says nothing new");

    let mut first = Bench::new(Some(0.85));
    first.see(1, 0.9);
    first.lose();
    assert_eq!(first.taken(), NONE, "a high that nobody knows what followed is no first one");
    first.see(2, 0.9);
    assert_eq!(first.taken(), [2], "the run begins after the loss");
    first.lose();
    first.see(2002, 0.9);
    assert_eq!(first.taken(), NONE, "exactly the gap");
    first.see(2003, 0.9);
    assert_eq!(first.taken(), [2003], "the service starts again by itself");
}

#[test]
fn without_a_threshold_only_absence_ends_what_was_lost_unseen() {
    let mut bench = Bench::new(None);
    bench.see(1, 0.8);
    assert_eq!(bench.taken(), [1]);
    bench.see(2, 0.4);
    bench.lose();
    bench.see(3, 0.9);
    bench.uptime += SPACING;
    assert_eq!(bench.taken(), [2], "it came before");
    bench.see(4, 0.1);
    bench.uptime += SPACING;
    assert_eq!(bench.taken(), NONE, "what was lost may have been lower");
    bench.see(5, 0.0);
    assert_eq!(bench.taken(), [5]);
    bench.see(6, 0.1);
    assert_eq!(bench.taken(), [6]);
}

#[test]
fn a_lost_valley_withholds_what_is_above_it() {
    let mut bench = Bench::new(None);
    bench.see(1, 0.8);
    bench.taken();
    bench.see(2, 0.4);
    bench.see(3, 0.7);
    bench.uptime += SPACING;
    let flight = bench.stream.hand_out(bench.uptime, &mut bench.counters).unwrap();
    assert_eq!(flight.observation.at.as_millisecond(), 2);
    bench.stream.finish(Ending::Dropped(Reason::Stale), &mut bench.counters);
    assert_eq!(bench.counters.dropped.get(&Reason::Broken), Some(&1), "0.7 waited behind it");
    bench.see(4, 0.5);
    bench.see(5, 0.4);
    bench.uptime += SPACING;
    assert_eq!(bench.taken(), [5], "as low as what was lost");
    bench.see(6, 0.5);
    bench.uptime += SPACING;
    assert_eq!(bench.taken(), [6]);
}

#[test]
fn a_post_that_is_given_up_counts_as_published() {
    let mut bench = Bench::new(Some(0.85));
    bench.see(1, 0.9);
    assert_eq!(bench.post(Ending::Dropped(Reason::Stale)), [1]);
    bench.see(2, 0.2);
    assert_eq!(bench.taken(), [2], "the service may have the high");
}

#[test]
fn nothing_is_handed_out_while_a_post_is_under_way() {
    let mut bench = Bench::new(Some(0.85));
    bench.see(1, 0.9);
    assert!(bench.stream.hand_out(bench.uptime, &mut bench.counters).is_some());
    bench.see(2, 0.2);
    assert_eq!(bench.stream.due(), None);
    assert!(bench.stream.hand_out(bench.uptime, &mut bench.counters).is_none());
    bench.stream.drop_next(Reason::Stale, &mut bench.counters);
    assert_eq!(bench.stream.pending(), 2);
    bench.stream.finish(Ending::Taken, &mut bench.counters);
    assert_eq!(bench.taken(), [2]);
}

#[test]
fn a_frame_of_equal_time_takes_the_place_of_an_unsent_lower_one() {
    let mut raised = Bench::new(Some(0.85));
    raised.see(1, 0.9);
    raised.taken();
    raised.see(2, 0.5);
    raised.again(2, 0.95);
    raised.uptime += SPACING;
    assert_eq!(raised.taken(), [2]);
    assert_eq!(raised.stream.flight(), None);
    assert_eq!(raised.counters.superseded, 1);

    let mut silent = Bench::new(Some(0.85));
    silent.see(1, 0.5);
    silent.again(1, 0.9);
    assert_eq!(silent.taken(), [1], "a silent low is no low at all");

    let mut sent = Bench::new(Some(0.85));
    sent.see(1, 0.86);
    sent.taken();
    sent.again(1, 0.9);
    assert_eq!(sent.counters.refused.get(&Reason::Duplicate), Some(&1));

    let mut valley = Bench::new(Some(0.85));
    valley.see(1, 0.9);
    valley.taken();
    for (ms, confidence) in [(2, 0.5), (3, 0.9), (4, 0.4)] {
        valley.see(ms, confidence);
    }
    valley.again(4, 0.9);
    assert_eq!(valley.taken(), [4], "it stands for the low at 2 and cannot be taken back");
    assert_eq!(valley.counters.refused.get(&Reason::Duplicate), Some(&1));
}

#[test]
fn a_frame_that_absorbed_a_valley_is_not_taken_back_however_often_its_time_comes_again() {
    let mut bench = Bench::new(Some(0.85));
    bench.see(1, 0.9);
    assert_eq!(bench.taken(), [1]);
    bench.see(14, 0.4);
    bench.see(15, 0.0);
    bench.again(15, 0.2);
    bench.again(15, 0.9);
    assert_eq!(bench.taken(), [15], "the low of 14 was left to it");
    bench.see(16, 0.9);
    assert_eq!(bench.taken(), [16]);
    assert_eq!(bench.counters.lows, 3);
}

#[test]
fn a_window_tells_what_lies_between_two_posts() {
    let mut bench = Bench::new(Some(0.85));
    let mut windows = Vec::new();
    let mut post = |bench: &mut Bench| {
        while bench.stream.due().is_some_and(|(_, at)| at <= bench.uptime) {
            let flight = bench.stream.hand_out(bench.uptime, &mut bench.counters).unwrap();
            windows.push(flight.window.to_json());
            bench.stream.finish(Ending::Taken, &mut bench.counters);
        }
    };
    bench.see(1, 0.1);
    bench.see(2, 0.9);
    post(&mut bench);
    for (ms, confidence) in [(3, 0.95), (4, 0.5), (5, 0.9), (6, 0.6), (7, 0.91), (8, 0.92)] {
        bench.see(ms, confidence);
    }
    post(&mut bench);
    let expected = [
        serde_json::json!({"frames": 1, "below": 1, "min": 0.1, "max": 0.1}),
        serde_json::json!({"frames": 1, "below": 0, "min": 0.95, "max": 0.95}),
        serde_json::json!({"frames": 3, "below": 1, "min": 0.6, "max": 0.91}),
    ];
    assert_eq!(windows, expected, "before 2, before 4, before 8");
}
