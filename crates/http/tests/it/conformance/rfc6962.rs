//! Tests of the read endpoints of RFC 6962: proofs are compared with the definitions of section 2.1
//! (`merkle.rs`), and entries with the bytes of the data tiles, which are parsed by hand.

mod merkle;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use base64_simd::STANDARD;
use lucarne_ct::{Chain, EntryKind, Fingerprint};
use lucarne_http::Limits;
use lucarne_log::{LogConfig, Metrics, State};
use lucarne_mint::{CaOptions, KeyType, LeafOptions, Poison};
use lucarne_storage::Assets;
use prometheus_client::registry::Registry;
use serde_json::Value;

use self::merkle::{Hash, leaf, mth, path, proof};
use crate::support::{Answer, Server, TestLog};

/// The responses depend on the query, so that no shared cache may keep them.
const FOREVER: &str = "private, max-age=31536000, immutable";

/// Starts a log with these endpoints, below a CA that is not its root.
async fn start(change: impl FnOnce(&mut LogConfig)) -> (TestLog, Server) {
    let metrics = Metrics::register(&mut Registry::default());
    let mut test = TestLog::start_with("demo", &metrics, |config| {
        config.rfc6962_reads = Some(config.cache.join("leaves"));
        config.cache = config.cache.join("dedup");
        change(config);
    })
    .await;
    let intermediate = CaOptions::named("Intermediate", KeyType::EcdsaP256);
    test.ca = test.ca.intermediate(&intermediate).unwrap();
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    (test, server)
}

/// Adds entries until the log has `size` of them. Every third is a precertificate.
async fn grow(test: &TestLog, size: usize) {
    let from = test.log.published().unwrap().size as usize;
    let submissions = (from..size).map(|n| {
        let name = format!("n{n}.example");
        let mut options = LeafOptions::with_key([name.as_str()], test.leaf_key.clone());
        let kind = match n % 3 {
            0 => EntryKind::Precert,
            _ => EntryKind::X509,
        };
        options.scts = test.scts;
        options.poison = (kind == EntryKind::Precert).then_some(Poison::Last);
        let chain = test.ca.chain(test.ca.issue(&options).unwrap());
        let log = test.log.clone();
        tokio::spawn(async move {
            let chain = Chain::from_ders(chain.certificates()).unwrap();
            log.submit(kind, chain).await.unwrap()
        })
    });
    for submission in submissions.collect::<Vec<_>>() {
        submission.await.unwrap();
    }
    assert_eq!(test.log.published().unwrap().size as usize, size);
}

async fn ask(server: &Server, what: &str) -> Answer {
    server.get(&format!("/demo/ct/v1/{what}")).await
}

async fn json(server: &Server, what: &str) -> Value {
    let answer = ask(server, what).await;
    assert_eq!(answer.status, 200, "{what}: {}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    answer.json()
}

fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode_to_vec(value.as_str().unwrap()).unwrap()
}

fn hashes(value: &Value) -> Vec<Hash> {
    let hashes = value.as_array().unwrap().iter();
    hashes.map(|hash| bytes(hash).try_into().unwrap()).collect()
}

/// Returns the tree head of `get-sth` after verifying its signature (section 3.5).
async fn sth(test: &TestLog, server: &Server) -> (u64, Hash) {
    let sth = json(server, "get-sth").await;
    let size = sth["tree_size"].as_u64().unwrap();
    let root: Hash = bytes(&sth["sha256_root_hash"]).try_into().unwrap();
    let mut signed = vec![0, 1];
    signed.extend(sth["timestamp"].as_u64().unwrap().to_be_bytes());
    signed.extend(size.to_be_bytes());
    signed.extend(root);
    let signature = bytes(&sth["tree_head_signature"]);
    // sha256(4), ecdsa(3), and the signature with its length.
    assert_eq!(signature[..4], [4, 3, 0, signature.len() as u8 - 4]);
    let spki = test.log.config().key.public_key_spki();
    let point = &spki[spki.len() - 65..];
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
        .verify(&signed, &signature[4..])
        .unwrap();
    (size, root)
}

/// An entry of a data tile (static-ct-api, "Log Entries"): the bytes that the tree hashes, and the
/// rest.
struct TileEntry {
    leaf_input: Vec<u8>,
    precertificate: Option<Vec<u8>>,
    fingerprints: Vec<Hash>,
}

fn take<'b>(rest: &mut &'b [u8], length: usize) -> &'b [u8] {
    let (taken, left) = rest.split_at(length);
    *rest = left;
    taken
}

