//! The statements of the specifications that HTTP has a part in, asked of a
//! real log over a real socket.
#![allow(clippy::unwrap_used)]

mod support;

use lucarne_ct::{Chain, Fingerprint, SignedEntry, TileLeafRef, verify_checkpoint};
use lucarne_http::{Limits, Surface};
use lucarne_log::Metrics;
use lucarne_mint::{LeafOptions, Poison};
use lucarne_tlog::{Hash, leaf_hash};
use prometheus_client::registry::Registry;
use support::{Server, TestLog};

async fn demo(entries: usize) -> (TestLog, Server) {
    let test = TestLog::start("demo").await;
    test.fill(entries).await;
    test.until(|log| log.published().unwrap().size >= entries as u64)
        .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    (test, server)
}

/// Statements 1, 2, 10, 11, 12, 13.
#[tokio::test]
async fn a_chain_gets_an_sct_that_verifies() {
    let (test, server) = demo(3).await;
    let chain = test.chain("www.example");
    let answer = server
        .post("/demo/ct/v1/add-chain", chain.to_json().as_bytes())
        .await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));

    let json = answer.json();
    let fields: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields.len(), 5, "{fields:?}");
    assert_eq!(json["sct_version"], 0);
    let key = &test.log.config().key;
    let base64 = |bytes: &[u8]| base64_simd::STANDARD.encode_to_string(bytes);
    assert_eq!(json["id"], base64(&key.log_id().0));
    assert_eq!(json["extensions"], base64(&[0, 0, 5, 0, 0, 0, 0, 3]));
    let sct = lucarne_ct::Sct::parse(&answer.body).unwrap();
    assert_eq!(sct.index(), Some(3));
    let certificate = chain.certificates()[0].clone().into();
    let public = key.public_key().unwrap();
    sct.verify(&public, &SignedEntry::X509 { certificate })
        .unwrap();
}

/// Statements 2 and 3.
#[tokio::test]
async fn json_may_be_odd_but_has_to_be_json() {
    let (test, server) = demo(0).await;
    let body = test.chain("www.example").to_json();
    let first = server.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    let spaced = body.replace("\",\"", "\" ,\n\t\"").replace(":[", " : [ ");
    let split = body.replacen("MI", "MI\\n", 1);
    let extra = body.replacen('{', "{\"more\":{\"chain\":[1]},", 1);
    for odd in [spaced, split, extra, format!(" \n{body}\n ")] {
        let again = server.post("/demo/ct/v1/add-chain", odd.as_bytes()).await;
        assert_eq!(again.status, 200, "{}", again.text());
        let (first, again) = (first.json(), again.json());
        assert_eq!(first["extensions"], again["extensions"]);
        assert_eq!(first["timestamp"], again["timestamp"]);
    }
    let cases = [
        (body.replacen("MI", "!!", 1), "invalid_base64"),
        (body[..body.len() - 1].to_owned(), "invalid_json"),
        (String::new(), "invalid_json"),
        ("null".to_owned(), "invalid_json"),
        ("{}".to_owned(), "missing_chain"),
        ("{\"chain\":[]}".to_owned(), "empty_chain"),
        ("{\"chain\":[\"AAAA\"]}".to_owned(), "invalid_certificate"),
    ];
    for (wrong, code) in cases {
        let answer = server.post("/demo/ct/v1/add-chain", wrong.as_bytes()).await;
        assert_eq!(answer.status, 400, "{wrong}");
        assert_eq!(answer.json()["code"], code, "{wrong}");
    }
}

/// The shape of every rejection, and which certificate is to blame.
#[tokio::test]
async fn a_rejection_says_what_and_where() {
    let (test, server) = demo(0).await;
    let mut certificates = test.chain("www.example").into_certificates();
    certificates.swap(0, 1);
    let swapped = lucarne_mint::Chain::new(certificates).to_json();
    let answer = server
        .post("/demo/ct/v1/add-chain", swapped.as_bytes())
        .await;
    assert_eq!(answer.status, 400);
    let json = answer.json();
    assert!(json["certificate_index"].is_number(), "{json}");
    for field in ["error", "code", "detail"] {
        assert!(!json[field].as_str().unwrap().is_empty(), "{json}");
    }

    let stranger = TestLog::start("other").await.chain("www.example").to_json();
    let answer = server
        .post("/demo/ct/v1/add-chain", stranger.as_bytes())
        .await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (400, &"unknown_root".into())
    );
}

