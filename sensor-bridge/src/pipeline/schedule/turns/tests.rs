use super::*;

const S: Duration = Duration::from_secs(1);
const SPACING: Duration = Duration::from_millis(250);

/// Streams 0 to 9 are cameras of their own at source `a`; from 10 on at source `b`; from 20 on one
/// camera of source `a` with many labels.
#[expect(clippy::unnecessary_wraps, reason = "it is what the turns ask for")]
fn ticket(stream: StreamId) -> Option<Ticket> {
    let (from, camera) = match stream.0 {
        0..=9 => ("a", format!("camera-{}", stream.0)),
        10..=19 => ("b", format!("camera-{}", stream.0)),
        _ => ("a", "many".to_owned()),
    };
    Some(Ticket { stream, owners: [Arc::from(from), Arc::from(camera)], spacing: SPACING, goal: 4 })
}

fn id(stream: usize) -> StreamId {
    StreamId(stream)
}

fn waiting(streams: &[usize]) -> Turns {
    let mut turns = Turns::default();
    for (at, &stream) in (0_u32..).zip(streams) {
        turns.wait(id(stream), Duration::from_millis(1) * at);
    }
    turns
}

/// What the sampler does: grants what fits, revokes what is in the way.
fn settle(turns: &mut Turns, uptime: Duration, rate: f64) -> Vec<usize> {
    while turns.end_one(uptime).is_some() {}
    while let Some(next) = turns.next(uptime, ticket) {
        if !turns.fits(next.spacing, rate) {
            let Some(stream) = turns.in_the_way(&next) else { break };
            turns.revoke(stream);
            continue;
        }
        let stream = next.stream;
        turns.waiting.retain(|(_, other)| *other != stream);
        turns.grant(next, uptime);
    }
    turns.holders().map(|stream| stream.0).collect()
}

#[test]
fn as_many_turns_are_out_as_the_rate_serves_and_at_least_one() {
    let cases: [(f64, &[usize]); 5] =
        [(8.0, &[0, 1]), (7.9, &[0]), (4.0, &[0]), (0.5, &[0]), (16.0, &[0, 1, 2, 3])];
    for (rate, expected) in cases {
        let mut turns = waiting(&[0, 1, 2, 3, 4]);
        assert_eq!(settle(&mut turns, S, rate), expected, "{rate}");
    }
}

#[test]
fn the_stream_that_waited_longest_is_next() {
    let mut turns = waiting(&[3, 1, 2]);
    turns.leave(id(3), Duration::ZERO);
    turns.wait(id(3), S / 2);
    turns.wait(id(4), S * 9);
    assert_eq!(settle(&mut turns, S, 8.0), [1, 2], "3 came later, 4 still rests");
}

#[test]
fn a_turn_ends_by_highs_in_a_row_or_by_time() {
    let holder = || {
        let mut turns = waiting(&[0]);
        settle(&mut turns, S, 8.0);
        turns
    };
    let mut served = holder();
    for _ in 0..3 {
        served.high(id(0));
    }
    assert_eq!(served.end_one(S * 2), None, "three of four");
    served.broke(id(0));
    served.high(id(0));
    assert_eq!(served.end_one(S * 2), None, "one after a low");
    for _ in 0..3 {
        served.high(id(0));
    }
    assert_eq!(served.end_one(S * 2), Some((id(0), End::Served)));
    assert_eq!(served.end_one(S * 2), None, "it is over");

    let mut fired = holder();
    for _ in 0..3 {
        fired.high(id(0));
    }
    fired.broke(id(0));
    assert_eq!(fired.end_one(Duration::from_nanos(6_999_999_999)), None);
    assert_eq!(fired.end_one(S * 7), Some((id(0), End::Served)));

    let mut flickered = holder();
    flickered.high(id(0));
    assert_eq!(flickered.end_one(S * 7), Some((id(0), End::Released)));
}

#[test]
fn a_silent_holder_gives_way_only_when_another_waits() {
    let mut turns = waiting(&[0]);
    settle(&mut turns, S, 8.0);
    turns.busy(id(0), false, S);
    turns.busy(id(0), false, S * 2);
    assert_eq!(turns.end_one(S * 3), None, "nobody waits");
    turns.wait(id(1), S * 3);
    assert_eq!(turns.end_one(S + SPACING / 2), None, "nobody waits yet");
    turns.busy(id(0), true, S * 3);
    assert_eq!(turns.end_one(S * 3), None, "it has something again");
    turns.busy(id(0), false, S * 3);
    assert_eq!(turns.end_one(S * 3 + SPACING / 2), None, "not for a spacing yet");
    assert_eq!(turns.end_one(S * 3 + SPACING), Some((id(0), End::Released)));
}

#[test]
fn a_source_never_holds_all_turns_while_another_waits() {
    let cases: [(&str, &[usize], f64, &[usize]); 4] = [
        ("a configured source", &[0, 1, 2, 10], 8.0, &[0, 10]),
        ("an event source", &[20, 21, 22, 5], 8.0, &[20, 5]),
        ("nobody else waits", &[0, 1, 2], 8.0, &[0, 1]),
        ("only one turn: the one that waited longest", &[0, 1, 10], 4.0, &[0]),
    ];
    for (name, line, rate, expected) in cases {
        assert_eq!(settle(&mut waiting(line), S, rate), expected, "{name}");
    }

    let mut turns = waiting(&[0, 1]);
    assert_eq!(settle(&mut turns, S, 8.0), [0, 1]);
    turns.wait(id(10), S);
    assert_eq!(settle(&mut turns, S, 8.0), [1, 10], "the oldest gives way at once");

    let mut single = waiting(&[0, 1, 10]);
    settle(&mut single, S, 4.0);
    single.revoke(id(0));
    assert_eq!(settle(&mut single, S, 4.0), [10], "with one turn, sources alternate");
}

#[test]
fn says_when_the_turns_may_change() {
    let change = |turns: &Turns, uptime| turns.next_change(uptime, 8.0, ticket);
    let mut turns = waiting(&[0, 1]);
    assert_eq!(change(&turns, S), Some(S), "free turns");
    settle(&mut turns, S, 8.0);
    assert_eq!(change(&turns, S), None, "nobody waits");
    turns.wait(id(2), S);
    assert_eq!(change(&turns, S), Some(S * 7), "the first turn runs out");
    turns.busy(id(1), false, S * 2);
    assert_eq!(change(&turns, S * 2), Some(S * 2 + SPACING), "or the second one is silent");
    turns.leave(id(2), S);
    turns.wait(id(2), S * 5);
    assert_eq!(change(&turns, S * 2), Some(S * 5), "it still rests");
}
