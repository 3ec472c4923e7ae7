//! A monitor that knows only the URL can read all files of the static CT API. They match the
//! checkpoint and never change.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use crate::common::load::Load;
use crate::common::{EVENT_TIMEOUT, eventually, log, ready, run};
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use lucarne_ct::{CheckpointVerifier, TileLeafRef};
use lucarne_testkit::{Client, Response};

const ENTRIES: usize = 600;
/// Entries of the last data tile, and hashes of the last tile of level 0: 600 − 2 · 256.
const REST: usize = 88;

type Hash = [u8; 32];
/// Every immutable file by its path, with its ETag.
type Files = BTreeMap<String, (Bytes, String)>;

#[test]
fn a_stranger_reads_the_whole_log_and_it_never_changes() {
    let log = log("period: 20");
    let mut server = log.start().unwrap();
    let (files, checkpoint) = run(async {
        ready(&log).await;
        submit(Arc::new(Load::new(&log))).await;
        let checkpoint = checkpoint(&log.client()).await;
        let files = read_everything(&log.client(), &checkpoint).await;
        spot_checks(&log.client(), &files).await;
        one_content_in_every_encoding(&log.client(), &files).await;
        // The directory has the file for web servers that serve only the directory.
        let served = log.client().get("log.v3.json").await.unwrap();
        eventually(
            "log.v3.json lies in the directory as it is served",
            async || {
                let stored = std::fs::read(log.data().join("log.v3.json"));
                stored.is_ok_and(|stored| stored == served.body)
            },
        )
        .await;
        (files, checkpoint)
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());

    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let client = log.client();
        // The log has signed the same tree again since then.
        let after = self::checkpoint(&client).await;
        assert_eq!((after.size, after.root), (checkpoint.size, checkpoint.root));
        for (path, (before, tag)) in &files {
            let answer = client.get(path).await.unwrap();
            assert_eq!(answer.header("etag"), tag, "{path}");
            assert_eq!(answer.ok().unwrap(), before, "{path}");
        }
    });
    println!("{} files, the same after a restart", files.len());
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