/// Statements 5 and 14: each kind on its own endpoint.
#[tokio::test]
async fn precertificates_have_an_endpoint_of_their_own() {
    let (test, server) = demo(0).await;
    let mut options = LeafOptions::with_key(["www.example"], test.leaf_key.clone());
    options.poison = Some(Poison::Last);
    let precert = test.ca.chain(test.ca.issue(&options).unwrap()).to_json();
    let cert = test.chain("www.example").to_json();
    let (x509, pre) = ("/demo/ct/v1/add-chain", "/demo/ct/v1/add-pre-chain");
    assert_eq!(server.post(pre, precert.as_bytes()).await.status, 200);
    let answer = server.post(x509, precert.as_bytes()).await;
    assert_eq!(answer.json()["code"], "precertificate_on_add_chain");
    let answer = server.post(pre, cert.as_bytes()).await;
    assert_eq!(answer.json()["code"], "certificate_on_add_pre_chain");
}

/// Statement 3: methods, sizes, and never a 5xx for bad input.
#[tokio::test]
async fn wrong_methods_and_sizes() {
    let (test, _) = demo(0).await;
    let limits = Limits {
        body_bytes: 10_000,
        ..Limits::default()
    };
    let server = Server::start(vec![test.log.clone()], limits).await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "TRACE", "PATCH", "BREW"] {
        let answer = server.ask(method, "/demo/ct/v1/add-chain", &[]).await;
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("allow"), Some("POST, OPTIONS"));
    }
    for path in [
        "checkpoint",
        "tile/0/000",
        "ct/v1/get-roots",
        "log.v3.json",
        "",
    ] {
        let answer = server
            .ask("POST", &format!("/demo/{path}"), &[("content-length", "0")])
            .await;
        assert_eq!(answer.status, 405, "{path}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
    for path in [
        "ct/v1/add-chain",
        "ct/v1/add-pre-chain",
        "ct/v1/get-roots",
        "checkpoint",
    ] {
        let answer = server.ask("OPTIONS", &format!("/demo/{path}"), &[]).await;
        assert_eq!(answer.status, 204, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert!(
            answer
                .header("access-control-allow-methods")
                .unwrap()
                .contains("OPTIONS")
        );
    }
    let big = format!("{{\"chain\":[\"{}\"]}}", "A".repeat(10_000));
    let answer = server.post("/demo/ct/v1/add-chain", big.as_bytes()).await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (413, &"body_too_large".into())
    );
}

/// Statement 9.
#[tokio::test]
async fn roots_are_listed() {
    let (test, server) = demo(0).await;
    let answer = server.get("/demo/ct/v1/get-roots").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    let root = base64_simd::STANDARD.encode_to_string(test.ca.cert_der());
    assert_eq!(answer.json(), serde_json::json!({ "certificates": [root] }));
}

/// Statements 17 to 21.
#[tokio::test]
async fn the_checkpoint_verifies_and_is_not_cached() {
    let (test, server) = demo(5).await;
    let answer = server.get("/demo/checkpoint").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    let caching = answer.header("cache-control").unwrap();
    assert!(caching.contains("max-age=1"), "{caching}");
    assert_eq!(answer.text().lines().next(), Some("log.example/demo"));
    let lines: Vec<_> = answer.text().split('\n').collect();
    assert_eq!((lines[3], lines[5..].len()), ("", 1), "{lines:?}");
    let key = &test.log.config().key;
    let (checkpoint, _) =
        verify_checkpoint(&answer.body, "log.example/demo", key.public_key_spki()).unwrap();
    assert_eq!(checkpoint.size, 5);

    let tag = answer.header("etag").unwrap().to_owned();
    let again = server
        .ask("GET", "/demo/checkpoint", &[("if-none-match", &tag)])
        .await;
    assert_eq!((again.status, again.header("etag")), (304, Some(&*tag)));
    test.fill(1).await;
    let newer = server
        .ask("GET", "/demo/checkpoint", &[("if-none-match", &tag)])
        .await;
    assert_eq!(newer.status, 200);
    assert_ne!(newer.header("etag"), Some(&*tag));
}

/// Statements 22 to 24.
#[tokio::test]
async fn hash_tiles_of_every_width_and_no_more() {
    let (_test, server) = demo(300).await;
    let full = server.get("/demo/tile/0/000").await;
    assert_eq!((full.status, full.body.len()), (200, 8192));
    assert_eq!(
        full.header("content-type"),
        Some("application/octet-stream")
    );
    assert_eq!(
        full.header("cache-control"),
        Some("public, max-age=31536000, immutable")
    );
    assert_eq!(full.header("access-control-allow-origin"), Some("*"));
    assert_eq!(full.header("vary"), None);
    let hashes: Vec<_> = full
        .body
        .chunks(32)
        .map(|h| Hash::from_slice(h).unwrap())
        .collect();
    let above = server.get("/demo/tile/1/000.p/1").await;
    assert_eq!(above.body, lucarne_tlog::tile_root(&full.body).unwrap().0);

    for width in [1, 2, 100, 255] {
        let partial = server.get(&format!("/demo/tile/0/000.p/{width}")).await;
        assert_eq!(
            partial.body,
            full.body[..32 * width],
            "a prefix of the full tile"
        );
    }
    for width in 1..=44 {
        let partial = server.get(&format!("/demo/tile/0/001.p/{width}")).await;
        assert_eq!((partial.status, partial.body.len()), (200, 32 * width));
    }
    for path in [
        "0/001",
        "0/001.p/45",
        "0/002.p/1",
        "1/000",
        "1/000.p/2",
        "2/000.p/1",
        "data/001",
    ] {
        let answer = server.get(&format!("/demo/tile/{path}")).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(
            answer.header("cache-control"),
            Some("public, max-age=2"),
            "{path}"
        );
    }
    for path in [
        "0/000.p/0",
        "0/0",
        "0/000/",
        "6/000",
        "data/000.p/256",
        "x/000",
        "../checkpoint",
    ] {
        assert_eq!(
            server.get(&format!("/demo/tile/{path}")).await.status,
            404,
            "{path}"
        );
    }

    // The hashes are those of the entries (statement 25, and the leaves of 15).
    let data = server
        .ask(
            "GET",
            "/demo/tile/data/000",
            &[("accept-encoding", "identity")],
        )
        .await;
    let mut rest = &data.body[..];
    for hash in hashes {
        let mut leaf = Vec::new();
        TileLeafRef::read(&mut rest)
            .unwrap()
            .merkle_tree_leaf(&mut leaf);
        assert_eq!(leaf_hash(&leaf), hash);
    }
    assert!(rest.is_empty());
}

/// Statement 25: data tiles in every encoding.
#[tokio::test]
async fn data_tiles_in_the_encoding_that_is_asked_for() {
    let (_test, server) = demo(300).await;
    let path = "/demo/tile/data/000";
    let plain = server
        .ask("GET", path, &[("accept-encoding", "identity")])
        .await;
    assert_eq!(
        (plain.status, plain.header("content-encoding")),
        (200, None)
    );
    assert_eq!(plain.header("vary"), Some("accept-encoding"));
    assert_eq!(
        plain.header("content-type"),
        Some("application/octet-stream")
    );

    let stored = server.get(path).await;
    assert_eq!(stored.header("content-encoding"), Some("gzip"));
    assert!(stored.body.len() < plain.body.len());
    let gzip = server
        .ask(
            "GET",
            path,
            &[("accept-encoding", "gzip, deflate, br, zstd")],
        )
        .await;
    assert_eq!(
        (&gzip.body, gzip.header("content-encoding")),
        (&stored.body, Some("gzip"))
    );
    assert_eq!(gunzip(&gzip.body), plain.body);

    let zstd = loop {
        let answer = server
            .ask("GET", path, &[("accept-encoding", "zstd, gzip;q=0.9")])
            .await;
        match answer.header("content-encoding") {
            Some("gzip") => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            _ => break answer,
        }
    };
    assert_eq!(
        (zstd.status, zstd.header("content-encoding")),
        (200, Some("zstd"))
    );
    assert!(zstd.body.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));

    let tags = [&plain, &gzip, &zstd].map(|answer| answer.header("etag").unwrap().to_owned());
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
    for (tag, encoding) in tags.iter().zip(["identity", "gzip", "zstd"]) {
        let headers = [("accept-encoding", encoding), ("if-none-match", tag)];
        let answer = server.ask("GET", path, &headers).await;
        assert_eq!((answer.status, answer.header("etag")), (304, Some(&**tag)));
        assert_eq!(answer.header("vary"), Some("accept-encoding"));
    }

    // Partial tiles are a plain prefix, whoever asks.
    let partial = server
        .ask(
            "GET",
            "/demo/tile/data/000.p/7",
            &[("accept-encoding", "gzip")],
        )
        .await;
    assert_eq!(
        (partial.status, partial.header("content-encoding")),
        (200, None)
    );
    assert!(plain.body.starts_with(&partial.body) && !partial.body.is_empty());
    let last = server.get("/demo/tile/data/001.p/44").await;
    assert_eq!(last.status, 200);
}

