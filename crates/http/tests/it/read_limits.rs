//! The read limits from the view of clients. The test controls the clock of the limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::support::{Answer, Server, TestLog};
use lucarne_http::{Limits, MonotonicClock, Rate, ReadLimits};

/// The header of a client with a contact.
pub(crate) const CONTACT: (&str, &str) = ("user-agent", "monitor/1.0 (ops@example.com)");
/// A small resource.
pub(crate) const SMALL: &str = "/demo/log.v3.json";

/// Returns limits of `burst` units, refilled at one per second, with their clock. `proxies` are the
/// trusted proxies.
pub(crate) fn limits(burst: u64, proxies: Option<&[&str]>) -> (Limits, Arc<AtomicU64>) {
    let now = Arc::new(AtomicU64::new(0));
    let clock = now.clone();
    let reads = ReadLimits {
        client: Rate::new(burst, Duration::from_secs(1)),
        no_contact: Rate::new(2 * burst, Duration::from_secs(1)),
        clients: 256,
        clock: MonotonicClock::new(move || clock.load(Relaxed)),
    };
    let proxies = proxies.map(|proxies| proxies.iter().map(|it| it.parse().unwrap()).collect());
    let limits = Limits {
        reads: Some(reads),
        trusted_proxies: proxies,
        ..Limits::default()
    };
    (limits, now)
}

fn pass(clock: &AtomicU64, time: Duration) {
    clock.fetch_add(time.as_nanos() as u64, Relaxed);
}

async fn demo(limits: Limits) -> (TestLog, Server) {
    let test = TestLog::start("demo").await;
    let server = Server::start(vec![test.log.clone()], limits).await;
    (test, server)
}

async fn ask(server: &Server, path: &str) -> Answer {
    server.ask("GET", path, &[CONTACT]).await
}

/// Returns the statuses of repeated requests with these header fields.
async fn statuses(server: &Server, times: usize, path: &str, fields: &[(&str, &str)]) -> Vec<u16> {
    let fields = [&[CONTACT][..], fields].concat();
    let mut statuses = Vec::new();
    for _ in 0..times {
        statuses.push(server.ask("GET", path, &fields).await.status);
    }
    statuses
}

#[tokio::test]
async fn a_client_beyond_its_limit_is_told_when_to_come_back() {
    let (limits, clock) = limits(4, Some(&[]));
    let (_test, server) = demo(limits).await;
    let first = ask(&server, SMALL).await;
    assert_eq!((first.status, first.header("ratelimit")), (200, None));
    assert_eq!(ask(&server, SMALL).await.status, 200);
    // Less than half of the units is left.
    let third = ask(&server, SMALL).await;
    assert_eq!(
        (third.status, third.header("ratelimit")),
        (200, Some("\"client\";r=1;t=3"))
    );
    assert_eq!(ask(&server, SMALL).await.status, 200);

    let refused = ask(&server, SMALL).await;
    assert_eq!(refused.status, 429);
    for (name, value) in [
        ("retry-after", "1"),
        ("ratelimit", "\"client\";r=0;t=1"),
        ("ratelimit-policy", "\"client\";q=4;w=4"),
        ("cache-control", "no-store"),
        ("access-control-allow-origin", "*"),
        (
            "access-control-expose-headers",
            "retry-after, ratelimit, ratelimit-policy",
        ),
    ] {
        assert_eq!(refused.header(name), Some(value), "{refused:?}");
    }
    assert_eq!(refused.json()["code"], "too_many_reads");
    let head = server.ask("HEAD", SMALL, &[CONTACT]).await;
    assert_eq!((head.status, head.header("retry-after")), (429, Some("1")));

    // Checkpoints and requests that are not reads are not limited.
    for path in ["/demo/checkpoint", "/demo/checkpoint?x=1", "/health"] {
        assert_eq!(ask(&server, path).await.status, 200, "{path}");
    }
    assert_eq!(
        server.post("/demo/ct/v1/add-chain", b"{}").await.status,
        400
    );
    for path in [
        "/demo/tile/0/000",
        "/demo/ct/v1/get-roots",
        "/demo/nothing",
        "/demo/",
        "/",
        "/logs.v3.json",
    ] {
        assert_eq!(ask(&server, path).await.status, 429, "{path}");
    }

    // `/metrics` and `/health` have a bucket of their own.
    let health = statuses(&server, 4, "/health", &[]).await;
    assert_eq!(health, [200, 200, 200, 429]);
    assert_eq!(ask(&server, "/metrics").await.status, 429);

    pass(&clock, Duration::from_millis(999));
    assert_eq!(ask(&server, SMALL).await.status, 429);
    pass(&clock, Duration::from_millis(1));
    assert_eq!(statuses(&server, 2, SMALL, &[]).await, [200, 429]);

    let metrics = ask(&server, "/metrics").await;
    for line in [
        "lucarne_http_reads_limited_total{policy=\"client\"} 12",
        "lucarne_http_reads_limited_total{policy=\"network\"} 0",
        "lucarne_http_reads_clients 2",
        "lucarne_http_requests_total{log=\"demo\",endpoint=\"log.v3.json\",code=\"429\"} 4",
    ] {
        assert!(
            metrics.text().contains(line),
            "{line} not in\n{}",
            metrics.text()
        );
    }
}

