use super::*;

const S: Duration = Duration::from_secs(1);

fn spec() -> RouteSpec {
    RouteSpec {
        from: "house".to_owned(),
        labels: vec!["person".to_owned()],
        kind: "person.detected".to_owned(),
        ..RouteSpec::default()
    }
}

fn with(change: impl FnOnce(&mut RouteSpec)) -> Result<Route, RouteError> {
    let mut spec = spec();
    change(&mut spec);
    Route::new(spec)
}

fn expecting(change: impl FnOnce(&mut Expect)) -> Result<Route, RouteError> {
    let mut expect = Expect::default();
    change(&mut expect);
    with(|spec| spec.expect = Some(expect))
}

#[test]
fn a_route_without_expect_has_the_defaults_of_the_service() {
    let route = Route::new(spec()).unwrap();
    assert_eq!(route.expect(), &Expect::default());
    assert_eq!(route.spacing(), S * 5 / 4);
    assert_eq!(route.stale_after(), S * 24);
    assert_eq!(route.rest(), Duration::ZERO);
    assert_eq!(route.smooth(), 1);
    assert!(!route.window());
}

#[test]
fn the_spacing_is_an_eighth_of_the_gap_within_bounds() {
    let cases = [(1, 125), (2, 250), (10, 1250), (40, 5000), (65, 5000), (3600, 5000)];
    for (gap, expected) in cases {
        let route = expecting(|expect| expect.max_gap = S * gap).unwrap();
        assert_eq!(route.spacing(), Duration::from_millis(expected), "{gap}");
    }
}

#[test]
fn the_rest_is_a_third_of_the_cooldown_up_to_ten_seconds() {
    for (cooldown, expected) in [(0, 0), (15, 5), (30, 10), (600, 10)] {
        let route = expecting(|expect| expect.cooldown = S * cooldown).unwrap();
        assert_eq!(route.rest(), S * expected, "{cooldown}");
    }
}

#[test]
fn what_is_out_of_its_limits_is_refused_by_name() {
    let cases: Vec<(Result<Route, RouteError>, &str)> = vec![
        (with(|s| s.from = String::new()), "`from` is empty"),
        (with(|s| s.labels = Vec::new()), "`label` must name"),
        (with(|s| s.labels = vec![String::new()]), "`label` must name"),
        (with(|s| s.kind = String::new()), "`type`"),
        (with(|s| s.source = Some("s".repeat(257))), "`source`"),
        (with(|s| s.confidence = Some(1.1)), "`confidence` must be"),
        (with(|s| s.confidence = Some(f64::NAN)), "`confidence` must be"),
        (with(|s| s.smooth = Some(0)), "`smooth` must be"),
        (with(|s| s.smooth = Some(MAX_SMOOTH + 1)), "`smooth` must be"),
        (with(|s| s.spacing = Some(S / 11)), "`spacing` must be"),
        (with(|s| s.spacing = Some(S * 6)), "`spacing` must be"),
        (expecting(|e| e.min_confidence = Some(-0.1)), "`expect.min_confidence`"),
        (expecting(|e| e.consecutive = 0), "`expect.consecutive`"),
        (expecting(|e| e.consecutive = 1001), "`expect.consecutive`"),
        (expecting(|e| e.max_gap = S / 2), "`expect.max_gap_seconds`"),
        (expecting(|e| e.cooldown = S * 86_401), "`expect.cooldown_seconds`"),
        (expecting(|e| e.max_age = S * 3_601), "`expect.max_age_seconds`"),
    ];
    for (result, expected) in cases {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(expected), "{message} / {expected}");
    }
    let half = with(|spec| {
        spec.expect = Some(Expect { max_gap: S * 2, ..Expect::default() });
        spec.spacing = Some(S);
    });
    assert!(half.is_ok(), "exactly half of the gap");
}

#[test]
fn two_routes_of_one_sequence_are_refused() {
    let route = |from: &str, kind: &str, source: Option<&str>| {
        with(|spec| {
            spec.from = from.to_owned();
            spec.kind = kind.to_owned();
            spec.source = source.map(str::to_owned);
        })
        .unwrap()
    };
    let cases = [
        ("same source, same type", route("a", "t", None), route("a", "t", None), false),
        ("other type", route("a", "t", None), route("a", "u", None), true),
        ("other source", route("a", "t", None), route("b", "t", None), true),
        ("same fixed", route("a", "t", Some("x")), route("b", "t", Some("x")), false),
        ("other fixed", route("a", "t", Some("x")), route("a", "t", Some("y")), true),
    ];
    for (name, one, other, right) in cases {
        assert_eq!(Routes::new(vec![one, other]).is_ok(), right, "{name}");
    }
}

#[test]
fn doubts_name_a_run_that_outlives_the_age() {
    let sure = expecting(|expect| expect.consecutive = 13).unwrap();
    assert_eq!(sure.doubts(), Vec::<String>::new());
    let doubtful = expecting(|expect| expect.consecutive = 14).unwrap();
    assert!(doubtful.doubts().iter().any(|doubt| doubt.contains("max_age")), "{doubtful:?}");
}