fn gunzip(packed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut plain).unwrap();
    plain
}

#[tokio::test]
async fn ranges_and_heads() {
    let (_test, server) = demo(300).await;
    let full = server.get("/demo/tile/0/000").await;
    let part = server
        .ask("GET", "/demo/tile/0/000", &[("range", "bytes=32-63")])
        .await;
    assert_eq!((part.status, &part.body[..]), (206, &full.body[32..64]));
    assert_eq!(part.header("content-range"), Some("bytes 32-63/8192"));
    let beyond = server
        .ask("GET", "/demo/tile/0/000", &[("range", "bytes=8192-")])
        .await;
    assert_eq!(
        (beyond.status, beyond.header("content-range")),
        (416, Some("bytes */8192"))
    );

    // A range of a data tile is one of its plain bytes, even if gzip would do.
    let plain = server
        .ask(
            "GET",
            "/demo/tile/data/000",
            &[("accept-encoding", "identity")],
        )
        .await;
    let headers = [("accept-encoding", "gzip"), ("range", "bytes=-100")];
    let part = server.ask("GET", "/demo/tile/data/000", &headers).await;
    assert_eq!((part.status, part.header("content-encoding")), (206, None));
    assert_eq!(part.body, plain.body[plain.body.len() - 100..]);
    let stale = [("range", "bytes=0-9"), ("if-range", "\"another\"")];
    assert_eq!(
        server.ask("GET", "/demo/tile/0/000", &stale).await.status,
        200
    );

    for path in [
        "checkpoint",
        "tile/0/000",
        "tile/data/000",
        "log.v3.json",
        "",
        "ct/v1/get-roots",
    ] {
        let get = server.get(&format!("/demo/{path}")).await;
        let head = server.ask("HEAD", &format!("/demo/{path}"), &[]).await;
        assert_eq!(head.status, 200, "{path}");
        assert_eq!(
            head.header("content-type"),
            get.header("content-type"),
            "{path}"
        );
        assert_eq!(
            head.header("content-length"),
            get.header("content-length"),
            "{path}"
        );
        assert!(head.body.is_empty());
    }
}