#[tokio::test]
async fn another_client_does_not_notice() {
    let (limits, _clock) = limits(3, Some(&[]));
    let (_test, server) = demo(limits).await;
    assert_eq!(statuses(&server, 4, SMALL, &[]).await, [200, 200, 200, 429]);
    let mut other = server.connect_from([127, 0, 0, 2]).await;
    for _ in 0..3 {
        let request = format!(
            "GET {SMALL} HTTP/1.1\r\nhost: x\r\nuser-agent: {}\r\n\r\n",
            CONTACT.1
        );
        other.send(request.as_bytes()).await;
        assert_eq!(other.answer().await.unwrap().status, 200);
    }
    // All clients that read tiles without contact share six units.
    let nameless = |last, path: &'static str| {
        let server = &server;
        async move {
            let mut client = server.connect_from([127, 0, 0, last]).await;
            client.get(path).await
        }
    };
    let issuer = concat!(
        "/demo/issuer/00000000000000000000000000000000",
        "00000000000000000000000000000000"
    );
    for (last, status) in [
        (3, 404),
        (3, 404),
        (3, 404),
        (3, 429),
        (4, 404),
        (4, 404),
        (4, 404),
    ] {
        assert_eq!(nameless(last, issuer).await.status, status, "{last}");
    }
    let refused = nameless(5, issuer).await;
    assert_eq!(
        (refused.status, refused.header("ratelimit")),
        (429, Some("\"no-contact\";r=0;t=1"))
    );
    assert_eq!(
        refused.header("ratelimit-policy"),
        Some("\"client\";q=3;w=3, \"no-contact\";q=6;w=6")
    );
    // A client that reads pages and roots is not a monitor.
    for path in ["/demo/", "/demo/ct/v1/get-roots", SMALL] {
        assert_eq!(nameless(5, path).await.status, 200, "{path}");
    }
    assert_eq!(nameless(5, SMALL).await.status, 429);
}

#[tokio::test]
async fn a_client_that_waits_as_it_is_told_gets_everything() {
    let (limits, clock) = limits(3, Some(&[]));
    let (_test, server) = demo(limits).await;
    let (mut answered, mut waits) = (0, 0);
    while answered < 12 {
        let answer = ask(&server, SMALL).await;
        match answer.header("retry-after") {
            None => {
                assert_eq!(answer.status, 200);
                answered += 1;
            }
            Some(seconds) => {
                let seconds: u64 = seconds.parse().unwrap();
                pass(&clock, Duration::from_secs(seconds));
                waits += seconds;
            }
        }
    }
    assert_eq!(waits, 12 - 3);
}