fn vector<'b>(rest: &mut &'b [u8], length_bytes: usize) -> &'b [u8] {
    let length = take(rest, length_bytes).iter();
    let length = length.fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    take(rest, length)
}

fn tile_entries(mut rest: &[u8]) -> Vec<TileEntry> {
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let whole = rest;
        take(&mut rest, 8);
        let is_precertificate = take(&mut rest, 2) == [0, 1];
        if is_precertificate {
            take(&mut rest, 32);
        }
        vector(&mut rest, 3);
        vector(&mut rest, 2);
        let timestamped = &whole[..whole.len() - rest.len()];
        let precertificate = is_precertificate.then(|| vector(&mut rest, 3).to_vec());
        let fingerprints = vector(&mut rest, 2).chunks(32);
        entries.push(TileEntry {
            // Version v1, leaf type timestamped_entry (section 3.4).
            leaf_input: [&[0, 0][..], timestamped].concat(),
            precertificate,
            fingerprints: fingerprints.map(|it| it.try_into().unwrap()).collect(),
        });
    }
    entries
}

/// Returns the entries of the whole log, parsed from its data tiles.
async fn entries_of_tiles(server: &Server, size: usize) -> Vec<TileEntry> {
    let mut entries = Vec::new();
    for (index, first) in (0..size).step_by(256).enumerate() {
        let width = match (size - first).min(256) {
            256 => String::new(),
            width => format!(".p/{width}"),
        };
        let tile = format!("/demo/tile/data/{index:03}{width}");
        let headers = [("accept-encoding", "identity")];
        let answer = server.ask("GET", &tile, &headers).await;
        assert_eq!(answer.status, 200, "{tile}");
        entries.extend(tile_entries(&answer.body));
    }
    assert_eq!(entries.len(), size);
    entries
}

/// Returns the expected `extra_data` (section 4.6).
async fn extra_data(server: &Server, entry: &TileEntry) -> Vec<u8> {
    let with_length = |bytes: &[u8]| {
        let length = &(bytes.len() as u32).to_be_bytes()[1..];
        [length, bytes].concat()
    };
    let mut chain = Vec::new();
    for fingerprint in &entry.fingerprints {
        let path = format!("/demo/issuer/{}", Fingerprint(*fingerprint));
        chain.extend(with_length(&server.get(&path).await.body));
    }
    let precertificate = entry.precertificate.as_deref().map(with_length);
    [precertificate.unwrap_or_default(), with_length(&chain)].concat()
}

/// Returns all entries, with as many requests as necessary.
async fn entries_of_the_log(server: &Server, size: usize) -> Vec<Value> {
    let mut entries = Vec::new();
    while entries.len() < size {
        let what = format!("get-entries?start={}&end={}", entries.len(), size - 1);
        let answer = json(server, &what).await;
        let some = answer["entries"].as_array().unwrap();
        assert!(!some.is_empty() && some.len() <= 256, "{}", some.len());
        entries.extend(some.iter().cloned());
    }
    assert_eq!(entries.len(), size);
    entries
}

fn escaped(hash: &Hash) -> String {
    let text = STANDARD.encode_to_string(hash);
    text.replace('+', "%2B")
        .replace('/', "%2F")
        .replace('=', "%3D")
}