/// Statements 7 and 27.
#[tokio::test]
async fn every_issuer_is_served() {
    let (test, server) = demo(0).await;
    // The root is left out, and must be served all the same.
    let chain = lucarne_mint::Chain::new(vec![test.chain("www.example").certificates()[0].clone()]);
    let answer = server
        .post("/demo/ct/v1/add-chain", chain.to_json().as_bytes())
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let data = server.get("/demo/tile/data/000.p/1").await;
    let leaf = TileLeafRef::read(&mut &data.body[..]).unwrap();
    let fingerprints: Vec<Fingerprint> = leaf.fingerprints.collect();
    assert_eq!(fingerprints, [Fingerprint::of(test.ca.cert_der())]);
    for fingerprint in fingerprints {
        let issuer = server.get(&format!("/demo/issuer/{fingerprint}")).await;
        assert_eq!((issuer.status, &issuer.body[..]), (200, test.ca.cert_der()));
        assert_eq!(issuer.header("content-type"), Some("application/pkix-cert"));
        assert_eq!(Fingerprint::of(&issuer.body), fingerprint);
    }
    let unknown = server
        .get(&format!("/demo/issuer/{}", "00".repeat(32)))
        .await;
    assert_eq!(unknown.status, 404);
}

/// Statement 33.
#[tokio::test]
async fn log_json_is_ready_to_paste() {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.policy.not_after_start = Some(1_767_225_600_000);
        config.policy.not_after_limit = Some(4_070_908_800_000);
    })
    .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let answer = server.get("/demo/log.v3.json").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    insta::assert_snapshot!(answer.text());
}