#[tokio::test]
async fn behind_a_named_proxy_the_forwarded_address_decides() {
    let (limits, _clock) = limits(2, Some(&["127.0.0.0/31"]));
    let (_test, server) = demo(limits).await;
    let by = |name, value| {
        let server = &server;
        async move { statuses(server, 3, SMALL, &[(name, value)]).await }
    };
    let (served, exhausted) = ([200, 200, 429], [429, 429, 429]);
    assert_eq!(by("x-forwarded-for", "203.0.113.1").await, served);
    assert_eq!(
        by("x-forwarded-for", "198.51.100.9, 203.0.113.1").await,
        exhausted
    );
    assert_eq!(
        by("forwarded", "for=\"203.0.113.1:4711\";proto=https").await,
        exhausted
    );
    assert_eq!(by("x-forwarded-for", "203.0.113.2").await, served);
    assert_eq!(by("forwarded", "for=\"[2001:db8::1]\"").await, served);
    assert_eq!(
        by("forwarded", "for=\"[2001:db8:0:ff::2]\"").await,
        exhausted
    );
    // Invalid fields count for the proxy itself, all together, and never without a limit.
    assert_eq!(by("x-forwarded-for", "203.0.113.3, nobody").await, served);
    assert_eq!(by("x-forwarded-for", "").await, exhausted);
    assert_eq!(by("forwarded", "for=_hidden").await, exhausted);
    assert_eq!(by("x-other", "1").await, exhausted);
}

#[tokio::test]
async fn behind_a_proxy_that_nobody_has_named_nothing_is_limited() {
    let (unsaid, _clock) = limits(2, None);
    let (_test, server) = demo(unsaid).await;
    assert_eq!(statuses(&server, 9, SMALL, &[]).await, [200; 9]);
    let forwarded = ("x-forwarded-for", "203.0.113.1");
    assert_eq!(statuses(&server, 9, SMALL, &[forwarded]).await, [200; 9]);
    let answer = ask(&server, SMALL).await;
    assert_eq!(
        answer.json().get("read_limits"),
        None,
        "nothing is in force"
    );
    let metrics = ask(&server, "/metrics").await;
    assert!(
        metrics
            .text()
            .contains("lucarne_http_reads_unlimited_total 19"),
        "{}",
        metrics.text()
    );
}

#[tokio::test]
async fn where_there_are_no_proxies_nobody_speaks_for_another() {
    let (limits, _clock) = limits(2, Some(&[]));
    let (_test, server) = demo(limits).await;
    let forwarded = |n| {
        let server = &server;
        async move {
            let address = format!("203.0.113.{n}");
            statuses(server, 1, SMALL, &[("x-forwarded-for", address.as_str())]).await[0]
        }
    };
    assert_eq!(
        (forwarded(1).await, forwarded(2).await, forwarded(3).await),
        (200, 200, 429)
    );
}

#[tokio::test]
async fn a_partial_tile_gets_dearer_and_a_full_one_does_not() {
    let (limits, clock) = limits(100, Some(&["127.0.0.1"]));
    let test = TestLog::start("demo").await;
    test.fill(300).await;
    test.until(|log| log.published().unwrap().size >= 300).await;
    let server = Server::start(vec![test.log.clone()], limits).await;
    let (full, partial, newer) = (
        "/demo/tile/0/000",
        "/demo/tile/0/001.p/43",
        "/demo/tile/0/001.p/44",
    );
    let by = |address| ("x-forwarded-for", address);
    assert_eq!(
        statuses(&server, 30, full, &[by("203.0.113.1")]).await,
        [200; 30]
    );
    // 1 + 2 + 4 + 8 + 16 + 32 of the remaining 70.
    let repeated = statuses(&server, 8, partial, &[by("203.0.113.1")]).await;
    assert_eq!(repeated, [200, 200, 200, 200, 200, 200, 429, 429]);
    for path in [newer, full] {
        assert_eq!(
            statuses(&server, 1, path, &[by("203.0.113.1")]).await,
            [200],
            "{path}"
        );
    }
    // HEAD and a 304 response cost the same.
    let tag = ask(&server, partial)
        .await
        .header("etag")
        .unwrap()
        .to_owned();
    let mut seen = Vec::new();
    for _ in 0..7 {
        for method in ["HEAD", "GET"] {
            let fields = [CONTACT, by("203.0.113.2"), ("if-none-match", tag.as_str())];
            seen.push(server.ask(method, partial, &fields).await.status);
        }
    }
    assert_eq!(seen[..6], [304; 6]);
    assert_eq!(seen[6..], [429; 8]);
    // A client that returns every ten seconds pays no more for it.
    for _ in 0..20 {
        assert_eq!(
            statuses(&server, 1, partial, &[by("203.0.113.3")]).await,
            [200]
        );
        pass(&clock, Duration::from_secs(10));
    }
}