/// The log signed a tree of each of these sizes; each proof is the one defined by the RFC.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_are_those_that_the_rfc_defines_as_the_log_grows() {
    const SIZES: [usize; 7] = [0, 1, 2, 255, 256, 257, 1000];
    let (test, server) = start(|_| {}).await;
    let mut roots = Vec::new();
    for size in SIZES {
        grow(&test, size).await;
        let (signed, root) = sth(&test, &server).await;
        assert_eq!(signed as usize, size);
        roots.push(root);
    }
    let entries = entries_of_the_log(&server, 1000).await;
    let tiles = entries_of_tiles(&server, 1000).await;
    let mut leaves = Vec::new();
    for (entry, tile) in entries.iter().zip(&tiles) {
        let leaf_input = bytes(&entry["leaf_input"]);
        assert_eq!(leaf_input, tile.leaf_input);
        leaves.push(leaf(&leaf_input));
    }
    for (entry, tile) in entries.iter().zip(&tiles).take(7) {
        assert_eq!(bytes(&entry["extra_data"]), extra_data(&server, tile).await);
        assert_eq!(tile.fingerprints.len(), 2, "intermediate and root");
    }
    assert!(tiles[0].precertificate.is_some() && tiles[1].precertificate.is_none());
    for (size, root) in SIZES.into_iter().zip(&roots) {
        assert_eq!(mth(&leaves[..size]), *root, "{size}");
    }
    for second in SIZES.into_iter().chain([3, 500, 513, 999]) {
        for first in SIZES.into_iter().chain([3, 254, 258, 512, 998]) {
            let what = format!("get-sth-consistency?first={first}&second={second}");
            if first > second {
                assert_eq!(ask(&server, &what).await.json()["code"], "bad_range");
                continue;
            }
            let expected = match first {
                0 => Vec::new(),
                _ => proof(first, &leaves[..second]),
            };
            let answer = ask(&server, &what).await;
            assert_eq!(answer.header("cache-control"), Some(FOREVER));
            assert_eq!(hashes(&answer.json()["consistency"]), expected, "{what}");
        }
    }
    for size in SIZES.into_iter().skip(1).chain([3, 511, 999]) {
        for index in [0, 1, 2, 254, 255, 256, 510, 998, 999] {
            let both = format!("get-entry-and-proof?leaf_index={index}&tree_size={size}");
            let hash = escaped(&leaves[index]);
            let by_hash = format!("get-proof-by-hash?hash={hash}&tree_size={size}");
            if index >= size {
                assert_eq!(ask(&server, &both).await.json()["code"], "beyond_tree");
                let unknown = ask(&server, &by_hash).await;
                assert_eq!(
                    (unknown.status, &unknown.json()["code"]),
                    (404, &"unknown_leaf".into())
                );
                continue;
            }
            let expected = path(index, &leaves[..size]);
            let found = json(&server, &both).await;
            assert_eq!(hashes(&found["audit_path"]), expected, "{both}");
            assert_eq!(found["leaf_input"], entries[index]["leaf_input"]);
            assert_eq!(found["extra_data"], entries[index]["extra_data"]);
            let found = json(&server, &by_hash).await;
            assert_eq!(found["leaf_index"], index as u64);
            assert_eq!(hashes(&found["audit_path"]), expected, "{by_hash}");
        }
    }
}

/// Responses during concurrent submissions belong to one tree, and stay true for later ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_grows_meanwhile_is_consistent() {
    let (test, server) = start(|_| {}).await;
    grow(&test, 5).await;
    let growing = async {
        for size in (40..=400).step_by(40) {
            grow(&test, size).await;
        }
    };
    let reading = async {
        let mut before = sth(&test, &server).await;
        while before.0 < 400 {
            let now = sth(&test, &server).await;
            let (first, second) = (before.0, now.0);
            let what = format!("get-sth-consistency?first={first}&second={second}");
            let proof = json(&server, &what).await;
            let proof: Vec<_> = hashes(&proof["consistency"])
                .into_iter()
                .map(lucarne_tlog::Hash)
                .collect();
            let roots = [before.1, now.1].map(lucarne_tlog::Hash);
            lucarne_tlog::verify_consistency(first, &roots[0], second, &roots[1], &proof).unwrap();
            let last = second - 1;
            let what = format!("get-entries?start={last}&end={}", last + 100);
            let entries = json(&server, &what).await;
            let hash = leaf(&bytes(&entries["entries"][0]["leaf_input"]));
            let what = format!(
                "get-proof-by-hash?hash={}&tree_size={second}",
                escaped(&hash)
            );
            let found = json(&server, &what).await;
            assert_eq!(found["leaf_index"], last);
            let path: Vec<_> = hashes(&found["audit_path"])
                .into_iter()
                .map(lucarne_tlog::Hash)
                .collect();
            let hash = lucarne_tlog::Hash(hash);
            lucarne_tlog::verify_inclusion(&hash, last, second, &roots[1], &path).unwrap();
            before = now;
        }
    };
    tokio::join!(growing, reading);
}