async fn submit(load: Arc<Load>) {
    let each = async |load: Arc<Load>| {
        while load.count() < ENTRIES {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
    };
    let tasks: Vec<_> = (0..24).map(|_| tokio::spawn(each(load.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let report = load.settle_accounts().await;
    report.assert_clean();
    assert_eq!(report.size as usize, ENTRIES);
}

/// Reads the checkpoint, and verifies it with the key in `log.v3.json`.
async fn checkpoint(client: &Client) -> lucarne_tlog::Checkpoint {
    let about = client.get("log.v3.json").await.unwrap().json().unwrap();
    let decoded = |field: &str| {
        let text = about[field].as_str().unwrap();
        base64_simd::STANDARD.decode_to_vec(text).unwrap()
    };
    let key = decoded("key");
    assert_eq!(decoded("log_id"), digest(&SHA256, &key).as_ref());
    let url = about["submission_url"].as_str().unwrap();
    let origin = url.trim_start_matches("http://").trim_end_matches('/');
    let answer = client.get("checkpoint").await.unwrap();
    assert!(answer.header("content-type").starts_with("text/plain"));
    let verifier = CheckpointVerifier::new(origin, &key).unwrap();
    let (checkpoint, timestamp_ms) = verifier.verify(&answer.ok().unwrap()).unwrap();
    let now_ms = jiff::Timestamp::now().as_millisecond() as u64;
    // The timestamp is about now, even on a busy machine.
    assert!(now_ms.abs_diff(timestamp_ms) < 600_000);
    checkpoint
}

/// Reads data tiles, hash tiles and issuers, recomputes the hashes, and checks the partial tiles of
/// every width.
async fn read_everything(client: &Client, checkpoint: &lucarne_tlog::Checkpoint) -> Files {
    assert_eq!(checkpoint.size as usize, ENTRIES);
    let mut library = Library {
        client,
        files: Files::new(),
    };
    let mut leaves: Vec<Hash> = Vec::new();
    for path in ["000", "001", "002.p/88"] {
        let data = library.plain(&format!("tile/data/{path}")).await;
        let mut rest = data.as_slice();
        let mut ends = vec![0];
        while !rest.is_empty() {
            let entry = TileLeafRef::read(&mut rest).unwrap();
            assert_eq!(entry.index as usize, leaves.len());
            ends.push(data.len() - rest.len());
            let mut leaf = vec![0];
            entry.merkle_tree_leaf(&mut leaf);
            leaves.push(sha256(&leaf));
            for fingerprint in entry.fingerprints {
                let der = library.get(&format!("issuer/{fingerprint}")).await;
                assert_eq!(sha256(&der), fingerprint.0);
            }
        }
        library.partials("data", path, &data, &ends).await;
    }
    assert_eq!(leaves.len(), ENTRIES);
    assert_eq!(tree_hash(&leaves), checkpoint.root.0);
    library.hash_tiles(0, &leaves).await;
    let roots: Vec<Hash> = leaves.chunks_exact(256).map(tree_hash).collect();
    library.hash_tiles(1, &roots).await;
    library.nothing_beyond().await;
    library.files
}

struct Library<'a> {
    client: &'a Client,
    files: Files,
}

impl Library<'_> {
    async fn get(&mut self, path: &str) -> Bytes {
        if let Some((body, _)) = self.files.get(path) {
            return body.clone();
        }
        let answer = self.client.get(path).await.unwrap();
        assert!(answer.header("cache-control").contains("immutable"));
        let tag = answer.header("etag").to_owned();
        assert!(tag.len() > 2, "{path} has no ETag");
        let body = answer.ok().unwrap();
        self.files.insert(path.to_owned(), (body.clone(), tag));
        body
    }

    /// Returns a tile without its compression.
    async fn plain(&mut self, path: &str) -> Vec<u8> {
        unpacked(&self.get(path).await)
    }

    async fn hash_tiles(&mut self, level: u8, hashes: &[Hash]) {
        for (number, chunk) in hashes.chunks(256).enumerate() {
            let level = level.to_string();
            let name = match chunk.len() {
                256 => format!("{number:03}"),
                width => format!("{number:03}.p/{width}"),
            };
            let tile = self.get(&format!("tile/{level}/{name}")).await;
            assert_eq!(tile, chunk.concat(), "{level}/{name}");
            let ends: Vec<usize> = (0..=chunk.len()).map(|n| n * 32).collect();
            self.partials(&level, &name, &tile, &ends).await;
        }
    }

    /// Checks all partial tiles of this tile; `ends[n]` is the end of the first n entries.
    async fn partials(&mut self, level: &str, name: &str, tile: &[u8], ends: &[usize]) {
        let number = name.split('.').next().unwrap();
        for width in 1..ends.len().min(256) {
            let path = format!("tile/{level}/{number}.p/{width}");
            let partial = self.plain(&path).await;
            assert_eq!(partial, &tile[..ends[width]], "{path}");
        }
    }

    async fn nothing_beyond(&self) {
        let not_yet = [
            format!("tile/data/002.p/{}", REST + 1),
            format!("tile/0/002.p/{}", REST + 1),
            "tile/data/002".into(),
            "tile/0/002".into(),
            "tile/0/003.p/1".into(),
            "tile/1/000".into(),
            "tile/1/000.p/3".into(),
            "tile/2/000.p/1".into(),
            "tile/5/000".into(),
            format!("issuer/{}", "0".repeat(64)),
            ".lucarne/lock".into(),
            "tile/../.lucarne/lock".into(),
        ];
        for path in not_yet {
            let answer = self.client.get(&path).await.unwrap();
            assert_eq!(answer.status, 404, "{path}");
            assert!(!answer.header("cache-control").contains("immutable"));
        }
    }
}

/// Checks HEAD, Range and conditional requests on one file of each kind.
async fn spot_checks(client: &Client, files: &Files) {
    let issuer = files.keys().find(|path| path.starts_with("issuer/"));
    let some = ["tile/0/000", "tile/0/002.p/88"];
    for path in some.into_iter().chain(issuer.map(String::as_str)) {
        let (body, tag) = &files[path];
        let ask = async |method: http::Method, header: (&str, &str)| -> Response {
            let asked = client.request(method, path, &[header], Bytes::new()).await;
            asked.unwrap()
        };
        let head = ask(http::Method::HEAD, ("accept", "*/*")).await;
        assert_eq!(
            (head.status.as_u16(), head.body.len()),
            (200, 0),
            "{path}: HEAD"
        );
        assert_eq!(head.header("content-length"), body.len().to_string());
        assert_eq!(head.header("etag"), tag);
        let known = ask(http::Method::GET, ("if-none-match", tag)).await;
        assert_eq!((known.status.as_u16(), known.body.len()), (304, 0));
        let part = ask(http::Method::GET, ("range", "bytes=32-63")).await;
        assert_eq!(
            (part.status.as_u16(), &part.body[..]),
            (206, &body[32..64]),
            "{path}: Range"
        );
        let range = format!("bytes 32-63/{}", body.len());
        assert_eq!(part.header("content-range"), range);
        let beyond = ask(http::Method::GET, ("range", "bytes=99999999-")).await;
        assert_eq!(beyond.status, 416, "{path}");
        assert_eq!(head.header("access-control-allow-origin"), "*");
    }
}

/// Checks that full and partial data tiles have the same content in every encoding.
async fn one_content_in_every_encoding(client: &Client, files: &Files) {
    for path in ["tile/data/000", "tile/data/001", "tile/data/002.p/88"] {
        let expected = unpacked(&files[path].0);
        for coding in ["identity", "gzip", "zstd", "gzip, deflate, br, zstd"] {
            let answer = client.get_with(path, &[("accept-encoding", coding)]).await;
            let answer = answer.unwrap();
            let varies = answer.header("vary");
            assert!(varies.eq_ignore_ascii_case("accept-encoding"), "{path}");
            assert_eq!(decoded(&answer), expected, "{path} in {coding}");
        }
    }
    eventually("zstd is ready", async || {
        let zstd = [("accept-encoding", "zstd, identity;q=0")];
        let answer = client.get_with("tile/data/000", &zstd).await.unwrap();
        answer.header("content-encoding") == "zstd"
            && decoded(&answer) == unpacked(&files["tile/data/000"].0)
    })
    .await;
}

fn decoded(answer: &Response) -> Vec<u8> {
    let body = &answer.clone().ok().unwrap()[..];
    match answer.header("content-encoding") {
        "" | "identity" => body.to_vec(),
        "gzip" => unpacked(body),
        "zstd" => zstd::decode_all(body).unwrap(),
        other => panic!("nobody asked for {other}"),
    }
}

fn unpacked(body: &[u8]) -> Vec<u8> {
    if !body.starts_with(&[0x1f, 0x8b]) {
        return body.to_vec();
    }
    let mut plain = Vec::new();
    let mut gzip = flate2::read::GzDecoder::new(body);
    gzip.read_to_end(&mut plain).unwrap();
    plain
}

fn sha256(bytes: &[u8]) -> Hash {
    digest(&SHA256, bytes).as_ref().try_into().unwrap()
}

/// Computes the root as defined in RFC 6962, section 2.1.
fn tree_hash(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => sha256(&[]),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            let mut node = vec![1];
            node.extend(tree_hash(left));
            node.extend(tree_hash(right));
            sha256(&node)
        }
    }
}