#[tokio::test]
async fn bytes_are_paid_for() {
    let (limits, _clock) = limits(100, Some(&["127.0.0.1"]));
    let mut test = TestLog::start("demo").await;
    test.scts = 10;
    test.fill(256).await;
    test.until(|log| log.published().unwrap().size >= 256).await;
    let server = Server::start(vec![test.log.clone()], limits).await;
    let asks = |path: &'static str, address| {
        let server = &server;
        async move {
            let fields = [
                CONTACT,
                ("x-forwarded-for", address),
                ("accept-encoding", "gzip"),
            ];
            let mut bytes = Vec::new();
            loop {
                let answer = server.ask("GET", path, &fields).await;
                if answer.status == 429 {
                    return bytes;
                }
                bytes.push(answer.body.len());
            }
        }
    };
    assert_eq!(asks("/demo/tile/0/000", "203.0.113.1").await.len(), 100);
    let data = asks("/demo/tile/data/000", "203.0.113.2").await;
    let each = 1 + data[0] / lucarne_http::UNIT_BYTES;
    assert!(each > 3, "{data:?}");
    assert_eq!(data.len(), 100_usize.div_ceil(each));
}

#[tokio::test]
async fn what_is_remembered_is_bounded() {
    let (limits, _clock) = limits(4, Some(&["127.0.0.1"]));
    let (_test, server) = demo(limits).await;
    let mut client = server.connect().await;
    for n in 0..1500 {
        let address = format!("203.{}.{}.1", n / 256, n % 256);
        let request = format!(
            "GET /demo/page.css HTTP/1.1\r\nhost: x\r\nuser-agent: {}\r\nx-forwarded-for: {address}\r\n\r\n",
            CONTACT.1
        );
        client.send(request.as_bytes()).await;
        let status = client.answer().await.unwrap().status;
        assert!(status == 200 || status == 429, "{status}");
    }
    let metrics = ask(&server, "/metrics").await;
    let value = |name: &str| -> u64 {
        let line = metrics
            .text()
            .lines()
            .find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    };
    assert!(value("lucarne_http_reads_clients ") <= 256);
    // Sixteen sets, in each of which clients without a slot share four units.
    assert_eq!(value("lucarne_http_reads_shared_total "), 16 * 4);
}

#[tokio::test]
async fn the_limits_in_force_are_published() {
    let (limits, _clock) = limits(100, Some(&[]));
    let (_test, server) = demo(limits).await;
    let json = ask(&server, SMALL).await.json();
    let expected = serde_json::json!({
        "bytes_per_unit": 16384,
        "policies": [
            {"name": "client", "scope": "an IPv4 address or an IPv6 /56", "units": 100, "window_seconds": 100},
            {"name": "network", "scope": "an IPv6 /48", "units": 400, "window_seconds": 100},
            {
                "name": "no-contact",
                "scope": "tiles and issuers, all clients whose User-Agent has no e-mail address and no URL",
                "units": 200,
                "window_seconds": 200,
            },
        ],
        "partial_tile_again": {"factor": 2, "most_units": 100, "forgotten_seconds": 10},
        "unlimited": ["checkpoint"],
    });
    assert_eq!(json["read_limits"], expected);
    let list = ask(&server, "/logs.v3.json").await.json();
    assert_eq!(
        list["operators"][0]["tiled_logs"][0]["read_limits"],
        expected
    );
    let page = ask(&server, "/demo/").await;
    assert!(
        page.text()
            .contains("100 units in 100 s for an IPv4 address or an IPv6 /56."),
        "{}",
        page.text()
    );
    assert!(page.text().contains("Retry-After"));
}

#[tokio::test]
async fn without_limits_nothing_is_counted() {
    let (test, server) = demo(Limits {
        reads: None,
        trusted_proxies: Some(Vec::new()),
        ..Limits::default()
    })
    .await;
    let path = format!("/{}/tile/0/000.p/1", test.log.config().shortname);
    test.fill(1).await;
    assert_eq!(statuses(&server, 20, &path, &[]).await, [200; 20]);
    assert_eq!(ask(&server, SMALL).await.json().get("read_limits"), None);
}
