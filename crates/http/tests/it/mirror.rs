//! The endpoints of a mirror (C2SP tlog-mirror): statuses, bodies, codings, limits and tiles.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use lucarne_cosign::mirror::EntryFormat;
use lucarne_cosign::{LogKeys, Mirror, TrustedKey, Witness};
use lucarne_http::{Cosigners, Limits, MirrorService};
use lucarne_storage::memory::Operation;
use lucarne_storage::{AssetError, MemoryAssets, MemoryLock};
use lucarne_testkit::PushedLog;
use lucarne_tlog::note::parse_signatures;
use lucarne_tlog::{Cosigner, SignedNote};
use prometheus_client::registry::Registry;

use crate::support::{Answer, Server};

const ORIGIN: &str = "log.example/2026h2";

/// A served mirror of one log.
struct Served {
    server: Server,
    log: PushedLog,
    assets: MemoryAssets,
}

impl Served {
    async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    async fn with(limits: Limits) -> Self {
        let key = Cosigner::ml_dsa_44(ORIGIN, &[4; 32]).unwrap();
        let log = PushedLog::with_key(key, 1000);
        let (cosigner, secret) = lucarne_ct::mirror_cosigner(&[5; 32], "mirror.example").unwrap();
        let mut keys = LogKeys::default();
        keys.add(ORIGIN, TrustedKey::Note(log.key.verifier().clone()));
        let witness = Witness::new([cosigner], keys, Arc::new(MemoryLock::new())).unwrap();
        let assets = MemoryAssets::new();
        let store = Arc::new(assets.clone());
        let logs = [(ORIGIN.to_owned(), EntryFormat::Bundles, store as _)];
        let mirror = Mirror::new(witness, &secret, logs);
        let mut registry = Registry::default();
        let prefix = "http://m.example/m/".to_owned();
        let service = MirrorService::new(Arc::new(mirror), prefix.clone(), prefix, &mut registry);
        let server = Server::start_with(Vec::new(), limits, registry, |listener| listener).await;
        let cosigners = Cosigners {
            mirror: Some(service),
            ..Cosigners::default()
        };
        server.site.serve_cosigners(cosigners).unwrap();
        Served {
            server,
            log,
            assets,
        }
    }

    async fn pending(&self, old: u64, size: u64) -> Answer {
        let body = self.log.request(old, size).to_string();
        self.server.post("/m/add-checkpoint", body.as_bytes()).await
    }

    /// Sends a body to `add-entries`. The server may respond before it has the whole body.
    async fn send(&self, headers: &str, body: &[u8]) -> Answer {
        let mut client = self.server.connect().await;
        let head = format!(
            "POST /m/add-entries HTTP/1.1\r\nhost: m.example\r\ncontent-length: {}\r\n{headers}\r\n",
            body.len()
        );
        client.send(head.as_bytes()).await;
        for piece in body.chunks(1 << 16) {
            use tokio::io::AsyncWriteExt;
            if client.stream.write_all(piece).await.is_err() {
                break;
            }
        }
        client.answer().await.unwrap()
    }

    async fn entries(&self, body: &[u8]) -> Answer {
        self.send("content-type: application/octet-stream\r\n", body)
            .await
    }

    async fn file(&self, path: &str) -> Answer {
        let hash = hex::encode(lucarne_ct::sha256(&[ORIGIN.as_bytes()]));
        self.server.get(&format!("/m/{hash}/{path}")).await
    }
}