#[tokio::test]
async fn what_makes_no_sense_is_400_in_words() {
    let (test, server) = start(|_| {}).await;
    assert_eq!(sth(&test, &server).await, (0, mth(&[])));
    let empty = ask(&server, "get-entries?start=0&end=0").await;
    assert_eq!(
        (empty.status, &empty.json()["code"]),
        (400, &"beyond_tree".into())
    );
    grow(&test, 3).await;
    let hash = escaped(&[7; 32]);
    let short = STANDARD.encode_to_string([7; 31]);
    for (what, status, code) in [
        ("get-entries", 400, "missing_parameter"),
        ("get-entries?start=0", 400, "missing_parameter"),
        ("get-entries?end=0", 400, "missing_parameter"),
        ("get-entries?start=-1&end=0", 400, "bad_parameter"),
        ("get-entries?start=0&end=1e9", 400, "bad_parameter"),
        ("get-entries?start=00&end=0", 400, "bad_parameter"),
        (
            "get-entries?start=0&end=18446744073709551616",
            400,
            "bad_parameter",
        ),
        ("get-entries?start=0&start=0&end=0", 400, "bad_parameter"),
        ("get-entries?start=2&end=1", 400, "bad_range"),
        ("get-entries?start=3&end=3", 400, "beyond_tree"),
        (
            "get-entries?start=18446744073709551615&end=18446744073709551615",
            400,
            "beyond_tree",
        ),
        ("get-sth-consistency?first=2&second=1", 400, "bad_range"),
        ("get-sth-consistency?first=1&second=4", 400, "beyond_tree"),
        (
            "get-sth-consistency?first=1&second=18446744073709551615",
            400,
            "beyond_tree",
        ),
        ("get-sth-consistency?second=1", 400, "missing_parameter"),
        (
            "get-entry-and-proof?leaf_index=3&tree_size=3",
            400,
            "beyond_tree",
        ),
        (
            "get-entry-and-proof?leaf_index=0&tree_size=0",
            400,
            "beyond_tree",
        ),
        (
            "get-entry-and-proof?leaf_index=0&tree_size=4",
            400,
            "beyond_tree",
        ),
        (
            format!("get-proof-by-hash?hash={hash}").as_str(),
            400,
            "missing_parameter",
        ),
        (
            format!("get-proof-by-hash?hash={short}&tree_size=3").as_str(),
            400,
            "bad_parameter",
        ),
        ("get-proof-by-hash?hash=&tree_size=3", 400, "bad_parameter"),
        (
            format!("get-proof-by-hash?hash={hash}&tree_size=4").as_str(),
            400,
            "beyond_tree",
        ),
        (
            format!("get-proof-by-hash?hash={hash}&tree_size=3").as_str(),
            404,
            "unknown_leaf",
        ),
        (
            format!("get-proof-by-hash?hash={hash}&tree_size=0").as_str(),
            404,
            "unknown_leaf",
        ),
    ] {
        let answer = ask(&server, what).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (status, &code.into()),
            "{what}"
        );
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{what}");
        assert!(
            !answer.json()["detail"].as_str().unwrap().is_empty(),
            "{what}"
        );
    }
    // RFC 6962, section 4: unspecified fields are ignored.
    json(&server, "get-entries?x=1&start=0&end=0&y").await;
    let post = server.ask("POST", "/demo/ct/v1/get-sth", &[]).await;
    assert_eq!(post.status, 405);
    let options = server.ask("OPTIONS", "/demo/ct/v1/get-sth", &[]).await;
    assert_eq!(
        (
            options.status,
            options.header("access-control-allow-origin")
        ),
        (204, Some("*"))
    );
    let head = server
        .ask("HEAD", "/demo/ct/v1/get-entries?start=0&end=0", &[])
        .await;
    assert_eq!(head.status, 200);
}

#[tokio::test]
async fn answers_that_the_tree_cuts_short_are_not_kept() {
    let (test, server) = start(|_| {}).await;
    grow(&test, 300).await;
    let sth = ask(&server, "get-sth").await;
    assert_eq!(
        sth.header("cache-control"),
        Some("public, max-age=1, must-revalidate")
    );
    for (range, count, is_final) in [
        ("start=0&end=0", 1, true),
        ("start=0&end=255", 256, true),
        // Never more entries than a data tile has.
        ("start=0&end=18446744073709551615", 256, true),
        ("start=250&end=299", 6, true),
        ("start=256&end=299", 44, true),
        ("start=256&end=300", 44, false),
        ("start=299&end=9999", 1, false),
    ] {
        let answer = ask(&server, &format!("get-entries?{range}")).await;
        let entries = answer.json()["entries"].as_array().unwrap().len();
        let kept = answer.header("cache-control") == Some(FOREVER);
        assert_eq!((entries, kept), (count, is_final), "{range}");
    }
}