#[tokio::test]
async fn a_retired_shard_is_gone_for_submitters_and_there_for_readers() {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.policy.not_after_start = Some(1_000_000_000_000);
        config.policy.not_after_limit = Some(1_100_000_000_000);
    })
    .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let body = test.chain("www.example").to_json();
    let answer = server.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (410, &"gone".into())
    );
    assert_eq!(server.get("/demo/checkpoint").await.status, 200);
    let json = server.get("/demo/log.v3.json").await.json();
    assert_eq!(json["status"], "readonly");
    assert_eq!(json["final_tree_head"]["tree_size"], 0);
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_stopped_log_says_when_to_come_back_and_is_still_read() {
    let (test, server) = demo(3).await;
    test.lock.fail(Some("the lock is out of order"));
    let body = test.chain("www.example").to_json();
    let answer = server.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    let retry: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&retry), "{retry}");
    assert!(
        !answer.text().contains("out of order"),
        "not for the public: {}",
        answer.text()
    );
    assert_eq!(server.get("/demo/checkpoint").await.status, 200);
    assert_eq!(server.get("/demo/tile/data/000.p/3").await.status, 200);
    let health = server.get("/health").await;
    assert_eq!(health.status, 503);
    let json = health.json();
    assert_eq!(
        (&json["status"], &json["logs"][0]["healthy"]),
        (&"failing".into(), &false.into())
    );
    assert!(health.text().contains("out of order"), "{}", health.text());
}

#[tokio::test]
async fn a_full_pool_is_503_with_seconds() {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.pool_size = 1;
        config.period = std::time::Duration::from_millis(1000);
    })
    .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let mut answers = Vec::new();
    for n in 0..8 {
        let mut client = server.connect().await;
        let body = test.chain(&format!("n{n}.example")).to_json();
        client.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
        answers.push(client);
    }
    let mut full = 0;
    for mut client in answers {
        let answer = client.answer().await.unwrap();
        if answer.status == 503 {
            full += 1;
            assert_eq!(answer.json()["code"], "pool_full");
            assert!(
                answer
                    .header("retry-after")
                    .unwrap()
                    .parse::<u32>()
                    .unwrap()
                    >= 1
            );
        } else {
            assert_eq!(answer.status, 200);
        }
    }
    assert!(full > 0);
}

#[tokio::test]
async fn several_logs_and_what_is_about_them() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let one = TestLog::start_with("one", &metrics, |_| {}).await;
    let two = TestLog::start_with("two", &metrics, |config| {
        config.submission_prefix = "https://submit.example:8443/two/in".into();
        config.monitoring_prefix = "http://read.example/two/out/".into();
    })
    .await;
    let logs = vec![one.log.clone(), two.log.clone()];
    let server = Server::start_with(logs, Limits::default(), registry, |l| l).await;

    assert!(
        server
            .get("/one/checkpoint")
            .await
            .text()
            .starts_with("log.example/one\n")
    );
    assert!(
        server
            .get("/two/out/checkpoint")
            .await
            .text()
            .starts_with("log.example/two\n")
    );
    assert_eq!(server.get("/two/in/checkpoint").await.status, 404);
    assert_eq!(server.get("/two/in/ct/v1/get-roots").await.status, 200);
    assert_eq!(server.get("/two/out/ct/v1/get-roots").await.status, 404);
    let elsewhere = server.get("/two/in/").await;
    assert_eq!(elsewhere.status, 303);
    assert_eq!(
        elsewhere.header("location"),
        Some("http://read.example/two/out/")
    );
    let slash = server.get("/one").await;
    assert_eq!(
        (slash.status, slash.header("location")),
        (301, Some("/one/"))
    );

    let lost = server.get("/nowhere").await;
    assert_eq!(lost.status, 404);
    assert!(
        lost.text().contains("one: http://log.example/one/"),
        "{}",
        lost.text()
    );

    let index = server.get("/").await;
    assert!(index.text().contains("the log one") && index.text().contains("the log two"));
    let health = server.get("/health").await;
    assert_eq!(
        (
            health.status,
            health.json()["logs"].as_array().unwrap().len()
        ),
        (200, 2)
    );
    let metrics = server.get("/metrics").await;
    assert!(
        metrics
            .header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    for line in [
        "lucarne_http_requests_total{log=\"one\",endpoint=\"checkpoint\",code=\"200\"} 1",
        "lucarne_tree_size{log=\"two\"} 0",
        "# EOF",
    ] {
        assert!(
            metrics.text().contains(line),
            "{line} not in\n{}",
            metrics.text()
        );
    }
}