/// Returns the three lines of a response.
fn info(answer: &Answer) -> (u64, u64, Vec<u8>) {
    assert_eq!(
        answer.header("content-type"),
        Some("text/x.tlog.mirror-info")
    );
    let mut lines = answer.text().split('\n');
    let mut number = || lines.next().unwrap().parse().unwrap();
    let (size, next) = (number(), number());
    let ticket = base64_simd::STANDARD
        .decode_to_vec(lines.next().unwrap())
        .unwrap();
    assert_eq!((lines.next(), lines.next()), (Some(""), None));
    (size, next, ticket)
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(body).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test]
async fn uploads_in_both_codings_are_cosigned_and_served() {
    let served = Served::start().await;
    let log = &served.log;
    // The state is loaded by the first upload.
    let early = served.file("checkpoint").await;
    assert_eq!(
        (early.status, early.header("retry-after")),
        (503, Some("1"))
    );
    let added = served.pending(0, 700).await;
    assert_eq!((added.status, added.text()), (200, ""));
    let partial = served.entries(&log.upload(0, 700, b"", 1)).await;
    assert_eq!(partial.status, 202, "{}", partial.text());
    let (size, next, ticket) = info(&partial);
    assert_eq!((size, next), (700, 256));
    assert_eq!(served.file("checkpoint").await.status, 404);

    let headers = "content-type: application/octet-stream\r\ncontent-encoding: gzip\r\n";
    let rest = gzip(&log.upload(256, 700, &ticket, 9));
    let cosigned = served.send(headers, &rest).await;
    assert_eq!(cosigned.status, 200, "{}", cosigned.text());
    assert_eq!(cosigned.header("accept-encoding"), Some("gzip"));
    let lines = parse_signatures(cosigned.text()).unwrap();
    let (key, _) = lucarne_ct::mirror_cosigner(&[5; 32], "mirror.example").unwrap();
    let text = log.request(0, 700).note.text;
    let note = SignedNote {
        text,
        signatures: lines,
    };
    assert!(key.verifier().verify(&note).unwrap().unwrap() > 0);
    log.assert_complete(&served.assets, 700).await;

    let checkpoint = served.file("checkpoint").await;
    assert_eq!(
        checkpoint.header("cache-control"),
        Some("public, max-age=1, must-revalidate")
    );
    assert!(checkpoint.text().ends_with(cosigned.text()));
    let bundle = log.package(0..256, 700).entries;
    let forever = Some("public, max-age=31536000, immutable");
    for (path, bytes) in [
        ("tile/entries/000", &bundle),
        // A reader can have any width below the checkpoint.
        ("tile/entries/000.p/7", &log.package(0..7, 700).entries),
    ] {
        let answer = served.file(path).await;
        assert_eq!(
            (answer.status, answer.header("cache-control")),
            (200, forever),
            "{path}"
        );
        assert_eq!(
            answer.header("content-type"),
            Some("application/octet-stream")
        );
        let plain = lucarne_ctread::gunzip(answer.body.into()).unwrap();
        assert!(plain == bytes[..], "{path}");
    }
    for (path, status) in [
        ("tile/0/001", 200),
        ("tile/0/001.p/3", 200),
        ("tile/0/002.p/188", 200),
        ("tile/1/000.p/2", 200),
        ("tile/0/002.p/189", 404),
        ("tile/entries/002.p/189", 404),
        ("tile/data/000", 404),
        ("tile/names/000", 404),
    ] {
        assert_eq!(served.file(path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn refused_requests() {
    let served = Served::start().await;
    let log = &served.log;
    let upload = |start, end| log.upload(start, end, b"", 9);
    assert_eq!(
        served.entries(&upload(0, 300)).await.status,
        422,
        "no pending checkpoint"
    );
    assert_eq!(served.pending(0, 300).await.status, 200);
    assert_eq!(served.pending(0, 700).await.status, 409);
    assert_eq!(served.pending(300, 700).await.status, 200);

    let other = PushedLog::new("other.example", 300);
    let unknown = served.entries(&other.upload(0, 300, b"", 9)).await;
    assert_eq!(unknown.status, 404);
    for (start, end) in [(0, 299), (1, 300), (257, 700)] {
        let refused = served.entries(&upload(start, end)).await;
        assert_eq!(refused.status, 409, "{start} {end}");
        let (size, next, _) = info(&refused);
        assert_eq!((size, next), (if end == 299 { 700 } else { end }, 0));
    }
    // More entries than any checkpoint has.
    let mut large = log.upload(0, 300, b"", 0);
    large[2 + ORIGIN.len() + 8] = 255;
    let refused = served.entries(&large).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    let mut after_end = upload(0, 300);
    after_end[2 + ORIGIN.len() + 7] = 255;
    after_end[2 + ORIGIN.len() + 6] = 255;
    let no_package = log.upload(0, 300, b"", 0);
    let whole = upload(0, 700);
    let mut too_long = log.upload(0, 300, b"", 1);
    let proof = too_long.len() - 1 - 32 * log.package(0..256, 300).proof.len();
    too_long[proof] = 64;
    for (body, status) in [
        (&after_end[..], 400),
        (b"", 400),
        (&no_package, 400),
        (&whole[..whole.len() / 4], 400),
        (&too_long, 400),
    ] {
        assert_eq!(served.entries(body).await.status, status);
    }
    let mut wrong = upload(0, 300);
    wrong[2 + ORIGIN.len() + 16 + 2 + 5] ^= 1;
    let refused = served.entries(&wrong).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(served.assets.paths().is_empty(), "nothing of it is stored");

    // The packages before a truncated one stay.
    let truncated = served.entries(&whole[..whole.len() - 1]).await;
    assert_eq!((truncated.status, info(&truncated).1), (202, 512));
    for (headers, status) in [
        ("content-type: text/plain\r\n", 415),
        ("", 415),
        (
            "content-type: application/octet-stream\r\ncontent-encoding: br\r\n",
            415,
        ),
        (
            "content-type: application/octet-stream\r\ncontent-encoding: gzip\r\n",
            400,
        ),
    ] {
        assert_eq!(
            served.send(headers, &whole).await.status,
            status,
            "{headers}"
        );
    }
    assert_eq!(
        served.server.ask("GET", "/m/add-entries", &[]).await.status,
        405
    );
    assert!(
        served
            .server
            .metric("lucarne_mirror_refusals_total{code=\"bad_upload\"}")
            > 5
    );
}

/// A gibibyte of zeros in gzip is an upload of empty entries: the first package is refused. The
/// largest entries need the budget of their client.
#[tokio::test]
async fn bombs_and_large_entries_are_bounded() {
    let limits = Limits {
        client_inflight_bytes: 2 << 20,
        ..Limits::default()
    };
    let served = Served::with(limits).await;
    assert_eq!(served.pending(0, 1000).await.status, 200);
    let head = served.log.upload(0, 1000, b"", 0);
    let headers = "content-type: application/octet-stream\r\ncontent-encoding: gzip\r\n";
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&head).unwrap();
    for _ in 0..1024 {
        bomb.write_all(&[0; 1 << 20]).unwrap();
    }
    let refused = served.send(headers, &bomb.finish().unwrap()).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert_eq!(served.server.metric("lucarne_http_inflight_bytes"), 0);

    let mut large = head;
    for _ in 0..256 {
        large.extend_from_slice(&[255, 255]);
        large.resize(large.len() + 65_535, 7);
    }
    let refused = served.send(headers, &gzip(&large)).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
}

/// An upload that waits for its client holds the bytes that are not stored, and no more.
#[tokio::test]
async fn stored_packages_are_not_held() {
    let served = Served::start().await;
    assert_eq!(served.pending(0, 700).await.status, 200);
    let mut body = served.log.upload(0, 700, b"", 1);
    // The first byte of the next package.
    body.push(0);
    let head = "POST /m/add-entries HTTP/1.1\r\nhost: m.example\r\ncontent-length: 1000000\r\n\
                content-type: application/octet-stream\r\n\r\n";
    let mut open = Vec::new();
    for _ in 0..5 {
        let mut client = served.server.connect().await;
        client.send(&[head.as_bytes(), &body].concat()).await;
        open.push(client);
    }
    served.server.counts("lucarne_http_inflight_bytes", 5).await;
}

#[tokio::test]
async fn pending_checkpoints_count_no_failures() {
    let served = Served::start().await;
    assert_eq!(served.pending(0, 300).await.status, 200);
    served.assets.inject(|operation| {
        (operation == Operation::Publish).then(|| AssetError::Silent {
            directory: "memory".to_owned(),
        })
    });
    let refused = served.entries(&served.log.upload(0, 300, b"", 9)).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    let name = format!("lucarne_mirror_failures_total{{origin=\"{ORIGIN}\"}}");
    assert_eq!(served.server.metric(&name), 1);
    assert_eq!(served.pending(300, 700).await.status, 200);
    assert_eq!(served.server.metric(&name), 1);
}

#[tokio::test]
async fn the_mirror_describes_itself_and_its_logs() {
    let served = Served::start().await;
    let about = served.server.get("/m/mirror.v0.json").await.json();
    assert_eq!(about["name"], "mirror.example");
    assert_eq!(about["verifier_keys"].as_array().unwrap().len(), 1);
    let list = served.server.get("/m/log-list.txt").await;
    let listed = lucarne_cosign::LogList::parse(&list.body).unwrap();
    assert_eq!(listed.logs.len(), 1);
    assert_eq!(served.pending(0, 700).await.status, 200);
    let health = served.server.get("/health").await;
    assert_eq!(health.status, 200);
    let health = health.json();
    let log = &health["mirror"]["logs"][0];
    assert_eq!((&log["origin"], &log["lag"]), (&ORIGIN.into(), &700.into()));
    let origin = format!("{{origin=\"{ORIGIN}\"}}");
    assert_eq!(
        served
            .server
            .metric(&format!("lucarne_mirror_lag_entries{origin}")),
        700
    );
    let body = served.log.upload(0, 700, b"", 9);
    assert_eq!(served.entries(&body).await.status, 200);
    assert_eq!(
        served
            .server
            .metric(&format!("lucarne_mirror_lag_entries{origin}")),
        0
    );
    assert_eq!(
        served
            .server
            .metric(&format!("lucarne_mirror_entries{origin}")),
        700
    );
}