#[tokio::test]
async fn an_answer_has_a_bound_in_bytes() {
    let (mut test, server) = start(|_| {}).await;
    test.scts = 500;
    grow(&test, 90).await;
    let answer = ask(&server, "get-entries?start=0&end=89").await;
    let json = answer.json();
    let some = json["entries"].as_array().unwrap();
    let size =
        |entry: &Value| bytes(&entry["leaf_input"]).len() + bytes(&entry["extra_data"]).len();
    let sizes: Vec<_> = some.iter().map(size).collect();
    let total: usize = sizes.iter().sum();
    let largest = sizes.iter().max().unwrap();
    assert!(total <= 3 << 20 && total + largest > 3 << 20, "{total}");
    assert!(some.len() < 90);
    // The response never changes, and the client requests the rest next.
    assert_eq!(answer.header("cache-control"), Some(FOREVER));
    let tiles = entries_of_tiles(&server, 90).await;
    for (entry, tile) in entries_of_the_log(&server, 90).await.iter().zip(&tiles) {
        assert_eq!(bytes(&entry["leaf_input"]), tile.leaf_input);
    }
}

#[tokio::test]
async fn a_log_that_is_not_configured_for_it_says_so() {
    let (_test, server) = super::demo(2).await;
    for what in [
        "get-sth",
        "get-entries?start=0&end=0",
        "get-sth-consistency?first=1&second=2",
    ] {
        let answer = ask(&server, what).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (404, &"rfc6962_off".into())
        );
    }
}

/// A damaged file never causes a wrong proof or entry: the response is 503 until the file is
/// repaired.
#[tokio::test]
async fn a_damaged_file_is_503() {
    let (test, server) = start(|config| config.rounds.read_cache_bytes = 0).await;
    grow(&test, 300).await;
    grow(&test, 600).await;
    let by_hash = {
        let entries = json(&server, "get-entries?start=5&end=5").await;
        let hash = leaf(&bytes(&entries["entries"][0]["leaf_input"]));
        format!("get-proof-by-hash?hash={}&tree_size=600", escaped(&hash))
    };
    json(&server, &by_hash).await;
    let intermediate = format!("issuer/{}", Fingerprint::of(test.ca.cert_der()));
    let proofs = [
        "get-sth-consistency?first=100&second=600",
        "get-entry-and-proof?leaf_index=5&tree_size=600",
        by_hash.as_str(),
    ];
    let entries = [
        "get-entries?start=0&end=10",
        "get-entry-and-proof?leaf_index=5&tree_size=600",
    ];
    // The log restores files of rounds in the journal, and a hash tile from existing entries.
    test.assets.settle(u64::MAX).await.unwrap();
    let data = test.assets.get("tile/data/000").await.unwrap();
    for (file, affected) in [
        ("tile/0/000", &proofs[..]),
        ("tile/data/000", &entries[..]),
        (intermediate.as_str(), &entries[..]),
    ] {
        if file == "tile/0/000" {
            test.assets.tamper("tile/data/000", None);
        }
        let whole = test.assets.get(file).await.unwrap().unwrap();
        let mut damaged = whole.to_vec();
        let at = damaged.len() / 2;
        damaged[at] ^= 1;
        for tampered in [Some(damaged.into()), None] {
            test.assets.tamper(file, tampered);
            for what in affected {
                let answer = ask(&server, what).await;
                assert_eq!(
                    (answer.status, &answer.json()["code"]),
                    (503, &"damaged".into()),
                    "{file}: {what}"
                );
                assert!(answer.header("retry-after").is_some());
                assert_eq!(answer.header("cache-control"), Some("no-store"));
            }
        }
        test.assets.tamper(file, Some(whole));
        test.assets.tamper("tile/data/000", data.clone());
        for what in affected {
            eventually(&server, what, 200).await;
        }
    }
}

async fn eventually(server: &Server, what: &str, status: u16) -> Answer {
    let mut answer = ask(server, what).await;
    lucarne_testkit::eventually(&format!("{what} is {status}"), async || {
        answer = ask(server, what).await;
        answer.status == status
    })
    .await;
    answer
}

#[tokio::test]
async fn a_retired_log_is_read_on() {
    let (test, server) = start(|_| {}).await;
    grow(&test, 20).await;
    let (_, root) = sth(&test, &server).await;
    drop(server);
    let test = test
        .changed(|config| config.policy.not_after_limit = Some(1))
        .await;
    test.until(|log| log.state() == State::Retired && log.published().is_some())
        .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    assert_eq!(sth(&test, &server).await, (20, root));
    assert_eq!(
        ask(&server, "get-sth").await.header("log-state"),
        Some("retired")
    );
    let entries = entries_of_the_log(&server, 20).await;
    let hash = leaf(&bytes(&entries[7]["leaf_input"]));
    let by_hash = format!("get-proof-by-hash?hash={}&tree_size=20", escaped(&hash));
    // The index is opened at the same time.
    let found = eventually(&server, &by_hash, 200).await;
    assert_eq!(found.json()["leaf_index"], 7);
}
