use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// The bucket of `POST /events`: 10 a second, burst 10.
fn events() -> TokenBucket {
    TokenBucket::new(MS * 100, 10)
}

#[test]
fn a_burst_passes_at_once_and_then_one_each_interval() {
    let mut bucket = events();
    for _ in 0..10 {
        assert_eq!(bucket.take(S), Ok(()));
    }
    assert_eq!(bucket.take(S), Err(MS * 100));
    assert_eq!(bucket.take(S + MS * 99), Err(MS));
    assert_eq!(bucket.take(S + MS * 100), Ok(()));
    assert_eq!(bucket.take(S + MS * 100), Err(MS * 100));
}

#[test]
fn a_refused_take_costs_nothing() {
    let mut bucket = TokenBucket::new(S, 1);
    assert_eq!(bucket.take(Duration::ZERO), Ok(()));
    for _ in 0..100 {
        assert_eq!(bucket.take(MS * 500), Err(MS * 500));
    }
    assert_eq!(bucket.take(S), Ok(()));
}

#[test]
fn a_refund_makes_room_for_one_and_never_for_more_than_the_burst() {
    let mut bucket = TokenBucket::new(S, 2);
    assert_eq!((bucket.take(S), bucket.take(S)), (Ok(()), Ok(())));
    bucket.refund();
    assert_eq!(bucket.take(S), Ok(()));
    assert_eq!(bucket.take(S), Err(S));
    for _ in 0..9 {
        bucket.refund();
    }
    assert_eq!((bucket.take(S), bucket.take(S)), (Ok(()), Ok(())));
    assert_eq!(bucket.take(S), Err(S));
}

#[test]
fn waiting_is_told_without_taking() {
    let mut bucket = TokenBucket::new(S, 1);
    assert_eq!(bucket.wait(S), Duration::ZERO);
    assert_eq!(bucket.take(S), Ok(()));
    assert_eq!(bucket.wait(S + MS * 250), MS * 750);
    assert_eq!(bucket.wait(S * 2), Duration::ZERO);
}

#[test]
fn edges_of_the_bucket_do_not_overflow() {
    assert!(TokenBucket::new(S, 0).take(S).is_err());
    assert_eq!(TokenBucket::new(Duration::ZERO, 1).take(S), Ok(()));
    assert_eq!(TokenBucket::new(Duration::MAX, u32::MAX).take(Duration::MAX), Ok(()));
}

#[test]
fn a_backoff_doubles_up_to_its_cap() {
    let backoff = Backoff::new(MS * 100, S * 30).unwrap();
    let cases = [
        (0, 0.0, Duration::ZERO),
        (1, 0.0, MS * 100),
        (2, 0.0, MS * 200),
        (9, 0.0, MS * 25_600),
        (10, 0.0, S * 30),
        (33, 0.0, S * 30),
        (u32::MAX, 0.0, S * 30),
        (1, 1.0, MS * 50),
        (2, 0.5, MS * 150),
        (1, 7.0, MS * 50),
        (1, -7.0, MS * 100),
        (1, f64::NAN, MS * 100),
    ];
    for (failures, jitter, expected) in cases {
        assert_eq!(backoff.delay(failures, jitter), expected, "{failures} failures, {jitter}");
    }
}

#[test]
fn a_backoff_that_would_not_wait_is_refused() {
    assert!(Backoff::new(Duration::ZERO, S).is_err());
    assert!(Backoff::new(S, MS).is_err());
    assert!(Backoff::new(S, S).is_ok());
}

proptest! {
    #[test]
    fn no_window_lets_more_through_than_burst_and_rate(
        steps in prop::collection::vec(0_u64..400, 1..200),
        interval in 1_u64..200,
        burst in 1_u32..12,
    ) {
        let mut bucket = TokenBucket::new(MS * u32::try_from(interval).unwrap(), burst);
        let mut now = 0;
        let mut passed = Vec::new();
        for step in steps {
            now += step;
            if bucket.take(Duration::from_millis(now)).is_ok() {
                passed.push(now);
            }
        }
        for (first, start) in passed.iter().enumerate() {
            for (last, end) in passed.iter().enumerate().skip(first) {
                let taken = u64::try_from(last - first + 1).unwrap();
                prop_assert!(taken <= u64::from(burst) + (end - start) / interval);
            }
        }
    }

    #[test]
    fn the_told_wait_is_exact(
        steps in prop::collection::vec(0_u64..300, 1..100),
        burst in 1_u32..5,
    ) {
        let mut bucket = TokenBucket::new(MS * 100, burst);
        let mut now = Duration::ZERO;
        for step in steps {
            now += Duration::from_millis(step);
            if let Err(wait) = bucket.take(now) {
                prop_assert!(!wait.is_zero());
                prop_assert!(bucket.clone().take(now + wait.saturating_sub(Duration::from_nanos(1))).is_err());
                prop_assert!(bucket.clone().take(now + wait).is_ok());
            }
        }
    }

    #[test]
    fn a_delay_never_shrinks_with_failures_and_stays_in_its_bounds(
        base in 1_u64..10_000, extra in 0_u64..100_000, failures in 1_u32..80, jitter in 0.0..=1.0,
    ) {
        let (base, cap) = (Duration::from_millis(base), Duration::from_millis(base + extra));
        let backoff = Backoff::new(base, cap).unwrap();
        let delay = backoff.delay(failures, jitter);
        prop_assert!(delay >= base / 2 && delay <= cap);
        prop_assert!(backoff.delay(failures, 0.0) <= backoff.delay(failures + 1, 0.0));
        prop_assert!(delay <= backoff.delay(failures, 0.0));
    }
}
