//! Measures the cost of the decision on a request by the read limits.

#![allow(missing_docs)]

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{Criterion, criterion_group, criterion_main};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use lucarne_http::{Decision, PartialTile, Rate, ReadLimiter, ReadLimits, Reading};
use lucarne_tlog::Tile;

/// Returns a limiter with the maximum number of remembered clients, which never refuses one.
fn limiter(proxy: Option<&str>) -> ReadLimiter {
    let limits = ReadLimits {
        client: Rate::per_second(1 << 30, 1_000_000_000),
        no_contact: Rate::per_second(1 << 30, 1_000_000_000),
        ..ReadLimits::default()
    };
    let proxies = proxy.map(|proxy| proxy.parse().expect("an address block"));
    ReadLimiter::new(limits, Some(proxies.into_iter().collect()))
}

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let fields = fields.iter().map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    fields.collect()
}

fn decide(c: &mut Criterion) {
    const AGENT: &str = "Mozilla/5.0 (compatible; monitor/1.0; +https://monitor.example/about)";
    let contact = headers(&[("user-agent", AGENT)]);
    let none = headers(&[("user-agent", "Go-http-client/1.1")]);
    let forwarded = headers(&[
        ("user-agent", AGENT),
        ("x-forwarded-for", "198.51.100.1, 203.0.113.7"),
    ]);
    let partial = PartialTile {
        log: 0,
        names: false,
        tile: Tile::parse("tile/0/x001/234.p/5").expect("a partial tile"),
    };
    let (v4, v6) = (
        IpAddr::from([203, 0, 113, 7]),
        "2001:db8::7".parse().expect("an address"),
    );
    let mut group = c.benchmark_group("decide and settle");
    for (name, peer, headers, partial, proxy) in [
        ("IPv4, a contact", v4, &contact, None, None),
        ("IPv4, no contact", v4, &none, None, None),
        ("IPv6, a contact", v6, &contact, None, None),
        ("IPv4, a partial tile", v4, &contact, Some(partial), None),
        ("behind a proxy", v4, &forwarded, None, Some("203.0.113.7")),
    ] {
        let limiter = limiter(proxy);
        group.bench_function(name, |b| {
            b.iter(|| {
                let now = limiter.limits().clock.now();
                match limiter.decide(
                    black_box(peer),
                    black_box(headers),
                    Reading::Tree(partial),
                    now,
                ) {
                    Decision::Admitted(admission) => {
                        let now = limiter.limits().clock.now();
                        limiter.settle(&admission, black_box(83_000), now)
                    }
                    decision => panic!("{decision:?}"),
                }
            });
        });
    }
    group.bench_function("IPv4, another client each time", |b| {
        let (limiter, mut client) = (limiter(None), 0_u32);
        b.iter(|| {
            client = client.wrapping_add(1);
            let now = limiter.limits().clock.now();
            limiter.decide(
                IpAddr::from(client.to_be_bytes()),
                &contact,
                Reading::Tree(None),
                now,
            )
        });
    });
    group.finish();
}

criterion_group!(benches, decide);
criterion_main!(benches);
