//! The monitoring API: checkpoint, tiles, entries, issuers (static-ct-api, tlog-tiles).

use lucarne_ct::{Fingerprint, TileLeafRef, verify_checkpoint};
use lucarne_testkit::eventually;
use lucarne_tlog::{Hash, leaf_hash};

use super::demo;

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
    // Two signatures, and the end of the last line.
    assert_eq!((lines[3], lines[4..].len()), ("", 3), "{lines:?}");
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

/// No response depends on the query, so that a cache that ignores the query cannot mix up
/// responses.
#[tokio::test]
async fn no_answer_depends_on_a_query() {
    let (_test, server) = demo(5).await;
    for path in [
        "/demo/checkpoint",
        "/demo/tile/0/000.p/5",
        "/demo/tile/data/000.p/5",
    ] {
        let plain = server.get(path).await;
        assert_eq!(plain.status, 200, "{path}");
        for query in ["?first=1&second=3", "?first=2&second=5"] {
            let asked = server.get(&format!("{path}{query}")).await;
            assert_eq!(asked.status, 200, "{path}{query}");
            assert_eq!(asked.body, plain.body, "{path}{query}");
            assert_eq!(asked.header("etag"), plain.header("etag"), "{path}{query}");
        }
    }
    let proof = "/demo/ct/v1/get-sth-consistency?first=1&second=5";
    assert_eq!(server.get(proof).await.status, 404);
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
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
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

    // The hashes match the entries (statement 25, and the leaves of 15).
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

/// Names tiles (Sunlight's extension) have a line for each entry, in every width, with gzip or
/// without.
#[tokio::test]
async fn names_tiles_have_a_line_for_each_entry() {
    let (test, server) = demo(300).await;
    let plain = |path: &'static str| server.ask("GET", path, &[("accept-encoding", "identity")]);
    let full = plain("/demo/tile/names/000").await;
    assert_eq!((full.status, full.header("content-encoding")), (200, None));
    for (header, value) in [
        ("content-type", "application/jsonl; charset=utf-8"),
        ("cache-control", "public, max-age=31536000, immutable"),
        ("access-control-allow-origin", "*"),
        ("vary", "accept-encoding"),
    ] {
        assert_eq!(full.header(header), Some(value), "{header}");
    }
    let data = plain("/demo/tile/data/000").await;
    let (mut rest, mut due) = (&data.body[..], Vec::new());
    while !rest.is_empty() {
        let leaf = TileLeafRef::read(&mut rest).unwrap();
        lucarne_ct::TrimmedEntry::of(&leaf).write_line(&mut due);
    }
    assert_eq!(full.body, due);
    let lines: Vec<serde_json::Value> = full
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 256);
    assert!(
        lines
            .iter()
            .all(|line| !line["DNS"].as_array().unwrap().is_empty())
    );

    // The stored file equals the response, and the partial tile is a prefix of the full one.
    for path in ["tile/names/000", "tile/names/001.p/44"] {
        let served = server.get(&format!("/demo/{path}")).await;
        assert_eq!(served.header("content-encoding"), Some("gzip"));
        let stored = test.stored.store().get(path).await;
        assert_eq!(served.body, stored.unwrap().unwrap(), "{path}");
        let tag = served.header("etag").unwrap().to_owned();
        let path = format!("/demo/{path}");
        let again = server.ask("GET", &path, &[("if-none-match", &tag)]).await;
        assert_eq!(again.status, 304);
    }
    for width in [1, 100, 255] {
        let path = format!("/demo/tile/names/000.p/{width}");
        let partial = server.ask("GET", &path, &[("accept-encoding", "identity")]);
        let partial = partial.await.body;
        assert!(full.body.starts_with(&partial[..]));
        let lines = partial.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, width);
    }
    for path in ["001", "001.p/45", "002.p/1", "data/000", "0/000", "000.p/0"] {
        let answer = server.get(&format!("/demo/tile/names/{path}")).await;
        assert_eq!(answer.status, 404, "{path}");
    }
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

    let prefers_zstd = [("accept-encoding", "zstd, gzip;q=0.9")];
    let mut zstd = server.ask("GET", path, &prefers_zstd).await;
    // The tile is compressed in the background.
    eventually("the tile is there in zstd", async || {
        zstd = server.ask("GET", path, &prefers_zstd).await;
        zstd.header("content-encoding") != Some("gzip")
    })
    .await;
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

    // The same holds for partial tiles: of a full tile, the newest one, and its prefixes.
    for partial in ["000.p/7", "001.p/44", "001.p/43"] {
        let path = format!("/demo/tile/data/{partial}");
        let mut bodies = Vec::new();
        for accepted in ["gzip", "identity", "zstd, identity;q=0.5"] {
            let asked = [("accept-encoding", accepted)];
            let answer = server.ask("GET", &path, &asked).await;
            assert_eq!(answer.status, 200, "{path}");
            assert_eq!(answer.header("vary"), Some("accept-encoding"), "{path}");
            let packed = answer.header("content-encoding") == Some("gzip");
            assert_eq!(packed, accepted == "gzip", "{path}");
            assert_eq!(packed, answer.header("etag").unwrap().ends_with("-gz\""));
            bodies.push(if packed {
                gunzip(&answer.body)
            } else {
                answer.body
            });
        }
        assert!(!bodies[0].is_empty());
        assert!(bodies.iter().all(|body| *body == bodies[0]), "{path}");
        assert_eq!(
            plain.body.starts_with(&bodies[0]),
            partial.starts_with("000")
        );
        // A request without `Accept-Encoding`, as in the specification.
        assert_eq!(gunzip(&server.get(&path).await.body), bodies[0], "{path}");
    }
}

#[tokio::test]
async fn different_tiles_have_different_tags() {
    let (_test, server) = demo(600).await;
    let mut tags = std::collections::HashSet::new();
    let tiles = [
        "0/000",
        "0/001",
        "0/000.p/3",
        "0/002.p/1",
        "data/000",
        "data/001",
    ];
    for tile in tiles
        .into_iter()
        .chain(["data/000.p/3", "data/002.p/88", "data/002.p/87"])
    {
        let answer = server.get(&format!("/demo/tile/{tile}")).await;
        assert_eq!(answer.status, 200);
        let tag = answer.header("etag").unwrap().to_owned();
        let asked = [("if-none-match", &*tag)];
        let again = server
            .ask("GET", &format!("/demo/tile/{tile}"), &asked)
            .await;
        assert_eq!(again.status, 304, "{tile}");
        let other = server.ask("GET", "/demo/tile/1/000.p/1", &asked).await;
        assert_eq!(other.status, 200, "{tile}");
        assert!(tags.insert(tag), "{tile}: its tag is another's");
    }
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

    // A range of a data tile refers to the unencoded bytes, even if gzip is accepted.
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
    // The root is omitted from the submission, but must be served.
    let chain = lucarne_mint::Chain::new(vec![test.chain("www.example").certificates()[0].clone()]);
    let answer = server
        .post("/demo/ct/v1/add-chain", chain.to_json().as_bytes())
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let data = server.get("/demo/tile/data/000.p/1").await;
    let entries = gunzip(&data.body);
    let leaf = TileLeafRef::read(&mut &entries[..]).unwrap();
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
