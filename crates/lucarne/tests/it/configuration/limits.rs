//! Limits of submissions and reads.

use super::*;

#[test]
fn reads_are_limited_unless_that_is_off() {
    let directory = files();
    let limits = |top: &str| {
        let (config, said) = read(&format!("{top}{}", with("")), directory.path());
        assert_eq!(said, "", "{top}");
        config.unwrap().http
    };
    let usual = limits("");
    let reads = usual.reads.unwrap();
    assert_eq!(
        (reads.client, reads.no_contact),
        (Rate::per_second(5000, 500), Rate::per_second(10_000, 1000))
    );
    assert!(
        usual.trusted_proxies.is_none(),
        "nothing is said of proxies"
    );
    assert!(limits("read_limits: off\n").reads.is_none());
    let reads = limits("read_limits: {client_rate: 7, no_contact_burst: 9, remembered: 64}\n")
        .reads
        .unwrap();
    assert_eq!(
        (reads.client, reads.no_contact),
        (Rate::per_second(5000, 7), Rate::per_second(9, 1000))
    );
    assert_eq!(reads.clients, 64);
    let proxies = |list: &str| {
        let proxies = limits(&format!("http: {{trusted_proxies: {list}}}\n"))
            .trusted_proxies
            .unwrap();
        proxies.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(proxies("[]"), Vec::<String>::new(), "there are none");
    assert_eq!(proxies("127.0.0.1"), ["127.0.0.1/32"]);
    assert_eq!(
        proxies("[10.0.0.0/8, \"2001:db8::/32\"]"),
        ["10.0.0.0/8", "2001:db8::/32"]
    );
    let wrong = said(&format!(
        "read_limits: {{client_rate: 0, client_burst: many, rate: 1}}\nhttp: {{trusted_proxies: proxy.example}}\n{}",
        with("")
    ));
    for part in [
        "client_rate",
        "client_burst",
        "read_limits.rate",
        "proxy.example",
    ] {
        assert!(wrong.contains(part), "{part}: {wrong}");
    }
}

#[test]
fn the_lanes_of_submissions_are_read() {
    let directory = files();
    let lanes = |settings: &str| match read(&with(settings), directory.path()) {
        (Some(config), said) if said.is_empty() => {
            Ok(config.logs[0].rounds.sequencer.lanes.clone())
        }
        (_, said) => Err(said),
    };
    let usual = LaneConfig::default();
    assert_eq!(usual.freshness, Duration::from_secs(28 * 3600));
    assert_eq!(lanes(""), Ok(usual.clone()));
    let settings = "freshness: 36h30m\nbacklog: {rate: 100, pool: 500}";
    let given = LaneConfig {
        freshness: Duration::from_secs(36 * 3600 + 1800),
        old_rate: NonZeroU32::new(100),
        old_pool: Some(500),
    };
    assert_eq!(lanes(settings), Ok(given));
    let with_rate = LaneConfig {
        old_rate: NonZeroU32::new(1),
        ..usual
    };
    assert_eq!(lanes("backlog: {rate: 1}"), Ok(with_rate));
    for (settings, expected) in [
        (
            "backlog: {pool: 300}\npoolsize: 200",
            "lucarne.yaml:10: logs[a].backlog.pool: 300 entries are more than `poolsize` (200), \
             which includes them",
        ),
        (
            "backlog: {rate: 0}",
            "lucarne.yaml:10: logs[a].backlog.rate: `0` is too small: at least 1 entries a second",
        ),
        (
            "backlog: {poll: 3}",
            "lucarne.yaml:10: logs[a].backlog.poll: no such key; did you mean `pool`?",
        ),
        (
            "backlog: 100",
            "lucarne.yaml:10: logs[a].backlog: must be a map of keys, but is a single value",
        ),
        (
            "freshness: 28",
            "lucarne.yaml:10: logs[a].freshness: `28` has no unit: write 28h",
        ),
    ] {
        assert_eq!(lanes(settings), Err(expected.to_owned()));
    }
}

#[test]
fn durations_and_sizes_have_units() {
    let directory = files();
    let settings = "period: 1s\nmaxjournal: 2GiB\nreadcache: 512KiB\ndiskcache: 0";
    let yaml = with(settings) + "http: {headertimeout: 1m30s, maxbody: 1MiB}\n";
    let (config, said) = read(&yaml, directory.path());
    assert_eq!(said, "");
    let config = config.unwrap();
    let (http, rounds) = (&config.http, &config.logs[0].rounds);
    assert_eq!(http.header_timeout, Duration::from_secs(90));
    assert_eq!(http.body_bytes, 1 << 20);
    assert_eq!(rounds.sequencer.period, Duration::from_secs(1));
    assert_eq!(
        (
            rounds.sequencer.journal_bytes,
            rounds.sequencer.read_cache_bytes,
            rounds.disk_cache
        ),
        (2 << 30, 512 << 10, 0)
    );
}

/// A number of milliseconds is often meant as seconds.
#[test]
fn a_number_without_a_unit_is_reported_with_its_value() {
    let (_, said) = read(
        &(with("period: 1s") + "http: {headertimeout: 10}\n"),
        files().path(),
    );
    assert!(
        said.contains("`10` has no unit and means 10ms: write 10ms (10s for seconds)."),
        "{said}"
    );
}

/// Numbers of earlier versions keep their meaning, with a warning. Sunlight's numbers cause none.
#[test]
fn numbers_of_earlier_versions_keep_their_meaning() {
    let directory = files();
    let yaml = with("period: 300\ncheckpointinterval: 2000\nreadcache: 16")
        + "http: {headertimeout: 10000, maxbody: 524288}\n";
    let (config, said) = read(&yaml, directory.path());
    let config = config.unwrap();
    assert_eq!(config.http.header_timeout, Duration::from_secs(10));
    assert_eq!(config.http.body_bytes, 524_288);
    assert_eq!(config.logs[0].rounds.sequencer.period.as_millis(), 300);
    assert_eq!(config.logs[0].rounds.sequencer.read_cache_bytes, 16 << 20);
    let expected = [
        "12: logs[a].readcache: `16` has no unit and means 16MiB: write 16MiB. The next version requires a unit",
        "13: http.headertimeout: `10000` has no unit and means 10s: write 10s. The next version requires a unit",
        "13: http.maxbody: `524288` has no unit and means 512KiB: write 512KiB. The next version requires a unit",
    ];
    let expected = expected.map(|line| format!("warning: lucarne.yaml:{line}"));
    assert_eq!(said, expected.join("\n"));
}

#[test]
fn no_pool_limit_is_zero_as_in_sunlight() {
    let directory = files();
    let config = read(&with("poolsize: 0"), directory.path()).0.unwrap();
    assert_eq!(config.logs[0].rounds.sequencer.pool_size, u32::MAX as usize);
}