#[tokio::test]
async fn pages_are_whole_and_locked_down() {
    let (test, server) = demo(3).await;
    let page = server.get("/demo/").await;
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    let key = &test.log.config().key;
    for shown in [
        base64_simd::STANDARD.encode_to_string(key.log_id().0),
        base64_simd::STANDARD.encode_to_string(key.public_key_spki()),
        "http://log.example/demo/ct/v1/add-chain".to_owned(),
        "<b id=\"size\">3</b>".to_owned(),
        "1 certificate<".to_owned(),
    ] {
        assert!(
            page.text().contains(&shown),
            "{shown} not in\n{}",
            page.text()
        );
    }
    assert!(!page.text().contains("<script>") && !page.text().contains("style="));
    for (path, kind) in [("page.js", "text/javascript"), ("page.css", "text/css")] {
        let asset = server.get(&format!("/demo/{path}")).await;
        assert!(asset.header("content-type").unwrap().starts_with(kind));
    }
    let stats = server.get("/demo/stats.json").await.json();
    assert_eq!(
        (&stats["size"], &stats["state"]),
        (&3.into(), &"running".into())
    );
}

#[tokio::test]
async fn what_is_said_in_a_log_is_not_html() {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.description = "<script>alert(1)</script>".into();
    })
    .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    for path in ["/", "/demo/"] {
        let page = server.get(path).await;
        assert!(!page.text().contains("<script>alert"), "{}", page.text());
    }
}

#[tokio::test]
async fn listeners_serve_what_they_are_told_to() {
    let test = TestLog::start("demo").await;
    let outside = Server::start_surface(vec![test.log.clone()], Surface::Logs).await;
    assert_eq!(outside.get("/demo/checkpoint").await.status, 200);
    assert_eq!(outside.get("/metrics").await.status, 404);
    assert_eq!(outside.get("/health").await.status, 404);
    let inside = Server::start_surface(vec![test.log.clone()], Surface::Operations).await;
    assert_eq!(inside.get("/demo/checkpoint").await.status, 404);
    assert_eq!(inside.get("/metrics").await.status, 200);
    assert_eq!(inside.get("/health").await.status, 200);
}

/// A log at the root leaves the site's own paths alone.
#[tokio::test]
async fn a_log_at_the_root_of_its_host() {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.submission_prefix = "http://127.0.0.1:6962".into();
        config.monitoring_prefix = "http://127.0.0.1:6962/".into();
    })
    .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    assert_eq!(server.get("/checkpoint").await.status, 200);
    assert_eq!(server.get("/metrics").await.status, 200);
    assert_eq!(server.get("/health").await.status, 200);
    assert_eq!(server.get("/ct/v1/get-roots").await.status, 200);
    assert!(
        server
            .get("/")
            .await
            .text()
            .contains("<b id=\"size\">0</b>"),
        "the log's page"
    );
    assert_eq!(server.get("/page.js").await.status, 200);
    assert_eq!(server.get("/x").await.status, 404);
    let chain = test.chain("www.example");
    assert!(Chain::from_ders(chain.certificates()).is_ok());
    assert_eq!(
        server
            .post("/ct/v1/add-chain", chain.to_json().as_bytes())
            .await
            .status,
        200
    );
}
